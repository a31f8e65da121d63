//! The stop word: a promise that is made once, and later kept.
//!
//! | value | meaning | leaves by |
//! |---|---|---|
//! | `RUNNING` (null) | no stop was requested | `request`: a compare-and-swap, so one caller wins |
//! | address of a promise | the driver is to collect the tasks | `resolve`: the driver, once |
//! | `STOPPED` | the promise was kept | never |

use std::ptr;

use futures::channel::oneshot;
use lars_base::time::Instant;

use crate::base::identity::TaskIdentity;
use crate::base::panics::{PanicIn, Reporter};
use crate::base::raw_task::RawTask;
use crate::engine::entry::state::Flags;
use crate::sync::{Arc, AtomicPtr, Ordering};

/// What the first caller of `stop` waits for: the tasks, once the promise is kept.
pub(crate) type Promised = oneshot::Receiver<Vec<Pending>>;

struct Promise {
    tasks: oneshot::Sender<Vec<Pending>>,
    /// Whether the tasks are notified that they are handed back.
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

    /// Asks to stop. The first to ask gets the promise; the others get nothing. `tells` says
    /// whether the tasks are notified that they are handed back.
    pub(crate) fn request(&self, tells: bool) -> Option<Promised> {
        let (tasks, result) = oneshot::channel();
        let promise = Box::into_raw(Box::new(Promise { tasks, tells }));
        // SeqCst: stands in one order with the sleep word; see `sleep`.
        match self.promise.compare_exchange(
            ptr::null_mut(),
            promise,
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            Ok(_) => Some(result),
            Err(_) => {
                // SAFETY: made above and not shared, since the exchange failed.
                drop(unsafe { Box::from_raw(promise) });
                None
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
        // Acquire: a thread that sees it sees how each entry ended.
        self.promise.load(Ordering::Acquire) == stopped()
    }

    /// Keeps the promise.
    pub(crate) fn resolve(&self, pending: Vec<Pending>) {
        // AcqRel: we see the promise as its maker left it.
        let promise = self.promise.swap(stopped(), Ordering::AcqRel);
        if promise.is_null() || promise == stopped() {
            return; // the driver was dropped without anybody asking; `pending` is dropped here
        }
        // SAFETY: `request` made it, and the swap made it ours.
        let promise = unsafe { Box::from_raw(promise) };
        if promise.tells && !promise.tasks.is_canceled() {
            pending.iter().for_each(Pending::tell);
        }
        // If the future is gone, the tasks are dropped here, unrun.
        drop(promise.tasks.send(pending));
    }
}

impl Drop for StopWord {
    fn drop(&mut self) {
        // Relaxed: no other reference is left.
        let promise = self.promise.load(Ordering::Relaxed);
        if !promise.is_null() && promise != stopped() {
            // SAFETY: `request` made it, and it was never resolved.
            drop(unsafe { Box::from_raw(promise) });
        }
    }
}

/// A task that the driver has collected: unrun, and its holder's.
pub(crate) struct Pending {
    task: Option<RawTask>,
    pub(crate) flags: Flags,
    /// `None` if it is never due.
    pub(crate) due: Option<Instant>,
    reporter: Arc<Reporter>,
}

impl Pending {
    pub(crate) fn new(
        task: RawTask,
        flags: Flags,
        due: Option<Instant>,
        reporter: Arc<Reporter>,
    ) -> Self {
        Self { task: Some(task), flags, due, reporter }
    }

    /// Whose it is. It has its task until it is run.
    pub(crate) fn identity(&self) -> Option<TaskIdentity> {
        self.task.as_ref().map(RawTask::identity)
    }

    /// Tells the body that it is handed back.
    pub(crate) fn tell(&self) {
        if let Some(task) = &self.task {
            let whose = task.whose();
            self.reporter.contain_task(whose, PanicIn::Cleanup, || task.handed_back());
        }
    }

    /// Runs the task on this thread. Says whether it did not panic.
    pub(crate) fn run(mut self) -> bool {
        let Some(task) = self.task.take() else { return true };
        let whose = task.whose();
        self.reporter.contain_task(whose, PanicIn::Task, move || task.run_here())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            let whose = task.whose();
            self.reporter.contain_task(whose, PanicIn::Cleanup, move || drop(task));
        }
    }
}
