//! The spans in which the messages of a mailbox were told.

use std::collections::BTreeMap;

use lars_base::in_span::CapturedSpan;

use crate::sync::{Arc, Mutex};

/// A span in which something was told.
pub(crate) type Told = Arc<CapturedSpan>;

/// The span of the calling thread, for a message that it tells.
pub(crate) fn told_here() -> Option<Told> {
    CapturedSpan::current().map(Arc::new)
}

/// The spans of the messages that wait, by the addresses at which they wait.
///
/// A sender enters the span after it has taken the slot, and before it fills it. The reader takes
/// the span out before it leaves the slot empty. So a span that is here belongs to the message that
/// is at its address, or is about to be.
#[derive(Debug, Default)]
pub(crate) struct Spans(Mutex<BTreeMap<usize, Told>>);

impl Spans {
    pub(crate) fn enter(&self, address: usize, span: Told) {
        let before = self.0.lock().insert(address, span);
        debug_assert!(before.is_none(), "the message before it left its span");
    }

    /// Not to be dropped under a lock: a span calls the log subscriber.
    pub(crate) fn take(&self, address: usize) -> Option<Told> {
        self.0.lock().remove(&address)
    }
}
