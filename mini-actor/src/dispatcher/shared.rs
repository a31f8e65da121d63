//! What the threads of a pool share: what is scheduled, who sleeps, and how far their end has come.

use std::time::Instant;

use crossbeam_deque::{Injector, Steal, Stealer, Worker as Queue};
use lars_base::idle::Idle;

use crate::base::panics::guard;
use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::Task;
use crate::sync::plain::AtomicBool;
use crate::sync::{Arc, Condvar, Mutex, Ordering, fence, real_now};

pub(super) struct Shared {
    /// The thread of one actor, which may block it.
    pub(super) own: bool,
    /// What other threads have scheduled.
    pub(super) injector: Injector<Task>,
    /// Of the queue of each thread.
    stealers: Vec<Stealer<Task>>,
    /// One of each thread.
    pub(super) tallies: Vec<Tally>,
    pub(super) idle: Idle,
    ending: AtomicBool,
    /// Threads that have not ended.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Shared {
    /// For a thread with each of these queues.
    pub(super) fn new(own: bool, queues: &[Queue<Task>], idle: Idle) -> Self {
        Self {
            own,
            injector: Injector::new(),
            stealers: queues.iter().map(Queue::stealer).collect(),
            tallies: queues.iter().map(|_| Tally::new(true)).collect(),
            idle,
            ending: AtomicBool::new(false),
            running: Mutex::new(0),
            ended: Condvar::default(),
        }
    }

    /// Schedules something for whichever thread takes it.
    #[inline]
    pub(super) fn push(&self, task: Task) {
        self.injector.push(task);
        self.idle.notify();
        if self.is_ending() {
            self.drop_if_over();
        }
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    /// Takes a batch of what others have for the thread with this number, and returns the first of
    /// it.
    pub(super) fn steal(&self, number: usize, queue: &Queue<Task>) -> Option<Task> {
        loop {
            let mut contended = false;
            let others = (1..self.stealers.len())
                .map(|step| &self.stealers[(number + step) % self.stealers.len()]);
            let from_others = others.map(|stealer| stealer.steal_batch_and_pop(queue));
            for stolen in
                std::iter::once(self.injector.steal_batch_and_pop(queue)).chain(from_others)
            {
                match stolen {
                    Steal::Success(task) => return Some(task),
                    Steal::Retry => contended = true,
                    Steal::Empty => {}
                }
            }
            if !contended {
                return None;
            }
        }
    }

    /// Lets the threads finish what is scheduled, and end.
    pub(super) fn end(&self) {
        // Release: what was scheduled before is seen by a worker that sees this.
        self.ending.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    /// Whether the threads end, or have ended.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        // Acquire: what was scheduled before it was set is seen.
        self.ending.load(Ordering::Acquire)
    }

    /// How many threads have not ended.
    pub(super) fn running(&self) -> usize {
        *self.running.lock()
    }

    /// Waits until the threads have ended, until `deadline` at most.
    pub(super) fn wait_ended(&self, deadline: Option<Instant>) {
        let mut running = self.running.lock();
        while *running > 0 && deadline.is_none_or(|deadline| real_now() < deadline) {
            running = self.ended.wait(running, deadline);
        }
    }

    /// Drops what is scheduled if no thread is left to run it. Called when a thread has ended, and
    /// after something was scheduled while they end: the later call finds it.
    #[cold]
    fn drop_if_over(&self) {
        if self.running() > 0 {
            return;
        }
        // SeqCst fence, pairs with the one in `Idle::notify`: either this thread sees what was
        // pushed before that, or the thread that pushed sees that the threads end, and comes here.
        fence(Ordering::SeqCst);
        loop {
            match self.injector.steal() {
                // Its destructors are foreign code.
                Steal::Success(task) => drop(guard("what was scheduled last", || drop(task))),
                Steal::Retry => {}
                Steal::Empty => break,
            }
        }
    }
}

/// Counts a thread as running until this is dropped, which it also is if the thread cannot be
/// started.
pub(super) struct Running(pub(super) Arc<Shared>);

impl Running {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        *shared.running.lock() += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
        self.0.drop_if_over();
    }
}
