//! W3: many timers, all due at one moment. How fast they are fired, and how late the last one is.

use std::time::{Duration, Instant};

use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{LIMIT, Producer, Timers};
use benches::process;

/// How often the lead is doubled for a peer that takes longer than that to schedule them all.
const DOUBLED: u32 = 3;

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let faults = process::page_faults();
    let timers = T::start();
    let mut producer = timers.producer();
    for attempt in 0..=DOUBLED {
        let lead = case.duration() * 2_u32.pow(attempt);
        let recorder = Recorder::burst(case.n);
        let (due, in_time) = schedule_and_wait(&mut producer, case, lead, recorder, outcome);
        if !in_time && attempt < DOUBLED {
            continue;
        }
        outcome.check(in_time, || format!("a lead of {lead:?} was too short to schedule them"));
        let (first, last) = recorder.first_and_last();
        let due = recorder.nanos(due) as f64;
        // The first is one of them, but the interval begins with it.
        let interval = last.saturating_sub(first).max(1) as f64;
        outcome.set("per_second", (case.n - 1) as f64 / (interval / 1e9));
        outcome.set("first_late_ms", (first as f64 - due) / 1e6);
        outcome.set("last_late_ms", (last as f64 - due) / 1e6);
        outcome.set("early", recorder.early() as f64);
        outcome.set("faults", (process::page_faults() - faults) as f64);
        if T::IS_OURS {
            outcome.check(recorder.early() == 0, || format!("{} fired early", recorder.early()));
        }
        return;
    }
}

/// One burst. Returns when it was due, and whether all were scheduled before that.
fn schedule_and_wait<P: Producer>(
    producer: &mut P,
    case: &Case,
    lead: Duration,
    recorder: &'static Recorder,
    outcome: &mut Outcome,
) -> (Instant, bool) {
    let mut kept = process::touched_vec(case.n as usize);
    let due = Instant::now() + lead;
    recorder.set_due(due);
    for _ in 0..case.n {
        let delay = due.saturating_duration_since(Instant::now());
        kept.push(producer.schedule(delay, recorder.callback()));
    }
    producer.settle();
    let in_time = Instant::now() < due;
    let complete = recorder.wait(lead + LIMIT);
    outcome.check(complete && recorder.calls() == case.n, || {
        format!("{} fired of {}", recorder.calls(), case.n)
    });
    (due, in_time)
}
