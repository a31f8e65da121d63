//! The next occurrence, on a clock that may jump.

use std::time::{Duration, SystemTime};

use lars_base::rate::nanos;

/// A clock set back by this much, or a zone that changes by this much, is a correction, not a
/// season: as in Vixie cron.
pub(super) const CORRECTION: Duration = Duration::from_secs(3 * 3600);

/// The least by which two `SystemTime`s differ. Less than that, taken from one, is lost.
const GRAIN: Duration = Duration::from_nanos(if cfg!(windows) { 100 } else { 1 });

/// When something happens, again and again, by the wall clock.
///
/// A cron expression in a time zone is one (`CronSchedule`, with the feature `cron`), and so is
/// every `Fn(SystemTime) -> Option<SystemTime> + Send + 'static`. What Spring calls a `Trigger`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::WallClockScheduler;
/// use std::time::{Duration, SystemTime};
///
/// /// The full hours of UTC.
/// fn full_hours(after: SystemTime) -> Option<SystemTime> {
///     let hours = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / 3600;
///     SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs((hours + 1) * 3600))
/// }
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let wall = WallClockScheduler::new(scheduler.handle());
/// let chime = wall.schedule_by_calendar(full_hours, || println!("ding dong"))?;
/// assert!(chime.next_run().is_some());
/// # Ok(()) }
/// ```
pub trait Calendar: Send + 'static {
    /// The first occurrence later than `instant`; `None` if there is no further one.
    ///
    /// An answer that is not later ends the series, as `None` does, because the series would never
    /// get past it.
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime>;

    /// Whether an occurrence that has run is to run again when the clock, set back a little, comes
    /// to it once more. By default it is not. (After a correction of three hours or more it always
    /// is.)
    fn runs_again_when_set_back(&self) -> bool {
        false
    }

    /// The same occurrences, up to `end` and with it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::wall_clock::Calendar;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let second = Duration::from_secs(1);
    /// let start = SystemTime::UNIX_EPOCH;
    /// let each_second = move |after: SystemTime| Some(after + second);
    /// let three = each_second.until(start + 3 * second);
    /// assert_eq!(three.next_after(start + 2 * second), Some(start + 3 * second));
    /// assert_eq!(three.next_after(start + 3 * second), None);
    /// # Ok(()) }
    /// ```
    fn until(self, end: SystemTime) -> UntilTime<Self>
    where
        Self: Sized,
    {
        UntilTime { calendar: self, end }
    }

    /// The same occurrences, later by a random time from zero to `over` that is drawn now: by the
    /// same time each. So instances that have the same calendar do not all run at nine o'clock.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::wall_clock::Calendar;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let (day, start) = (Duration::from_secs(86_400), SystemTime::UNIX_EPOCH);
    /// let midnight = move |after: SystemTime| {
    ///     let days = after.duration_since(start).ok()?.as_secs() / 86_400;
    ///     start.checked_add(day * (days as u32 + 1))
    /// };
    /// let later = midnight.spread(Duration::from_secs(600));
    /// let first = later.next_after(start + day / 2).unwrap();
    /// assert!(first >= start + day && first <= start + day + Duration::from_secs(600));
    /// assert_eq!(later.next_after(first), Some(first + day));
    /// # Ok(()) }
    /// ```
    #[doc(alias = "jitter")]
    fn spread(self, over: Duration) -> Later<Self>
    where
        Self: Sized,
    {
        let by = Duration::from_nanos(fastrand::u64(0..=nanos(over)));
        Later { calendar: self, by }
    }
}

/// A calendar that ends. Made by [`Calendar::until`].
#[derive(Debug, Clone)]
pub struct UntilTime<C> {
    calendar: C,
    end: SystemTime,
}

impl<C: Calendar> Calendar for UntilTime<C> {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        self.calendar.next_after(instant).filter(|next| *next <= self.end)
    }

    fn runs_again_when_set_back(&self) -> bool {
        self.calendar.runs_again_when_set_back()
    }
}

/// A calendar whose occurrences are later. Made by [`Calendar::spread`].
#[derive(Debug, Clone)]
pub struct Later<C> {
    calendar: C,
    by: Duration,
}

impl<C: Calendar> Calendar for Later<C> {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        let earlier = instant.checked_sub(self.by).unwrap_or(instant);
        self.calendar.next_after(earlier)?.checked_add(self.by)
    }

    fn runs_again_when_set_back(&self) -> bool {
        self.calendar.runs_again_when_set_back()
    }
}

impl<F: Fn(SystemTime) -> Option<SystemTime> + Send + 'static> Calendar for F {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        self(instant)
    }
}

/// What a repeated timer does with occurrences in the past: the clock was set forwards, the machine
/// was suspended, the executor was busy, or a run took too long.
///
/// An hourly job, on a machine that sleeps from 9:30 to 12:10:
///
/// ```text
/// occurrences   9:00   10:00   11:00   12:00          13:00
/// Once          9:00                   12:10          13:00   one run makes up for all
/// Burst         9:00                   12:10 ×3       13:00   every one has its run
/// Skip(5 min)   9:00                                  13:00   what is later than that is left out
/// Skip(15 min)  9:00                   12:10          13:00   here that of 12:00 is not
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum MissedRuns {
    /// One run, at once, for all missed occurrences; then the next occurrence. Like systemd's
    /// `Persistent=` and anacron.
    #[default]
    Once,
    /// A run for each, one after another without a pause. Like
    /// [`MissedTickBehavior::Burst`](lars_scheduler::MissedTickBehavior::Burst).
    Burst,
    /// An occurrence that is late by more than this is left out; any other runs. The grace should
    /// be longer than the re-check; see [`recheck`](super::WallClockScheduler::recheck). Every run
    /// is a little late, so less than a second counts as a second.
    Skip(#[cfg_attr(feature = "serde", serde(with = "humantime_serde"))] Duration),
}

/// Of [`MissedRuns::Skip`]: with none, nothing would ever run.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// How far a series has come.
pub(super) struct Progress<C> {
    calendar: C,
    missed: MissedRuns,
    /// Occurrences up to here have run, or were left out.
    settled: SystemTime,
    /// The first occurrence after that.
    next: Option<SystemTime>,
    /// The latest time that the clock has shown since it was believed.
    latest: SystemTime,
}

/// What there is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextRun {
    Now,
    At(SystemTime),
    Never,
}

impl<C: Calendar> Progress<C> {
    /// A series whose first occurrence is the first one later than `start`.
    pub(super) fn new(calendar: C, missed: MissedRuns, start: SystemTime) -> Self {
        let mut progress = Self { calendar, missed, settled: start, next: None, latest: start };
        progress.settle(start);
        progress
    }

    /// The occurrence that is waited for.
    pub(super) fn next(&self) -> Option<SystemTime> {
        self.next
    }

    /// What there is to do at `now`. If that is a run, the occurrence counts as run.
    pub(super) fn due(&mut self, now: SystemTime) -> NextRun {
        self.follow_back(now);
        if let MissedRuns::Skip(grace) = self.missed {
            self.skip(now, grace.max(LEAST_GRACE));
        }
        match self.next {
            None => NextRun::Never,
            Some(next) if next > now => NextRun::At(next),
            Some(next) => {
                match self.missed {
                    MissedRuns::Once => self.settle(now),
                    MissedRuns::Burst | MissedRuns::Skip(_) => self.settle(next),
                }
                NextRun::Now
            }
        }
    }

    /// A clock that was set back far is taken as correct. One that was set back a little shows
    /// times again that have been dealt with; they do not run again unless the calendar asks for
    /// it.
    ///
    /// How far it was set back is counted from what it has shown, not from what has run: that may
    /// be long ago.
    fn follow_back(&mut self, now: SystemTime) {
        let is_correction = self.latest.duration_since(now).is_ok_and(|back| back >= CORRECTION);
        self.latest = if is_correction { now } else { self.latest.max(now) };
        let again = is_correction || self.calendar.runs_again_when_set_back();
        if again && self.settled > now {
            self.settle_before(now);
        }
    }

    /// Leaves out what is later than `grace`.
    fn skip(&mut self, now: SystemTime, grace: Duration) {
        let Some(next) = self.next else { return };
        if now.duration_since(next).is_ok_and(|late| late > grace)
            && let Some(limit) = now.checked_sub(grace)
        {
            self.settle_before(limit);
        }
    }

    /// An occurrence at this very instant is not settled.
    fn settle_before(&mut self, limit: SystemTime) {
        self.settle(limit.checked_sub(GRAIN).unwrap_or(limit));
    }

    fn settle(&mut self, up_to: SystemTime) {
        self.settled = up_to;
        self.next = self.calendar.next_after(up_to).filter(|next| *next > up_to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Every `period` seconds; not called for anything but what the series waits for.
    fn every(period: u64) -> impl Calendar {
        move |after: SystemTime| {
            let seconds = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
            Some(at((seconds / period + 1) * period))
        }
    }

    #[test]
    fn one_run_settles_everything_up_to_now() {
        let mut progress = Progress::new(every(100), MissedRuns::Once, at(0));
        assert_eq!(progress.due(at(99)), NextRun::At(at(100)));
        assert_eq!(progress.due(at(350)), NextRun::Now);
        assert_eq!(progress.due(at(350)), NextRun::At(at(400)));
    }

    #[test]
    fn a_burst_settles_one_occurrence_at_a_time() {
        let mut progress = Progress::new(every(100), MissedRuns::Burst, at(0));
        let runs = (0..).take_while(|_| progress.due(at(350)) == NextRun::Now).count();
        assert_eq!(runs, 3);
        assert_eq!(progress.next(), Some(at(400)));
    }

    #[test]
    fn an_occurrence_exactly_as_late_as_the_grace_runs() {
        let grace = MissedRuns::Skip(Duration::from_secs(50));
        let mut progress = Progress::new(every(100), grace, at(0));
        assert_eq!(progress.due(at(350)), NextRun::Now);
        assert_eq!(progress.due(at(350)), NextRun::At(at(400)));
        assert_eq!(progress.due(at(451)), NextRun::At(at(500)));
    }

    #[test]
    fn without_a_grace_what_is_late_by_less_than_a_second_runs() {
        let late = |time: u64, millis| at(time) + Duration::from_millis(millis);
        let mut progress = Progress::new(every(100), MissedRuns::Skip(Duration::ZERO), at(0));
        assert_eq!(progress.due(late(100, 1_000)), NextRun::Now);
        assert_eq!(progress.due(late(200, 1_001)), NextRun::At(at(300)));
    }

    #[test]
    fn a_spread_makes_all_occurrences_later_by_the_same_time_and_loses_none() {
        let over = Duration::from_secs(30);
        let mut by = Vec::new();
        for _ in 0..50 {
            let later = every(100).spread(over).until(at(430));
            let mut found = vec![later.next_after(at(50)).unwrap()];
            while let Some(next) = later.next_after(*found.last().unwrap()) {
                found.push(next);
            }
            let first = found[0].duration_since(at(100)).unwrap();
            assert!(first <= over);
            let planned = (1..=4).map(|number| at(100 * number) + first);
            assert!(planned.eq(found), "later by {first:?}");
            by.push(first);
        }
        by.sort_unstable();
        by.dedup();
        assert!(by.len() > 1, "all of 50 were later by {by:?}");
        // What is later than every clock never comes, and nothing panics.
        assert_eq!(every(100).spread(Duration::ZERO).next_after(at(0)), Some(at(100)));
        for _ in 0..50 {
            let _ = every(100).spread(Duration::MAX).next_after(at(0));
        }
    }

    #[test]
    fn a_calendar_that_does_not_move_on_ends_the_series() {
        let stuck = |after: SystemTime| Some(after);
        let mut progress = Progress::new(stuck, MissedRuns::Burst, at(5));
        assert_eq!(progress.due(at(5)), NextRun::Never);
    }
}
