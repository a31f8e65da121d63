//! W1 and W7: schedule timers that do not fire, and keep what is returned for them. More than once:
//! on fresh memory, and again on what the rounds before left. The best of those is the warm one.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use benches::Xorshift;

use super::producers::{Span, share, span, wall};
use crate::callback::Recorder;
use crate::record::{Case, Outcome, Workload};
use crate::timers::{Cancelling, Producer, Timers};
use benches::process;

/// W1 has the time for it.
const ROUNDS_OF_W1: usize = 4;

/// With ten million timers each round takes seconds.
const ROUNDS_OF_W7: usize = 2;

struct Round {
    spans: Vec<Span>,
    faults: u64,
    bytes: f64,
    pending: Option<u64>,
}

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let count = if case.workload == Workload::W1 { ROUNDS_OF_W1 } else { ROUNDS_OF_W7 };
    // Memory is looked at after the first round; nothing needs to rest after the others.
    let mut rests = vec![Duration::ZERO; count];
    rests[0] = case.duration();
    let rounds: Vec<_> = if T::CANCELLING == Cancelling::Frees {
        session::<T>(case, recorder, &rests, outcome)
    } else {
        // What is cancelled stays where it is: a new one is warm by what the allocator keeps.
        rests.iter().flat_map(|&rest| session::<T>(case, recorder, &[rest], outcome)).collect()
    };
    let (cold, warm) = rounds.split_first().expect("there is a first round");
    let warm = warm.iter().min_by_key(|round| wall(&round.spans).0).expect("one more follows");
    let n = case.n as f64;
    for (round, name, settled_name, faults_name) in
        [(cold, "ns", "settled_ns", "faults"), (warm, "warm_ns", "warm_settled_ns", "warm_faults")]
    {
        let (wall, settled) = wall(&round.spans);
        outcome.set(name, wall.as_nanos() as f64 / n);
        outcome.set(settled_name, settled.as_nanos() as f64 / n);
        outcome.set(faults_name, round.faults as f64);
    }
    for pending in rounds.iter().filter_map(|round| round.pending) {
        outcome.check(pending == case.n, || format!("{pending} pending of {}", case.n));
    }
    let (wall, settled) = wall(&cold.spans);
    outcome.set("backlog_ms", (settled - wall).as_secs_f64() * 1e3);
    outcome.set("bytes", cold.bytes);
    outcome.set("with_handle_bytes", cold.bytes + size_of::<T::Timer>() as f64);
    outcome.check(recorder.calls() == 0, || format!("{} fired of none due", recorder.calls()));
}

/// Some rounds by the same threads on the same instance, each with a rest. Between two rounds
/// everything is cancelled.
fn session<T: Timers>(
    case: &Case,
    recorder: &'static Recorder,
    rests: &[Duration],
    outcome: &mut Outcome,
) -> Vec<Round> {
    let timers = T::start();
    let barrier = Barrier::new(case.producers as usize + 1);
    let spans = Mutex::new(Vec::new());
    let not_cancelled = Mutex::new(0_u64);
    let mut done = Vec::new();
    thread::scope(|scope| {
        for number in 0..case.producers {
            let (timers, barrier, spans, not_cancelled) =
                (&timers, &barrier, &spans, &not_cancelled);
            scope.spawn(move || {
                let mut producer = timers.producer();
                let count = share(case.n, case.producers, number);
                let mut kept = process::touched_vec(count as usize);
                let mut random = Xorshift::new(number);
                barrier.wait(); // everything is in place
                for round in 1..=rests.len() {
                    let span = span(
                        barrier,
                        &mut producer,
                        |producer| {
                            for _ in 0..count {
                                let delay = random.far();
                                kept.push(producer.schedule(delay, recorder.callback()));
                            }
                        },
                        Producer::settle,
                    );
                    spans.lock().expect("no producer panics").push(span);
                    barrier.wait(); // done
                    barrier.wait(); // looked at
                    if round < rests.len() {
                        let mut failed = 0;
                        for timer in kept.drain(..) {
                            failed += u64::from(!producer.cancel(timer));
                        }
                        *not_cancelled.lock().expect("no producer panics") += failed;
                        producer.settle();
                    }
                }
                // Not cancelled one by one: this is over.
                kept.into_iter().for_each(drop);
            });
        }
        barrier.wait();
        for rest in rests {
            let (memory, faults) = (process::resident(), process::page_faults());
            barrier.wait();
            barrier.wait();
            let faults = process::page_faults() - faults;
            thread::sleep(*rest);
            let grown = process::resident() as f64 - memory as f64;
            done.push(Round {
                spans: std::mem::take(&mut spans.lock().expect("no producer panics")),
                faults,
                bytes: grown / case.n as f64,
                pending: timers.pending(),
            });
            barrier.wait();
        }
    });
    let failed = not_cancelled.into_inner().expect("no producer panics");
    outcome.check(failed == 0, || format!("{failed} timers could not be cancelled"));
    done
}
