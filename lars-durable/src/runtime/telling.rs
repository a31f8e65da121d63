//! Runs that were given up, and of which the program is still to be told.

use std::time::Duration;

use crate::sync::{Arc, Condvar, Mutex};

/// A node that closes waits until this is over: what is told is on its way through the wheel and
/// the executor, and both end with the node.
#[derive(Default)]
pub(super) struct Telling {
    open: Mutex<usize>,
    none: Condvar,
}

/// One of them. Dropping it says that it was told, or never will be.
pub(super) struct Told(Arc<Telling>);

impl Telling {
    pub(super) fn begin(self: &Arc<Self>) -> Told {
        *self.open.lock() += 1;
        Told(Arc::clone(self))
    }

    /// Waits until all have been told, or this long.
    pub(super) fn wait(&self, limit: Duration) {
        let mut open = self.open.lock();
        self.none.wait_while_for(&mut open, |open| *open > 0, limit);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let mut open = self.0.open.lock();
        *open -= 1;
        if *open == 0 {
            self.0.none.notify_all();
        }
    }
}
