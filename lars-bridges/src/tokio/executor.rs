//! Tasks on a tokio runtime.

use ::tokio::runtime::Handle;
use lars_scheduler::Executor;
use lars_scheduler::executor::{Rejected, Runnable};

/// Runs tasks on a tokio runtime, as tasks of it: they must not block its workers.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_bridges::tokio::TokioExecutor;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
/// let scheduler = LightArrayRevolverScheduler::builder()
///     .executor(TokioExecutor::new(runtime.handle().clone()))
///     .build()?;
/// let (sender, receiver) = mpsc::channel();
/// let _ = scheduler.schedule_once(Duration::from_millis(1), move || {
///     drop(sender.send(tokio::runtime::Handle::try_current().is_ok()));
/// })?;
/// assert!(receiver.recv()?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct TokioExecutor {
    runtime: Handle,
}

impl TokioExecutor {
    /// Tasks run on `runtime`.
    pub fn new(runtime: Handle) -> Self {
        Self { runtime }
    }
}

impl Executor for TokioExecutor {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        // A runtime that has shut down drops the task; the scheduler counts and reports that.
        self.runtime.spawn(async move { task.run() });
        Ok(())
    }
}
