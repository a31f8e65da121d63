//! Time: nanoseconds since the scheduler's origin, from the system or from a test.
#![allow(clippy::disallowed_methods)] // the one file that reads the monotonic clock

use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicU64, Ordering};
use crate::tick::LAST_INSTANT;

/// A monotonic clock. Its origin is the instant at which its scheduler was built.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    origin: Instant,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    /// `std`'s monotonic clock (`CLOCK_MONOTONIC` on Linux: it stands still while the machine
    /// is suspended).
    System,
    /// A number that a test moves.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    pub(crate) fn system() -> Self {
        Self { origin: Instant::now(), source: Source::System }
    }

    /// A clock that stands at `start` until it is moved.
    pub(crate) fn manual(start: u64) -> Self {
        Self { origin: Instant::now(), source: Source::Manual(Arc::new(AtomicU64::new(start))) }
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match &self.source {
            Source::System => {
                let elapsed = self.origin.elapsed();
                // 584 years of nanoseconds fit; nothing here runs longer.
                elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
            }
            // Acquire: a thread that reads an instant also sees what was done before it was set.
            Source::Manual(now) => now.load(Ordering::Acquire),
        }
    }

    /// Moves a manual clock forwards to `instant`; never back, and not beyond its range.
    pub(crate) fn set(&self, instant: u64) {
        if let Source::Manual(now) = &self.source {
            // Release: see `now`.
            now.fetch_max(instant.min(LAST_INSTANT), Ordering::AcqRel);
        }
    }

    /// The instant as the standard library's type; `None` where the platform cannot express it.
    pub(crate) fn instant(&self, nanos: u64) -> Option<Instant> {
        self.origin.checked_add(Duration::from_nanos(nanos))
    }

    /// Nanoseconds between the origin and `instant`; an instant before the origin is the origin.
    pub(crate) fn nanos_at(&self, instant: Instant) -> u64 {
        crate::tick::nanos(instant.saturating_duration_since(self.origin))
    }
}

/// The monotonic time now, for waits that have nothing to do with a scheduler's clock.
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_never_goes_back() {
        let clock = Clock::manual(5);
        clock.set(9);
        clock.set(7);
        assert_eq!(clock.now(), 9);
        clock.set(u64::MAX);
        assert_eq!(clock.now(), LAST_INSTANT);
    }

    #[test]
    fn instants_before_the_origin_are_the_origin() {
        let early = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let clock = Clock::system();
        assert_eq!(clock.nanos_at(early), 0);
    }
}
