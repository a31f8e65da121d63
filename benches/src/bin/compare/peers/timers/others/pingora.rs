//! pingora-timeout's `sleep` without a task: polled once by the thread that makes it, with a waker
//! that counts.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use crate::callback::Callback;
use crate::record::Workload;
use crate::timers::{Producer, Timers};

pub(crate) struct Pingora;

pub(crate) struct Clock;

impl Timers for Pingora {
    const NAME: &'static str = "pingora-timeout";
    const ABOUT: &'static str =
        "pingora-timeout's sleep, boxed, polled once by its producer with a waker; no task";
    const TICK_US: Option<u64> = Some(10_000);
    const WORKLOADS: &'static [Workload] = &Workload::HELD_ONE_SHOTS;

    type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;
    type Producer<'a> = Clock;

    fn start() -> Self {
        Self
    }

    fn producer(&self) -> Clock {
        Clock
    }
}

impl Producer for Clock {
    type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Self::Timer {
        let mut sleep: Self::Timer = Box::pin(pingora_timeout::sleep(delay));
        let waker = callback.waker();
        if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            callback.call();
        }
        sleep
    }

    fn cancel(&mut self, timer: Self::Timer) -> bool {
        drop(timer);
        true
    }

    /// It is in its thread's tree when the poll returns.
    fn settle(&mut self) {}
}
