//! The work that an executor has accepted and that is not over: one entry for each task, gone when the task is.
//!
//! A one-shot waits here, not in its timer: the timer only holds the number of the entry (`Firing`). Whoever takes
//! the entry out owns the task: the timer starts it, a cancel drops it, a shutdown hands it back. So a task whose
//! timer has fired, and that is queued in a pool behind others, can still be cancelled and handed back: it has not
//! started.
//!
//! A series has an entry that names it, and a `Member` that it drops when it is over.
//!
//! Under the lock runs no foreign code: tasks, captures, wakers are called and dropped without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::body::TaskBody;
use crate::call::{CallBody, CallError, Outcome, Target};
use crate::cancel::CancelOnDrop;
use crate::executor::{Executor, Runnable};
use crate::handle::Handle;
use crate::sync::{AtomicBool, Mutex, Ordering, Unparker};

/// A task, whatever it calls and returns. Dropping it drops it unrun, and says so to who waits for it.
pub(super) trait Job: Send {
    fn run(self: Box<Self>);
    fn cancel(self: Box<Self>);
    /// What is to be told that the task is handed back. Foreign code wakes up by that, so not under the lock.
    fn awaited(&self) -> Arc<dyn Awaited>;
}

/// The outcome of a task, whatever it returns.
pub(super) trait Awaited: Send + Sync {
    fn hand_back(&self);
}

impl<T: Send> Awaited for Outcome<T> {
    fn hand_back(&self) {
        Self::hand_back(self);
    }
}

impl<F, T, K> Job for CallBody<F, T, K>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    K: Send + 'static,
{
    fn run(self: Box<Self>) {
        TaskBody::run(*self);
    }

    fn cancel(self: Box<Self>) {
        TaskBody::cancelled(*self);
    }

    fn awaited(&self) -> Arc<dyn Awaited> {
        self.outcome()
    }
}

/// Runs foreign code that is not a task's run; a panic in it is contained and logged. Says whether it went well.
pub(super) fn contain(code: impl FnOnce() + Send + 'static) -> bool {
    let went_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&went_well);
    Runnable::new(move || {
        code();
        // Relaxed: read on this thread, below.
        well.store(true, Ordering::Relaxed);
    })
    .run();
    went_well.load(Ordering::Relaxed)
}

pub(super) struct Shared {
    pub(super) handle: Handle,
    pub(super) executor: Option<Arc<dyn Executor>>,
    pub(super) registry: Mutex<Registry>,
}

#[derive(Default)]
pub(super) struct Registry {
    pub(super) is_shut_down: bool,
    next: u64,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    pub(super) repeats: BTreeMap<u64, Repeat>,
    pub(super) running: usize,
    pub(super) completed: u64,
    /// Who waits for the end.
    pub(super) waiters: BTreeMap<u64, Unparker>,
}

/// A one-shot that has not started.
pub(super) struct Waiting {
    pub(super) job: Box<dyn Job>,
    pub(super) due: Option<Instant>,
    /// Only for its drop.
    pub(super) timer: CancelOnDrop,
}

/// A series.
#[derive(Default)]
pub(super) struct Repeat {
    /// `None` until it has been scheduled.
    pub(super) series: Option<Arc<dyn Target>>,
    /// To be cancelled when it has been scheduled: the executor was shut down meanwhile.
    pub(super) doomed: bool,
}

impl Registry {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.is_shut_down && self.waiting.is_empty() && self.repeats.is_empty() && self.running == 0
    }

    /// Takes out who is to be woken, if this is the end.
    fn ended(&mut self) -> BTreeMap<u64, Unparker> {
        if self.is_terminated() { std::mem::take(&mut self.waiters) } else { BTreeMap::new() }
    }
}

impl Shared {
    /// Changes the registry, and tells those who wait for the end if that was it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Registry) -> R) -> R {
        let (result, waiters) = {
            let mut registry = self.registry.lock();
            (change(&mut registry), registry.ended())
        };
        waiters.into_values().for_each(|waiter| waiter.unpark());
        result
    }

    /// Takes a one-shot out that has not started.
    fn take(&self, number: u64) -> Option<Waiting> {
        self.change(|registry| registry.waiting.remove(&number))
    }

    /// Drops a one-shot that has not started.
    pub(super) fn discard(&self, number: u64) {
        if let Some(waiting) = self.take(number) {
            contain(move || drop(waiting));
        }
    }

    /// Runs a one-shot, unless somebody took it.
    fn start(self: &Arc<Self>, number: u64) {
        let waiting = self.change(|registry| {
            let waiting = registry.waiting.remove(&number)?;
            registry.running += 1;
            Some(waiting)
        });
        let Some(Waiting { job, timer, .. }) = waiting else { return };
        drop(timer);
        let _running = Running { shared: self, completes: 1 };
        job.run();
    }

    /// Runs `code` in the place of a task that is given up, and that is dropped before that if it has not started. It
    /// counts as running from the moment when the task no longer waits, so that the executor does not end in between.
    pub(super) fn run_instead(&self, number: u64, code: impl FnOnce()) {
        let given_up = self.change(|registry| {
            registry.running += 1;
            registry.waiting.remove(&number)
        });
        let _running = Running { shared: self, completes: 0 };
        if let Some(waiting) = given_up {
            contain(move || drop(waiting));
        }
        code();
    }
}

/// A one-shot that runs. It is over when this is dropped, also by a panic.
struct Running<'a> {
    shared: &'a Shared,
    completes: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.change(|registry| {
            registry.running -= 1;
            registry.completed += self.completes;
        });
    }
}

/// The timer of a one-shot: starts it. If the timer is dropped unrun, because the scheduler was stopped or an executor
/// lost it, the task is too.
pub(super) struct Firing {
    shared: Option<Arc<Shared>>,
    number: u64,
}

impl Firing {
    pub(super) fn new(shared: &Arc<Shared>, number: u64) -> Self {
        Self { shared: Some(Arc::clone(shared)), number }
    }

    /// Forgets the task: it was not accepted, or has been taken out.
    pub(super) fn disarm(mut self) {
        self.shared = None;
    }
}

impl TaskBody for Firing {
    fn run(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.start(self.number);
        }
    }

    fn handed_back(&self) {
        let Some(shared) = &self.shared else { return };
        let registry = shared.registry.lock();
        let awaited = registry.waiting.get(&self.number).map(|waiting| waiting.job.awaited());
        drop(registry);
        if let Some(awaited) = awaited {
            awaited.hand_back();
        }
    }

    fn cancelled(self) {
        self.disarm();
    }
}

impl Drop for Firing {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.discard(self.number);
        }
    }
}

/// Cancels a one-shot of an executor.
pub(super) struct OneShot<T> {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
    pub(super) outcome: Arc<Outcome<T>>,
}

impl<T: Send> Target for OneShot<T> {
    fn cancel(&self) -> bool {
        let taken = self.shared.change(|registry| {
            // Under the lock, so that nobody settles a task as timed out that is being cancelled.
            let is_ours = registry.waiting.contains_key(&self.number) && self.outcome.claim();
            if is_ours { registry.waiting.remove(&self.number) } else { None }
        });
        let Some(waiting) = taken else { return false };
        contain(move || drop(waiting));
        self.outcome.settle_claimed(Err(CallError::Cancelled));
        true
    }

    fn is_cancelled(&self) -> bool {
        self.outcome.is_cancelled()
    }
}

/// Held by a series while it is not over.
pub(super) struct Member {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        // The entry goes without the lock: it may hold the last reference to the series.
        drop(self.shared.change(|registry| registry.repeats.remove(&self.number)));
    }
}
