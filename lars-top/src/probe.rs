//! The probe: looks into a scheduler and its actors, and makes a snapshot of what it sees.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use lars_scheduler::hooks::{RanOn, SlowTask};
use lars_scheduler::late::{Lateness, Who};
use lars_scheduler::listing::{Listing, ListingFuture, TimerKind, TimerQuery};
use lars_scheduler::metrics::Durations;
use lars_scheduler::{Handle, Metrics, TaskIdentity};
use mini_actor::System;
use mini_actor::hooks::{Subscription, Undelivered};

use crate::snapshot::{
    Actor, Actors, Counts, Executor, Group, Late, LateRow, Letter, Level, Pending, RunTime, Slow,
    Snapshot, Spread, ThreadWaits, Timer, VERSION,
};
use crate::sync::{Arc, Mutex, now};
use crate::threads;

/// How long a snapshot waits for a listing. If it takes longer, the next snapshot has it.
const PATIENCE: Duration = Duration::from_millis(100);
/// A listing, or a look at all actors, takes at most one part in this many of the time.
const SHARE: u32 = 20;
/// How many groups, timers, actors a snapshot names.
const GROUPS: usize = 500;
const NEXT: usize = 50;
const BUSIEST: usize = 500;
/// How many reasons for lateness.
const REASONS: usize = 50;
/// How many slow tasks, and dead letters, are remembered.
const REMEMBERED: usize = 64;
/// The longest text of a snapshot, in bytes.
const LONGEST: usize = 512;

/// Remembers the last slow tasks of a scheduler, for a [`Probe`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use lars_top::{Probe, SlowLog};
/// use std::time::Duration;
///
/// let slow = SlowLog::new();
/// let scheduler = LightArrayRevolverScheduler::builder()
///     .slow_inline(Duration::from_millis(2))
///     .on_slow(slow.hook())
///     .build()?;
/// let probe = Probe::new(scheduler.handle()).slow_log(&slow);
///
/// let blocks = Task::new(|| std::thread::sleep(Duration::from_millis(3))).named("blocks");
/// scheduler.schedule_once(Duration::ZERO, blocks.inline())?;
/// while probe.snapshot().slow.is_empty() {}
/// assert_eq!(probe.snapshot().slow[0].label, "blocks");
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct SlowLog {
    ring: Arc<Mutex<VecDeque<SlowEntry>>>,
}

struct SlowEntry {
    at: Instant,
    task: TaskIdentity,
    on: RanOn,
    lateness: Duration,
    run_time: Duration,
    others: usize,
}

impl SlowLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// The hook for [`Builder::on_slow`](lars_scheduler::Builder::on_slow). A hook of your own may
    /// call it.
    pub fn hook(&self) -> impl Fn(&SlowTask<'_>) + Send + Sync + 'static {
        let ring = Arc::clone(&self.ring);
        move |slow| {
            let (task, on, lateness, run_time) = (slow.task, slow.on, slow.lateness, slow.run_time);
            let entry =
                SlowEntry { at: now(), task, on, lateness, run_time, others: slow.others.len() };
            remember(&mut ring.lock(), entry);
        }
    }

    fn newest_first(&self) -> Vec<Slow> {
        let slow = |entry: &SlowEntry| Slow {
            age: since(entry.at),
            label: text(entry.task.label()),
            place: place(&entry.task),
            on_timer_thread: entry.on == RanOn::TimerThread,
            lateness: nanos(entry.lateness),
            run_time: nanos(entry.run_time),
            others: entry.others as u64,
        };
        self.ring.lock().iter().rev().map(slow).collect()
    }
}

impl fmt::Debug for SlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowLog").field("remembered", &self.ring.lock().len()).finish()
    }
}

/// The last dead letters of a system.
#[derive(Default)]
struct Letters {
    ring: Mutex<VecDeque<(Instant, Letter)>>,
}

impl Letters {
    fn newest_first(&self) -> Vec<Letter> {
        let letter =
            |(at, letter): &(Instant, Letter)| Letter { age: since(*at), ..letter.clone() };
        self.ring.lock().iter().rev().map(letter).collect()
    }
}

/// Looks into a scheduler, and into a system of actors and at late runs if it is given those. Cheap
/// to clone, `Send` and `Sync`.
///
/// It costs nothing until somebody asks for a snapshot. It does not keep the scheduler running, nor
/// the system open.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_top::Probe;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let _ = scheduler.schedule_once(Duration::from_secs(30), || println!("time is up"))?;
/// let snapshot = Probe::new(scheduler.handle()).named("demo").snapshot();
/// assert_eq!((&*snapshot.program, snapshot.counts.pending), ("demo", 1));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Probe {
    timers: Handle,
    system: Option<Watched>,
    late_runs: Option<LateRuns>,
    program: String,
    slow: SlowLog,
    born: Instant,
    state: Arc<Mutex<State>>,
}

type LateRuns = Arc<dyn Fn() -> Lateness + Send + Sync>;

#[derive(Clone)]
struct Watched {
    system: System,
    letters: Arc<Letters>,
    /// Ends with the last clone of the probe.
    _subscription: Arc<Subscription>,
}

impl Watched {
    /// What its system shows; of the busiest actors what was seen last, and how long ago.
    fn actors(&self, (age, busiest): (u64, Vec<Actor>)) -> Actors {
        let metrics = self.system.metrics();
        Actors {
            system: self.system.name().to_owned(),
            alive: metrics.alive as u64,
            stopped: metrics.stopped,
            processed: metrics.processed,
            panicked: metrics.panicked,
            restarts: metrics.restarts,
            dead_letters: metrics.dead_letters,
            slow_receives: metrics.slow_receives,
            busiest,
            age,
            letters: self.letters.newest_first(),
            late: Late::of(&self.system.lateness()),
        }
    }
}

/// What takes longer, and is therefore not made anew for each snapshot.
#[derive(Default)]
struct State {
    listing: Option<Asked>,
    pending: Option<(Instant, Pending)>,
    busiest: Option<Looked>,
}

struct Asked {
    at: Instant,
    listing: ListingFuture,
}

struct Looked {
    at: Instant,
    took: Duration,
    actors: Vec<Actor>,
}

impl Probe {
    /// A probe of this scheduler.
    pub fn new(timers: Handle) -> Self {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()?.to_str());
        Self {
            timers,
            system: None,
            late_runs: None,
            program: program.unwrap_or("?").to_owned(),
            slow: SlowLog::new(),
            born: now(),
            state: Arc::default(),
        }
    }

    /// A probe of this system of actors and its scheduler. From then on it remembers the last dead
    /// letters.
    pub fn of_system(system: &System) -> Self {
        Self::new(system.scheduler().timers().clone()).system(system)
    }

    /// Looks at the actors of this system, too.
    pub fn system(mut self, system: &System) -> Self {
        let letters = Arc::new(Letters::default());
        let ring = Arc::clone(&letters);
        let subscription = system.on_dead_letter(move |letter| {
            let reason = match letter.reason {
                Undelivered::Stopped => "stopped",
                Undelivered::Full => "mailbox full",
                Undelivered::Late => "late answer",
                _ => "?",
            };
            let (recipient, message) = (text(letter.recipient), text(letter.message_type));
            let letter = Letter { age: 0, recipient, message, reason: reason.to_owned() };
            remember(&mut ring.ring.lock(), (now(), letter));
        });
        let (system, _subscription) = (system.clone(), Arc::new(subscription));
        self.system = Some(Watched { system, letters, _subscription });
        self
    }

    /// Shows why runs of durable timers began late, too, if the node explains that
    /// (`lars_durable::Builder::explain_late`). `look` returns its table, for each snapshot anew.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "durable")] // with which lars-durable is there
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::Durable;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_top::Probe;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let durable = Durable::in_memory().explain_late(Duration::from_millis(5)).start()?;
    /// let timers = durable.timers();
    /// let probe = Probe::new(scheduler.handle()).late_runs(move || timers.lateness());
    /// let late = probe.snapshot().late_runs.ok_or("the node explains it")?;
    /// assert_eq!((late.bound, late.count), (5_000_000, 0));
    /// # Ok(()) }
    /// # #[cfg(not(feature = "durable"))]
    /// # fn main() {}
    /// ```
    pub fn late_runs(mut self, look: impl Fn() -> Lateness + Send + Sync + 'static) -> Self {
        self.late_runs = Some(Arc::new(look));
        self
    }

    /// Shows the slow tasks that this log remembers.
    pub fn slow_log(mut self, slow: &SlowLog) -> Self {
        self.slow = slow.clone();
        self
    }

    /// The name that a view shows for the program. By default it is that of its executable file.
    pub fn named(mut self, program: impl Into<String>) -> Self {
        self.program = text(&program.into());
        self
    }

    /// Takes a snapshot.
    ///
    /// It takes some milliseconds. If there are very many timers, or the timer thread is busy, it
    /// does not wait for the listing ([`Handle::list`]) but shows the one before, and how old it
    /// is. Listings take at most a twentieth of the time. Threads that schedule need not wait, and
    /// no timer is late by more than a step of a listing.
    pub fn snapshot(&self) -> Snapshot {
        let (pending, busiest) = {
            let mut state = self.state.lock();
            state.list(&self.timers);
            (state.pending(), self.system.as_ref().map(|it| state.look_at(&it.system)))
        };
        let metrics = self.timers.metrics();
        let (threads, more_threads) = threads::all();
        Snapshot {
            version: VERSION,
            program: self.program.clone(),
            pid: std::process::id(),
            taken: since(self.born),
            counts: counts(&self.timers, &metrics),
            lateness: spread(&metrics.lateness),
            executor: Executor {
                threads: metrics.pool.threads as u64,
                running: metrics.pool.running as u64,
                queued: metrics.pool.queued as u64,
                queue_time: spread(&metrics.pool.queue_time),
                run_time: nanos(metrics.pool.run_time.sum),
            },
            pending,
            slow: self.slow.newest_first(),
            run_times: run_times(&self.timers),
            late: Late::of(&self.timers.lateness()),
            late_runs: self.late_runs.as_ref().and_then(|look| Late::of(&look())),
            waits: waits(&self.timers),
            actors: busiest.zip(self.system.as_ref()).map(|(busiest, it)| it.actors(busiest)),
            threads,
            more_threads,
        }
    }
}

fn counts(timers: &Handle, metrics: &Metrics) -> Counts {
    Counts {
        scheduled: metrics.scheduled,
        fired: metrics.fired,
        cancelled: metrics.cancelled,
        handed_back: metrics.handed_back,
        pending: metrics.pending,
        refused: metrics.refused,
        backpressure_waits: metrics.backpressure_waits,
        backpressure_waited: nanos(metrics.backpressure_waited),
        panicked: metrics.panicked,
        rejected: metrics.rejected_by_executor,
        abandoned: metrics.abandoned_by_executor,
        slow: metrics.slow_tasks,
        pool_stalls: metrics.pool_stalls,
        held_for_pool: metrics.held_for_pool,
        wake_ups: metrics.wake_ups,
        timer_memory: metrics.timer_memory as u64,
        tick: nanos(timers.tick_duration()),
        stopped: timers.is_stopped(),
    }
}

impl State {
    /// Goes on with a listing, or begins one if it is time.
    fn list(&mut self, timers: &Handle) {
        let asked = self.listing.take().or_else(|| {
            let rest = |(at, pending): &(Instant, Pending)| {
                at.elapsed() >= Duration::from_nanos(pending.took) * SHARE
            };
            self.pending.as_ref().is_none_or(rest).then(|| {
                let query = TimerQuery::new().levels().limit(NEXT);
                Asked { at: now(), listing: timers.list(query) }
            })
        });
        let Some(Asked { at, listing }) = asked else { return };
        // The timer thread would wait for itself.
        let patience = if timers.is_timer_thread() { Duration::ZERO } else { PATIENCE };
        match listing.wait_timeout(patience) {
            Ok(listing) => self.pending = Some((now(), pending_of(listing, since(at)))),
            Err(listing) => self.listing = Some(Asked { at, listing }),
        }
    }

    fn pending(&self) -> Option<Pending> {
        let (at, pending) = self.pending.as_ref()?;
        Some(Pending { age: since(*at), ..pending.clone() })
    }

    /// The actors with the deepest mailboxes, and how long ago that was.
    fn look_at(&mut self, system: &System) -> (u64, Vec<Actor>) {
        if self.busiest.as_ref().is_none_or(|last| last.at.elapsed() >= last.took * SHARE) {
            let begin = now();
            let actors = system.busiest(BUSIEST).into_iter().map(|actor| Actor {
                path: text(&actor.path),
                depth: actor.metrics.mailbox_depth,
                processed: actor.metrics.processed,
                restarts: actor.metrics.restarts,
            });
            let actors = actors.collect();
            self.busiest = Some(Looked { at: now(), took: begin.elapsed(), actors });
        }
        let last = self.busiest.as_ref();
        last.map(|last| (since(last.at), last.actors.clone())).unwrap_or_default()
    }
}

fn pending_of(listing: Listing, took: u64) -> Pending {
    let taken_at = listing.taken_at;
    let until = |due: Option<Instant>| {
        due.zip(taken_at).map(|(due, now)| nanos(due.saturating_duration_since(now)))
    };
    let more_groups = listing.groups.len().saturating_sub(GROUPS) as u64;
    let groups = listing.groups.iter().take(GROUPS).map(|group| Group {
        label: text(group.identity.label()),
        place: place(&group.identity),
        count: group.count,
        first_due: until(group.first_due),
    });
    let next = listing.timers.iter().map(|timer| Timer {
        label: text(timer.identity.label()),
        place: place(&timer.identity),
        repeat: timer.kind == TimerKind::Repeat,
        remaining: timer.remaining.map(nanos),
    });
    let (groups, next) = (groups.collect(), next.collect());
    let levels = listing.levels.into_iter();
    let levels =
        levels.map(|level| Level { span: nanos(level.span), slots: level.slots, hand: level.hand });
    Pending {
        age: 0,
        took,
        timers: listing.matched,
        unseen: listing.unseen,
        levels: levels.collect(),
        groups,
        more_groups,
        next,
    }
}

fn run_times(timers: &Handle) -> Vec<RunTime> {
    let times = timers.run_times().into_iter().take(GROUPS).map(|it| RunTime {
        label: text(it.identity.label()),
        place: place(&it.identity),
        runs: it.runs,
        total: nanos(it.total),
        longest: nanos(it.longest),
    });
    times.collect()
}

impl Late {
    /// The table as a snapshot has it. `None` if nobody watches.
    pub fn of(table: &Lateness) -> Option<Self> {
        let rows = table.rows.iter().take(REASONS).map(|it| {
            let culprit = match &it.culprit {
                Some(Who::Task(task)) => text(task.label()),
                Some(other) => text(&other.to_string()),
                None => String::new(),
            };
            let task = it.culprit.as_ref().and_then(Who::task);
            LateRow {
                cause: it.cause.as_str().to_owned(),
                culprit,
                place: task.as_ref().map(place).unwrap_or_default(),
                count: it.count,
                time: nanos(it.time),
            }
        });
        Some(Self {
            bound: nanos(table.bound?),
            count: table.count,
            total: nanos(table.total),
            longest: nanos(table.longest),
            rows: rows.collect(),
            more_rows: table.rows.len().saturating_sub(REASONS) as u64,
        })
    }
}

fn waits(timers: &Handle) -> Vec<ThreadWaits> {
    let waits = timers.waits().into_iter().map(|it| ThreadWaits {
        thread: it.thread.as_deref().map(text).unwrap_or_default(),
        waiting: it.waiting,
        waits: it.waits,
        waited: nanos(it.waited),
    });
    waits.collect()
}

fn spread(durations: &Durations) -> Spread {
    let values = durations.recorded().map(|(value, times)| (nanos(value), times));
    Spread::new(nanos(durations.max), values)
}

fn remember<T>(ring: &mut VecDeque<T>, entry: T) {
    if ring.len() >= REMEMBERED {
        ring.pop_front();
    }
    ring.push_back(entry);
}

fn place(identity: &TaskIdentity) -> String {
    identity.place().map(|place| text(&place.to_string())).unwrap_or_default()
}

fn text(whole: &str) -> String {
    let end = (0..=LONGEST.min(whole.len())).rev().find(|&end| whole.is_char_boundary(end));
    whole[..end.expect("0 is a boundary")].to_owned()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn since(at: Instant) -> u64 {
    nanos(at.elapsed())
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = self.system.as_ref().map(|watched| &watched.system);
        let mut text = f.debug_struct("Probe");
        text.field("program", &self.program).field("timers", &self.timers);
        text.field("system", &system).finish_non_exhaustive()
    }
}
