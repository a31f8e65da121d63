//! W3: many timers, all due at one moment. How fast they are fired, and how late the last one is.

use std::time::{Duration, Instant};

use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{LIMIT, Producer, Timers};
use benches::process;

/// How often the lead is doubled for a peer that takes longer than that to schedule them all.
const DOUBLED: u32 = 3;

/// How much before the others a slow task is due. At the same moment it would not always be the
/// first: there are timers that do not keep the order of calls, and for those without a tick it
/// depends on how long each call took.
const BEFORE: Duration = Duration::from_millis(1);

/// A burst that has been fired.
pub(super) struct Burst {
    pub(super) recorder: &'static Recorder,
    pub(super) due: Instant,
    /// Of the task that takes long, if there is one, and when that is due.
    pub(super) slow: Option<(&'static Recorder, Instant)>,
}

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let faults = process::page_faults();
    let timers = T::start();
    let burst = fire(&mut timers.producer(), case, None, outcome);
    let (first, last) = burst.recorder.first_and_last();
    // The first is one of them, but the interval begins with it.
    let interval = last.saturating_sub(first).max(1) as f64;
    outcome.set("per_second", (case.n - 1) as f64 / (interval / 1e9));
    burst.tell(T::IS_OURS, outcome);
    outcome.set("faults", (process::page_faults() - faults) as f64);
}

impl Burst {
    /// Tells how late the first and the last one came. Being early is a failure of ours.
    pub(super) fn tell(&self, is_ours: bool, outcome: &mut Outcome) {
        let (first, last) = self.recorder.first_and_last();
        outcome.set("first_late_ms", late_ms(self.recorder, self.due, first));
        outcome.set("last_late_ms", late_ms(self.recorder, self.due, last));
        let early = self.recorder.early();
        outcome.set("early", early as f64);
        outcome.check(!is_ours || early == 0, || format!("{early} fired early"));
    }
}

/// How much later than `due` a moment of the recorder's time is.
pub(super) fn late_ms(recorder: &Recorder, due: Instant, nanos: u64) -> f64 {
    (nanos as f64 - recorder.nanos(due) as f64) / 1e6
}

/// Lets all be due at one moment, and waits until they have fired. If `slow` is given, a task that
/// takes so long is due [`BEFORE`] them. If they could not be scheduled in time, again with more of
/// it.
pub(super) fn fire<P: Producer>(
    producer: &mut P,
    case: &Case,
    slow: Option<Duration>,
    outcome: &mut Outcome,
) -> Burst {
    let mut lead = case.duration();
    for _ in 0..DOUBLED {
        let (burst, in_time) = schedule_and_wait(producer, case, lead, slow, outcome);
        if in_time {
            return burst;
        }
        lead *= 2;
    }
    let (burst, in_time) = schedule_and_wait(producer, case, lead, slow, outcome);
    outcome.check(in_time, || format!("a lead of {lead:?} was too short to schedule them"));
    burst
}

/// One burst, and whether all were scheduled before it was due.
fn schedule_and_wait<P: Producer>(
    producer: &mut P,
    case: &Case,
    lead: Duration,
    slow: Option<Duration>,
    outcome: &mut Outcome,
) -> (Burst, bool) {
    let recorder = Recorder::burst(case.n);
    let mut kept = process::touched_vec(case.n as usize + 1);
    let due = Instant::now() + lead;
    recorder.set_due(due);
    let until = |due: Instant| due.saturating_duration_since(Instant::now());
    let slow = slow.map(|takes| {
        let (slow, due) = (Recorder::slow(takes), due - BEFORE);
        kept.push(producer.schedule(until(due), slow.callback()));
        (slow, due)
    });
    for _ in 0..case.n {
        kept.push(producer.schedule(until(due), recorder.callback()));
    }
    producer.settle();
    let in_time = Instant::now() < due;
    let complete = recorder.wait(lead + LIMIT);
    outcome.check(complete && recorder.calls() == case.n, || {
        format!("{} fired of {}", recorder.calls(), case.n)
    });
    if let Some((slow, _)) = slow {
        let done = slow.wait(LIMIT) && slow.calls() == 1;
        outcome.check(done, || format!("the slow task has run {} times", slow.calls()));
    }
    (Burst { recorder, due, slow }, in_time)
}
