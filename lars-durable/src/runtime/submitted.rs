//! A value that can be waited for and awaited.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::Error;
use crate::sync::{Arc, Condvar, Mutex};

/// The result of a call, once it is known.
///
/// A future for any runtime; a thread can also wait for it without one. Dropping it does not
/// withdraw the call.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::Durable;
/// use std::time::Duration;
///
/// let durable = Durable::in_memory().start()?;
/// let timers = durable.timers();
/// assert!(timers.get("nobody").wait()?.is_none());
/// let answer = timers.get("nobody").wait_timeout(Duration::from_secs(10));
/// assert!(answer.is_ok_and(|answer| answer.is_ok_and(|timer| timer.is_none())));
/// # Ok(()) }
/// ```
#[must_use = "whether the call took effect is in here: wait for it, or await it"]
pub struct Submitted<T> {
    slot: Arc<Slot<T>>,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

enum State<T> {
    Waiting(Option<Waker>),
    Ready(Result<T, Error>),
    Taken,
}

/// The other end of a [`Submitted`].
pub(crate) struct Promise<T> {
    slot: Arc<Slot<T>>,
}

pub(crate) fn promise<T>() -> (Promise<T>, Submitted<T>) {
    let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)), filled: Condvar::new() });
    (Promise { slot: Arc::clone(&slot) }, Submitted { slot })
}

impl<T> Promise<T> {
    pub(crate) fn fill(self, result: Result<T, Error>) {
        self.slot.fill(result);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.slot.fill(Err(Error::OutcomeUnknown { reason: "the node has ended".into() }));
    }
}

impl<T> Slot<T> {
    /// The first one counts.
    fn fill(&self, result: Result<T, Error>) {
        let mut state = self.state.lock();
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Ready(result);
            drop(state);
            self.filled.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Submitted<T> {
    /// A result that is known.
    pub(crate) fn ready(result: Result<T, Error>) -> Self {
        let (promise, submitted) = promise();
        promise.fill(result);
        submitted
    }

    /// Waits for the result on this thread.
    ///
    /// Do not call it in a handler of the same node on an executor with one thread, nor where
    /// blocking is not allowed: await it there.
    ///
    /// # Errors
    ///
    /// [`Error`], which says what is known of the call's effect.
    ///
    /// # Panics
    ///
    /// If it was polled to the end before.
    pub fn wait(self) -> Result<T, Error> {
        let mut state = self.slot.state.lock();
        while matches!(*state, State::Waiting(_)) {
            self.slot.filled.wait(&mut state);
        }
        take(&mut state)
    }

    /// Waits for the result on this thread, up to `limit`.
    ///
    /// # Errors
    ///
    /// Itself, if the result is not known yet, so that you can wait again.
    ///
    /// # Panics
    ///
    /// If it was polled to the end before.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<T, Error>, Self> {
        let mut state = self.slot.state.lock();
        let waits = |state: &mut State<T>| matches!(state, State::Waiting(_));
        if self.slot.filled.wait_while_for(&mut state, waits, limit).timed_out() {
            drop(state);
            return Err(self);
        }
        Ok(take(&mut state))
    }
}

fn take<T>(state: &mut State<T>) -> Result<T, Error> {
    match std::mem::replace(state, State::Taken) {
        State::Ready(result) => result,
        State::Waiting(_) | State::Taken => panic!("the result was taken before"),
    }
}

impl<T> Future for Submitted<T> {
    type Output = Result<T, Error>;

    /// # Panics
    ///
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Wakers are foreign code: they come and go when nothing is locked.
        let waker = context.waker().clone();
        let mut state = self.slot.state.lock();
        if let State::Waiting(waits) = &mut *state {
            let before = waits.replace(waker);
            drop(state);
            drop(before);
            return Poll::Pending;
        }
        Poll::Ready(take(&mut state))
    }
}

impl<T> fmt::Debug for Submitted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = !matches!(*self.slot.state.lock(), State::Waiting(_));
        f.debug_struct("Submitted").field("ready", &ready).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::sync::{AtomicUsize, Ordering};

    /// Says when it goes, if the slot is free then.
    struct Leaves {
        slot: Arc<Slot<()>>,
        free: Arc<AtomicUsize>,
    }

    impl Wake for Leaves {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Leaves {
        fn drop(&mut self) {
            let free = self.slot.state.try_lock().is_some();
            self.free.fetch_add(usize::from(free), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_that_another_takes_the_place_of_goes_when_nothing_is_locked() {
        let (promise, mut submitted) = promise::<()>();
        let free = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let (slot, free) = (Arc::clone(&submitted.slot), Arc::clone(&free));
            let waker = Waker::from(Arc::new(Leaves { slot, free }));
            assert!(Pin::new(&mut submitted).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        promise.fill(Ok(()));
        assert_eq!(free.load(Ordering::Relaxed), 3);
    }
}
