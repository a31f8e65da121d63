//! Handing due tasks over.

use std::mem::ManuallyDrop;

use crate::body::{RawTask, TaskBody};
use crate::executor::{Executor, Inline, Rejected, Runnable};
use crate::report::PanicIn;
use crate::shared::{Core, DefaultExecutor, Live};
use crate::sync::Arc;

/// Runs a due task, or hands it to the scheduler's executor.
///
/// (Inlined, and the task runs where it lies: each copy of its four words waits for the one before. 6 ns a task.)
#[inline(always)]
pub(crate) fn dispatch(core: &Core, task: RawTask, inline: bool) {
    match &core.executor {
        DefaultExecutor::Pool if !inline => hand_over(core, &core.pool, task),
        DefaultExecutor::Own(executor) if !inline => hand_over(core, &**executor, task),
        _ => {
            let task = ManuallyDrop::new(task);
            // SAFETY: it is not used again.
            core.reporter.contain(PanicIn::Task, || unsafe { task.run_in_place() });
        }
    }
}

/// Whether [`dispatch`] runs such a task where it is called.
#[inline]
pub(crate) fn runs_here(core: &Core, inline: bool) -> bool {
    inline || matches!(core.executor, DefaultExecutor::Inline)
}

/// Hands a task to an executor, or to the next best.
pub(crate) fn hand_over(core: &Core, executor: &dyn Executor, task: RawTask) {
    let task = Runnable::of_scheduler(task, &core.reporter);
    let mut rejected: Option<Rejected> = None;
    core.reporter.contain(PanicIn::Executor, || rejected = executor.execute(task).err());
    // An accepted task runs, whatever its executor says: on the pool, or, where not a single thread can be
    // started, here.
    for fallback in [&core.pool as &dyn Executor, &Inline] {
        let Some(refused) = rejected.take() else { return };
        let (task, reason) = refused.into_parts();
        // First counted, then run: who hears of the run finds the count.
        core.reporter.task_rejected(&reason);
        rejected = fallback.execute(task).err();
    }
}

/// The body of a task that has an executor of its own: an inline one that hands the other over.
pub(crate) struct OnExecutor<B> {
    pub(crate) body: B,
    pub(crate) executor: std::sync::Arc<dyn Executor>,
    pub(crate) live: Arc<Live>,
}

impl<B: TaskBody> TaskBody for OnExecutor<B> {
    fn run(self) {
        hand_over(&self.live, &*self.executor, RawTask::new(self.body));
    }

    fn run_here(self) {
        self.body.run();
    }

    fn cancelled(self) {
        self.body.cancelled();
    }

    fn handed_back(&self) {
        self.body.handed_back();
    }
}
