//! The builder of pools.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Pool;
use crate::base::error::ConfigError;
use crate::base::threads::{OnThreadStart, ThreadStart};
use lars_base::debug_fields;

/// The stacks that a thread may have: at least what std itself and a log subscriber need, and not
/// more than fits into a 32-bit address space.
pub(crate) const STACKS: RangeInclusive<usize> = 64 << 10..=1 << 30;

/// Builds a [`Pool`]. Made by [`Pool::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::Runnable;
/// use lars_scheduler::{Executor, Pool};
/// use std::sync::mpsc;
///
/// let pool = Pool::builder("work").threads(1).queue(2).stack_size(256 << 10).build()?;
/// let (release, hold) = mpsc::channel::<()>();
/// pool.execute(Runnable::new(move || hold.recv().unwrap_or_default()))?; // its thread is busy
/// pool.execute(Runnable::new(|| println!("second")))?;
/// pool.execute(Runnable::new(|| println!("third")))?;
///
/// let rejected = pool.execute(Runnable::new(|| println!("too many"))).unwrap_err();
/// assert!(rejected.reason().contains("2 tasks wait"));
/// let task = rejected.into_task(); // nothing is lost
/// drop(release);
/// pool.wait();
/// pool.execute(task)?;
/// # pool.wait();
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it builds"]
pub struct PoolBuilder {
    pub(super) name: String,
    pub(crate) threads: Option<usize>,
    pub(crate) queue: Option<usize>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) on_start: OnThreadStart,
}

impl Pool {
    /// A builder of a pool whose threads are named `name-0`, `name-1` and so on.
    pub fn builder(name: impl Into<String>) -> PoolBuilder {
        PoolBuilder {
            name: name.into(),
            threads: None,
            queue: None,
            stack_size: None,
            on_start: OnThreadStart::default(),
        }
    }
}

impl PoolBuilder {
    /// How many threads the pool has, from 1 to [`Pool::MAX_THREADS`]; by default as many as the
    /// machine has cores. They start with the first task.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// How many tasks may wait for a thread; at least 1, and no limit by default.
    ///
    /// While that many wait, [`execute`](crate::Executor::execute) rejects further tasks, and gives
    /// them back. It never blocks.
    ///
    /// If the pool is the executor of a scheduler ([`Builder::executor`]), its due timers wait in
    /// the scheduler; see [`Builder::pool`]. They go first: as long as some wait, `execute`
    /// rejects tasks already when half of the queue is taken. A task that names the pool itself
    /// ([`Task::executor`]) and is rejected runs on the scheduler's own pool.
    ///
    /// [`Task::executor`]: crate::Task::executor
    /// [`Builder::executor`]: crate::Builder::executor
    /// [`Builder::pool`]: crate::Builder::pool
    pub fn queue(mut self, limit: usize) -> Self {
        self.queue = Some(limit);
        self
    }

    /// The stack size of each thread in bytes, from 64 KiB to 1 GiB; by default that of std, which
    /// is 2 MiB unless `RUST_MIN_STACK` says otherwise.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Calls `hook` on each thread of the pool before it runs tasks. A hook that panics does no
    /// harm.
    pub fn on_thread_start(
        mut self,
        hook: impl Fn(&ThreadStart<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_start = OnThreadStart(Some(Arc::new(hook)));
        self
    }

    /// Checks the settings, and makes the pool. Its threads start with the first task.
    ///
    /// # Errors
    ///
    /// [`ConfigError::PoolThreads`], [`ConfigError::PoolQueue`] or [`ConfigError::PoolStackSize`]
    /// if a number is out of its range; [`ConfigError::ThreadName`] if the name has a NUL byte.
    pub fn build(self) -> Result<Pool, ConfigError> {
        let threads = self.threads.unwrap_or_else(|| num_cpus::get().min(Pool::MAX_THREADS));
        if threads == 0 || threads > Pool::MAX_THREADS {
            return Err(ConfigError::PoolThreads { given: threads, max: Pool::MAX_THREADS });
        }
        if let Some(given @ 0) = self.queue {
            return Err(ConfigError::PoolQueue { given, min: 1 });
        }
        if let Some(given) = self.stack_size.filter(|bytes| !STACKS.contains(bytes)) {
            let (min, max) = STACKS.into_inner();
            return Err(ConfigError::PoolStackSize { given, min, max });
        }
        if self.name.contains('\0') {
            return Err(ConfigError::ThreadName { given: self.name });
        }
        Ok(Pool::with(self, threads))
    }
}

debug_fields!(|it: PoolBuilder|
    name: it.name,
    threads: it.threads,
    queue: it.queue,
    stack_size: it.stack_size,
);
