//! Scheduled calls with a result: the JDK's `schedule(Callable)`, and its periodic futures.
//!
//! [`Jobs::schedule_call`](crate::Jobs::schedule_call) schedules a closure that returns something,
//! and returns a [`ScheduledCall`]: a future of the result, which a thread can wait for as well.
//! [`Jobs::schedule_calls_with_fixed_delay`](crate::Jobs::schedule_calls_with_fixed_delay) and
//! [`Jobs::schedule_calls_at_fixed_rate`](crate::Jobs::schedule_calls_at_fixed_rate) call again and
//! again, until a run has a result.
//!
//! Waiting callers learn how a call ended, in every case: with a value, a panic or a cancel, or
//! because an executor lost it or `stop` handed it back. (A `Future` of the JDK that `shutdownNow`
//! handed back is neither done nor cancelled, and `get` blocks forever.)

mod outcome;

mod bodies;
mod handles;

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::bodies::{CallBody, Rhythm, Series};
pub(crate) use self::handles::Target;
pub use self::handles::{CallCanceller, ScheduledCall};
pub use self::outcome::{CallError, CallPanic};
pub(crate) use self::outcome::{CallOutcome, promise};
use crate::label::{Label, Labelled};
use crate::when_due::DueOn;
use lars_base::debug_fields;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::RunOn;
use lars_scheduler::{
    Executor, Handle, MissedTickBehavior, Periodic, ScheduleError, Start, Task, TaskIdentity,
};

/// A call with options.
///
/// A plain closure is scheduled as it is; this type is for the closures that need more.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::Jobs;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::call::Call;
/// use std::time::Duration;
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let call = Call::new(|| 6 * 7).inline(); // on the timer thread: it never blocks
/// assert_eq!(scheduler.schedule_call(Duration::from_millis(1), call)?.wait()?, 42);
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
    /// Boxed, because few series have one, and an error carries the whole call.
    course: Option<Box<Course>>,
}

/// Where a series ends by itself, and how its runs are spread.
#[derive(Clone, Default)]
struct Course {
    times: Option<u64>,
    until: Option<Instant>,
    spread: Duration,
    spread_seed: Option<u64>,
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
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.options.run_on = RunOn::Executor(executor.into_shared());
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

    /// Ends a series after this many runs, at least 1, as [`Periodic::times`] does. If no run has
    /// broken off with a result by then, that of the series is [`CallError::Ended`]. A call that
    /// runs once ignores this.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::Jobs;
    /// use lars_jobs::call::{Call, CallError};
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let probe = Call::new(|| -> ControlFlow<u16> { ControlFlow::Continue(()) }).times(3);
    /// let answer = time.schedule_calls_with_fixed_delay(second, second, probe)?;
    /// assert_eq!(time.advance(60 * second), 3);
    /// assert!(matches!(answer.wait(), Err(CallError::Ended)));
    /// # Ok(()) }
    /// ```
    pub fn times(mut self, runs: u64) -> Self {
        self.options.course().times = Some(runs);
        self
    }

    /// Ends a series before the first run that is due later than `end`, as [`Periodic::until`]
    /// does. If no run has broken off with a result by then, that of the series is
    /// [`CallError::Ended`]. A call that runs once ignores this.
    pub fn until(mut self, end: Instant) -> Self {
        self.options.course().until = Some(end);
        self
    }

    /// Makes each run of a series later than its rule says, by a random time from zero to `over`.
    /// See [`Periodic::spread`]. A call that runs once ignores this.
    #[doc(alias = "jitter")]
    pub fn spread(mut self, over: Duration) -> Self {
        self.options.course().spread = over;
        self
    }

    /// Seeds the random numbers of [`spread`](Self::spread). See [`Periodic::spread_seed`].
    pub fn spread_seed(mut self, seed: u64) -> Self {
        self.options.course().spread_seed = Some(seed);
        self
    }
}

debug_fields!(|_it: Call<F>|);

impl CallOptions {
    fn course(&mut self) -> &mut Course {
        self.course.get_or_insert_default()
    }

    /// Uses `executor` if the call does not say where it runs.
    pub(crate) fn or_on(mut self, executor: &RunOn) -> Self {
        if matches!(self.run_on, RunOn::Default) {
            self.run_on = executor.clone();
        }
        self
    }

    /// Whose a call of this type is that is scheduled at this place.
    pub(crate) fn identity(
        &self,
        place: &'static Location<'static>,
        type_name: &'static str,
    ) -> TaskIdentity {
        Label::at(place).named(self.name).identity(type_name)
    }

    pub(crate) fn task<B: TaskBody>(&self, body: B) -> Task<B> {
        let task = Task::new(body).run_on(self.run_on.clone()).labelled(self.name);
        if self.run_on_close { task.run_on_close() } else { task }
    }

    pub(crate) fn periodic<F>(&self, run: F) -> Periodic<F> {
        let mut series = Periodic::new(run).missed_ticks(self.missed).labelled(self.name);
        if let Some(course) = &self.course {
            series = series.spread(course.spread);
            if let Some(runs) = course.times {
                series = series.times(runs);
            }
            if let Some(end) = course.until {
                series = series.until(end);
            }
            if let Some(seed) = course.spread_seed {
                series = series.spread_seed(seed);
            }
        }
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

#[track_caller]
pub(crate) fn schedule_call_due<T: Send + 'static, C: IntoCall<T>>(
    handle: &Handle,
    due: WhenDue,
    call: C,
) -> Result<ScheduledCall<T>, ScheduleError<C>> {
    let Call { run, options } = call.into_call();
    let (promise, outcome) = promise();
    let task = options.task(CallBody::new(run, promise, ()));
    match handle.schedule_due(due, task) {
        Ok(timer) => Ok(ScheduledCall::new(outcome, Arc::new(timer), due, handle.clone())),
        Err(refused) => {
            let give_back = |task: Task<CallBody<C::Run, T, ()>>| {
                C::from_call(Call { run: task.into_body().into_run(), options })
            };
            Err(refused.map(give_back))
        }
    }
}

#[track_caller]
pub(crate) fn schedule_calls<R: RunResult, C: IntoRepeatedCall<R>>(
    handle: &Handle,
    initial: Start,
    rhythm: Rhythm,
    call: C,
) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
    let Call { run, options } = call.into_call();
    let series = Series::new(run, options, RunOn::Default, ());
    let due = handle.due_from(initial);
    let (outcome, series) = series.start::<R, C>(handle, due, rhythm)?;
    Ok(ScheduledCall::new(outcome, Arc::new(series), due, handle.clone()))
}
