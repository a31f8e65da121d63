//! W11: the burst of W3, and a task that computes for 10 ms and is due a millisecond before: so it
//! is at work at the moment when all others are due. How late those are. Where one thread runs all
//! tasks they wait for it, and on a pool those need not that have other threads.

use std::time::Duration;

use super::burst::{fire, late_ms};
use crate::record::{Case, Outcome};
use crate::timers::Timers;
use benches::process;

/// How long the slow task computes.
const SLOW: Duration = Duration::from_millis(10);

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let faults = process::page_faults();
    let timers = T::start();
    let burst = fire(&mut timers.producer(), case, Some(SLOW), outcome);
    burst.tell(T::IS_OURS, outcome);
    let p99 = late_ms(burst.recorder, burst.due, burst.recorder.p99());
    outcome.set("p99_late_ms", p99);
    let (slow, due) = burst.slow.expect("it was before them");
    let slow_late = late_ms(slow, due, slow.first_and_last().0);
    outcome.set("slow_late_ms", slow_late);
    outcome.check(!T::IS_OURS || slow_late >= 0.0, || "the slow task was early".to_owned());
    outcome.set("faults", (process::page_faults() - faults) as f64);
}
