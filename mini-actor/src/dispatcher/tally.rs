//! How many messages a system has received, by the thread that received them.

use crate::sync::Ordering;
use crate::sync::plain::AtomicU64;

/// How many messages have been received on one thread, or in virtual time by any.
#[repr(align(64))]
pub(crate) struct Tally {
    count: AtomicU64,
    /// Whether one thread writes it.
    alone: bool,
}

impl Tally {
    pub(super) fn new(alone: bool) -> Self {
        Self { count: AtomicU64::new(0), alone }
    }

    #[inline]
    pub(crate) fn add_one(&self) {
        // Relaxed, here and in `count`: a statistic.
        if self.alone {
            self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_counted_by_one_thread_or_by_many() {
        for alone in [true, false] {
            let tally = Tally::new(alone);
            for count in 0..5 {
                assert_eq!(tally.count(), count);
                tally.add_one();
            }
        }
    }
}
