//! A call: what it asks for, and how it stands.

use crate::model::NewTimer;
use crate::store::{Tenure, Write};
use crate::time::Mono;

/// The number by which its caller is told.
pub(crate) type CallId = u64;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Call {
    pub(super) id: CallId,
    /// Its place in the order in which calls came, from 1 on.
    pub(super) number: u64,
    pub(super) write: Write,
    /// It counts only as long as this holds.
    pub(super) tenure: Option<Tenure>,
    /// After this the call fails: the store cannot be used.
    pub(super) patience: Mono,
    /// Its caller has been answered that the outcome is not known.
    pub(super) given_up: bool,
    /// What the store said to an earlier try.
    pub(super) reason: Option<String>,
}

impl Call {
    /// What the store is asked for.
    pub(super) fn asked(&self) -> Write {
        let write = self.write.clone();
        match self.tenure {
            Some(tenure) => Write::Under { tenure, write: Box::new(write) },
            None => write,
        }
    }

    /// How much the call counts in a batch.
    pub(super) fn weight(&self) -> usize {
        match &self.write {
            Write::Schedule(timers) => timers.len().max(1),
            Write::Select { select, act } if act.changes() => select.limit,
            _ => 1,
        }
    }

    /// How many its payloads, keys and tags have.
    pub(super) fn bytes(&self) -> usize {
        match &self.write {
            Write::Schedule(timers) => timers.iter().map(NewTimer::bytes).sum(),
            _ => 0,
        }
    }

    /// Whether its timers have no identities yet.
    pub(super) fn needs_ids(&self) -> bool {
        matches!(&self.write, Write::Schedule(timers) if timers.iter().any(|timer| timer.id == 0))
    }
}
