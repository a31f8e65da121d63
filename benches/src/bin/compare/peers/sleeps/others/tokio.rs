//! Tokio's futures, outside of tasks. A worker of the runtime drives its timer.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::Duration;

use ::tokio::runtime::{EnterGuard, Runtime};
use ::tokio::time::{Instant, Interval, Sleep, interval_at, sleep, timeout};

use crate::runtime;
use crate::sleeps::{Access, Sleeps};

/// With the timer that tokio is trying out, or without.
pub(crate) struct Tokio<const ALTERNATIVE: bool> {
    runtime: Runtime,
}

pub(crate) struct Inside<'a> {
    _inside: EnterGuard<'a>,
    alternative: bool,
}

impl<const ALTERNATIVE: bool> Sleeps for Tokio<ALTERNATIVE> {
    const NAME: &'static str = if ALTERNATIVE { "tokio-alternative" } else { "tokio-sleep" };
    const ABOUT: &'static str = "tokio's futures, polled by the thread that makes them; no task";
    const TICK_US: Option<u64> = Some(1_000);

    type Access<'a> = Inside<'a>;

    fn start() -> Self {
        Self { runtime: runtime::start_with(1, ALTERNATIVE) }
    }

    fn access(&self) -> Inside<'_> {
        Inside { _inside: self.runtime.enter(), alternative: ALTERNATIVE }
    }
}

impl Access for Inside<'_> {
    type Sleep = Sleep;
    type Interval = Interval;

    fn make_poll_drop(&self, limit: Duration, context: &mut Context<'_>) {
        let timeout = pin!(timeout(limit, pending::<()>()));
        assert!(timeout.poll(context).is_pending());
    }

    fn sleep(&self, delay: Duration) -> Pin<Box<Sleep>> {
        Box::pin(sleep(delay))
    }

    fn reset(&self, sleep: Pin<&mut Sleep>, delay: Duration) {
        sleep.reset(Instant::now() + delay);
    }

    fn poll(&self, sleep: Pin<&mut Sleep>, context: &mut Context<'_>) -> bool {
        sleep.poll(context).is_ready()
    }

    /// An overdue tick of the alternative is ready only after a worker has looked at it.
    fn interval(&self, ago: Duration, period: Duration) -> Option<Interval> {
        if self.alternative {
            return None;
        }
        let start = Instant::now().checked_sub(ago);
        Some(interval_at(start.expect("the machine has run for longer"), period))
    }

    fn tick(&self, interval: &mut Interval, context: &mut Context<'_>) -> bool {
        interval.poll_tick(context).is_ready()
    }
}
