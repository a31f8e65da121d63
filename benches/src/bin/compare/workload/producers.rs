//! Several threads that do the same thing at the same time.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::record::{Case, Outcome};
use crate::timers::Producer;
use benches::process;

/// When a thread began and ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) begin: Instant,
    pub(super) end: Instant,
    /// When everything had arrived where it waits.
    pub(super) settled: Instant,
}

/// From the first beginning to the last end, and until the last had settled. What a barrier takes
/// to let the threads go is not in it.
pub(super) fn wall(spans: &[Span]) -> (Duration, Duration) {
    let begin = spans.iter().map(|span| span.begin).min().expect("there is a producer");
    let end = spans.iter().map(|span| span.end).max().expect("there is a producer");
    let settled = spans.iter().map(|span| span.settled).max().expect("there is a producer");
    (end - begin, settled - begin)
}

/// Does `work` between two looks at the clock, released at the same moment as the other threads;
/// then lets it settle, when all are done.
pub(super) fn span<S>(
    barrier: &Barrier,
    state: &mut S,
    work: impl FnOnce(&mut S),
    settle: impl FnOnce(&mut S),
) -> Span {
    barrier.wait();
    let begin = Instant::now();
    work(state);
    let end = Instant::now();
    settle(state);
    Span { begin, end, settled: Instant::now() }
}

/// How many of `all` operations fall to producer `number` of `producers`.
pub(super) fn share(all: u64, producers: u64, number: u64) -> u64 {
    all / producers + u64::from(number < all % producers)
}

/// What some operations took, and what they left behind.
#[derive(Debug)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    /// Until everything had arrived where it waits.
    pub(super) settled: Duration,
    pub(super) faults: u64,
    /// How much the resident set had grown after a rest, in bytes.
    pub(super) left: f64,
}

impl Cost {
    /// Of `work` on this thread.
    pub(super) fn of<P: Producer>(
        producer: &mut P,
        case: &Case,
        work: impl FnOnce(&mut P),
    ) -> Self {
        producer.settle();
        let (memory, faults) = (process::resident(), process::page_faults());
        let start = Instant::now();
        work(producer);
        let wall = start.elapsed();
        producer.settle();
        let settled = start.elapsed();
        let faults = process::page_faults() - faults;
        Self { wall, settled, faults, left: left_since(memory, case) }
    }

    pub(super) fn tell(&self, case: &Case, outcome: &mut Outcome) {
        let n = case.n as f64;
        outcome.set("ns", self.wall.as_nanos() as f64 / n);
        outcome.set("settled_ns", self.settled.as_nanos() as f64 / n);
        outcome.set("left_bytes", self.left / n);
        outcome.set("faults", self.faults as f64);
    }
}

/// Rests, and then looks by how much the resident set has grown.
pub(super) fn left_since(memory: usize, case: &Case) -> f64 {
    thread::sleep(case.duration());
    process::resident() as f64 - memory as f64
}
