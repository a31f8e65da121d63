//! When something is due: at an instant, or never.

use std::time::Duration;

use crate::time::Instant;

/// When something is due. The order is that of time, and never is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenDue {
    /// Then.
    At(Instant),
    /// Later than the platform's clock can express.
    Never,
}

impl WhenDue {
    /// `delay` after `now`.
    pub fn after(now: Instant, delay: Duration) -> Self {
        now.checked_add(delay).map_or(Self::Never, Self::At)
    }

    /// Whether it is due at `now`.
    pub fn has_come(self, now: Instant) -> bool {
        self <= Self::At(now)
    }

    /// What `next` counts, in nanoseconds from this time, given how many have passed until `now`.
    /// `u64::MAX` is never.
    pub fn count_on(self, now: Instant, next: impl FnOnce(u64) -> u64) -> Self {
        let Self::At(begin) = self else { return Self::Never };
        let elapsed = now.saturating_duration_since(begin).as_nanos();
        match next(u64::try_from(elapsed).unwrap_or(u64::MAX)) {
            u64::MAX => Self::Never,
            next => Self::after(begin, Duration::from_nanos(next)),
        }
    }

    /// Zero if it has come, [`Duration::MAX`] if it never will.
    pub fn remaining(self, now: Instant) -> Duration {
        match self {
            Self::At(due) => due.saturating_duration_since(now),
            Self::Never => Duration::MAX,
        }
    }

    /// The instant; `None` is never.
    pub fn instant(self) -> Option<Instant> {
        match self {
            Self::At(due) => Some(due),
            Self::Never => None,
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn never_is_later_than_every_instant_and_has_not_come() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let (soon, never) = (WhenDue::after(now, second), WhenDue::after(now, Duration::MAX));
        assert_eq!((soon, never), (WhenDue::At(now + second), WhenDue::Never));
        assert!(soon < never && !soon.has_come(now) && soon.has_come(now + second));
        assert!(!never.has_come(now + second));
        assert_eq!(
            (soon.remaining(now), soon.remaining(now + 2 * second)),
            (second, Duration::ZERO)
        );
        assert_eq!((never.remaining(now), never.instant()), (Duration::MAX, None));
    }

    #[test]
    fn what_is_counted_on_from_an_instant_or_from_never_saturates_at_never() {
        let (now, ns) = (Instant::now(), Duration::from_nanos);
        let begin = WhenDue::At(now);
        assert_eq!(begin.count_on(now + ns(7), |passed| passed + 3), WhenDue::At(now + ns(10)));
        assert_eq!(
            WhenDue::At(now + ns(7)).count_on(now, |passed| passed),
            WhenDue::At(now + ns(7))
        );
        assert_eq!(begin.count_on(now, |_| u64::MAX), WhenDue::Never);
        assert_eq!(WhenDue::Never.count_on(now, |_| 0), WhenDue::Never);
    }
}
