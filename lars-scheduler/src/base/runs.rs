//! What is recorded of the tasks that a scheduler hands to executors.

use crossbeam_utils::CachePadded;

use lars_base::durations::Recorder;

/// What is recorded of their runs.
#[derive(Debug)]
pub(crate) struct Runs {
    /// How late they began.
    pub(crate) lateness: Recorder,
    /// How long they waited for a thread.
    pub(crate) waits: Recorder,
    /// How long they ran.
    pub(crate) took: Recorder,
}

impl Runs {
    fn new() -> CachePadded<Self> {
        let (lateness, waits, took) = (Recorder::new(), Recorder::new(), Recorder::new());
        CachePadded::new(Self { lateness, waits, took })
    }
}

/// One thread of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolThread {
    /// The address of the pool. No other pool has it while a thread of this one runs.
    pub(crate) pool: usize,
    pub(crate) number: usize,
}

/// What each thread records that runs tasks of one scheduler.
///
/// The threads of one pool, the one to which most tasks go, have places of their own, in which they
/// store. All others share a place, in which they add atomically.
#[derive(Debug)]
pub(crate) struct RunsByThread {
    pool: usize,
    threads: Box<[CachePadded<Runs>]>,
    others: CachePadded<Runs>,
}

impl RunsByThread {
    /// With places for this many threads of the pool at this address.
    pub(crate) fn new(pool: usize, threads: usize) -> Self {
        let threads = (0..threads).map(|_| Runs::new()).collect();
        Self { pool, threads, others: Runs::new() }
    }

    /// Where the thread of a pool records.
    #[inline]
    pub(crate) fn at(&self, thread: PoolThread) -> RunsAt<'_> {
        // (The number is always in range: the threads of a pool that had this address before are
        // gone, and so are its places, unless there are as many now.)
        match self.threads.get(thread.number) {
            Some(runs) if thread.pool == self.pool => RunsAt { runs, alone: true },
            _ => self.elsewhere(),
        }
    }

    /// Where any other thread records.
    #[inline]
    pub(crate) fn elsewhere(&self) -> RunsAt<'_> {
        RunsAt { runs: &self.others, alone: false }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Runs> {
        self.threads.iter().chain([&self.others]).map(|runs| &**runs)
    }
}

impl Default for RunsByThread {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

/// Where a thread records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunsAt<'a> {
    runs: &'a Runs,
    /// Whether it is the only one there.
    alone: bool,
}

impl RunsAt<'_> {
    /// A task began this late, in nanoseconds.
    #[inline]
    pub(crate) fn began(&self, late: u64) {
        self.record(&self.runs.lateness, late, 1);
    }

    /// This many tasks waited for a thread for this long each.
    #[inline]
    pub(crate) fn waited(&self, nanos: u64, tasks: u64) {
        self.record(&self.runs.waits, nanos, tasks);
    }

    /// This many tasks ran for this long each.
    #[inline]
    pub(crate) fn took(&self, nanos: u64, tasks: u64) {
        self.record(&self.runs.took, nanos, tasks);
    }

    #[inline]
    fn record(&self, recorder: &Recorder, nanos: u64, times: u64) {
        if self.alone {
            recorder.record(nanos, times);
        } else {
            recorder.record_shared(nanos, times);
        }
    }
}
