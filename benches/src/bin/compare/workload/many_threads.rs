//! W14: very many threads, each of which schedules some timers that fire, and keeps none of them.
//! What a call costs, and how late the timers are, if what a peer has for each thread is there
//! thousands of times, or if all of these threads want the same lock.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use benches::Xorshift;

use super::lateness;
use super::producers::{share, span, wall};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{LIMIT, Producer, Timers};
use benches::process;

/// Timers of each thread.
pub(crate) const EACH: u64 = 1_000;

/// Delays are spread from the shortest by up to so much more.
const SHORTEST: Duration = Duration::from_millis(1);
const SPREAD: Duration = Duration::from_millis(99);

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::lateness(case.n);
    let timers = T::start();
    let barrier = Barrier::new(case.producers as usize + 1);
    let spans = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..case.producers {
            let (timers, barrier, spans) = (&timers, &barrier, &spans);
            scope.spawn(move || {
                let mut producer = timers.producer();
                let mut random = Xorshift::new(number);
                barrier.wait(); // everything is in place
                let work = |producer: &mut T::Producer<'_>| {
                    for _ in 0..share(case.n, case.producers, number) {
                        let more = random.number() % SPREAD.as_nanos() as u64;
                        let delay = SHORTEST + Duration::from_nanos(more);
                        let callback = recorder.due_at(Instant::now() + delay);
                        let timer = producer.schedule(delay, callback);
                        producer.release(timer);
                    }
                };
                let span = span(barrier, &mut producer, work, |_| ());
                spans.lock().expect("no producer panics").push(span);
                barrier.wait(); // done
                barrier.wait(); // fired, with all threads and what they own still there
            });
        }
        barrier.wait();
        let cpu = process::cpu_time();
        barrier.wait();
        barrier.wait();
        let complete = recorder.wait(LIMIT);
        outcome.set("cpu_s", (process::cpu_time() - cpu).as_secs_f64());
        let calls = recorder.calls();
        // (A peer that is polled may be called twice: by its timer, and as ready by the poll.)
        let right = complete && (calls == case.n || !T::ANSWERS);
        outcome.check(right, || format!("{calls} fired of {}", case.n));
        barrier.wait();
    });
    let spans = spans.into_inner().expect("no producer panics");
    outcome.set("ns", wall(&spans).0.as_nanos() as f64 / case.n as f64);
    lateness::tell(recorder, T::IS_OURS, outcome);
    lateness::tell_millis(outcome);
}
