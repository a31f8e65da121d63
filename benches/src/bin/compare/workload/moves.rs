//! W12: deadlines are moved, as that of a connection is with each request. Each step moves one of
//! many that are outstanding further out.

use super::producers::Cost;
use crate::callback::Recorder;
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
    let cost = Cost::of(&mut producer, case, |producer| {
        let mut left = case.n;
        while left > 0 {
            for place in kept.iter_mut().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                let moved =
                    place.take().and_then(|it| producer.reset(it, TIMEOUT, recorder.callback()));
                *place = moved;
                left -= 1;
            }
        }
    });
    cost.tell(case, outcome);
    outcome.check(recorder.calls() == 0, || format!("{} fired of none due", recorder.calls()));
    let failed = kept.iter().filter(|timer| timer.is_none()).count();
    outcome.check(failed == 0, || format!("{failed} could not be moved"));
    if let Some(pending) = timers.pending() {
        outcome.check(pending == count as u64, || format!("{pending} pending of {count}"));
    }
}
