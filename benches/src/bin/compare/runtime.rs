//! The threads and the tokio runtime that others run on.

use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::actors::behaviour::{Address, Sends};

/// One worker drives timers, and is enough for callbacks; actors get one per core.
pub(crate) fn start(workers: usize) -> Runtime {
    start_with(workers, false)
}

/// The same, perhaps with the timer that tokio is trying out. Only a build with
/// `--cfg tokio_unstable` has it.
pub(crate) fn start_with(workers: usize, alternative: bool) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_time();
    if alternative {
        #[cfg(tokio_unstable)]
        builder.enable_alt_timer();
    }
    builder.build().expect("the runtime starts")
}

/// Ends it without waiting for what was spawned.
pub(crate) fn stop(runtime: &mut Option<Runtime>) {
    if let Some(runtime) = runtime.take() {
        runtime.shutdown_timeout(Duration::from_secs(10));
    }
}

/// As many threads as mini-actor has.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Sends later as one does it by hand with tokio: a task for each message, with a sleep in it.
pub(crate) fn send_by_tasks<A: Address>(runtime: &Runtime, to: &A, sends: Sends) -> Duration {
    sends.each(|delay, message| {
        let to = to.clone();
        // Read here: the task may not run before some time has passed.
        let deadline = Instant::now() + delay;
        runtime.spawn(async move {
            tokio::time::sleep_until(deadline).await;
            to.tell(message);
        });
    })
}
