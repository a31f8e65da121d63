//! An actor's own timers, by key.
//!
//! A due timer puts only its generation into the actor's mailbox lane; the message stays here until
//! the actor gets to it. So a timer that was cancelled or replaced, or belongs to an earlier
//! incarnation, leaves nothing that could be received: its generation is no longer in the table. A
//! periodic timer is re-armed only when its message is taken out, so it never has more than one
//! undelivered tick.

use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::time::Duration;

use lars_base::panics::contain;
use lars_base::rate::Rate;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::{Cancellable, Handle, MissedTickBehavior, Refusal, Task};

use crate::base::lineage::Stands;
use crate::base::supervision::{Directive, Panic};
use crate::base::timer_key::{ActorTimer, TimerKey};
use crate::cell::home::Cell;
use crate::cell::registry::Place;
use crate::cell::signal::{Due, Signal};
use crate::mailbox::asides::{Told, told_here};
use crate::sync::{Arc, real_now};

enum Source<M> {
    Once(Option<M>),
    /// Makes a message; gets the number of ticks that were left out before it.
    Every(Box<dyn FnMut(u64) -> M + Send>),
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    Once,
    Delay(Duration),
    Rate(Rate),
}

struct Timer<M> {
    key: TimerKey,
    /// The number of the call that started it.
    started: u64,
    source: Source<M>,
    rule: Rule,
    /// When it is due; for a fixed rate, without drift. `None` for a time that no clock reaches,
    /// and while the message of a fixed delay is being received.
    nominal: Option<Instant>,
    /// The pending timer; none while the message of a fixed delay is being received.
    armed: Option<Cancellable>,
    /// Of the call that started it.
    place: Place,
    /// The span of that call, if the system captures spans.
    span: Option<Told>,
}

/// An active timer of an actor. From [`Timers::pending`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingTimer<'a> {
    /// Its key.
    pub key: &'a TimerKey,
    /// How long it is until it is due. Zero if its message waits in the mailbox or is on its way
    /// there. `None` if it is never due, and for a fixed delay whose message is being received,
    /// because the delay begins when that has been handled.
    pub remaining: Option<Duration>,
    /// Whether it is periodic.
    pub periodic: bool,
    /// The place of the call that started it.
    pub place: &'static Location<'static>,
}

/// The timers of an actor, each with a key. From [`Context::timers`](crate::Context::timers).
///
/// - Starting a timer replaces the one with the same key. Once a timer is cancelled or replaced,
///   nothing of it is received, even if it was in the mailbox. Where each message starts the same
///   timeout anew, its deadline is moved, as by [`Cancellable::reset`]: of timers that are due at
///   the same time it may come last.
/// - They end with their actor, and when it is restarted, and do not keep it alive. A message that
///   was due before [`stop`](crate::ActorRef::stop) is received like the rest of the queue. One
///   that comes due later is received only if the actor gets to it before the queue is empty and
///   its children have stopped.
/// - A due message takes its place behind those that are in the mailbox at that time, and does not
///   count against the capacity.
/// - A timer has at most one undelivered tick, however slow its actor is. [`MissedTickBehavior`]
///   says what happens to missed ticks.
/// - No message is early, not even when the system is closed.
/// - If a message panics when it is dropped with its timer, the panic is logged, counted, and shown
///   to [`Builder::on_panic`](crate::Builder::on_panic). It affects neither the actor nor its other
///   timers.
///
/// ```
/// use mini_actor::{Actor, Context};
/// use std::time::Duration;
///
/// struct Session;
/// enum Event { Request, Idle, Beat }
///
/// impl Actor for Session {
///     type Message = Event;
///
///     fn started(&mut self, ctx: &mut Context<Self>) {
///         let every = Duration::from_secs(10);
///         // It is an error only at a limit of the scheduler's. The session lives without.
///         let _ = ctx.timers().start_at_fixed_rate("beat", every, every, || Event::Beat);
///     }
///
///     fn receive(&mut self, event: Event, ctx: &mut Context<Self>) {
///         match event {
///             // Replaces the one before: an `Idle` already in the mailbox is not received.
///             Event::Request => {
///                 let silence = Duration::from_secs(30);
///                 let _ = ctx.timers().start_single("idle", silence, Event::Idle);
///             }
///             Event::Idle => ctx.stop(),
///             Event::Beat => { /* write a heartbeat */ }
///         }
///     }
/// }
/// ```
pub struct Timers<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    generations: HashMap<TimerKey, u64>,
    /// By generation: the number of the call that armed the timer in the scheduler.
    timers: BTreeMap<u64, Timer<M>>,
    next: u64,
}

/// Which timer was armed, and whether it had been due before that, because the actor was busy: then
/// it is not late. In one word, since a task of two words needs no memory of its own, and keeps its
/// place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Armed(u64);

impl Armed {
    pub(super) fn new(generation: u64, missed: bool) -> Self {
        Self(generation << 1 | u64::from(missed))
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn is_missed(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A due timer, on its way into the system lane.
struct DueTick<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    armed: Armed,
}

impl<M: Send + 'static> TaskBody for DueTick<M> {
    fn run(self) {
        let Self { cell, armed } = self;
        let looks = !armed.is_missed() && cell.registry.incidents.late().is_some();
        let (generation, fired) = (armed.generation(), looks.then(real_now));
        cell.send_signal_at(|at| Signal::Due(at, Due::Tick { generation, fired }));
    }
}

impl<M: Send + 'static> Timers<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self { cell, generations: HashMap::new(), timers: BTreeMap::new(), next: 0 }
    }

    fn handle(&self) -> &Handle {
        &self.cell.registry.timers
    }

    /// Sends `message` to the actor itself once, `delay` from now. Replaces the timer with this
    /// `key`.
    ///
    /// When its message is received, the timer is no longer [active](Self::is_active).
    ///
    /// # Errors
    ///
    /// With a scheduler of the system's own and without a limit there are none, even while the
    /// system is being closed; a timer that is started then never fires. Otherwise
    /// [`Refusal::Full`] at the scheduler's [`max_pending`](crate::Builder::scheduler), unless the
    /// timer that it replaces has a place and has not fired; and [`Refusal::Stopped`] if the
    /// scheduler is [somebody else's](crate::Builder::on_scheduler) and has been stopped. After an
    /// error the timers are as they were, and the message is dropped.
    ///
    /// Do not panic at an error: the actor would stop, and lose what is in its mailbox.
    #[track_caller]
    pub fn start_single(
        &mut self,
        key: impl Into<TimerKey>,
        delay: Duration,
        message: M,
    ) -> Result<(), Refusal> {
        self.start(key.into(), Rule::Once, delay, Source::Once(Some(message)))
    }

    /// Sends a message to the actor itself after `initial`, and then again and again, each `delay`
    /// after the one before has been handled. Replaces the timer with this `key`. `make` makes the
    /// messages, on the actor's thread.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a `delay` of zero, which leaves the timers as they are; otherwise as
    /// for [`start_single`](Self::start_single).
    #[track_caller]
    pub fn start_with_fixed_delay(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        delay: Duration,
        mut make: impl FnMut() -> M + Send + 'static,
    ) -> Result<(), Refusal> {
        check_period(delay)?;
        let source = Source::Every(Box::new(move |_| make()));
        self.start(key.into(), Rule::Delay(delay), initial, source)
    }

    /// Sends a message to the actor itself after `initial`, and then every `interval`, without
    /// drift. Replaces the timer with this `key`. `make` makes the messages, on the actor's thread.
    /// Ticks that the actor missed because it was busy are left out ([`MissedTickBehavior::Skip`]).
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for an `interval` of zero, which leaves the timers as they are;
    /// otherwise as for [`start_single`](Self::start_single).
    #[track_caller]
    pub fn start_at_fixed_rate(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        interval: Duration,
        mut make: impl FnMut() -> M + Send + 'static,
    ) -> Result<(), Refusal> {
        self.missed_ticks(MissedTickBehavior::Skip).start_at_fixed_rate(
            key,
            initial,
            interval,
            move |_| make(),
        )
    }

    /// For timers at a fixed rate, with a choice of what happens to missed ticks, those whose time
    /// passes before the actor gets to the one before:
    ///
    /// - [`Skip`](MissedTickBehavior::Skip): they are left out.
    /// - [`Burst`](MissedTickBehavior::Burst): all are received, one at a time, each behind the
    ///   messages that are in the mailbox when the one before is taken out.
    /// - [`Delay`](MissedTickBehavior::Delay): the schedule starts over from a tick that is
    ///   received late.
    ///
    /// ```
    /// # use mini_actor::{Actor, Context};
    /// use mini_actor::MissedTickBehavior;
    /// use std::time::Duration;
    ///
    /// struct Meter;
    ///
    /// impl Actor for Meter {
    ///     type Message = u64;
    ///     fn started(&mut self, ctx: &mut Context<Self>) {
    ///         let second = Duration::from_secs(1);
    ///         let mut skipping = ctx.timers().missed_ticks(MissedTickBehavior::Skip);
    ///         let _ = skipping.start_at_fixed_rate("read", second, second, |missed| missed);
    ///     }
    ///     fn receive(&mut self, missed: u64, _: &mut Context<Self>) {
    ///         println!("another reading, after {missed} that were left out");
    ///     }
    /// }
    /// ```
    pub fn missed_ticks(&mut self, missed: MissedTickBehavior) -> FixedRates<'_, M> {
        FixedRates { timers: self, missed }
    }

    /// Whether the timer with this key is waiting, or is periodic.
    pub fn is_active(&self, key: impl Into<TimerKey>) -> bool {
        self.generations.contains_key(&key.into())
    }

    /// The [active](Self::is_active) timers, in the order in which they were started. Takes time
    /// for each; the clock is read once.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, Context};
    /// use mini_actor::test_kit::TestKit;
    /// use std::time::Duration;
    ///
    /// struct Session;
    ///
    /// impl Actor for Session {
    ///     type Message = &'static str;
    ///     fn started(&mut self, ctx: &mut Context<Self>) {
    ///         let second = Duration::from_secs(1);
    ///         let _ = ctx.timers().start_single("idle", 30 * second, "idle");
    ///         let _ = ctx.timers().start_at_fixed_rate("beat", second, 10 * second, || "beat");
    ///     }
    ///     fn receive(&mut self, _: &'static str, ctx: &mut Context<Self>) {
    ///         for timer in ctx.timers().pending() {
    ///             println!("{:?} in {:?}", timer.key, timer.remaining);
    ///         }
    ///         let left = ctx.timers().pending().map(|timer| (timer.key.name(), timer.remaining));
    ///         let left: Vec<_> = left.collect();
    ///         let second = Duration::from_secs(1);
    ///         assert_eq!(left[0], (Some("idle"), Some(29 * second)));
    ///         assert_eq!(left[1], (Some("beat"), Some(10 * second)));
    ///     }
    /// }
    ///
    /// let kit = TestKit::new("test")?;
    /// kit.spawn("session", || Session)?;
    /// kit.advance(Duration::from_secs(1));
    /// assert!(kit.panics().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn pending(&self) -> impl Iterator<Item = PendingTimer<'_>> {
        let now = self.handle().now();
        let active =
            |generation: &u64, key: &TimerKey| self.generations.get(key) == Some(generation);
        let timers = self.timers.iter().filter(|(it, timer)| active(it, &timer.key));
        let shown = timers.map(|(_, timer)| {
            let remaining = timer.nominal.map(|due| due.saturating_duration_since(now));
            let periodic = matches!(timer.source, Source::Every(_));
            let it = PendingTimer { key: &timer.key, remaining, periodic, place: timer.place };
            (timer.started, it)
        });
        in_order(shown.collect())
    }

    /// The active timers, for somebody else.
    pub(crate) fn list(&self) -> Vec<ActorTimer> {
        let own = |timer: PendingTimer<'_>| {
            let PendingTimer { key, remaining, periodic, place } = timer;
            ActorTimer { key: key.clone(), remaining, periodic, place }
        };
        self.pending().map(own).collect()
    }

    /// Cancels a timer: nothing of it is received any more. True if there was one.
    pub fn cancel(&mut self, key: impl Into<TimerKey>) -> bool {
        self.generations.remove(&key.into()).map(|ended| self.forget(ended)).is_some()
    }

    /// Cancels the oldest timers, at most `most` of them. True if there are more.
    pub(crate) fn cancel_some(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some((generation, timer)) = self.timers.pop_first() else { return false };
            if self.generations.get(&timer.key) == Some(&generation) {
                self.generations.remove(&timer.key);
            }
            self.discard(timer);
        }
        !self.timers.is_empty()
    }

    /// Cancels all timers.
    pub fn cancel_all(&mut self) {
        self.generations.clear();
        for timer in std::mem::take(&mut self.timers).into_values() {
            self.discard(timer);
        }
    }

    #[track_caller]
    fn start(
        &mut self,
        key: TimerKey,
        rule: Rule,
        initial: Duration,
        source: Source<M>,
    ) -> Result<(), Refusal> {
        let started = self.next;
        self.next += 1;
        let nominal = self.handle().now().checked_add(initial);
        let place = Location::caller();
        let span = self.cell.mailbox.has_spans().then(told_here).flatten();
        let mut timer = Timer { key, started, source, rule, nominal, armed: None, place, span };
        let old = self.find(&timer.key);
        if old
            .is_some_and(|old| self.is_further(old, &timer) && self.moves(old, &mut timer, initial))
        {
            self.discard(timer);
            return Ok(());
        }
        let due = self.due(Armed::new(started, false), &timer.key);
        match self.cell.registry.arm_own(initial, due, place) {
            Ok(armed) => timer.armed = armed,
            Err(refusal) => {
                // There is no place for another one, but the old one has a place. (It is not
                // cancelled first, because others might take that.)
                let moved = old.is_some_and(|old| self.moves(old, &mut timer, initial));
                self.discard(timer);
                return if moved { Ok(()) } else { Err(refusal) };
            }
        }
        if let Some(old) = self.generations.insert(timer.key.clone(), started) {
            self.forget(old);
        }
        self.timers.insert(started, timer);
        Ok(())
    }

    /// The generation of the active timer with this key.
    fn find(&self, key: &TimerKey) -> Option<u64> {
        /// Looking at so many takes less time than a hash of the key does.
        const FEW: usize = 4;
        if self.timers.len() > FEW || self.timers.len() != self.generations.len() {
            return self.generations.get(key).copied();
        }
        // All are active.
        self.timers.iter().find(|(_, timer)| timer.key == *key).map(|(generation, _)| *generation)
    }

    /// Whether `timer` is the one of this generation, started anew by the same call, and to be
    /// due later than that. Then it is enough to [move](Self::moves) the deadline, which touches
    /// nothing shared. (To bring it nearer takes as long as a new timer does.)
    fn is_further(&self, generation: u64, timer: &Timer<M>) -> bool {
        self.timers.get(&generation).is_some_and(|old| {
            std::ptr::eq(old.place, timer.place)
                && old.nominal.is_some_and(|due| timer.nominal.is_some_and(|it| due < it))
        })
    }

    /// Moves the deadline of the timer of this generation, if it has not fired. Then `timer` takes
    /// its place, and is the old one afterwards; else all is as it was.
    ///
    /// The generation stays: as it has not fired, there is none of its ticks in the mailbox.
    fn moves(&mut self, generation: u64, timer: &mut Timer<M>, initial: Duration) -> bool {
        let Some(old) = self.timers.get_mut(&generation) else { return false };
        timer.armed = old.armed.take_if(|armed| armed.reset(initial));
        let moved = timer.armed.is_some();
        if moved {
            std::mem::swap(old, timer);
        }
        moved
    }

    /// What runs when a timer is due. In listings it has the name of the key, if that is one for
    /// many timers.
    fn due(&self, armed: Armed, key: &TimerKey) -> Task<DueTick<M>> {
        let task = Task::new(DueTick { cell: Arc::clone(&self.cell), armed });
        match key.static_name() {
            Some(name) => task.named(name),
            None => task,
        }
    }

    /// Re-arms a periodic timer. If there is no place for it, its key ends now, and the rest when
    /// its last message has been handled.
    fn arm(&mut self, generation: u64, delay: Duration) {
        let Some(timer) = self.timers.get(&generation) else { return };
        let due = self.due(Armed::new(generation, delay.is_zero()), &timer.key);
        if let Some(timer) = self.timers.get_mut(&generation) {
            let cell = &self.cell;
            timer.armed = cell.registry.arm_for(&cell.lineage, delay, due, timer.place);
            if timer.armed.is_none() {
                self.generations.remove(&timer.key);
            }
        }
    }

    fn forget(&mut self, generation: u64) {
        if let Some(timer) = self.timers.remove(&generation) {
            self.discard(timer);
        }
    }

    /// Drops a timer that has ended. The destructor of its message is foreign code: a panic in it
    /// must not keep other timers from being started or ended.
    fn discard(&self, timer: Timer<M>) {
        if let Some(armed) = &timer.armed {
            armed.cancel();
        }
        if let Err(message) = contain(|| drop(timer)) {
            let panic = Panic { path: Arc::clone(self.cell.lineage.path()), message };
            self.cell.registry.incidents.panicked(&panic, Directive::Resume);
        }
    }

    /// When the timer of this generation is due.
    pub(crate) fn due_at(&self, generation: u64) -> Option<Instant> {
        self.timers.get(&generation)?.nominal
    }

    /// The timer of this generation is due: its message, if it is still wanted, and the span in
    /// which that is to be received.
    pub(crate) fn take(&mut self, generation: u64, span: &mut Option<Told>) -> Option<M> {
        let now = self.handle().now();
        let timer = self.timers.get_mut(&generation)?;
        span.clone_from(&timer.span);
        let (missed, next) = match timer.rule {
            Rule::Once => {
                let timer = self.timers.remove(&generation)?;
                self.generations.remove(&timer.key);
                return match timer.source {
                    Source::Once(message) => message,
                    Source::Every(_) => None,
                };
            }
            Rule::Delay(_) => {
                (timer.armed, timer.nominal) = (None, None);
                (0, None)
            }
            Rule::Rate(rate) => {
                let mut missed = 0;
                let mut count = |elapsed| {
                    let next;
                    (next, missed) = rate.next_from_begin(elapsed);
                    next
                };
                let due = timer.nominal.map_or(WhenDue::Never, WhenDue::At);
                timer.nominal = due.count_on(now, &mut count).instant();
                (missed, timer.nominal)
            }
        };
        if let Some(next) = next {
            self.arm(generation, next.saturating_duration_since(now));
        }
        match &mut self.timers.get_mut(&generation)?.source {
            Source::Every(make) => Some(make(missed)),
            Source::Once(message) => message.take(),
        }
    }

    /// The message of this generation has been handled.
    pub(crate) fn handled(&mut self, generation: u64) {
        if let Some(Timer { rule: Rule::Delay(delay), armed: None, .. }) =
            self.timers.get(&generation)
        {
            let delay = *delay;
            let nominal = self.handle().now().checked_add(delay);
            self.arm(generation, delay);
            if let Some(timer) = self.timers.get_mut(&generation) {
                timer.nominal = nominal;
            }
        }
        if let Some(timer) = self.timers.get(&generation)
            && self.generations.get(&timer.key) != Some(&generation)
        {
            self.forget(generation);
        }
    }
}

/// Timers by when they were started. (Apart, because it is the same for all types of messages.)
fn in_order(mut timers: Vec<(u64, PendingTimer<'_>)>) -> impl Iterator<Item = PendingTimer<'_>> {
    timers.sort_unstable_by_key(|(started, _)| *started);
    timers.into_iter().map(|(_, timer)| timer)
}

/// Starts timers at a fixed rate that do the same about missed ticks. From
/// [`Timers::missed_ticks`].
#[must_use = "it starts nothing by itself"]
pub struct FixedRates<'a, M: Send + 'static> {
    timers: &'a mut Timers<M>,
    missed: MissedTickBehavior,
}

impl<M: Send + 'static> FixedRates<'_, M> {
    /// Like [`Timers::start_at_fixed_rate`]. `make` gets the number of ticks that were left out
    /// since the last one.
    ///
    /// # Errors
    ///
    /// As for [`Timers::start_at_fixed_rate`].
    #[track_caller]
    pub fn start_at_fixed_rate(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        interval: Duration,
        make: impl FnMut(u64) -> M + Send + 'static,
    ) -> Result<(), Refusal> {
        check_period(interval)?;
        let rule = Rule::Rate(Rate::new(interval, self.missed));
        self.timers.start(key.into(), rule, initial, Source::Every(Box::new(make)))
    }
}

show!([M: Send + 'static] FixedRates<'_, M>, "FixedRates", |it| missed: it.missed);

/// A period must not be zero: it would repeat without end.
pub(crate) fn check_period(given: Duration) -> Result<(), Refusal> {
    const MIN: Duration = Duration::from_nanos(1);
    if given < MIN { Err(Refusal::Period { given, min: MIN }) } else { Ok(()) }
}

show!([M: Send + 'static] Timers<M>, "Timers", |it| active: it.generations);
