//! scheduled-thread-pool with one thread: more of them only contend, as long as callbacks do
//! nothing.

use std::time::Duration;

use scheduled_thread_pool::{JobHandle, OnPoolDropBehavior, ScheduledThreadPool};

use crate::callback::Callback;
use crate::timers::{Cancelling, Producer, Timers};

pub(crate) struct ThreadPool {
    pool: ScheduledThreadPool,
}

impl Timers for ThreadPool {
    const NAME: &'static str = "scheduled-thread-pool";
    const ABOUT: &'static str = "scheduled-thread-pool with one thread";
    const CANCELLING: Cancelling = Cancelling::Leaves;

    type Timer = JobHandle;
    type Producer<'a> = &'a ScheduledThreadPool;

    fn start() -> Self {
        let pool = ScheduledThreadPool::builder()
            .num_threads(1)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build();
        Self { pool }
    }

    fn producer(&self) -> &ScheduledThreadPool {
        &self.pool
    }
}

impl Producer for &ScheduledThreadPool {
    type Timer = JobHandle;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> JobHandle {
        self.execute_after(delay, move || callback.call())
    }

    /// The answer is not told.
    fn cancel(&mut self, timer: JobHandle) -> bool {
        timer.cancel();
        true
    }

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        let _ = self.execute_at_fixed_rate(initial, period, move || callback.call());
    }
}
