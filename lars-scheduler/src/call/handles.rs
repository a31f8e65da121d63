//! What the caller holds: a future, a thing to wait for, and the right to cancel.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::outcome::{CallError, Outcome};
use crate::cancel::Cancellable;
use crate::clock::real_now;
use crate::handle::Handle;
use crate::wait;

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

/// Cancels a call, from wherever it is: while another thread waits for it, or a task awaits it. Cheap to clone.
///
/// Made by [`ScheduledCall::canceller`]. Dropping it does not cancel.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::call::CallError;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let call = scheduler.schedule_call(Duration::from_secs(60), || "the answer")?;
/// let canceller = call.canceller();
/// let waiting = std::thread::spawn(move || call.get());
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

impl fmt::Debug for CallCanceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallCanceller").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// A call that has been scheduled, and its result: the JDK's `ScheduledFuture`.
///
/// It is a future of the result; a thread waits with [`get`](Self::get) and [`get_timeout`](Self::get_timeout).
/// The result of a repeated call is the value that a run broke off with.
///
/// Whoever waits is told in every case: when the call has returned or panicked, when it was cancelled, and
/// when it will never run, because its scheduler was stopped and the task was dropped, or an executor lost it.
///
/// A call that `stop` has handed back is at once ready with [`CallError::HandedBack`], for those who wait already and
/// for those who come. If it is run out of the list, it has its value from then on, for whom has not used up his
/// handle. (`close` hands nothing back: who waits hears what it did with the call.)
///
/// Dropping it does **not** cancel the call; [`cancel_on_drop`](Self::cancel_on_drop) makes it so.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::call::CallError;
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let sum = time.schedule_call(secs(5), || 2 + 3)?;
/// assert_eq!((sum.due(), sum.remaining()), (Some(time.now() + secs(5)), secs(5)));
/// let sum = sum.get_timeout(Duration::ZERO).unwrap_err(); // not yet: it is given back
/// time.advance(secs(5));
/// assert!(sum.is_done());
/// assert_eq!(sum.get()?, 5); // or `sum.await?`
///
/// let late = time.schedule_call(secs(5), || ())?;
/// assert!(late.cancel() && late.is_cancelled());
/// assert!(matches!(late.get(), Err(CallError::Cancelled)));
/// drop(time.schedule_call(secs(5), || println!("nobody wants it"))?.cancel_on_drop());
/// assert_eq!(time.pending(), 0);
/// # Ok(()) }
/// ```
#[must_use = "the call runs all the same, but its result is lost"]
pub struct ScheduledCall<T> {
    outcome: Arc<Outcome<T>>,
    target: Arc<dyn Target>,
    /// `None` for a time that the platform's clock cannot express.
    due: Option<Instant>,
    handle: Handle,
    cancel_on_drop: bool,
}

impl<T> ScheduledCall<T> {
    pub(crate) fn new(
        outcome: Arc<Outcome<T>>,
        target: Arc<dyn Target>,
        due: Option<Instant>,
        handle: Handle,
    ) -> Self {
        Self { outcome, target, due, handle, cancel_on_drop: false }
    }

    /// Blocks until there is a result.
    ///
    /// Not for tasks that run inline: those are on the thread that would have to bring it. In virtual time
    /// another thread has to move the clock.
    ///
    /// # Errors
    ///
    /// [`CallError`] says why there is no value.
    pub fn get(mut self) -> Result<T, CallError> {
        // Without a deadline the wait ends with a result.
        wait::block_until(Pin::new(&mut self), None).unwrap_or(Err(CallError::Dropped))
    }

    /// Blocks until there is a result, but not longer than `limit`. That is real time, also where the
    /// scheduler's is virtual.
    ///
    /// # Errors
    ///
    /// The handle itself when the time is up, to go on with.
    pub fn get_timeout(mut self, limit: Duration) -> Result<Result<T, CallError>, Self> {
        let deadline = real_now().checked_add(limit);
        wait::block_until(Pin::new(&mut self), deadline).ok_or(self)
    }

    /// Whether nobody would have to wait any more: there is a result, whatever it is, or the call was handed back by
    /// `stop`.
    pub fn is_done(&self) -> bool {
        self.outcome.is_ready()
    }

    /// When the call is due, a repeated one for the first time; `None` for a time that the platform's clock cannot
    /// express.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How long it is until the call is [due](Self::due), by the scheduler's clock: zero if it is or has been,
    /// [`Duration::MAX`] if it never will be.
    pub fn remaining(&self) -> Duration {
        match self.due {
            Some(due) => due.saturating_duration_since(self.handle.now()),
            None => Duration::MAX,
        }
    }

    /// Prevents the run, or ends the series. As [`Cancellable::cancel`]: `true` for exactly one caller, and exactly
    /// when the run was prevented, or the series had not ended; the result is then [`CallError::Cancelled`].
    ///
    /// A run that has begun is not interrupted. If it is one of a series and breaks off with a value, that is the
    /// result all the same.
    pub fn cancel(&self) -> bool {
        self.target.cancel()
    }

    /// Whether it was cancelled: a call of `cancel` returned `true`.
    pub fn is_cancelled(&self) -> bool {
        self.target.is_cancelled()
    }

    /// Something to cancel with from elsewhere, while this one is waited for.
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
    /// Nothing is lost when it is polled by reference and dropped there. Polled again after it was ready,
    /// it is ready with [`CallError::Taken`]; or, after [`CallError::HandedBack`], with what there is by then.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.poll(context)
    }
}

impl<T> fmt::Debug for ScheduledCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledCall")
            .field("done", &self.is_done())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
