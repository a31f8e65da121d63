//! The open questions of a system on a scheduler that somebody else owns.
//!
//! A scheduler of the system's own hands back the time limits of its questions when it stops, and
//! that ends them. Another one goes on, and would keep a question open for its whole limit.

use std::collections::BTreeMap;

use crate::cell::askers::Waits;
use crate::sync::{Mutex, Weak};

pub(crate) struct Questions {
    /// `None` once the system has been closed.
    state: Mutex<Option<Open>>,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// By number, which is the order in which they were asked.
    questions: BTreeMap<u64, Weak<dyn Waits>>,
}

/// The system has been closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed;

impl Questions {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(Some(Open::default())) }
    }

    /// A question is asked. Returns the number that [`leave`](Self::leave) takes.
    pub(crate) fn enter(&self, question: Weak<dyn Waits>) -> Result<u64, Closed> {
        let mut state = self.state.lock();
        let open = state.as_mut().ok_or(Closed)?;
        open.next += 1;
        open.questions.insert(open.next, question);
        Ok(open.next)
    }

    /// The asker has gone, or has its answer.
    pub(crate) fn leave(&self, number: u64) {
        if let Some(open) = &mut *self.state.lock() {
            open.questions.remove(&number);
        }
    }

    /// How many are open.
    #[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().as_ref().map_or(0, |open| open.questions.len())
    }

    /// Ends those that are open. No more are accepted.
    pub(crate) fn close(&self) {
        let open = self.state.lock().take();
        // Outside the lock: it calls wakers, which are foreign code.
        let questions = open.into_iter().flat_map(|open| open.questions.into_values());
        questions.filter_map(|question| question.upgrade()).for_each(|question| question.close());
    }
}
