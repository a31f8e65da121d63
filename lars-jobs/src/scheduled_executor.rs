//! An executor that owns its work: the JDK's `ScheduledExecutorService`, on a scheduler of its own
//! or a shared one.
//!
//! A scheduler serves all of its users, and is stopped once, for all of them. A
//! [`ScheduledExecutor`] is one owner's share of it: it knows which of its tasks are unfinished,
//! waits for them, and cancels them without touching anybody else's. Their results are
//! [`ScheduledCall`]s.
//!
//! # Compared with the JDK
//!
//! - A cancelled task leaves nothing behind: there is no policy to choose and nothing to purge.
//! - [`Call::missed_ticks`] says how a fixed rate that was held up catches up; it need not be a
//!   burst.
//! - A caller that waits for a task that [`shutdown_now`](ScheduledExecutor::shutdown_now) hands
//!   back learns of it at once. In the JDK, `get` on such a `Future` blocks forever.
//! - A run is not interrupted. A task that has to be able to end early checks a flag.

mod invoke;
mod registry;
mod shutdown;

use std::any::type_name;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use self::invoke::{InvokeAnyError, TaskFailure};
use self::registry::{
    Expire, Firing, Member, OneShot, Registry, Repeat, SharedExecutor, Substitute, TimeLimit,
    WaitingTask,
};
pub use self::shutdown::{DelayedTasks, PeriodicTasks, ShutdownPolicy, UnstartedTask};
use crate::call::{
    Call, CallBody, CallError, IntoCall, IntoRepeatedCall, Rhythm, RunResult, ScheduledCall,
    Series, Target, promise,
};
use crate::when_due::DueOn;
use lars_base::debug_fields;
use lars_base::sync::Mutex;
use lars_base::when_due::WhenDue;
use lars_scheduler::extend::RunOn;
use lars_scheduler::extend::Systems;
use lars_scheduler::{
    BuildError, Executor, Handle, LightArrayRevolverScheduler, Refusal, ScheduleError, Start, Task,
};

/// How much work an executor has.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::scheduled_executor::{ScheduledExecutor, ShutdownPolicy};
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let jobs = ScheduledExecutor::on(&time);
/// let call = jobs.schedule(second, || 7)?;
/// let beat = jobs.schedule_with_fixed_delay(second, second, || ())?;
/// assert_eq!((jobs.counts().waiting, jobs.counts().repeats), (1, 1));
/// time.advance(second);
/// assert_eq!((jobs.counts().waiting, jobs.counts().completed), (0, 1));
/// assert_eq!(call.wait()?, 7);
///
/// beat.cancel();
/// jobs.shutdown(ShutdownPolicy::default());
/// assert!(jobs.is_shutdown() && jobs.is_terminated());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExecutorCounts {
    /// One-shots that have not started.
    pub waiting: usize,
    /// One-shots that run.
    pub running: usize,
    /// One-shots that have run, including those that panicked.
    pub completed: u64,
    /// Series that are not over.
    pub repeats: usize,
}

/// Schedules tasks and owns them: it knows which of them are unfinished, waits for them, and
/// cancels them without touching anybody else's work on the same scheduler.
///
/// After the JDK's `ScheduledExecutorService`. It has no threads: time and threads are the
/// scheduler's. Tasks that have run, were cancelled or were lost leave nothing behind in it.
///
/// All methods may be called from any thread. A task that has not started can be cancelled, even if
/// its time has come and it waits for a thread of the pool.
///
/// # Shutting down
///
/// [`shutdown`](Self::shutdown) refuses new work and lets accepted work run, as its policy says.
/// [`shutdown_now`](Self::shutdown_now) hands back what has not started. Dropping the executor
/// without either is a `shutdown_now` whose tasks are dropped. Dropping it after a `shutdown`
/// changes nothing, except that an executor with a [scheduler of its own](Self::owning) stops that
/// scheduler.
///
/// Callers that wait for a call learn of its end in each of these cases.
///
/// # Panics
///
/// A panic of a task reaches the caller that waits for it, and is counted and reported by the
/// scheduler. It ends the task's series, and nothing else.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::scheduled_executor::{ScheduledExecutor, ShutdownPolicy};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?; // shared with others
/// let jobs = ScheduledExecutor::on(&scheduler);
/// let sum = jobs.schedule(Duration::from_millis(2), || 1 + 2)?;
/// let beat = jobs.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), || ())?;
///
/// jobs.shutdown(ShutdownPolicy::default()); // the sum is still computed, the beat ends
/// assert!(jobs.submit(|| ()).is_err());
/// assert_eq!(sum.wait()?, 3);
/// assert!(beat.wait().is_err());
/// assert!(jobs.await_termination(Duration::from_secs(10)));
/// # Ok(()) }
/// ```
#[doc(alias = "ScheduledExecutorService", alias = "ScheduledThreadPoolExecutor")]
pub struct ScheduledExecutor {
    shared: Arc<SharedExecutor>,
    /// Dropped after `drop` has cancelled what is left.
    _scheduler: Option<LightArrayRevolverScheduler>,
}

impl ScheduledExecutor {
    /// An executor with a scheduler of its own, with default settings.
    ///
    /// # Errors
    ///
    /// [`BuildError::Thread`] if the timer thread could not be started.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn new() -> Result<Self, BuildError> {
        Ok(Self::owning(LightArrayRevolverScheduler::new()?))
    }

    /// An executor with a scheduler of its own, which is stopped when the executor is dropped.
    pub fn owning(scheduler: LightArrayRevolverScheduler) -> Self {
        let handle = scheduler.handle();
        let mut this = Self::of(handle, RunOn::Default);
        this._scheduler = Some(scheduler);
        this
    }

    /// An executor on a scheduler that it shares. Its tasks run on that scheduler's executor.
    pub fn on(handle: &Handle) -> Self {
        Self::of(handle.clone(), RunOn::Default)
    }

    /// An executor on a scheduler that it shares. Its tasks run on `executor`, unless they say
    /// otherwise.
    pub fn with_executor(handle: &Handle, executor: impl Executor) -> Self {
        Self::of(handle.clone(), RunOn::Executor(executor.into_shared()))
    }

    fn of(handle: Handle, run_on: RunOn) -> Self {
        let registry = Mutex::new(Registry::default());
        Self { shared: Arc::new(SharedExecutor { handle, run_on, registry }), _scheduler: None }
    }

    /// Runs `task` as soon as a thread is free, for its effects only.
    ///
    /// # Errors
    ///
    /// Same as [`schedule`](Self::schedule).
    #[track_caller]
    pub fn execute<C: IntoCall<()>>(&self, task: C) -> Result<(), ScheduleError<C>> {
        self.submit(task).map(drop)
    }

    /// Runs `task` as soon as a thread is free, for its result.
    ///
    /// # Errors
    ///
    /// Same as [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::scheduled_executor::ScheduledExecutor;
    /// let jobs = ScheduledExecutor::new()?; // with a scheduler of its own
    /// jobs.execute(|| println!("nobody waits for this"))?;
    /// assert_eq!(jobs.submit(|| 6 * 7)?.wait()?, 42);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn submit<T: Send + 'static, C: IntoCall<T>>(
        &self,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.schedule(Duration::ZERO, task)
    }

    /// Runs `task` once, `delay` from now, for its result. Otherwise like
    /// [`Jobs::schedule_call`](crate::Jobs::schedule_call).
    ///
    /// # Errors
    ///
    /// [`Refusal::ShutDown`] after the executor was shut down; otherwise the same as
    /// [`Jobs::schedule_call`](crate::Jobs::schedule_call). The task is given back and never runs.
    #[track_caller]
    pub fn schedule<T: Send + 'static, C: IntoCall<T>>(
        &self,
        delay: Duration,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let no_limit = |_: &OneShot<T>| Ok::<_, ScheduleError<()>>(((), None));
        self.accept(self.shared.handle.due_after(delay), task, no_limit)
    }

    /// Accepts a one-shot. `limit` gets the task's number and outcome; what it returns is kept
    /// until the task is over, or until it starts.
    #[track_caller]
    fn accept<T: Send + 'static, C: IntoCall<T>, K: Send + 'static, L>(
        &self,
        due: WhenDue,
        task: C,
        limit: impl FnOnce(&OneShot<T>) -> Result<(K, Option<TimeLimit>), ScheduleError<L>>,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let Call { run, options } = task.into_call();
        let whose = options.identity(Location::caller(), type_name::<C::Run>());
        let shared = &self.shared;
        let (promise, outcome) = promise();
        // Before the lock: whoever wants that would wait as well.
        shared.handle.wait_for_share();
        let _waits_later = shared.handle.wait_later();
        // The timers may fire at once; they wait for the lock until the entry is there.
        let mut registry = shared.registry.lock();
        let number = registry.number();
        let target = OneShot { shared: Arc::clone(shared), number, whose, outcome };
        let limit = if registry.is_shut_down { None } else { Some(limit(&target)) };
        let timer = match &limit {
            None => Err(Refusal::ShutDown),
            Some(Err(refused)) => Err(refused.refusal().clone()),
            Some(Ok(_)) => {
                let kind = PhantomData::<fn() -> C::Run>;
                let firing = Firing { shared: Arc::clone(shared), number, kind };
                let task = options.clone().or_on(&shared.run_on).task(firing);
                shared.handle.schedule_due(due, task).map_err(|refused| refused.refusal().clone())
            }
        };
        match timer {
            Ok(timer) => {
                let (keep, limit) = limit.and_then(Result::ok).unzip();
                let (job, limit) = (Box::new(CallBody::new(run, promise, keep)), limit.flatten());
                let timer = timer.cancel_on_drop();
                registry.waiting.insert(number, WaitingTask { job, whose, due, timer, limit });
                drop(registry);
                let outcome = Arc::clone(&target.outcome);
                Ok(ScheduledCall::new(outcome, Arc::new(target), due, shared.handle.clone()))
            }
            Err(refusal) => {
                // Before the limit, which may own a user's closure.
                drop(registry);
                Err(ScheduleError::new(refusal, C::from_call(Call { run, options })))
            }
        }
    }

    /// Runs `task` as soon as a thread is free, and gives it up if it is not done after `limit`, by
    /// the scheduler's clock. Its result is then [`CallError::TimedOut`]. A task that has not
    /// started by then never starts; a running one goes on, and its value is dropped. Like
    /// `submitWithTimeout` of JDK 25.
    ///
    /// # Errors
    ///
    /// Same as [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::call::CallError;
    /// use lars_jobs::scheduled_executor::ScheduledExecutor;
    /// use std::{sync::mpsc, time::Duration};
    /// let jobs = ScheduledExecutor::new()?;
    /// let (release, hold) = mpsc::channel::<()>();
    /// let slow = jobs.submit_with_timeout(Duration::from_millis(5), move || hold.recv().is_ok())?;
    /// assert!(matches!(slow.wait(), Err(CallError::TimedOut)));
    /// drop(release);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn submit_with_timeout<T: Send + 'static, C: IntoCall<T>>(
        &self,
        limit: Duration,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.submit_until(self.shared.handle.due_after(limit), task)
    }

    #[track_caller]
    fn submit_until<T: Send + 'static, C: IntoCall<T>>(
        &self,
        deadline: WhenDue,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.submit_limited(deadline, task, |target| {
            let (shared, outcome) = (Arc::clone(&target.shared), Arc::clone(&target.outcome));
            let number = target.number;
            move || {
                if let Some(given_up) = shared.give_up(number, &outcome) {
                    outcome.settle_claimed(Err(CallError::TimedOut));
                    drop(given_up.discard());
                }
            }
        })
    }

    /// Accepts a task that is due now, and calls at `deadline` what `give_up` makes, unless the
    /// task is over then.
    ///
    /// Inline: once the time is up, a task that has not started must not start, even if it is next
    /// in the queue of a pool whose threads are all blocked. And if the timer thread is late, the
    /// task itself does it when its turn comes.
    #[track_caller]
    fn submit_limited<T: Send + 'static, C: IntoCall<T>, G: FnOnce() + Send + 'static>(
        &self,
        deadline: WhenDue,
        task: C,
        give_up: impl FnOnce(&OneShot<T>) -> G,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let (handle, place) = (&self.shared.handle, Location::caller());
        self.accept(handle.due_after(Duration::ZERO), task, |target| {
            let give_up = Arc::new(Mutex::new(Some(give_up(target))));
            let limit = TimeLimit::new(deadline, &give_up);
            let give_up = Task::new(move || give_up.expire()).inline().placed_at(place);
            let timer = handle.schedule_due(deadline, give_up)?;
            Ok::<_, ScheduleError<_>>((timer.cancel_on_drop(), Some(limit)))
        })
    }

    /// Runs `task` as soon as a thread is free, and `instead` if `task` is not done after `limit`,
    /// by the scheduler's clock; the result is then what `instead` returns. A task that has not
    /// started by then never starts; a running one goes on, and its value is dropped.
    ///
    /// # Errors
    ///
    /// Same as [`schedule`](Self::schedule).
    #[track_caller]
    pub fn submit_with_timeout_or<T: Send + 'static, C: IntoCall<T>>(
        &self,
        limit: Duration,
        task: C,
        instead: impl FnOnce() -> T + Send + 'static,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.submit_limited(self.shared.handle.due_after(limit), task, |target| {
            let (shared, outcome) = (Arc::clone(&target.shared), Arc::clone(&target.outcome));
            let (number, whose) = (target.number, target.whose);
            move || {
                if let Some(given_up) = shared.give_up(number, &outcome) {
                    let substitute = Substitute { run: instead, whose, outcome, given_up };
                    shared.handle.hand_over(&shared.run_on, substitute);
                }
            }
        })
    }

    /// Runs `task` after `initial`, and then again and again, each time `delay` after the end of
    /// the run before. Otherwise like
    /// [`Jobs::schedule_calls_with_fixed_delay`](crate::Jobs::schedule_calls_with_fixed_delay).
    ///
    /// # Errors
    ///
    /// [`Refusal::ShutDown`] after the executor was shut down; otherwise the same as
    /// [`Handle::schedule_with_fixed_delay`].
    #[track_caller]
    pub fn schedule_with_fixed_delay<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: impl Into<Start>,
        delay: Duration,
        task: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        self.repeat(initial.into(), Rhythm::FixedDelay(delay), task)
    }

    /// Runs `task` after `initial`, and then every `interval`, without drift.
    /// [`Call::missed_ticks`] chooses what happens to missed runs. Otherwise like
    /// [`Jobs::schedule_calls_at_fixed_rate`](crate::Jobs::schedule_calls_at_fixed_rate).
    ///
    /// # Errors
    ///
    /// Same as [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay).
    #[track_caller]
    pub fn schedule_at_fixed_rate<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: impl Into<Start>,
        interval: Duration,
        task: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        self.repeat(initial.into(), Rhythm::FixedRate(interval), task)
    }

    #[track_caller]
    fn repeat<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Start,
        rhythm: Rhythm,
        task: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        let Call { run, options } = task.into_call();
        let shared = &self.shared;
        let accepted = {
            let mut registry = shared.registry.lock();
            if registry.is_shut_down {
                None
            } else {
                let number = registry.number();
                registry.repeats.insert(number, Repeat::default());
                Some(number)
            }
        };
        let Some(number) = accepted else {
            return Err(ScheduleError::new(Refusal::ShutDown, C::from_call(Call { run, options })));
        };
        // From here on the entry goes with the member, even if the series is refused.
        let member = Member { shared: Arc::clone(shared), number };
        let series = Series::new(run, options, shared.run_on.clone(), member);
        let due = shared.handle.due_from(initial);
        let (outcome, series) = series.start::<R, C>(&shared.handle, due, rhythm)?;
        let series: Arc<dyn Target> = Arc::new(series);
        let doomed = match shared.registry.lock().repeats.get_mut(&number) {
            Some(entry) => {
                entry.series = Some(Arc::clone(&series));
                entry.doomed
            }
            // It is over already.
            None => false,
        };
        if doomed {
            series.cancel();
        }
        Ok(ScheduledCall::new(outcome, series, due, shared.handle.clone()))
    }

    /// How much work there is, at one moment.
    pub fn counts(&self) -> ExecutorCounts {
        let registry = self.shared.registry.lock();
        ExecutorCounts {
            waiting: registry.waiting.len(),
            running: registry.running,
            completed: registry.completed,
            repeats: registry.repeats.len(),
        }
    }
}

debug_fields!(|it: ScheduledExecutor| counts: it.counts(), is_shutdown: it.is_shutdown());
