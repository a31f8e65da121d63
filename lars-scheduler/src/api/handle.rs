//! The calling side: stamping deadlines, filling entries, pushing them.

use std::panic::Location;
use std::ptr::NonNull;
use std::time::Duration;

use crate::api::cancel::Cancellable;
use crate::api::metrics::Metrics;
use crate::base::deadline::Deadline;
use crate::base::error::{Refusal, ScheduleError};
use crate::base::identity::Label;
use crate::base::in_span::InSpan;
use crate::base::raw_task::{KnownAs, RawTask, TaskBody};
use crate::engine::dispatch::OnExecutor;
use crate::engine::entry::Entry;
use crate::engine::entry::state::{Cancel, Flags};
use crate::engine::entry_handle::EntryHandle;
use crate::engine::shared::{Core, Live};
use crate::engine::sleep_word::AfterPush;
use crate::executor::run_on::RunOn;
use crate::executor::task::{IntoTask, TaskOptions};
use crate::sync::Arc;
use lars_base::debug_fields;
use lars_base::time::Instant;

/// Schedules tasks on a scheduler. Cheap to clone, `Send` and `Sync`.
///
/// A handle does not keep the scheduler running: when the owner is closed or dropped, calls on its
/// handles are refused with [`Refusal::Stopped`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let timers = scheduler.handle();
/// let later = timers.now() + Duration::from_secs(60);
/// let reminder = timers.schedule_at(later, || println!("a minute has passed"))?;
/// assert_eq!(timers.tick_duration(), Duration::from_millis(1));
///
/// // From another thread, which needs no more than a clone.
/// let elsewhere = timers.clone();
/// let pending = std::thread::spawn(move || elsewhere.pending()).join().unwrap();
/// assert_eq!(pending, 1);
///
/// reminder.cancel();
/// assert_eq!((timers.pending(), timers.metrics().cancelled), (0, 1));
/// drop(scheduler);
/// assert!(timers.is_stopped());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Handle {
    live: Arc<Live>,
}

impl Handle {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Self { live }
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    pub(crate) fn core(&self) -> &Core {
        &self.live
    }

    /// The address of the core, for the handles of its entries.
    pub(crate) fn core_address(&self) -> NonNull<Core> {
        // SAFETY: it is the address of the core, which exists, so it is not null.
        unsafe { NonNull::new_unchecked(self.live.address().cast_mut()) }
    }

    /// Runs `task` once, `delay` from now.
    ///
    /// The deadline is fixed by the call: `now + delay`. A delay beyond the clock's range, up to
    /// [`Duration::MAX`], is accepted and never expires (`close` runs the task like any other
    /// pending one). With a delay of zero the task is fired at once, without waiting for a tick; it
    /// never runs on the caller's stack.
    ///
    /// # Lateness
    ///
    /// Never early. If the timer thread is punctual, the task starts at most one tick after its
    /// deadline, plus the time that waking a thread takes.
    ///
    /// # Ordering
    ///
    /// Tasks with equal deadlines that one thread scheduled start in the order of the calls; tasks
    /// in different ticks start in the order of their ticks. A task without a delay does not wait
    /// for a tick, and overtakes tasks that do; docs/semantics.md has the rarer exceptions. (On an
    /// executor with several threads, tasks then run in parallel.)
    ///
    /// # Blocking
    ///
    /// Lock-free in steady state: the first calls of a thread, and calls for which there is no
    /// memory yet, take a lock for a moment. Only while the timer thread is late, a thread that
    /// schedules more than its share sleeps in the call, for at most a second.
    /// [`Backpressure`](crate::Backpressure) has the alternatives.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stopped`] after the scheduler was stopped, closed or dropped;
    /// [`Refusal::Full`] if `max_pending` timers are pending; [`Refusal::Overloaded`] in place of a
    /// sleep, with [`Backpressure::Refuse`](crate::Backpressure::Refuse). The task is given back
    /// and never runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{sync::mpsc, time::Duration};
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let _ = scheduler.schedule_once(Duration::from_millis(2), move || {
    ///     sender.send("due").unwrap();
    /// })?;
    /// assert_eq!(receiver.recv()?, "due");
    /// # Ok(()) }
    /// ```
    // (Inlined, and `schedule` and `put` with it, so that neither the task nor the result goes
    // through memory; see `Core::begin`.)
    #[inline(always)]
    #[track_caller]
    pub fn schedule_once<T: IntoTask>(
        &self,
        delay: Duration,
        task: T,
    ) -> Result<Cancellable, ScheduleError<T>> {
        self.schedule(|now| Deadline::after(now, delay), task, Location::caller())
    }

    /// Runs `task` once, at `deadline`. A deadline that has passed is now.
    ///
    /// Otherwise like [`schedule_once`](Self::schedule_once).
    ///
    /// # Errors
    ///
    /// Same as [`schedule_once`](Self::schedule_once).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let end_of_round = scheduler.now() + Duration::from_secs(30);
    /// let round = scheduler.schedule_at(end_of_round, || println!("time is up"))?;
    /// assert!(round.is_pending());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_at<T: IntoTask>(
        &self,
        deadline: Instant,
        task: T,
    ) -> Result<Cancellable, ScheduleError<T>> {
        let at = self.live.clock.nanos_at(deadline);
        self.schedule(|now| Deadline::at(now, at), task, Location::caller())
    }

    /// The scheduler's time: the system's monotonic clock, or a test's.
    ///
    /// # Panics
    ///
    /// If virtual time was advanced beyond what an [`Instant`] can express; that is more than a
    /// hundred years on all platforms known. On `wasm32-unknown-unknown`, which has no `Instant`.
    pub fn now(&self) -> Instant {
        self.live
            .clock
            .instant(self.live.clock.now())
            .expect("the scheduler's time lies beyond what an Instant can express")
    }

    /// A snapshot of the scheduler's counts, since it was built.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.live)
    }

    /// How many timers wait. Exact if no other thread schedules or cancels at the same time.
    pub fn pending(&self) -> u64 {
        self.live.pending()
    }

    /// The tick: what deadlines are rounded up to.
    pub fn tick_duration(&self) -> Duration {
        Duration::from_nanos(self.live.tick.nanos())
    }

    /// Whether the scheduler was stopped, closed or dropped, and so accepts nothing more.
    pub fn is_stopped(&self) -> bool {
        self.live.stop.is_requested()
    }

    /// Whether the calling thread is the one that fires the scheduler's timers: its timer thread,
    /// or, in virtual time, the thread that is moving time. So it is true inside an inline task and
    /// the code that such a task calls; code that may block can check it first. (It is false inside
    /// a task that `close` runs.) Takes a lock that is never held for long.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{LightArrayRevolverScheduler, Task};
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let handle = scheduler.handle();
    /// let ask = Task::new(move || drop(sender.send(handle.is_timer_thread()))).inline();
    /// scheduler.schedule_once(Duration::ZERO, ask)?;
    /// assert!(receiver.recv()?);
    /// assert!(!scheduler.is_timer_thread());
    /// # Ok(()) }
    /// ```
    pub fn is_timer_thread(&self) -> bool {
        self.core().is_driven_here()
    }

    #[inline(always)]
    fn schedule<T: IntoTask>(
        &self,
        due: impl FnOnce(u64) -> Deadline,
        task: T,
        place: &'static Location<'static>,
    ) -> Result<Cancellable, ScheduleError<T>> {
        let (now, entry) = self.core().begin();
        // SAFETY: `begin` found the entry on this thread.
        unsafe { self.schedule_in(entry, (now, due(now)), task, place) }
    }

    /// Schedules for futures, which have read the clock and do not wait.
    #[cfg(not(lars_loom))] // no model has systems
    pub(crate) fn schedule_with<T: IntoTask>(
        &self,
        (now, due): (u64, Deadline),
        task: T,
        place: &'static Location<'static>,
    ) -> Result<Cancellable, ScheduleError<T>> {
        let core = self.core();
        let own = core.arena.lanes.of_this_thread();
        core.goes_on(own);
        let entry = core.find(own, true);
        // SAFETY: `find` found the entry on this thread.
        unsafe { self.schedule_in(entry, (now, due), task, place) }
    }

    /// # Safety
    ///
    /// [`Core::find`] found the entry, if there is one, on this thread, and no other thread has
    /// seen it since.
    #[inline(always)]
    unsafe fn schedule_in<T: IntoTask>(
        &self,
        entry: Option<NonNull<Entry>>,
        (now, due): (u64, Deadline),
        task: T,
        place: &'static Location<'static>,
    ) -> Result<Cancellable, ScheduleError<T>> {
        let (body, options) = task.into_parts();
        let Some(entry) = entry else {
            return Err(ScheduleError::new(self.core().refusal(), T::from_parts(body, options)));
        };
        // SAFETY: `find` found the entry on this thread.
        match unsafe { self.put(entry, (now, due), false, &options, place, body) } {
            Ok(handle) => Ok(Cancellable::once(handle)),
            Err((refusal, body)) => Err(ScheduleError::new(refusal, T::from_parts(body, options))),
        }
    }

    /// Schedules what takes no place of its own: a run of a repeat, which has its room for all of
    /// its runs (see `repeat::Room`), or what must not be refused. On an error the body is given
    /// back and will not run.
    pub(crate) fn submit<B: TaskBody>(
        &self,
        (now, due): (u64, Deadline),
        options: &TaskOptions,
        place: &'static Location<'static>,
        body: B,
    ) -> Result<EntryHandle, (Refusal, B)> {
        let core = self.core();
        let own = core.arena.lanes.of_this_thread();
        core.goes_on(own);
        match core.find(own, false) {
            // SAFETY: `find` found the entry on this thread.
            Some(entry) => unsafe { self.put(entry, (now, due), true, options, place, body) },
            None => Err((core.refusal(), body)),
        }
    }

    /// Fills an entry, and hands it over. On an error the body is given back and will not run.
    ///
    /// # Safety
    ///
    /// [`Core::find`] found the entry on this thread, and no other thread has seen it since.
    #[inline(always)]
    unsafe fn put<B: TaskBody>(
        &self,
        entry: NonNull<Entry>,
        (now, due): (u64, Deadline),
        repeat: bool,
        options: &TaskOptions,
        place: &'static Location<'static>,
        body: B,
    ) -> Result<EntryHandle, (Refusal, B)> {
        let flags = flags_of(options, due.immediate).repeat(repeat);
        // SAFETY: the entry was free, and no other thread has seen it. `enqueue` publishes it, with
        // the handle bit for the handle that is made of it here.
        let (handed_over, handle) = unsafe {
            self.fill(entry, due.at, options, place, body);
            let handed_over = self.core().enqueue(entry.as_ptr(), now, due.at, flags);
            (handed_over, EntryHandle::new(entry, self.core_address()))
        };
        match handed_over {
            AfterPush::Seen => Ok(handle),
            // (Taken apart: otherwise all results would be built where this call writes its own.)
            AfterPush::Stopped => match self.take_back(handle, repeat, self.wrapped(options)) {
                Ok(handle) => Ok(handle),
                Err((refusal, body)) => Err((refusal, body)),
            },
        }
    }

    /// The driver has stopped, and may have taken the entry before that: takes the task back if it
    /// has not.
    #[cold]
    fn take_back<B: TaskBody>(
        &self,
        handle: EntryHandle,
        repeat: bool,
        wrapped: Wrapped,
    ) -> Result<EntryHandle, (Refusal, B)> {
        let core = self.core();
        match handle.entry().state.cancel() {
            // The last drain came after the push, and has the task.
            Cancel::TooLate => Ok(handle),
            // It came before; nobody will look into the intake again.
            Cancel::WhileQueued | Cancel::WhileArmed => {
                // SAFETY: this call moved the state out of `QUEUED` or `ARMED`, and the caller made
                // the task of this body's type, wrapped or not.
                let body = unsafe { body_of(wrapped, handle.entry().take_task()) };
                if !repeat {
                    core.release_places(1);
                }
                core.arena.lanes.of_this_thread().count_refused(1);
                Err((Refusal::Stopped, body))
            }
        }
    }

    /// Fills a free entry with a task made of `body`.
    ///
    /// # Safety
    ///
    /// The calling thread found the entry free, and no other thread has seen it since.
    #[inline]
    pub(crate) unsafe fn fill<B: TaskBody>(
        &self,
        entry: NonNull<Entry>,
        due: u64,
        options: &TaskOptions,
        place: &'static Location<'static>,
        body: B,
    ) {
        let label = options.label.or_at(place);
        // SAFETY: the entry is free, and nobody but the caller refers to it. `task` points to room
        // for one.
        unsafe {
            entry.as_ref().fill(due, |task| match self.wrapped(options) {
                Wrapped { executor: false, span: false } => RawTask::write(task, body, label),
                // (Out of line, because it is rare.)
                _ => {
                    let bare = RawTask::new(body, label);
                    task.write(self.wrap(due, options, label, bare, Wrappers::of::<B>()));
                }
            });
        }
    }

    /// A task in what it needs around it.
    #[inline(never)]
    fn wrap(
        &self,
        due: u64,
        options: &TaskOptions,
        label: Label,
        mut task: RawTask,
        known: Wrappers,
    ) -> RawTask {
        if self.live.capture_spans {
            task = RawTask::new_as(InSpan::new(task), known.in_span, label);
        }
        if let RunOn::Executor(executor) = &options.run_on {
            let (executor, live) = (executor.clone(), Arc::clone(&self.live));
            let body = OnExecutor { task, due, executor, live };
            task = RawTask::new_as(body, known.on_executor, label);
        }
        task
    }

    /// What `fill` wraps around the body of a task with these options.
    #[inline]
    pub(crate) fn wrapped(&self, options: &TaskOptions) -> Wrapped {
        let executor = matches!(options.run_on, RunOn::Executor(_));
        Wrapped { executor, span: self.live.capture_spans }
    }
}

/// The body that a task was made of.
///
/// # Safety
///
/// `Handle::fill` made the task from a `B`, with options for which `Handle::wrapped` returned
/// `wrapped`.
pub(crate) unsafe fn body_of<B: TaskBody>(wrapped: Wrapped, mut task: RawTask) -> B {
    // SAFETY: `fill` made the task of a `B`, and `wrap` put it into these, in the other order.
    unsafe {
        if wrapped.executor {
            task = task.into_body::<OnExecutor>().task;
        }
        if wrapped.span {
            task = task.into_body::<InSpan>().task;
        }
        task.into_body::<B>()
    }
}

/// What the wrappers of a task are known as: its own type.
struct Wrappers {
    in_span: KnownAs<InSpan>,
    on_executor: KnownAs<OnExecutor>,
}

impl Wrappers {
    fn of<B: TaskBody>() -> Self {
        Self { in_span: KnownAs::a::<B>(), on_executor: KnownAs::a::<B>() }
    }
}

/// What a task's body is wrapped in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wrapped {
    /// An [`OnExecutor`], outside.
    executor: bool,
    /// An [`InSpan`], inside.
    span: bool,
}

/// What the driver has to know of a task.
#[inline]
pub(crate) fn flags_of(options: &TaskOptions, immediate: bool) -> Flags {
    Flags::default()
        .immediate(immediate)
        .inline(!matches!(options.run_on, RunOn::Default))
        .run_on_close(options.run_on_close)
}

debug_fields!(|it: Handle| tick: it.tick_duration(), stopped: it.is_stopped());
