//! Async work that is retried until it succeeds, with growing pauses.
//!
//! [`Jobs::retry`](crate::Jobs::retry) calls an operation, and calls it again after
//! each failure, when the pause of a [`BackoffPolicy`](lars_base::backoff::BackoffPolicy) is over.
//! It runs on any executor, like everything in [`future`](lars_scheduler::future).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_jobs::Jobs;
//! use lars_jobs::backoff::{BackoffPolicy, Jitter};
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
//!     .retry(policy, fetch)                                   // up to eight attempts
//!     .when(|error| error.kind() != io::ErrorKind::NotFound)  // retrying would not help
//!     .within(Duration::from_secs(60))                        // all of it
//!     .await;
//! # assert!(answer.is_err());
//! # Ok::<_, Box<dyn std::error::Error>>(()) };
//! # time.block_on(fetching)?
//! # }
//! ```
//!
//! # Promises
//!
//! - A pause begins when an attempt has failed, and is never cut short. Jitter stays inside the
//!   policy's cap.
//! - One attempt at a time, and at most one per poll: an operation that fails at once, with pauses
//!   of zero, still lets other tasks run.
//! - [`RetryError`] has the last error, the number of attempts and the reason for giving up.
//! - If the scheduler stops, the retry ends with [`GiveUp::Refused`] when it next has to wait.
//!
//! Similar: Akka's and Pekko's `retry`, whose jitter comes after the cap.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::TryFuture;
use pin_project_lite::pin_project;

use crate::when_due::{DueOn, reset_sleep};
use lars_base::backoff::Backoff;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::future::Sleep;
use lars_scheduler::{Handle, Refusal};

/// The default predicate of a [`Retry`], which accepts every error; [`when`](Retry::when) sets
/// another.
pub type AnyError<Work> = fn(&<Work as TryFuture>::Error) -> bool;

fn always<E>(_: &E) -> bool {
    true
}

/// Why there was no further attempt.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::Jobs;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::backoff::BackoffPolicy;
/// use lars_jobs::retry::GiveUp;
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
    /// The policy allows no further attempt.
    #[error("the limit of attempts is reached")]
    Attempts,
    /// The predicate of [`Retry::when`] refused the error.
    #[error("the error is not one to retry after")]
    Error,
    /// The deadline of all attempts came during the last one or before the next, or the pause
    /// before that would have reached it.
    #[error("the deadline of all attempts is reached")]
    Deadline,
    /// The scheduler refused the timer for the pause, or for the deadline.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The work of [`Jobs::retry`](crate::Jobs::retry) did not succeed. The last error is its
/// [`source`](Error::source).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::Jobs;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::backoff::BackoffPolicy;
/// use lars_jobs::retry::GiveUp;
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

    /// The error of the last attempt that ended. `None` only if the deadline came, or the scheduler
    /// was stopped, during the first attempt.
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
    /// An operation that is repeated until it succeeds. Made by
    /// [`Jobs::retry`](crate::Jobs::retry).
    ///
    /// There is at most one timer at a time, for the pause or for the deadline, and none during an
    /// attempt without a deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the attempt in flight; no other follows.
    ///
    /// # Panics
    ///
    /// If it is polled after it was ready.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Retry<Op, Work, When = AnyError<Work>>
    where
        Work: TryFuture,
    {
        operation: Op,
        when: When,
        backoff: Backoff,
        deadline: WhenDue,
        handle: Handle,
        // Of the call that made it.
        place: &'static Location<'static>,
        // Of the pause, or of the deadline; none before the first, and at the end.
        sleep: Option<Sleep>,
        attempts: u32,
        last: Option<Work::Error>,
        #[pin]
        step: RetryStep<Work>,
    }
}

pin_project! {
    #[project = RetryStepProjection]
    enum RetryStep<Work> {
        // The next attempt is to be made.
        Begin,
        Attempt { #[pin] work: Work },
        Pause,
        Done,
    }
}

impl<Op, Work> Retry<Op, Work>
where
    Work: TryFuture,
{
    #[track_caller]
    pub(crate) fn new(handle: &Handle, backoff: Backoff, operation: Op) -> Self {
        Self {
            operation,
            when: always,
            backoff,
            deadline: WhenDue::Never,
            handle: handle.clone(),
            place: Location::caller(),
            sleep: None,
            attempts: 0,
            last: None,
            step: RetryStep::Begin,
        }
    }
}

impl<Op, Work, When> Retry<Op, Work, When>
where
    Work: TryFuture,
{
    /// Retries only after errors for which `when` returns true. It replaces the predicate before.
    pub fn when<New>(self, when: New) -> Retry<Op, Work, New>
    where
        New: FnMut(&Work::Error) -> bool,
    {
        let Self { operation, backoff, deadline, handle, place, .. } = self;
        let Self { sleep, attempts, last, step, .. } = self;
        Retry { operation, when, backoff, deadline, handle, place, sleep, attempts, last, step }
    }

    /// Limits all attempts and pauses together to `limit`, which counts from this call. See
    /// [`until`](Self::until).
    pub fn within(mut self, limit: Duration) -> Self {
        self.deadline = self.handle.due_after(limit);
        self
    }

    /// Limits all attempts and pauses together to `deadline`. An attempt in flight at that time is
    /// dropped. If a pause would reach it, the retry fails at once, with the last error.
    ///
    /// As in [`Timeout`](lars_scheduler::future::Timeout), an attempt that is ready at that very
    /// moment wins.
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = WhenDue::At(deadline);
        self
    }
}

impl<Op, Work, When> Retry<Op, Work, When>
where
    Work: TryFuture,
    When: FnMut(&Work::Error) -> bool,
{
    /// An attempt has failed. The pause before the next one begins, if there is to be one.
    fn begin_pause(self: Pin<&mut Self>, error: Work::Error) -> Result<(), GiveUp> {
        let mut this = self.project();
        let again = (this.when)(&error);
        *this.last = Some(error);
        if !again {
            return Err(GiveUp::Error);
        }
        let pause = this.backoff.next_delay().ok_or(GiveUp::Attempts)?;
        let next = this.handle.due_after(pause);
        if *this.deadline != WhenDue::Never && next >= *this.deadline {
            return Err(GiveUp::Deadline);
        }
        sleep_to(this.sleep, this.handle, this.place, next);
        this.step.set(RetryStep::Pause);
        Ok(())
    }
}

/// Moves the sleep, or makes the first one.
fn sleep_to(
    sleep: &mut Option<Sleep>,
    handle: &Handle,
    place: &'static Location<'static>,
    due: WhenDue,
) {
    let sleep = sleep.get_or_insert_with(|| handle.sleep(Duration::ZERO).placed_at(place));
    reset_sleep(sleep, due);
}

/// There is a sleep whenever one is waited for.
fn poll_sleep(sleep: &mut Option<Sleep>, context: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
    sleep.as_mut().map_or(Poll::Pending, |sleep| Pin::new(sleep).poll(context))
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
                RetryStepProjection::Begin => {
                    let work = (this.operation)();
                    *this.attempts = this.attempts.saturating_add(1);
                    if *this.deadline != WhenDue::Never {
                        sleep_to(this.sleep, this.handle, this.place, *this.deadline);
                    }
                    this.step.set(RetryStep::Attempt { work });
                }
                RetryStepProjection::Attempt { work } => match work.try_poll(context) {
                    Poll::Ready(Ok(success)) => {
                        *this.sleep = None;
                        this.step.set(RetryStep::Done);
                        return Poll::Ready(Ok(success));
                    }
                    Poll::Ready(Err(error)) => {
                        attempted = true;
                        match self.as_mut().begin_pause(error) {
                            Ok(()) => {}
                            Err(reason) => break reason,
                        }
                    }
                    Poll::Pending if *this.deadline == WhenDue::Never => return Poll::Pending,
                    Poll::Pending => match ready!(poll_sleep(this.sleep, context)) {
                        Ok(_) => break GiveUp::Deadline,
                        Err(refusal) => break GiveUp::Refused(refusal),
                    },
                },
                RetryStepProjection::Pause => match ready!(poll_sleep(this.sleep, context)) {
                    // Others may run before the next attempt.
                    Ok(_) if attempted => {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    // The pause ends before the deadline, but the executor may be late.
                    Ok(_)
                        if *this.deadline != WhenDue::Never
                            && this.deadline.has_come(this.handle.now()) =>
                    {
                        break GiveUp::Deadline;
                    }
                    Ok(_) => this.step.set(RetryStep::Begin),
                    Err(refusal) => break GiveUp::Refused(refusal),
                },
                RetryStepProjection::Done => panic!("a retry was polled after it was ready"),
            }
        };
        let mut this = self.project();
        *this.sleep = None;
        this.step.set(RetryStep::Done);
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
            .field("deadline", &self.deadline.instant())
            .finish_non_exhaustive()
    }
}
