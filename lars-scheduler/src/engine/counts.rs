//! What the driver counts.

use crate::sync::{AtomicU64, Ordering};
use lars_base::durations::Recorder;

/// What the driver counts. It is the only writer, so it stores and never adds atomically, and no
/// reader holds it up.
#[derive(Debug, Default)]
pub(crate) struct DriverCounts {
    pub(crate) fired: AtomicU64,
    pub(crate) handed_back: AtomicU64,
    /// Due timers that had to wait for room in the pool.
    pub(crate) held_for_pool: AtomicU64,
    pub(crate) wake_ups: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// Of the tasks that began on the thread that turns the driver.
    pub(crate) lateness: Recorder,
}

impl DriverCounts {
    /// Adds to a count. Only the driver calls this.
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        // No read-modify-write: there is one writer. Release: pairs with the loads of a snapshot,
        // which then sees that the timer was scheduled as well.
        count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    }
}
