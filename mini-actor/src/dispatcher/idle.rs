//! Which workers sleep, and which have to be woken, so that no work is lost.
//!
//! A submitter pushes, fences, and looks whether somebody searches or sleeps. A worker that found
//! nothing leaves the searchers, registers as a sleeper, fences, and looks at all queues once more
//! before it parks. Either the submitter sees the sleeper and wakes it, or the worker sees the
//! work. While somebody is searching nobody else is woken; the last searcher that finds something
//! wakes the next, if there is more.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Mutex, Ordering, Parker, Unparker, fence};

pub(crate) struct Idle {
    /// Workers that look for work.
    searching: CachePadded<AtomicUsize>,
    /// How many are in `sleepers`, to be looked at without the lock.
    sleeping: CachePadded<AtomicUsize>,
    sleepers: Mutex<Vec<usize>>,
    unparkers: Vec<Unparker>,
}

impl Idle {
    pub(crate) fn new(unparkers: Vec<Unparker>) -> Self {
        Self {
            searching: CachePadded::new(AtomicUsize::new(0)),
            sleeping: CachePadded::new(AtomicUsize::new(0)),
            sleepers: Mutex::new(Vec::with_capacity(unparkers.len())),
            unparkers,
        }
    }

    /// Something was pushed: sees to it that somebody finds it.
    #[inline]
    pub(crate) fn notify(&self) {
        // SeqCst fence: pairs with the one in `sleep`.
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
            // Relaxed: the lock orders it for those who hold it; others look for a hint after a
            // fence.
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

    pub(crate) fn wake_all(&self) {
        // SeqCst fence: who registers as a sleeper after this sees what was done before it.
        fence(Ordering::SeqCst);
        self.unparkers.iter().for_each(Unparker::unpark);
    }

    /// A worker begins to search. (One that was woken has been counted already.)
    pub(crate) fn begin_search(&self) {
        // SeqCst: in one order with `end_search`.
        self.searching.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker ends its search. If it `found` something, and nobody else searches, and there is
    /// `more`, it wakes the next.
    pub(crate) fn end_search(&self, found: bool, more: impl FnOnce() -> bool) {
        // SeqCst: a submitter that saw us searching pushed before this.
        if self.searching.fetch_sub(1, Ordering::SeqCst) == 1 && found {
            fence(Ordering::SeqCst);
            if more() {
                self.notify();
            }
        }
    }

    /// Registers as a sleeper and parks, unless there is something to do after all. When it returns
    /// the worker is counted as searching.
    pub(crate) fn sleep(&self, own: usize, parker: &Parker, something: impl FnOnce() -> bool) {
        {
            let mut sleepers = self.sleepers.lock();
            sleepers.push(own);
            // Relaxed: the fence below orders it.
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
        }
        // SeqCst fence: pairs with the one in `notify`.
        fence(Ordering::SeqCst);
        if !something() {
            parker.park();
        }
        let mut sleepers = self.sleepers.lock();
        // Not woken by a submitter, who would have taken us from the list and counted us.
        if let Some(place) = sleepers.iter().position(|&number| number == own) {
            sleepers.swap_remove(place);
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
            self.searching.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, lars_loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::sync::AtomicU64;

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(model);
    }

    /// A worker that has run dry and a submitter: the work is found, or the model hangs and loom
    /// says so.
    #[test]
    fn work_that_is_pushed_while_the_only_worker_falls_asleep_is_found() {
        check(|| {
            let parker = Parker::new();
            let idle = Arc::new(Idle::new(vec![parker.unparker().clone()]));
            let queue = Arc::new(AtomicU64::new(0));
            idle.begin_search();
            let submitter = {
                let (idle, queue) = (Arc::clone(&idle), Arc::clone(&queue));
                loom::thread::spawn(move || {
                    for _ in 0..2 {
                        queue.fetch_add(1, Ordering::Release);
                        idle.notify();
                    }
                })
            };
            let mut done = 0;
            while done < 2 {
                let found = queue.swap(0, Ordering::Acquire);
                done += found;
                idle.end_search(found > 0, || false);
                if done < 2 {
                    idle.sleep(0, &parker, || queue.load(Ordering::Acquire) > 0);
                }
            }
            submitter.join().unwrap();
        });
    }
}
