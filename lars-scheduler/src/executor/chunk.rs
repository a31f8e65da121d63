//! Tasks that are handed over together and taken one by one.
//!
//! A chunk goes through the queues of a pool as one thing: one push, one wake-up, one reference to
//! the reporter. But no worker owns it. Each claims the next task when it is ready to run it, so a
//! task that blocks its worker keeps none of those behind it from running on another.
//!
//! Most chunks take less time than waking a worker does, and two workers that claim from one chunk
//! slow each other down. So the first worker keeps the chunk to itself. When it notices that the
//! tasks are slow, it offers the chunk to the others. A worker that is blocked by a task cannot
//! notice that. Then the driver offers the chunk, a millisecond after the hand-over
//! ([`Chunks::look`]). If no timer thread looks in time, the chunk is offered at once.
//!
//! Chunks are reused. Otherwise the thread that hands tasks over would allocate their memory, and
//! the threads that run tasks would free it. That is what allocators are worst at.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use crate::base::identity::TaskIdentity;
use crate::base::late::journal::History;
use crate::base::panics::{PanicIn, Reporter};
use crate::base::raw_task::RawTask;
use crate::base::run_clock::RunClock;
use crate::base::runs::RunsAt;
use crate::executor::Runnable;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use lars_base::debug_fields;

/// The most tasks of a chunk: enough that what they share costs little, and few enough that tasks
/// still begin about in order when each worker has a chunk of its own.
pub(crate) const CHUNK: usize = 64;

/// How many chunks are kept for reuse: 340 KB. That is how far a burst gets ahead of the pool while
/// the pool's threads start.
const KEPT: usize = 128;
/// How many claimed chunks remain in the end: as long as there are more, each reuse frees one.
const FEW: usize = 16;

/// How long after the hand-over of a chunk the driver looks whether all its tasks have been
/// claimed, in nanoseconds. A stream of timers wakes the timer thread that often in any case.
const HELP_AFTER: u64 = 1_000_000;

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
    /// Whether each worker that takes the chunk offers it to the others.
    shared: AtomicBool,
    /// When the chunk was handed to the pool.
    handed_over: u64,
    /// What came before that, if some of the tasks were late by then.
    before: Option<std::sync::Arc<History>>,
    reporter: Arc<Reporter>,
}

/// A chunk, as the queues of a pool, its workers and the driver share it.
pub(crate) type SharedChunk = Arc<Chunk>;

// SAFETY: through a shared reference a task can only be claimed, by one thread, which is then alone
// with it; and tasks are `Send`. The rest is `Sync` by itself.
unsafe impl Sync for Chunk {}

/// The chunks of one scheduler, which its driver keeps.
#[derive(Default)]
pub(crate) struct Chunks {
    /// Chunks that may have unclaimed tasks, in the order of their hand-over.
    under_way: VecDeque<SharedChunk>,
    /// Chunks whose tasks have all been claimed. A worker may still run the last of them.
    claimed: VecDeque<SharedChunk>,
    /// Whether the driver may have to look at a chunk that is under way.
    looks: bool,
}

impl Chunks {
    /// Moves the tasks into a chunk; there are at most [`CHUNK`] of them. If the driver does not
    /// look after the chunk, the workers [share](Chunk::is_shared) it at once.
    pub(crate) fn fill(
        &mut self,
        tasks: &mut Vec<Timed>,
        (handed_over, before): (u64, Option<std::sync::Arc<History>>),
        reporter: &Arc<Reporter>,
        is_looked_after: bool,
    ) -> SharedChunk {
        self.sort_out();
        let mut chunk = self.take().unwrap_or_else(|| Arc::new(Chunk::new(reporter)));
        let kept = self.under_way.len() + self.claimed.len() < KEPT;
        let alone = Arc::get_mut(&mut chunk).expect("nobody else refers to a chunk that is filled");
        alone.fill(tasks, (handed_over, before), !(kept && is_looked_after));
        if kept {
            self.looks |= is_looked_after;
            self.under_way.push_back(Arc::clone(&chunk));
        }
        chunk
    }

    /// Moves chunks from the front of `under_way` to `claimed`, up to the first that has unclaimed
    /// tasks. Looks at a single chunk if that is the first one.
    fn sort_out(&mut self) {
        while self.under_way.front().is_some_and(|chunk| !chunk.has_more()) {
            self.claimed.extend(self.under_way.pop_front());
        }
    }

    /// A chunk that nobody else refers to.
    fn take(&mut self) -> Option<SharedChunk> {
        let chunk = self.take_first()?;
        // More chunks were under way before than are now, so one of them is freed.
        if self.claimed.len() > FEW {
            drop(self.take_first());
        }
        Some(chunk)
    }

    fn take_first(&mut self) -> Option<SharedChunk> {
        let mut chunk = self.claimed.pop_front()?;
        if Arc::get_mut(&mut chunk).is_some() {
            return Some(chunk);
        }
        // A task that never ends keeps its own chunk, and none behind it.
        self.claimed.push_back(chunk);
        None
    }

    /// Calls `share` with each chunk that was handed over so long before `now` that more than one
    /// worker should take it. Says when to look next.
    #[inline]
    pub(crate) fn look(&mut self, now: u64, share: impl FnMut(&SharedChunk)) -> Option<u64> {
        if self.looks { self.look_closely(now, share) } else { None }
    }

    fn look_closely(&mut self, now: u64, mut share: impl FnMut(&SharedChunk)) -> Option<u64> {
        self.sort_out();
        for chunk in &self.under_way {
            let age = now.saturating_sub(chunk.handed_over);
            if age < HELP_AFTER {
                return Some(chunk.handed_over.saturating_add(HELP_AFTER));
            }
            if chunk.has_more() && !chunk.is_shared() {
                share(chunk);
            }
        }
        self.looks = false;
        None
    }

    /// Calls `share` with all chunks that would need a look, because nobody may look for a while.
    #[inline]
    pub(crate) fn share_all(&mut self, share: impl FnMut(&SharedChunk)) {
        if std::mem::take(&mut self.looks) {
            self.sort_out();
            self.under_way.iter().filter(|chunk| !chunk.is_shared()).for_each(share);
        }
    }
}

debug_fields!(|it: Chunks| under_way: it.under_way.len(), claimed: it.claimed.len());

impl Chunk {
    fn new(reporter: &Arc<Reporter>) -> Self {
        let (tasks, claimed) = (Vec::with_capacity(CHUNK), AtomicUsize::new(0));
        let (shared, reporter) = (AtomicBool::new(false), Arc::clone(reporter));
        Self { tasks, claimed, shared, handed_over: 0, before: None, reporter }
    }

    fn fill(
        &mut self,
        tasks: &mut Vec<Timed>,
        (handed_over, before): (u64, Option<std::sync::Arc<History>>),
        shared: bool,
    ) {
        self.lose_unclaimed();
        self.tasks.clear();
        self.tasks.extend(tasks.drain(..).map(ManuallyDrop::new));
        // Relaxed, both: nobody else refers to the chunk.
        self.claimed.store(0, Ordering::Relaxed);
        self.shared.store(shared, Ordering::Relaxed);
        (self.handed_over, self.before) = (handed_over, before);
    }

    /// Drops unclaimed tasks as lost. There are none if the pool has run to its end.
    fn lose_unclaimed(&mut self) {
        // Relaxed: nobody else refers to the chunk.
        let claimed = self.claimed.load(Ordering::Relaxed).min(self.tasks.len());
        for timed in self.tasks.drain(claimed..) {
            let Timed { task, due } = ManuallyDrop::into_inner(timed);
            drop(Runnable::of_scheduler(task, due, (self.handed_over, None), &self.reporter));
        }
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
            let before = self.before.as_ref();
            runs.begin_job((self.handed_over, before), clock, &self.reporter);
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

    /// Whether each worker that takes the chunk offers it to the others. Otherwise the first worker
    /// keeps it to itself, until the tasks turn out to be slow.
    pub(crate) fn is_shared(&self) -> bool {
        // Relaxed: a hint. The thread that sets it puts the chunk into a queue afterwards.
        self.shared.load(Ordering::Relaxed)
    }

    /// From now on each worker that takes the chunk offers it. The caller puts it into a queue.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed); // see `is_shared`
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

impl Drop for Chunk {
    fn drop(&mut self) {
        self.lose_unclaimed();
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests;
