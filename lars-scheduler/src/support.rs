//! The one thing that what stands on the scheduler needs of its inside.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
}
