//! How workers sleep and are woken, so that no work waits while all of them sleep.
//!
//! ```text
//!   submitter                          worker that found nothing
//!   push the work                      leave the searchers
//!   SeqCst fence                       register as a sleeper
//!   searchers? sleepers?     (1)       SeqCst fence
//!                                      look at all queues      (2)
//!                                      park
//! ```
//!
//! Either (1) sees the sleeper and wakes it, or (2) sees the work. While a worker searches, a push
//! wakes no other: the searcher finds the work, or finds nothing and looks again at (2). The last
//! searcher that finds something wakes the next if there is more. So a burst wakes one worker after
//! another, as many as there is work for, and its submitter pays only for the first.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Mutex, Ordering, Parker, Unparker, fence};

/// Which workers search, and which sleep.
#[derive(Debug)]
pub struct Idle {
    /// How many workers look for work.
    searching: CachePadded<AtomicUsize>,
    /// How many are in `sleepers`, to be looked at without the lock.
    sleeping: CachePadded<AtomicUsize>,
    sleepers: Mutex<Vec<usize>>,
    unparkers: Vec<Unparker>,
}

/// What one worker sleeps with.
#[derive(Debug)]
pub struct Sleeper {
    number: usize,
    parker: Parker,
}

impl Idle {
    /// For this many workers, none of which searches or sleeps yet.
    pub fn new(workers: usize) -> (Self, Vec<Sleeper>) {
        let sleeper = |number| Sleeper { number, parker: Parker::new() };
        let workers: Vec<Sleeper> = (0..workers).map(sleeper).collect();
        let idle = Self {
            searching: CachePadded::new(AtomicUsize::new(0)),
            sleeping: CachePadded::new(AtomicUsize::new(0)),
            sleepers: Mutex::new(Vec::with_capacity(workers.len())),
            unparkers: workers.iter().map(|worker| worker.parker.unparker().clone()).collect(),
        };
        (idle, workers)
    }

    /// Work was pushed: sees to it that a worker finds it.
    #[inline]
    pub fn notify(&self) {
        // SeqCst: the submitter's fence of the module's documentation.
        fence(Ordering::SeqCst);
        // Relaxed: after the fence.
        if self.searching.load(Ordering::Relaxed) == 0 && self.sleeping.load(Ordering::Relaxed) > 0
        {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        let woken = {
            let mut sleepers = self.sleepers.lock();
            let woken = sleepers.pop();
            // Relaxed: the lock orders it for its holders; others look for a hint after a fence.
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
            if woken.is_some() {
                // Counted for it, before it runs, so that the next submitter does not wake another.
                self.searching.fetch_add(1, Ordering::Relaxed);
            }
            woken
        };
        if let Some(number) = woken {
            self.unparkers[number].unpark();
        }
    }

    /// Wakes every worker, because something has changed that all have to see.
    pub fn wake_all(&self) {
        // SeqCst: a worker that registers as a sleeper after this sees what was done before it.
        fence(Ordering::SeqCst);
        self.unparkers.iter().for_each(Unparker::unpark);
    }

    /// A worker begins to search. (One that was woken has been counted already.)
    pub fn begin_search(&self) {
        // SeqCst: in one order with `end_search`.
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker ends its search. If it `found` something, nobody else searches, and there is
    /// `more`, this wakes the next.
    pub fn end_search(&self, found: bool, more: impl FnOnce() -> bool) {
        // SeqCst: a submitter that saw us searching has pushed before this.
        if self.searching.fetch_sub(1, Ordering::SeqCst) == 1 && found {
            fence(Ordering::SeqCst);
            if more() {
                self.notify();
            }
        }
    }

    /// Registers as a sleeper and parks, unless there is `something` to do after all. When this
    /// returns, the worker counts as searching.
    pub fn sleep(&self, sleeper: &Sleeper, something: impl FnOnce() -> bool) {
        {
            let mut sleepers = self.sleepers.lock();
            sleepers.push(sleeper.number);
            // Relaxed: the fence below orders it.
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
        }
        // SeqCst: the worker's fence of the module's documentation.
        fence(Ordering::SeqCst);
        if !something() {
            sleeper.parker.park();
        }
        let mut sleepers = self.sleepers.lock();
        // A submitter that wakes a worker takes it off the list and counts it. This one woke up by
        // itself.
        if let Some(place) = sleepers.iter().position(|&number| number == sleeper.number) {
            sleepers.swap_remove(place);
            // Relaxed, both: the lock orders them for its holders; others look for a hint after a
            // fence.
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
            self.searching.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, lars_loom))]
mod models;
