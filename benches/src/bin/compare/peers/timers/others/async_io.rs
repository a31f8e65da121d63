//! async-io's `Timer` without a task: polled once by the thread that makes it, with a waker that
//! counts. Its reactor runs on the crate's own thread.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use async_io::Timer;

use crate::callback::Callback;
use crate::record::Workload;
use crate::timers::{Producer, Timers};

pub(crate) struct AsyncIo;

pub(crate) struct Poller;

impl Timers for AsyncIo {
    const NAME: &'static str = "async-io";
    const ABOUT: &'static str =
        "async-io's Timer, polled once by its producer with a waker; no task";
    const WORKLOADS: &'static [Workload] = &Workload::HELD_ONE_SHOTS;

    type Timer = Timer;
    type Producer<'a> = Poller;

    fn start() -> Self {
        Self
    }

    fn producer(&self) -> Poller {
        Poller
    }
}

impl Producer for Poller {
    type Timer = Timer;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Timer {
        let mut timer = Timer::after(delay);
        let waker = callback.waker();
        if Pin::new(&mut timer).poll(&mut Context::from_waker(&waker)).is_ready() {
            callback.call();
        }
        timer
    }

    fn cancel(&mut self, timer: Timer) -> bool {
        drop(timer);
        true
    }

    fn reset(&mut self, mut timer: Timer, delay: Duration, _: Callback) -> Option<Timer> {
        timer.set_after(delay);
        Some(timer)
    }

    /// At most 1,000 operations wait for the reactor; a caller that finds its queue full drains it.
    fn settle(&mut self) {}
}
