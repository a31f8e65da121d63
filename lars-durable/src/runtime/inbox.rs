//! The way in to the engine's thread.

use std::time::Duration;

#[cfg(feature = "postgres")]
use crate::engine::Lane;
use crate::engine::{Answer, RunEnd};
use crate::error::Error;
#[cfg(any(feature = "postgres", feature = "actors"))]
use crate::model::BucketNo;
use crate::model::{Fence, Look, TimerId};
#[cfg(feature = "postgres")]
use crate::store::Committed;
use crate::store::{StoreError, Write};
use crate::sync::{Condvar, Mutex};

/// What gets the answer of a call.
pub(super) type Then = Box<dyn FnOnce(Result<Answer, Error>) + Send>;

/// Receives what an inspection of the store shows.
pub(super) type LookThen = Box<dyn FnOnce(Result<Look, StoreError>) + Send>;

/// What comes from outside.
pub(super) enum Input {
    Call {
        write: Write,
        then: Box<dyn FnOnce(Result<Answer, Error>) + Send>,
    },
    /// What people want to see.
    Look {
        then: LookThen,
    },
    Ended {
        id: TimerId,
        fence: Fence,
        end: RunEnd,
    },
    /// The handler of this run has recorded its end itself, perhaps; that it ended follows.
    #[cfg(any(feature = "postgres", feature = "actors"))]
    Acknowledged {
        id: TimerId,
        fence: Fence,
    },
    /// An actor lives in this bucket.
    #[cfg(feature = "actors")]
    MovedIn {
        bucket: BucketNo,
        epoch: u32,
    },
    /// One that lived there has gone.
    #[cfg(feature = "actors")]
    MovedOut {
        bucket: BucketNo,
    },
    /// The wheel says that something is due.
    Alarm,
    /// A lane's thread has finished its batch.
    #[cfg(feature = "postgres")]
    Replied {
        lane: Lane,
        result: Result<Committed, StoreError>,
    },
    /// Another node made these timers, perhaps in this node's window.
    #[cfg(feature = "postgres")]
    Near(Vec<(BucketNo, TimerId)>),
    /// Another node gave buckets back.
    #[cfg(feature = "postgres")]
    Free,
    /// Notifications may have been lost.
    #[cfg(feature = "postgres")]
    Deaf,
    Close {
        limit: Duration,
    },
}

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    inputs: Vec<Input>,
    /// Nobody takes anything out any more.
    ended: bool,
}

impl Inbox {
    /// Gives the input back if nobody will see it.
    pub(super) fn push(&self, input: Input) -> Option<Input> {
        let mut state = self.state.lock();
        if state.ended {
            return Some(input);
        }
        state.inputs.push(input);
        // The reader sleeps only when it has found nothing.
        let first = state.inputs.len() == 1;
        drop(state);
        if first {
            self.arrived.notify_one();
        }
        None
    }

    /// Everything that has come, in its order; waits up to `limit` for the first (`None`: not at
    /// all).
    pub(super) fn take(&self, limit: Option<Duration>) -> Vec<Input> {
        let mut state = self.state.lock();
        if let Some(limit) = limit
            && state.inputs.is_empty()
        {
            let _ = self.arrived.wait_for(&mut state, limit);
        }
        std::mem::take(&mut state.inputs)
    }

    /// From here on what is pushed comes back. Returns what is left.
    pub(super) fn end(&self) -> Vec<Input> {
        let mut state = self.state.lock();
        state.ended = true;
        std::mem::take(&mut state.inputs)
    }
}
