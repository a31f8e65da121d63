//! A timer on its way into the store, in it, and out of it.

use super::{BucketNo, Fence, TimerId};
use crate::sync::Arc;
use crate::time::Timestamp;

/// What a schedule call does when its key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnConflict {
    /// The timer that exists stays as it is. A repeated call changes nothing.
    #[default]
    Keep,
    /// The new timer takes the place of the old one, which does not start any more. If it is
    /// running, its run is left to end, and its acknowledgement changes nothing.
    Replace,
    /// The call is refused.
    Fail,
}

/// When something is due: by the store's clock, or counted from it inside the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    After(i64),
}

impl When {
    pub(crate) fn by(self, clock: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::After(micros) => clock.plus(micros),
        }
    }
}

/// A timer as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct NewTimer {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) when: When,
    /// How much later than planned it is due; for repeats that are spread.
    pub(crate) offset: i64,
    /// Timers of one home share a bucket, whatever their keys. It is not stored.
    pub(crate) home: Option<Arc<str>>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) conflict: OnConflict,
    pub(crate) handler: Arc<str>,
    pub(crate) payload_version: u16,
    pub(crate) payload: Arc<str>,
    pub(crate) series: Option<Arc<str>>,
    /// How long the key is remembered after the last run, in microseconds.
    pub(crate) remember: i64,
}

/// A timer that a node keeps in memory until it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) due: Timestamp,
    pub(crate) planned: Timestamp,
    pub(crate) handler: Arc<str>,
    /// The token of its run, if it is started.
    pub(crate) fence: Option<Fence>,
}

/// A timer as it is started: everything that a run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: TimerId,
    pub(crate) handler: Arc<str>,
    pub(crate) payload_version: u16,
    pub(crate) payload: String,
    pub(crate) key: Option<String>,
    /// Before this it may not run.
    pub(crate) deadline: Timestamp,
    /// What it was meant for: stays while it is tried again, and is what a repeat counts from.
    pub(crate) planned: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) deaths: u32,
    /// The rule of a repeat, as it is stored: perhaps by a newer release.
    pub(crate) series: Option<String>,
}

/// A start that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) fence: Fence,
}

/// The end of a run. It holds only if the row still has the fence of that run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) id: TimerId,
    pub(crate) fence: Fence,
    pub(crate) then: Then,
}

/// What becomes of a timer after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is over.
    Done,
    /// The next run of a series; over, if the series was cancelled meanwhile.
    Next { when: When, offset: i64 },
    /// The same run once more, after this many microseconds.
    Retry { after: i64, error: String },
    /// Not run: once more, as if it had not been started.
    GiveBack { after: i64 },
    /// Given up, and kept for people.
    Park { reason: String },
}

/// What a finish did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finished {
    Gone,
    Parked,
    /// It is due again.
    Again {
        due: Timestamp,
    },
    /// The run was not the current one any more: nothing was changed.
    Stale,
    /// Somebody holds the row: nothing was changed, and it is to be asked for again.
    Held,
}

/// A timer that is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: TimerId,
    pub(crate) key: Option<String>,
    pub(crate) handler: String,
    pub(crate) payload_version: u16,
    pub(crate) payload: String,
    pub(crate) deadline: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) deaths: u32,
    pub(crate) running: bool,
    pub(crate) repeats: bool,
    pub(crate) last_error: Option<String>,
    /// Of a parked one: why, and since when.
    pub(crate) parked: Option<(String, Timestamp)>,
}
