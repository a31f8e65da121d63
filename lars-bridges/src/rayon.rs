//! Tasks on a rayon pool.

use std::sync::Arc;

use ::rayon::ThreadPool;
use lars_scheduler::Executor;
use lars_scheduler::executor::{Rejected, Runnable};

/// Runs tasks on a rayon pool.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_bridges::rayon::RayonExecutor;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::sync::{Arc, mpsc};
/// use std::time::Duration;
///
/// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build()?);
/// let executor = RayonExecutor::new(pool);
/// let scheduler = LightArrayRevolverScheduler::builder().executor(executor).build()?;
/// let (sender, receiver) = mpsc::channel();
/// let _ = scheduler.schedule_once(Duration::from_millis(1), move || {
///     drop(sender.send(rayon::current_thread_index()));
/// })?;
/// assert_eq!(receiver.recv()?, Some(0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RayonExecutor {
    pool: Arc<ThreadPool>,
}

impl RayonExecutor {
    /// Tasks run on `pool`.
    pub fn new(pool: Arc<ThreadPool>) -> Self {
        Self { pool }
    }
}

impl Executor for RayonExecutor {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        self.pool.spawn_fifo(move || task.run());
        Ok(())
    }
}
