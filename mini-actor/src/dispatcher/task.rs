//! What a dispatcher runs.

use crate::sync::Arc;

/// What can be scheduled.
pub(crate) trait Activate: Send + Sync {
    /// Runs it for a while. True if it has to be scheduled again.
    fn activate(self: Arc<Self>) -> bool;
}

pub(crate) type Task = Arc<dyn Activate>;
