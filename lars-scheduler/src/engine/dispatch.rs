//! Handing due tasks over.

use std::mem::ManuallyDrop;

use crate::base::panics::PanicIn;
use crate::base::raw_task::{RawTask, TaskBody};
use crate::engine::shared::{DefaultExecutor, Live};
use crate::executor::chunk::{CHUNK, Chunk};
use crate::executor::pool::Pool;
use crate::executor::{Executor, Inline, Rejected, Runnable};
use crate::sync::Arc;

/// Due tasks on their way to a pool, which gets many in one call.
///
/// Tasks start, or are handed over, in the order in which they are pushed.
#[derive(Debug)]
pub(crate) struct Batch {
    /// For the pool; never more than a chunk.
    tasks: Vec<RawTask>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { tasks: Vec::with_capacity(CHUNK) }
    }

    /// Runs a due task, or takes it to hand it to the scheduler's executor.
    ///
    /// (Inlined, and the task runs where it lies: each copy of its four words waits for the one
    /// before. 6 ns a task.)
    #[inline(always)]
    pub(crate) fn push(&mut self, live: &Live, task: RawTask, inline: bool) {
        match &live.executor {
            DefaultExecutor::Pool(pool) if !inline => {
                self.tasks.push(task);
                if self.tasks.len() == CHUNK {
                    self.hand_over(live, pool);
                }
            }
            DefaultExecutor::Other(executor) if !inline => hand_over(live, &**executor, task),
            _ => {
                // Tasks before it must not wait until it is done.
                self.flush(live);
                let task = ManuallyDrop::new(task);
                // SAFETY: the task is neither used nor dropped after this.
                live.reporter.contain(PanicIn::Task, || unsafe { task.run_in_place() });
            }
        }
    }

    /// Hands over what was pushed. Call it before anything that may take long, and at the end of
    /// each turn.
    #[inline]
    pub(crate) fn flush(&mut self, live: &Live) {
        if !self.tasks.is_empty()
            && let DefaultExecutor::Pool(pool) = &live.executor
        {
            self.hand_over(live, pool);
        }
    }

    #[inline(never)]
    fn hand_over(&mut self, live: &Live, pool: &Pool) {
        if self.tasks.len() == 1 {
            self.tasks.drain(..).for_each(|task| hand_over(live, pool, task));
            return;
        }
        let tasks = std::mem::replace(&mut self.tasks, Vec::with_capacity(CHUNK));
        let mut chunk = Chunk::new(tasks, &live.reporter);
        // Accepted tasks run: on the other pool, or, where not a single thread can be started,
        // here.
        for pool in [pool, &live.pool] {
            let Err((back, reason)) = pool.execute_all(chunk) else { return };
            // Counted before they run: a task that looks at the count finds itself in it.
            (0..back.len()).for_each(|_| live.reporter.task_rejected(&reason));
            chunk = back;
        }
        while let Some(task) = chunk.claim() {
            task.run();
        }
    }
}

/// Whether [`Batch::push`] runs such a task where it is called.
#[inline]
pub(crate) fn runs_here(live: &Live, inline: bool) -> bool {
    inline || matches!(live.executor, DefaultExecutor::Inline)
}

/// Hands a task to an executor, or to a substitute that accepts it.
pub(crate) fn hand_over(live: &Live, executor: &dyn Executor, task: RawTask) {
    let task = Runnable::of_scheduler(task, &live.reporter);
    let mut rejected: Option<Rejected> = None;
    live.reporter.contain(PanicIn::Executor, || rejected = executor.execute(task).err());
    // An accepted task runs, whatever its executor says: on the pool, or, where not a single thread
    // can be started, here.
    for fallback in [&live.pool as &dyn Executor, &Inline] {
        let Some(refused) = rejected.take() else { return };
        let (task, reason) = refused.into_parts();
        // Counted before it runs: a task that looks at the count finds itself in it.
        live.reporter.task_rejected(&reason);
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

    fn lost(self) {
        self.body.lost();
    }

    fn handed_back(&self) {
        self.body.handed_back();
    }
}
