//! What an executor is, and the simplest one.

use std::sync::Arc;

use super::{Rejected, Runnable};
use crate::executor::pool::Pool;

/// Runs the tasks of a scheduler.
///
/// The timer thread calls [`execute`](Executor::execute) with each task that is due, so it must not
/// block: while it does, nothing else of the scheduler fires. Ready-made executors are the [`Pool`]
/// that a scheduler starts by default, [`Inline`], and [those](crate::executor) over what a program
/// has already: `SpawnExecutor` for anything that implements `futures::task::Spawn`, and, in
/// `lars-bridges`, `RayonExecutor` and `TokioExecutor`.
///
/// # Panics
///
/// A panic of an executor is contained and reported; if the panic dropped the task, that counts as
/// abandoned.
///
/// # Examples
///
/// ```
/// use lars_scheduler::executor::{Rejected, Runnable};
/// use lars_scheduler::{Executor, LightArrayRevolverScheduler};
/// use std::sync::{Mutex, mpsc};
/// use std::time::Duration;
///
/// /// Hands tasks to whichever thread receives from the channel.
/// struct Channel(Mutex<mpsc::Sender<Runnable>>);
/// impl Executor for Channel {
///     fn execute(&self, task: Runnable) -> Result<(), Rejected> {
///         let sender = self.0.lock().unwrap();
///         sender.send(task).map_err(|gone| Rejected::new(gone.0, "the receiver is gone"))
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, receiver) = mpsc::channel();
/// let scheduler = LightArrayRevolverScheduler::builder()
///     .executor(Channel(Mutex::new(sender)))
///     .build()?;
/// scheduler.schedule_once(Duration::from_millis(1), || println!("on the main thread"))?;
/// receiver.recv()?.run();
/// # Ok(()) }
/// ```
pub trait Executor: Send + Sync + 'static {
    /// Takes a task, to run it soon on any thread.
    ///
    /// # Errors
    ///
    /// [`Rejected`] gives the task back. The scheduler then counts it, logs the reason and runs
    /// the task on its own pool instead, because an accepted task is never lost.
    fn execute(&self, task: Runnable) -> Result<(), Rejected>;

    /// This executor as a pool, if it is one: a pool takes tasks that are due together in one call.
    #[doc(hidden)]
    fn as_pool(&self) -> Option<&Pool> {
        None
    }

    /// This executor behind an `Arc`; one that is behind an `Arc` already, as it is.
    #[doc(hidden)]
    fn into_shared(self) -> Arc<dyn Executor>
    where
        Self: Sized,
    {
        Arc::new(self)
    }
}

impl<E: Executor> Executor for Arc<E> {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        (**self).execute(task)
    }

    fn as_pool(&self) -> Option<&Pool> {
        (**self).as_pool()
    }

    fn into_shared(self) -> Arc<dyn Executor> {
        self
    }
}

impl Executor for Arc<dyn Executor> {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        (**self).execute(task)
    }

    fn as_pool(&self) -> Option<&Pool> {
        (**self).as_pool()
    }

    fn into_shared(self) -> Arc<dyn Executor> {
        self
    }
}

/// Runs tasks where they are handed over: on the timer thread.
///
/// For tasks that never block. See [`Task::inline`](crate::Task::inline).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::Runnable;
/// use lars_scheduler::{Executor, Inline};
/// use std::sync::mpsc;
///
/// let (sender, receiver) = mpsc::channel();
/// Inline.execute(Runnable::new(move || drop(sender.send(std::thread::current().id()))))?;
/// assert_eq!(receiver.try_recv()?, std::thread::current().id());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Inline;

impl Executor for Inline {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "the pool's queues, which are not ours, do not keep provenance")]
    fn an_executor_behind_an_arc_runs_tasks_and_a_pool_behind_one_is_one() {
        let direct: Arc<Inline> = Arc::new(Inline);
        let unsized_one: Arc<dyn Executor> = Arc::new(Inline);
        let (sender, ran) = std::sync::mpsc::channel();
        for executor in [&direct as &dyn Executor, &unsized_one] {
            let sender = sender.clone();
            executor.execute(Runnable::new(move || sender.send(()).unwrap())).unwrap();
            ran.try_recv().unwrap();
            assert!(executor.as_pool().is_none());
        }
        let pool = Pool::new("shared", 1).unwrap();
        let direct = Arc::new(pool.clone());
        let unsized_one: Arc<dyn Executor> = Arc::new(pool);
        assert!(Executor::as_pool(&direct).is_some() && Executor::as_pool(&unsized_one).is_some());
    }
}
