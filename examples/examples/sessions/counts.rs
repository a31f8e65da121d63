//! What the server counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that many threads add to.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    // Relaxed: the counts are compared with each other only when those who count are done.

    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Counts {
    /// Sessions that began.
    pub opened: Count,
    /// Sessions whose client hung up.
    pub closed_by_client: Count,
    /// Sessions that were timed out.
    pub timed_out: Count,
    /// Sessions that ended in another way: the system was closed, or they panicked.
    pub cut_off: Count,
    /// Requests received and answered.
    pub requests: Count,
    /// Heartbeats written.
    pub heartbeats: Count,
    /// Idle timers that were armed.
    pub armed: Count,
    /// Timeouts received earlier than the idle timeout after they were armed.
    pub early: Count,
}

impl Counts {
    pub fn open(&self) -> u64 {
        // What ends a session first, so that the difference is never negative.
        let ended = self.closed_by_client.get() + self.timed_out.get() + self.cut_off.get();
        self.opened.get().saturating_sub(ended)
    }
}
