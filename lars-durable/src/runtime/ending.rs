//! The end of a run, reported exactly once, whatever happens to the run.

use super::Shared;
use super::inbox::Input;
use crate::engine::RunEnd;
use crate::model::{Fence, TimerId};
use crate::sync::Arc;
#[cfg(any(feature = "postgres", feature = "actors"))]
use crate::sync::{AtomicBool, Ordering};

/// Says how a run ended; if nobody does, that it was lost.
pub(crate) struct Ending {
    shared: Option<Arc<Shared>>,
    id: TimerId,
    fence: Fence,
    /// The handler has recorded the end itself, perhaps.
    #[cfg(any(feature = "postgres", feature = "actors"))]
    acknowledged: Arc<AtomicBool>,
}

impl Ending {
    pub(super) fn new(shared: Arc<Shared>, id: TimerId, fence: Fence) -> Self {
        Self {
            shared: Some(shared),
            id,
            fence,
            #[cfg(any(feature = "postgres", feature = "actors"))]
            acknowledged: Arc::default(),
        }
    }

    /// To be set when the handler has recorded the end itself.
    #[cfg(any(feature = "postgres", feature = "actors"))]
    pub(crate) fn acknowledged(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.acknowledged)
    }

    pub(crate) fn say(mut self, end: RunEnd) {
        self.send(end);
    }

    fn send(&mut self, end: RunEnd) {
        if let Some(shared) = self.shared.take() {
            let (id, fence) = (self.id, self.fence);
            // Relaxed: the inbox's lock orders it, and it was set by this run.
            #[cfg(any(feature = "postgres", feature = "actors"))]
            if self.acknowledged.load(Ordering::Relaxed) {
                let _ = shared.push(Input::Acknowledged { id, fence });
            }
            // A node that has ended needs no report.
            let _ = shared.push(Input::Ended { id, fence, end });
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.send(RunEnd::Retry { error: "the executor dropped the run".into() });
    }
}
