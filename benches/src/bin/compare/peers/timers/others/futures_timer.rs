//! futures-timer's `Delay` without a task: polled once by the thread that makes it, with a waker
//! that counts. A helper thread of the crate keeps a heap.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use futures_timer::Delay;

use crate::callback::Callback;
use crate::record::Workload;
use crate::timers::{Producer, Timers};

pub(crate) struct FuturesTimer;

pub(crate) struct Poller;

impl Timers for FuturesTimer {
    const NAME: &'static str = "futures-timer";
    const ABOUT: &'static str =
        "futures-timer's Delay, polled once by its producer with a waker; no task";
    const WORKLOADS: &'static [Workload] = &Workload::HELD_ONE_SHOTS;

    type Timer = Delay;
    type Producer<'a> = Poller;

    fn start() -> Self {
        Self
    }

    fn producer(&self) -> Poller {
        Poller
    }
}

impl Producer for Poller {
    type Timer = Delay;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Delay {
        let mut timer = Delay::new(delay);
        let waker = callback.waker();
        if Pin::new(&mut timer).poll(&mut Context::from_waker(&waker)).is_ready() {
            callback.call();
        }
        timer
    }

    fn cancel(&mut self, timer: Delay) -> bool {
        drop(timer);
        true
    }

    fn reset(&mut self, mut timer: Delay, delay: Duration, _: Callback) -> Option<Delay> {
        timer.reset(delay);
        Some(timer)
    }
}
