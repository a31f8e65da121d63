//! How a series goes: what it does with missed runs, how it spreads its runs, where it ends by
//! itself, and whether it runs once more when its scheduler is closed.

use std::time::Duration;

use fastrand::Rng;
use lars_base::rate::MissedTickBehavior;
use lars_base::time::Instant;

use crate::api::handle::Handle;
use crate::base::deadline::Deadline;
use crate::base::error::{Refusal, check_period};
use crate::base::tick::{NEVER, nanos};

/// What a [`Periodic`](super::Periodic) says of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    pub(super) missed: MissedTickBehavior,
    pub(super) times: Option<u64>,
    pub(super) until: Option<Instant>,
    pub(super) spread: Duration,
    pub(super) seed: Option<u64>,
    pub(super) run_on_close: bool,
}

impl Course {
    /// The course of a series that is scheduled now, unless it is an ordinary one, and when its
    /// first run is due. By its rule that is `first`; `period` is the rule's.
    ///
    /// # Errors
    ///
    /// If its period is zero or shorter than the spread, and if it has no run.
    pub(super) fn begin(
        self,
        handle: &Handle,
        period: Option<Duration>,
        first: Deadline,
    ) -> Result<(Option<Box<RunningCourse>>, Deadline), Refusal> {
        if let Some(given) = period {
            check_period(given)?;
            // With a longer spread a run could be due after the one that follows it.
            if given < self.spread {
                return Err(Refusal::Period { given, min: self.spread });
            }
        }
        if self.is_ordinary() {
            return Ok((None, first));
        }
        let until = match self.until {
            Some(instant) => handle.core().clock.nanos_at(instant),
            None => NEVER,
        };
        let left = self.times.unwrap_or(u64::MAX);
        if left == 0 {
            return Err(Refusal::Times { given: left });
        }
        let random = Rng::with_seed(self.seed.unwrap_or_else(|| fastrand::u64(..)));
        let spread = nanos(self.spread);
        let run_on_close = self.run_on_close;
        let course = RunningCourse { left, until, spread, random, added: 0, run_on_close };
        let mut course = Box::new(course);
        let Some(at) = course.due(first.at) else {
            return Err(Refusal::EndsBefore { by: Duration::from_nanos(first.at - until) });
        };
        Ok((Some(course), Deadline { at, immediate: first.immediate && at == first.at }))
    }

    /// Whether it neither ends nor spreads, nor runs on close.
    fn is_ordinary(&self) -> bool {
        let ends = self.times.is_some() || self.until.is_some();
        !ends && self.spread.is_zero() && !self.run_on_close
    }
}

/// The course of a series that ends by itself, whose runs are spread, or which runs on close.
pub(super) struct RunningCourse {
    /// How many runs are left, this one included.
    left: u64,
    /// No run is due later than this.
    until: u64,
    spread: u64,
    random: Rng,
    /// By how much the last run was due later than its rule wants.
    added: u64,
    pub(super) run_on_close: bool,
}

impl RunningCourse {
    /// Counts a run. Whether another may follow.
    pub(super) fn goes_on(&mut self) -> bool {
        // (Nobody lives to see the end of those without a limit.)
        self.left -= 1;
        self.left > 0
    }

    /// When a run is due that the rule wants at `nominal`; `None` if the series is over by then.
    pub(super) fn due(&mut self, nominal: u64) -> Option<u64> {
        if nominal > self.until {
            return None;
        }
        self.added = self.random.u64(0..=self.spread);
        Some(nominal.saturating_add(self.added))
    }

    /// By how much the last run was due later than its rule wants.
    pub(super) fn added(&self) -> u64 {
        self.added
    }
}
