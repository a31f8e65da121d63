//! An executor's unfinished work: one entry for each accepted task, removed when the task is over.
//!
//! A one-shot waits here, not in its timer: the timer only holds the number of the entry
//! (`Firing`). The thread that takes the entry out owns the task: the timer starts it, a cancel
//! drops it, a shutdown hands it back. So a task whose timer has fired, and that queues behind
//! others in a pool, can still be cancelled and handed back: it has not started.
//!
//! A series has an entry that names it, and a `Member` that it drops when it is over.
//!
//! No foreign code runs under the lock: tasks, captures and wakers are called and dropped outside
//! of it.

use std::any::type_name;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use crate::call::{CallBody, CallError, CallOutcome, Target};
use lars_base::sync::{Mutex, Unparker};
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::{RunOn, Systems};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{CancelOnDrop, Handle, TaskIdentity};

/// A task, whatever it calls and returns. If it is dropped unrun, waiting callers learn of it.
pub(super) trait AnyTask: Send {
    fn run(self: Box<Self>);
    fn cancel(self: Box<Self>);
    /// The outcome to notify when the task is handed back, outside the lock: notifying wakes
    /// foreign code.
    fn awaited(&self) -> Arc<dyn HandBack>;
}

/// The outcome of a task, whatever it returns.
pub(super) trait HandBack: Send + Sync {
    fn hand_back(&self);
}

impl<T: Send> HandBack for CallOutcome<T> {
    fn hand_back(&self) {
        Self::hand_back(self);
    }
}

impl<F, T, K> AnyTask for CallBody<F, T, K>
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

    fn awaited(&self) -> Arc<dyn HandBack> {
        self.outcome()
    }
}

pub(super) struct SharedExecutor {
    pub(super) handle: Handle,
    /// Where tasks run that do not say.
    pub(super) run_on: RunOn,
    pub(super) registry: Mutex<Registry>,
}

#[derive(Default)]
pub(super) struct Registry {
    pub(super) is_shut_down: bool,
    next: u64,
    pub(super) waiting: BTreeMap<u64, WaitingTask>,
    pub(super) repeats: BTreeMap<u64, Repeat>,
    pub(super) running: usize,
    pub(super) completed: u64,
    /// The threads that wait for the end.
    pub(super) waiters: BTreeMap<u64, Unparker>,
}

/// A one-shot that has not started.
pub(super) struct WaitingTask {
    pub(super) job: Box<dyn AnyTask>,
    pub(super) whose: TaskIdentity,
    pub(super) due: WhenDue,
    /// Only for its drop.
    pub(super) timer: CancelOnDrop,
    pub(super) limit: Option<TimeLimit>,
}

/// When a task that has not started is given up, and how: by a timer, which alone keeps that.
pub(super) struct TimeLimit {
    deadline: WhenDue,
    give_up: Weak<dyn Expire>,
}

/// Gives up a task, once, whoever calls it first.
pub(super) trait Expire: Send + Sync {
    fn expire(&self);
}

impl<G: FnOnce() + Send> Expire for Mutex<Option<G>> {
    fn expire(&self) {
        let give_up = self.lock().take();
        if let Some(give_up) = give_up {
            give_up();
        }
    }
}

impl TimeLimit {
    pub(super) fn new<G: FnOnce() + Send + 'static>(
        deadline: WhenDue,
        give_up: &Arc<Mutex<Option<G>>>,
    ) -> Self {
        let give_up: Weak<Mutex<Option<G>>> = Arc::downgrade(give_up);
        Self { deadline, give_up }
    }

    /// What gives up the task, if its time is over and its timer has not done that yet.
    fn overdue(&self, handle: &Handle) -> Option<Arc<dyn Expire>> {
        if self.deadline.has_come(handle.now()) { self.give_up.upgrade() } else { None }
    }
}

/// A series.
#[derive(Default)]
pub(super) struct Repeat {
    /// `None` until it has been scheduled.
    pub(super) series: Option<Arc<dyn Target>>,
    /// To be cancelled once it is scheduled: the executor was shut down meanwhile.
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

    /// Takes out the threads to wake, if this is the end.
    fn ended(&mut self) -> BTreeMap<u64, Unparker> {
        if self.is_terminated() { std::mem::take(&mut self.waiters) } else { BTreeMap::new() }
    }
}

impl SharedExecutor {
    /// Changes the registry, and wakes the threads that wait for the end if that was it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Registry) -> R) -> R {
        let (result, waiters) = {
            let mut registry = self.registry.lock();
            (change(&mut registry), registry.ended())
        };
        waiters.into_values().for_each(|waiter| waiter.unpark());
        result
    }

    /// Takes a one-shot out that has not started.
    fn take(&self, number: u64) -> Option<WaitingTask> {
        self.change(|registry| registry.waiting.remove(&number))
    }

    /// Drops a one-shot that has not started.
    pub(super) fn discard(&self, number: u64) {
        if let Some(waiting) = self.take(number) {
            self.clean_up(waiting.whose, move || drop(waiting));
        }
    }

    /// Runs destructors of a task.
    pub(super) fn clean_up(&self, whose: TaskIdentity, code: impl FnOnce()) {
        self.handle.contain(whose, PanicIn::Cleanup, code);
    }

    /// Runs a one-shot, unless it was taken out or its time is over.
    fn start(self: Arc<Self>, number: u64) {
        let mut overdue = None;
        let waiting = self.change(|registry| {
            let limit = registry.waiting.get(&number)?.limit.as_ref();
            overdue = limit.and_then(|limit| limit.overdue(&self.handle));
            if overdue.is_some() {
                return None;
            }
            let waiting = registry.waiting.remove(&number)?;
            registry.running += 1;
            Some(waiting)
        });
        if let Some(overdue) = overdue {
            overdue.expire();
        }
        let Some(WaitingTask { job, timer, .. }) = waiting else { return };
        drop(timer);
        let _running = Running { shared: self, completes: 1 };
        job.run();
    }

    /// Gives up a task whose outcome is not settled. From here on it cannot start, and if it is
    /// running, its result comes too late. The caller settles the outcome.
    pub(super) fn give_up<T>(
        self: &Arc<Self>,
        number: u64,
        outcome: &CallOutcome<T>,
    ) -> Option<Expired> {
        let task = self.change(|registry| {
            // Under the lock, so that the task does not start in between.
            outcome.claim().then(|| {
                registry.running += 1;
                registry.waiting.remove(&number)
            })
        })?;
        Some(Expired { task, running: Running { shared: Arc::clone(self), completes: 0 } })
    }
}

/// A task that was given up. Until this is dropped the executor does not end.
pub(super) struct Expired {
    /// The task, if it had not started.
    task: Option<WaitingTask>,
    running: Running,
}

impl Expired {
    /// Drops the task. What replaces it counts as running until the returned guard is dropped.
    pub(super) fn discard(self) -> Running {
        let Self { task, running } = self;
        if let Some(task) = task {
            running.shared.clean_up(task.whose, move || drop(task));
        }
        running
    }
}

/// A running one-shot. It is over when this is dropped, even by a panic.
pub(super) struct Running {
    shared: Arc<SharedExecutor>,
    completes: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.change(|registry| {
            registry.running -= 1;
            registry.completed += self.completes;
        });
    }
}

/// Gives the result of a task that was given up, and drops that task before. Its outcome is
/// claimed.
pub(super) struct Substitute<F, T> {
    pub(super) run: F,
    pub(super) whose: TaskIdentity,
    pub(super) outcome: Arc<CallOutcome<T>>,
    pub(super) given_up: Expired,
}

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static> TaskBody for Substitute<F, T> {
    fn run(self) {
        let Self { run, whose, outcome, given_up } = self;
        let running = given_up.discard();
        running.shared.handle.contain(whose, PanicIn::Task, || outcome.fulfil_claimed(run));
    }

    fn lost(self) {
        let Self { run, whose, outcome, given_up } = self;
        let running = given_up.discard();
        outcome.settle_claimed(Err(CallError::Dropped));
        running.shared.clean_up(whose, move || drop(run));
    }
}

/// The timer of a one-shot: starts it. If the timer is dropped unrun, because the scheduler was
/// stopped or an executor lost it, the task is too.
///
/// `F` is the task's type, by which the timer is known.
pub(super) struct Firing<F> {
    pub(super) shared: Arc<SharedExecutor>,
    pub(super) number: u64,
    pub(super) kind: PhantomData<fn() -> F>,
}

impl<F: 'static> TaskBody for Firing<F> {
    fn run(self) {
        self.shared.start(self.number);
    }

    fn handed_back(&self) {
        let registry = self.shared.registry.lock();
        let awaited = registry.waiting.get(&self.number).map(|waiting| waiting.job.awaited());
        drop(registry);
        if let Some(awaited) = awaited {
            awaited.hand_back();
        }
    }

    fn lost(self) {
        self.shared.discard(self.number);
    }

    fn known_as() -> &'static str {
        type_name::<F>()
    }
}

/// Cancels a one-shot of an executor.
pub(super) struct OneShot<T> {
    pub(super) shared: Arc<SharedExecutor>,
    pub(super) number: u64,
    pub(super) whose: TaskIdentity,
    pub(super) outcome: Arc<CallOutcome<T>>,
}

impl<T: Send> Target for OneShot<T> {
    fn cancel(&self) -> bool {
        let taken = self.shared.change(|registry| {
            // Under the lock, so that a task that is being cancelled does not time out as well.
            let is_ours = registry.waiting.contains_key(&self.number) && self.outcome.claim();
            if is_ours { registry.waiting.remove(&self.number) } else { None }
        });
        let Some(waiting) = taken else { return false };
        self.shared.clean_up(waiting.whose, move || drop(waiting));
        self.outcome.settle_claimed(Err(CallError::Cancelled));
        true
    }

    fn is_cancelled(&self) -> bool {
        self.outcome.is_cancelled()
    }
}

/// Held by a series while it is not over.
pub(super) struct Member {
    pub(super) shared: Arc<SharedExecutor>,
    pub(super) number: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        // The entry goes without the lock: it may hold the last reference to the series.
        drop(self.shared.change(|registry| registry.repeats.remove(&self.number)));
    }
}
