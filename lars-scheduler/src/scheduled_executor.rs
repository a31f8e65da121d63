//! An executor that owns its work: the JDK's `ScheduledExecutorService`, on a shared or an own scheduler.
//!
//! A scheduler serves everybody, and is stopped once, for all. A [`ScheduledExecutor`] is one owner's share of it: it
//! knows which of its tasks are not over, can wait for them, and can call them off without touching anybody else's.
//! Its tasks give their results as [`ScheduledCall`]s.
//!
//! # Beside the JDK's
//!
//! - Of a task that was cancelled, nothing is kept; there is no policy to choose and nothing to purge.
//! - A fixed rate that was held up catches up as [`Call::missed_ticks`] says, not always in a burst.
//! - Who waits for a task that [`shutdown_now`](ScheduledExecutor::shutdown_now) handed back hears so at once,
//!   where a `Future` of the JDK stays silent for ever.
//! - A run is not interrupted. A task that has to end early asks somebody whether to.

mod invoke;
mod registry;
mod shutdown;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::invoke::{InvokeAnyError, TaskFailure};
use self::registry::{Firing, Job, Member, OneShot, Registry, Repeat, Shared, Waiting};
pub use self::shutdown::{DelayedTasks, PeriodicTasks, ShutdownPolicy, UnstartedTask};
use crate::call::{
    Call, CallBody, CallError, IntoCall, IntoRepeatedCall, Rhythm, RunResult, ScheduledCall,
    Series, Target, promise, schedule_due,
};
use crate::cancel::Cancellable;
use crate::error::{BuildError, Refusal, ScheduleError};
use crate::executor::Executor;
use crate::handle::Handle;
use crate::scheduler::LightArrayRevolverScheduler;
use crate::sync::Mutex;
use crate::task::Task;

/// How much work an executor has.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::scheduled_executor::{ScheduledExecutor, ShutdownPolicy};
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
/// assert_eq!(call.get()?, 7);
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
    /// One-shots that have run, those that panicked included.
    pub completed: u64,
    /// Series that are not over.
    pub repeats: usize,
}

/// Schedules tasks and owns them: it knows which of them are not over, can wait for them, and can call them off
/// without touching anybody else's work on the same scheduler.
///
/// After the JDK's `ScheduledExecutorService`. It has no threads: time and threads are those of the scheduler. Of
/// tasks that are over, run, cancelled or lost, it keeps nothing.
///
/// All methods may be called from any thread. A task that has not started can be cancelled, also when its time has
/// come and it waits for a thread of the pool.
///
/// # Shutting down
///
/// [`shutdown`](Self::shutdown) refuses new work and lets accepted work run, as its policy says.
/// [`shutdown_now`](Self::shutdown_now) hands back what has not started. With neither, dropping the executor is a
/// `shutdown_now` whose tasks are dropped. Dropping it after a `shutdown` changes nothing, except that an
/// executor with a [scheduler of its own](Self::owning) stops that.
///
/// Whoever waits for a call learns of its end in all these cases.
///
/// # Panics
///
/// A panic of a task arrives at who waits for it, and is counted and reported by the scheduler. It ends a series,
/// and nothing else.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::scheduled_executor::{ScheduledExecutor, ShutdownPolicy};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?; // shared with others
/// let jobs = ScheduledExecutor::on(&scheduler);
/// let sum = jobs.schedule(Duration::from_millis(2), || 1 + 2)?;
/// let beat = jobs.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), || ())?;
///
/// jobs.shutdown(ShutdownPolicy::default()); // the sum is still computed, the beat ends
/// assert!(jobs.submit(|| ()).is_err());
/// assert_eq!(sum.get()?, 3);
/// assert!(beat.get().is_err());
/// assert!(jobs.await_termination(Duration::from_secs(10)));
/// # Ok(()) }
/// ```
#[doc(alias = "ScheduledExecutorService", alias = "ScheduledThreadPoolExecutor")]
pub struct ScheduledExecutor {
    shared: Arc<Shared>,
    /// Dropped after `drop` has called off what is left.
    _scheduler: Option<LightArrayRevolverScheduler>,
}

impl ScheduledExecutor {
    /// An executor with a scheduler of its own, with default settings.
    ///
    /// # Errors
    ///
    /// [`BuildError::Thread`] if the timer thread could not be started.
    pub fn new() -> Result<Self, BuildError> {
        Ok(Self::owning(LightArrayRevolverScheduler::new()?))
    }

    /// An executor with a scheduler of its own, which is stopped when the executor is dropped.
    pub fn owning(scheduler: LightArrayRevolverScheduler) -> Self {
        let handle = scheduler.handle();
        let mut this = Self::of(handle, None);
        this._scheduler = Some(scheduler);
        this
    }

    /// An executor on a scheduler that it shares. Its tasks run on that scheduler's executor.
    pub fn on(handle: &Handle) -> Self {
        Self::of(handle.clone(), None)
    }

    /// An executor on a scheduler that it shares, whose tasks run on `executor`, unless they say otherwise.
    pub fn with_executor(handle: &Handle, executor: Arc<dyn Executor>) -> Self {
        Self::of(handle.clone(), Some(executor))
    }

    fn of(handle: Handle, executor: Option<Arc<dyn Executor>>) -> Self {
        let registry = Mutex::new(Registry::default());
        Self { shared: Arc::new(Shared { handle, executor, registry }), _scheduler: None }
    }

    /// Runs `task` as soon as a thread is free, for nothing but its effects.
    ///
    /// # Errors
    ///
    /// As for [`schedule`](Self::schedule).
    pub fn execute<C: IntoCall<()>>(&self, task: C) -> Result<(), ScheduleError<C>> {
        self.submit(task).map(drop)
    }

    /// Runs `task` as soon as a thread is free, for its result.
    ///
    /// # Errors
    ///
    /// As for [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::scheduled_executor::ScheduledExecutor;
    /// let jobs = ScheduledExecutor::new()?; // with a scheduler of its own
    /// jobs.execute(|| println!("nobody waits for this"))?;
    /// assert_eq!(jobs.submit(|| 6 * 7)?.get()?, 42);
    /// # Ok(()) }
    /// ```
    pub fn submit<T: Send + 'static, C: IntoCall<T>>(
        &self,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.schedule(Duration::ZERO, task)
    }

    /// Runs `task` once, `delay` from now, for its result. Otherwise as [`Handle::schedule_call`].
    ///
    /// # Errors
    ///
    /// [`Refusal::ShutDown`] after the executor was shut down; otherwise as for [`Handle::schedule_call`]. The task
    /// is given back and never runs.
    pub fn schedule<T: Send + 'static, C: IntoCall<T>>(
        &self,
        delay: Duration,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let due = self.shared.handle.now().checked_add(delay);
        self.accept(due, task, |_| Ok::<_, Refusal>(()))
    }

    /// Accepts a one-shot. `limit` makes, with the number and the outcome of the task, something that is kept with
    /// it until it is over.
    fn accept<T, C, K, E>(
        &self,
        due: Option<Instant>,
        task: C,
        limit: impl FnOnce(&OneShot<T>) -> Result<K, E>,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>>
    where
        T: Send + 'static,
        C: IntoCall<T>,
        K: Send + 'static,
        E: Into<Refusal>,
    {
        let Call { run, options } = task.into_call();
        let give_back = |refusal, run| {
            ScheduleError::new(refusal, C::from_call(Call { run, options: options.clone() }))
        };
        let shared = &self.shared;
        let options = options.clone().or_on(shared.executor.as_ref());
        let (promise, outcome) = promise();
        // The timers may fire at once, and wait for the lock until the entry is there. What is refused is dropped
        // without the lock: it may be the user's.
        let mut registry = shared.registry.lock();
        if registry.is_shut_down {
            drop(registry);
            return Err(give_back(Refusal::ShutDown, run));
        }
        let number = registry.number();
        let target = OneShot { shared: Arc::clone(shared), number, outcome };
        let keep = match limit(&target) {
            Ok(keep) => keep,
            Err(refused) => {
                drop(registry);
                return Err(give_back(refused.into(), run));
            }
        };
        let firing = options.task(Firing::new(shared, number));
        let timer = match schedule_due(&shared.handle, due, firing) {
            Ok(timer) => timer.cancel_on_drop(),
            Err(refused) => {
                let (refusal, firing) = refused.into_parts();
                firing.into_body().disarm();
                drop(registry);
                return Err(give_back(refusal, run));
            }
        };
        let job: Box<dyn Job> = Box::new(CallBody::new(run, promise, keep));
        registry.waiting.insert(number, Waiting { job, due, timer });
        drop(registry);
        let outcome = Arc::clone(&target.outcome);
        Ok(ScheduledCall::new(outcome, Arc::new(target), due, shared.handle.clone()))
    }

    /// Runs `task` as soon as a thread is free, and gives it up if it is not done after `limit`, by the
    /// scheduler's clock: its result is then [`CallError::TimedOut`]. If it has not started it does not; if it
    /// runs, it runs on, and its value is dropped. As `submitWithTimeout` of the JDK 25.
    ///
    /// # Errors
    ///
    /// As for [`schedule`](Self::schedule).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::call::CallError;
    /// use lars_scheduler::scheduled_executor::ScheduledExecutor;
    /// use std::{sync::mpsc, time::Duration};
    /// let jobs = ScheduledExecutor::new()?;
    /// let (release, hold) = mpsc::channel::<()>();
    /// let slow = jobs.submit_with_timeout(Duration::from_millis(5), move || hold.recv().is_ok())?;
    /// assert!(matches!(slow.get(), Err(CallError::TimedOut)));
    /// drop(release);
    /// # Ok(()) }
    /// ```
    pub fn submit_with_timeout<T: Send + 'static, C: IntoCall<T>>(
        &self,
        limit: Duration,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let now = self.shared.handle.now();
        self.submit_until(now, now.checked_add(limit), task)
    }

    fn submit_until<T: Send + 'static, C: IntoCall<T>>(
        &self,
        now: Instant,
        deadline: Option<Instant>,
        task: C,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        self.accept(Some(now), task, |target| {
            let (shared, outcome) = (Arc::clone(&target.shared), Arc::clone(&target.outcome));
            let number = target.number;
            // Inline: it has to come through also when all threads of the pool are blocked by tasks like this one.
            let give_up = Task::new(move || {
                outcome.settle(Err(CallError::TimedOut));
                shared.discard(number);
            });
            schedule_due(&target.shared.handle, deadline, give_up.inline())
                .map(Cancellable::cancel_on_drop)
        })
    }

    /// Runs `task` as soon as a thread is free; if it is not done after `limit`, by the scheduler's clock, the result
    /// is what `instead` returns, which runs then. If the task has not started it does not; if it runs, it runs on,
    /// and its value is dropped.
    ///
    /// # Errors
    ///
    /// As for [`schedule`](Self::schedule).
    pub fn submit_with_timeout_or<T: Send + 'static, C: IntoCall<T>>(
        &self,
        limit: Duration,
        task: C,
        instead: impl FnOnce() -> T + Send + 'static,
    ) -> Result<ScheduledCall<T>, ScheduleError<C>> {
        let now = self.shared.handle.now();
        self.accept(Some(now), task, |target| {
            let (shared, outcome) = (Arc::clone(&target.shared), Arc::clone(&target.outcome));
            let number = target.number;
            let task = Task::new(move || {
                if !outcome.claim() {
                    return;
                }
                shared.run_instead(number, || outcome.fulfil_claimed(instead));
            });
            let task = match &target.shared.executor {
                Some(executor) => task.executor(Arc::clone(executor)),
                None => task,
            };
            schedule_due(&target.shared.handle, now.checked_add(limit), task)
                .map(Cancellable::cancel_on_drop)
        })
    }

    /// Runs `task` after `initial`, and then again and again, each time `delay` after the end of the run before.
    /// Otherwise as [`Handle::schedule_calls_with_fixed_delay`].
    ///
    /// # Errors
    ///
    /// [`Refusal::ShutDown`] after the executor was shut down; otherwise as for
    /// [`Handle::schedule_with_fixed_delay`].
    pub fn schedule_with_fixed_delay<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Duration,
        delay: Duration,
        task: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        self.repeat(initial, Rhythm::FixedDelay(delay), task)
    }

    /// Runs `task` after `initial`, and then every `interval`, without drift. What happens to missed runs is chosen by
    /// [`Call::missed_ticks`]. Otherwise as [`Handle::schedule_calls_at_fixed_rate`].
    ///
    /// # Errors
    ///
    /// As for [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay).
    pub fn schedule_at_fixed_rate<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Duration,
        interval: Duration,
        task: C,
    ) -> Result<ScheduledCall<R::Value>, ScheduleError<C>> {
        self.repeat(initial, Rhythm::FixedRate(interval), task)
    }

    fn repeat<R: RunResult, C: IntoRepeatedCall<R>>(
        &self,
        initial: Duration,
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
        // From here on the entry goes when the member does, also if the series is refused.
        let member = Member { shared: Arc::clone(shared), number };
        let series = Series::new(run, options.or_on(shared.executor.as_ref()), member);
        let due = shared.handle.now().checked_add(initial);
        let (outcome, series) = series.start::<R, C>(&shared.handle, initial, rhythm)?;
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

    /// How much work there is. No count is ever larger than the work that was accepted and is of that kind.
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

impl fmt::Debug for ScheduledExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledExecutor")
            .field("counts", &self.counts())
            .field("is_shutdown", &self.is_shutdown())
            .finish_non_exhaustive()
    }
}
