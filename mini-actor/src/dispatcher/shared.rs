//! What the threads of a pool share: what is scheduled, who sleeps, and how far their end has come.

use crossbeam_deque::{Injector, Steal, Stealer, Worker as Queue};
use lars_base::idle::Idle;
use lars_base::time::Instant;

use crate::base::panics::guard;
use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::Task;
use crate::sync::plain::AtomicBool;
use crate::sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, fence, real_now};

pub(super) struct Shared {
    /// The thread of one actor, which may block it.
    pub(super) own: bool,
    /// What other threads have scheduled.
    pub(super) injector: Injector<Task>,
    /// Of the queue of each thread.
    stealers: Vec<Stealer<Task>>,
    /// As long as this is not zero, threads take what lies in `injector` one by one.
    one_by_one: AtomicUsize,
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
            one_by_one: AtomicUsize::new(0),
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

    /// Schedules what waited for a thread that is about to block.
    ///
    /// It goes behind what others have scheduled. A thread that took it from there in a batch,
    /// behind an actor that blocks as well, would give it back once more, and so without end. So
    /// until all that is there now has been taken, each thread takes no more than it runs at once.
    pub(super) fn give_back(&self, tasks: impl Iterator<Item = Task>) {
        let mut any = false;
        for task in tasks {
            any = true;
            self.injector.push(task);
        }
        if any {
            // Relaxed: only a number. It may be old, and then a task is given back once more.
            self.one_by_one.fetch_max(self.injector.len(), Ordering::Relaxed);
            self.idle.notify();
        }
    }

    /// Takes a batch of what others have scheduled to the end of this queue; or else the next
    /// task, which the caller runs at once.
    #[inline]
    pub(super) fn take_some(&self, queue: &Queue<Task>) -> Option<Task> {
        if self.injector.is_empty() {
            return None;
        }
        if self.is_one_by_one() {
            return self.take_one().success();
        }
        // If it fails because other threads take at this moment, they have the tasks.
        let _ = self.injector.steal_batch(queue);
        None
    }

    /// The next of what others have scheduled, with a batch of it behind, if that may be.
    fn take_next(&self, queue: &Queue<Task>) -> Steal<Task> {
        if self.is_one_by_one() {
            return self.take_one();
        }
        self.injector.steal_batch_and_pop(queue)
    }

    #[inline]
    fn is_one_by_one(&self) -> bool {
        // Relaxed: only a number; see `give_back`.
        self.one_by_one.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn take_one(&self) -> Steal<Task> {
        let stolen = self.injector.steal();
        let left = |left: usize| match stolen {
            Steal::Success(_) => Some(left.saturating_sub(1)),
            Steal::Empty => Some(0),
            Steal::Retry => None,
        };
        // Relaxed: as above.
        let _ = self.one_by_one.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        stolen
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
            for stolen in std::iter::once(self.take_next(queue)).chain(from_others) {
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

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::dispatcher::task::Activate;

    /// (Of a size, so that each has an address of its own.)
    struct Nothing(#[allow(dead_code)] u8);

    impl Activate for Nothing {
        fn activate(self: Arc<Self>) -> bool {
            false
        }
    }

    /// Two threads of a pool, without threads.
    struct Two {
        shared: Shared,
        queues: [Queue<Task>; 2],
        /// What each of them runs.
        runs: [Option<Task>; 2],
    }

    impl Two {
        fn new() -> Self {
            let queues = [Queue::new_fifo(), Queue::new_fifo()];
            let shared = Shared::new(false, &queues, Idle::new(2).0);
            Self { shared, queues, runs: [None, None] }
        }

        /// The turn of the task that this thread runs ends, and that has another; or the next turn
        /// begins, in which the task blocks. True if that is the turn of `awaited`.
        fn step(&mut self, number: usize, awaited: &Task) -> bool {
            if let Some(task) = self.runs[number].take() {
                self.shared.push(task);
                return false;
            }
            let queue = &self.queues[number];
            let first = self.shared.take_some(queue).or_else(|| queue.pop());
            let Some(task) = first.or_else(|| self.shared.steal(number, queue)) else {
                return false;
            };
            let is_awaited = Arc::ptr_eq(&task, awaited);
            self.shared.give_back(std::iter::from_fn(|| queue.pop()));
            self.runs[number] = Some(task);
            is_awaited
        }
    }

    #[test]
    fn what_is_scheduled_last_is_dropped_with_the_last_thread_and_not_before() {
        let shared = Arc::new(Two::new().shared);
        let [first, second] = [Running::new(&shared), Running::new(&shared)];
        shared.end();
        let task: Task = Arc::new(Nothing(0));
        shared.push(Arc::clone(&task));
        // A wait has a limit, and lasts so long.
        let limit = real_now() + Duration::from_millis(5);
        shared.wait_ended(Some(limit));
        assert!(real_now() >= limit);
        drop(first);
        assert_eq!((shared.running(), Arc::strong_count(&task)), (1, 2));
        drop(second);
        shared.wait_ended(None);
        assert_eq!((shared.running(), Arc::strong_count(&task)), (0, 1));
    }

    #[test]
    fn what_waits_behind_tasks_that_block_in_each_turn_has_its_own_whatever_the_order() {
        // (Miri takes minutes for all of them.)
        const STEPS: u32 = if cfg!(miri) { 3 } else { 14 };
        // In every order of the steps of two threads. Each begins with two of its own, and goes on
        // with the others again and again.
        for order in 0..1_u32 << STEPS {
            let mut two = Two::new();
            let task = || -> Task { Arc::new(Nothing(0)) };
            (0..3).for_each(|_| two.shared.push(task()));
            let awaited = task();
            two.shared.push(Arc::clone(&awaited));
            let mut had = false;
            for step in (0..2).chain((2..STEPS).cycle().take(36)) {
                had |= two.step((order >> step & 1) as usize, &awaited);
            }
            assert!(had, "not in the order {order:b}");
        }
    }
}
