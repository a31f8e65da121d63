//! What timers for async code have to be able to do to be compared.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

/// Futures under test.
pub(crate) trait Sleeps: Sync + Sized + 'static {
    /// What it is called in tables and options.
    const NAME: &'static str;
    /// How it is used here, in a few words.
    const ABOUT: &'static str;
    /// Its tick in microseconds, if it has one.
    const TICK_US: Option<u64> = None;

    /// A thread's access to it.
    type Access<'a>: Access
    where
        Self: 'a;

    /// Starts it, with its threads.
    fn start() -> Self;

    /// Made on the thread that uses it.
    fn access(&self) -> Self::Access<'_>;
}

/// What one thread does.
pub(crate) trait Access {
    type Sleep;
    /// A type without values if there are no intervals.
    type Interval;

    /// Makes a timeout for work that does not end, polls it once, and drops it. A peer that has no
    /// timeouts does that with a sleep.
    fn make_poll_drop(&self, limit: Duration, context: &mut Context<'_>);

    fn sleep(&self, delay: Duration) -> Pin<Box<Self::Sleep>>;

    /// Moves the deadline to `delay` from now.
    fn reset(&self, sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// Whether it is ready.
    fn poll(&self, sleep: Pin<&mut Self::Sleep>, context: &mut Context<'_>) -> bool;

    /// An interval whose first tick was due `ago`; it makes up for all that were missed. `None` if
    /// there are no intervals.
    fn interval(&self, ago: Duration, period: Duration) -> Option<Self::Interval>;

    /// Polls for the next tick; says whether there was one.
    fn tick(&self, interval: &mut Self::Interval, context: &mut Context<'_>) -> bool;
}
