//! An interval whose ticks cannot fail.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::instant::Instant;
use super::sleep::refused;
use crate::{MissedTickBehavior, future};

/// Ticks again and again. Made by [`interval`](super::interval()) and
/// [`interval_at`](super::interval_at).
///
/// It is a [`future::Interval`] of the default scheduler, with all of its promises, but a tick has
/// no result besides its instant. What happens to missed ticks is shown there.
///
/// # Panics
///
/// A tick panics if the scheduler can have no timer for it: see [the module](super#panics).
///
/// # Cancel safety
///
/// A call of `tick` that is abandoned loses no tick.
#[derive(Debug)]
#[must_use = "an interval does nothing unless it is asked for its ticks"]
pub struct Interval(future::Interval);

impl Interval {
    pub(super) fn new(interval: future::Interval) -> Self {
        Self(interval)
    }

    /// Ready at the next tick, with the instant at which it was due.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// [`tick`](Self::tick) for futures written by hand.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        match ready!(self.0.poll_tick(context)) {
            Ok(due) => Poll::Ready(due.into()),
            Err(refusal) => refused(&refusal, self.0.place()),
        }
    }

    /// Starts over: the next tick is due one period from now.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Starts over: the next tick is due at once.
    pub fn reset_immediately(&mut self) {
        self.0.reset_immediately();
    }

    /// Starts over: the next tick is due `after` from now.
    pub fn reset_after(&mut self, after: Duration) {
        self.0.reset_after(after);
    }

    /// Starts over: the next tick is due at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.0.reset_at(deadline.into_std());
    }

    /// What happens to the ticks after a late one.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.0.get_missed_ticks()
    }

    /// Chooses what happens to the ticks after a late one; `Burst` by default.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.0.set_missed_ticks(behavior);
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.0.period()
    }
}
