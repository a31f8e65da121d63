//! A tokio task for each timer: `spawn(async { sleep(delay).await; … })`, as it is mostly written.

use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::callback::{Callback, Recorder};
use crate::record::Workload;
use crate::runtime;
use crate::timers::{LIMIT, Producer, Timers};

/// With one worker, which is enough as long as callbacks do nothing, or with one per core.
pub(crate) struct TokioTask<const PER_CORE: bool> {
    runtime: Option<Runtime>,
}

pub(crate) struct Spawner {
    handle: Handle,
}

impl<const PER_CORE: bool> Timers for TokioTask<PER_CORE> {
    const NAME: &'static str = if PER_CORE { "tokio-task-per-core" } else { "tokio-task" };
    const ABOUT: &'static str = if PER_CORE {
        "a tokio task for each timer, with a sleep in it; a worker per core"
    } else {
        "a tokio task for each timer, with a sleep in it; one worker"
    };
    const TICK_US: Option<u64> = Some(1_000);
    const WORKLOADS: &'static [Workload] =
        if PER_CORE { &[Workload::W11] } else { &Workload::TIMERS };

    type Timer = JoinHandle<()>;
    type Producer<'a> = Spawner;

    fn start() -> Self {
        Self { runtime: Some(runtime::start(if PER_CORE { runtime::threads() } else { 1 })) }
    }

    fn producer(&self) -> Spawner {
        let runtime = self.runtime.as_ref().expect("it is there until it is dropped");
        Spawner { handle: runtime.handle().clone() }
    }
}

impl<const PER_CORE: bool> Drop for TokioTask<PER_CORE> {
    fn drop(&mut self) {
        runtime::stop(&mut self.runtime);
    }
}

impl Producer for Spawner {
    type Timer = JoinHandle<()>;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> JoinHandle<()> {
        // Read here: the task may not run before some time has passed.
        let deadline = Instant::now() + delay;
        self.handle.spawn(async move {
            tokio::time::sleep_until(deadline).await;
            callback.call();
        })
    }

    fn cancel(&mut self, timer: JoinHandle<()>) -> bool {
        timer.abort();
        true
    }

    /// Tasks are first polled in the order in which they were spawned.
    fn settle(&mut self) {
        let polled = Recorder::burst(1);
        self.handle.spawn(async { polled.callback().call() });
        assert!(polled.wait(LIMIT), "a task was not polled");
    }

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        let start = Instant::now() + initial;
        self.handle.spawn(async move {
            let mut interval = tokio::time::interval_at(start, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                interval.tick().await;
                callback.call();
            }
        });
    }
}
