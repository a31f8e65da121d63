//! W3: many timers, all due at one moment. How fast they are fired, and how late the last one is.

use std::time::Instant;

use super::Outcome;
use crate::callback::Recorder;
use crate::process;
use crate::record::Case;
use crate::timers::{LIMIT, Producer, Timers};

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::burst(case.n);
    let timers = T::start();
    let mut producer = timers.producer();
    let mut kept = process::touched_vec(case.n as usize);
    let due = Instant::now() + case.duration();
    recorder.set_due(due);
    for _ in 0..case.n {
        let delay = due.saturating_duration_since(Instant::now());
        kept.push(producer.schedule(delay, recorder.callback()));
    }
    producer.settle();
    let scheduled = Instant::now();
    outcome.check(scheduled < due, || {
        format!("scheduling took {:?} too long: the burst needs a larger lead", scheduled - due)
    });
    let complete = recorder.wait(case.duration() + LIMIT);
    let (first, last) = recorder.first_and_last();
    let due = recorder.nanos(due) as f64;
    // The first is one of them, but the interval begins with it.
    let interval = last.saturating_sub(first).max(1) as f64;
    outcome.set("per_second", (case.n - 1) as f64 / (interval / 1e9));
    outcome.set("first_late_ms", (first as f64 - due) / 1e6);
    outcome.set("last_late_ms", (last as f64 - due) / 1e6);
    outcome.set("early", recorder.early() as f64);
    outcome.check(complete && recorder.calls() == case.n, || {
        format!("{} fired of {}", recorder.calls(), case.n)
    });
    if T::IS_OURS {
        outcome.check(recorder.early() == 0, || format!("{} fired early", recorder.early()));
    }
}
