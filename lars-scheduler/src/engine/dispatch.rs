//! Handing due tasks over.

use crate::base::late::journal::History;
use crate::base::panics::PanicIn;
use crate::base::raw_task::{RawTask, TaskBody};
use crate::base::run_clock::RunClock;
use crate::engine::shared::{DefaultExecutor, Live};
use crate::executor::chunk::{CHUNK, Chunks, Timed};
use crate::executor::pool::Pool;
use crate::executor::{Executor, Inline, Rejected, Runnable};
use crate::sync::Arc;

/// Due tasks on their way to a pool, which gets many in one call.
///
/// Tasks start, or are handed over, in the order in which they come.
#[derive(Debug)]
pub(crate) struct Batch {
    /// For the pool; never more than a chunk.
    tasks: Vec<Timed>,
    chunks: Chunks,
    /// Whether somebody calls [`look`](Self::look) in time.
    looks: bool,
    /// Whether tasks were handed over since somebody asked.
    handed_over: bool,
    /// Since when due tasks have been waiting for room in the queue of the pool, if they have.
    pub(crate) held_from: Option<u64>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let (tasks, chunks) = (Vec::with_capacity(CHUNK), Chunks::default());
        Self { tasks, chunks, looks: false, handed_over: false, held_from: None }
    }

    /// The caller promises that [`look`](Self::look) is called in time from now on.
    pub(crate) fn begin_to_look(&mut self) {
        self.looks = true;
    }

    /// Looks after what was handed over before. Says when to look again.
    #[inline]
    pub(crate) fn look(&mut self, live: &Live, now: u64) -> Option<u64> {
        let DefaultExecutor::Pool(pool) = &live.executor else { return None };
        self.chunks.look(now, |chunk| pool.share(chunk))
    }

    /// To be called before something that may take long on this thread. Hands over what was added,
    /// and shares the chunks that somebody would have to [look](Self::look) after meanwhile.
    #[inline]
    pub(crate) fn leave(&mut self, live: &Live, runs: &mut RunClock) {
        if let DefaultExecutor::Pool(pool) = &live.executor {
            if !self.tasks.is_empty() {
                self.hand_over(live, pool, runs);
            }
            self.chunks.share_all(|chunk| pool.share(chunk));
        }
    }

    /// Takes a due task to hand it to the pool, the scheduler's default executor. True if it was
    /// handed over.
    #[inline]
    pub(crate) fn add(
        &mut self,
        (live, pool): (&Live, &Pool),
        runs: &mut RunClock,
        task: RawTask,
        due: u64,
    ) -> bool {
        self.tasks.push(Timed { task, due });
        let full = self.tasks.len() == CHUNK;
        if full {
            self.hand_over(live, pool, runs);
        }
        full
    }

    /// Runs a due task where it lies: each copy of its four words would wait for the one before.
    /// (6 ns a task.)
    ///
    /// # Safety
    ///
    /// The task is neither used nor dropped after this.
    #[inline(always)]
    pub(crate) unsafe fn run(&mut self, live: &Live, runs: &mut RunClock, task: &RawTask) {
        // Tasks before it must not wait until it is done.
        self.leave(live, runs);
        runs.run_now(Some(task.whose()));
        // SAFETY: the task is neither used nor dropped after this.
        let run = || unsafe { task.run_in_place() };
        live.reporter.contain_task(task.whose(), PanicIn::Task, run);
    }

    /// Hands over what was added. Call it at the end of each turn.
    #[inline]
    pub(crate) fn flush(&mut self, live: &Live, runs: &mut RunClock) {
        if !self.tasks.is_empty()
            && let DefaultExecutor::Pool(pool) = &live.executor
        {
            self.hand_over(live, pool, runs);
        }
    }

    /// Whether tasks were handed over since the last call.
    pub(crate) fn take_handed_over(&mut self) -> bool {
        std::mem::take(&mut self.handed_over)
    }

    #[inline(never)]
    fn hand_over(&mut self, live: &Live, pool: &Pool, runs: &mut RunClock) {
        self.handed_over = true;
        let now = live.clock.now();
        let first = self.tasks.first().map_or(now, |timed| timed.due);
        let before = runs.history((first, now), self.held_from, &live.reporter);
        // (Hooks may have been told of what ran before.)
        let now = now.max(runs.now());
        if self.tasks.len() == 1 {
            if let Some(Timed { task, due }) = self.tasks.pop() {
                hand_over_to_pool(live, pool, task, due, (now, before));
            }
            return;
        }
        let chunk = self.chunks.fill(&mut self.tasks, (now, before), &live.reporter, self.looks);
        // Accepted tasks run: on the other pool, or, where not a single thread can be started,
        // here.
        for pool in [pool, &live.pool] {
            let Err(reason) = pool.execute_all(&chunk) else { return };
            // Counted before they run: a task that looks at the count finds itself in it.
            chunk.identities().for_each(|task| live.reporter.task_rejected(task, &reason));
            // The driver looks after it only on the first pool.
            chunk.share();
        }
        while let Some(task) = chunk.claim() {
            task.run();
        }
    }
}

/// Where a due task goes.
pub(crate) enum Way<'a> {
    /// It runs on the thread that turns the driver.
    Here,
    Pool(&'a Pool),
    Other(&'a dyn Executor),
}

/// Where a due task goes, `inline` or not.
#[inline]
pub(crate) fn way_of(live: &Live, inline: bool) -> Way<'_> {
    match &live.executor {
        DefaultExecutor::Pool(pool) if !inline => Way::Pool(pool),
        DefaultExecutor::Other(executor) if !inline => Way::Other(&**executor),
        _ => Way::Here,
    }
}

/// When a task is handed over, and what came before that, if it is late by then.
pub(crate) type Moment = (u64, Option<std::sync::Arc<History>>);

/// Hands a task that was due at `due` to an executor, or to a substitute that accepts it.
pub(crate) fn hand_over(
    live: &Live,
    executor: &dyn Executor,
    task: RawTask,
    due: u64,
    moment: Moment,
) {
    hand_over_by(live, task, due, moment, |task| executor.execute(task));
}

/// Hands a task to the scheduler's executor, which is a pool, whether that is full or not.
pub(crate) fn hand_over_to_pool(live: &Live, pool: &Pool, task: RawTask, due: u64, moment: Moment) {
    hand_over_by(live, task, due, moment, |task| pool.admit(task));
}

fn hand_over_by(
    live: &Live,
    task: RawTask,
    due: u64,
    moment: Moment,
    execute: impl FnOnce(Runnable) -> Result<(), Rejected>,
) {
    let whose = task.whose();
    let task = Runnable::of_scheduler(task, due, moment, &live.reporter);
    let mut rejected: Option<Rejected> = None;
    live.reporter.contain_task(whose, PanicIn::Executor, || rejected = execute(task).err());
    // An accepted task runs, whatever its executor says: on the pool, full or not, or, where not a
    // single thread can be started, here.
    let fallbacks: [&dyn Fn(Runnable) -> Result<(), Rejected>; 2] =
        [&|task| live.pool.admit(task), &|task| Inline.execute(task)];
    for fallback in fallbacks {
        let Some(refused) = rejected.take() else { return };
        let (task, reason) = refused.into_parts();
        // Counted before it runs: a task that looks at the count finds itself in it.
        live.reporter.task_rejected(task.identity(), &reason);
        rejected = fallback(task).err();
    }
}

/// The body of a task that has an executor of its own: an inline one that hands the other over.
pub(crate) struct OnExecutor {
    pub(crate) task: RawTask,
    /// When it was due, unless that was moved.
    pub(crate) due: u64,
    pub(crate) executor: std::sync::Arc<dyn Executor>,
    pub(crate) live: Arc<Live>,
}

impl TaskBody for OnExecutor {
    fn run(self) {
        let Self { task, due, executor, live } = self;
        let now = live.clock.now();
        hand_over(&live, &*executor, task, due, (now, None));
    }

    const HANDS_OVER: bool = true;

    fn run_here(self) {
        self.task.run_here();
    }

    fn cancelled(self) {
        self.task.cancelled();
    }

    // Lost when dropped, as its task is.

    fn handed_back(&self) {
        self.task.handed_back();
    }
}
