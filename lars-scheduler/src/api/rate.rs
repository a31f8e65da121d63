//! Periods: the shortest one, and when the next run of a fixed rate is due.

use std::time::Duration;

use crate::base::error::Refusal;
use crate::base::tick::nanos;

/// The shortest period. Zero would run without end.
const MIN_PERIOD: Duration = Duration::from_nanos(1);

/// Refuses a period that is too short.
pub(crate) fn check_period(given: Duration) -> Result<(), Refusal> {
    if given < MIN_PERIOD { Err(Refusal::Period { given, min: MIN_PERIOD }) } else { Ok(()) }
}

/// What a fixed rate does with missed runs: runs that could not begin in time, because a run took
/// longer than the interval, the executor was busy, or the machine stood still.
///
/// The words are tokio's. With an interval of 100 ms and a first run that takes 250 ms:
///
/// ```text
/// nominal   0     100   200   300   400   500
/// Burst     0─────────────┤250 250 300   400   500     all runs happen, late ones at once
/// Skip      0─────────────┤      300   400   500       missed runs are left out
/// Delay     0─────────────┤250         350   450       the schedule starts over after a late run
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum MissedTickBehavior {
    /// All runs happen; missed ones follow each other without a pause until the schedule is caught
    /// up. As in Akka and the JDK.
    #[default]
    Burst,
    /// Missed runs are left out; the next run is at the next multiple of the interval.
    Skip,
    /// A late run happens at once, and the following ones count from it.
    Delay,
}

/// A fixed rate. Its arithmetic counts nanoseconds from the time at which one run was due by the
/// rule; `u64::MAX` is never.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Not zero.
    interval: u64,
    missed: MissedTickBehavior,
}

impl Rate {
    /// The interval must have passed [`check_period`].
    pub(crate) fn new(interval: Duration, missed: MissedTickBehavior) -> Self {
        debug_assert!(check_period(interval).is_ok(), "{interval:?}");
        Self { interval: nanos(interval), missed }
    }

    /// When the next run is due, if this is decided after `elapsed`.
    pub(crate) fn next(self, elapsed: u64) -> u64 {
        match self.missed {
            MissedTickBehavior::Burst => self.interval,
            _ if elapsed <= self.interval => self.interval,
            MissedTickBehavior::Skip => self.multiple_beyond(elapsed - 1),
            MissedTickBehavior::Delay => elapsed,
        }
    }

    /// The first multiple of the interval that is later than `elapsed`.
    pub(crate) fn multiple_beyond(self, elapsed: u64) -> u64 {
        (elapsed / self.interval).saturating_add(1).saturating_mul(self.interval)
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    fn after(elapsed: u64, missed: MissedTickBehavior) -> u64 {
        Rate::new(Duration::from_nanos(100), missed).next(elapsed)
    }

    #[test]
    fn in_time_all_behaviors_keep_to_the_rate() {
        for missed in
            [MissedTickBehavior::Burst, MissedTickBehavior::Skip, MissedTickBehavior::Delay]
        {
            for elapsed in [0, 1, 99, 100] {
                assert_eq!(after(elapsed, missed), 100, "{missed:?} after {elapsed}");
            }
        }
    }

    #[test]
    fn late_by_whole_intervals_a_skip_is_due_at_the_multiple_that_has_just_come() {
        assert_eq!(after(250, MissedTickBehavior::Burst), 100);
        assert_eq!(after(250, MissedTickBehavior::Delay), 250);
        for (elapsed, next) in [(101, 200), (199, 200), (200, 200), (201, 300)] {
            assert_eq!(after(elapsed, MissedTickBehavior::Skip), next, "after {elapsed}");
        }
    }

    #[test]
    fn a_multiple_is_later_than_what_has_passed_and_never_wraps() {
        let rate = Rate::new(Duration::from_nanos(100), MissedTickBehavior::Skip);
        for (elapsed, next) in [(0, 100), (99, 100), (100, 200), (u64::MAX, u64::MAX)] {
            assert_eq!(rate.multiple_beyond(elapsed), next, "after {elapsed}");
        }
        let never = Rate::new(Duration::MAX, MissedTickBehavior::Burst);
        assert_eq!((never.next(7), never.multiple_beyond(7)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_period_of_zero_is_refused_and_one_nanosecond_is_not() {
        let min = Duration::from_nanos(1);
        let refusal = Refusal::Period { given: Duration::ZERO, min };
        assert_eq!(check_period(Duration::ZERO), Err(refusal));
        assert_eq!(check_period(min), Ok(()));
    }
}
