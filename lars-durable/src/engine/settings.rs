//! How a node is set up, and what it does unless it is told otherwise.

use std::time::Duration;

use lars_base::backoff::{BackoffBuilder, BackoffPolicy};

use crate::model::{Kept, Old, Recipient};
use crate::store::Terms;
use crate::sync::Arc;
use crate::time::Micros;

// What people may set. README and docs name these, too.

/// A longer one holds more timers in memory; a shorter one asks the store for loads more often.
pub(crate) const WINDOW: Duration = Duration::from_secs(30);

/// What a dead node leaves waits this long for another one. A shorter lease asks the store for
/// renewals more often, three in each, and is lost when it is slow for a moment.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Some seven megabytes: about 35 bytes for each.
pub(crate) const MAX_RESIDENT: usize = 200_000;

/// Many more than a pool has threads, for the sake of futures, which mostly wait.
pub(crate) const MAX_IN_FLIGHT: usize = 1_024;

/// A store may be restarted meanwhile, and a caller still hears of it while somebody waits.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Two and a half hours at the default backoff, at most: longer than most outages.
const MAX_ATTEMPTS: u32 = 25;

// What nobody may set.

/// A commit that is flushed takes some milliseconds. With this lead a run begins at its deadline,
/// and not a commit later; and a timer that has hardly any time left cannot be cancelled any more.
pub(crate) const LEAD: Micros = Micros::MILLISECOND.times(5);

/// Whoever comes next waits for the whole batch, and a larger one is hardly cheaper by the timer.
const BATCH: usize = 1_000;

/// How late a timer may be that its owner has not been told of, but for the grace of the sweep. An
/// idle node still asks for less than one transaction a second.
const SWEEP: Micros = Micros::SECOND.times(2);

/// The first death may be another timer's doing. From then on it runs alone, and the others are its
/// own.
const MAX_DEATHS: u32 = 3;

/// How long a timer without a handler is put off at first: another node may have one.
pub(super) const LEAST_PUT_OFF: Micros = Micros::SECOND.times(15);

/// How long at most. Between the two it is as long as it has waited, so it doubles.
pub(super) const MOST_PUT_OFF: Micros = Micros::SECOND.times(600);

/// After so long without anybody who can run it, a timer is parked.
pub(super) const UNKNOWN_FOR: Micros = Micros::DAY.times(14);

/// The settings that a node is made with.
#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    pub(crate) handlers: Vec<HandlerSettings>,
    /// How far ahead timers are loaded.
    pub(crate) window: Micros,
    /// How long a node may be silent before others take its buckets.
    pub(crate) lease: Micros,
    /// The store has no other owner as long as the process lives: the lease does not end.
    pub(crate) sole: bool,
    /// How long before its deadline a start is recorded.
    pub(crate) lead: Micros,
    /// How many timers a node holds in memory.
    pub(crate) max_resident: usize,
    /// How many runs may be in flight.
    pub(crate) max_in_flight: usize,
    /// How many of them in the first second after buckets were taken; doubles each second.
    pub(crate) ramp: usize,
    /// How many timers a transaction starts, finishes or schedules at most.
    pub(crate) batch: usize,
    /// How long a call is repeated while the store cannot be used.
    pub(crate) call_timeout: Micros,
    /// How often overdue timers are looked for.
    pub(crate) sweep: Micros,
    /// Which parked timers are kept.
    pub(crate) kept: Kept,
    /// Which runs that are over are remembered, and the name of this node; none, if it is `None`.
    pub(crate) history: Option<(Kept, Arc<str>)>,
    /// After this many deaths of the process during a timer's run, the timer is parked.
    pub(crate) max_deaths: u32,
    /// Whether it is to be known why runs are late.
    pub(crate) explains_late: bool,
}

/// What a node knows of a handler.
#[derive(Debug, Clone)]
pub(crate) struct HandlerSettings {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: BackoffPolicy,
    pub(crate) at_most_once: bool,
    /// Whose a timer is, by the beginning of its payload, if the handler serves many recipients.
    /// The timers of one start in their order even after a crash, and none takes all the places.
    pub(crate) recipient: Option<fn(&str) -> Recipient>,
    /// The newest version of a payload that it can read.
    pub(crate) newest: u16,
    /// Why a payload of this version can never be read, if that is so: asked before a timer is
    /// deleted that runs at most once.
    pub(crate) unreadable: fn(u16, &str) -> Option<String>,
}

impl HandlerSettings {
    /// The settings that a handler has unless others are set.
    pub(crate) fn new(name: &str, concurrency: usize) -> Self {
        let backoff = BackoffPolicy::builder()
            .initial(Duration::from_secs(1))
            .cap(Duration::from_secs(600))
            .build()
            .expect("the default settings are in range");
        Self {
            name: name.into(),
            concurrency,
            max_attempts: MAX_ATTEMPTS,
            backoff,
            at_most_once: false,
            recipient: None,
            newest: u16::MAX,
            unreadable: |_, _| None,
        }
    }

    /// How long after its `attempt` failed a timer is tried again. The same for the same timer, so
    /// that a run can be told again from its seed.
    pub(crate) fn delay(&self, seed: u64, attempt: u32) -> Duration {
        // Its own limit says nothing here, and would end the delays.
        let endless = BackoffBuilder::from(self.backoff).max_attempts(u32::MAX).build();
        let mut backoff = endless.unwrap_or(self.backoff).start_with_seed(seed);
        let delays = backoff.by_ref().take(usize::try_from(attempt).unwrap_or(usize::MAX));
        delays.last().unwrap_or(self.backoff.cap())
    }
}

impl NodeSettings {
    /// The settings that a node has unless others are set.
    pub(crate) fn new(handlers: Vec<HandlerSettings>) -> Self {
        Self {
            handlers,
            window: WINDOW.into(),
            lease: LEASE.into(),
            sole: false,
            lead: LEAD,
            max_resident: MAX_RESIDENT,
            max_in_flight: MAX_IN_FLIGHT,
            ramp: 2 * num_cpus::get(),
            batch: BATCH,
            call_timeout: CALL_TIMEOUT.into(),
            sweep: SWEEP,
            kept: Kept::default(),
            history: None,
            max_deaths: MAX_DEATHS,
            explains_late: false,
        }
    }

    /// What other nodes have to know.
    pub(super) fn terms(&self) -> Terms {
        Terms { lease: self.lease, window: self.window }
    }

    /// What is kept of what is deleted at some time.
    pub(super) fn kept(&self, old: Old) -> Option<Kept> {
        match old {
            Old::Parked => Some(self.kept).filter(|kept| *kept != Kept::default()),
            Old::Runs => self.history.as_ref().map(|(kept, _)| *kept),
        }
    }

    /// Whether the node runs timers, or only makes them.
    pub(crate) fn serves(&self) -> bool {
        !self.handlers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policys_own_limit_of_attempts_shortens_no_pause() {
        let second = Duration::from_secs(1);
        let policy = BackoffPolicy::builder().initial(second).cap(600 * second);
        let delays = |backoff: BackoffPolicy| {
            let settings = HandlerSettings { backoff, ..HandlerSettings::new("handler", 1) };
            (1..=12).map(|attempt| settings.delay(7, attempt).as_secs()).collect::<Vec<u64>>()
        };
        let endless = delays(policy.build().unwrap());
        assert_eq!(endless, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        for limit in [1, 2, 5, 100] {
            assert_eq!(delays(policy.max_attempts(limit).build().unwrap()), endless, "{limit}");
        }
    }
}
