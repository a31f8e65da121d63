//! What the calling side and the timer side have in common, and how long it lives.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use crossbeam_utils::CachePadded;

use crate::base::backpressure::Backpressure;
use crate::base::clock::Clock;
use crate::base::deadline::Deadline;
use crate::base::error::Refusal;
use crate::base::panics::Reporter;
use crate::base::tick::Tick;
use crate::engine::arena::Arena;
use crate::engine::counts::DriverCounts;
use crate::engine::entry::Entry;
use crate::engine::lanes::LaneSettings;
use crate::engine::listing::Requests;
use crate::engine::pace::Pace;
use crate::engine::sleep_word::{Alarm, FOREVER, SleepWord};
use crate::engine::stop_word::StopWord;
use crate::executor::Executor;
use crate::executor::pool::Pool;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, thread};
use lars_base::debug_fields;

/// Where tasks go that do not say otherwise.
pub(crate) enum DefaultExecutor {
    Inline,
    /// The scheduler's own pool, or one that it was given.
    Pool(Pool),
    Other(std::sync::Arc<dyn Executor>),
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

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Reserves this many places, or none if fewer are left.
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
        // Relaxed: a number and nothing else; the subtraction is exact.
        self.used.fetch_sub(places, Ordering::Relaxed);
    }
}

/// The settings of a scheduler, checked.
pub(crate) struct Settings {
    pub(crate) tick: Tick,
    /// How long a wake-up may be put off, in nanoseconds.
    pub(crate) coalesce: u64,
    pub(crate) lanes: LaneSettings,
    pub(crate) limit: Option<usize>,
    pub(crate) backpressure: Backpressure,
    pub(crate) capture_spans: bool,
    pub(crate) reporter: Reporter,
}

/// Where tasks go.
pub(crate) struct Executors {
    pub(crate) default: DefaultExecutor,
    /// The scheduler's own, also for what another executor rejects.
    pub(crate) pool: Pool,
}

/// The shared state.
pub(crate) struct Core {
    pub(crate) arena: Arena,
    pub(crate) sleep: SleepWord,
    pub(crate) pace: Pace,
    pub(crate) stop: StopWord,
    pub(crate) requests: Requests,
    pub(crate) clock: Clock,
    pub(crate) tick: Tick,
    pub(crate) coalesce: u64,
    pub(crate) limit: Option<Limit>,
    pub(crate) counts: DriverCounts,
    /// Calls refused before an entry was found for them.
    pub(crate) refused_early: AtomicU64,
    pub(crate) reporter: Arc<Reporter>,
    /// The thread that turns the driver, while it may run tasks.
    pub(crate) driven_by: Mutex<Option<thread::ThreadId>>,
}

impl Core {
    fn new(settings: Settings, clock: Clock, alarm: Alarm) -> Self {
        let mut reporter = settings.reporter;
        reporter.clock = Some(clock.clone());
        Self {
            arena: Arena::new(settings.lanes, Pace::credit(settings.backpressure)),
            pace: Pace::new(settings.backpressure),
            sleep: SleepWord::new(alarm),
            stop: StopWord::new(),
            requests: Requests::new(),
            clock,
            tick: settings.tick,
            coalesce: settings.coalesce,
            limit: settings.limit.map(Limit::new),
            counts: DriverCounts::default(),
            refused_early: AtomicU64::new(0),
            reporter: Arc::new(reporter),
            driven_by: Mutex::new(None),
        }
    }

    /// The instant by which the driver must have popped an entry of this deadline: when it wakes up
    /// for the deadline's tick, that is early enough.
    #[inline]
    pub(crate) fn pop_by(&self, due: Deadline) -> u64 {
        if due.immediate { 0 } else { due.at.saturating_add(self.tick.nanos() - 1 + self.coalesce) }
    }

    /// Until when the driver sleeps if the next timer is due at `instant`.
    pub(crate) fn sleep_until(&self, now: u64, instant: u64) -> u64 {
        let until = instant.saturating_add(self.coalesce).min(FOREVER);
        self.clock.look_again_by(now, until)
    }

    /// The tick by which the driver must visit a lane that has an entry of this deadline in its
    /// intake.
    pub(crate) fn tick_of(&self, due: Deadline) -> u64 {
        if due.immediate { 0 } else { self.tick.at_or_after(due.at) }
    }

    /// When a timer of this deadline fires if the driver is punctual: at the tick that the deadline
    /// is rounded up to, and at the end of the window for wake-ups that begins there.
    pub(crate) fn fires_at(&self, due: Deadline) -> u64 {
        if due.immediate { due.at } else { self.visit_by(self.tick_of(due)) }
    }

    /// The instant by which the driver must visit a lane, if it has to by this tick.
    pub(crate) fn visit_by(&self, tick: u64) -> u64 {
        match tick {
            0 => 0,
            tick => self.tick.start_of(tick).saturating_add(self.coalesce),
        }
    }

    /// Whether this many tasks may come in; takes `places` for them if they need any.
    #[inline]
    pub(crate) fn admit(&self, tasks: usize, places: bool) -> Result<(), Refusal> {
        if self.stop.is_requested() {
            // Relaxed: a statistic.
            self.refused_early.fetch_add(tasks as u64, Ordering::Relaxed);
            return Err(Refusal::Stopped);
        }
        if places { self.reserve_places(tasks) } else { Ok(()) }
    }

    /// Takes a place for each of this many timers, or for all runs of a repeat.
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

    pub(crate) fn tally(&self) -> Tally {
        // What ends timers first, what starts them last: a count that moves meanwhile makes
        // `pending` too large, never negative. Acquire: pairs with the writers' releases, so that a
        // reader that sees a timer end has seen it begin.
        let fired = self.counts.fired.load(Ordering::Acquire);
        let handed_back = self.counts.handed_back.load(Ordering::Acquire);
        let mut cancelled = 0;
        let mut refused = 0;
        for lane in self.arena.lanes.iter() {
            cancelled += lane.cancels();
            refused += lane.refused();
        }
        let given_out: u64 = self.arena.lanes.iter().map(|lane| lane.accepted()).sum();
        let scheduled = given_out.saturating_sub(refused);
        Tally { scheduled, fired, cancelled, handed_back, refused }
    }

    pub(crate) fn pending(&self) -> u64 {
        self.tally().pending()
    }

    /// Bytes held for timers.
    pub(crate) fn timer_memory(&self) -> usize {
        self.arena.capacity() * size_of::<Entry>()
    }
}

/// The counts that add up.
pub(crate) struct Tally {
    pub(crate) scheduled: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) handed_back: u64,
    /// Given out, and taken back because of a stop.
    pub(crate) refused: u64,
}

impl Tally {
    pub(crate) fn pending(&self) -> u64 {
        self.scheduled.saturating_sub(self.fired + self.cancelled + self.handed_back)
    }
}

debug_fields!(|it: Core| tick: it.tick);

/// A counted share of the core, with what only scheduling and firing need. When the last one is
/// dropped, it orphans the entries that cancellables still refer to. Then those keep the core
/// alive, but no executor. See [`arena`](crate::engine::arena).
pub(crate) struct Live {
    core: ManuallyDrop<Arc<Core>>,
    pub(crate) executor: DefaultExecutor,
    /// Whether tasks run in the spans in which they were scheduled.
    pub(crate) capture_spans: bool,
    /// The scheduler's own. Its threads finish what they have, even while cancellables exist.
    pub(crate) pool: Pool,
}

impl Live {
    pub(crate) fn new(
        mut settings: Settings,
        executors: Executors,
        clock: Clock,
        alarm: impl Into<Alarm>,
    ) -> Arc<Self> {
        let Executors { default, pool } = executors;
        settings.reporter.runs = pool_of_tasks(&default, &pool).runs();
        let capture_spans = settings.capture_spans;
        let core = Arc::new(Core::new(settings, clock, alarm.into()));
        Arc::new(Self { core: ManuallyDrop::new(core), executor: default, capture_spans, pool })
    }

    /// The pool to which tasks go: the scheduler's own, unless it was given another.
    pub(crate) fn pool_of_tasks(&self) -> &Pool {
        pool_of_tasks(&self.executor, &self.pool)
    }

    /// The address that entries' handles keep. It may reach all of the allocation, counts included,
    /// so that the last orphan can take the share back with it.
    pub(crate) fn address(&self) -> *const Core {
        Arc::as_ptr(&self.core)
    }
}

fn pool_of_tasks<'a>(default: &'a DefaultExecutor, own: &'a Pool) -> &'a Pool {
    match default {
        DefaultExecutor::Pool(pool) => pool,
        DefaultExecutor::Inline | DefaultExecutor::Other(_) => own,
    }
}

debug_fields!(|it: Live| core: **it.core);

impl Deref for Live {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // SAFETY: this is the only place that takes it, and `self.core` is not used again.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        // This share of the core becomes the orphans': the last of them drops it. Until `orphan`
        // has counted them all, none of them can be the last, so `core` stays alive across the
        // call.
        let address = Arc::into_raw(core);
        // SAFETY: no orphan can be the last before `orphan` has counted them, so the core is alive.
        // A driver, and a thread that schedules, have counted shares, and this was the last of
        // those.
        unsafe { (*address).arena.lanes.close() };
        // SAFETY: `address` stands for a share of the core that nobody has dropped, so it is alive.
        let handles_left = unsafe { Arena::orphan(&raw const (*address).arena) };
        if !handles_left {
            // SAFETY: no handle will report, so nobody else drops this share.
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
    debug_assert!(!core.is_null() && core.is_aligned(), "{core:p} is no core's address");
    // SAFETY: the last orphan to report drops the orphans' share. This one has not reported yet, so
    // the core is alive.
    let last = unsafe { Arena::report(&raw const (*core).arena) };
    if last {
        // SAFETY: `Live::drop` left the share to the last orphan, which this is.
        drop(unsafe { Arc::from_raw(core) });
    }
}
