//! What the calling side and the timer side have in common, and how long it lives.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use crossbeam_utils::CachePadded;

use crate::arena::Arena;
use crate::clock::Clock;
use crate::entry::Entry;
use crate::error::Refusal;
use crate::executor::Executor;
use crate::executor::pool::Pool;
use crate::lane::Lanes;
use crate::metrics::{DriverCounts, Metrics};
use crate::report::Reporter;
use crate::shutdown::StopWord;
use crate::sleep::SleepWord;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, Unparker, thread};
use crate::tick::Tick;

/// Where tasks go that do not say otherwise.
pub(crate) enum DefaultExecutor {
    Pool,
    Inline,
    Own(std::sync::Arc<dyn Executor>),
}

/// `max_pending`, and how much of it is used.
#[derive(Debug)]
pub(crate) struct Limit {
    max: usize,
    used: CachePadded<AtomicUsize>,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, used: CachePadded::new(AtomicUsize::new(0)) }
    }

    /// Reserves so many places, or none if fewer are left.
    fn reserve(&self, places: usize) -> bool {
        // Relaxed: a number and nothing else; the exchange makes it exact.
        let mut used = self.used.load(Ordering::Relaxed);
        while places <= self.max - used {
            let more = used + places;
            match self.used.compare_exchange_weak(used, more, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
        false
    }

    fn release(&self, places: usize) {
        // Relaxed: as above.
        self.used.fetch_sub(places, Ordering::Relaxed);
    }
}

/// The settings of a scheduler, checked.
pub(crate) struct Settings {
    pub(crate) tick: Tick,
    /// How long a wake-up may be put off, in nanoseconds.
    pub(crate) coalesce: u64,
    /// How many lanes there are with an owner, and without.
    pub(crate) lanes: (usize, usize),
    pub(crate) limit: Option<usize>,
    pub(crate) executor: DefaultExecutor,
    pub(crate) pool: Pool,
    pub(crate) reporter: Reporter,
}

/// The shared state.
pub(crate) struct Core {
    pub(crate) lanes: Lanes,
    pub(crate) arena: Arena,
    pub(crate) sleep: SleepWord,
    pub(crate) stop: StopWord,
    pub(crate) clock: Clock,
    pub(crate) tick: Tick,
    pub(crate) coalesce: u64,
    pub(crate) limit: Option<Limit>,
    pub(crate) counts: DriverCounts,
    /// Calls refused before an entry was found for them.
    pub(crate) refused_early: AtomicU64,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) executor: DefaultExecutor,
    pub(crate) pool: Pool,
    /// The thread that turns the driver, while it may run tasks.
    pub(crate) driven_by: Mutex<Option<thread::ThreadId>>,
}

impl Core {
    pub(crate) fn new(settings: Settings, clock: Clock, unparker: Unparker) -> Self {
        Self {
            lanes: Lanes::new(settings.lanes.0, settings.lanes.1),
            arena: Arena::new(),
            sleep: SleepWord::new(unparker),
            stop: StopWord::new(),
            clock,
            tick: settings.tick,
            coalesce: settings.coalesce,
            limit: settings.limit.map(Limit::new),
            counts: DriverCounts::new(),
            refused_early: AtomicU64::new(0),
            reporter: Arc::new(settings.reporter),
            executor: settings.executor,
            pool: settings.pool,
            driven_by: Mutex::new(None),
        }
    }

    /// The instant by which the driver must have popped an entry of this deadline: when it wakes up for the
    /// deadline's tick, that is early enough.
    #[inline]
    pub(crate) fn pop_by(&self, deadline: u64, immediate: bool) -> u64 {
        if immediate { 0 } else { deadline.saturating_add(self.tick.nanos() - 1 + self.coalesce) }
    }

    /// Takes a place for each of so many timers, or for all runs of a repeat.
    #[inline]
    pub(crate) fn reserve_places(&self, places: usize) -> Result<(), Refusal> {
        match &self.limit {
            Some(limit) if !limit.reserve(places) => {
                // Relaxed: a statistic.
                self.refused_early.fetch_add(places as u64, Ordering::Relaxed);
                Err(Refusal::Full { limit: limit.max })
            }
            _ => Ok(()),
        }
    }

    /// Gives back the places of timers that are no longer pending.
    #[inline]
    pub(crate) fn release_places(&self, places: usize) {
        if let Some(limit) = &self.limit {
            limit.release(places);
        }
    }

    /// Whether the calling thread is turning the driver right now: inside an inline task, a hook or
    /// a destructor that the scheduler runs.
    pub(crate) fn is_driven_here(&self) -> bool {
        *self.driven_by.lock() == Some(thread::current().id())
    }

    fn tally(&self) -> Tally {
        // What ends timers first, what starts them last: a count that moves meanwhile makes
        // `pending` too large, never negative. Acquire: pairs with the writers' releases, so that who
        // sees a timer end has seen it begin.
        let fired = self.counts.fired.load(Ordering::Acquire);
        let handed_back = self.counts.handed_back.load(Ordering::Acquire);
        let mut cancelled = 0;
        let mut refused = 0;
        for lane in self.lanes.iter() {
            cancelled += lane.cancels();
            refused += lane.refused();
        }
        let given_out: u64 = self.lanes.iter().map(|lane| lane.accepted()).sum();
        let scheduled = given_out.saturating_sub(refused);
        Tally { scheduled, fired, cancelled, handed_back, refused }
    }

    pub(crate) fn pending(&self) -> u64 {
        self.tally().pending()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let tally = self.tally();
        Metrics {
            scheduled: tally.scheduled,
            fired: tally.fired,
            cancelled: tally.cancelled,
            handed_back: tally.handed_back,
            pending: tally.pending(),
            refused: tally.refused + self.refused_early.load(Ordering::Relaxed),
            panicked: self.reporter.panics(),
            rejected_by_executor: self.reporter.rejected(),
            abandoned_by_executor: self.reporter.abandoned(),
            wake_ups: self.counts.wake_ups.load(Ordering::Relaxed),
            restarts: self.counts.restarts.load(Ordering::Relaxed),
            timer_memory: self.arena.capacity() * size_of::<Entry>(),
            lateness: self.counts.lateness(),
        }
    }
}

/// The counts that add up.
struct Tally {
    scheduled: u64,
    fired: u64,
    cancelled: u64,
    handed_back: u64,
    /// Given out, and taken back because of a stop.
    refused: u64,
}

impl Tally {
    fn pending(&self) -> u64 {
        self.scheduled.saturating_sub(self.fired + self.cancelled + self.handed_back)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("tick", &self.tick).finish_non_exhaustive()
    }
}

/// A counted share of the core. The last one to go orphans the entries that cancellables still
/// refer to; then those keep the core alive. See [`arena`](crate::arena).
#[derive(Debug)]
pub(crate) struct Live {
    core: ManuallyDrop<Arc<Core>>,
}

impl Live {
    pub(crate) fn new(core: Core) -> Arc<Self> {
        Arc::new(Self { core: ManuallyDrop::new(Arc::new(core)) })
    }

    /// The address that entries' handles keep. It may reach all of the allocation, counts included, so that
    /// the last orphan can take the share back with it.
    pub(crate) fn address(&self) -> *const Core {
        Arc::as_ptr(&self.core)
    }
}

impl Deref for Live {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Nobody can submit to the pool any more. Its threads finish what they have, whoever still holds a
        // cancellable and with it the core.
        self.core.pool.end();
        // SAFETY: taken once, here; `self.core` is not used again.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        // This share of the core becomes the orphans': the last of them drops it. Until `orphan`
        // has counted them all, none of them can be the last, so `core` stays alive across the call.
        let address = Arc::into_raw(core);
        // SAFETY: as is said above; and a driver has a counted share, of which this was the last.
        unsafe { (*address).lanes.iter().for_each(|lane| lane.close()) };
        // SAFETY: the share that `address` stands for is still ours.
        let handles_left = unsafe { Arena::orphan(&raw const (*address).arena) };
        if !handles_left {
            // SAFETY: no handle will report, so the share has no other taker.
            drop(unsafe { Arc::from_raw(address) });
        }
    }
}

/// A handle that was told by its entry that it is an orphan reports; the last one frees the core.
///
/// # Safety
///
/// `core` is the address that `Live::address` gave, and the caller has just cleared the handle bit
/// of an entry of this core and found the orphan bit set. It does not touch the core again.
pub(crate) unsafe fn report_orphan(core: *const Core) {
    // SAFETY: the orphans' share is dropped by the last of them; we have not reported yet.
    let last = unsafe { Arena::report(&raw const (*core).arena) };
    if last {
        // SAFETY: `Live::drop` left the share to the last orphan, which this is.
        drop(unsafe { Arc::from_raw(core) });
    }
}
