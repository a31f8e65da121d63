//! Scheduled calls with a result: the JDK's `schedule(Callable)`, and its periodic futures.
//!
//! [`Handle::schedule_call`] schedules a closure that returns something, and returns a
//! [`ScheduledCall`]: a future of the result, which a thread can wait for as well.
//! [`Handle::schedule_calls_with_fixed_delay`] and [`Handle::schedule_calls_at_fixed_rate`] call
//! again and again, until a run has a result.
//!
//! Waiting callers learn how a call ended, in every case: with a value, a panic or a cancel, or
//! because an executor lost it or `stop` handed it back. (A `Future` of the JDK that `shutdownNow`
//! handed back is neither done nor cancelled, and `get` blocks forever.)

mod outcome;

mod bodies;
mod handles;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::bodies::{CallBody, Rhythm, Series};
pub(crate) use self::handles::Target;
pub use self::handles::{CallCanceller, ScheduledCall};
pub use self::outcome::{CallError, CallPanic};
pub(crate) use self::outcome::{CallOutcome, promise};
use crate::systems::facade::{RunOn, debug_fields};
use crate::systems::when_due::WhenDue;
use crate::{Executor, Handle, MissedTickBehavior, Periodic, ScheduleError, Task, TaskBody};

/// A call with options.
///
/// A plain closure is scheduled as it is; this type is for the closures that need more.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::call::Call;
/// use std::time::Duration;
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let call = Call::new(|| 6 * 7).inline(); // on the timer thread: it never blocks
/// assert_eq!(scheduler.schedule_call(Duration::from_millis(1), call)?.get()?, 42);
/// # Ok(()) }
/// ```
#[must_use = "a call does nothing until it is scheduled"]
pub struct Call<F> {
    pub(crate) run: F,
    pub(crate) options: CallOptions,
}

#[derive(Clone, Default)]
pub(crate) struct CallOptions {
    run_on: RunOn,
    run_on_close: bool,
    missed: MissedTickBehavior,
    name: Option<&'static str>,
}

impl<F> Call<F> {
    /// A call that runs on the scheduler's executor.
    pub fn new(run: F) -> Self {
        Self { run, options: CallOptions::default() }
    }

    /// Runs the call on the timer thread itself. See [`Task::inline`].
    pub fn inline(mut self) -> Self {
        self.options.run_on = RunOn::Inline;
        self
    }

    /// Runs the call on `executor` instead of the scheduler's own.
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.options.run_on = RunOn::Executor(executor);
        self
    }

    /// Gives the call a name. See [`Task::named`].
    pub fn named(mut self, name: &'static str) -> Self {
        self.options.name = Some(name);
        self
    }

    /// Marks a call that runs once. See [`Task::run_on_close`]. A repeated call ends when its
    /// scheduler is closed, marked or not.
    pub fn run_on_close(mut self) -> Self {
        self.options.run_on_close = true;
        self
    }

    /// What a fixed rate does with missed runs. All other calls ignore this, because they have
    /// none.
    pub fn missed_ticks(mut self, behavior: MissedTickBehavior) -> Self {
        self.options.missed = behavior;
        self
    }
}

debug_fields!(|_it: Call<F>|);

impl CallOptions {
    /// Uses `executor` if the call does not say where it runs.
    pub(crate) fn or_on(mut self, executor: &RunOn) -> Self {
        if matches!(self.run_on, RunOn::Default) {
            self.run_on = executor.clone();
        }
        self
    }

    pub(crate) fn task<B: TaskBody>(&self, body: B) -> Task<B> {
        let task = Task::new(body).run_on(self.run_on.clone()).labelled(self.name);
        if self.run_on_close { task.run_on_close() } else { task }
    }

    pub(crate) fn periodic<F>(&self, run: F) -> Periodic<F> {
        let series = Periodic::new(run).missed_ticks(self.missed).labelled(self.name);
        series.run_on(self.run_on.clone())
    }
}

/// What can be called with a result: any `FnOnce() -> T + Send + 'static`, or a [`Call`] with
/// options.
pub trait IntoCall<T>: sealed::Parts<T> {}

impl<T, C: sealed::Parts<T>> IntoCall<T> for C {}

/// What can be called again and again: any `FnMut() -> R + Send + 'static`, or a [`Call`] of one
/// with options.
pub trait IntoRepeatedCall<R>: sealed::Parts<R, Run: FnMut() -> R> {}

impl<R, C: sealed::Parts<R, Run: FnMut() -> R>> IntoRepeatedCall<R> for C {}

/// What a run of a repeated call returns: nothing, which lets the series go on until something else
/// ends it; or a [`ControlFlow`](std::ops::ControlFlow), whose `Break` ends the series with its
/// result.
pub trait RunResult: sealed::MaybeLast + Send + 'static {}

impl RunResult for () {}
impl<T: Send + 'static> RunResult for std::ops::ControlFlow<T> {}

pub(crate) mod sealed {
    use std::convert::Infallible;
    use std::ops::ControlFlow;

    use super::Call;

    /// Taking a call apart and, when it is refused, putting it together again.
    pub trait Parts<T>: Sized {
        type Run: FnOnce() -> T + Send + 'static;
        fn into_call(self) -> Call<Self::Run>;
        fn from_call(call: Call<Self::Run>) -> Self;
    }

    impl<T, F: FnOnce() -> T + Send + 'static> Parts<T> for F {
        type Run = F;

        fn into_call(self) -> Call<F> {
            Call::new(self)
        }
        fn from_call(call: Call<F>) -> Self {
            call.run
        }
    }

    impl<T, F: FnOnce() -> T + Send + 'static> Parts<T> for Call<F> {
        type Run = F;

        fn into_call(self) -> Self {
            self
        }
        fn from_call(call: Self) -> Self {
            call
        }
    }

    pub trait MaybeLast {
        /// What the series ends with.
        type Value: Send + 'static;
        fn end(self) -> Option<Self::Value>;
    }

    impl MaybeLast for () {
        type Value = Infallible;

        fn end(self) -> Option<Infallible> {
            None
        }
    }

    impl<T: Send + 'static> MaybeLast for ControlFlow<T> {
        type Value = T;

        fn end(self) -> Option<T> {
            self.break_value()
        }
    }
}

impl Handle {
    /// Calls `call` once, `delay` from now, for its result.
    ///
    /// The timer is one of [`schedule_once`](Self::schedule_once), with the same promises: never
    /// early, any delay up to [`Duration::MAX`].
    ///
    /// # Errors
    ///
    /// Same as [`schedule_once`](Self::schedule_once).
    ///
    /// # Panics
    ///
    /// A panic of the call arrives as [`CallError::Panicked`], and is counted and reported as for
    /// any task.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_scheduler::call::CallError;
    /// use std::time::Duration;
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let sum = scheduler.schedule_call(Duration::from_millis(2), || 1 + 2)?;
    /// assert_eq!(sum.get()?, 3); // or `sum.await?`
    ///
    /// let late = scheduler.schedule_call(Duration::from_secs(60), || "too late")?;
    /// let late = late.get_timeout(Duration::from_millis(1)).unwrap_err(); // the call itself
    /// assert!(late.cancel());
    /// assert!(matches!(late.get(), Err(CallError::Cancelled)));
    /// # Ok(()) }
    /// ```
    #[doc(alias = "schedule", alias = "ScheduledFuture", alias = "Callable")]
    #[track_caller]
    pub fn schedule_call<T: Send + 'static, C: IntoCall<T>>(
        &self,
        delay: Duration,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.schedule_call_due(self.due_after(delay), call)
    }

    /// Calls `call` once, at `deadline`, for its result. A deadline that has passed is now.
    ///
    /// # Errors
    ///
    /// Same as [`schedule_once`](Self::schedule_once).
    #[track_caller]
    pub fn schedule_call_at<T: Send + 'static, C: IntoCall<T>>(
        &self,
        deadline: Instant,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.schedule_call_due(WhenDue::At(deadline), call)
    }

    #[track_caller]
    fn schedule_call_due<T: Send + 'static, C: IntoCall<T>>(
        &self,
        due: WhenDue,
        call: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let Call { run, options } = call.into_call();
        let (promise, outcome) = promise();
        let task = options.task(CallBody::new(run, promise, ()));
        match self.schedule_due(due, task) {
            Ok(timer) => Ok(ScheduledCall::new(outcome, Arc::new(timer), due, self.clone())),
            Err(refused) => {
                let give_back = |task: Task<CallBody<C::Run, T, ()>>| {
                    C::from_call(Call { run: task.into_body().into_run(), options })
                };
                Err(refused.map(give_back))
            }
        }
    }

    /// Calls `call` after `initial`, and then again and again, each time `delay` after the end of
    /// the run before, until a run returns [`ControlFlow::Break`](std::ops::ControlFlow) with a
    /// result.
    ///
    /// It is a series of [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay) that can be
    /// waited for: a panic ends it with [`CallError::Panicked`], a cancel with
    /// [`CallError::Cancelled`], the end of the scheduler with [`CallError::HandedBack`] or
    /// [`CallError::Dropped`].
    ///
    /// # Errors
    ///
    /// Same as [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    /// assert_eq!(answer.get()?, 3);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_calls_with_fixed_delay<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Duration,
        delay: Duration,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        self.schedule_calls(initial, Rhythm::FixedDelay(delay), call)
    }

    /// Calls `call` after `initial`, and then every `interval` without drift, until a run returns
    /// [`ControlFlow::Break`](std::ops::ControlFlow) with a result.
    ///
    /// It is a series of [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate) that can be
    /// waited for, as with
    /// [`schedule_calls_with_fixed_delay`](Self::schedule_calls_with_fixed_delay).
    ///
    /// # Errors
    ///
    /// Same as [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    #[track_caller]
    pub fn schedule_calls_at_fixed_rate<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Duration,
        interval: Duration,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        self.schedule_calls(initial, Rhythm::FixedRate(interval), call)
    }

    #[track_caller]
    fn schedule_calls<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Duration,
        rhythm: Rhythm,
        call: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        let Call { run, options } = call.into_call();
        let series = Series::new(run, options, ());
        let due = self.due_after(initial);
        let (outcome, series) = series.start::<R, C>(self, initial, rhythm)?;
        Ok(ScheduledCall::new(outcome, Arc::new(series), due, self.clone()))
    }
}
