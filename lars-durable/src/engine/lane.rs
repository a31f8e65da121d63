//! A lane to the store: one batch in flight, and a pause after a failure.

use crate::store::{Committed, StoreError};
use crate::time::Mono;

/// How long a lane waits after its first failure, and at most: microseconds.
const FIRST_PAUSE: i64 = 50_000;
const LONGEST_PAUSE: i64 = 2_000_000;

/// Which kind of request a batch carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Keeper,
    Writer,
    Runner,
}

#[derive(Debug)]
pub(super) struct LaneState {
    in_flight: Option<Mono>,
    not_before: Mono,
    pause: i64,
}

impl LaneState {
    pub(super) fn new() -> Self {
        Self { in_flight: None, not_before: Mono(i64::MIN), pause: FIRST_PAUSE }
    }

    pub(super) fn is_free(&self, now: Mono) -> bool {
        self.in_flight.is_none() && now >= self.not_before
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    pub(super) fn sent(&mut self, now: Mono) {
        debug_assert!(self.in_flight.is_none(), "one batch at a time");
        self.in_flight = Some(now);
    }

    /// The reply came: says when the batch was sent.
    pub(super) fn answered(&mut self, now: Mono, result: &Result<Committed, StoreError>) -> Mono {
        match result {
            Ok(_) => self.pause = FIRST_PAUSE,
            Err(_) => {
                self.not_before = now.plus(self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
