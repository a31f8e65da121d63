//! A lane to the store: one batch in flight, and a pause after a failure.
//!
//! ```text
//!   free ── sent ─▶ in flight ── committed ─▶ free
//!                       └─────── failed ────▶ paused ── time ─▶ free
//! ```
//!
//! The pause doubles with each failure, so that a store which is down is not asked all the time,
//! and begins anew with the first success. What is sent again, and what not, each lane decides
//! itself.

use crate::store::{Committed, StoreError};
use crate::time::{Micros, Mono};

/// How long a lane waits after its first failure, and at most.
const FIRST_PAUSE: Micros = Micros::MILLISECOND.times(50);
pub(super) const LONGEST_PAUSE: Micros = Micros::SECOND.times(2);

/// Which kind of request a batch carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Keeper,
    Writer,
    Runner,
}

/// See the module's documentation.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct LaneState {
    /// When it was sent.
    in_flight: Option<Mono>,
    not_before: Mono,
    pause: Micros,
    longest: Micros,
}

impl LaneState {
    /// A lane that pauses for `longest` at most.
    pub(super) fn new(longest: Micros) -> Self {
        Self { in_flight: None, not_before: Mono::MIN, pause: FIRST_PAUSE.min(longest), longest }
    }

    /// Whether a batch may be sent now.
    pub(super) fn is_free(&self, now: Mono) -> bool {
        self.in_flight.is_none() && now >= self.not_before
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// A batch is sent. The lane must be free.
    pub(super) fn sent(&mut self, now: Mono) {
        debug_assert!(self.in_flight.is_none(), "one batch at a time");
        self.in_flight = Some(now);
    }

    /// The reply came: says when the batch was sent.
    pub(super) fn answered(&mut self, now: Mono, result: &Result<Committed, StoreError>) -> Mono {
        match result {
            Ok(_) => self.pause = FIRST_PAUSE.min(self.longest),
            Err(_) => {
                self.not_before = now + self.pause;
                self.pause = (self.pause * 2).min(self.longest);
            }
        }
        self.in_flight.take().unwrap_or(now)
    }

    /// The earliest instant at which something that is wanted `at` can be sent.
    pub(super) fn next(&self, at: Mono) -> Mono {
        match self.in_flight {
            Some(_) => Mono::NEVER,
            None => at.max(self.not_before),
        }
    }
}
