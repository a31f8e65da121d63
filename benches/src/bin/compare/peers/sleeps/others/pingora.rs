//! pingora-timeout's `timeout`, outside of tasks. A thread of the crate looks each ten milliseconds
//! what is due.

use std::convert::Infallible;
use std::future::{Future, Pending, pending};
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::Duration;

use pingora_timeout::fast_timeout::FastOrTokioTimeout;
use pingora_timeout::{Timeout, timeout};

use crate::sleeps::{Access, Sleeps};

pub(crate) struct Pingora;

pub(crate) struct Clock;

impl Sleeps for Pingora {
    const NAME: &'static str = "pingora-timeout";
    const ABOUT: &'static str =
        "pingora-timeout's timeout, polled by the thread that makes it; moved by making another";
    const TICK_US: Option<u64> = Some(10_000);

    type Access<'a> = Clock;

    fn start() -> Self {
        Self
    }

    fn access(&self) -> Clock {
        Clock
    }
}

impl Access for Clock {
    type Sleep = Timeout<Pending<()>, FastOrTokioTimeout>;
    type Interval = Infallible;

    fn make_poll_drop(&self, limit: Duration, context: &mut Context<'_>) {
        let timeout = pin!(timeout(limit, pending::<()>()));
        assert!(timeout.poll(context).is_pending());
    }

    fn sleep(&self, delay: Duration) -> Pin<Box<Self::Sleep>> {
        Box::pin(timeout(delay, pending()))
    }

    fn reset(&self, mut sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.set(timeout(delay, pending()));
    }

    fn poll(&self, sleep: Pin<&mut Self::Sleep>, context: &mut Context<'_>) -> bool {
        sleep.poll(context).is_ready()
    }

    fn interval(&self, _: Duration, _: Duration) -> Option<Infallible> {
        None
    }

    fn tick(&self, interval: &mut Infallible, _: &mut Context<'_>) -> bool {
        match *interval {}
    }
}
