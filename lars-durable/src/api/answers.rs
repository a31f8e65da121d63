//! What the calls about timers answer.

use crate::store::{How, Placed, Written};

/// A timer that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The identity of the timer that has the key now: that of the existing one, if it was kept.
    /// Zero if there is none: because the key is only remembered, after its timer has run, or
    /// because the series [ends](super::schedule::Schedule::until) before its first run.
    pub id: u64,
    /// What the call did.
    pub placement: Placement,
}

/// What a schedule call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// It created a timer.
    New,
    /// It changed nothing: another timer has the key, the key is remembered, or the series ends
    /// before its first run.
    Kept,
    /// It created a timer that replaces another. If the identity is 0, it only removed the other
    /// one, because the series ends before its first run.
    Replaced,
    /// It changed the timer that has the key.
    Updated,
}

/// What a cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// No run of it will start.
    Prevented,
    /// It was too late: a run is recorded as started. If the timer repeats, that is its last run.
    /// If the run fails, it is retried, unless the timer is cancelled again.
    Running,
    /// There is no such timer: it has run, was cancelled, or never existed.
    NotFound,
}

impl Cancel {
    pub(super) fn of(written: &Written) -> Self {
        match written {
            Written::Prevented { .. } => Self::Prevented,
            Written::Running { .. } => Self::Running,
            _ => Self::NotFound,
        }
    }
}

impl Accepted {
    pub(super) fn of(placed: &Placed) -> Self {
        let placement = match placed.how {
            How::New => Placement::New,
            How::Kept => Placement::Kept,
            How::Replaced { .. } => Placement::Replaced,
            How::Updated { .. } => Placement::Updated,
        };
        Self { id: placed.id.unsigned_abs(), placement }
    }
}
