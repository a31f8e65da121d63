//! The inner facade: all that systems use of the folders above and that users of the crate cannot.
//!
//! Beyond this module, a system names only the crate's public items (as `crate::Name`), the
//! primitives of `sync`, and other systems. `ci/tidy.py` enforces that.
//!
//! | item | what it is for |
//! |---|---|
//! | [`real_now`], [`block_until`], [`park_until`], [`waker_of`] | waiting, with a limit |
//! | [`message_of`] | what a panic says |
//! | `debug_fields!` | `Debug` for types with private insides |
//! | [`RunOn`], with `Task::run_on` and `Periodic::run_on` | where something runs, as a value |
//! | [`Rate`], [`check_period`] | fixed rates, and the shortest period |
//! | [`goes_on`] | the verdict of a repeat's run |
//! | `Runnable::of_body` | work for an executor that learns if that loses it |
//! | `Handle::contain`, [`contain`] | running a user's code, with a scheduler at hand or without |
//! | `Handle::hand_over` | running what was accepted, without a timer |
//! | `Periodic::on_end_from_outside` | a repeat that learns of a cancel, or of a `stop` |

use crate::api::repeat::sealed::Next;
use crate::base::identity::Label;
use crate::base::panics::Reporter;
use crate::base::raw_task::RawTask;
use crate::engine::dispatch::hand_over;
use crate::engine::shared::DefaultExecutor;
use crate::executor::task::{CancelHook, HookedBody};
use crate::{Executor, Handle, Inline, PanicIn, Periodic, Repeat, TaskBody, Verdict};

pub(crate) use crate::api::rate::{Rate, check_period};
pub(crate) use crate::base::clock::real_now;
pub(crate) use crate::base::debug::debug_fields;
pub(crate) use crate::base::panics::message_of;
pub(crate) use crate::base::wait::{block_until, park_until, waker_of};
pub(crate) use crate::executor::run_on::RunOn;

impl Handle {
    /// Runs the code of a user. A panic in it ends here, and is reported like a task's: in the log,
    /// the count and the hook. True if there was none.
    pub(crate) fn contain(&self, place: PanicIn, code: impl FnOnce()) -> bool {
        self.core().reporter.contain(place, code)
    }

    /// Runs a task now, without a timer: for work that was accepted, and that neither `max_pending`
    /// nor the end of the scheduler may refuse now. [`RunOn::Inline`] runs it on this thread.
    pub(crate) fn hand_over(&self, run_on: &RunOn, body: impl TaskBody) {
        let live = self.live();
        let executor: &dyn Executor = match (run_on, &live.executor) {
            (RunOn::Executor(executor), _) => &**executor,
            (RunOn::Default, DefaultExecutor::Other(executor)) => &**executor,
            (RunOn::Default, DefaultExecutor::Pool(pool)) => pool,
            (RunOn::Default, DefaultExecutor::Inline) | (RunOn::Inline, _) => &Inline,
        };
        hand_over(live, executor, RawTask::new(body, Label::default()), live.clock.now());
    }

    /// Runs a task now on the scheduler's own pool, whatever its executor is.
    pub(crate) fn hand_over_to_pool(&self, body: impl TaskBody) {
        let live = self.live();
        hand_over(live, &live.pool, RawTask::new(body, Label::default()), live.clock.now());
    }
}

/// Runs the code of a user where there is no scheduler at hand: a panic in it ends here, and is
/// logged. True if there was none.
pub(crate) fn contain(code: impl FnOnce()) -> bool {
    Reporter::default().contain(PanicIn::Cleanup, code)
}

/// Whether a repeat goes on after a run that returned `verdict`.
pub(crate) fn goes_on(verdict: impl Verdict) -> bool {
    !matches!(verdict.next(), Next::Asked(Repeat::Stop))
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
