//! What the driver counts.

#[cfg(feature = "histogram")]
use crate::engine::buckets::Buckets;
use crate::sync::{AtomicU64, Ordering};

/// What the driver counts. It is the only writer, so it stores and never adds atomically, and no
/// reader holds it up.
#[derive(Debug)]
pub(crate) struct DriverCounts {
    pub(crate) fired: AtomicU64,
    pub(crate) handed_back: AtomicU64,
    /// Due timers that had to wait for room in the pool.
    pub(crate) held_for_pool: AtomicU64,
    pub(crate) wake_ups: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) lateness_max: AtomicU64,
    pub(crate) lateness_sum: AtomicU64,
    #[cfg(feature = "histogram")]
    pub(crate) latenesses: Buckets,
}

impl DriverCounts {
    pub(crate) fn new() -> Self {
        Self {
            fired: AtomicU64::new(0),
            handed_back: AtomicU64::new(0),
            held_for_pool: AtomicU64::new(0),
            wake_ups: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            lateness_max: AtomicU64::new(0),
            lateness_sum: AtomicU64::new(0),
            #[cfg(feature = "histogram")]
            latenesses: Buckets::new(),
        }
    }

    /// Adds to a count. Only the driver calls this.
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        // No read-modify-write: there is one writer. Release: pairs with the loads of a snapshot,
        // which then sees that the timer was scheduled as well.
        count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    }

    /// Records that a task was fired `nanos` after its deadline. Only the driver calls this.
    pub(crate) fn record_fired(&self, nanos: u64) {
        Self::add(&self.fired, 1);
        Self::add(&self.lateness_sum, nanos);
        if nanos > self.lateness_max.load(Ordering::Relaxed) {
            self.lateness_max.store(nanos, Ordering::Relaxed);
        }
        #[cfg(feature = "histogram")]
        self.latenesses.record(nanos);
    }
}
