//! A worker: tasks that run one after the other on a shared executor, after RxJava's `Scheduler.Worker`.
//!
//! Code that is told about events from many sides wants them one at a time, and does not want a thread of its own for
//! that. A [`Worker`] is a queue on the scheduler: its tasks never overlap, whatever threads run them; those without a
//! delay run in the order of the calls, delayed ones and repeats come in when they are due; and
//! disposing it cancels what is its own, and nothing else.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::{LightArrayRevolverScheduler, worker::Worker};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let scheduler = LightArrayRevolverScheduler::new()?;
//! let connection = Worker::new(&scheduler);
//! let (sender, log) = mpsc::channel();
//! for line in ["connect", "log in", "send"] {
//!     let sender = sender.clone();
//!     connection.schedule(move || sender.send(line).unwrap())?;
//! }
//! let ping = connection.schedule_with_fixed_delay(
//!     Duration::from_millis(5),
//!     Duration::from_millis(5),
//!     move || sender.send("ping").unwrap(),
//! )?;
//! let lines: Vec<_> = log.iter().take(5).collect();
//! assert_eq!(lines, ["connect", "log in", "send", "ping", "ping"]);
//!
//! assert_eq!(connection.dispose(), 1); // the repeat was outstanding
//! assert!(ping.is_cancelled());
//! assert!(connection.schedule(|| ()).is_err()); // refused, and given back
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - **Serial.** Tasks of one worker never overlap, and each sees what the ones before it did. Different workers run side by side.
//! - **Ordered.** What is due runs in the order of (due, call). A task without a delay is due when it is scheduled, so those of
//!   one thread are first in, first out; a delayed one does not wait for what was scheduled after it was due.
//! - **Never early**, and with a worker that is idle as punctual as the scheduler's own timers.
//! - **Disposed is disposed.** When [`dispose`](Worker::dispose) has returned no task of the worker starts, and the captures of
//!   all of them have been dropped. The one that was running then may still run. A `schedule` that comes later, or loses
//!   the race, is refused and gives the task back.
//! - **A task that panics** is reported like any other of the scheduler; the next one runs. A repeat that panics ends.
//! - **Nothing is held while user code runs**: all methods may be called from tasks, hooks and destructors.
//!
//! A worker costs no thread. It is a mutex, and as long as something is ready one task on the executor.
//!
//! # Where the tasks run
//!
//! | | |
//! |---|---|
//! | by default | on the scheduler's executor, until nothing is ready |
//! | [`fair`](WorkerBuilder::fair) | the same, but one task at a time: other work of the executor comes in between |
//! | [`executor`](WorkerBuilder::executor), [`inline`](WorkerBuilder::inline) | on an executor of its own; on the timer thread |
//! | [`trampoline`](WorkerBuilder::trampoline) | on the thread that calls `schedule`, before that call returns |
//!
//! # What it takes from the scheduler
//!
//! Each delayed task, and each repeat, is a timer of the scheduler, so `max_pending` and the counts hold for them. So does
//! what becomes of them at the end: `close` runs delayed tasks of a worker by its policy, and still one after the other,
//! ends repeats, and `stop` hands them back one by one; one that is dropped there is over. A task without a delay needs a timer
//! only if the worker was idle.
//!
//! An executor that drops what it was given loses the task that was first; the others follow by another timer, or, while
//! `max_pending` timers are pending, on the scheduler's own pool.
//!
//! # Differences from RxJava
//!
//! | there | here |
//! |---|---|
//! | the worker of an `ExecutorScheduler` is dead after one task has thrown | the next task runs |
//! | `schedule` on a disposed worker returns a handle that does nothing | an error, with the task |
//! | a worker of `Schedulers.computation()` belongs to a thread | to the executor |
//! | a period of zero repeats without a pause | is refused; one nanosecond is not |
//! | the clock may jump, so periods have a drift tolerance | monotonic; what becomes of missed runs has a name, [`MissedTickBehavior`] |
//! | `dispose` may interrupt the running task | threads cannot be interrupted in Rust |
//! | a context that was set for a task stays in the thread | [it is restored](WorkerBuilder::context) |

mod context;
mod drain;
mod job;
mod task;

use std::any::Any;
use std::fmt;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Refusal, ScheduleError};
use crate::executor::Executor;
use crate::handle::Handle;
use crate::repeat::{MissedTickBehavior, Verdict};
use crate::sync::{Mutex, MutexGuard};

use self::context::{Capture, Context, Hook};
use self::drain::{Mode, RunsOn, Shared};
use self::job::{Body, Due, Fate, Job, Place, Rule, State, Ticket, Work};

pub use self::task::WorkerTask;

/// The shortest period. Zero would run without end.
const MIN_PERIOD: Duration = Duration::from_nanos(1);

/// Runs tasks one after the other. See the [module](self).
///
/// Cheap to clone; all clones are the same worker. Dropping them does **not** dispose it: what was accepted runs.
/// [`dispose_on_drop`](Self::dispose_on_drop) makes a guard that does.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::worker::Worker;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let worker = Worker::new(&time);
/// worker.schedule_after(Duration::from_secs(1), || println!("later"))?;
/// assert_eq!(worker.outstanding(), 1);
/// time.advance(Duration::from_secs(1));
/// assert_eq!(worker.outstanding(), 0);
/// assert_eq!(worker.now(), time.now());
///
/// worker.schedule_after(Duration::from_secs(1), || println!("never"))?;
/// assert_eq!(worker.dispose(), 1);
/// assert!(worker.is_disposed());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Worker {
    shared: Arc<Shared>,
}

impl Worker {
    /// A worker on the executor of the scheduler of `handle`.
    pub fn new(handle: &Handle) -> Self {
        Self::builder(handle).build()
    }

    /// A worker that runs its tasks on the threads that schedule them. See [`WorkerBuilder::trampoline`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::worker::Worker;
    /// use std::sync::{Arc, Mutex};
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let worker = Worker::trampoline(&scheduler);
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// let (inner, note) = (worker.clone(), Arc::clone(&log));
    /// worker.schedule(move || {
    ///     let later = Arc::clone(&note);
    ///     // Not inside of this task, but after it.
    ///     inner.schedule(move || later.lock().unwrap().push("second")).unwrap();
    ///     note.lock().unwrap().push("first");
    /// })?;
    /// assert_eq!(*log.lock().unwrap(), ["first", "second"]);
    /// # Ok(()) }
    /// ```
    pub fn trampoline(handle: &Handle) -> Self {
        Self::builder(handle).trampoline().build()
    }

    /// A builder for a worker with options.
    pub fn builder(handle: &Handle) -> WorkerBuilder {
        WorkerBuilder {
            handle: handle.clone(),
            runs_on: RunsOn::Default,
            kind: Kind::Eager,
            hooks: Vec::new(),
        }
    }

    /// Runs `task` after all that this thread has scheduled without a delay before.
    ///
    /// # Ordering
    ///
    /// What is due runs in the order of (due, call); this task is due now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Disposed`] after [`dispose`](Self::dispose), [`Refusal::Stopped`] after the scheduler was stopped, and
    /// [`Refusal::Full`] if the worker was idle and `max_pending` timers are pending. The task is given back and never runs.
    pub fn schedule<F: FnOnce() + Send + 'static>(
        &self,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        let context = self.capture();
        let mut state = self.shared.lock();
        if let Err(refusal) = self.check(&state) {
            drop(state);
            return Err(ScheduleError::new(refusal, task));
        }
        if !state.draining && !self.shared.is_trampoline() {
            // Once there is a drain it runs whatever is ready.
            if let Err(refused) = self.shared.submit(&mut state) {
                drop(state);
                let refusal = refused.refusal().clone();
                refused.into_task().into_body().disarm();
                return Err(ScheduleError::new(refusal, task));
            }
        }
        let number = state.next_number();
        let due = Due::At(self.shared.handle.now());
        let job = Job {
            work: Some(Work { body: Body::Once(Box::new(task)), context }),
            due,
            place: Place::Ready,
            timer: None,
            rule: None,
            ticket: Ticket::new(),
        };
        Ok(self.accept(state, number, job))
    }

    /// Runs `task` when `delay` has passed, as soon as the worker gets to it.
    ///
    /// A delay that no clock reaches, up to [`Duration::MAX`], is accepted and never comes due. A delay of zero is the same as
    /// [`schedule`](Self::schedule).
    ///
    /// # Lateness
    ///
    /// Never early; otherwise as for [`Handle::schedule_once`], and what the tasks take that are due before it.
    ///
    /// # Errors
    ///
    /// As for [`schedule`](Self::schedule), but a timer is always needed. [`Refusal::OnTimerThread`] if a trampoline is
    /// called by a task on the timer thread, which it would have to wait for.
    pub fn schedule_after<F: FnOnce() + Send + 'static>(
        &self,
        delay: Duration,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        if delay.is_zero() {
            return self.schedule(task);
        }
        let context = self.capture();
        let mut state = self.shared.lock();
        if let Err(refusal) = self.check(&state).and_then(|()| self.check_wait()) {
            drop(state);
            return Err(ScheduleError::new(refusal, task));
        }
        let number = state.next_number();
        let due = Due::after(self.shared.handle.now(), delay);
        let timer = match self.shared.fire_after(delay, number) {
            Ok(timer) => timer,
            Err(refused) => {
                drop(state);
                let refusal = refused.refusal().clone();
                refused.into_task().into_body().disarm();
                return Err(ScheduleError::new(refusal, task));
            }
        };
        let job = Job {
            work: Some(Work { body: Body::Once(Box::new(task)), context }),
            due,
            place: Place::Waiting,
            timer: Some(timer),
            rule: None,
            ticket: Ticket::new(),
        };
        Ok(self.accept(state, number, job))
    }

    /// Runs `task` after `initial`, and then again and again, each time `delay` after the end of the run before.
    ///
    /// The series ends when it is cancelled, when the worker is disposed, when a run panics or returns
    /// [`ControlFlow::Break`], and when the scheduler stops.
    ///
    /// # Lateness
    ///
    /// As for [`schedule_after`](Self::schedule_after), in each run.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a `delay` of zero; otherwise as for [`schedule_after`](Self::schedule_after). A series that was
    /// accepted keeps its place within `max_pending`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::worker::Worker;
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let worker = Worker::new(&time);
    /// let second = Duration::from_secs(1);
    /// let mut left = 3;
    /// let countdown = worker.schedule_with_fixed_delay(second, second, move || {
    ///     left -= 1;
    ///     if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// })?;
    /// time.advance(2 * second);
    /// assert!(!countdown.is_done());
    /// time.advance(second);
    /// assert!(countdown.is_done());
    /// # Ok(()) }
    /// ```
    pub fn schedule_with_fixed_delay<R: Verdict, F: FnMut() -> R + Send + 'static>(
        &self,
        initial: Duration,
        delay: Duration,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        self.schedule_periodic(initial, delay, |_| Rule::Delay(delay), task)
    }

    /// Runs `task` after `initial`, and then every `interval`: the nth run is due at `first + n * interval`, without drift.
    /// What happens to runs that were missed, because the worker was busy or the machine stood still, is said by `missed`.
    ///
    /// The series ends as that of [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay) does.
    ///
    /// # Lateness
    ///
    /// As for [`schedule_after`](Self::schedule_after), in each run.
    ///
    /// # Errors
    ///
    /// As for [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay), with the `interval` for the `delay`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{MissedTickBehavior, worker::Worker};
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let worker = Worker::new(&time);
    /// let second = Duration::from_secs(1);
    /// let sample = worker.schedule_at_fixed_rate(second, second, MissedTickBehavior::Skip, || {
    ///     println!("sample");
    /// })?;
    /// time.advance(10 * second);
    /// assert!(sample.cancel());
    /// # Ok(()) }
    /// ```
    pub fn schedule_at_fixed_rate<R: Verdict, F: FnMut() -> R + Send + 'static>(
        &self,
        initial: Duration,
        interval: Duration,
        missed: MissedTickBehavior,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        self.schedule_periodic(
            initial,
            interval,
            |nominal| Rule::Rate { interval, missed, nominal },
            task,
        )
    }

    fn schedule_periodic<R: Verdict, F: FnMut() -> R + Send + 'static>(
        &self,
        initial: Duration,
        period: Duration,
        rule: impl FnOnce(Due) -> Rule,
        mut task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        if period < MIN_PERIOD {
            let refusal = Refusal::Period { given: period, min: MIN_PERIOD };
            return Err(ScheduleError::new(refusal, task));
        }
        let context = self.capture();
        let mut state = self.shared.lock();
        if let Err(refusal) = self.check(&state).and_then(|()| self.check_wait()) {
            drop(state);
            return Err(ScheduleError::new(refusal, task));
        }
        let number = state.next_number();
        let due = Due::after(self.shared.handle.now(), initial);
        let timer = match self.shared.look_after(initial, number) {
            Ok(timer) => timer,
            Err(refused) => {
                drop(state);
                return Err(ScheduleError::new(refused.refusal().clone(), task));
            }
        };
        let job = Job {
            work: Some(Work {
                body: Body::Periodic(Box::new(move || wants_more(task()))),
                context,
            }),
            due,
            place: Place::Waiting,
            timer: Some(timer),
            rule: Some(rule(due)),
            ticket: Ticket::new(),
        };
        Ok(self.accept(state, number, job))
    }

    /// Disposes the worker: cancels all that is outstanding, and refuses what comes. Returns how many tasks it cancelled.
    ///
    /// A task that is running goes on; a repeat that is running is cancelled, and does not run again. When this has
    /// returned the captures of the cancelled tasks have been dropped (a running repeat's are when it has run). Disposing again does nothing.
    ///
    /// # Panics
    ///
    /// Never. A destructor that panics is contained and reported.
    pub fn dispose(&self) -> usize {
        let mut state = self.shared.lock();
        state.disposed = true;
        let drain = state.drain.take();
        let jobs = state.clear(Fate::Cancelled);
        drop(state);
        let count = jobs.len();
        for (_, job) in jobs {
            job.discard(&self.shared.handle);
        }
        if let Some(drain) = drain {
            drain.cancel();
        }
        count
    }

    /// Whether the worker was disposed.
    pub fn is_disposed(&self) -> bool {
        self.shared.lock().disposed
    }

    /// How many tasks are outstanding: they wait, are ready, or are repeats that are running.
    pub fn outstanding(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// The worker's time, which is its scheduler's.
    ///
    /// # Panics
    ///
    /// As for [`Handle::now`].
    pub fn now(&self) -> Instant {
        self.shared.handle.now()
    }

    /// A guard that disposes the worker when it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::worker::Worker;
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// {
    ///     let session = Worker::new(&scheduler).dispose_on_drop();
    ///     session.schedule_after(Duration::from_secs(30), || println!("session timed out"))?;
    /// } // the session has ended
    /// assert_eq!(scheduler.metrics().cancelled, 1);
    /// # Ok(()) }
    /// ```
    pub fn dispose_on_drop(self) -> DisposeOnDrop {
        DisposeOnDrop { worker: self }
    }

    fn capture(&self) -> Context {
        Context::capture(&self.shared.handle, &self.shared.hooks)
    }

    fn check(&self, state: &State) -> Result<(), Refusal> {
        match () {
            () if state.disposed => Err(Refusal::Disposed),
            () if self.shared.handle.is_stopped() => Err(Refusal::Stopped),
            () => Ok(()),
        }
    }

    fn check_wait(&self) -> Result<(), Refusal> {
        if self.shared.is_trampoline() && self.shared.handle.is_timer_thread() {
            return Err(Refusal::OnTimerThread);
        }
        Ok(())
    }

    fn accept(&self, mut state: MutexGuard<'_, State>, number: u64, job: Job) -> WorkerTask {
        let task = WorkerTask::new(&self.shared, number, &job.ticket);
        state.insert(number, job);
        if self.shared.is_trampoline() && !state.draining {
            state.draining = true;
            drop(state);
            self.shared.drain();
        }
        task
    }
}

/// Whether a repeat's answer is to go on.
fn wants_more<R: Verdict>(answer: R) -> bool {
    !(&answer as &dyn Any).downcast_ref::<ControlFlow<()>>().is_some_and(ControlFlow::is_break)
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Worker")
            .field("outstanding", &state.jobs.len())
            .field("disposed", &state.disposed)
            .finish_non_exhaustive()
    }
}

/// Disposes its worker when it is dropped. Made by [`Worker::dispose_on_drop`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::worker::Worker;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let session = Worker::new(&time).dispose_on_drop();
/// let logout = session.schedule_after(30 * second, || println!("session timed out"))?;
/// assert_eq!(session.outstanding(), 1); // all methods of the worker are there
/// drop(session);
/// assert!(logout.is_cancelled());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once disposes at once"]
pub struct DisposeOnDrop {
    worker: Worker,
}

impl Deref for DisposeOnDrop {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

impl Drop for DisposeOnDrop {
    fn drop(&mut self) {
        self.worker.dispose();
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Eager,
    Fair,
    Trampoline,
}

/// Builds a [`Worker`]. Made by [`Worker::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::worker::Worker;
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
    runs_on: RunsOn,
    kind: Kind,
    hooks: Vec<Box<dyn Capture>>,
}

impl WorkerBuilder {
    /// Runs one task, and then goes to the end of the executor's queue. For workers that are often busy: by default a
    /// worker occupies a thread of the executor until nothing is ready.
    pub fn fair(mut self) -> Self {
        self.kind = Kind::Fair;
        self
    }

    /// Runs each task on the thread that schedules it, before `schedule` returns: at once if no task of the worker is
    /// running, and otherwise after it, which a task that schedules tasks sees as a queue instead of a deeper stack.
    ///
    /// With a delay, `schedule_after` waits until that has passed and the task has run, and for all tasks
    /// that others schedule meanwhile; so do the repeats, until they end. If another thread is at
    /// it already, it runs the task, and the call returns. (In virtual time, another thread has to move that.)
    ///
    /// [`executor`](Self::executor) and [`inline`](Self::inline) mean nothing to a trampoline. (If a task on the timer thread
    /// finds a trampoline idle and uses it, it does not wait there for what others schedule with a delay; that runs on
    /// the timer thread when it is due.)
    pub fn trampoline(mut self) -> Self {
        self.kind = Kind::Trampoline;
        self
    }

    /// Runs the tasks on the timer thread itself. See [`Task::inline`](crate::Task::inline).
    pub fn inline(mut self) -> Self {
        self.runs_on = RunsOn::Inline;
        self
    }

    /// Runs the tasks on `executor` instead of the scheduler's own.
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.runs_on = RunsOn::Executor(executor);
        self
    }

    /// Gives each task the context that it was scheduled in.
    ///
    /// `capture` is called on the thread that schedules, once for each task. `enter` is called on the thread that runs the
    /// task, before each run; what it returns is kept during the run and dropped after it, also after a panic. That is where
    /// it restores what was there before. Called more than once, contexts are entered in that order and left in the opposite one.
    ///
    /// A hook that panics is reported, and the task runs without that context.
    ///
    /// # Examples
    ///
    /// Tracing spans:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lars_scheduler::worker::Worker;
    /// # let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let worker = Worker::builder(&scheduler)
    ///     .context(tracing::Span::current, |span| span.clone().entered())
    ///     .build();
    /// # worker.dispose();
    /// # Ok(()) }
    /// ```
    ///
    /// A thread-local of one's own:
    ///
    /// ```
    /// use lars_scheduler::worker::Worker;
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
        self.hooks.push(Box::new(Hook { capture, enter: Arc::new(enter) }));
        self
    }

    /// The worker.
    pub fn build(self) -> Worker {
        let mode = match self.kind {
            Kind::Eager => Mode::Eager(self.runs_on),
            Kind::Fair => Mode::Fair(self.runs_on),
            Kind::Trampoline => Mode::Trampoline,
        };
        let state = Mutex::new(State::default());
        let shared = Shared { handle: self.handle, mode, hooks: self.hooks, state };
        Worker { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("kind", &self.kind)
            .field("contexts", &self.hooks.len())
            .finish_non_exhaustive()
    }
}
