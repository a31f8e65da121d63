//! Tasks that are handed over together and taken one by one.
//!
//! A chunk goes through the queues of a pool as one thing: one push, one wake-up, one reference to
//! the reporter. But no worker owns it. Each claims the next task when it is ready to run it, so a
//! task that blocks its worker keeps none of those behind it from running on another.

use std::mem::ManuallyDrop;

use crate::base::identity::TaskIdentity;
use crate::base::panics::{PanicIn, Reporter};
use crate::base::raw_task::RawTask;
use crate::base::run_clock::RunClock;
use crate::base::runs::RunsAt;
use crate::executor::Runnable;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// The most tasks of a chunk: enough that what they share costs little, and few enough that workers
/// with a chunk each still begin about in order.
pub(crate) const CHUNK: usize = 64;

/// A task, and when it was due.
///
/// In this order, so that each half of the task is copied by a load that lies inside one of the
/// stores of the copy before. With the instant in front, a processor waits until both stores are
/// through: 5 ns a task.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timed {
    pub(crate) task: RawTask,
    pub(crate) due: u64,
}

/// Tasks in the order in which they are claimed.
pub(crate) struct Chunk {
    /// Those below `claimed` belong to the threads that claimed them.
    tasks: Vec<ManuallyDrop<Timed>>,
    /// How many have been claimed; exceeds the number of tasks once a worker came too late.
    claimed: AtomicUsize,
    /// When the chunk was handed to the pool.
    handed_over: u64,
    reporter: Arc<Reporter>,
}

// SAFETY: through a shared reference a task can only be claimed, by one thread, which is then alone
// with it; and tasks are `Send`. The rest is `Sync` by itself.
unsafe impl Sync for Chunk {}

impl Chunk {
    pub(crate) fn new(tasks: Vec<Timed>, handed_over: u64, reporter: &Arc<Reporter>) -> Self {
        let reporter = Arc::clone(reporter);
        // (In place: it costs nothing.)
        let tasks = tasks.into_iter().map(ManuallyDrop::new).collect();
        Self { tasks, claimed: AtomicUsize::new(0), handed_over, reporter }
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Tasks of the chunk are about to begin on a thread whose clock this is.
    pub(crate) fn begin(&self, runs: &mut RunClock) {
        if let Some(clock) = &self.reporter.clock {
            runs.begin_job(self.handed_over, clock, &self.reporter);
        }
    }

    /// Whose the tasks are.
    pub(crate) fn identities(&self) -> impl Iterator<Item = TaskIdentity> {
        self.tasks.iter().map(|timed| timed.task.identity())
    }

    /// Whether there is a task that nobody has claimed.
    pub(crate) fn has_more(&self) -> bool {
        // Relaxed: a hint.
        self.claimed.load(Ordering::Relaxed) < self.tasks.len()
    }

    /// Claims the first task that nobody has claimed.
    #[inline]
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        if !self.has_more() {
            return None; // or the count could wrap
        }
        // Relaxed: a thread that has a reference to the chunk has seen its tasks, and each task
        // changes only in the hands of the thread that claimed it.
        let index = self.claimed.fetch_add(1, Ordering::Relaxed);
        (index < self.tasks.len()).then_some(Claim { chunk: self, index })
    }
}

/// The right to run one task of a chunk, and the duty: a claim that is dropped leaks the task.
#[must_use]
pub(crate) struct Claim<'a> {
    chunk: &'a Chunk,
    index: usize,
}

impl Claim<'_> {
    /// The task begins on a thread whose clock this is.
    #[inline]
    pub(crate) fn begin(&self, runs: &mut RunClock, at: RunsAt<'_>) {
        if let Some(clock) = &self.chunk.reporter.clock {
            let Timed { task, due } = &*self.chunk.tasks[self.index];
            at.began(runs.begin(task, *due, clock, &self.chunk.reporter));
        }
    }

    /// Runs the task where it lies. A panic in it is contained.
    #[inline]
    pub(crate) fn run(self) {
        let Timed { task, .. } = &*self.chunk.tasks[self.index];
        // SAFETY: there is one claim for each index, and it is used up. Neither another claim nor
        // the chunk's destructor touches the task of an index that was claimed.
        let run = || unsafe { task.run_in_place() };
        self.chunk.reporter.contain_task(task.whose(), PanicIn::Task, run);
    }
}

/// Tasks that nobody has claimed are lost.
impl Drop for Chunk {
    fn drop(&mut self) {
        // Relaxed: nobody else refers to the chunk.
        let claimed = self.claimed.load(Ordering::Relaxed).min(self.tasks.len());
        for timed in &mut self.tasks[claimed..] {
            // SAFETY: nobody has claimed this task, nor can anybody, and it is taken once.
            let Timed { task, due } = unsafe { ManuallyDrop::take(timed) };
            drop(Runnable::of_scheduler(task, due, self.handed_over, &self.reporter));
        }
    }
}
