//! What an [`Executor`] is given, and what it may give back; an executor over a pool or a runtime
//! that a program already has.
//!
//! [`Executor`] itself, [`Inline`] and [`Pool`](crate::Pool) are at the crate's root.

mod adapters;
pub(crate) mod chunk;
pub(crate) mod pool;

pub(crate) mod contract;

pub(crate) mod run_on;
pub(crate) mod task;

use std::borrow::Cow;
use std::fmt;

use crate::base::exclusive::Exclusive;
use crate::base::identity::{Label, TaskIdentity};
use crate::base::late::Cause;
use crate::base::late::journal::History;
use crate::base::late::parts::{Culprit, Parts};
use crate::base::late::report::Found;
use crate::base::panics::{PanicIn, Reporter};
use crate::base::raw_task::{RawTask, Whose};
use crate::base::run_clock::RunClock;
use crate::base::runs::PoolThread;
use crate::base::tick::NEVER;
use crate::sync::Arc;
use lars_base::debug_fields;

pub use self::adapters::SpawnExecutor;
pub(crate) use self::contract::{Executor, Inline};
pub use self::pool::PoolBuilder;
pub use crate::base::raw_task::{Due, TaskBody};

/// A task on its way through an [`Executor`].
///
/// Dropping it drops the task unrun; the scheduler counts that as abandoned.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::Runnable;
/// use lars_scheduler::{Executor, Pool};
///
/// let pool = Pool::new("work", 2)?;
/// pool.execute(Runnable::new(|| println!("beside the scheduler's tasks")))?;
/// pool.execute(Runnable::new(|| panic!("contained")))?;
/// pool.wait();
/// # Ok(()) }
/// ```
#[must_use = "dropping a runnable loses its task"]
pub struct Runnable {
    task: Exclusive<Option<RawTask>>,
    /// When it was due, if there is a reporter.
    due: u64,
    /// When it was handed to its executor.
    handed_over: u64,
    /// What came before that, if it was late by then.
    before: Option<std::sync::Arc<History>>,
    reporter: Option<Arc<Reporter>>,
}

impl Runnable {
    /// Wraps other work, to run it on an executor beside the scheduler's tasks.
    ///
    /// A closure of up to three words is stored without an allocation.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self::of_body(run)
    }

    /// Wraps a body, which learns if it is lost: if an executor drops it without running it.
    pub fn of_body(body: impl TaskBody) -> Self {
        let task = RawTask::new(body, Label::default());
        let (handed_over, before) = (0, None);
        Self { task: Exclusive::new(Some(task)), due: NEVER, handed_over, before, reporter: None }
    }

    pub(crate) fn of_scheduler(
        task: RawTask,
        due: u64,
        (handed_over, before): (u64, Option<std::sync::Arc<History>>),
        reporter: &Arc<Reporter>,
    ) -> Self {
        let reporter = Some(Arc::clone(reporter));
        Self { task: Exclusive::new(Some(task)), due, handed_over, before, reporter }
    }

    /// Whose the task is: for an executor's own log, or its queues.
    pub fn identity(&self) -> TaskIdentity {
        // SAFETY: `identity` reads the table and the place, which nobody writes after the task was
        // made, and both may be read by any thread.
        let task = unsafe { self.task.shared() };
        task.as_ref().map_or_else(TaskIdentity::of_type::<Self>, RawTask::identity)
    }

    /// The task begins on a thread of a pool, whose clock this is. Says when, if it is the task of
    /// a scheduler.
    pub(crate) fn begin(&mut self, runs: &mut RunClock, thread: PoolThread) -> Option<u64> {
        let reporter = self.reporter.as_ref()?;
        let clock = reporter.clock.as_ref()?;
        runs.begin_job((self.handed_over, self.before.as_ref()), clock, reporter);
        let late = runs.begin(self.task.get_mut().as_ref()?, self.due, clock, reporter);
        reporter.runs.at(thread).began(late);
        Some(runs.now())
    }

    /// Runs the task. A panic in it is contained and reported.
    pub fn run(self) {
        let began = self.begin_elsewhere();
        self.run_then(|whose, reporter| {
            if let (Some(began), Some(clock)) = (began, &reporter.clock) {
                let took = clock.now().saturating_sub(began);
                reporter.runs.elsewhere().took(took, 1);
                if let Some(times) = &reporter.times {
                    times.add(whose, took);
                }
            }
        });
    }

    /// The task begins on a thread that has no run clock, and so reads the clock for each. Says
    /// when, if it is the task of a scheduler.
    fn begin_elsewhere(&self) -> Option<u64> {
        let reporter = self.reporter.as_ref()?;
        let now = reporter.clock.as_ref()?.now();
        let at = reporter.runs.elsewhere();
        let late = now.saturating_sub(self.due);
        if late > reporter.late_limit() {
            self.is_late_elsewhere(now, reporter);
        }
        at.began(late);
        at.waited(now.saturating_sub(self.handed_over), 1);
        Some(now)
    }

    /// The task begins late on another executor, of whose threads nothing is known.
    #[cold]
    fn is_late_elsewhere(&self, now: u64, reporter: &Reporter) {
        // SAFETY: `whose` reads the table and the place, which nobody writes after the task was
        // made, and both may be read by any thread.
        let task = unsafe { self.task.shared() };
        let (Some(late), Some(task)) = (&reporter.late, task) else { return };
        let from = late.promised(self.due);
        let nanos = now.saturating_sub(from);
        if nanos <= late.bound {
            return;
        }
        let handed_over = self.handed_over.clamp(from, now);
        let mut parts = match &self.before {
            Some(before) => before.explain(from, handed_over),
            None => Parts::default().and(Cause::Housekeeping, handed_over - from),
        };
        parts.add(Cause::OtherExecutor, Culprit::Nobody, now - handed_over);
        late.record.add(&Found::new(Culprit::Task(task.whose()), nanos, parts), now);
    }

    /// [Runs](Self::run) the task that has begun on a thread whose clock this is.
    pub(crate) fn run_on(self, runs: &mut RunClock) {
        self.run_then(|_, reporter| runs.end(reporter));
    }

    fn run_then(mut self, then: impl FnOnce(Whose, &Reporter)) {
        let Some(task) = self.task.get_mut().take() else { return };
        let whose = task.whose();
        let run = move || task.run();
        match self.reporter.take() {
            Some(reporter) => {
                reporter.contain_task(whose, PanicIn::Task, run);
                then(whose, &reporter);
            }
            None => {
                Reporter::default().contain_task(whose, PanicIn::Task, run);
            }
        }
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take()
            && let Some(reporter) = self.reporter.take()
        {
            let whose = task.whose();
            reporter.task_abandoned(task.identity());
            reporter.contain_task(whose, PanicIn::Cleanup, || drop(task));
        }
    }
}

debug_fields!(|_it: Runnable|);

/// A task that an executor rejected, with the reason.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::{Rejected, Runnable};
/// use lars_scheduler::{Executor, LightArrayRevolverScheduler};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// struct Overloaded;
///
/// impl Executor for Overloaded {
///     fn execute(&self, task: Runnable) -> Result<(), Rejected> {
///         Err(Rejected::new(task, "the queue is full"))
///     }
/// }
///
/// let rejected = Overloaded.execute(Runnable::new(|| println!("work"))).unwrap_err();
/// assert_eq!(rejected.reason(), "the queue is full");
/// rejected.into_task().run(); // prints "work"
///
/// // A scheduler then takes its own pool.
/// let scheduler = LightArrayRevolverScheduler::builder().executor(Overloaded).build()?;
/// let (sender, receiver) = mpsc::channel();
/// let _ = scheduler.schedule_once(Duration::ZERO, move || drop(sender.send("ran")))?;
/// assert_eq!(receiver.recv()?, "ran");
/// scheduler.close()?;
/// assert_eq!(scheduler.metrics().rejected_by_executor, 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Rejected {
    task: Runnable,
    reason: Cow<'static, str>,
}

impl Rejected {
    /// Gives `task` back because of `reason`, which goes into the log.
    pub fn new(task: Runnable, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { task, reason: reason.into() }
    }

    /// Why the task was rejected.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The task.
    pub fn into_task(self) -> Runnable {
        self.task
    }

    pub(crate) fn into_parts(self) -> (Runnable, Cow<'static, str>) {
        (self.task, self.reason)
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the executor rejected the task: {}", self.reason)
    }
}

impl std::error::Error for Rejected {}
