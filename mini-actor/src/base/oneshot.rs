//! A value that comes once, for a thread or a task that waits for it.

use std::task::{Context, Poll, Waker};

use crate::base::panics::guard;
use crate::sync::{Condvar, Mutex, real_now};
use lars_base::time::Instant;

/// Why no value comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoValue {
    TimedOut,
    /// The side that was to give it has gone.
    Dropped,
    /// The system was closed.
    Closed,
    /// The side that was to give it is restarted, and waits for others.
    Restarting,
}

enum Shot<T> {
    Waiting(Option<Waker>),
    Settled(Result<T, NoValue>),
    /// The side that wants it has gone, or has it.
    Over,
}

pub(crate) struct OneShot<T> {
    state: Mutex<Shot<T>>,
    settled: Condvar,
}

impl<T> OneShot<T> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(Shot::Waiting(None)), settled: Condvar::default() }
    }

    /// Gives the value, or says that none comes. If nobody wants it any more, or it is settled
    /// already, gives it back.
    pub(crate) fn settle(&self, result: Result<T, NoValue>) -> Result<(), Result<T, NoValue>> {
        let mut state = self.state.lock();
        match &mut *state {
            Shot::Waiting(waker) => {
                let waker = waker.take();
                *state = Shot::Settled(result);
                drop(state);
                self.settled.notify_all();
                // Outside the lock: it is foreign code. Its panic must not reach the thread that
                // settles, which may be unwinding.
                if let Some(waker) = waker {
                    guard("a waker", || waker.wake());
                }
                Ok(())
            }
            Shot::Settled(_) | Shot::Over => Err(result),
        }
    }

    /// Whether a value is still to come, and wanted.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.state.lock(), Shot::Waiting(_))
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<T, NoValue>> {
        self.poll_with(context, Self::take)
    }

    fn poll_with(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Shot<T>) -> Result<T, NoValue>,
    ) -> Poll<Result<T, NoValue>> {
        // Cloned and dropped outside the lock: it is foreign code.
        let new = context.waker().clone();
        let mut state = self.state.lock();
        if let Shot::Waiting(waker) = &mut *state {
            let old = waker.replace(new);
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        let result = take(&mut state);
        drop(state);
        drop(new);
        Poll::Ready(result)
    }

    /// Waits for the value, until `deadline` at most.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Option<Result<T, NoValue>> {
        self.wait_with(deadline, Self::take)
    }

    fn wait_with(
        &self,
        deadline: Option<Instant>,
        take: impl FnOnce(&mut Shot<T>) -> Result<T, NoValue>,
    ) -> Option<Result<T, NoValue>> {
        let mut state = self.state.lock();
        while matches!(*state, Shot::Waiting(_)) {
            if deadline.is_some_and(|deadline| real_now() >= deadline) {
                return None;
            }
            state = self.settled.wait(state, deadline);
        }
        Some(take(&mut state))
    }

    /// The value, if it is there.
    pub(crate) fn try_take(&self) -> Option<Result<T, NoValue>> {
        let mut state = self.state.lock();
        (!matches!(*state, Shot::Waiting(_))).then(|| Self::take(&mut state))
    }

    fn take(state: &mut Shot<T>) -> Result<T, NoValue> {
        match std::mem::replace(state, Shot::Over) {
            Shot::Settled(result) => result,
            // A future that is polled after its end asks once more.
            Shot::Waiting(_) | Shot::Over => Err(NoValue::Dropped),
        }
    }

    /// Nobody wants the value any more. Gives back what has come unseen.
    pub(crate) fn abandon(&self) -> Option<T> {
        // Outside the lock: what is dropped here is foreign code.
        let state = std::mem::replace(&mut *self.state.lock(), Shot::Over);
        match state {
            Shot::Settled(result) => result.ok(),
            Shot::Waiting(_) | Shot::Over => None,
        }
    }
}

/// For a value that many want, as often as they ask.
impl<T: Copy> OneShot<T> {
    pub(crate) fn poll_copy(&self, context: &mut Context<'_>) -> Poll<Result<T, NoValue>> {
        self.poll_with(context, |state| Self::copy(state))
    }

    pub(crate) fn wait_for_copy(&self, deadline: Option<Instant>) -> Option<Result<T, NoValue>> {
        self.wait_with(deadline, |state| Self::copy(state))
    }

    fn copy(state: &Shot<T>) -> Result<T, NoValue> {
        match state {
            Shot::Settled(result) => *result,
            Shot::Waiting(_) | Shot::Over => Err(NoValue::Dropped),
        }
    }
}
