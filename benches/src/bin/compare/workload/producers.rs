//! Several threads that do the same thing at the same time.

use std::sync::Barrier;
use std::time::{Duration, Instant};

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
