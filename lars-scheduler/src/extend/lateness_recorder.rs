//! What began late in a system that is built on a scheduler.

use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::late::parts::{Culprit, Parts};
use crate::base::late::report::{Found, Record};
use crate::late::{Cause, Late, LateShare, Lateness, Who};
use lars_base::debug_fields;
use lars_base::rate::nanos;

/// What began late in a system that is built on a scheduler, as [`Lateness`] has it for tasks.
///
/// It keeps the sums, has at most one line a second written to the log, and calls a hook. Any
/// thread may use it; threads rarely meet in it.
///
/// # Examples
///
/// ```
/// use lars_scheduler::extend::LatenessRecorder;
/// use lars_scheduler::late::{Cause, LateShare, Who};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let log = |late: &lars_scheduler::late::Late<'_>| {
///     eprintln!("{} was {:?} late: {}", late.who, late.lateness, late.because());
/// };
/// let recorder = LatenessRecorder::new(ms(5), log);
/// let full = LateShare { cause: Cause::HandlerFull, culprit: None, time: ms(30) };
/// recorder.record(Who::Named("mail".into()), ms(40), [full]);
/// assert_eq!(recorder.table().rows[0].time, ms(30)); // the rest is unknown
/// ```
pub struct LatenessRecorder {
    /// In nanoseconds.
    bound: u64,
    record: Record,
    /// For the pauses of the log.
    clock: Clock,
}

/// Who began late, and why: for [`LatenessRecorder::record_again`].
#[derive(Debug)]
pub struct Explained(Found);

debug_fields!(|it: LatenessRecorder| bound: it.bound);

impl LatenessRecorder {
    /// Nothing is late yet, and later than `bound` will be. `log` writes a line to the log, with
    /// the target of the system. If it panics, that does no harm.
    pub fn new(bound: Duration, log: fn(&Late<'_>)) -> Self {
        Self { bound: nanos(bound), record: Record::new(log, None), clock: Clock::system() }
    }

    /// Has `hook` called by [`record`](Self::record). If it panics, that does no harm.
    pub fn on_late(mut self, hook: impl Fn(&Late<'_>) + Send + Sync + 'static) -> Self {
        self.record.hook = Some(Box::new(hook));
        self
    }

    /// How late something has to be.
    pub fn bound(&self) -> Duration {
        Duration::from_nanos(self.bound)
    }

    /// Something began so late. What `shares` leave over is [`Cause::Unknown`]; what they have too
    /// much is cut off at the end. Later than the bound or not, it is recorded.
    ///
    /// What is returned can stand for others that are late for the same reasons: where much is
    /// late, to find out why takes longer than to record it.
    pub fn record(
        &self,
        who: Who,
        lateness: Duration,
        shares: impl IntoIterator<Item = LateShare>,
    ) -> Explained {
        let late = nanos(lateness);
        let (mut parts, mut left) = (Parts::default(), late);
        for LateShare { cause, culprit, time } in shares {
            let own = nanos(time).min(left);
            parts.add(cause, culprit.map_or(Culprit::Nobody, Culprit::Who), own);
            left -= own;
        }
        parts.add(Cause::Unknown, Culprit::Nobody, left);
        let found = Found::new(Culprit::Who(who), late, parts);
        self.record.add(&found, self.clock.now());
        Explained(found)
    }

    /// The same began so late, for the same reasons in proportion.
    pub fn record_again(&self, explained: &Explained, lateness: Duration) {
        let late = nanos(lateness);
        let Found { who, parts, .. } = &explained.0;
        let found = Found::new(who.clone(), late, parts.scaled_to(late));
        self.record.add(&found, self.clock.now());
    }

    /// All that was recorded.
    pub fn table(&self) -> Lateness {
        Lateness::of(self.bound, self.record.all())
    }
}
