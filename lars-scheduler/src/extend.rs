//! For those who build a system on a [`Handle`]: what `lars-jobs`, `mini-actor` and `lars-durable`
//! use beyond the scheduler's ordinary interface.
//!
//! A system runs code of its own users, on its own schedule. So it contains their panics as the
//! scheduler does, hands over work that it has accepted, and learns when its series end. A program
//! that only schedules needs none of this.
//!
//! The contract is that of every public item: this module changes with the version of the crate.
//! Those crates use nothing else that a user could not.
//!
//! | | |
//! |---|---|
//! | [`RunOn`], [`Task::run_on`], [`Periodic::run_on`] | where something runs, as a value |
//! | [`Systems::contain`], [`identity`] | running a user's code, and saying whose it is |
//! | [`Systems::hand_over`], [`Systems::run_next_turn`] | running what was accepted, without a timer, or without a place for one |
//! | [`Systems::captures_spans`], [`Systems::outside_spans`] | whether tasks run in spans; an exception from that |
//! | [`EndOfSeries::on_end`] | a repeat that learns of a cancel, of a `stop`, or that it is over |
//! | [`Following`] | moving virtual time whenever this thread has nothing to do |
//! | [`Systems::wait_for_share`], [`Systems::wait_later`] | waiting for a share before a lock is taken, and not under it |
//! | [`Systems::promised`] | by when a task is promised to begin |
//! | [`LatenessRecorder`] | what began late in a system, and why, as [`Handle::lateness`] has it for tasks |
//! | [`check_period`], [`goes_on`] | the shortest period; the verdict of a repeat's run |
//!
//! # Examples
//!
//! A system that calls its user's closure, and survives it:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::any::type_name_of_val;
//! use std::panic::Location;
//!
//! use lars_scheduler::extend::{RunOn, Systems, identity};
//! use lars_scheduler::hooks::PanicIn;
//! use lars_scheduler::{Handle, LightArrayRevolverScheduler};
//!
//! /// Calls `code` on this thread, even if the scheduler is full or has stopped.
//! #[track_caller]
//! fn call_now(timers: &Handle, code: impl FnOnce() + Send + 'static) {
//!     let own = timers.clone();
//!     let whose = identity(type_name_of_val(&code), None, Some(Location::caller()));
//!     timers.hand_over(&RunOn::Inline, move || {
//!         own.contain(whose, PanicIn::Task, code);
//!     });
//! }
//!
//! let time = LightArrayRevolverScheduler::builder().build_virtual()?;
//! call_now(&time, || panic!("a user's mistake"));
//! assert_eq!(time.metrics().panicked, 1);
//! # Ok(()) }
//! ```

mod lateness_recorder;

use std::marker::PhantomData;
use std::panic::Location;

#[cfg(doc)]
use crate::Task;
use crate::api::repeat::sealed::NextRun;
use crate::base::deadline::Deadline;
use crate::base::identity::Label;
use crate::base::in_span::InSpan;
use crate::base::raw_task::RawTask;
use crate::engine::dispatch::{hand_over, hand_over_to_pool};
use crate::engine::share::wait_later;
use crate::engine::shared::DefaultExecutor;
use crate::executor::TaskBody;
use crate::executor::task::{CancelHook, HookedBody, TaskOptions};
use crate::hooks::PanicIn;
use crate::{Executor, Handle, Inline, Periodic, Repeat, TaskIdentity, Verdict};
use lars_base::time::Instant;

pub use self::lateness_recorder::{Explained, LatenessRecorder};
pub use crate::base::error::check_period;
pub use crate::executor::run_on::RunOn;
#[cfg(not(lars_loom))] // no model has futures
pub use crate::future::following::Following;

/// What a [`Handle`] does for the systems that are built on it.
pub trait Systems {
    /// Runs the code of a user. A panic in it ends here, and is reported like one of `task`: in the
    /// log, the count and the hook. True if there was none.
    fn contain(&self, task: TaskIdentity, place: PanicIn, code: impl FnOnce()) -> bool;

    /// Whether tasks run in the spans in which they were scheduled
    /// ([`Builder::capture_spans`](crate::Builder::capture_spans)).
    fn captures_spans(&self) -> bool;

    /// Schedules something that must not run in the span of the calling thread.
    fn outside_spans<R>(&self, schedule: impl FnOnce() -> R) -> R;

    /// Runs a task now, without a timer: for work that was accepted, and that neither `max_pending`
    /// nor the end of the scheduler may refuse now. [`RunOn::Inline`] runs it on this thread.
    fn hand_over(&self, run_on: &RunOn, body: impl TaskBody);

    /// Runs a task now on the scheduler's own pool, whatever its executor is, and outside spans.
    fn hand_over_to_pool(&self, body: impl TaskBody);

    /// Runs a task in the next turn of the scheduler, on the thread that turns it, and outside
    /// spans: for work that was accepted, and that `max_pending` may not refuse now. It is a timer
    /// that takes no place. False if the scheduler has stopped: then the task is dropped.
    #[track_caller]
    fn run_next_turn(&self, body: impl TaskBody) -> bool;

    /// Waits now, if a call of this thread that schedules something would wait
    /// ([`Backpressure::Wait`](crate::Backpressure::Wait)). For systems that schedule under a lock
    /// of their own: they call this before they take the lock, and [`wait_later`](Self::wait_later)
    /// while they hold it.
    fn wait_for_share(&self);

    /// Until the guard is dropped, no call of this thread waits for a share, of whatever scheduler.
    /// What they schedule is owed: the next call that may wait waits for it as well. Under
    /// [`Backpressure::Refuse`](crate::Backpressure::Refuse), calls are refused as ever.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::extend::Systems;
    /// use lars_scheduler::{Cancellable, LightArrayRevolverScheduler};
    /// use std::sync::Mutex;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let timeout: Mutex<Option<Cancellable>> = Mutex::default();
    /// scheduler.wait_for_share(); // whoever wants the lock need not wait for that
    /// {
    ///     let _later = scheduler.wait_later();
    ///     let mut timeout = timeout.lock().unwrap();
    ///     *timeout = Some(scheduler.schedule_once(Duration::from_secs(1), || ())?);
    /// }
    /// # Ok(()) }
    /// ```
    fn wait_later(&self) -> WaitsLater;

    /// By when a task of this deadline is promised to begin: the deadline, rounded up to a tick,
    /// plus [`Builder::coalesce`](crate::Builder::coalesce). `None` in virtual time, in which
    /// nothing is late, and for what is later than an [`Instant`] can express.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_scheduler::extend::Systems;
    /// use std::time::Duration;
    ///
    /// let tick = Duration::from_millis(10);
    /// let scheduler = LightArrayRevolverScheduler::builder().tick_duration(tick).build()?;
    /// let deadline = scheduler.now() + Duration::from_secs(1);
    /// let promised = scheduler.promised(deadline).ok_or("it can be expressed")?;
    /// assert!(deadline <= promised && promised < deadline + tick);
    /// assert_eq!(scheduler.promised(promised), Some(promised));
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// assert_eq!(time.promised(time.now()), None);
    /// # Ok(()) }
    /// ```
    fn promised(&self, deadline: Instant) -> Option<Instant>;
}

impl Systems for Handle {
    fn contain(&self, task: TaskIdentity, place: PanicIn, code: impl FnOnce()) -> bool {
        self.core().reporter.contain_as(task, place, code)
    }

    fn captures_spans(&self) -> bool {
        self.live().capture_spans
    }

    fn outside_spans<R>(&self, schedule: impl FnOnce() -> R) -> R {
        if self.captures_spans() {
            tracing::dispatcher::with_default(&tracing::Dispatch::none(), schedule)
        } else {
            schedule()
        }
    }

    fn hand_over(&self, run_on: &RunOn, body: impl TaskBody) {
        let live = self.live();
        let now = live.clock.now();
        let task = if self.captures_spans() {
            InSpan::around(body)
        } else {
            RawTask::new(body, Label::default())
        };
        let executor: &dyn Executor = match (run_on, &live.executor) {
            (RunOn::Executor(executor), _) => &**executor,
            (RunOn::Default, DefaultExecutor::Other(executor)) => &**executor,
            (RunOn::Default, DefaultExecutor::Pool(pool)) => {
                return hand_over_to_pool(live, pool, task, now, (now, None));
            }
            (RunOn::Default, DefaultExecutor::Inline) | (RunOn::Inline, _) => &Inline,
        };
        hand_over(live, executor, task, now, (now, None));
    }

    fn hand_over_to_pool(&self, body: impl TaskBody) {
        let live = self.live();
        let now = live.clock.now();
        let task = RawTask::new(body, Label::default());
        hand_over_to_pool(live, &live.pool, task, now, (now, None));
    }

    #[track_caller]
    fn run_next_turn(&self, body: impl TaskBody) -> bool {
        let place = Location::caller();
        let now = self.live().clock.now();
        let due = Deadline { at: now, immediate: true };
        let label = Label::at(place);
        let options = TaskOptions { run_on: RunOn::Inline, run_on_close: false, label };
        self.outside_spans(|| self.submit((now, due), &options, place, body)).is_ok()
    }

    fn wait_for_share(&self) {
        let core = self.core();
        core.wait_for_share(core.arena.lanes.of_this_thread());
    }

    fn wait_later(&self) -> WaitsLater {
        WaitsLater { before: wait_later(true), _of_this_thread: PhantomData }
    }

    fn promised(&self, deadline: Instant) -> Option<Instant> {
        let core = self.core();
        if core.clock.is_manual() {
            return None;
        }
        let at = core.clock.nanos_at(deadline);
        core.clock.instant(core.fires_at(Deadline { at, immediate: false }))
    }
}

/// While it exists, no call of its thread waits for a share. Made by [`Systems::wait_later`].
#[derive(Debug)]
#[must_use = "calls wait again when it is dropped"]
pub struct WaitsLater {
    /// Whether it is inside another one.
    before: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for WaitsLater {
    fn drop(&mut self) {
        wait_later(self.before);
    }
}

/// Whose the code of a system's user is: its type, the name that the system was given, and the
/// place of the user's call.
pub fn identity(
    type_name: &'static str,
    name: Option<&'static str>,
    place: Option<&'static Location<'static>>,
) -> TaskIdentity {
    TaskIdentity::new(type_name, Label { name, place })
}

/// Whether a repeat goes on after a run that returned `verdict`.
pub fn goes_on(verdict: impl Verdict) -> bool {
    !matches!(verdict.next(), NextRun::Asked(Repeat::Stop))
}

/// A series that tells its system how it ended.
pub trait EndOfSeries<F> {
    /// Calls `cancelled` when the series was cancelled, like
    /// [`on_cancel`](Periodic::on_cancel). Calls `handed_back` when `stop` is about to hand back
    /// the next run, on the thread that fires the scheduler's timers. Calls `over` when the series
    /// has ended by itself: a run said so, or it was the last by its count or its end. (A panic and
    /// the end of the scheduler call nothing; the hooks are dropped.)
    fn on_end<C, H, O>(self, cancelled: C, handed_back: H, over: O) -> Periodic<F, OnEnd<C, H, O>>
    where
        C: FnOnce() + Send + 'static,
        H: Fn() + Send + 'static,
        O: FnOnce() + Send + 'static;
}

impl<F> EndOfSeries<F> for Periodic<F> {
    fn on_end<C, H, O>(self, cancelled: C, handed_back: H, over: O) -> Periodic<F, OnEnd<C, H, O>>
    where
        C: FnOnce() + Send + 'static,
        H: Fn() + Send + 'static,
        O: FnOnce() + Send + 'static,
    {
        self.hook(OnEnd { cancelled, handed_back, over })
    }
}

/// The hook of [`EndOfSeries::on_end`].
#[derive(Debug)]
pub struct OnEnd<C, H, O> {
    cancelled: C,
    handed_back: H,
    over: O,
}

impl<C, H, O> CancelHook for OnEnd<C, H, O>
where
    C: FnOnce() + Send + 'static,
    H: Fn() + Send + 'static,
    O: FnOnce() + Send + 'static,
{
    type Hooked<F: TaskBody> = HookedBody<F, Self>;

    fn call(self) {
        (self.cancelled)();
    }

    fn over(self) {
        (self.over)();
    }

    fn handed_back(&self) {
        (self.handed_back)();
    }

    fn hook<F: TaskBody>(self, run: F) -> Self::Hooked<F> {
        HookedBody::new(run, self)
    }

    fn unhook<F: TaskBody>(body: Self::Hooked<F>) -> (F, Self) {
        body.into_parts()
    }
}
