//! W12: deadlines are moved, as that of a connection is with each request. Each step moves one of
//! many that are outstanding further out.

use std::thread;
use std::time::Instant;

use crate::callback::Recorder;
use crate::process;
use crate::record::{Case, Outcome};
use crate::timers::{Producer, TIMEOUT, Timers};

/// How many are outstanding.
const OUTSTANDING: usize = 10_000;

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let timers = T::start();
    let mut producer = timers.producer();
    let count = OUTSTANDING.min(case.n as usize);
    let mut kept: Vec<_> =
        (0..count).map(|_| Some(producer.schedule(TIMEOUT, recorder.callback()))).collect();
    producer.settle();
    let (memory, faults) = (process::resident(), process::page_faults());
    let start = Instant::now();
    let mut left = case.n;
    while left > 0 {
        for place in kept.iter_mut().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            let moved =
                place.take().and_then(|it| producer.reset(it, TIMEOUT, recorder.callback()));
            *place = moved;
            left -= 1;
        }
    }
    let wall = start.elapsed();
    producer.settle();
    let settled = start.elapsed();
    let faults = process::page_faults() - faults;
    thread::sleep(case.duration());
    let left = process::resident() as f64 - memory as f64;
    let n = case.n as f64;
    outcome.set("ns", wall.as_nanos() as f64 / n);
    outcome.set("settled_ns", settled.as_nanos() as f64 / n);
    outcome.set("left_bytes", left / n);
    outcome.set("faults", faults as f64);
    outcome.check(recorder.calls() == 0, || format!("{} fired of none due", recorder.calls()));
    let failed = kept.iter().filter(|timer| timer.is_none()).count();
    outcome.check(failed == 0, || format!("{failed} could not be moved"));
    if let Some(pending) = timers.pending() {
        outcome.check(pending == count as u64, || format!("{pending} pending of {count}"));
    }
}
