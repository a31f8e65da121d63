//! scheduled-thread-pool with one thread, as more of them only contend as long as callbacks do
//! nothing; and with one per core, where a callback takes long.

use std::time::Duration;

use scheduled_thread_pool::{JobHandle, OnPoolDropBehavior, ScheduledThreadPool};

use crate::callback::Callback;
use crate::record::Workload;
use crate::runtime;
use crate::timers::{Cancelling, Producer, Timers};

pub(crate) struct ThreadPool<const PER_CORE: bool> {
    pool: ScheduledThreadPool,
}

impl<const PER_CORE: bool> Timers for ThreadPool<PER_CORE> {
    const NAME: &'static str =
        if PER_CORE { "scheduled-thread-pool-per-core" } else { "scheduled-thread-pool" };
    const ABOUT: &'static str = if PER_CORE {
        "scheduled-thread-pool with a thread per core"
    } else {
        "scheduled-thread-pool with one thread"
    };
    const WORKLOADS: &'static [Workload] =
        if PER_CORE { &[Workload::W11] } else { &Workload::TIMERS };
    const CANCELLING: Cancelling = Cancelling::Leaves;

    type Timer = JobHandle;
    type Producer<'a> = &'a ScheduledThreadPool;

    fn start() -> Self {
        let pool = ScheduledThreadPool::builder()
            .num_threads(if PER_CORE { runtime::threads() } else { 1 })
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
