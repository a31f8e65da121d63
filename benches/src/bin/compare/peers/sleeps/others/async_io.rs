//! async-io's `Timer`, outside of tasks. Its reactor runs on the crate's own thread.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};

use ::async_io::Timer;
use futures::Stream;

use crate::sleeps::{Access, Sleeps};

pub(crate) struct AsyncIo;

pub(crate) struct Reactor;

impl Sleeps for AsyncIo {
    const NAME: &'static str = "async-io";
    const ABOUT: &'static str = "async-io's Timer, polled by the thread that makes it; no task";

    type Access<'a> = Reactor;

    fn start() -> Self {
        Self
    }

    fn access(&self) -> Reactor {
        Reactor
    }
}

impl Access for Reactor {
    type Sleep = Timer;
    type Interval = Timer;

    fn make_poll_drop(&self, limit: Duration, context: &mut Context<'_>) {
        let mut timer = Timer::after(limit);
        assert!(Pin::new(&mut timer).poll(context).is_pending());
    }

    fn sleep(&self, delay: Duration) -> Pin<Box<Timer>> {
        Box::pin(Timer::after(delay))
    }

    fn reset(&self, mut sleep: Pin<&mut Timer>, delay: Duration) {
        sleep.set_after(delay);
    }

    fn poll(&self, sleep: Pin<&mut Timer>, context: &mut Context<'_>) -> bool {
        sleep.poll(context).is_ready()
    }

    fn interval(&self, ago: Duration, period: Duration) -> Option<Timer> {
        let start = Instant::now().checked_sub(ago).expect("the machine has run for longer");
        Some(Timer::interval_at(start, period))
    }

    fn tick(&self, interval: &mut Timer, context: &mut Context<'_>) -> bool {
        Pin::new(interval).poll_next(context).is_ready()
    }
}
