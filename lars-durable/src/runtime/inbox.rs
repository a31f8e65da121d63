//! The way in to the engine's thread.
//!
//! Any thread may push, and none waits for more than the lock. The engine's thread takes all there
//! is at once; that is what makes a batch of what came while it was busy. When it has ended, what
//! is pushed comes back, so that whoever pushed can answer for it.

use std::time::Duration;

use crate::engine::Lane;
use crate::engine::{Answer, RunEnd};
use crate::error::Error;
use crate::model::BucketNo;
use crate::model::{Fence, TimerId};
use crate::store::Committed;
use crate::store::{StoreError, Write};
use crate::sync::{Condvar, Mutex};

/// What gets the answer of a call.
pub(super) type Then = Box<dyn FnOnce(Result<Answer, Error>) + Send>;

/// What comes from outside.
pub(super) enum Input {
    Call {
        write: Write,
        then: Box<dyn FnOnce(Result<Answer, Error>) + Send>,
    },
    Ended {
        id: TimerId,
        fence: Fence,
        end: RunEnd,
    },
    /// The handler of this run has recorded its end itself, perhaps; that it ended follows.
    Acknowledged {
        id: TimerId,
        fence: Fence,
    },
    /// The handler of this run has returned; that it ended follows when its calls are answered.
    Handled {
        id: TimerId,
        fence: Fence,
    },
    /// An actor lives in this bucket.
    MovedIn {
        bucket: BucketNo,
        epoch: u32,
    },
    /// One that lived there has gone.
    MovedOut {
        bucket: BucketNo,
    },
    /// The wheel says that something is due.
    Alarm,
    /// A lane's thread has finished its batch.
    Replied {
        lane: Lane,
        result: Result<Committed, StoreError>,
    },
    /// Another node made these timers, perhaps in this node's window.
    Near(Vec<(BucketNo, TimerId)>),
    /// Another node gave buckets back.
    Free,
    /// Notifications may have been lost.
    Deaf,
    Close {
        limit: Duration,
    },
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    inputs: Vec<Input>,
    /// The reader sleeps until there are so many more than one, if they are calls only.
    more: usize,
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
        let waits = matches!(input, Input::Call { .. });
        state.inputs.push(input);
        // The reader sleeps only when it has found fewer than that.
        let (there, wanted) = (state.inputs.len(), state.more + 1);
        drop(state);
        if there == wanted || there < wanted && !waits {
            self.arrived.notify_one();
        }
        None
    }

    /// Everything that has come, in its order; waits up to `limit` for the first.
    pub(super) fn take(&self, limit: Duration) -> Vec<Input> {
        let mut state = self.state.lock();
        if state.inputs.is_empty() && !limit.is_zero() {
            let _ = self.arrived.wait_for(&mut state, limit);
        }
        std::mem::take(&mut state.inputs)
    }

    /// Waits up to `limit` until so many calls have come, or anything else, for which no call is
    /// waited for. Takes nothing.
    pub(super) fn wait_for_calls(&self, count: usize, limit: Duration) {
        let mut state = self.state.lock();
        let only_calls = state.inputs.iter().all(|input| matches!(input, Input::Call { .. }));
        if only_calls && state.inputs.len() < count {
            state.more = count - 1;
            let _ = self.arrived.wait_for(&mut state, limit);
            state.more = 0;
        }
    }

    #[cfg(feature = "test-kit")]
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().inputs.is_empty()
    }

    /// From here on what is pushed comes back. Returns what is left.
    pub(super) fn end(&self) -> Vec<Input> {
        let mut state = self.state.lock();
        state.ended = true;
        std::mem::take(&mut state.inputs)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A call that came too late would hang a test, and not fail it by a clock.
    const LONG: Duration = Duration::from_secs(3_600);

    fn call(inbox: &Inbox) {
        let write = Write::Pause { handler: "handler".into(), paused: true };
        assert!(inbox.push(Input::Call { write, then: Box::new(drop) }).is_none());
    }

    #[test]
    fn so_many_calls_are_waited_for_and_stay_to_be_taken_with_those_that_were_there() {
        let inbox = Inbox::default();
        call(&inbox);
        inbox.wait_for_calls(1, LONG);
        thread::scope(|scope| {
            for _ in 0..7 {
                scope.spawn(|| call(&inbox));
            }
            inbox.wait_for_calls(8, LONG);
            assert_eq!(inbox.take(Duration::ZERO).len(), 8);
        });
        // The next reader is woken by the first.
        thread::scope(|scope| {
            scope.spawn(|| call(&inbox));
            assert_eq!(inbox.take(LONG).len(), 1);
        });
    }

    #[test]
    fn whatever_is_no_call_ends_the_wait_for_calls() {
        let inbox = Inbox::default();
        call(&inbox);
        thread::scope(|scope| {
            scope.spawn(|| inbox.push(Input::Alarm));
            inbox.wait_for_calls(8, LONG);
            assert_eq!(inbox.take(Duration::ZERO).len(), 2);
        });
        // Also if it was there before.
        inbox.push(Input::Free);
        inbox.wait_for_calls(8, LONG);
        assert_eq!(inbox.take(Duration::ZERO).len(), 1);
        inbox.wait_for_calls(8, Duration::from_micros(250));
        assert!(inbox.take(Duration::ZERO).is_empty(), "nobody has called");
    }
}
