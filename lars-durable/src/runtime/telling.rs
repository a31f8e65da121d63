//! Runs that were given up, and of which the program is still to be told.

use std::thread::{self, ThreadId};
use std::time::Duration;

use super::contain;
use crate::sync::{Arc, Condvar, Mutex};

/// A node that closes waits until this is over: what is told is on its way through the wheel and
/// the executor, and both end with the node.
#[derive(Default)]
pub(super) struct Telling {
    open: Mutex<Open>,
    none: Condvar,
}

#[derive(Default)]
struct Open {
    /// How many are to be told, or are being told.
    count: usize,
    /// The threads of those that are being told.
    at: Vec<ThreadId>,
}

/// One of them. Dropping it says that it was told, or never will be.
pub(super) struct Told(Arc<Telling>);

impl Telling {
    pub(super) fn begin(self: &Arc<Self>) -> Told {
        self.open.lock().count += 1;
        Told(Arc::clone(self))
    }

    /// Waits until all have been told, or this long. A hook that closes its own node does not wait
    /// for itself.
    pub(super) fn wait(&self, limit: Duration) {
        let here = thread::current().id();
        let mut open = self.open.lock();
        let inside = open.at.iter().filter(|at| **at == here).count();
        self.none.wait_while_for(&mut open, |open| open.count > inside, limit);
    }
}

impl Told {
    /// Calls the hook; a panic comes back as its message.
    pub(super) fn tell(self, hook: impl FnOnce()) -> Result<(), String> {
        let here = thread::current().id();
        self.0.open.lock().at.push(here);
        let told = contain(hook);
        let mut open = self.0.open.lock();
        if let Some(place) = open.at.iter().position(|at| *at == here) {
            open.at.swap_remove(place);
        }
        drop(open);
        told
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.0.open.lock().count -= 1;
        // Who waits in a hook waits for the others only.
        self.0.none.notify_all();
    }
}
