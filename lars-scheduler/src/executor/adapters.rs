//! Executors over thread pools and runtimes that a program may already have.

use futures::task::{Spawn, SpawnExt};

use super::{Executor, Rejected, Runnable};

/// Runs tasks on anything that spawns futures: `futures::executor::ThreadPool`, or the wrapper
/// that another runtime offers for this trait.
///
/// ```
/// # // needs a `Spawn`; a runtime's thread pool in real life
/// # struct Threads;
/// # impl futures::task::Spawn for Threads {
/// #     fn spawn_obj(
/// #         &self,
/// #         f: futures::task::FutureObj<'static, ()>,
/// #     ) -> Result<(), futures::task::SpawnError> {
/// #         std::thread::spawn(|| futures::executor::block_on(f));
/// #         Ok(())
/// #     }
/// # }
/// use lars_scheduler::executor::SpawnExecutor;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spawner = Threads;
/// let scheduler = LightArrayRevolverScheduler::builder()
///     .executor(SpawnExecutor::new(spawner))
///     .build()?;
/// # let (sender, receiver) = std::sync::mpsc::channel();
/// # scheduler.schedule_once(std::time::Duration::ZERO, move || sender.send(1).unwrap())?;
/// # assert_eq!(receiver.recv()?, 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SpawnExecutor<S> {
    spawner: S,
}

impl<S: Spawn + Send + Sync + 'static> SpawnExecutor<S> {
    /// Tasks run as futures on `spawner`.
    pub fn new(spawner: S) -> Self {
        Self { spawner }
    }
}

impl<S: Spawn + Send + Sync + 'static> Executor for SpawnExecutor<S> {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        // Asked first, because `spawn` keeps what it refuses.
        if let Err(refusal) = self.spawner.status() {
            return Err(Rejected::new(task, refusal.to_string()));
        }
        // A refusal after all drops the task; the scheduler counts and reports that.
        let _ = self.spawner.spawn(async move { task.run() });
        Ok(())
    }
}

/// Runs tasks on a tokio runtime, as tasks of it: they must not block its workers.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::TokioExecutor;
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
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
#[derive(Debug, Clone)]
pub struct TokioExecutor {
    runtime: tokio::runtime::Handle,
}

#[cfg(feature = "tokio")]
impl TokioExecutor {
    /// Tasks run on `runtime`.
    pub fn new(runtime: tokio::runtime::Handle) -> Self {
        Self { runtime }
    }
}

#[cfg(feature = "tokio")]
impl Executor for TokioExecutor {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        // A runtime that has shut down drops the task; the scheduler counts and reports that.
        self.runtime.spawn(async move { task.run() });
        Ok(())
    }
}

/// Runs tasks on a rayon pool.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::RayonExecutor;
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
#[cfg(feature = "rayon")]
#[cfg_attr(docsrs, doc(cfg(feature = "rayon")))]
#[derive(Debug, Clone)]
pub struct RayonExecutor {
    pool: std::sync::Arc<rayon::ThreadPool>,
}

#[cfg(feature = "rayon")]
impl RayonExecutor {
    /// Tasks run on `pool`.
    pub fn new(pool: std::sync::Arc<rayon::ThreadPool>) -> Self {
        Self { pool }
    }
}

#[cfg(feature = "rayon")]
impl Executor for RayonExecutor {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        self.pool.spawn_fifo(move || task.run());
        Ok(())
    }
}
