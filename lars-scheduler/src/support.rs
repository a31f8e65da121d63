//! The two things that what stands on the scheduler needs of its inside.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::body::{RawTask, TaskBody};
use crate::dispatch::hand_over;
use crate::handle::Handle;
use crate::report::PanicIn;

impl Handle {
    /// Runs the code of a user. A panic in it ends here, and is told of like a task's: log, count, hook.
    /// Says whether there was none.
    pub(crate) fn contain(&self, place: PanicIn, code: impl FnOnce()) -> bool {
        let reporter = &self.core().reporter;
        // A panic is told of to a log subscriber, which may panic as well.
        catch_unwind(AssertUnwindSafe(|| reporter.contain(place, code))).unwrap_or(false)
    }

    /// Runs a task on the scheduler's own pool, without a timer and its place: for what was accepted, and can have
    /// neither.
    pub(crate) fn run_on_pool(&self, body: impl TaskBody) {
        let core = self.core();
        hand_over(core, &core.pool, RawTask::new(body));
    }
}
