//! An actor's own timers, by key.
//!
//! A due timer puts only its generation into the actor's mailbox lane; the message stays here until
//! the actor gets to it. So a timer that was cancelled, replaced or belongs to an earlier
//! incarnation leaves nothing that could be received: its generation is not in the table any more.
//! A periodic timer is armed anew when its message is taken out and not before, so there is never
//! more than one undelivered tick of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::time::{Duration, Instant};

use lars_scheduler::panics::contain;
use lars_scheduler::{Cancellable, Handle, MissedTickBehavior, Refusal, TaskBody};

use crate::base::supervision::{Directive, Panic};
use crate::cell::home::{Cell, told_here};
use crate::cell::registry::Place;
use crate::cell::signal::{Due, Signal};
use crate::mailbox::block::Told;
use crate::sync::Arc;

/// What a timer is known by in its actor: a name, a number, or both. A name alone, a number alone
/// and the two together are three different keys.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Actor, Context, Recipient, TimerKey};
/// use std::time::Duration;
///
/// /// Gives up each of its requests after a time of its own.
/// struct Client(Recipient<u64>);
///
/// impl Actor for Client {
///     type Message = u64;
///     fn started(&mut self, ctx: &mut Context<Self>) {
///         for number in 1..=3 {
///             let limit = Duration::from_secs(number);
///             let _ = ctx.timers().start_single(("request", number), limit, number);
///         }
///         assert!(ctx.timers().cancel(("request", 2)));
///     }
///     fn receive(&mut self, number: u64, _: &mut Context<Self>) {
///         let _ = self.0.tell(number);
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u64>("probe");
/// let given_up = probe.actor().recipient();
/// kit.spawn("client", || Client(given_up))?;
/// assert_eq!(probe.expect_message_within(Duration::from_secs(1)), 1);
/// assert_eq!(probe.expect_message_within(Duration::from_secs(2)), 3);
/// assert_eq!(TimerKey::from("beat"), TimerKey::from("beat".to_owned()));
/// assert_ne!(TimerKey::from("beat"), TimerKey::from(("beat", 0)));
/// assert_eq!(TimerKey::from(("beat", 7)).name(), Some("beat"));
/// assert_eq!(TimerKey::from(7).number(), Some(7));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TimerKey {
    name: Option<Cow<'static, str>>,
    number: Option<u64>,
}

impl TimerKey {
    /// The name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The number, if it has one.
    pub fn number(&self) -> Option<u64> {
        self.number
    }
}

impl From<&'static str> for TimerKey {
    fn from(name: &'static str) -> Self {
        Self { name: Some(Cow::Borrowed(name)), number: None }
    }
}

impl From<String> for TimerKey {
    fn from(name: String) -> Self {
        Self { name: Some(Cow::Owned(name)), number: None }
    }
}

impl From<u64> for TimerKey {
    fn from(number: u64) -> Self {
        Self { name: None, number: Some(number) }
    }
}

impl<N: Into<Cow<'static, str>>> From<(N, u64)> for TimerKey {
    fn from((name, number): (N, u64)) -> Self {
        Self { name: Some(name.into()), number: Some(number) }
    }
}

enum Source<M> {
    Once(Option<M>),
    /// Makes a message, told how many ticks were left out before it.
    Every(Box<dyn FnMut(u64) -> M + Send>),
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    Once,
    Delay(Duration),
    Rate(Duration, MissedTickBehavior),
}

struct Timer<M> {
    key: TimerKey,
    source: Source<M>,
    rule: Rule,
    /// When it is due, for a fixed rate without drift. `None` at a time that no clock reaches, and
    /// while a fixed delay is just being received.
    nominal: Option<Instant>,
    /// The pending timer; of a fixed delay that is just being received, none.
    armed: Option<Cancellable>,
    /// Of the call that started it.
    place: Place,
    /// The span of that call, if the system captures spans.
    span: Option<Told>,
}

/// A timer of an actor that is active. From [`Timers::pending`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingTimer<'a> {
    /// What it is known by.
    pub key: &'a TimerKey,
    /// How long it is until it is due. Zero if it is: then its message waits in the mailbox, or is
    /// on its way there. `None` if it is due at a time that no clock reaches, and for a fixed delay
    /// whose message is being received, because the delay begins when that has been handled.
    pub remaining: Option<Duration>,
    /// Whether it goes on after its next message.
    pub periodic: bool,
}

/// The timers of an actor, each with a key. From [`Context::timers`](crate::Context::timers).
///
/// - Starting a timer replaces the one with the same key. Nothing of a timer that was cancelled or
///   replaced is received any more, even if it was in the mailbox already.
/// - They end with their actor, also when it is restarted, and do not keep it alive. A message that
///   was due before [`stop`](crate::ActorRef::stop) is received as what else is queued then; one
///   that comes due later is, if its actor gets to it before it has received all that and its
///   children have stopped.
/// - A due message takes its place behind the messages that are in the mailbox then, and does not
///   count against its capacity.
/// - There is at most one undelivered tick of a timer, however slow its actor is. What becomes of
///   ticks whose time has passed says [`MissedTickBehavior`].
/// - Never early; not sent before its time when the system is closed.
/// - A message that panics when it is dropped with its timer changes nothing for others, nor for
///   its actor: the panic is logged, counted, and shown to
///   [`Builder::on_panic`](crate::Builder::on_panic).
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
///         ctx.timers().start_at_fixed_rate("beat", every, every, || Event::Beat).unwrap();
///     }
///
///     fn receive(&mut self, event: Event, ctx: &mut Context<Self>) {
///         match event {
///             // Replaces the one before: an `Idle` already in the mailbox is not received.
///             Event::Request => {
///                 let silence = Duration::from_secs(30);
///                 ctx.timers().start_single("idle", silence, Event::Idle).unwrap();
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
    /// In the order in which they were started, which is the order in which they end.
    timers: BTreeMap<u64, Timer<M>>,
    next: u64,
}

/// A due timer, on its way into the system lane.
struct DueTick<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    generation: u64,
}

impl<M: Send + 'static> TaskBody for DueTick<M> {
    fn run(self) {
        self.cell.send_signal_at(|at| Signal::Due(at, Due::Tick(self.generation)));
    }
}

impl<M: Send + 'static> Timers<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self { cell, generations: HashMap::new(), timers: BTreeMap::new(), next: 0 }
    }

    fn handle(&self) -> &Handle {
        &self.cell.registry.timers
    }

    /// Lets `message` be received once, `delay` from now, instead of what `key` stood for.
    ///
    /// The timer is not [active](Self::is_active) any more when its message is received.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stopped`] while the system is being closed. The message is dropped.
    #[track_caller]
    pub fn start_single(
        &mut self,
        key: impl Into<TimerKey>,
        delay: Duration,
        message: M,
    ) -> Result<(), Refusal> {
        self.start(key.into(), Rule::Once, delay, Source::Once(Some(message)))
    }

    /// Lets a message be received after `initial`, and then again and again, each `delay` after the
    /// handling of the one before has ended, instead of what `key` stood for. `make` makes the
    /// messages, on the actor's thread.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a `delay` of zero, which leaves the timers as they are;
    /// [`Refusal::Stopped`] while the system is being closed.
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

    /// Lets a message be received after `initial`, and then every `interval`, without drift,
    /// instead of what `key` stood for. `make` makes the messages, on the actor's thread. Ticks
    /// whose time has passed while the actor was busy are left out, as by
    /// [`MissedTickBehavior::Skip`].
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for an `interval` of zero, which leaves the timers as they are;
    /// [`Refusal::Stopped`] while the system is being closed.
    #[track_caller]
    pub fn start_at_fixed_rate(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        interval: Duration,
        mut make: impl FnMut() -> M + Send + 'static,
    ) -> Result<(), Refusal> {
        let make = move |_| make();
        self.start_at_fixed_rate_missed(key, initial, interval, MissedTickBehavior::Skip, make)
    }

    /// Like [`start_at_fixed_rate`](Self::start_at_fixed_rate), with a choice of what happens to
    /// ticks whose time has passed before the actor got to the one before:
    ///
    /// - [`Skip`](MissedTickBehavior::Skip): they are left out. `make` is told how many were left
    ///   out since the tick before.
    /// - [`Burst`](MissedTickBehavior::Burst): all are received, one at a time, each behind what is
    ///   in the mailbox when the one before is taken out.
    /// - [`Delay`](MissedTickBehavior::Delay): the interval counts anew from a tick that is
    ///   received late.
    ///
    /// # Errors
    ///
    /// As for [`start_at_fixed_rate`](Self::start_at_fixed_rate).
    #[track_caller]
    pub fn start_at_fixed_rate_missed(
        &mut self,
        key: impl Into<TimerKey>,
        initial: Duration,
        interval: Duration,
        missed: MissedTickBehavior,
        make: impl FnMut(u64) -> M + Send + 'static,
    ) -> Result<(), Refusal> {
        check_period(interval)?;
        self.start(key.into(), Rule::Rate(interval, missed), initial, Source::Every(Box::new(make)))
    }

    /// Whether a timer of this key is waiting, or is periodic.
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
    ///         ctx.timers().start_single("idle", 30 * second, "idle").unwrap();
    ///         ctx.timers().start_at_fixed_rate("beat", second, 10 * second, || "beat").unwrap();
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
        let timers = self.timers.iter().filter(move |(it, timer)| active(it, &timer.key));
        timers.map(move |(_, timer)| PendingTimer {
            key: &timer.key,
            remaining: timer.nominal.map(|due| due.saturating_duration_since(now)),
            periodic: matches!(timer.source, Source::Every(_)),
        })
    }

    /// Ends a timer; nothing of it is received any more. Says whether there was one.
    pub fn cancel(&mut self, key: impl Into<TimerKey>) -> bool {
        match self.generations.remove(&key.into()) {
            Some(generation) => {
                self.forget(generation);
                true
            }
            None => false,
        }
    }

    /// Ends all timers.
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
        let generation = self.next;
        self.next += 1;
        let nominal = self.handle().now().checked_add(initial);
        let place = Location::caller();
        let armed = Some(self.cell.registry.arm(initial, self.due(generation), place)?);
        if let Some(old) = self.generations.insert(key.clone(), generation) {
            self.forget(old);
        }
        let span = self.cell.mailbox.has_spans().then(told_here).flatten();
        let timer = Timer { key, source, rule, nominal, armed, place, span };
        self.timers.insert(generation, timer);
        Ok(())
    }

    fn due(&self, generation: u64) -> DueTick<M> {
        DueTick { cell: Arc::clone(&self.cell), generation }
    }

    /// Arms a periodic timer again. If there is no place for it, its key ends now, and the rest
    /// when its last message has been handled.
    fn arm(&mut self, generation: u64, delay: Duration) {
        let due = self.due(generation);
        if let Some(timer) = self.timers.get_mut(&generation) {
            let cell = &self.cell;
            timer.armed = cell.registry.arm_for(&cell.path, delay, due, timer.place);
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

    /// Drops a timer, of which nothing is to be received any more. The destructor of its message is
    /// foreign code: a panic in it must not keep other timers from being started or ended.
    fn discard(&self, timer: Timer<M>) {
        if let Some(armed) = &timer.armed {
            armed.cancel();
        }
        if let Err(message) = contain(|| drop(timer)) {
            let panic = Panic { path: Arc::clone(&self.cell.path), message };
            self.cell.registry.panicked(&panic, Directive::Resume);
        }
    }

    /// The span in which the message of this generation is to be received.
    pub(crate) fn span(&self, generation: u64) -> Option<Told> {
        self.timers.get(&generation)?.span.clone()
    }

    /// A timer of this generation is due: its message, if it is still wanted.
    pub(crate) fn take(&mut self, generation: u64) -> Option<M> {
        let now = self.handle().now();
        let timer = self.timers.get_mut(&generation)?;
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
            Rule::Rate(interval, behavior) => {
                let (missed, next) = timer
                    .nominal
                    .map_or((0, None), |nominal| following(nominal, interval, behavior, now));
                timer.nominal = next;
                (missed, next)
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

/// What is called again and again must not be so without end.
pub(crate) fn check_period(given: Duration) -> Result<(), Refusal> {
    const MIN: Duration = Duration::from_nanos(1);
    if given < MIN { Err(Refusal::Period { given, min: MIN }) } else { Ok(()) }
}

/// Of a fixed rate whose tick of `nominal` is received `now`: how many ticks are left out, and when
/// the next is due.
fn following(
    nominal: Instant,
    interval: Duration,
    behavior: MissedTickBehavior,
    now: Instant,
) -> (u64, Option<Instant>) {
    let Some(due) = nominal.checked_add(interval) else {
        return (0, None);
    };
    if due >= now {
        return (0, Some(due));
    }
    match behavior {
        MissedTickBehavior::Burst => (0, Some(due)),
        MissedTickBehavior::Delay => (0, now.checked_add(interval)),
        MissedTickBehavior::Skip => {
            let passed = (now - due).as_nanos().div_ceil(interval.as_nanos());
            let passed_u64 = u64::try_from(passed).unwrap_or(u64::MAX);
            let ahead = interval.as_nanos().saturating_mul(passed);
            let ahead = u64::try_from(ahead).map(Duration::from_nanos).ok();
            (passed_u64, ahead.and_then(|ahead| due.checked_add(ahead)))
        }
    }
}

show!([M: Send + 'static] Timers<M>, "Timers", |it| active: it.generations);
