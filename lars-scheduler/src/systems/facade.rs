//! The inner facade: all that systems use of the folders above and that users of the crate cannot.
//!
//! Beyond this module, a system names only the crate's public items (as `crate::Name`), the
//! primitives of `sync`, and other systems. `ci/tidy.py` enforces that.
//!
//! | item | what it is for |
//! |---|---|
//! | [`real_now`], [`block_until`], [`park_until`], [`waker_of`] | waiting, with a limit |
//! | [`message_of`], [`quietly`] | what a panic says; logging, whatever the subscriber does |
//! | `debug_fields!` | `Debug` for types with private insides |
//! | [`RunOn`], with `Task::run_on` and `Periodic::run_on` | where something runs, as a value |
//! | [`Rate`], [`check_period`] | fixed rates, and the shortest period |
//! | [`goes_on`] | the verdict of a repeat's run |
//! | [`Label`], with `Task::labelled` and `Periodic::labelled` | whose a timer of a system is |
//! | `Runnable::of_body` | work for an executor that learns if that loses it |
//! | [`Moment`], with `Handle::moment` and others | deadlines without a second reading of the clock |
//! | [`Following`] | virtual time that one thread moves, and no other may wait for |
//! | `Handle::contain`, [`contain`] | running a user's code, with a scheduler at hand or without |
//! | [`CapturedSpan`] | running something in the span of another thread |
//! | `Handle::hand_over` | running what was accepted, without a timer |
//! | `Handle::captures_spans`, `Handle::outside_spans` | whether tasks run in spans; an exception from that |
//! | `Periodic::on_end_from_outside` | a repeat that learns of a cancel, or of a `stop` |

use std::panic::Location;
use std::time::{Duration, Instant};

use crate::api::repeat::sealed::NextRun;
use crate::base::clock::LAG;
use crate::base::deadline::Deadline;
use crate::base::in_span::InSpan;
use crate::base::panics::Reporter;
use crate::base::raw_task::RawTask;
use crate::base::tick::NEVER;
use crate::engine::dispatch::{hand_over, hand_over_to_pool};
use crate::engine::shared::DefaultExecutor;
use crate::executor::task::{CancelHook, HookedBody};
use crate::{
    Cancellable, Executor, Handle, Inline, IntoTask, PanicIn, Periodic, Refusal, Repeat, TaskBody,
    Verdict,
};

pub(crate) use crate::api::rate::{Rate, check_period};
pub(crate) use crate::base::clock::real_now;
pub(crate) use crate::base::debug::debug_fields;
pub(crate) use crate::base::identity::Label;
pub(crate) use crate::base::in_span::CapturedSpan;
pub(crate) use crate::base::panics::{message_of, quietly};
pub(crate) use crate::base::wait::{block_until, park_until, waker_of};
pub(crate) use crate::executor::run_on::RunOn;

/// A point of the scheduler's time, in nanoseconds since its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// No clock comes that far.
    pub(crate) const NEVER: Self = Self(NEVER);

    /// `delay` later, saturating.
    #[inline]
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(Deadline::after(self.0, delay).at)
    }
}

impl Handle {
    /// The scheduler's time.
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.core().clock.now())
    }

    /// An instant before the scheduler's origin is the origin.
    #[inline]
    pub(crate) fn moment_of(&self, instant: Instant) -> Moment {
        Moment(self.core().clock.nanos_at(instant))
    }

    /// `None` for one that the clock never shows, or that the platform cannot express.
    #[inline]
    pub(crate) fn instant_of(&self, moment: Moment) -> Option<Instant> {
        self.core().clock.instant(moment.0)
    }

    /// Whether `deadline` has passed. If not, a reading of the clock.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Moment) -> Result<(), Moment> {
        let now = self.moment();
        if deadline <= now { Ok(()) } else { Err(now) }
    }

    /// The same, without a reading of the exact clock if `deadline` is further off than
    /// the coarse one lags. Then the reading that is returned is some milliseconds old.
    #[inline]
    pub(crate) fn may_have_passed(&self, deadline: Moment) -> Result<(), Moment> {
        let clock = &self.core().clock;
        clock.note_waiter();
        let coarse = clock.coarse();
        if deadline.0 > coarse.saturating_add(LAG) {
            return Err(Moment(coarse));
        }
        self.has_passed(deadline)
    }

    /// `schedule_at` for callers that have read the clock, and schedule for somebody else.
    #[inline]
    pub(crate) fn schedule_from<T: IntoTask>(
        &self,
        (now, deadline): (Moment, Moment),
        task: T,
        place: &'static Location<'static>,
    ) -> Result<Cancellable, Refusal> {
        let due = Deadline::at(now.0, deadline.0);
        self.schedule_with((now.0, due), task, place).map_err(|refused| refused.refusal().clone())
    }

    /// Runs the code of a user. A panic in it ends here, and is reported like a task's: in the log,
    /// the count and the hook. True if there was none.
    pub(crate) fn contain(&self, place: PanicIn, code: impl FnOnce()) -> bool {
        self.core().reporter.contain(place, code)
    }

    /// Whether tasks run in the spans in which they were scheduled.
    pub(crate) fn captures_spans(&self) -> bool {
        self.live().capture_spans
    }

    /// Schedules something that must not run in the span of the calling thread.
    pub(crate) fn outside_spans<R>(&self, schedule: impl FnOnce() -> R) -> R {
        if self.captures_spans() {
            tracing::dispatcher::with_default(&tracing::Dispatch::none(), schedule)
        } else {
            schedule()
        }
    }

    /// Runs a task now, without a timer: for work that was accepted, and that neither `max_pending`
    /// nor the end of the scheduler may refuse now. [`RunOn::Inline`] runs it on this thread.
    pub(crate) fn hand_over(&self, run_on: &RunOn, body: impl TaskBody) {
        let live = self.live();
        let now = live.clock.now();
        let task = if self.captures_spans() {
            RawTask::new(InSpan::new(body), Label::default())
        } else {
            RawTask::new(body, Label::default())
        };
        let executor: &dyn Executor = match (run_on, &live.executor) {
            (RunOn::Executor(executor), _) => &**executor,
            (RunOn::Default, DefaultExecutor::Other(executor)) => &**executor,
            (RunOn::Default, DefaultExecutor::Pool(pool)) => {
                return hand_over_to_pool(live, pool, task, now, now);
            }
            (RunOn::Default, DefaultExecutor::Inline) | (RunOn::Inline, _) => &Inline,
        };
        hand_over(live, executor, task, now, now);
    }

    /// Runs a task now on the scheduler's own pool, whatever its executor is.
    pub(crate) fn hand_over_to_pool(&self, body: impl TaskBody) {
        let live = self.live();
        let now = live.clock.now();
        let task = RawTask::new(body, Label::default());
        hand_over_to_pool(live, &live.pool, task, now, now);
    }
}

/// Runs the code of a user where there is no scheduler at hand: a panic in it ends here, and is
/// logged. True if there was none.
pub(crate) fn contain(code: impl FnOnce()) -> bool {
    Reporter::default().contain(PanicIn::Cleanup, code)
}

impl Cancellable {
    /// `reset_at` for callers that have read the clock.
    #[inline]
    pub(crate) fn reset_from(&self, now: Moment, deadline: Moment) -> bool {
        self.reset_to(Deadline::at(now.0, deadline.0))
    }
}

/// While it exists, the calling thread moves a scheduler's virtual time whenever it has nothing
/// else to do, and other threads must not wait for that time.
pub(crate) struct Following<'a>(&'a Handle);

impl<'a> Following<'a> {
    pub(crate) fn begin(handle: &'a Handle) -> Self {
        handle.core().clock.follow_this_thread();
        Self(handle)
    }

    /// Whether another thread has waited for it nevertheless.
    pub(crate) fn has_waiter_elsewhere(&self) -> bool {
        self.0.core().clock.has_waiter_elsewhere()
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.core().clock.follow_nobody();
    }
}

/// Whether a repeat goes on after a run that returned `verdict`.
pub(crate) fn goes_on(verdict: impl Verdict) -> bool {
    !matches!(verdict.next(), NextRun::Asked(Repeat::Stop))
}

impl<F> Periodic<F> {
    /// Calls `cancelled` when the series was cancelled, like `on_cancel`. Calls `handed_back` when
    /// `stop` is about to hand back the next run, on the thread that fires the scheduler's timers.
    pub(crate) fn on_end_from_outside<C, H>(
        self,
        cancelled: C,
        handed_back: H,
    ) -> Periodic<F, EndFromOutside<C, H>>
    where
        C: FnOnce() + Send + 'static,
        H: Fn() + Send + 'static,
    {
        self.hook(EndFromOutside { cancelled, handed_back })
    }
}

/// The hook of [`Periodic::on_end_from_outside`].
pub(crate) struct EndFromOutside<C, H> {
    cancelled: C,
    handed_back: H,
}

impl<C, H> CancelHook for EndFromOutside<C, H>
where
    C: FnOnce() + Send + 'static,
    H: Fn() + Send + 'static,
{
    type Hooked<F: TaskBody> = HookedBody<F, Self>;

    fn call(self) {
        (self.cancelled)();
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
