//! The end of a run, reported exactly once, whatever happens to the run.

use super::Shared;
use super::inbox::Input;
use crate::engine::RunEnd;
use crate::model::{Fence, TimerId};
use crate::sync::Arc;

/// Says how a run ended; if nobody does, that it was lost.
pub(crate) struct Ending {
    shared: Option<Arc<Shared>>,
    id: TimerId,
    fence: Fence,
}

impl Ending {
    pub(super) fn new(shared: Arc<Shared>, id: TimerId, fence: Fence) -> Self {
        Self { shared: Some(shared), id, fence }
    }

    pub(crate) fn say(mut self, end: RunEnd) {
        self.send(end);
    }

    fn send(&mut self, end: RunEnd) {
        if let Some(shared) = self.shared.take() {
            let (id, fence) = (self.id, self.fence);
            // A node that has ended does not care.
            let _ = shared.inbox.push(Input::Ended { id, fence, end });
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.send(RunEnd::Retry { error: "the executor dropped the run".into() });
    }
}
