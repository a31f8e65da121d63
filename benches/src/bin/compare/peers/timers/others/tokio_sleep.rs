//! Tokio's `Sleep` without a task: polled once by the thread that makes it, with a waker that
//! counts.
//!
//! That is the least that tokio's timer can be used with. Whoever awaits a `Sleep` has a task
//! besides, which drops it when it has fired. What is left to fire here is kept in a list and
//! dropped from there.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::runtime::{EnterGuard, Runtime};
use tokio::time::{Instant, Sleep};

use crate::callback::Callback;
use crate::record::Workload;
use crate::runtime;
use crate::timers::{Producer, Timers, settle_by_timer};

/// With the timer that tokio is trying out, or without.
pub(crate) struct TokioSleep<const ALTERNATIVE: bool> {
    runtime: Runtime,
}

pub(crate) struct SleepProducer<'a> {
    _inside: EnterGuard<'a>,
    alternative: bool,
    /// Left to fire.
    released: Vec<Pin<Box<Sleep>>>,
    /// The length of the list at which those that have fired are dropped.
    sweep_at: usize,
}

/// The least length at which it is worth looking.
const SWEEP: usize = 1024;

impl<const ALTERNATIVE: bool> Timers for TokioSleep<ALTERNATIVE> {
    const NAME: &'static str = if ALTERNATIVE { "tokio-alternative" } else { "tokio-sleep" };
    const ABOUT: &'static str =
        "tokio's Sleep, boxed, polled once by its producer with a waker; no task";
    const TICK_US: Option<u64> = Some(1_000);
    const WORKLOADS: &'static [Workload] = &Workload::ONE_SHOTS;

    type Timer = Pin<Box<Sleep>>;
    type Producer<'a> = SleepProducer<'a>;

    fn start() -> Self {
        Self { runtime: runtime::start_with(1, ALTERNATIVE) }
    }

    fn producer(&self) -> SleepProducer<'_> {
        SleepProducer {
            _inside: self.runtime.enter(),
            alternative: ALTERNATIVE,
            released: Vec::with_capacity(SWEEP),
            sweep_at: SWEEP,
        }
    }
}

impl Producer for SleepProducer<'_> {
    type Timer = Pin<Box<Sleep>>;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Pin<Box<Sleep>> {
        let mut sleep = Box::pin(tokio::time::sleep(delay));
        poll(&mut sleep, callback);
        sleep
    }

    fn cancel(&mut self, timer: Pin<Box<Sleep>>) -> bool {
        drop(timer);
        true
    }

    /// Its waker stays: it need not be polled again. (The alternative puts another timer in its
    /// place, which has no waker yet.)
    fn reset(
        &mut self,
        mut timer: Pin<Box<Sleep>>,
        delay: Duration,
        callback: Callback,
    ) -> Option<Pin<Box<Sleep>>> {
        if timer.is_elapsed() {
            return None;
        }
        timer.as_mut().reset(Instant::now() + delay);
        if self.alternative {
            poll(&mut timer, callback);
        }
        Some(timer)
    }

    /// When the list has doubled since it was last looked through, that is done again: then each
    /// timer is looked at twice or so, and at most half of them have fired.
    fn release(&mut self, timer: Pin<Box<Sleep>>) {
        self.released.push(timer);
        if self.released.len() >= self.sweep_at {
            self.released.retain(|sleep| !sleep.is_elapsed());
            self.sweep_at = (2 * self.released.len()).max(SWEEP);
        }
    }

    /// It is in tokio's wheel when the poll returns. The alternative is told through a queue.
    fn settle(&mut self) {
        if self.alternative {
            settle_by_timer(self);
        }
    }
}

/// Gives it the callback as its waker.
fn poll(sleep: &mut Pin<Box<Sleep>>, callback: Callback) {
    let waker = callback.waker();
    if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        callback.call();
    }
}
