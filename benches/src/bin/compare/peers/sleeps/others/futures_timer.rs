//! futures-timer's `Delay`, outside of tasks. A helper thread of the crate keeps a heap.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use ::futures_timer::Delay;

use crate::sleeps::{Access, Sleeps};

pub(crate) struct FuturesTimer;

pub(crate) struct Helper;

impl Sleeps for FuturesTimer {
    const NAME: &'static str = "futures-timer";
    const ABOUT: &'static str =
        "futures-timer's Delay, polled by the thread that makes it; no task";

    type Access<'a> = Helper;

    fn start() -> Self {
        Self
    }

    fn access(&self) -> Helper {
        Helper
    }
}

impl Access for Helper {
    type Sleep = Delay;
    type Interval = Infallible;

    fn make_poll_drop(&self, limit: Duration, context: &mut Context<'_>) {
        let mut delay = Delay::new(limit);
        assert!(Pin::new(&mut delay).poll(context).is_pending());
    }

    fn sleep(&self, delay: Duration) -> Pin<Box<Delay>> {
        Box::pin(Delay::new(delay))
    }

    fn reset(&self, mut sleep: Pin<&mut Delay>, delay: Duration) {
        sleep.reset(delay);
    }

    fn poll(&self, sleep: Pin<&mut Delay>, context: &mut Context<'_>) -> bool {
        sleep.poll(context).is_ready()
    }

    fn interval(&self, _: Duration, _: Duration) -> Option<Infallible> {
        None
    }

    fn tick(&self, interval: &mut Infallible, _: &mut Context<'_>) -> bool {
        match *interval {}
    }
}
