//! When something is due: at an instant, or never.

use std::time::{Duration, Instant};

use crate::systems::facade::Moment;
use crate::{Cancellable, Handle, Repeat, ScheduleError, Task, TaskBody};

/// When something is due. The order is that of time, and never is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WhenDue {
    At(Instant),
    /// Later than the platform's clock can express.
    Never,
}

impl WhenDue {
    pub(crate) fn after(now: Instant, delay: Duration) -> Self {
        now.checked_add(delay).map_or(Self::Never, Self::At)
    }

    pub(crate) fn has_come(self, now: Instant) -> bool {
        self <= Self::At(now)
    }

    /// What `next` counts, in nanoseconds from this time, given how many have passed until `now`.
    /// `u64::MAX` is never.
    pub(crate) fn count_on(self, now: Instant, next: impl FnOnce(u64) -> u64) -> Self {
        let Self::At(begin) = self else { return Self::Never };
        let elapsed = now.saturating_duration_since(begin).as_nanos();
        match next(u64::try_from(elapsed).unwrap_or(u64::MAX)) {
            u64::MAX => Self::Never,
            next => Self::after(begin, Duration::from_nanos(next)),
        }
    }

    /// Zero if it has come, [`Duration::MAX`] if it never will.
    pub(crate) fn remaining(self, now: Instant) -> Duration {
        match self {
            Self::At(due) => due.saturating_duration_since(now),
            Self::Never => Duration::MAX,
        }
    }

    /// As the public methods of this crate say it: `None` is never.
    pub(crate) fn instant(self) -> Option<Instant> {
        match self {
            Self::At(due) => Some(due),
            Self::Never => None,
        }
    }

    /// What a repeat returns to run again then.
    pub(crate) fn repeat(self) -> Repeat {
        match self {
            Self::At(due) => Repeat::At(due),
            Self::Never => Repeat::After(Duration::MAX),
        }
    }
}

impl Handle {
    /// When something is due that happens `delay` from now.
    pub(crate) fn due_after(&self, delay: Duration) -> WhenDue {
        WhenDue::after(self.now(), delay)
    }

    /// When something is due that happens at this point of the scheduler's time.
    #[inline]
    pub(crate) fn due_at(&self, moment: Moment) -> WhenDue {
        self.instant_of(moment).map_or(WhenDue::Never, WhenDue::At)
    }

    /// The point of the scheduler's time.
    #[inline]
    pub(crate) fn moment_of_due(&self, due: WhenDue) -> Moment {
        match due {
            WhenDue::At(instant) => self.moment_of(instant),
            WhenDue::Never => Moment::NEVER,
        }
    }

    #[track_caller]
    pub(crate) fn schedule_due<B: TaskBody>(
        &self,
        due: WhenDue,
        task: Task<B>,
    ) -> Result<Cancellable, ScheduleError<Task<B>>> {
        match due {
            WhenDue::At(deadline) => self.schedule_at(deadline, task),
            WhenDue::Never => self.schedule_once(Duration::MAX, task),
        }
    }
}

impl Cancellable {
    pub(crate) fn reset_due(&self, due: WhenDue) -> bool {
        match due {
            WhenDue::At(deadline) => self.reset_at(deadline),
            WhenDue::Never => self.reset(Duration::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LightArrayRevolverScheduler;

    #[test]
    fn never_is_later_than_every_instant_and_has_not_come() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let (now, second) = (time.now(), Duration::from_secs(1));
        let (soon, never) = (time.due_after(second), time.due_after(Duration::MAX));
        assert_eq!((soon, never), (WhenDue::At(now + second), WhenDue::Never));
        assert!(soon < never && !soon.has_come(now) && soon.has_come(now + second));
        assert!(!never.has_come(now + second));
        assert_eq!(
            (soon.remaining(now), soon.remaining(now + 2 * second)),
            (second, Duration::ZERO)
        );
        assert_eq!((never.remaining(now), never.instant()), (Duration::MAX, None));
        assert_eq!(never.repeat(), Repeat::After(Duration::MAX));
    }

    #[test]
    fn what_is_counted_on_from_an_instant_or_from_never_saturates_at_never() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let (now, ns) = (time.now(), Duration::from_nanos);
        let begin = WhenDue::At(now);
        assert_eq!(begin.count_on(now + ns(7), |passed| passed + 3), WhenDue::At(now + ns(10)));
        assert_eq!(
            WhenDue::At(now + ns(7)).count_on(now, |passed| passed),
            WhenDue::At(now + ns(7))
        );
        assert_eq!(begin.count_on(now, |_| u64::MAX), WhenDue::Never);
        assert_eq!(WhenDue::Never.count_on(now, |_| 0), WhenDue::Never);
    }

    #[test]
    fn what_is_never_due_waits_and_can_be_moved_to_an_instant() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let timer = time.schedule_due(WhenDue::Never, Task::new(|| ())).unwrap();
        assert_eq!((time.advance_to_next(), time.pending()), (None, 1));
        assert!(timer.reset_due(time.due_after(Duration::from_secs(1))));
        assert!(timer.reset_due(WhenDue::Never));
        assert_eq!((time.advance_to_next(), time.pending()), (None, 1));
        assert!(timer.reset_due(time.due_after(Duration::from_secs(1))));
        assert_eq!(time.advance_to_next(), Some(Duration::from_secs(1)));
    }
}
