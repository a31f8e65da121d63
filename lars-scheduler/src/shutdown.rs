//! The stop word: a promise that is made once, and what it is kept with.
//!
//! | value | meaning | leaves by |
//! |---|---|---|
//! | `RUNNING` (null) | nobody asked to stop | `request`: a compare-and-swap, so one caller wins |
//! | address of a promise | the driver is to collect what is pending | `resolve`: the driver, once |
//! | `STOPPED` | the promise was kept | never |

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use crate::body::RawTask;
use crate::clock::real_now;
use crate::entry::state::Flags;
use crate::report::{PanicIn, Reporter};
use crate::sync::{Arc, AtomicPtr, Ordering};
use crate::wait;

#[derive(Debug)]
struct Promise {
    tasks: oneshot::Sender<Vec<PendingTask>>,
    /// Whether the tasks are told that they are handed back.
    tells: bool,
}

fn stopped() -> *mut Promise {
    ptr::without_provenance_mut(1)
}

#[derive(Debug)]
pub(crate) struct StopWord {
    promise: AtomicPtr<Promise>,
}

impl StopWord {
    pub(crate) fn new() -> Self {
        Self { promise: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Asks to stop. The first to ask gets the promise; the others get nothing.
    pub(crate) fn request(&self) -> StopFuture {
        self.ask(true)
    }

    /// The same, for who deals with the tasks at once: they are not told that they are handed back.
    pub(crate) fn request_for_close(&self) -> StopFuture {
        self.ask(false)
    }

    fn ask(&self, tells: bool) -> StopFuture {
        let (tasks, result) = oneshot::channel();
        let promise = Box::into_raw(Box::new(Promise { tasks, tells }));
        // SeqCst: stands in one order with the sleep word; see `sleep`.
        match self.promise.compare_exchange(
            ptr::null_mut(),
            promise,
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            Ok(_) => StopFuture { result: Some(result), tells: false },
            Err(_) => {
                // SAFETY: made above and shared with nobody, since the exchange failed.
                drop(unsafe { Box::from_raw(promise) });
                StopFuture { result: None, tells: false }
            }
        }
    }

    /// Whether somebody asked.
    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        // SeqCst: (4) of `sleep` when the timer thread looks; it costs no more than a relaxed load
        // on the platforms that matter.
        !self.promise.load(Ordering::SeqCst).is_null()
    }

    /// Whether the driver has collected what was pending.
    pub(crate) fn is_resolved(&self) -> bool {
        // Acquire: who sees it sees what became of each entry.
        self.promise.load(Ordering::Acquire) == stopped()
    }

    /// Keeps the promise.
    pub(crate) fn resolve(&self, pending: Vec<PendingTask>) {
        // AcqRel: we see the promise as its maker left it.
        let promise = self.promise.swap(stopped(), Ordering::AcqRel);
        if promise.is_null() || promise == stopped() {
            return; // the driver was dropped without anybody asking; `pending` is dropped here
        }
        // SAFETY: `request` made it, and the swap made it ours.
        let promise = unsafe { Box::from_raw(promise) };
        if promise.tells && !promise.tasks.is_canceled() {
            pending.iter().for_each(PendingTask::tell);
        }
        // If nobody waits any more, the tasks are dropped here, unrun.
        drop(promise.tasks.send(pending));
    }
}

impl Drop for StopWord {
    fn drop(&mut self) {
        // Relaxed: nobody else is left.
        let promise = self.promise.load(Ordering::Relaxed);
        if !promise.is_null() && promise != stopped() {
            // SAFETY: `request` made it, and it was never resolved.
            drop(unsafe { Box::from_raw(promise) });
        }
    }
}

/// A task that was accepted, had not started when the scheduler stopped, and was not cancelled.
///
/// It is the holder's now: run it, or drop it. Dropping it drops its captures; its cancelled hook
/// is not called.
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
pub struct PendingTask {
    task: Option<RawTask>,
    flags: Flags,
    due: Option<Instant>,
    reporter: Arc<Reporter>,
}

impl PendingTask {
    pub(crate) fn new(
        task: RawTask,
        flags: Flags,
        due: Option<Instant>,
        reporter: Arc<Reporter>,
    ) -> Self {
        Self { task: Some(task), flags, due, reporter }
    }

    /// Tells the body that it is handed back. What it does must not cost anybody the list, so not even a log
    /// subscriber's panic passes.
    fn tell(&self) {
        if let Some(task) = &self.task {
            let tell = || self.reporter.contain(PanicIn::Cleanup, || task.handed_back());
            let _ = catch_unwind(AssertUnwindSafe(tell));
        }
    }

    /// When it would have been due; `None` for a time that the platform's clock cannot express.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it was marked with [`Task::run_on_close`](crate::Task::run_on_close).
    pub fn runs_on_close(&self) -> bool {
        self.flags.runs_on_close()
    }

    /// Whether it is the next run of a repeat. Running it runs that once; the series ends with it.
    pub fn is_repeat(&self) -> bool {
        self.flags.is_repeat()
    }

    /// Runs the task on this thread, now. A panic is contained and reported; says whether there was none.
    ///
    /// (The next run of a repeat that was cancelled after the stop does nothing.)
    pub fn run(mut self) -> bool {
        let task = self.task.take();
        self.reporter.contain(PanicIn::Task, move || {
            if let Some(task) = task {
                task.run_here();
            }
        })
    }
}

impl Drop for PendingTask {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.reporter.contain(PanicIn::Cleanup, move || drop(task));
        }
    }
}

impl fmt::Debug for PendingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingTask")
            .field("due", &self.due)
            .field("is_repeat", &self.is_repeat())
            .finish_non_exhaustive()
    }
}

/// The result of [`stop`](crate::LightArrayRevolverScheduler::stop): resolves with all pending
/// tasks, earliest deadline first.
///
/// It can be awaited on any executor, or waited for by a thread. Dropping it drops the tasks. Its waker is woken by
/// the timer thread, as the last thing it does.
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
#[derive(Debug)]
pub struct StopFuture {
    result: Option<oneshot::Receiver<Vec<PendingTask>>>,
    /// Whether it tells the tasks that they are handed back.
    tells: bool,
}

impl StopFuture {
    /// Whether this is the first stop, which gets the tasks.
    pub(crate) fn is_first(&self) -> bool {
        self.result.is_some()
    }

    /// It was `close`'s, which leaves it to its caller.
    pub(crate) fn left(self) -> Self {
        Self { tells: true, ..self }
    }

    /// Blocks until the scheduler has stopped. Not to be called by a task on the timer thread, which would
    /// wait for itself.
    pub fn wait(mut self) -> Vec<PendingTask> {
        // Without a deadline it ends with a result.
        wait::block_until(Pin::new(&mut self), None).unwrap_or_default()
    }

    /// Blocks until the scheduler has stopped, but not longer than `limit`.
    ///
    /// # Errors
    ///
    /// The future itself, if that took too long, to go on waiting with.
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
        let deadline = real_now().checked_add(limit);
        match wait::block_until(Pin::new(&mut self), deadline) {
            Some(pending) => Ok(pending),
            None => Err(self),
        }
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
                    pending.iter().for_each(PendingTask::tell);
                }
                pending
            }),
        }
    }
}
