//! A worker: tasks that run one after another on a shared executor, after RxJava's
//! `Scheduler.Worker`.
//!
//! Code that gets events from many sides wants them one at a time, without a thread of its own. A
//! [`Worker`] is a queue on the scheduler. Its tasks never overlap, whatever threads run them.
//! Tasks without a delay run in the order of the calls; delayed ones and repeats take their turn
//! when they are due. Disposing a worker cancels its own tasks, and nothing else.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_jobs::worker::Worker;
//! use lars_scheduler::LightArrayRevolverScheduler;
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
//! - **Serial.** Tasks of one worker never overlap, and each sees what earlier ones did. Different
//!   workers run in parallel.
//! - **Ordered.** Due tasks run in the order of (due time, call). A task without a delay is due
//!   when it is scheduled, so the tasks of one thread run first in, first out. A delayed task does
//!   not wait for tasks that were scheduled after it was due.
//! - **Never early**, and, if the worker is idle, as punctual as the scheduler's own timers.
//! - **Disposed is disposed.** When [`dispose`](Worker::dispose) has returned, no task of the
//!   worker starts, and the captures of all of them have been dropped. A task that was running may
//!   still run. A `schedule` that comes later, or loses the race, is refused and gives the task
//!   back.
//! - **A task that panics** is reported like any other of the scheduler; the next one runs. A
//!   repeat that panics ends.
//! - **Nothing is held while user code runs**: all methods may be called from tasks, hooks and
//!   destructors.
//!
//! A worker costs no thread. It is a mutex and, while something is ready, one task on the executor.
//!
//! # Where the tasks run
//!
//! | | |
//! |---|---|
//! | by default | on the scheduler's executor, until nothing is ready |
//! | [`fair`](WorkerBuilder::fair) | there too, but one task at a time: others get their turn |
//! | [`executor`](WorkerBuilder::executor) | on an executor of its own |
//! | [`trampoline`](WorkerBuilder::trampoline) | on the thread that schedules, inside that call |
//!
//! # What it takes from the scheduler
//!
//! Each delayed task and each repeat is a timer of the scheduler, so `max_pending` and the counts
//! apply to them. `close` runs delayed tasks by its policy, one after another, and ends repeats.
//! `stop` hands delayed tasks and repeats back one by one: from then on only the holder of the list
//! runs them. A task without a delay needs a timer only if the worker was idle.
//!
//! If an executor drops what it was given, the worker's first task is lost. The others follow by
//! another timer, or, if `max_pending` timers are pending, on the scheduler's own pool.
//!
//! # Differences from RxJava
//!
//! | there | here |
//! |---|---|
//! | the worker of an `ExecutorScheduler` is dead after one task has thrown | the next task runs |
//! | `schedule` on a disposed worker returns a handle that does nothing | an error, with the task |
//! | a worker of `Schedulers.computation()` belongs to a thread | to the executor |
//! | a period of zero repeats without a pause | it is refused; one nanosecond is not |
//! | the clock may jump, so periods have a drift tolerance | monotonic; [`MissedTickBehavior`] |
//! | `dispose` may interrupt the running task | threads cannot be interrupted in Rust |
//! | a context set for a task stays in the thread | [it is restored](WorkerBuilder::context) |

mod context;

mod job;

mod drain;

mod builder;
mod task;

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use self::context::Context;
use self::drain::SharedWorker;
use self::job::{Body, Course, Fate, Job, Jobs, Rhythm, Rule, Work};
use crate::label::Label;
use crate::when_due::DueOn;
use lars_base::debug_fields;
use lars_base::rate::Rate;
use lars_base::sync::MutexGuard;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::extend::{Systems, check_period, goes_on};
use lars_scheduler::{Handle, MissedTickBehavior, Refusal, ScheduleError, Start, Verdict};

pub use self::builder::WorkerBuilder;
pub use self::task::WorkerTask;

/// Runs tasks one after another. See the [module](self).
///
/// Cheap to clone; all clones are the same worker. Dropping them does **not** dispose it: accepted
/// tasks run. [`dispose_on_drop`](Self::dispose_on_drop) makes a guard that does.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::worker::Worker;
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
    shared: Arc<SharedWorker>,
    /// Of the rates that are scheduled by this clone.
    missed: MissedTickBehavior,
    /// Of the repeats that are scheduled by it.
    course: Course,
}

impl Worker {
    /// A worker on the executor of the scheduler of `handle`.
    #[track_caller]
    pub fn new(handle: &Handle) -> Self {
        Self::builder(handle).build()
    }

    /// A worker that runs its tasks on the threads that schedule them. See
    /// [`WorkerBuilder::trampoline`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
    /// use std::sync::{Arc, Mutex};
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let worker = Worker::trampoline(&scheduler);
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// let (inner, note) = (worker.clone(), Arc::clone(&log));
    /// worker.schedule(move || {
    ///     let later = Arc::clone(&note);
    ///     // Not inside this task, but after it.
    ///     inner.schedule(move || later.lock().unwrap().push("second")).unwrap();
    ///     note.lock().unwrap().push("first");
    /// })?;
    /// assert_eq!(*log.lock().unwrap(), ["first", "second"]);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn trampoline(handle: &Handle) -> Self {
        Self::builder(handle).trampoline().build()
    }

    /// A builder for a worker with options.
    pub fn builder(handle: &Handle) -> WorkerBuilder {
        WorkerBuilder::new(handle)
    }

    /// The same worker, with another rule for runs that its fixed rates miss: for those that are
    /// scheduled by what this returns. Unless it is called, all missed runs are made up for.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
    /// use lars_scheduler::MissedTickBehavior;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let worker = Worker::new(&time);
    /// let second = Duration::from_secs(1);
    /// let skipping = worker.clone().missed_ticks(MissedTickBehavior::Skip);
    /// skipping.schedule_at_fixed_rate(second, second, || println!("sample"))?;
    /// time.advance(10 * second);
    /// assert_eq!(worker.outstanding(), 1); // it is one worker
    /// # Ok(()) }
    /// ```
    pub fn missed_ticks(mut self, behavior: MissedTickBehavior) -> Self {
        self.missed = behavior;
        self
    }

    /// The same worker, with an end for its repeats after this many runs each, at least 1: for
    /// those that are scheduled by what this returns. As for
    /// [`Periodic::times`](lars_scheduler::Periodic::times).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let worker = Worker::new(&time);
    /// let second = Duration::from_secs(1);
    /// let ring = || println!("ding");
    /// let bell = worker.clone().times(3).schedule_at_fixed_rate(second, second, ring)?;
    /// time.advance(3 * second);
    /// assert!(bell.is_done() && !bell.is_cancelled());
    /// # Ok(()) }
    /// ```
    pub fn times(mut self, runs: u64) -> Self {
        self.course.times = Some(runs);
        self
    }

    /// The same worker, with an end for its repeats before the first run that is due later than
    /// `end`: for those that are scheduled by what this returns. As for
    /// [`Periodic::until`](lars_scheduler::Periodic::until).
    pub fn until(mut self, end: Instant) -> Self {
        self.course.until = Some(end);
        self
    }

    /// The same worker, with a random time from zero to `over` by which each run of its repeats is
    /// later than its rule says: for those that are scheduled by what this returns. As for
    /// [`Periodic::spread`](lars_scheduler::Periodic::spread).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let minute = Duration::from_secs(60);
    /// let worker = Worker::new(&time).spread(minute / 6).times(1);
    /// let refresh = worker.schedule_at_fixed_rate(minute, minute, || println!("refresh"))?;
    /// time.advance(minute - Duration::from_nanos(1));
    /// assert!(!refresh.is_done());
    /// time.advance(minute / 6); // once, somewhere in these ten seconds
    /// assert!(refresh.is_done());
    /// # Ok(()) }
    /// ```
    #[doc(alias = "jitter")]
    pub fn spread(mut self, over: Duration) -> Self {
        self.course.spread = over;
        self
    }

    /// Seeds the random numbers of [`spread`](Self::spread) for each repeat that is scheduled by
    /// what this returns. As for
    /// [`Periodic::spread_seed`](lars_scheduler::Periodic::spread_seed).
    pub fn spread_seed(mut self, seed: u64) -> Self {
        self.course.seed = Some(seed);
        self
    }

    /// Runs `task`, after all tasks that this thread has scheduled without a delay.
    ///
    /// # Ordering
    ///
    /// Due tasks run in the order of (due time, call); this task is due now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Disposed`] after [`dispose`](Self::dispose), [`Refusal::Stopped`] after the
    /// scheduler was stopped, and [`Refusal::Full`] if the worker was idle and `max_pending` timers
    /// are pending. The task is given back and never runs.
    #[track_caller]
    pub fn schedule<F: FnOnce() + Send + 'static>(
        &self,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        let context = self.capture(self.shared.label_here(), type_name::<F>());
        self.shared.handle.wait_for_share();
        let mut jobs = self.shared.lock();
        let accepted = self.check(&jobs).and_then(|()| {
            // A drain runs whatever is ready.
            let has_drain = jobs.draining || self.shared.is_trampoline();
            if has_drain { Ok(()) } else { self.shared.submit(&mut jobs) }
        });
        if let Err(refusal) = accepted {
            return Err(ScheduleError::new(refusal, task));
        }
        let number = jobs.next_number();
        let work = Work { body: Body::Once(Box::new(task)), context };
        let now = self.shared.handle.due_after(Duration::ZERO);
        Ok(self.accept(jobs, number, Job::new(work, now, None, None)))
    }

    /// Runs `task` when `delay` has passed, as soon as the worker is free.
    ///
    /// A delay beyond the clock's range, up to [`Duration::MAX`], is accepted and never expires. A
    /// delay of zero means [`schedule`](Self::schedule).
    ///
    /// # Lateness
    ///
    /// Never early. As late as a [`Handle::schedule_once`], plus the time of the tasks that are due
    /// before it.
    ///
    /// # Errors
    ///
    /// Same as [`schedule`](Self::schedule), but a timer is always needed.
    /// [`Refusal::OnTimerThread`] if a task on the timer thread calls a trampoline, which would
    /// have to wait for that thread.
    #[track_caller]
    pub fn schedule_after<F: FnOnce() + Send + 'static>(
        &self,
        delay: Duration,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        if delay.is_zero() {
            return self.schedule(task);
        }
        let label = self.shared.label_here();
        let context = self.capture(label, type_name::<F>());
        self.shared.handle.wait_for_share();
        let mut jobs = self.shared.lock();
        let number = jobs.next_number();
        let due = self.shared.handle.due_after(delay);
        let timer = self
            .check(&jobs)
            .and_then(|()| self.check_wait())
            .and_then(|()| self.shared.fire_after(delay, number, label));
        match timer {
            Ok(timer) => {
                let work = Work { body: Body::Once(Box::new(task)), context };
                Ok(self.accept(jobs, number, Job::new(work, due, Some(timer), None)))
            }
            Err(refusal) => Err(ScheduleError::new(refusal, task)),
        }
    }

    /// Runs `task` after `initial`, and then again and again, each time `delay` after the end of
    /// the run before.
    ///
    /// The series ends when it is cancelled, when the worker is disposed, when a run panics or
    /// returns [`ControlFlow::Break`](std::ops::ControlFlow::Break), as [`times`](Self::times) and
    /// [`until`](Self::until) say, and when the scheduler stops.
    ///
    /// # Lateness
    ///
    /// Same as [`schedule_after`](Self::schedule_after), in each run.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a `delay` of zero, or one shorter than its [`spread`](Self::spread);
    /// [`Refusal::Times`] and [`Refusal::EndsBefore`] for a series without a run; otherwise the
    /// same as [`schedule_after`](Self::schedule_after). A series that was accepted keeps its place
    /// within `max_pending`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
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
    #[track_caller]
    pub fn schedule_with_fixed_delay<R: Verdict, F: FnMut() -> R + Send + 'static>(
        &self,
        initial: impl Into<Start>,
        delay: Duration,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        self.schedule_periodic(initial.into(), delay, |_| Rhythm::Delay(delay), task)
    }

    /// Runs `task` after `initial`, and then every `interval`: the nth run is due at `first + n *
    /// interval`, without drift. Runs that were missed because the worker was busy or the machine
    /// stood still are all made up for, unless [`missed_ticks`](Self::missed_ticks) says otherwise.
    ///
    /// The series ends like that of [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay).
    ///
    /// # Lateness
    ///
    /// Same as [`schedule_after`](Self::schedule_after), in each run.
    ///
    /// # Errors
    ///
    /// Same as [`schedule_with_fixed_delay`](Self::schedule_with_fixed_delay), with the `interval`
    /// for the `delay`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let worker = Worker::new(&time);
    /// let second = Duration::from_secs(1);
    /// let sample = worker.schedule_at_fixed_rate(second, second, || println!("sample"))?;
    /// time.advance(10 * second);
    /// assert!(sample.cancel());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_at_fixed_rate<R: Verdict, F: FnMut() -> R + Send + 'static>(
        &self,
        initial: impl Into<Start>,
        interval: Duration,
        task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        let missed = self.missed;
        self.schedule_periodic(
            initial.into(),
            interval,
            |nominal| Rhythm::Rate { rate: Rate::new(interval, missed), nominal },
            task,
        )
    }

    #[track_caller]
    fn schedule_periodic<R: Verdict, F: FnMut() -> R + Send + 'static>(
        &self,
        initial: Start,
        period: Duration,
        rhythm: impl FnOnce(WhenDue) -> Rhythm,
        mut task: F,
    ) -> Result<WorkerTask, ScheduleError<F>> {
        if let Err(refusal) = check_period(period) {
            return Err(ScheduleError::new(refusal, task));
        }
        let label = self.shared.label_here();
        let context = self.capture(label, type_name::<F>());
        self.shared.handle.wait_for_share();
        let mut jobs = self.shared.lock();
        if let Err(refusal) = self.check(&jobs).and_then(|()| self.check_wait()) {
            return Err(ScheduleError::new(refusal, task));
        }
        let number = jobs.next_number();
        let first = self.shared.handle.due_from(initial);
        if let Err(refusal) = self.course.check(period, first) {
            return Err(ScheduleError::new(refusal, task));
        }
        let (rule, due) = Rule::begin(rhythm(first), self.course, first);
        // (A start at once stays one, if it is not spread.)
        let start = if due == first { initial } else { due.into() };
        match self.shared.look_after(start, number, label) {
            Ok(timer) => {
                let body = Body::Periodic(Box::new(move || goes_on(task())));
                let work = Work { body, context };
                let job = Job::new(work, due, Some(timer), Some(Box::new(rule)));
                Ok(self.accept(jobs, number, job))
            }
            Err(refused) => {
                drop(jobs);
                Err(ScheduleError::new(refused.refusal().clone(), task))
            }
        }
    }

    /// Disposes the worker: cancels all outstanding tasks, and refuses new ones. Returns how many
    /// tasks it cancelled.
    ///
    /// A running task goes on. A running repeat finishes its run and does not run again. When this
    /// returns, the captures of the cancelled tasks have been dropped (those of a running repeat
    /// after its run). Disposing again does nothing.
    ///
    /// # Panics
    ///
    /// Never. A destructor that panics is contained and reported.
    pub fn dispose(&self) -> usize {
        let mut jobs = self.shared.lock();
        jobs.disposed = true;
        let drain = jobs.drain.take();
        let cancelled = jobs.clear(Fate::Cancelled);
        drop(jobs);
        let count = cancelled.len();
        for (_, job) in cancelled {
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

    /// How many tasks are outstanding: those that wait, those that are ready, and repeats that are
    /// running.
    pub fn outstanding(&self) -> usize {
        self.shared.lock().all.len()
    }

    /// The worker's time, which is its scheduler's.
    ///
    /// # Panics
    ///
    /// Same as [`Handle::now`].
    pub fn now(&self) -> Instant {
        self.shared.handle.now()
    }

    /// A guard that disposes the worker when it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::worker::Worker;
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

    fn capture(&self, label: Label, kind: &'static str) -> Context {
        Context::capture(&self.shared.handle, &self.shared.hooks, label.identity(kind))
    }

    fn check(&self, jobs: &Jobs) -> Result<(), Refusal> {
        match () {
            () if jobs.disposed => Err(Refusal::Disposed),
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

    fn accept(&self, mut jobs: MutexGuard<'_, Jobs>, number: u64, job: Job) -> WorkerTask {
        let task = WorkerTask::new(&self.shared, number, &job.ticket);
        jobs.insert(number, job);
        if self.shared.is_trampoline() && !jobs.draining {
            jobs.draining = true;
            drop(jobs);
            self.shared.drain();
        }
        task
    }
}

debug_fields!(|it: Worker| outstanding: it.outstanding(), disposed: it.is_disposed());

/// Disposes its worker when it is dropped. Made by [`Worker::dispose_on_drop`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::worker::Worker;
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
