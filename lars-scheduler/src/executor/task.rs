//! Tasks: closures with options.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use crate::base::identity::Label;
use crate::base::raw_task::TaskBody;
use crate::executor::Executor;
use crate::executor::run_on::RunOn;
use lars_base::debug_fields;

/// The options of a task, apart from what it does.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskOptions {
    pub(crate) run_on: RunOn,
    pub(crate) run_on_close: bool,
    /// The name, and the place, if it is not that of the call.
    pub(crate) label: Label,
}

/// What can be scheduled to run once: any `FnOnce() + Send + 'static`, or a [`Task`] with options.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{
///     Cancellable, Handle, IntoTask, LightArrayRevolverScheduler, ScheduleError, Task,
/// };
/// use std::time::Duration;
///
/// fn in_a_minute<T: IntoTask>(timers: &Handle, task: T) -> Result<Cancellable, ScheduleError<T>> {
///     timers.schedule_once(Duration::from_secs(60), task)
/// }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// in_a_minute(&time, || println!("a closure"))?;
/// in_a_minute(&time, Task::new(|| println!("a task with options")).inline())?;
/// assert_eq!(time.advance(Duration::from_secs(60)), 2);
/// # Ok(()) }
/// ```
///
/// A future is no task: nothing would poll it. The compiler says so, and what to write instead.
///
/// ```compile_fail,E0277
/// # let timers = lars_scheduler::LightArrayRevolverScheduler::new().unwrap();
/// # let minute = std::time::Duration::from_secs(60);
/// // error: `{async block}` cannot be scheduled
/// let _ = timers.schedule_once(minute, async { println!("never polled") });
/// ```
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// let timers = lars_scheduler::LightArrayRevolverScheduler::new()?;
/// let later = timers.after(Duration::from_millis(1), async { "polled by its executor" });
/// assert_eq!(futures::executor::block_on(later)?, "polled by its executor");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be scheduled",
    label = "neither an `FnOnce() + Send + 'static` nor a `Task` of one",
    note = "the closure must return nothing and own what it uses (`move`), and all of that must be \
            `Send`",
    note = "to run a future later, use `handle.after(delay, future)`, which any executor can run, \
            or spawn it from a closure: `move || drop(runtime.spawn(future))`"
)]
pub trait IntoTask: sealed::Parts {}

impl<T: sealed::Parts> IntoTask for T {}

pub(crate) mod sealed {
    use super::{TaskBody, TaskOptions};

    /// Taking a task apart and, when it is refused, putting it together again.
    pub trait Parts: Sized {
        type Body: TaskBody;
        #[allow(private_interfaces)]
        fn into_parts(self) -> (Self::Body, TaskOptions);
        #[allow(private_interfaces)]
        fn from_parts(body: Self::Body, options: TaskOptions) -> Self;
    }
}

impl<F: FnOnce() + Send + 'static> sealed::Parts for F {
    type Body = F;

    #[allow(private_interfaces)]
    fn into_parts(self) -> (F, TaskOptions) {
        (self, TaskOptions::default())
    }

    #[allow(private_interfaces)]
    fn from_parts(body: F, _: TaskOptions) -> Self {
        body
    }
}

/// The cancelled hook of a task that has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHook;

/// What is called when a task has been cancelled: any closure, and a few types of this crate.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::{sync::mpsc, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, receiver) = mpsc::channel();
/// let hook = move || drop(sender.send("cancelled")); // a closure is a hook
/// let task = Task::new(|| println!("no answer")).on_cancel(hook);
/// assert!(time.schedule_once(Duration::from_secs(5), task)?.cancel());
/// assert_eq!(receiver.try_recv()?, "cancelled");
/// # Ok(()) }
/// ```
pub trait CancelHook: Send + Sized + 'static {
    /// A task's body with this hook.
    type Hooked<F: TaskBody>: TaskBody;

    fn call(self);

    /// The repeat has ended by itself.
    fn over(self) {}

    /// The next run of the repeat is handed back; see `TaskBody::handed_back`.
    fn handed_back(&self) {}

    fn hook<F: TaskBody>(self, run: F) -> Self::Hooked<F>;
    fn unhook<F: TaskBody>(body: Self::Hooked<F>) -> (F, Self);
}

/// Without a hook the body stays what it is, with all that its type provides.
impl CancelHook for NoHook {
    type Hooked<F: TaskBody> = F;

    fn call(self) {}

    fn hook<F: TaskBody>(self, run: F) -> F {
        run
    }

    fn unhook<F: TaskBody>(body: F) -> (F, Self) {
        (body, Self)
    }
}

impl<C: FnOnce() + Send + 'static> CancelHook for C {
    type Hooked<F: TaskBody> = HookedBody<F, C>;

    fn call(self) {
        self();
    }

    fn hook<F: TaskBody>(self, run: F) -> HookedBody<F, C> {
        HookedBody::new(run, self)
    }

    fn unhook<F: TaskBody>(body: HookedBody<F, C>) -> (F, Self) {
        body.into_parts()
    }
}

/// A one-shot task with options.
///
/// A plain closure is scheduled as it is; this type is for the closures that need more.
///
/// ```
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let task = Task::new(|| println!("flush"))
///     .inline()          // on the timer thread: it never blocks
///     .run_on_close()    // also under `ClosePolicy::RunMarked`
///     .on_cancel(|| println!("not needed any more"));
/// let flush = scheduler.schedule_once(Duration::from_secs(60), task)?;
/// assert!(flush.cancel()); // prints "not needed any more"
/// # Ok(()) }
/// ```
#[must_use = "a task does nothing until it is scheduled"]
pub struct Task<F, C = NoHook> {
    pub(crate) run: F,
    pub(crate) hook: C,
    pub(crate) options: TaskOptions,
}

impl<F: TaskBody> Task<F> {
    /// A task that runs `run` on the scheduler's executor.
    pub fn new(run: F) -> Self {
        Self { run, hook: NoHook, options: TaskOptions::default() }
    }
}

impl<F, C> Task<F, C> {
    /// What the task was made of.
    pub fn into_body(self) -> F {
        self.run
    }

    /// Runs the task on the timer thread itself.
    ///
    /// For tasks that never block and take microseconds: sending a message, waking a waker, setting
    /// a flag. While it runs, no other timer of the scheduler fires.
    pub fn inline(self) -> Self {
        self.run_on(RunOn::Inline)
    }

    /// Runs the task on `executor` instead of the scheduler's own. An `Arc` of one is kept as it
    /// is; anything else is put into one.
    pub fn executor(self, executor: impl Executor) -> Self {
        self.run_on(RunOn::Executor(executor.into_shared()))
    }

    /// Where the task runs, as a value: for systems that pass on the choice of their users.
    pub fn run_on(mut self, run_on: RunOn) -> Self {
        self.options.run_on = run_on;
        self
    }

    /// Gives the task a name, by which logs, hooks and listings know it; see
    /// [`TaskIdentity`](crate::TaskIdentity).
    ///
    /// It says what kind of task this is (`"session timeout"`), not which one of them: the
    /// scheduler remembers each combination of name, type and place to the end of the process, and
    /// at most 65,536 of them.
    pub fn named(mut self, name: &'static str) -> Self {
        self.options.label.name = Some(name);
        self
    }

    /// The place that the [`TaskIdentity`](crate::TaskIdentity) shows, instead of that of the call
    /// that schedules the task: for code that schedules on behalf of its own callers.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{Cancellable, Handle, LightArrayRevolverScheduler, Refusal, Task};
    /// use std::{panic::Location, time::Duration};
    ///
    /// struct Sessions(Handle);
    ///
    /// impl Sessions {
    ///     #[track_caller]
    ///     fn expire_in(&self, limit: Duration) -> Result<Cancellable, Refusal> {
    ///         let task = Task::new(|| println!("expired")).placed_at(Location::caller());
    ///         self.0.schedule_once(limit, task).map_err(|error| error.refusal().clone())
    ///     }
    /// }
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let sessions = Sessions(time.handle());
    /// let line = line!() + 1;
    /// let timer = sessions.expire_in(Duration::from_secs(60))?;
    /// assert_eq!(timer.identity().place().map(Location::line), Some(line));
    /// # Ok(()) }
    /// ```
    pub fn placed_at(mut self, place: &'static Location<'static>) -> Self {
        self.options.label.place = Some(place);
        self
    }

    /// Marks the task for [`ClosePolicy::RunMarked`](crate::ClosePolicy::RunMarked): when the
    /// scheduler is closed before the task is due, the closing thread runs it.
    pub fn run_on_close(mut self) -> Self {
        self.options.run_on_close = true;
        self
    }

    /// Calls `hook` once when the task has been cancelled. It replaces an earlier hook.
    ///
    /// It runs on the thread that cancelled, inside `cancel()`, after the task's captures have
    /// been dropped. It is not called when the task runs, nor when `stop` hands the task back. A
    /// panic in it is contained and reported like a task's.
    pub fn on_cancel<H: FnOnce() + Send + 'static>(self, hook: H) -> Task<F, H> {
        Task { run: self.run, hook, options: self.options }
    }
}

debug_fields!(|it: Task<F, C>| options: it.options);

/// The body of a [`Task`] with a hook: what it runs, and the hook.
pub struct HookedBody<F, C> {
    run: F,
    hook: C,
}

impl<F, C> HookedBody<F, C> {
    pub(crate) fn new(run: F, hook: C) -> Self {
        Self { run, hook }
    }

    pub(crate) fn into_parts(self) -> (F, C) {
        (self.run, self.hook)
    }
}

debug_fields!(|_it: HookedBody<F, C>|);

impl<F, C> TaskBody for HookedBody<F, C>
where
    F: TaskBody,
    C: CancelHook,
{
    fn run(self) {
        self.run.run();
    }

    fn handed_back(&self) {
        self.run.handed_back();
    }

    fn lost(self) {
        self.run.lost();
    }

    fn known_as() -> &'static str {
        F::known_as()
    }

    fn cancelled(self) {
        let Self { run, hook } = self;
        // The hook must be called even if the body's destructor panics.
        let end = catch_unwind(AssertUnwindSafe(move || run.cancelled()));
        hook.call();
        if let Err(payload) = end {
            resume_unwind(payload);
        }
    }
}

#[allow(private_bounds)]
impl<F, C> sealed::Parts for Task<F, C>
where
    F: TaskBody,
    C: CancelHook,
{
    type Body = C::Hooked<F>;

    #[allow(private_interfaces)]
    fn into_parts(self) -> (Self::Body, TaskOptions) {
        (self.hook.hook(self.run), self.options)
    }

    #[allow(private_interfaces)]
    fn from_parts(body: Self::Body, options: TaskOptions) -> Self {
        let (run, hook) = C::unhook(body);
        Self { run, hook, options }
    }
}
