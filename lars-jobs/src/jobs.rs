//! What a scheduler's handle does beside one-shots and repeats.

use std::time::Duration;

use futures::TryFuture;
use lars_base::backoff::Backoff;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::{Handle, ScheduleError, Start};

use crate::call::{
    IntoCall, IntoRepeatedCall, Rhythm, RunResult, ScheduledCall, schedule_call_due, schedule_calls,
};
use crate::retry::Retry;
use crate::when_due::DueOn;

/// Calls with a result, and retries, on a [`Handle`] and all that dereferences to one: a scheduler,
/// and virtual time.
///
/// The other systems are types with constructors that take a handle.
pub trait Jobs {
    /// Calls `call` once, `delay` from now, for its result.
    ///
    /// The timer is one of [`schedule_once`](Handle::schedule_once), with the same promises: never
    /// early, any delay up to [`Duration::MAX`]. As in the JDK the delay counts from the call, even
    /// if [`Backpressure`](lars_scheduler::Backpressure) holds that back. (That of `schedule_once`
    /// counts from the end of such a wait.)
    ///
    /// # Errors
    ///
    /// Same as [`schedule_once`](Handle::schedule_once).
    ///
    /// # Panics
    ///
    /// A panic of the call arrives as [`CallError::Panicked`](crate::call::CallError::Panicked),
    /// and is counted and reported as for any task.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::Jobs;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::call::CallError;
    /// use std::time::Duration;
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let sum = scheduler.schedule_call(Duration::from_millis(2), || 1 + 2)?;
    /// assert_eq!(sum.wait()?, 3); // or `sum.await?`
    ///
    /// let late = scheduler.schedule_call(Duration::from_secs(60), || "too late")?;
    /// let late = late.wait_timeout(Duration::from_millis(1)).unwrap_err(); // the call itself
    /// assert!(late.cancel());
    /// assert!(matches!(late.wait(), Err(CallError::Cancelled)));
    /// # Ok(()) }
    /// ```
    #[doc(alias = "schedule", alias = "ScheduledFuture", alias = "Callable")]
    #[track_caller]
    fn schedule_call<T: Send + 'static, C: IntoCall<T>>(
        &self,
        delay: Duration,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>>;

    /// Calls `call` once, at `deadline`, for its result. A deadline that has passed is now.
    ///
    /// # Errors
    ///
    /// Same as [`schedule_once`](Handle::schedule_once).
    #[track_caller]
    fn schedule_call_at<T: Send + 'static, C: IntoCall<T>>(
        &self,
        deadline: Instant,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>>;

    /// Calls `call` after `initial`, and then again and again, each time `delay` after the end of
    /// the run before, until a run returns [`ControlFlow::Break`](std::ops::ControlFlow) with a
    /// result.
    ///
    /// It is a series of [`schedule_with_fixed_delay`](Handle::schedule_with_fixed_delay) that can
    /// be waited for: a panic ends it with
    /// [`CallError::Panicked`](crate::call::CallError::Panicked), a cancel with
    /// [`CallError::Cancelled`](crate::call::CallError::Cancelled), the end of the scheduler with
    /// [`CallError::HandedBack`](crate::call::CallError::HandedBack) or
    /// [`CallError::Dropped`](crate::call::CallError::Dropped).
    ///
    /// # Errors
    ///
    /// Same as [`schedule_with_fixed_delay`](Handle::schedule_with_fixed_delay).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::Jobs;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let mut attempts = 0;
    /// let answer = scheduler.schedule_calls_with_fixed_delay(
    ///     Duration::ZERO,
    ///     Duration::from_millis(1),
    ///     move || {
    ///         attempts += 1;
    ///         if attempts < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(attempts) }
    ///     },
    /// )?;
    /// assert_eq!(answer.wait()?, 3);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    fn schedule_calls_with_fixed_delay<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: impl Into<Start>,
        delay: Duration,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>>;

    /// Calls `call` after `initial`, and then every `interval` without drift, until a run returns
    /// [`ControlFlow::Break`](std::ops::ControlFlow) with a result.
    ///
    /// It is a series of [`schedule_at_fixed_rate`](Handle::schedule_at_fixed_rate) that can be
    /// waited for, as with
    /// [`schedule_calls_with_fixed_delay`](Self::schedule_calls_with_fixed_delay).
    ///
    /// # Errors
    ///
    /// Same as [`schedule_at_fixed_rate`](Handle::schedule_at_fixed_rate).
    #[track_caller]
    fn schedule_calls_at_fixed_rate<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: impl Into<Start>,
        interval: Duration,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>>;

    /// Repeats `operation` until it succeeds, with the pauses of `backoff` between the attempts: a
    /// [`BackoffPolicy`](lars_base::backoff::BackoffPolicy), or in a test a [`Backoff`] with a
    /// seed.
    ///
    /// The attempts follow each other, on the task that polls this, and the first is made by the
    /// first poll. A pause begins when an attempt has failed. [`Retry::when`] limits it to some
    /// errors. [`Retry::within`] and [`Retry::until`] limit the whole. To limit each attempt, use
    /// [`timeout`](Handle::timeout) in the operation.
    ///
    /// # Errors
    ///
    /// [`RetryError`](crate::retry::RetryError) with the last error, and why there is no further
    /// attempt.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::Jobs;
    /// use lars_jobs::backoff::BackoffPolicy;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let second = Duration::from_secs(1);
    /// let policy = BackoffPolicy::builder().initial(second).max_attempts(5).build()?;
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
    #[track_caller]
    fn retry<Op, Work>(&self, backoff: impl Into<Backoff>, operation: Op) -> Retry<Op, Work>
    where
        Op: FnMut() -> Work,
        Work: TryFuture;
}

impl Jobs for Handle {
    #[track_caller]
    fn schedule_call<T: Send + 'static, C: IntoCall<T>>(
        &self,
        delay: Duration,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        schedule_call_due(self, self.due_after(delay), call)
    }

    #[track_caller]
    fn schedule_call_at<T: Send + 'static, C: IntoCall<T>>(
        &self,
        deadline: Instant,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        schedule_call_due(self, WhenDue::At(deadline), call)
    }

    #[track_caller]
    fn schedule_calls_with_fixed_delay<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: impl Into<Start>,
        delay: Duration,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        schedule_calls(self, initial.into(), Rhythm::FixedDelay(delay), call)
    }

    #[track_caller]
    fn schedule_calls_at_fixed_rate<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: impl Into<Start>,
        interval: Duration,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        schedule_calls(self, initial.into(), Rhythm::FixedRate(interval), call)
    }

    #[track_caller]
    fn retry<Op, Work>(&self, backoff: impl Into<Backoff>, operation: Op) -> Retry<Op, Work>
    where
        Op: FnMut() -> Work,
        Work: TryFuture,
    {
        Retry::new(self, backoff.into(), operation)
    }
}
