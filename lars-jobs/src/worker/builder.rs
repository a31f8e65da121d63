//! The options of a worker.

use std::panic::Location;
use std::sync::Arc;

use tracing::Span;

use super::Worker;
use super::context::{Capture, ContextHook};
use super::drain::{Mode, SharedWorker};
use super::job::Course;
use crate::label::Label;
use lars_base::debug_fields;
use lars_base::sync::Mutex;
use lars_scheduler::extend::RunOn;
use lars_scheduler::extend::Systems;
use lars_scheduler::{Executor, Handle, MissedTickBehavior};

/// Builds a [`Worker`]. Made by [`Worker::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::worker::Worker;
/// use lars_scheduler::{LightArrayRevolverScheduler, Pool};
/// use std::sync::{Arc, mpsc};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let pool = Arc::new(Pool::new("orders", 2)?);
/// let orders = Worker::builder(&scheduler).executor(pool).fair().build();
/// let (sender, receiver) = mpsc::channel();
/// let late = sender.clone();
/// orders.schedule(move || sender.send(1).unwrap())?;
/// orders.schedule_after(Duration::from_millis(1), move || late.send(2).unwrap())?;
/// assert_eq!(receiver.iter().take(2).collect::<Vec<_>>(), [1, 2]);
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct WorkerBuilder {
    handle: Handle,
    run_on: RunOn,
    name: Option<&'static str>,
    mode: fn(RunOn) -> Mode,
    hooks: Vec<Box<dyn Capture>>,
}

impl WorkerBuilder {
    pub(super) fn new(handle: &Handle) -> Self {
        let (run_on, hooks) = (RunOn::Default, Vec::new());
        Self { handle: handle.clone(), run_on, name: None, mode: Mode::Eager, hooks }
    }

    /// Runs one task, and then goes to the end of the executor's queue. This is for workers that
    /// are often busy: by default a worker occupies a thread of the executor until nothing is
    /// ready.
    pub fn fair(mut self) -> Self {
        self.mode = Mode::Fair;
        self
    }

    /// Runs each task on the thread that schedules it, before `schedule` returns: at once if no
    /// task of the worker is running, and otherwise after that task. So tasks that schedule tasks
    /// make a queue, and not a deeper stack.
    ///
    /// `schedule_after` returns when the delay has passed and the task has run, and so have tasks
    /// that others schedule meanwhile. Scheduling a repeat returns when it has ended. If another
    /// thread is already running the worker's tasks, that thread runs the new one too, and the call
    /// returns at once. It also returns when the scheduler stops. (In virtual time, another thread
    /// has to move the clock.)
    ///
    /// [`executor`](Self::executor) and [`inline`](Self::inline) have no effect on a trampoline. (A
    /// task on the timer thread that uses an idle trampoline does not wait for delayed tasks of
    /// others; those run on the timer thread when they are due.)
    pub fn trampoline(mut self) -> Self {
        self.mode = |_| Mode::Trampoline;
        self
    }

    /// Gives the timers of the worker a name. See [`Task::named`](lars_scheduler::Task::named).
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Runs the tasks on the timer thread itself. See
    /// [`Task::inline`](lars_scheduler::Task::inline).
    pub fn inline(mut self) -> Self {
        self.run_on = RunOn::Inline;
        self
    }

    /// Runs the tasks on `executor` instead of the scheduler's own.
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.run_on = RunOn::Executor(executor.into_shared());
        self
    }

    /// Gives each task the context that it was scheduled in.
    ///
    /// `capture` is called on the thread that schedules, once for each task. `enter` is called on
    /// the thread that runs the task, before each run. The guard that it returns is kept during the
    /// run and dropped after it, even after a panic; its destructor restores the previous context.
    /// If `context` is called more than once, contexts are entered in the order of the calls and
    /// left in the opposite order.
    ///
    /// A hook that panics is reported, and the task runs without that context.
    ///
    /// # Examples
    ///
    /// A thread-local. (For tracing spans there is
    /// [`Builder::capture_spans`](lars_scheduler::Builder::capture_spans), which is for all tasks.
    /// Those are entered before these contexts.)
    ///
    /// ```
    /// use lars_jobs::worker::Worker;
    /// use std::cell::Cell;
    ///
    /// thread_local! { static TENANT: Cell<u32> = const { Cell::new(0) }; }
    ///
    /// struct Restore(u32);
    /// impl Drop for Restore {
    ///     fn drop(&mut self) {
    ///         TENANT.set(self.0);
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let worker = Worker::builder(&time)
    ///     .context(|| TENANT.get(), |&tenant| Restore(TENANT.replace(tenant)))
    ///     .build();
    /// TENANT.set(7);
    /// worker.schedule(|| assert_eq!(TENANT.get(), 7))?;
    /// TENANT.set(8);
    /// time.run_until_idle(10)?;
    /// assert_eq!(TENANT.get(), 8); // as before the run
    /// assert_eq!(time.metrics().panicked, 0);
    /// # Ok(()) }
    /// ```
    pub fn context<V: Send + 'static, G: 'static>(
        mut self,
        capture: impl Fn() -> V + Send + Sync + 'static,
        enter: impl Fn(&V) -> G + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push(Box::new(ContextHook { capture, enter: Arc::new(enter) }));
        self
    }

    /// The worker.
    #[track_caller]
    pub fn build(self) -> Worker {
        let Self { handle, run_on, name, mode, mut hooks } = self;
        let label = Label::at(Location::caller()).named(name);
        if handle.captures_spans() {
            let enter = Arc::new(|span: &Span| span.clone().entered());
            hooks.insert(0, Box::new(ContextHook { capture: Span::current, enter }));
        }
        let shared =
            SharedWorker { handle, label, mode: mode(run_on), hooks, jobs: Mutex::default() };
        Worker {
            shared: Arc::new(shared),
            missed: MissedTickBehavior::default(),
            course: Course::default(),
        }
    }
}

debug_fields!(|it: WorkerBuilder| mode: (it.mode)(it.run_on.clone()), contexts: it.hooks.len());
