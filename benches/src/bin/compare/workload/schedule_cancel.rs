//! W2: schedule one timer and cancel it at once. What stays behind is looked at when all have
//! rested.

use std::sync::{Barrier, Mutex};
use std::thread;

use super::producers::{Cost, left_since, share, span, wall};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{Producer, TIMEOUT, Timers};
use benches::process;

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let timers = T::start();
    let barrier = Barrier::new(case.producers as usize + 1);
    let spans = Mutex::new(Vec::new());
    let not_cancelled = Mutex::new(0_u64);
    let (faults, left) = thread::scope(|scope| {
        for number in 0..case.producers {
            let (timers, barrier, spans, not_cancelled) =
                (&timers, &barrier, &spans, &not_cancelled);
            scope.spawn(move || {
                let mut producer = timers.producer();
                let count = share(case.n, case.producers, number);
                let mut failed = 0;
                barrier.wait(); // everything is in place
                let span = span(
                    barrier,
                    &mut producer,
                    |producer| {
                        for _ in 0..count {
                            let timer = producer.schedule(TIMEOUT, recorder.callback());
                            failed += u64::from(!producer.cancel(timer));
                        }
                    },
                    Producer::settle,
                );
                spans.lock().expect("no producer panics").push(span);
                *not_cancelled.lock().expect("no producer panics") += failed;
                barrier.wait(); // done
                barrier.wait(); // looked at, with all threads and what they own still there
            });
        }
        barrier.wait();
        let (memory, faults) = (process::resident(), process::page_faults());
        barrier.wait();
        barrier.wait();
        let faults = process::page_faults() - faults;
        let left = left_since(memory, case);
        barrier.wait();
        (faults, left)
    });
    let spans = spans.into_inner().expect("no producer panics");
    let (wall, settled) = wall(&spans);
    Cost { wall, settled, faults, left }.tell(case, outcome);
    outcome
        .check(recorder.calls() == 0, || format!("{} fired that were cancelled", recorder.calls()));
    let failed = not_cancelled.into_inner().expect("no producer panics");
    outcome.check(failed == 0, || format!("{failed} cancels failed"));
    if let Some(pending) = timers.pending() {
        outcome.check(pending == 0, || format!("{pending} still pending"));
    }
}
