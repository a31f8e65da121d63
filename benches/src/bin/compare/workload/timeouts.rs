//! W2b: request timeouts. A ring of outstanding timers; each step cancels the oldest and schedules
//! a new one.

use std::collections::VecDeque;

use super::producers::Cost;
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{Producer, TIMEOUT, Timers};

/// How many are outstanding.
const RING: usize = 10_000;

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let timers = T::start();
    let mut producer = timers.producer();
    let ring_size = RING.min(case.n as usize);
    let mut ring: VecDeque<_> =
        (0..ring_size).map(|_| producer.schedule(TIMEOUT, recorder.callback())).collect();
    let mut failed = 0_u64;
    let cost = Cost::of(&mut producer, case, |producer| {
        for _ in 0..case.n {
            let oldest = ring.pop_front().expect("the ring is full");
            failed += u64::from(!producer.cancel(oldest));
            ring.push_back(producer.schedule(TIMEOUT, recorder.callback()));
        }
    });
    cost.tell(case, outcome);
    outcome.check(recorder.calls() == 0, || format!("{} fired of none due", recorder.calls()));
    outcome.check(failed == 0, || format!("{failed} cancels failed"));
    if let Some(pending) = timers.pending() {
        outcome.check(pending == ring_size as u64, || format!("{pending} pending of {ring_size}"));
    }
}
