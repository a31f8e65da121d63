//! A supervised task: run again and again on an executor, with a timeout for each run and a backoff
//! when runs time out.
//!
//! For the recurring work of a client whose server may be slow: fetching a registry, sending a
//! heartbeat, reloading a configuration. The idea comes from Netflix Eureka's
//! `TimedSupervisorTask`, which SOFARegistry has as well.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_jobs::supervised::Supervision;
//! use lars_scheduler::{LightArrayRevolverScheduler, Pool};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let scheduler = LightArrayRevolverScheduler::new()?;
//! let executor = Pool::new("refresh", 1)?;
//! let (sender, receiver) = mpsc::channel();
//!
//! let refresh = Supervision::every(Duration::from_millis(5)) // after the end of each run
//!     .timeout(Duration::from_secs(3))                       // given up after
//!     .max_interval(Duration::from_secs(60))                 // the longest that timeouts lead to
//!     .build()?
//!     .start(&scheduler, executor, move |token| {
//!         for page in 1..=3 {
//!             if token.is_cancelled() {
//!                 return Err("given up");
//!             }
//!             drop(sender.send(page)); // fetch it
//!         }
//!         Ok(())
//!     })?;
//!
//! assert_eq!(receiver.iter().take(6).sum::<i32>(), 12);
//! assert!(refresh.cancel());
//! assert_eq!(refresh.counts().timeouts, 0);
//! # Ok(()) }
//! ```
//!
//! # What happens after a run
//!
//! | the run | counter | the interval |
//! |---|---|---|
//! | succeeds in time | `successes` | returns to the first |
//! | is still going when its time is over | `timeouts` | doubles, up to `max_interval` |
//! | is refused or dropped by the executor | `rejections` | stays |
//! | returns an error or panics, in time | `failures` | stays |
//!
//! The next run is due an interval after that moment. The result of a given-up run is ignored, and
//! counted in `late_ends`.
//!
//! # What it promises
//!
//! - **Nothing waits.** A run is handed over and a deadline is armed; the end of the run or the
//!   deadline, whichever comes first, settles it. Neither the timer thread nor a thread of the
//!   executor blocks meanwhile. (Eureka's task blocks a thread of the scheduler in `future.get`.)
//!   The executor must not run tasks on the timer thread unless they never block: with
//!   [`Inline`](lars_scheduler::Inline) a closure cannot time out, because it occupies the thread
//!   that would notice.
//! - **Cooperation.** A run that is given up is not interrupted. Its [`CancelToken`] is cancelled,
//!   which the run can check, sleep on or await. If it had not begun, because the executor was
//!   busy, it never does.
//! - **One at a time.** A run that ignores its token holds the next one back until it ends
//!   (`held_back`, `stragglers`), unless [`max_concurrent`](SupervisionBuilder::max_concurrent)
//!   allows more.
//! - **Never early.** No run begins before it is due, and no run is given up before its time is
//!   over.
//! - **Lateness** is that of [`schedule_at`](Handle::schedule_at), and of the executor. There is
//!   one exception, while `max_pending` timers are pending: an event before the planned wake-up of
//!   the task then waits for that wake-up, at most `max_interval`. Such an event is the next run,
//!   if the last one ended more than an interval before its deadline; a run that was held back; and
//!   the deadline of one from `run_now`.
//! - **It ends** with [`Supervised::cancel`], when a run returns `ControlFlow::Break`, or when its
//!   scheduler stops, even while the list from `stop` is kept. A run in flight is given up. The
//!   task is dropped, at once or with that run. Dropping the [`Supervised`] ends nothing.
//! - **Panics** of the task, the executor, hooks, wakers and destructors are contained, and
//!   reported by the scheduler like those of its own tasks: log, counter, hook.
//!
//! A supervised task takes one place of `max_pending` while it exists, and sometimes a second one.
//!
//! # Futures
//!
//! [`Supervision::start_future`] makes a future for each run. It is polled on the executor, one
//! poll at a time; its wakers hand the next poll to the executor. That needs no runtime. Futures
//! that do need one (tokio's sockets) get an executor on that runtime. When the run is given up,
//! its token is cancelled, and it is polled once more on the executor and dropped if it is still
//! pending; [`GivenUp::Leave`] leaves it, like a closure. If the executor does not take a poll, the
//! future is dropped where it was woken, and the run counts as rejected.
//!
//! A blocked poll cannot be dropped: it is a straggler until it returns.

mod report;
mod token;

mod settings;

mod run;

mod future_run;
mod state;

mod supervisor;

use std::any::type_name;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use thiserror::Error;

use self::future_run::FutureRunner;
pub use self::report::{Completion, Counts, Outcome, RunReport};
use self::run::{ClosureRunner, Runner, SpanRunner};
use self::settings::Settings;
pub use self::settings::{GivenUp, SettingError, SupervisionBuilder};
use self::supervisor::Supervisor;
pub use self::token::{CancelToken, Cancelled};
use crate::label::Label;
use crate::label::Labelled;
use lars_base::debug_fields;
use lars_base::in_span::CapturedSpan;
use lars_base::sync::Arc;
use lars_scheduler::extend::EndOfSeries;
use lars_scheduler::extend::Systems;
use lars_scheduler::{Cancellable, Executor, Handle, Periodic, Refusal, Repeat, ScheduleError};

/// How tasks are supervised. Made by [`Supervision::every`]; can start any number of tasks.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::Supervision;
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let often = Supervision::every(Duration::from_secs(10)).build()?;
/// let heartbeat = often.start(&time, Inline, |_token| ())?;
/// let refresh = often.start_future(&time, Inline, |_token| async { Err::<(), _>("refused") })?;
/// time.advance(Duration::from_secs(30));
/// assert_eq!(heartbeat.counts().successes, 3);
/// assert_eq!(refresh.counts().failures, 3);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a supervision does nothing until it starts a task"]
pub struct Supervision {
    settings: Settings,
}

impl Supervision {
    /// Begins the settings of a task that runs `interval` after the end of the run before. At least
    /// 1 ns. `Duration::MAX` means never, for a task that runs only on `run_now`.
    ///
    /// ```
    /// use lars_jobs::supervised::Supervision;
    /// use std::time::Duration;
    ///
    /// let secs = Duration::from_secs;
    /// let error = Supervision::every(secs(30)).max_interval(secs(10)).build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "max_interval is 10s, but it must be at least the interval, which is 30s",
    /// );
    /// ```
    pub fn every(interval: Duration) -> SupervisionBuilder {
        SupervisionBuilder::new(interval)
    }

    /// Starts a closure: each run calls it on `executor`, with a token of its own.
    ///
    /// It returns nothing, a `Result` whose `Err` counts as a failure, or a
    /// [`ControlFlow`](std::ops::ControlFlow) whose `Break` ends the task. It is `Fn` because runs
    /// may overlap if [`max_concurrent`](SupervisionBuilder::max_concurrent) allows it; a closure
    /// that changes its captures keeps them behind a mutex.
    ///
    /// # Errors
    ///
    /// Same as [`Handle::schedule_once`]; the closure is given back and never runs.
    ///
    /// # Examples
    ///
    /// See the [module](self).
    #[track_caller]
    pub fn start<F, R>(
        &self,
        timers: &Handle,
        executor: impl Executor,
        run: F,
    ) -> Result<Supervised, ScheduleError<F>>
    where
        F: Fn(&CancelToken) -> R + Send + Sync + 'static,
        R: Completion,
    {
        let runner = Arc::new(ClosureRunner(run));
        let mut started: Arc<dyn Runner> = Arc::<ClosureRunner<F>>::clone(&runner);
        if timers.captures_spans() {
            started = Arc::new(SpanRunner { span: CapturedSpan::here(), runner: started });
        }
        self.start_runner(timers, executor, (started, type_name::<F>()))
            .map_err(|refused| give_back(refused, runner).map(|runner| runner.0))
    }

    /// Starts a future: each run makes one by calling `make` on `executor`, with a token of its
    /// own, and polls it there. See [Futures](self#futures).
    ///
    /// # Errors
    ///
    /// Same as [`Handle::schedule_once`]; the closure is given back and never called.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::supervised::{CancelToken, Supervision};
    /// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
    /// use std::time::Duration;
    ///
    /// let secs = Duration::from_secs;
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let wait_in_vain = |token: CancelToken| async move { token.cancelled().await };
    /// let task = Supervision::every(secs(10))
    ///     .timeout(secs(1))
    ///     .build()?
    ///     .start_future(&time, Inline, wait_in_vain)?;
    /// time.advance(secs(100));
    /// // Runs at 10, 10 + 1 + 20, 31 + 1 + 40 s; each timed out.
    /// assert_eq!(task.counts().timeouts, 3);
    /// assert_eq!(task.counts().interval, secs(80));
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn start_future<F, Fut>(
        &self,
        timers: &Handle,
        executor: impl Executor,
        make: F,
    ) -> Result<Supervised, ScheduleError<F>>
    where
        F: Fn(CancelToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Completion> + Send + 'static,
    {
        let runner = Arc::new(FutureRunner(make));
        let started: Arc<dyn Runner> = Arc::<FutureRunner<F>>::clone(&runner);
        self.start_runner(timers, executor, (started, type_name::<F>()))
            .map_err(|refused| give_back(refused, runner).map(|runner| runner.0))
    }

    #[track_caller]
    fn start_runner(
        &self,
        timers: &Handle,
        executor: impl Executor,
        (runner, kind): (Arc<dyn Runner>, &'static str),
    ) -> Result<Supervised, ScheduleError<()>> {
        let label = Label::at(Location::caller()).named(self.settings.name);
        let settings = self.settings.clone();
        let supervisor =
            Supervisor::new(timers, Box::new(executor), settings, (label, kind), runner);
        let end = EndOnDrop(Arc::clone(&supervisor));
        let at_stop = Arc::clone(&supervisor);
        // A `cancel` of the series comes after the supervision has ended.
        let series = Periodic::new(move || end.turn()).inline().labelled(label);
        let stopped = move || {
            at_stop.end();
        };
        let series = series.on_end(|| (), stopped, || ());
        match timers.schedule_repeating(self.settings.initial_delay, series) {
            Ok(series) => {
                let series = Arc::new(series);
                supervisor.keep_series(&series);
                Ok(Supervised { supervisor, series })
            }
            // Dropping the series ends the supervision, and drops its part of the runner.
            Err(refused) => Err(refused.map(drop)),
        }
    }
}

/// Takes the runner out of the last `Arc` of it.
fn give_back<J>(refused: ScheduleError<()>, runner: Arc<J>) -> ScheduleError<J> {
    refused.map(|()| Arc::into_inner(runner).expect("what was refused has been dropped"))
}

/// What the series holds: when the scheduler drops it, the supervision is over.
struct EndOnDrop(Arc<Supervisor>);

impl EndOnDrop {
    fn turn(&self) -> Repeat {
        self.0.turn()
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// [`Supervised::run_now`] was refused.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{RunNowError, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let secs = Duration::from_secs;
/// let refresh = Supervision::every(secs(300))
///     .on_demand_limit(1, secs(10))
///     .build()?
///     .start(&time, Inline, |_token| ())?;
/// refresh.run_now()?;
/// assert_eq!(refresh.run_now(), Err(RunNowError::TooOften { retry_in: secs(10) }));
/// time.advance(secs(10));
/// refresh.run_now()?;
/// refresh.cancel();
/// assert_eq!(refresh.run_now(), Err(RunNowError::Ended));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunNowError {
    /// The task was cancelled, a run was its last, or its scheduler has stopped.
    #[error("the supervised task has ended")]
    Ended,
    /// More calls than [`on_demand_limit`](SupervisionBuilder::on_demand_limit) allows.
    #[error("run_now has reached its on_demand_limit; the next call is accepted in {retry_in:?}")]
    TooOften {
        /// When a call will be accepted.
        retry_in: Duration,
    },
    /// The scheduler has no place for another timer.
    #[error(transparent)]
    Refused(Refusal),
}

/// A supervised task, as its owner sees it. Clones are the same task.
///
/// All methods may be called from any thread, and by the task itself. Dropping it does **not** end
/// the task.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::Supervision;
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let refresh = Supervision::every(30 * second).build()?.start(&time, Inline, |_token| ())?;
/// time.advance(60 * second);
/// assert_eq!(refresh.counts().successes, 2);
///
/// refresh.run_now()?; // not in 30 s
/// time.advance(Duration::ZERO);
/// assert_eq!(refresh.counts().successes, 3);
///
/// let same = refresh.clone();
/// drop(refresh); // ends nothing
/// assert!(!same.is_ended());
/// assert!(same.cancel() && same.is_ended());
/// assert!(!same.cancel(), "it had ended before");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Supervised {
    supervisor: Arc<Supervisor>,
    series: Arc<Cancellable>,
}

impl Supervised {
    /// Ends the task: no run begins any more. A run in flight is given up, and its token is
    /// cancelled. If that run ends by itself after all, it is counted by how it ended.
    ///
    /// `true` means that this call ended it; `false` means that it had ended before. On return the
    /// task has been dropped, unless a run is in flight; then it is dropped when that ends.
    pub fn cancel(&self) -> bool {
        let ended = self.supervisor.end();
        self.series.cancel();
        ended
    }

    /// Whether the task was cancelled, a run was its last, or its scheduler has stopped.
    pub fn is_ended(&self) -> bool {
        self.supervisor.is_ended()
    }

    /// Brings the next run forward to now. The one after that is due an interval later, as always;
    /// the interval does not change.
    ///
    /// While a run is in flight, one other follows it at once, however many calls ask for it. The
    /// run goes through the scheduler: it never begins on the stack of this call.
    ///
    /// Eureka's `InstanceInfoReplicator.onDemandUpdate` does this, with a limit of its own.
    ///
    /// # Errors
    ///
    /// [`RunNowError`]; then nothing has changed.
    pub fn run_now(&self) -> Result<(), RunNowError> {
        self.supervisor.run_now()
    }

    /// The counters and gauges at this moment.
    pub fn counts(&self) -> Counts {
        self.supervisor.counts()
    }
}

debug_fields!(|it: Supervised| ended: it.is_ended(), counts: it.counts());
