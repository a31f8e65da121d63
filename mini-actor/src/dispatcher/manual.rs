//! Actors on the thread that asks for them to run, as in a test.

use std::collections::VecDeque;

use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::Task;
use crate::sync::{Arc, Mutex, thread};

/// The most activations that a system in virtual time has to close, to be dropped, or to answer: an
/// actor or a future that wakes itself forever must not keep the caller.
pub(crate) const LAST_TURNS: usize = 1 << 20;

/// Runs actors in the order in which they were scheduled, on the thread that asks for it.
pub(crate) struct Manual {
    queue: Mutex<VecDeque<Task>>,
    running: Mutex<Option<thread::ThreadId>>,
    tally: Tally,
}

impl Manual {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            running: Mutex::new(None),
            tally: Tally::new(false),
        }
    }

    /// Runs until nothing is scheduled, or `limit` activations are over. Returns how many there
    /// were.
    pub(crate) fn run(&self, limit: usize) -> usize {
        let before = self.running.lock().replace(thread::current().id());
        let mut turns = 0;
        while turns < limit {
            let Some(task) = self.queue.lock().pop_front() else {
                break;
            };
            turns += 1;
            if Arc::clone(&task).activate() {
                self.queue.lock().push_back(task);
            }
        }
        *self.running.lock() = before;
        turns
    }

    pub(super) fn schedule(&self, task: Task) {
        self.queue.lock().push_back(task);
    }

    /// Whether the calling thread is running actors here.
    pub(super) fn is_current(&self) -> bool {
        *self.running.lock() == Some(thread::current().id())
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }
}
