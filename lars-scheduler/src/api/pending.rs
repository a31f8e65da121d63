//! What a stop hands back, and the future that it comes with.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::clock::limit_of_wait;
use crate::base::identity::TaskIdentity;
use crate::engine::stop_word::{Pending, Promised};
use lars_base::debug_fields;
use lars_base::time::Instant;
use lars_base::waiting;

/// A task that was accepted, had not started when the scheduler stopped, and was not cancelled.
///
/// It belongs to you now: run it, or drop it. Dropping it drops its captures; its cancelled hook is
/// not called.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let minute = Duration::from_secs(60);
/// let due = time.now() + minute;
/// let _ = time.schedule_once(minute, Task::new(|| println!("flushed")).run_on_close())?;
/// let _ = time.schedule_with_fixed_delay(2 * minute, minute, || println!("heartbeat"))?;
///
/// let [flush, heartbeat] = <[_; 2]>::try_from(time.stop().wait()).unwrap(); // by deadline
/// assert_eq!(flush.due(), Some(due));
/// assert!(flush.runs_on_close() && !flush.is_repeat());
/// assert!(flush.run()); // prints "flushed"; it did not panic
/// assert!(heartbeat.is_repeat());
/// drop(heartbeat); // not run
/// # Ok(()) }
/// ```
#[must_use = "dropping a pending task drops it unrun"]
pub struct PendingTask(Pending);

impl PendingTask {
    /// When it would have been due; `None` if never, because that is beyond the clock's range.
    pub fn due(&self) -> Option<Instant> {
        self.0.due
    }

    /// Whose it is.
    pub fn identity(&self) -> TaskIdentity {
        self.0.identity().expect("it has its task until it is run")
    }

    /// Whether it was marked with [`Task::run_on_close`](crate::Task::run_on_close) or
    /// [`Periodic::run_on_close`](crate::Periodic::run_on_close).
    pub fn runs_on_close(&self) -> bool {
        self.0.flags.runs_on_close()
    }

    /// Whether it is the next run of a repeat. Running it runs the task once; the series ends with
    /// it.
    pub fn is_repeat(&self) -> bool {
        self.0.flags.is_repeat()
    }

    /// Runs the task on this thread, now. Returns `false` if it panicked; the panic is contained
    /// and reported.
    ///
    /// (The next run of a repeat that was cancelled after the stop does nothing.)
    pub fn run(self) -> bool {
        self.0.run()
    }
}

debug_fields!(
    |it: PendingTask| due: it.due(),
    identity: it.identity(),
    is_repeat: it.is_repeat(),
);

/// The result of [`stop`](crate::LightArrayRevolverScheduler::stop): resolves with all pending
/// tasks, earliest deadline first.
///
/// It can be awaited on any executor, or waited for by a thread. Dropping it drops the tasks. Its
/// waker is woken by the timer thread, as the last thing it does.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let _ = scheduler.schedule_once(Duration::from_secs(60), || println!("later"))?;
/// let pending = futures::executor::block_on(scheduler.stop()); // or `.wait()`, on a thread
/// assert_eq!(pending.len(), 1);
/// assert!(scheduler.stop().wait().is_empty()); // the first call gets them all
/// # Ok(()) }
/// ```
#[must_use = "the pending tasks are handed back here; dropping this drops them"]
pub struct StopFuture {
    result: Option<Promised>,
    /// Whether it tells the tasks that they are handed back.
    tells: bool,
}

impl StopFuture {
    /// The future of a request that has already notified the tasks, if that was asked for.
    pub(crate) fn new(result: Option<Promised>) -> Self {
        Self { result, tells: false }
    }

    /// Whether this is the first stop, which gets the tasks.
    pub(crate) fn is_first(&self) -> bool {
        self.result.is_some()
    }

    /// `close` timed out and passes the list on: from now on its tasks are notified that they are
    /// handed back.
    pub(crate) fn left(self) -> Self {
        Self { tells: true, ..self }
    }

    /// Blocks until the scheduler has stopped. A task on the timer thread must not call it: it
    /// would wait for itself.
    pub fn wait(mut self) -> Vec<PendingTask> {
        // Without a deadline it ends with a result.
        waiting::block_until(Pin::new(&mut self), None).unwrap_or_default()
    }

    /// Blocks until the scheduler has stopped, but not longer than `limit`.
    ///
    /// # Errors
    ///
    /// The future itself, if that takes too long, so that you can go on waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let mut stopping = scheduler.stop();
    /// let pending = loop {
    ///     match stopping.wait_timeout(Duration::from_secs(1)) {
    ///         Ok(pending) => break pending,
    ///         Err(still) => stopping = still, // an inline task holds the timer thread
    ///     }
    /// };
    /// assert!(pending.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn wait_timeout(mut self, limit: Duration) -> Result<Vec<PendingTask>, Self> {
        let deadline = limit_of_wait(limit);
        waiting::block_until(Pin::new(&mut self), deadline).ok_or(self)
    }
}

impl Future for StopFuture {
    type Output = Vec<PendingTask>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.result {
            // Another call won the stop; there is nothing left for this one.
            None => Poll::Ready(Vec::new()),
            Some(result) => Pin::new(result).poll(context).map(|pending| {
                self.result = None;
                // A scheduler whose state is gone has nothing to hand back.
                let pending = pending.unwrap_or_default();
                if self.tells {
                    pending.iter().for_each(Pending::tell);
                }
                pending.into_iter().map(PendingTask).collect()
            }),
        }
    }
}

debug_fields!(|it: StopFuture| is_first: it.is_first());
