//! When a task is due.

use std::time::Duration;

use crate::base::tick::nanos;

/// When a task is due, in nanoseconds since the scheduler's origin, and whether it has to wait for
/// a tick at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: u64,
    /// It was asked for without a delay, so it is handed over at once.
    pub(crate) immediate: bool,
}

impl Deadline {
    /// `delay` from `now`, saturating.
    #[inline]
    pub(crate) fn after(now: u64, delay: Duration) -> Self {
        Self { at: now.saturating_add(nanos(delay)), immediate: delay.is_zero() }
    }

    /// An instant of the clock; one that has passed is now.
    pub(crate) fn at(now: u64, instant: u64) -> Self {
        Self { at: instant.max(now), immediate: instant <= now }
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;
    use crate::base::tick::NEVER;

    #[test]
    fn a_deadline_that_has_passed_is_now_and_a_delay_saturates() {
        assert_eq!(Deadline::at(7, 3), Deadline { at: 7, immediate: true });
        assert_eq!(Deadline::at(7, 7), Deadline { at: 7, immediate: true });
        assert_eq!(Deadline::at(7, 8), Deadline { at: 8, immediate: false });
        assert_eq!(Deadline::after(7, Duration::ZERO), Deadline { at: 7, immediate: true });
        assert_eq!(Deadline::after(7, Duration::MAX), Deadline { at: NEVER, immediate: false });
    }
}
