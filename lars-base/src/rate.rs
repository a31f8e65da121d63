//! Fixed rates: when the next run is due.

use std::time::Duration;

/// Later than every clock: what is never.
pub const NEVER: u64 = u64::MAX;

/// A duration in nanoseconds, saturating: what does not fit is longer than any clock runs.
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(1_000_000_000) {
        Some(whole) => whole.saturating_add(u64::from(duration.subsec_nanos())),
        None => NEVER,
    }
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

/// A fixed rate. Its arithmetic counts from the time at which one run was due by the rule, in
/// nanoseconds or in the unit that [`of`](Self::of) was given; `u64::MAX` is never.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Not zero.
    interval: u64,
    missed: MissedTickBehavior,
}

impl Rate {
    /// A rate of this interval, which is at least a nanosecond.
    pub fn new(interval: Duration, missed: MissedTickBehavior) -> Self {
        debug_assert!(!interval.is_zero(), "a rate without an interval");
        Self { interval: nanos(interval), missed }
    }

    /// A rate of this interval, at least 1, in any unit.
    pub fn of(interval: u64, missed: MissedTickBehavior) -> Self {
        debug_assert!(interval > 0, "a rate without an interval");
        Self { interval, missed }
    }

    /// When the next run is due, if this is decided after `elapsed`: when the run before has ended.
    pub fn next(self, elapsed: u64) -> u64 {
        match self.missed {
            MissedTickBehavior::Burst => self.interval,
            _ if elapsed <= self.interval => self.interval,
            MissedTickBehavior::Skip => self.multiple_beyond(elapsed - 1),
            MissedTickBehavior::Delay => elapsed,
        }
    }

    /// When the next run is due, if this is decided after `elapsed`, when the run before begins: it
    /// is a tick, which its receiver may get to late. Also how many runs are left out before it.
    pub fn next_from_begin(self, elapsed: u64) -> (u64, u64) {
        let next = self.next(elapsed);
        match self.missed {
            MissedTickBehavior::Burst => (next, 0),
            MissedTickBehavior::Skip => (next, next / self.interval - 1),
            // The late run is this one, and the next counts from it.
            MissedTickBehavior::Delay if elapsed > self.interval => {
                (elapsed.saturating_add(self.interval), 0)
            }
            MissedTickBehavior::Delay => (next, 0),
        }
    }

    /// The first multiple of the interval that is later than `elapsed`.
    pub fn multiple_beyond(self, elapsed: u64) -> u64 {
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

    /// The times at which runs begin, of a rate of 400 whose first run takes 1,000 and whose others
    /// take 1. All crates go by it.
    fn begins(missed: MissedTickBehavior) -> Vec<u64> {
        let rate = Rate::of(400, missed);
        let (mut due, mut now, mut begins) = (0, 0, Vec::new());
        for takes in [1_000, 1, 1, 1, 1] {
            now = due.max(now);
            begins.push(now);
            now += takes;
            due += rate.next(now - due);
        }
        begins
    }

    #[test]
    fn a_run_that_takes_longer_than_the_interval_delays_the_next_by_the_rule_of_its_name() {
        assert_eq!(begins(MissedTickBehavior::Burst), [0, 1_000, 1_001, 1_200, 1_600]);
        assert_eq!(begins(MissedTickBehavior::Skip), [0, 1_200, 1_600, 2_000, 2_400]);
        assert_eq!(begins(MissedTickBehavior::Delay), [0, 1_000, 1_400, 1_800, 2_200]);
    }

    #[test]
    fn a_tick_that_is_received_late_is_the_late_run_itself() {
        use MissedTickBehavior::{Burst, Delay, Skip};
        for (missed, next) in [(Burst, [(100, 0), (100, 0)]), (Skip, [(100, 0), (300, 2)])] {
            let rate = Rate::of(100, missed);
            assert_eq!([100, 250].map(|elapsed| rate.next_from_begin(elapsed)), next, "{missed:?}");
        }
        let rate = Rate::of(100, Delay);
        assert_eq!([100, 250].map(|elapsed| rate.next_from_begin(elapsed)), [(100, 0), (350, 0)]);
        assert_eq!(rate.next_from_begin(u64::MAX).0, u64::MAX);
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
}
