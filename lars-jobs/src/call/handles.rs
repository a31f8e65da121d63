//! What callers hold: a future that threads can also wait for, and a handle to cancel it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::outcome::{CallError, CallOutcome};
use lars_base::debug_fields;
use lars_base::sync::real_now;
use lars_base::time::Instant;
use lars_base::waiting::block_until;
use lars_base::when_due::WhenDue;
use lars_scheduler::{Cancellable, Handle};

/// What can be cancelled: a timer, a series, or a task of a `ScheduledExecutor`.
pub(crate) trait Target: Send + Sync {
    fn cancel(&self) -> bool;
    fn is_cancelled(&self) -> bool;
}

impl Target for Cancellable {
    fn cancel(&self) -> bool {
        Cancellable::cancel(self)
    }

    fn is_cancelled(&self) -> bool {
        Cancellable::is_cancelled(self)
    }
}

/// Cancels a call from elsewhere: while another thread waits for it, or a task awaits it. Cheap to
/// clone.
///
/// Made by [`ScheduledCall::canceller`]. Dropping it does not cancel.
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
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let call = scheduler.schedule_call(Duration::from_secs(60), || "the answer")?;
/// let canceller = call.canceller();
/// let waiting = std::thread::spawn(move || call.wait());
/// assert!(canceller.cancel() && canceller.is_cancelled());
/// assert!(matches!(waiting.join().unwrap(), Err(CallError::Cancelled)));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CallCanceller {
    target: Arc<dyn Target>,
}

impl CallCanceller {
    /// Cancels the call; see [`ScheduledCall::cancel`].
    pub fn cancel(&self) -> bool {
        self.target.cancel()
    }

    /// Whether a call of `cancel` returned `true`.
    pub fn is_cancelled(&self) -> bool {
        self.target.is_cancelled()
    }
}

debug_fields!(|it: CallCanceller| cancelled: it.is_cancelled());

/// A call that has been scheduled, and its result: the JDK's `ScheduledFuture`.
///
/// It is a future of the result; a thread waits with [`wait`](Self::wait) and
/// [`wait_timeout`](Self::wait_timeout). The result of a repeated call is the value that a run
/// broke off with.
///
/// Waiting ends in every case: when the call has returned or panicked, when it was cancelled, and
/// when it will never run, because its scheduler was stopped or an executor lost it.
///
/// A call that `stop` has handed back is ready at once with [`CallError::HandedBack`], for present
/// and later callers. If the holder of the list runs it, every handle not yet consumed yields the
/// value from then on. (`close` hands nothing back: callers learn what it did with the call.)
///
/// Dropping it does **not** cancel the call, unless [`cancel_on_drop`](Self::cancel_on_drop) was
/// called.
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
/// let secs = Duration::from_secs;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let sum = time.schedule_call(secs(5), || 2 + 3)?;
/// assert_eq!((sum.due(), sum.remaining()), (Some(time.now() + secs(5)), secs(5)));
/// let sum = sum.wait_timeout(Duration::ZERO).unwrap_err(); // not yet: it is given back
/// time.advance(secs(5));
/// assert!(sum.is_done());
/// assert_eq!(sum.wait()?, 5); // or `sum.await?`
///
/// let late = time.schedule_call(secs(5), || ())?;
/// assert!(late.cancel() && late.is_cancelled());
/// assert!(matches!(late.wait(), Err(CallError::Cancelled)));
/// drop(time.schedule_call(secs(5), || println!("nobody wants it"))?.cancel_on_drop());
/// assert_eq!(time.pending(), 0);
/// # Ok(()) }
/// ```
#[must_use = "the call runs all the same, but its result is lost"]
pub struct ScheduledCall<T> {
    outcome: Arc<CallOutcome<T>>,
    target: Arc<dyn Target>,
    due: WhenDue,
    handle: Handle,
    cancel_on_drop: bool,
}

impl<T> ScheduledCall<T> {
    pub(crate) fn new(
        outcome: Arc<CallOutcome<T>>,
        target: Arc<dyn Target>,
        due: WhenDue,
        handle: Handle,
    ) -> Self {
        Self { outcome, target, due, handle, cancel_on_drop: false }
    }

    /// Blocks until there is a result.
    ///
    /// Not for inline tasks: they would block the thread that has to bring the result. In virtual
    /// time another thread has to move the clock.
    ///
    /// # Errors
    ///
    /// [`CallError`] says why there is no value.
    #[doc(alias = "get")]
    pub fn wait(mut self) -> Result<T, CallError> {
        // Without a deadline the wait ends with a result.
        block_until(Pin::new(&mut self), None).unwrap_or(Err(CallError::Dropped))
    }

    /// Blocks until there is a result, for at most `limit`. That is real time, even if the
    /// scheduler's is virtual.
    ///
    /// # Errors
    ///
    /// The handle itself when the time is up, to be used again.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<Result<T, CallError>, Self> {
        let deadline = real_now().checked_add(limit);
        block_until(Pin::new(&mut self), deadline).ok_or(self)
    }

    /// Whether waiting would return at once: there is a result of any kind, or `stop` has handed
    /// the call back.
    pub fn is_done(&self) -> bool {
        self.outcome.is_ready()
    }

    /// When the call is due, a repeated one for the first time; `None` for a time that the
    /// platform's clock cannot express.
    pub fn due(&self) -> Option<Instant> {
        self.due.instant()
    }

    /// How long it is until the call is [due](Self::due), by the scheduler's clock: zero if that
    /// has passed, [`Duration::MAX`] if it never comes.
    pub fn remaining(&self) -> Duration {
        self.due.remaining(self.handle.now())
    }

    /// Prevents the run, or ends the series. As with [`Cancellable::cancel`], exactly one caller
    /// gets `true`, and only if the run was prevented or the series had not ended. The result is
    /// then [`CallError::Cancelled`].
    ///
    /// A run that has begun is not interrupted. If it belongs to a series and breaks off with a
    /// value, that is still the result.
    pub fn cancel(&self) -> bool {
        self.target.cancel()
    }

    /// Whether it was cancelled: a call of `cancel` returned `true`.
    pub fn is_cancelled(&self) -> bool {
        self.target.is_cancelled()
    }

    /// Cancels from elsewhere, while this handle is being waited for.
    pub fn canceller(&self) -> CallCanceller {
        CallCanceller { target: Arc::clone(&self.target) }
    }

    /// From now on, dropping the handle cancels.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }
}

impl<T> Drop for ScheduledCall<T> {
    fn drop(&mut self) {
        if self.cancel_on_drop {
            self.target.cancel();
        }
    }
}

impl<T> Future for ScheduledCall<T> {
    type Output = Result<T, CallError>;

    /// # Cancel safety
    ///
    /// Polling by reference and dropping the reference loses nothing. Polled again after it was
    /// ready, it yields [`CallError::Taken`]; after [`CallError::HandedBack`] it yields what there
    /// is by then.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.poll(context)
    }
}

debug_fields!(|it: ScheduledCall<T>| done: it.is_done(), cancelled: it.is_cancelled());
