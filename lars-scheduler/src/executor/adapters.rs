//! An executor over a pool or a runtime that a program may already have.

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
