//! What is pending, while the scheduler runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::oneshot;

use crate::api::handle::Handle;
use crate::base::clock::{Clock, limit_of_wait};
use crate::base::identity::TaskIdentity;
use crate::engine::listing::{Filter, Findings, Levels};
use lars_base::debug_fields;
use lars_base::time::Instant;
use lars_base::waiting;

/// How many timers a listing has at most, unless it is asked for more or fewer.
const DEFAULT_LIMIT: usize = 100;

/// Which of the pending timers a [`Listing`] has. By default all are counted, and the 100 that are
/// due first are listed one by one.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::listing::{TimerKind, TimerQuery};
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let minute = Duration::from_secs(60);
/// for session in 0..1_000 {
///     let task = Task::new(move || println!("session {session} has timed out"));
///     scheduler.schedule_once(minute, task.named("session timeout"))?;
/// }
/// let _ = scheduler.schedule_with_fixed_delay(minute, minute, || println!("heartbeat"))?;
///
/// let listing = scheduler.list(TimerQuery::new().limit(3)).wait();
/// assert_eq!((listing.matched, listing.timers.len()), (1_001, 3));
/// let (most, others) = (&listing.groups[0], listing.groups.len() - 1);
/// assert_eq!((most.identity.name(), most.count, others), (Some("session timeout"), 1_000, 1));
///
/// let repeats = scheduler.list(TimerQuery::new().kind(TimerKind::Repeat)).wait();
/// assert_eq!(repeats.matched, 1);
/// let soon = scheduler.list(TimerQuery::new().due_within(Duration::from_secs(1))).wait();
/// assert_eq!(soon.matched, 0);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a query does nothing until it is passed to `list`"]
pub struct TimerQuery {
    filter: Filter,
}

impl Default for TimerQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl TimerQuery {
    /// All timers, the 100 that are due first one by one.
    pub fn new() -> Self {
        Self { filter: Filter { limit: DEFAULT_LIMIT, ..Filter::default() } }
    }

    /// Only those whose [label](TaskIdentity::label) contains this: the name, or, of timers without
    /// one, the type.
    pub fn label(mut self, part: impl Into<String>) -> Self {
        self.filter.label = Some(part.into());
        self
    }

    /// Only those whose place contains this; a place reads `src/session.rs:42:14`.
    pub fn place(mut self, part: impl Into<String>) -> Self {
        self.filter.place = Some(part.into());
        self
    }

    /// Only those of this kind.
    pub fn kind(mut self, kind: TimerKind) -> Self {
        self.filter.repeats = Some(kind == TimerKind::Repeat);
        self
    }

    /// Only those that are due already, or within this time from when they are looked at.
    pub fn due_within(mut self, time: Duration) -> Self {
        self.filter.due_within = Some(time);
        self
    }

    /// Also counts timers by their slots in the wheel: [`Listing::levels`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::listing::TimerQuery;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let _ = scheduler.schedule_once(Duration::from_millis(50), || println!("soon"))?;
    /// let _ = scheduler.schedule_once(Duration::from_secs(3600), || println!("later"))?;
    /// for level in scheduler.list(TimerQuery::new().levels()).wait().levels {
    ///     println!("{} timers in slots of {:?}", level.slots.iter().sum::<u64>(), level.span);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn levels(mut self) -> Self {
        self.filter.levels = true;
        self
    }

    /// How many timers are listed one by one: those that are due first, 100 by default. All are
    /// counted in any case.
    ///
    /// Each takes some 80 bytes. With zero there are only the counts.
    pub fn limit(mut self, timers: usize) -> Self {
        self.filter.limit = timers;
        self
    }
}

/// Whether a timer runs once or belongs to a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimerKind {
    /// It runs once.
    Once,
    /// It is the next run of a repeat.
    Repeat,
}

/// A timer that was pending when it was looked at.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ListedTimer {
    /// Whose it is.
    pub identity: TaskIdentity,
    /// Whether it belongs to a repeat.
    pub kind: TimerKind,
    /// Whether it will run where the scheduler runs tasks by default. If not, it asked for the
    /// timer thread ([`Task::inline`](crate::Task::inline)) or for an executor of its own
    /// ([`Task::executor`](crate::Task::executor)).
    pub on_default_executor: bool,
    /// When it is due; `None` if never.
    pub due: Option<Instant>,
    /// How long that is from [`Listing::taken_at`]; zero if it was due before. `None` if never.
    pub remaining: Option<Duration>,
}

/// How many pending timers have the same identity.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TimerGroup {
    /// Whose they are.
    pub identity: TaskIdentity,
    /// How many.
    pub count: u64,
    /// When the first of them is due; `None` if never.
    pub first_due: Option<Instant>,
}

/// A level of the wheel, and how many timers belong in each of its slots.
///
/// The timers that are due next are at the [`hand`](Self::hand), which moves on by one slot each
/// [`span`](Self::span), and is back at the same slot after one turn.
///
/// The counts are computed from the deadlines, for the wheels of all threads together. Each timer
/// counts on the lowest level that reaches its deadline within one turn. In its wheel it may still
/// be one level further up, until its slot comes near.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WheelLevel {
    /// How much time one of the slots spans.
    pub span: Duration,
    /// How many timers belong in each slot, for at most 64 slots. If the level has more, neighbours
    /// are counted together.
    pub slots: Vec<u64>,
    /// The slot of [`Listing::taken_at`]. On the lowest level it also has what is overdue.
    pub hand: usize,
}

/// What is pending; see [`Handle::list`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Listing {
    /// Those that are due first, in this order, as many as the query allows.
    pub timers: Vec<ListedTimer>,
    /// All that the query takes, by identity, the largest group first.
    pub groups: Vec<TimerGroup>,
    /// How many the query takes.
    pub matched: u64,
    /// All that the query takes, by slots of the wheel, from the lowest level up, if the query asks
    /// for that ([`TimerQuery::levels`]); otherwise empty.
    pub levels: Vec<WheelLevel>,
    /// How many timers could not be looked at, because their threads stood in the middle of a call
    /// for 100 ms. The query may take them or not. Almost always zero.
    pub unseen: u64,
    /// When the listing was complete. `None` if the scheduler had stopped.
    pub taken_at: Option<Instant>,
}

impl Listing {
    fn of(findings: Findings, clock: &Clock) -> Self {
        let (matched, unseen, now) = (findings.matched, findings.unseen, findings.taken_at);
        let end = now.unwrap_or_default();
        let levels = findings.levels.as_ref().map(|levels| levels_at(levels, end));
        let (timers, groups) = findings.into_parts();
        let timer = |found: crate::engine::listing::Found| {
            let due = clock.instant(found.due);
            ListedTimer {
                identity: found.identity,
                kind: if found.repeat { TimerKind::Repeat } else { TimerKind::Once },
                on_default_executor: !found.inline,
                due,
                remaining: due.map(|_| Duration::from_nanos(found.due.saturating_sub(end))),
            }
        };
        let group = |group: crate::engine::listing::Group| TimerGroup {
            identity: group.identity,
            count: group.count,
            first_due: clock.instant(group.earliest),
        };
        Self {
            timers: timers.into_iter().map(timer).collect(),
            groups: groups.into_iter().map(group).collect(),
            matched,
            levels: levels.unwrap_or_default(),
            unseen,
            taken_at: now.and_then(|now| clock.instant(now)),
        }
    }
}

fn levels_at(levels: &Levels, now: u64) -> Vec<WheelLevel> {
    let (tick, reached) = (levels.tick.nanos(), levels.tick.reached_by(now));
    let level = |level: &crate::engine::listing::Level| WheelLevel {
        span: Duration::from_nanos(tick.saturating_mul(1 << level.shift)),
        slots: level.counts.clone(),
        hand: level.slot_of(reached),
    };
    levels.levels.iter().map(level).collect()
}

/// A listing that is under way, to be awaited or waited for. Made by [`Handle::list`].
#[must_use = "the listing is in it"]
pub struct ListingFuture {
    findings: oneshot::Receiver<Findings>,
    clock: Clock,
}

impl ListingFuture {
    /// Blocks until the listing is there. Do not call it in a task on the timer thread: that would
    /// wait for itself.
    pub fn wait(mut self) -> Listing {
        // Without a deadline it ends with a result.
        waiting::block_until(Pin::new(&mut self), None).unwrap_or_default()
    }

    /// Blocks until the listing is there, but not longer than `limit`.
    ///
    /// # Errors
    ///
    /// The future itself, so that you can wait again: an inline task may occupy the timer thread.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<Listing, Self> {
        let deadline = limit_of_wait(limit);
        waiting::block_until(Pin::new(&mut self), deadline).ok_or(self)
    }
}

impl Future for ListingFuture {
    type Output = Listing;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Listing> {
        let findings = Pin::new(&mut self.findings).poll(context);
        findings.map(|findings| match findings {
            Ok(findings) => Listing::of(findings, &self.clock),
            // The scheduler is gone, and nothing is pending.
            Err(oneshot::Canceled) => Listing::default(),
        })
    }
}

debug_fields!(|_it: ListingFuture|);

impl Handle {
    /// Lists what is pending: the timers that are due first one by one, and all of them counted by
    /// identity.
    ///
    /// The timer thread does it between its turns, some 500 timers at a time. Such a step takes
    /// about 50 µs, and no timer is late by more than that. Threads that schedule need not wait.
    /// Dropping the future ends the listing.
    ///
    /// # What is in it
    ///
    /// A timer that was pending before the call, and still is when the listing is complete, is in
    /// it exactly once, with the deadline that it had when it was looked at. One that is scheduled,
    /// fired or cancelled meanwhile is in it once or not at all. Each run of a repeat is a timer of
    /// its own: a series that runs meanwhile may be in it for two runs, or for none. Tasks that
    /// were fired and wait in their executors are not pending. After a stop nothing is pending.
    ///
    /// In virtual time [`VirtualTime::list`](crate::VirtualTime::list) does it at once. A listing
    /// that a handle asks for is done when time moves next.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::listing::TimerQuery;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let _ = scheduler.schedule_once(Duration::from_secs(30), || println!("time is up"))?;
    /// for timer in scheduler.list(TimerQuery::new()).wait().timers {
    ///     println!("{} in {:?}", timer.identity, timer.remaining);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn list(&self, query: TimerQuery) -> ListingFuture {
        let core = self.core();
        let findings = core.requests.ask(query.filter);
        core.sleep.wake();
        ListingFuture { findings, clock: core.clock.clone() }
    }
}
