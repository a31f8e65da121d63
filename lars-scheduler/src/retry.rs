//! Async work that is done until it succeeds, with growing pauses.
//!
//! [`Handle::retry`](crate::Handle::retry) calls an operation, and again after each failure when the pause that a
//! [`BackoffPolicy`](crate::backoff::BackoffPolicy) says is over. It runs on any executor, as everything in
//! [`future`](crate::future).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::backoff::{BackoffPolicy, Jitter};
//! use std::io;
//! use std::time::Duration;
//! # let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
//! # let timers = time.handle();
//! # async fn fetch() -> io::Result<u32> { Err(io::ErrorKind::TimedOut.into()) }
//! # let fetching = async {
//!
//! let policy = BackoffPolicy::builder()
//!     .initial(Duration::from_millis(100))
//!     .cap(Duration::from_secs(10))
//!     .jitter(Jitter::Full)
//!     .max_attempts(8)
//!     .build()?;
//! let answer = timers
//!     .retry(policy, fetch)                                       // the first attempt, and up to seven more
//!     .when(|error| error.kind() != io::ErrorKind::NotFound)      // what cannot get better
//!     .within(Duration::from_secs(60))                            // all of it
//!     .await;
//! # assert!(answer.is_err());
//! # Ok::<_, Box<dyn std::error::Error>>(()) };
//! # time.block_on(fetching)?
//! # }
//! ```
//!
//! # Promises
//!
//! - A pause begins when an attempt has failed, and is never cut short. Jitter stays inside the policy's cap.
//! - One attempt at a time, and at most one for each poll: an operation that fails at once, with a pause that is
//!   over at once, still lets other tasks run.
//! - The last error is not lost: [`RetryError`] has it, with the number of attempts and the reason for giving up.
//! - If the scheduler stops, the retry ends with [`GiveUp::Refused`] when it next has to wait.
//!
//! Similar: Akka's and Pekko's `retry`, whose jitter comes after the cap.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::future::TryFuture;
use pin_project_lite::pin_project;

use crate::backoff::Backoff;
use crate::error::Refusal;
use crate::future::Sleep;
use crate::handle::Handle;

/// The predicate of a [`Retry`] that has not been given another one with [`when`](Retry::when): every error.
pub type AnyError<Work> = fn(&<Work as TryFuture>::Error) -> bool;

fn always<E>(_: &E) -> bool {
    true
}

impl Handle {
    /// Does `operation` until it succeeds, with pauses between the attempts that `backoff` says: a
    /// [`BackoffPolicy`](crate::backoff::BackoffPolicy), or a [`Backoff`] that a test has given a seed.
    ///
    /// The attempts follow each other, on the task that polls this, and the first is made by the first poll. A
    /// pause begins when an attempt has failed. [`Retry::when`] limits it to some errors, [`Retry::within`] and
    /// [`Retry::until`] limit the whole of it, and a limit for each attempt is a [`timeout`](Self::timeout) in the
    /// operation.
    ///
    /// # Errors
    ///
    /// [`RetryError`] with the last error, and why there is no further attempt.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::backoff::BackoffPolicy;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let policy = BackoffPolicy::builder().initial(Duration::from_secs(1)).max_attempts(5).build()?;
    ///
    /// let mut calls = 0;
    /// let connected = time.block_on(time.retry(policy, || {
    ///     calls += 1;
    ///     let up = calls == 4;
    ///     async move { if up { Ok("connected") } else { Err(std::fmt::Error) } }
    /// }))?;
    /// assert_eq!(connected?, "connected");
    /// assert_eq!(time.elapsed(), Duration::from_secs(1 + 2 + 4));
    /// # Ok(()) }
    /// ```
    pub fn retry<Op, Work>(&self, backoff: impl Into<Backoff>, operation: Op) -> Retry<Op, Work>
    where
        Op: FnMut() -> Work,
        Work: TryFuture,
    {
        Retry {
            operation,
            when: always,
            backoff: backoff.into(),
            deadline: None,
            sleep: self.sleep(Duration::ZERO),
            attempts: 0,
            last: None,
            step: Step::Begin,
        }
    }
}

/// Why there was no further attempt.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::backoff::BackoffPolicy;
/// use lars_scheduler::retry::GiveUp;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let policy = BackoffPolicy::builder().initial(Duration::from_secs(1)).build()?;
/// let connect = || async { Err::<(), _>("no such host") };
///
/// let limited = time.retry(policy, connect).within(Duration::from_secs(10));
/// assert_eq!(time.block_on(limited)?.unwrap_err().reason(), &GiveUp::Deadline);
/// let choosy = time.retry(policy, connect).when(|error| *error != "no such host");
/// assert_eq!(time.block_on(choosy)?.unwrap_err().reason(), &GiveUp::Error);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GiveUp {
    /// As many attempts were made as the policy allows.
    #[error("the limit of attempts is reached")]
    Attempts,
    /// The predicate of [`Retry::when`] said no.
    #[error("the error is not one to try again after")]
    Error,
    /// The deadline of all attempts came during the last one, or the pause before the next would have reached it.
    #[error("the deadline of all attempts is reached")]
    Deadline,
    /// The scheduler refused the timer for the pause, or for the deadline.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What [`Handle::retry`] was doing did not succeed. The last error is its [`source`](Error::source).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::backoff::BackoffPolicy;
/// use lars_scheduler::retry::GiveUp;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let policy = BackoffPolicy::builder().max_attempts(3).build()?;
/// let connect = || async { Err::<(), _>("connection refused") };
/// let error = time.block_on(time.retry(policy, connect))?.unwrap_err();
/// assert!(matches!(error.reason(), GiveUp::Attempts));
/// assert_eq!(error.attempts(), 3);
/// assert_eq!(error.last_error(), Some(&"connection refused"));
/// assert_eq!(error.into_last_error(), Some("connection refused"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryError<E> {
    reason: GiveUp,
    attempts: u32,
    last: Option<E>,
}

impl<E> RetryError<E> {
    /// Why there was no further attempt.
    pub fn reason(&self) -> &GiveUp {
        &self.reason
    }

    /// How many attempts were begun.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What the last attempt that ended failed with. `None` only if the deadline came, or the scheduler was
    /// stopped, during the first attempt.
    pub fn last_error(&self) -> Option<&E> {
        self.last.as_ref()
    }

    /// [`last_error`](Self::last_error), by value.
    pub fn into_last_error(self) -> Option<E> {
        self.last
    }
}

impl<E> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {} attempt{plural}: {}", self.attempts, self.reason)
    }
}

impl<E: Error + 'static> Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last.as_ref().map(|last| last as &(dyn Error + 'static))
    }
}

pin_project! {
    /// Something that is done until it succeeds. Made by [`Handle::retry`].
    ///
    /// There is at most one timer at a time, for the pause or for the deadline, and none while an attempt runs that
    /// has no deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the attempt that is under way, and makes no other.
    ///
    /// # Panics
    ///
    /// When it is polled after it was ready.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Retry<Op, Work, When = AnyError<Work>>
    where
        Work: TryFuture,
    {
        operation: Op,
        when: When,
        backoff: Backoff,
        deadline: Option<Instant>,
        // Of the pause, or of the deadline.
        sleep: Sleep,
        attempts: u32,
        last: Option<Work::Error>,
        #[pin]
        step: Step<Work>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<Work> {
        // The next attempt is to be made.
        Begin,
        Attempt { #[pin] work: Work },
        Pause,
        Done,
    }
}

impl<Op, Work, When> Retry<Op, Work, When>
where
    Work: TryFuture,
{
    /// Tries again only after errors of which `when` says so. It replaces the one before.
    pub fn when<New>(self, when: New) -> Retry<Op, Work, New>
    where
        New: FnMut(&Work::Error) -> bool,
    {
        let Self { operation, backoff, deadline, sleep, attempts, last, step, .. } = self;
        Retry { operation, when, backoff, deadline, sleep, attempts, last, step }
    }

    /// Limits all attempts and pauses together to `limit`, which counts from this call. See
    /// [`until`](Self::until).
    pub fn within(mut self, limit: Duration) -> Self {
        self.deadline = self.sleep.handle().now().checked_add(limit);
        self
    }

    /// Limits all attempts and pauses together to `deadline`: an attempt that is under way then is dropped, and a
    /// pause that would reach it is not begun; the retry fails at once instead, with the last error.
    ///
    /// As in [`Timeout`](crate::future::Timeout), an attempt that is ready at that very moment has won.
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

impl<Op, Work, When> Future for Retry<Op, Work, When>
where
    Op: FnMut() -> Work,
    Work: TryFuture,
    When: FnMut(&Work::Error) -> bool,
{
    type Output = Result<Work::Ok, RetryError<Work::Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut attempted = false;
        let reason = loop {
            let mut this = self.as_mut().project();
            match this.step.as_mut().project() {
                StepProjection::Begin => {
                    let work = (this.operation)();
                    *this.attempts = this.attempts.saturating_add(1);
                    if this.deadline.is_some() {
                        this.sleep.reset_to(*this.deadline);
                    }
                    this.step.set(Step::Attempt { work });
                }
                StepProjection::Attempt { work } => match work.try_poll(context) {
                    Poll::Ready(Ok(success)) => {
                        this.sleep.disarm();
                        this.step.set(Step::Done);
                        return Poll::Ready(Ok(success));
                    }
                    Poll::Ready(Err(error)) => {
                        attempted = true;
                        let again = (this.when)(&error);
                        *this.last = Some(error);
                        if !again {
                            break GiveUp::Error;
                        }
                        let Some(pause) = this.backoff.next_delay() else {
                            break GiveUp::Attempts;
                        };
                        let next = this.sleep.handle().now().checked_add(pause);
                        if let Some(deadline) = *this.deadline
                            && next.is_none_or(|next| next >= deadline)
                        {
                            break GiveUp::Deadline;
                        }
                        this.sleep.reset_to(next);
                        this.step.set(Step::Pause);
                    }
                    Poll::Pending if this.deadline.is_none() => return Poll::Pending,
                    Poll::Pending => match ready!(this.sleep.poll_deadline(context)) {
                        Ok(_) => break GiveUp::Deadline,
                        Err(refusal) => break GiveUp::Refused(refusal),
                    },
                },
                StepProjection::Pause => match ready!(this.sleep.poll_deadline(context)) {
                    // Others may run before the next attempt.
                    Ok(_) if attempted => {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Ok(_) => this.step.set(Step::Begin),
                    Err(refusal) => break GiveUp::Refused(refusal),
                },
                StepProjection::Done => panic!("a retry was polled after it was ready"),
            }
        };
        let mut this = self.project();
        this.sleep.disarm();
        this.step.set(Step::Done);
        let (attempts, last) = (*this.attempts, this.last.take());
        Poll::Ready(Err(RetryError { reason, attempts, last }))
    }
}

impl<Op, Work, When> fmt::Debug for Retry<Op, Work, When>
where
    Work: TryFuture,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("backoff", &self.backoff)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
