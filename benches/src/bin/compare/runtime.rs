//! The tokio runtime that tokio's peers share.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// One worker drives timers, and is enough for callbacks; actors get one per core.
pub(crate) fn start(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_time()
        .build()
        .expect("the runtime starts")
}

/// Ends it without waiting for what was spawned.
pub(crate) fn stop(runtime: &mut Option<Runtime>) {
    if let Some(runtime) = runtime.take() {
        runtime.shutdown_timeout(Duration::from_secs(10));
    }
}
