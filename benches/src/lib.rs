//! Benchmarks: `cargo bench -p benches`. What they share.
#![allow(clippy::disallowed_methods)]

pub mod durable;
pub mod process;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// A small generator with a fixed seed: the same delays in every run.
#[derive(Debug)]
pub struct Xorshift(u64);

impl Xorshift {
    /// The generator of the given thread.
    pub fn new(thread: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (thread + 1))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A delay between one minute and ten, so that nothing fires while it is measured.
    pub fn far(&mut self) -> Duration {
        Duration::from_millis(60_000 + self.number() % 540_000)
    }
}

/// Lets `threads` threads do `work` with their number, released at the same moment; returns the
/// time from there until the last is done.
pub fn together(threads: u64, work: impl Fn(u64) + Sync) -> Duration {
    let barrier = Barrier::new(threads as usize + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(thread);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in running {
            thread.join().expect("a bench thread panicked");
        }
        start.elapsed()
    })
}
