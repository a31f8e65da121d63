//! The end of a run, reported exactly once, whatever happens to the run.

use super::inbox::Input;
use super::{Shared, Signal};
use crate::engine::RunEnd;
use crate::model::{Fence, TimerId};
use crate::sync::Arc;

/// Says how a run ended. If nobody does, it was lost, or never begun.
pub(crate) struct Ending {
    shared: Option<Arc<Shared>>,
    id: TimerId,
    fence: Fence,
    signal: Arc<Signal>,
    /// The handler may have done something.
    begun: bool,
}

impl Ending {
    pub(super) fn new(shared: Arc<Shared>, id: TimerId, fence: Fence, signal: Arc<Signal>) -> Self {
        Self { shared: Some(shared), id, fence, signal, begun: false }
    }

    /// The handler is about to be called.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// What the run and its node tell each other.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.signal)
    }

    /// The handler has returned, and calls that it made are still to be answered: then its end is
    /// said. A node that closes waits for that, and gives the run up no longer.
    pub(crate) fn handled(&self) {
        if let Some(shared) = &self.shared {
            let _ = shared.push(Input::Handled { id: self.id, fence: self.fence });
        }
    }

    pub(crate) fn say(mut self, end: RunEnd) {
        self.send(end);
    }

    fn send(&mut self, end: RunEnd) {
        if let Some(shared) = self.shared.take() {
            let (id, fence) = (self.id, self.fence);
            if self.signal.is_acknowledged() {
                let _ = shared.push(Input::Acknowledged { id, fence });
            }
            // A node that has ended needs no report.
            let _ = shared.push(Input::Ended { id, fence, end });
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.send(match self.begun {
            true => RunEnd::Retry { error: "the executor dropped the run".into() },
            false => RunEnd::Dropped,
        });
    }
}
