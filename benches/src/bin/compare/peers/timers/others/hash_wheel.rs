//! hierarchical_hash_wheel_timer, on a thread of its own behind a channel. A hierarchy of wheels of
//! 256 slots; the tick of 1 ms is fixed.
//!
//! With states of our own instead of its boxed closures: that is its cheaper way.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{OneshotState, PeriodicState, Timer, TimerReturn};

use crate::callback::Callback;
use crate::timers::{Cancelling, Producer, Timers};

/// A timer's number and what it does.
pub(crate) struct State {
    number: u64,
    callback: Callback,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("number", &self.number).finish_non_exhaustive()
    }
}

impl OneshotState for State {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.number
    }

    fn trigger(self) {
        self.callback.call();
    }
}

impl PeriodicState for State {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.number
    }

    fn trigger(self) -> TimerReturn<Self> {
        self.callback.call();
        TimerReturn::Reschedule(self)
    }
}

pub(crate) struct HashWheel {
    timer: Option<TimerWithThread<u64, State, State>>,
    producers: AtomicU64,
}

pub(crate) struct Sender {
    timer: TimerRef<u64, State, State>,
    next: u64,
}

impl Timers for HashWheel {
    const NAME: &'static str = "hash-wheel-timer";
    const ABOUT: &'static str = "hierarchical_hash_wheel_timer on its thread, behind its channel; \
                                 4 wheels of 256 slots, tick 1 ms";
    const TICK_US: Option<u64> = Some(1_000);
    const CANCELLING: Cancelling = Cancelling::Leaves;

    type Timer = u64;
    type Producer<'a> = Sender;

    fn start() -> Self {
        let timer = TimerWithThread::new().expect("its thread starts");
        Self { timer: Some(timer), producers: AtomicU64::new(0) }
    }

    fn producer(&self) -> Sender {
        let number = self.producers.fetch_add(1, Ordering::Relaxed);
        let timer = self.timer.as_ref().expect("it is there until it is dropped");
        Sender { timer: timer.timer_ref(), next: number << 40 }
    }
}

impl Drop for HashWheel {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.shutdown().expect("its thread ends");
        }
    }
}

impl Sender {
    fn state(&mut self, callback: Callback) -> State {
        self.next += 1;
        State { number: self.next, callback }
    }
}

impl Producer for Sender {
    type Timer = u64;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> u64 {
        let state = self.state(callback);
        let number = state.number;
        self.timer.schedule_once(delay, state);
        number
    }

    /// The answer is not told.
    fn cancel(&mut self, timer: u64) -> bool {
        self.timer.cancel(&timer);
        true
    }

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        let state = self.state(callback);
        self.timer.schedule_periodic(initial, period, state);
    }
}
