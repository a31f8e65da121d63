//! One task of a worker, as its caller sees it.

use std::sync::{Arc, Weak};

use super::drain::SharedWorker;
use super::job::{Fate, Ticket};
use lars_base::debug_fields;

/// A task of a [`Worker`](super::Worker), as its caller sees it.
///
/// It is `Send` and `Sync`; all methods may be called from any thread, at any time, even when the
/// worker is gone. Dropping it does **not** cancel the task, and it keeps neither the worker nor
/// the task alive.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::worker::Worker;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let worker = Worker::new(&time);
/// let warning = worker.schedule_after(second, || println!("still waiting"))?;
/// let give_up = worker.schedule_after(2 * second, || println!("given up"))?;
/// time.advance(second); // prints "still waiting"
/// assert!(warning.is_done() && !warning.is_cancelled());
/// assert!(!warning.cancel(), "it has run");
/// assert!(!give_up.is_done());
/// assert!(give_up.cancel());
/// assert!(give_up.is_done() && give_up.is_cancelled());
/// # Ok(()) }
/// ```
pub struct WorkerTask {
    worker: Weak<SharedWorker>,
    number: u64,
    ticket: Arc<Ticket>,
}

impl WorkerTask {
    pub(super) fn new(worker: &Arc<SharedWorker>, number: u64, ticket: &Arc<Ticket>) -> Self {
        Self { worker: Arc::downgrade(worker), number, ticket: Arc::clone(ticket) }
    }

    /// Cancels the task.
    ///
    /// For a task that runs once, `true` means that this call prevented the run. For a repeat it
    /// means that this call ended the series: a run in flight finishes, and none follows. `false`
    /// means that the task is running, has run, was cancelled before, or is over for another
    /// reason.
    ///
    /// When it returns `true`, the task's captures have been dropped (those of a running repeat are
    /// dropped after the run).
    ///
    /// # Panics
    ///
    /// Never. A destructor that panics is contained and reported.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let worker = Worker::new(&scheduler);
    /// let retry = worker.schedule_after(Duration::from_secs(5), || println!("retry"))?;
    /// assert!(retry.cancel());
    /// assert!(!retry.cancel());
    /// assert!(retry.is_cancelled());
    /// # Ok(()) }
    /// ```
    pub fn cancel(&self) -> bool {
        let Some(worker) = self.worker.upgrade() else {
            return false;
        };
        let cancelled = worker.lock().remove(self.number, Fate::Cancelled);
        match cancelled {
            None => false,
            Some(job) => {
                job.discard(&worker.handle);
                true
            }
        }
    }

    /// Whether the task was cancelled, by [`cancel`](Self::cancel) or because its worker was
    /// disposed.
    pub fn is_cancelled(&self) -> bool {
        self.ticket.is(Fate::Cancelled)
    }

    /// Whether the task is over: it has run (a panic counts as that), its series has ended, it was
    /// cancelled, or it was dropped with its scheduler.
    pub fn is_done(&self) -> bool {
        !self.ticket.is(Fate::Open)
    }
}

debug_fields!(|it: WorkerTask| done: it.is_done(), cancelled: it.is_cancelled());
