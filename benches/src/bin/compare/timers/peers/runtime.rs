//! The tokio runtime that tokio's peers share: one worker, which drives the timers.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

pub(super) fn start() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("the runtime starts")
}

/// Ends it without waiting for what was spawned.
pub(super) fn stop(runtime: &mut Option<Runtime>) {
    if let Some(runtime) = runtime.take() {
        runtime.shutdown_timeout(Duration::from_secs(10));
    }
}
