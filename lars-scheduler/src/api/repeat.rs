//! Repeats: a series of one-shots, each armed by the one before through the public handle.
//!
//! The series and its cancellable meet in one atomic cell, [`cell`]. The closure is passed along:
//! a series has exactly one `Run`, which is in the entry, in the executor or on the stack of the
//! run, and only the holder of the `Run` touches the closure.

mod cell;
mod course;

use std::any::{Any, type_name};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use self::cell::{FIRST, SeriesCell};
use self::course::{Course, RunningCourse};
use lars_base::rate::{MissedTickBehavior, Rate};
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;

use crate::api::cancel::{Cancellable, Series};
use crate::api::handle::Handle;
use crate::base::deadline::Deadline;
use crate::base::error::{Refusal, ScheduleError};
use crate::base::identity::{Label, TaskIdentity};
use crate::base::panics::PanicIn;
use crate::base::raw_task::TaskBody;
use crate::base::tick::nanos;
use crate::executor::Executor;
use crate::executor::run_on::RunOn;
use crate::executor::task::{CancelHook, NoHook, TaskOptions};
use crate::sync::{Ordering, UnsafeCell};
use lars_base::debug_fields;

/// When the first run of a repeat is due: after a delay, or at an instant. Made from a [`Duration`]
/// or an [`Instant`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let start = time.now() + 10 * second;
/// // Both run at 10, 11, 12 … seconds, although the second is scheduled later.
/// let one = time.schedule_at_fixed_rate(start, second, || println!("one"))?;
/// time.advance(3 * second);
/// let other = time.schedule_at_fixed_rate(start, second, || println!("other"))?;
/// assert_eq!(time.advance(7 * second), 2);
/// # (one.cancel(), other.cancel());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// This long after the call that schedules it. Zero means at once, but never inside the call.
    After(Duration),
    /// At this instant. One that has passed means now.
    At(Instant),
}

impl Start {
    fn deadline(self, now: u64, handle: &Handle) -> Deadline {
        match self {
            Self::After(delay) => Deadline::after(now, delay),
            Self::At(instant) => Deadline::at(now, handle.core().clock.nanos_at(instant)),
        }
    }
}

impl From<Duration> for Start {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<Instant> for Start {
    fn from(instant: Instant) -> Self {
        Self::At(instant)
    }
}

/// To start when that is due.
impl From<WhenDue> for Start {
    fn from(due: WhenDue) -> Self {
        match due {
            WhenDue::At(due) => Self::At(due),
            WhenDue::Never => Self::After(Duration::MAX),
        }
    }
}

/// What happens next, as a task of [`schedule_repeating`](Handle::schedule_repeating) returns it.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Repeat};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let mut delay = Duration::from_secs(1);
/// let polling = time.schedule_repeating(delay, move || {
///     delay *= 2;
///     if delay > Duration::from_secs(10) { Repeat::Stop } else { Repeat::After(delay) }
/// })?;
/// assert_eq!(time.run_until_idle(100)?, 4); // at 1, 3, 7 and 15 s
/// assert_eq!(time.elapsed(), Duration::from_secs(15));
/// assert!(!polling.is_pending());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Run again, this long after the end of this run. Zero means at once, through the scheduler.
    After(Duration),
    /// Run again at this instant. One that has passed means at once.
    At(Instant),
    /// End the series.
    Stop,
}

/// To run again when that is due.
impl From<WhenDue> for Repeat {
    fn from(due: WhenDue) -> Self {
        match due {
            WhenDue::At(due) => Self::At(due),
            WhenDue::Never => Self::After(Duration::MAX),
        }
    }
}

/// A repeated task with options.
///
/// A plain closure is scheduled as it is; this type is for the closures that need more.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, MissedTickBehavior, Periodic};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let sampling = Periodic::new(|| println!("sample"))
///     .missed_ticks(MissedTickBehavior::Skip)
///     .on_cancel(|| println!("no more samples"));
/// let sampling =
///     scheduler.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(10), sampling)?;
/// assert!(sampling.cancel());
/// # Ok(()) }
/// ```
#[must_use = "a task does nothing until it is scheduled"]
pub struct Periodic<F, C = NoHook> {
    run: F,
    hook: C,
    run_on: RunOn,
    label: Label,
    /// Boxed, because few series have one, and an error carries the whole task.
    course: Option<Box<Course>>,
}

impl<F> Periodic<F> {
    /// A repeated task that runs `run` on the scheduler's executor.
    pub fn new(run: F) -> Self {
        let (run_on, label) = (RunOn::Default, Label::default());
        Self { run, hook: NoHook, run_on, label, course: None }
    }
}

impl<F, C> Periodic<F, C> {
    /// Runs the task on the timer thread itself. See [`Task::inline`](crate::Task::inline).
    pub fn inline(self) -> Self {
        self.run_on(RunOn::Inline)
    }

    /// Runs the task on `executor` instead of the scheduler's own. An `Arc` of one is kept as it
    /// is; anything else is put into one.
    pub fn executor(self, executor: impl Executor) -> Self {
        self.run_on(RunOn::Executor(executor.into_shared()))
    }

    /// Where the runs of the series run, as a value: for systems that pass on the choice of their
    /// users.
    pub fn run_on(mut self, run_on: RunOn) -> Self {
        self.run_on = run_on;
        self
    }

    /// What a fixed rate does with missed runs. A fixed delay has none, and ignores this.
    pub fn missed_ticks(mut self, behavior: MissedTickBehavior) -> Self {
        if self.course.is_some() || behavior != MissedTickBehavior::default() {
            self.course().missed = behavior;
        }
        self
    }

    /// Ends the series after this many runs, at least 1. (A run that returns
    /// [`ControlFlow::Break`] or [`Repeat::Stop`] ends it before.)
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{LightArrayRevolverScheduler, Periodic};
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let three = Periodic::new(|| println!("ding")).times(3);
    /// let chime = time.schedule_at_fixed_rate(second, second, three)?;
    /// assert_eq!(time.advance(60 * second), 3);
    /// assert!(!chime.is_pending());
    /// # Ok(()) }
    /// ```
    pub fn times(mut self, runs: u64) -> Self {
        self.course().times = Some(runs);
        self
    }

    /// Ends the series before the first run that is due later than `end`. What counts is when a run
    /// is due by the rule of the series: one that is due by then and late runs all the same. The
    /// first run must be due by then.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{LightArrayRevolverScheduler, Periodic};
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let sale = Periodic::new(|| println!("buy now")).until(time.now() + 10 * second);
    /// let _sale = time.schedule_with_fixed_delay(second, 3 * second, sale)?;
    /// assert_eq!(time.advance(60 * second), 4); // at 1, 4, 7 and 10 s
    ///
    /// let over = Periodic::new(|| ()).until(time.now());
    /// let refused = time.schedule_with_fixed_delay(second, second, over).unwrap_err();
    /// assert_eq!(refused.to_string(), "the series would end 1s before its first run is due");
    /// # Ok(()) }
    /// ```
    pub fn until(mut self, end: Instant) -> Self {
        self.course().until = Some(end);
        self
    }

    /// Makes each run later than its rule says by a random time from zero to `over`, drawn anew for
    /// each, the first included. So what starts together does not run together, in one process or
    /// in many. A fixed rate does not drift: the time is added to `first + n * interval`. The
    /// period must be at least as long; zero, which is the default, spreads nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{LightArrayRevolverScheduler, Periodic};
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let refresh = Periodic::new(|| println!("refresh")).spread(10 * second);
    /// let refresh = time.schedule_at_fixed_rate(Duration::ZERO, 60 * second, refresh)?;
    /// time.advance(10 * second); // once, somewhere in the first ten seconds
    /// assert!((50..=60).contains(&refresh.remaining().unwrap().as_secs()));
    /// # Ok(()) }
    /// ```
    #[doc(alias = "jitter")]
    pub fn spread(mut self, over: Duration) -> Self {
        self.course().spread = over;
        self
    }

    /// Seeds the random numbers of [`spread`](Self::spread), so that tests and replays in virtual
    /// time see the same ones again.
    pub fn spread_seed(mut self, seed: u64) -> Self {
        self.course().seed = Some(seed);
        self
    }

    /// Makes the series run once more when its scheduler is closed, by the policies that run
    /// [marked](crate::Task::run_on_close) tasks:
    /// [`RunPending`](crate::ClosePolicy::RunPending) and
    /// [`RunMarked`](crate::ClosePolicy::RunMarked). That run is on the closing thread, before its
    /// time, and the last. (A series whose run is in progress has no other.)
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{LightArrayRevolverScheduler, Periodic};
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let flush = Periodic::new(|| println!("flushed")).run_on_close();
    /// let _ = scheduler.schedule_with_fixed_delay(minute, minute, flush)?;
    /// let report = scheduler.close()?; // prints "flushed"
    /// assert_eq!((report.ran, report.repeats_ended), (1, 1));
    /// # Ok(()) }
    /// ```
    pub fn run_on_close(mut self) -> Self {
        self.course().run_on_close = true;
        self
    }

    /// Gives the task a name. See [`Task::named`](crate::Task::named).
    pub fn named(mut self, name: &'static str) -> Self {
        self.label.name = Some(name);
        self
    }

    /// The place that the [`TaskIdentity`] shows. See
    /// [`Task::placed_at`](crate::Task::placed_at).
    pub fn placed_at(mut self, place: &'static Location<'static>) -> Self {
        self.label.place = Some(place);
        self
    }

    /// Calls `hook` once when the series has been cancelled, but not when it ends by itself or when
    /// the scheduler stops. The hook runs on the cancelling thread, after the captures have been
    /// dropped. If a run was in progress or waited in its executor, it runs on that run's thread at
    /// its end.
    pub fn on_cancel<H: FnOnce() + Send + 'static>(self, hook: H) -> Periodic<F, H> {
        self.hook(hook)
    }

    fn course(&mut self) -> &mut Course {
        self.course.get_or_insert_default()
    }

    /// Calls a hook of any kind.
    pub(crate) fn hook<H: CancelHook>(self, hook: H) -> Periodic<F, H> {
        let Self { run, run_on, label, course, .. } = self;
        Periodic { run, hook, run_on, label, course }
    }
}

debug_fields!(|it: Periodic<F, C>| run_on: it.run_on, course: it.course);

/// What can be scheduled to run again and again: a closure that can be called many times, or a
/// [`Periodic`] with options. `R` is what it returns: nothing or [`ControlFlow`], or [`Repeat`] for
/// [`schedule_repeating`](Handle::schedule_repeating).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be scheduled to run again and again",
    label = "neither an `FnMut() -> {R} + Send + 'static` nor a `Periodic` of one",
    note = "a closure that consumes what it captured can run only once; and for options wrap it: \
            `Periodic::new(..)`"
)]
pub trait IntoPeriodic<R>: sealed::Parts<R> {}

impl<R, T: sealed::Parts<R>> IntoPeriodic<R> for T {}

pub(crate) mod sealed {
    use std::ops::ControlFlow;

    use super::{Periodic, Repeat};
    use crate::executor::task::CancelHook;

    /// What a run says about the next one.
    #[derive(Debug, Clone, Copy)]
    pub enum NextRun {
        ByRule,
        Asked(Repeat),
    }

    pub trait Answer: 'static {
        fn next(self) -> NextRun;
    }

    impl Answer for () {
        fn next(self) -> NextRun {
            NextRun::ByRule
        }
    }

    impl Answer for ControlFlow<()> {
        fn next(self) -> NextRun {
            if self.is_break() { NextRun::Asked(Repeat::Stop) } else { NextRun::ByRule }
        }
    }

    impl Answer for Repeat {
        fn next(self) -> NextRun {
            NextRun::Asked(self)
        }
    }

    #[allow(private_bounds)]
    pub trait Parts<R>: Sized {
        type Run: FnMut() -> R + Send + 'static;
        type Hook: CancelHook;
        fn into_periodic(self) -> Periodic<Self::Run, Self::Hook>;
        fn from_periodic(periodic: Periodic<Self::Run, Self::Hook>) -> Self;
    }
}

impl<R, F: FnMut() -> R + Send + 'static> sealed::Parts<R> for F {
    type Run = F;
    type Hook = NoHook;

    fn into_periodic(self) -> Periodic<F> {
        Periodic::new(self)
    }
    fn from_periodic(periodic: Periodic<F>) -> Self {
        periodic.run
    }
}

#[allow(private_bounds)]
impl<R, F, C> sealed::Parts<R> for Periodic<F, C>
where
    F: FnMut() -> R + Send + 'static,
    C: CancelHook,
{
    type Run = F;
    type Hook = C;

    fn into_periodic(self) -> Self {
        self
    }
    fn from_periodic(periodic: Self) -> Self {
        periodic
    }
}

/// When the next run of a series is due.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Delay(u64),
    Rate(Rate),
    /// The task says.
    Asked,
}

/// What a task with a fixed delay or rate returns: nothing, or [`ControlFlow`], whose `Break` ends
/// the series.
///
/// (A closure that never returns, such as `|| todo!()`, does not say which: write `|| -> () {
/// todo!() }`.)
#[diagnostic::on_unimplemented(
    message = "a repeated task returns nothing or `ControlFlow<()>`, not `{Self}`",
    note = "end the closure with a semicolon if its result does not matter",
    note = "for async work there is `handle.interval(period)`, a stream to await in a loop"
)]
pub trait Verdict: sealed::Answer {}

impl Verdict for () {}
impl Verdict for ControlFlow<()> {}

impl Handle {
    /// Runs `task` after `initial`, and then again and again, each time `delay` after the end of
    /// the run before.
    ///
    /// Runs never overlap. The series ends when it is cancelled, when a run panics or returns
    /// [`ControlFlow::Break`], and when the scheduler stops.
    ///
    /// # Lateness
    ///
    /// Each run is as punctual as a [`schedule_once`](Self::schedule_once) made at the end of the
    /// one before. Delays add up: use [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate) for
    /// a steady frequency.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a `delay` of zero, or one shorter than its
    /// [`spread`](Periodic::spread); [`Refusal::Times`] and [`Refusal::EndsBefore`] for a series
    /// without a run; otherwise the same as [`schedule_once`](Self::schedule_once). A series keeps
    /// its place within `max_pending`, so no later run is refused.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{sync::mpsc, time::Duration};
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let beat = scheduler.schedule_with_fixed_delay(
    ///     Duration::ZERO,
    ///     Duration::from_millis(1),
    ///     move || drop(sender.send("beat")),
    /// )?;
    /// assert_eq!(receiver.iter().take(3).count(), 3);
    /// assert!(beat.cancel());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_with_fixed_delay<R: Verdict, T: IntoPeriodic<R>>(
        &self,
        initial: impl Into<Start>,
        delay: Duration,
        task: T,
    ) -> Result<Cancellable, ScheduleError<T>> {
        self.schedule_series(
            initial.into(),
            Some(delay),
            |_| Rule::Delay(nanos(delay)),
            task,
            Location::caller(),
        )
    }

    /// Runs `task` after `initial`, and then every `interval`: the nth run is due at
    /// `first + n * interval`, without drift.
    ///
    /// Runs never overlap. What happens to runs that were missed is chosen by
    /// [`Periodic::missed_ticks`]; by default all of them happen. The series ends when it is
    /// cancelled, when a run panics or returns [`ControlFlow::Break`], and when the scheduler
    /// stops.
    ///
    /// # Lateness
    ///
    /// No run is early. Each is as late as a [`schedule_once`](Self::schedule_once) for its nominal
    /// time would be; delays do not add up.
    ///
    /// # Errors
    ///
    /// The same as [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{sync::mpsc, time::Duration};
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let start = scheduler.now();
    /// let tick = scheduler.schedule_at_fixed_rate(
    ///     Duration::from_millis(2),
    ///     Duration::from_millis(2),
    ///     move || drop(sender.send(())),
    /// )?;
    /// assert_eq!(receiver.iter().take(3).count(), 3);
    /// assert!(scheduler.now() - start >= Duration::from_millis(6));
    /// tick.cancel();
    /// # Ok(()) }
    /// ```
    #[doc(alias = "interval")]
    #[track_caller]
    pub fn schedule_at_fixed_rate<R: Verdict, T: IntoPeriodic<R>>(
        &self,
        initial: impl Into<Start>,
        interval: Duration,
        task: T,
    ) -> Result<Cancellable, ScheduleError<T>> {
        let rule = |missed| Rule::Rate(Rate::new(interval, missed));
        self.schedule_series(initial.into(), Some(interval), rule, task, Location::caller())
    }

    /// Runs `task` after `initial`, and then whenever it asks for: each run returns when the next
    /// one is due, or that the series ends.
    ///
    /// # Errors
    ///
    /// The same as [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay), but for
    /// [`Refusal::Period`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::Repeat;
    /// use std::{sync::mpsc, time::Duration};
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let mut pause = Duration::from_micros(500);
    /// let _ = scheduler.schedule_repeating(pause, move || {
    ///     drop(sender.send(pause));
    ///     pause *= 2;
    ///     if pause < Duration::from_millis(8) { Repeat::After(pause) } else { Repeat::Stop }
    /// })?;
    /// assert_eq!(receiver.iter().count(), 4); // the sender is dropped with the series
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_repeating<T: IntoPeriodic<Repeat>>(
        &self,
        initial: impl Into<Start>,
        task: T,
    ) -> Result<Cancellable, ScheduleError<T>> {
        self.schedule_series(initial.into(), None, |_| Rule::Asked, task, Location::caller())
    }

    #[allow(private_bounds)]
    fn schedule_series<R: sealed::Answer, T: IntoPeriodic<R>>(
        &self,
        initial: Start,
        period: Option<Duration>,
        rule: impl FnOnce(MissedTickBehavior) -> Rule,
        task: T,
        place: &'static Location<'static>,
    ) -> Result<Cancellable, ScheduleError<T>> {
        let task = task.into_periodic();
        let core = self.core();
        // Before the clock is read, as for a timer: the delay counts from the end of the wait.
        core.wait_for_share(core.arena.lanes.of_this_thread());
        let now = core.clock.now();
        let nominal = initial.deadline(now, self);
        let wanted = task.course.as_deref().copied().unwrap_or_default();
        let begun = wanted.begin(self, period, nominal).inspect_err(|_| {
            // Relaxed: a statistic.
            self.core().refused_early.fetch_add(1, Ordering::Relaxed);
        });
        let ((course, first), room) = match begun.and_then(|it| Ok((it, Room::take(self)?))) {
            Ok(begun) => begun,
            Err(refusal) => return Err(ScheduleError::new(refusal, T::from_periodic(task))),
        };
        let run_on_close = wanted.run_on_close;
        let options = TaskOptions { run_on: task.run_on, run_on_close, label: task.label };
        let identity = TaskIdentity::new(type_name::<T::Run>(), task.label.or_at(place));
        let cell = Arc::new(SeriesCell::new(self, identity, first.at));
        let series = Arc::new(RunningSeries {
            cell: Arc::clone(&cell),
            room,
            run_on: options.run_on.clone(),
            plan: UnsafeCell::new(Some(Plan {
                run: task.run,
                hook: task.hook,
                rule: rule(wanted.missed),
                course,
                nominal: nominal.at,
                number: FIRST,
            })),
        });
        let run = Run { series: Arc::clone(&series) };
        match self.submit((now, first), &options, place, run) {
            Ok(handle) => {
                cell.armed(FIRST, handle);
                Ok(Cancellable::series(cell))
            }
            Err((refusal, run)) => {
                let plan = run.into_plan();
                let periodic = Periodic {
                    run: plan.run,
                    hook: plan.hook,
                    run_on: options.run_on,
                    label: options.label,
                    course: task.course,
                };
                Err(ScheduleError::new(refusal, T::from_periodic(periodic)))
            }
        }
    }
}

/// The closure and its next run. Only the holder of the `Run` touches it.
struct Plan<F, C> {
    run: F,
    hook: C,
    rule: Rule,
    course: Option<Box<RunningCourse>>,
    /// When the next run is due, by the rule.
    nominal: u64,
    /// The number of the last run that has begun.
    number: usize,
}

/// A series' place within `max_pending`: taken once, and kept from the first timer to the end of
/// the last run, so that no other timer can take it between two runs.
struct Room(Handle);

impl Room {
    fn take(handle: &Handle) -> Result<Self, Refusal> {
        let core = handle.core();
        if !core.has_share(core.arena.lanes.of_this_thread(), 1) {
            return Err(Refusal::Overloaded);
        }
        core.admit(1, true)?;
        Ok(Self(handle.clone()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.core().release_places(1);
    }
}

struct RunningSeries<F, C> {
    cell: Arc<SeriesCell>,
    /// Given back with the series' last `Run`.
    room: Room,
    run_on: RunOn,
    /// `None` once the series is over.
    plan: UnsafeCell<Option<Plan<F, C>>>,
}

// SAFETY: the plan is touched only through the series' one `Run`, which is passed from thread to
// thread like any task; closure and hook are `Send`. Everything else is `Sync` by itself.
unsafe impl<F: Send, C: Send> Sync for RunningSeries<F, C> {}
// SAFETY: closure and hook are `Send`, and so is everything else in the series.
unsafe impl<F: Send, C: Send> Send for RunningSeries<F, C> {}

/// The right to run the series. There is one for each series.
struct Run<F, C: CancelHook> {
    series: Arc<RunningSeries<F, C>>,
}

impl<F, C: CancelHook> Run<F, C> {
    fn into_plan(self) -> Plan<F, C> {
        self.series.cell.end();
        // SAFETY: `self` is the series' `Run`.
        unsafe { self.series.take_plan() }
    }
}

impl<F, C> RunningSeries<F, C> {
    /// # Safety
    ///
    /// The caller holds the series' `Run`.
    unsafe fn take_plan(&self) -> Plan<F, C> {
        // SAFETY: the caller holds the series' `Run`, without which nobody touches the plan.
        let plan = self.plan.with_mut(|plan| unsafe { (*plan).take() });
        plan.expect("a series that has its `Run` has its plan")
    }
}

impl<R, F, C> TaskBody for Run<F, C>
where
    R: sealed::Answer,
    F: FnMut() -> R + Send + 'static,
    C: CancelHook,
{
    fn run(self) {
        let Self { series } = self;
        // The plan is used in place: moving it out and back would copy its dozen words twice.
        let done = series.plan.with_mut(|plan| {
            // SAFETY: `self` is the series' `Run`, without which nobody touches the plan. The next
            // `Run` is made after this reference is gone.
            let plan = unsafe { (*plan).as_mut() };
            plan.expect("a series that has its `Run` has its plan").run_once(&series)
        });
        // SAFETY: `self` is the series' `Run`.
        let plan = || unsafe { series.take_plan() };
        let (number, now, due, run_on_close) = match done {
            Done::Next { number, now, due, run_on_close } => (number, now, due, run_on_close),
            Done::Cancelled => return plan().cancelled(&series),
            Done::Ended => return series.over(plan()),
            Done::Panicked(payload) => {
                // The series ends before the panic is reported, so that the hook finds it ended.
                series.end(plan());
                resume_unwind(payload);
            }
        };
        let run_on = series.run_on.clone();
        let (name, place) = series.cell.label();
        let label = Label::at(place).named(name);
        let options = TaskOptions { run_on, run_on_close, label };
        // (This is the only `Run` again: the one before was used up here.)
        let run = Self { series: Arc::clone(&series) };
        series.cell.arm_for(due.at);
        match series.room.0.submit((now, due), &options, place, run) {
            Ok(handle) => series.cell.armed(number, handle),
            // The scheduler has stopped, and the series ends with it.
            Err((_, run)) => run.lost(),
        }
    }

    fn handed_back(&self) {
        self.series.plan.with(|plan| {
            // SAFETY: `self` is the series' `Run`, without which nobody touches the plan.
            if let Some(plan) = unsafe { &*plan } {
                plan.hook.handed_back();
            }
        });
    }

    fn cancelled(self) {
        // SAFETY: `self` is the series' `Run`.
        let plan = unsafe { self.series.take_plan() };
        plan.cancelled(&self.series);
    }

    fn lost(self) {
        // SAFETY: `self` is the series' `Run`.
        let plan = unsafe { self.series.take_plan() };
        self.series.end(plan);
    }

    fn known_as() -> &'static str {
        type_name::<F>()
    }
}

impl<F, C: CancelHook> RunningSeries<F, C> {
    /// The series has ended by itself, unless it was cancelled at the last moment: drops the
    /// captures, and then tells the hook.
    fn over(&self, plan: Plan<F, C>) {
        if !self.cell.end() {
            return plan.cancelled(self);
        }
        let Plan { run, hook, .. } = plan;
        self.clean_up(move || drop(run));
        self.clean_up(move || hook.over());
    }

    /// The series is over, by a panic or with its scheduler, or because it was cancelled: drops the
    /// captures now, not with the cancellable.
    fn end(&self, plan: Plan<F, C>) {
        if self.cell.end() {
            self.clean_up(move || drop(plan));
        } else {
            plan.cancelled(self);
        }
    }
}

impl<F, C> RunningSeries<F, C> {
    fn clean_up(&self, code: impl FnOnce()) {
        let reporter = &self.room.0.core().reporter;
        reporter.contain_as(self.cell.whose(), PanicIn::Cleanup, code);
    }
}

/// What a run has led to.
enum Done {
    /// The run of this number was over at this instant, and the next one is due then.
    Next {
        number: usize,
        now: u64,
        due: Deadline,
        run_on_close: bool,
    },
    /// The series was cancelled before the run or during it.
    Cancelled,
    /// The series ends by itself.
    Ended,
    Panicked(Box<dyn Any + Send>),
}

impl<R: sealed::Answer, F: FnMut() -> R, C> Plan<F, C> {
    /// Runs the closure, unless the series has been cancelled.
    #[inline]
    fn run_once(&mut self, series: &RunningSeries<F, C>) -> Done {
        let number = self.number.wrapping_add(1);
        self.number = number;
        if !series.cell.begin(number) {
            // Cancelled after the timer fired, while the run waited for its executor.
            return Done::Cancelled;
        }
        let answer = match catch_unwind(AssertUnwindSafe(|| (self.run)().next())) {
            Ok(answer) => answer,
            Err(payload) => return Done::Panicked(payload),
        };
        let now = series.room.0.core().clock.now();
        match self.next(answer, &series.room.0, now) {
            None => Done::Ended,
            Some(_) if series.cell.is_cancelled() => Done::Cancelled,
            Some((at, immediate)) => {
                let due = Deadline { at, immediate };
                let run_on_close = self.course.as_ref().is_some_and(|it| it.run_on_close);
                Done::Next { number, now, due, run_on_close }
            }
        }
    }
}

impl<F, C: CancelHook> Plan<F, C> {
    /// The series was cancelled: drops the captures and tells the hook.
    fn cancelled<F2, C2>(self, series: &RunningSeries<F2, C2>) {
        let Self { run, hook, .. } = self;
        series.clean_up(move || drop(run));
        series.clean_up(move || hook.call());
    }
}

impl<F, C> Plan<F, C> {
    /// When the next run is due, and whether that is at once.
    fn next(&mut self, answer: sealed::NextRun, handle: &Handle, now: u64) -> Option<(u64, bool)> {
        if self.course.as_mut().is_some_and(|course| !course.goes_on()) {
            return None;
        }
        let next = match (self.rule, answer) {
            (_, sealed::NextRun::Asked(Repeat::Stop)) | (Rule::Asked, sealed::NextRun::ByRule) => {
                return None;
            }
            (_, sealed::NextRun::Asked(Repeat::After(delay))) => now.saturating_add(nanos(delay)),
            (_, sealed::NextRun::Asked(Repeat::At(instant))) => {
                handle.core().clock.nanos_at(instant).max(now)
            }
            (Rule::Delay(delay), sealed::NextRun::ByRule) => now.saturating_add(delay),
            (Rule::Rate(rate), sealed::NextRun::ByRule) => {
                let added = self.course.as_ref().map_or(0, |course| course.added());
                let late = now.saturating_sub(self.nominal).saturating_sub(added);
                self.nominal.saturating_add(rate.next(late))
            }
        };
        self.nominal = next;
        let due = match &mut self.course {
            Some(course) => course.due(next)?,
            None => next,
        };
        Some((due, due <= now))
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::api::scheduler::LightArrayRevolverScheduler;

    #[test]
    fn a_series_goes_on_when_the_numbers_of_its_runs_wrap() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let second = Duration::from_secs(1);
        let series = time.schedule_with_fixed_delay(second, second, || ()).unwrap();
        assert_eq!(time.advance(10 * second), 10);
        assert!(series.cancel());
    }
}
