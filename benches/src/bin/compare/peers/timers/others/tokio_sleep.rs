//! Tokio's `Sleep` without a task: polled once by the thread that makes it, with a waker that counts.
//!
//! That is the least that tokio's timer can be used with. Whoever awaits a `Sleep` has a task besides.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::runtime::{EnterGuard, Runtime};
use tokio::time::Sleep;

use crate::callback::Callback;
use crate::record::Workload;
use crate::runtime;
use crate::timers::{Producer, Timers};

pub(crate) struct TokioSleep {
    runtime: Runtime,
}

pub(crate) struct SleepProducer<'a> {
    _inside: EnterGuard<'a>,
}

impl Timers for TokioSleep {
    const NAME: &'static str = "tokio-sleep";
    const ABOUT: &'static str =
        "tokio's Sleep, boxed, polled once by its producer with a waker; no task";
    const TICK_US: Option<u64> = Some(1_000);
    const WORKLOADS: &'static [Workload] = &Workload::ONE_SHOTS;

    type Timer = Pin<Box<Sleep>>;
    type Producer<'a> = SleepProducer<'a>;

    fn start() -> Self {
        Self { runtime: runtime::start(1) }
    }

    fn producer(&self) -> SleepProducer<'_> {
        SleepProducer { _inside: self.runtime.enter() }
    }
}

impl Producer for SleepProducer<'_> {
    type Timer = Pin<Box<Sleep>>;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Pin<Box<Sleep>> {
        let mut sleep = Box::pin(tokio::time::sleep(delay));
        let waker = callback.waker();
        if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            callback.call();
        }
        sleep
    }

    fn cancel(&mut self, timer: Pin<Box<Sleep>>) -> bool {
        drop(timer);
        true
    }

    /// It is in tokio's wheel when the poll returns.
    fn settle(&mut self) {}
}
