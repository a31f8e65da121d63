//! What a run and its node tell each other while the handler is at work.
//!
//! The handler says that it has recorded the end itself; the node says that the run need not go
//! on. The first reason stays, so whoever looks twice sees the same. All of it is under one lock
//! but the handler's word, which is read when the run has ended.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::contain;
use crate::model::CancelReason;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

/// Of one run: the handler has one end, and the node the other.
#[derive(Default)]
pub(crate) struct Signal {
    /// The handler has recorded the end itself, perhaps.
    acknowledged: AtomicBool,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    reason: Option<CancelReason>,
    /// Those who await it, each by a number of its own.
    waiting: BTreeMap<u64, Waker>,
    /// The last number that was given.
    numbers: u64,
}

impl Signal {
    /// Whether the handler has recorded the end itself, if its transaction commits.
    pub(crate) fn acknowledge(&self, acknowledged: bool) {
        // Relaxed: read by the end of this run, which the inbox's lock orders.
        self.acknowledged.store(acknowledged, Ordering::Relaxed);
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        // Relaxed, see `acknowledge`. The node's look may be too early: then the run is told of
        // what it has just done itself, and hears it when it has nothing left to do.
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// The run need not go on. Wakes whoever waits for that.
    pub(super) fn tell(&self, reason: CancelReason) {
        // What is left to it is a commit, and the row may say of that that it is over.
        if self.is_acknowledged() {
            return;
        }
        let mut told = self.told.lock();
        if told.reason.is_some() {
            return;
        }
        told.reason = Some(reason);
        let waiting = std::mem::take(&mut told.waiting);
        drop(told);
        for waker in waiting.into_values() {
            // A waker that panics is its owner's problem, and not that of the others.
            if let Err(panic) = contain(|| waker.wake()) {
                tracing::error!(target: "lars_durable", %panic, "a waker panicked");
            }
        }
    }
}

/// Says that a run need not go on, and why. It comes from
/// [`Fired::cancellation`](crate::Fired::cancellation), and is cheap to clone, `Send` and `Sync`,
/// for the threads and tasks that work for the handler.
///
/// It is told
///
/// - when the timer is cancelled, removed or replaced, by whomever, wherever: at once if the call
///   was made on the node that runs it, and else within milliseconds by a notification, or without
///   one within some seconds;
/// - when the node begins to close;
/// - when the lease of the node ends without a renewal, or another node has the timer.
///
/// It does not stop the handler, and nobody waits for it to look. It may be late, or not come at
/// all if the process is frozen or the store cannot be reached: for what must not happen twice
/// there is the [fence](crate::Fired::fence). Once it is told, it stays so, and the first reason
/// stays. After the run has ended, or has asked to be acknowledged in a transaction of its own, it
/// is told nothing more. The row of an [at-most-once](crate::Handler::at_most_once) timer is
/// deleted before the run, so its run hears only that the node closes.
#[derive(Clone)]
pub struct CancelToken {
    signal: Arc<Signal>,
}

impl CancelToken {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { signal }
    }

    /// Whether the run need not go on.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Why the run need not go on; `None` as long as it has to.
    pub fn reason(&self) -> Option<CancelReason> {
        self.signal.told.lock().reason
    }

    /// Waits until the run need not go on, and says why. If nothing is told, it waits for ever:
    /// have something beside it that ends.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if it is dropped: what was told stays.
    pub fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + Unpin + use<> {
        Cancelled { signal: Arc::clone(&self.signal), number: None }
    }
}

/// Waits for a reason. What belongs to others is not called under the lock.
struct Cancelled {
    signal: Arc<Signal>,
    /// Under which its waker waits, once it was polled.
    number: Option<u64>,
}

impl Future for Cancelled {
    type Output = CancelReason;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CancelReason> {
        let this = &mut *self;
        let waker = context.waker().clone();
        let mut told = this.signal.told.lock();
        if let Some(reason) = told.reason {
            return Poll::Ready(reason);
        }
        let number = *this.number.get_or_insert_with(|| {
            told.numbers += 1;
            told.numbers
        });
        let before = told.waiting.insert(number, waker);
        drop(told);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.signal.told.lock().waiting.remove(&number);
            drop(waker);
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("reason", &self.reason()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn all_who_await_a_token_wake_with_the_first_reason_and_those_who_come_later_have_it() {
        let signal = Arc::new(Signal::default());
        let token = CancelToken::new(Arc::clone(&signal));
        let mut waiting = [token.cancelled().boxed(), token.clone().cancelled().boxed()];
        assert_eq!(token.cancelled().now_or_never(), None);
        assert_eq!(signal.told.lock().waiting.len(), 0, "whoever went waits no longer");
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        assert_eq!((token.is_cancelled(), token.reason()), (false, None));
        signal.tell(CancelReason::Closing);
        signal.tell(CancelReason::Cancelled);
        for one in waiting {
            assert_eq!(one.now_or_never(), Some(CancelReason::Closing));
        }
        assert_eq!(token.cancelled().now_or_never(), Some(CancelReason::Closing));
        assert_eq!((token.is_cancelled(), token.reason()), (true, Some(CancelReason::Closing)));
    }

    #[test]
    fn a_run_that_is_recording_its_own_end_is_told_nothing() {
        let signal = Arc::new(Signal::default());
        signal.acknowledge(true);
        signal.tell(CancelReason::Cancelled);
        let token = CancelToken::new(Arc::clone(&signal));
        assert!(!token.is_cancelled());
        // Its transaction was stale.
        signal.acknowledge(false);
        signal.tell(CancelReason::LeaseLost);
        assert_eq!(token.reason(), Some(CancelReason::LeaseLost));
    }
}
