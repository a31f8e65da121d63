//! Other work with a limit.

use std::future::{Future, IntoFuture};
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lars_base::time::Instant;
use pin_project_lite::pin_project;

use super::sleep::Sleep;
use crate::{Handle, Refusal};

impl Handle {
    /// Does `work` for at most `limit`, which counts from this call.
    ///
    /// See [`Timeout`]. Even a limit of zero polls the work once.
    ///
    /// # Errors
    ///
    /// [`TimeoutError::Elapsed`] if the time is over first, and [`TimeoutError::Refused`] if the
    /// scheduler has no timer for it. The work is dropped with the future.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::future::TimeoutError;
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let ms = Duration::from_millis;
    /// futures::executor::block_on(async {
    ///     let answer = scheduler.timeout(ms(500), async { 42 }).await;
    ///     assert_eq!(answer, Ok(42));
    ///     let answer = scheduler.timeout(ms(5), std::future::pending::<u32>()).await;
    ///     assert_eq!(answer, Err(TimeoutError::Elapsed));
    /// });
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn timeout<F: IntoFuture>(&self, limit: Duration, work: F) -> Timeout<F::IntoFuture> {
        Timeout { work: work.into_future(), sleep: self.sleep(limit) }
    }

    /// Does `work` until `deadline` at most.
    ///
    /// Otherwise like [`timeout`](Self::timeout).
    ///
    /// # Errors
    ///
    /// Same as [`timeout`](Self::timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_scheduler::future::TimeoutError;
    /// use std::time::Duration;
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let deadline = time.now() + Duration::from_secs(3);
    /// let answer = time.timeout_at(deadline, std::future::pending::<()>());
    /// assert_eq!(answer.deadline(), Some(deadline));
    /// assert_eq!(time.block_on(answer)?, Err(TimeoutError::Elapsed));
    /// assert_eq!(time.now(), deadline);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Instant, work: F) -> Timeout<F::IntoFuture> {
        Timeout { work: work.into_future(), sleep: self.sleep_until(deadline) }
    }
}

/// Why [`Handle::timeout`] ended without the work's result.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::future::TimeoutError;
/// use lars_scheduler::{LightArrayRevolverScheduler, Refusal};
/// use std::{future::pending, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let limit = Duration::from_secs(3);
/// let answer = time.block_on(time.timeout(limit, pending::<u32>()))?;
/// assert_eq!(answer, Err(TimeoutError::Elapsed));
/// assert_eq!(time.elapsed(), limit);
///
/// time.close()?;
/// let answer = time.block_on(time.timeout(limit, pending::<u32>()))?;
/// assert_eq!(answer, Err(TimeoutError::Refused(Refusal::Stopped)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The time was over first.
    #[error("the time limit has passed before the work was done")]
    Elapsed,
    /// The work was not ready, and there is no timer to limit it: the scheduler has stopped, or is
    /// full.
    #[error("the time limit cannot be kept: {0}")]
    Refused(#[from] Refusal),
}

/// Of the kind [`TimedOut`](io::ErrorKind::TimedOut) if the time was over.
impl From<TimeoutError> for io::Error {
    fn from(error: TimeoutError) -> Self {
        match error {
            TimeoutError::Elapsed => Self::new(io::ErrorKind::TimedOut, error),
            TimeoutError::Refused(_) => Self::other(error),
        }
    }
}

pin_project! {
    /// Other work with a limit. Made by [`Handle::timeout`] and [`Handle::timeout_at`].
    ///
    /// Each poll polls the work first, so work that is ready at the very end of the time wins. Work
    /// that is ready at the first poll needs no timer; otherwise there is one, cancelled when the
    /// work is ready or this is dropped.
    ///
    /// After an error the work is still here. It can be taken out, or polled again by another poll,
    /// which fails again if the work is not ready. Polling it again after the work's result polls
    /// the work again, which most futures do not allow.
    ///
    /// # Cancel safety
    ///
    /// That of the work, which is dropped with this.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Timeout<F> {
        #[pin]
        work: F,
        sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    /// Same as [`Sleep::placed_at`].
    pub fn placed_at(self, place: &'static Location<'static>) -> Self {
        Self { sleep: self.sleep.placed_at(place), ..self }
    }

    /// When the time is over; `None` if that is later than what the platform's clock can express.
    pub fn deadline(&self) -> Option<Instant> {
        self.sleep.deadline()
    }

    /// The work.
    pub fn get_ref(&self) -> &F {
        &self.work
    }

    /// The work.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.work
    }

    /// The work, without the limit.
    pub fn into_inner(self) -> F {
        self.work
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TimeoutError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.work.poll(context) {
            this.sleep.disarm();
            return Poll::Ready(Ok(output));
        }
        this.sleep.poll_deadline(context).map(|over| match over {
            Ok(_) => Err(TimeoutError::Elapsed),
            Err(refusal) => Err(TimeoutError::Refused(refusal)),
        })
    }
}
