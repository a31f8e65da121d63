//! Deadlines without a second reading of the clock.

use std::panic::Location;
use std::time::Duration;

use lars_base::time::Instant;
use lars_base::when_due::WhenDue;

use crate::base::clock::LAG;
use crate::base::deadline::Deadline;
use crate::base::tick::NEVER;
use crate::{Cancellable, Handle, IntoTask, Refusal};

/// A point of the scheduler's time, in nanoseconds since its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// No clock comes that far.
    pub(crate) const NEVER: Self = Self(NEVER);

    /// `delay` later, saturating.
    #[inline]
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(Deadline::after(self.0, delay).at)
    }
}

impl Handle {
    /// The scheduler's time.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.core().clock.now())
    }

    /// An instant before the scheduler's origin is the origin.
    #[inline]
    pub(crate) fn moment_of(&self, instant: Instant) -> Moment {
        Moment(self.core().clock.nanos_at(instant))
    }

    /// `None` for one that the clock never shows, or that the platform cannot express.
    #[inline]
    pub(crate) fn instant_of(&self, moment: Moment) -> Option<Instant> {
        self.core().clock.instant(moment.0)
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

    /// Whether `deadline` has passed. If not, a reading of the clock.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Moment) -> Result<(), Moment> {
        let now = self.moment();
        if deadline <= now { Ok(()) } else { Err(now) }
    }

    /// Like [`has_passed`](Self::has_passed), but reads only the coarse clock if `deadline` is
    /// further off than that clock lags. Then the reading that is returned is some milliseconds
    /// old.
    #[inline]
    pub(crate) fn may_have_passed(&self, deadline: Moment) -> Result<(), Moment> {
        let clock = &self.core().clock;
        clock.note_waiter();
        let coarse = clock.coarse();
        if deadline.0 > coarse.saturating_add(LAG) {
            return Err(Moment(coarse));
        }
        self.has_passed(deadline)
    }

    /// `schedule_at` for callers that have read the clock, and schedule for somebody else.
    #[inline]
    pub(crate) fn schedule_from<T: IntoTask>(
        &self,
        (now, deadline): (Moment, Moment),
        task: T,
        place: &'static Location<'static>,
    ) -> Result<Cancellable, Refusal> {
        let due = Deadline::at(now.0, deadline.0);
        self.schedule_with((now.0, due), task, place).map_err(|refused| refused.refusal().clone())
    }
}

impl Cancellable {
    /// `reset_at` for callers that have read the clock.
    #[inline]
    pub(crate) fn reset_from(&self, now: Moment, deadline: Moment) -> bool {
        self.reset_to(Deadline::at(now.0, deadline.0))
    }
}
