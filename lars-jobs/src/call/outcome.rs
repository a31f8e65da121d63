//! The two sides of a call: the scheduler holds the promise, the caller the outcome.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thiserror::Error;

use crate::contained::contain;
use lars_base::debug_fields;
use lars_base::panics::message_of;
use lars_base::sync::Mutex;
use lars_scheduler::Refusal;

/// Why a call has no result.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::Jobs;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::call::CallError;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let unwanted = time.schedule_call(second, || 7)?;
/// assert!(unwanted.cancel());
/// assert!(matches!(unwanted.wait(), Err(CallError::Cancelled)));
///
/// let failing = time.schedule_call(second, || -> u32 { panic!("no such file") })?;
/// time.advance(second);
/// assert_eq!(failing.wait().unwrap_err().to_string(), "the call panicked: no such file");
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// It was cancelled before it ran, or, if it is repeated, before it had a result.
    #[error("the call was cancelled")]
    Cancelled,
    /// It is a series that has ended by [`Call::times`](super::Call::times) or
    /// [`Call::until`](super::Call::until), and no run had broken off with a result.
    #[error("the repeated call ended, and no run of it had a result")]
    Ended,
    /// It panicked. The scheduler has counted and reported the panic, as for any task.
    #[error("the call panicked: {0}")]
    Panicked(CallPanic),
    /// It was dropped without having run: by the scheduler, by the holder of what `stop` handed
    /// back, or by an executor.
    #[error(
        "the call was dropped and never ran: its scheduler was stopped, or an executor gave it up"
    )]
    Dropped,
    /// Its scheduler or its `ScheduledExecutor` was stopped, and it is in the list that was handed
    /// back. The holder of that list may still run it; handles that are left then get the value.
    #[error("the call was handed back when its scheduler or its executor was stopped")]
    HandedBack,
    /// It was not done when its time was up. A run in progress goes on, and its value is dropped.
    #[error("the call was not done in time")]
    TimedOut,
    /// It was not accepted, and never ran.
    #[error("the call was refused: {0}")]
    Refused(Refusal),
    /// Its result was taken before.
    #[error("the result of the call has been taken already")]
    Taken,
}

/// The panic of a call: its message and its payload.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::Jobs;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::call::CallError;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let call = time.schedule_call(Duration::ZERO, || -> u32 { panic!("no such file") })?;
/// time.advance(Duration::ZERO);
/// let Err(CallError::Panicked(panic)) = call.wait() else { panic!() };
/// assert_eq!(panic.message(), "no such file");
/// let payload = panic.into_payload(); // for `std::panic::resume_unwind`
/// assert_eq!(payload.downcast_ref(), Some(&"no such file"));
/// # Ok(()) }
/// ```
pub struct CallPanic {
    message: String,
    /// A mutex, because a payload is only `Send`, and errors should be `Sync` as well.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl CallPanic {
    fn new(payload: Box<dyn Any + Send>) -> Self {
        Self { message: message_of(&*payload).to_owned(), payload: Mutex::new(payload) }
    }

    /// The panic's message, where it had one.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The panic's payload, for [`std::panic::resume_unwind`].
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner()
    }
}

impl fmt::Display for CallPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

debug_fields!(|it: CallPanic| message: it.message);

/// What the two sides share.
pub(crate) struct CallOutcome<T> {
    state: Mutex<Settlement<T>>,
}

struct Settlement<T> {
    phase: Settling,
    result: Option<Result<T, CallError>>,
    waker: Option<Waker>,
    /// Waiting returns at once, although the outcome may still be settled.
    handed_back: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Settling {
    /// Not settled.
    Open,
    /// One caller is about to settle it, and no other can.
    Claimed,
    Settled {
        cancelled: bool,
    },
}

impl<T> CallOutcome<T> {
    fn new() -> Self {
        let (phase, result, waker) = (Settling::Open, None, None);
        Self { state: Mutex::new(Settlement { phase, result, waker, handed_back: false }) }
    }

    /// Whether waiting returns at once.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.state.lock();
        state.handed_back || matches!(state.phase, Settling::Settled { .. })
    }

    /// Present and later callers get `HandedBack`, until the call is settled.
    pub(crate) fn hand_back(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.handed_back = true;
            state.waker.take()
        };
        wake(waker);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.state.lock().phase == Settling::Settled { cancelled: true }
    }

    /// Reserves the right to settle. True if it was free.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state.lock();
        let open = state.phase == Settling::Open;
        if open {
            state.phase = Settling::Claimed;
        }
        open
    }

    /// Settles what this caller has claimed.
    pub(crate) fn settle_claimed(&self, result: Result<T, CallError>) {
        let cancelled = matches!(result, Err(CallError::Cancelled));
        let waker = {
            let mut state = self.state.lock();
            state.phase = Settling::Settled { cancelled };
            state.result = Some(result);
            state.waker.take()
        };
        wake(waker);
    }

    /// Settles what this caller has claimed with what `run` returns.
    pub(crate) fn fulfil_claimed(&self, run: impl FnOnce() -> T) {
        fulfil(run, |result| self.settle_claimed(result));
    }

    /// Settles, unless that has happened. A result that comes too late is dropped.
    pub(crate) fn settle(&self, result: Result<T, CallError>) {
        if self.claim() {
            self.settle_claimed(result);
        }
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<T, CallError>> {
        // A waker's code must not run under the lock, neither its clone nor its drop.
        let waker = context.waker().clone();
        let replaced;
        {
            let mut state = self.state.lock();
            match state.phase {
                Settling::Settled { .. } => {
                    return Poll::Ready(state.result.take().unwrap_or(Err(CallError::Taken)));
                }
                Settling::Open | Settling::Claimed if state.handed_back => {
                    return Poll::Ready(Err(CallError::HandedBack));
                }
                Settling::Open | Settling::Claimed => replaced = state.waker.replace(waker),
            }
        }
        drop(replaced);
        Poll::Pending
    }
}

/// Wakes. A panic of the waker stays here: the outcome is already recorded.
fn wake(waker: Option<Waker>) {
    contain(|| waker.into_iter().for_each(Waker::wake));
}

/// A promise, and where its outcome will be.
pub(crate) fn promise<T>() -> (Promise<T>, Arc<CallOutcome<T>>) {
    let outcome = Arc::new(CallOutcome::new());
    (Promise { outcome: Arc::clone(&outcome), broken: Broken::Dropped }, outcome)
}

/// Settles its outcome, at the latest when it is dropped.
pub(crate) struct Promise<T> {
    outcome: Arc<CallOutcome<T>>,
    broken: Broken,
}

/// What the outcome is if the promise is dropped.
enum Broken {
    Dropped,
    Cancelled,
}

impl<T> Promise<T> {
    pub(crate) fn settle(self, result: Result<T, CallError>) {
        self.outcome.settle(result);
    }

    pub(crate) fn outcome(&self) -> &Arc<CallOutcome<T>> {
        &self.outcome
    }

    /// From now on its drop means that the call was cancelled.
    pub(crate) fn cancel(&mut self) {
        self.broken = Broken::Cancelled;
    }

    /// Settles with what `run` returns.
    pub(crate) fn fulfil(self, run: impl FnOnce() -> T) {
        fulfil(run, |result| self.settle(result));
    }
}

/// Settles with what `run` returns. A panic goes into the outcome, and a second one with the same
/// message to the scheduler, which counts and reports it. `settle` is dropped before that: a
/// destructor that panics during unwinding would abort the process.
fn fulfil<T>(run: impl FnOnce() -> T, settle: impl FnOnce(Result<T, CallError>)) {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => settle(Ok(value)),
        Err(payload) => {
            let panic = CallPanic::new(payload);
            let message = panic.message.clone();
            settle(Err(CallError::Panicked(panic)));
            resume_unwind(Box::new(message));
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.outcome.settle(Err(match self.broken {
            Broken::Dropped => CallError::Dropped,
            Broken::Cancelled => CallError::Cancelled,
        }));
    }
}
