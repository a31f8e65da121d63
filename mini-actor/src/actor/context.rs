//! The trait that a user implements, and the context that it is passed with each call.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{Location, resume_unwind};
use std::time::Duration;

use lars_base::time::Instant;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::{Cancellable, Refusal, Task};

use crate::actor::timers::{Armed, Timers, check_period};
use crate::base::error::StashFull;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::base::supervision::Failure;
use crate::base::timer_key::ActorTimer;
use crate::cell::home::Cell;
use crate::cell::registry::Place;
use crate::cell::signal::{Due, Resident, Signal, Watcher};
use crate::dispatcher::worker::{Forgiven, about_to_block};
use crate::mailbox::asides::{Told, told_here};
use crate::refs::address::{ActorRef, Watched};
use crate::refs::sends::Scheduler;
use crate::refs::system::System;
use crate::sync::Arc;

/// An actor: state that is touched by one message at a time.
///
/// # Ordering
///
/// Messages from one thread to one actor are received in the order in which they were sent. Between
/// threads there is only causal order: a message that is sent after another was received comes
/// after it.
///
/// # Panics
///
/// A panic in any of these methods, or in the factory that makes the actor, is contained: it is
/// logged, counted, shown to the hook of [`Builder::on_panic`](crate::Builder::on_panic), and
/// decided on by the actor's [`supervision`](crate::Props::supervision); by default the actor
/// stops. Panics in `restarting` and `stopped` do not change what happens next.
///
/// # Examples
///
/// ```
/// use mini_actor::{Actor, ActorSystem, Context};
/// use std::sync::mpsc;
///
/// struct Counter {
///     total: u64,
///     report: mpsc::Sender<u64>,
/// }
///
/// impl Actor for Counter {
///     type Message = u64;
///
///     fn receive(&mut self, message: u64, ctx: &mut Context<Self>) {
///         self.total += message;
///         if message == 0 {
///             self.report.send(self.total).expect("the test waits for it");
///             ctx.stop();
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = ActorSystem::new("demo")?;
/// let (report, total) = mpsc::channel();
/// let counter = system.spawn("counter", move || Counter { total: 0, report })?;
/// counter.tell(1)?;
/// counter.tell(2)?;
/// counter.tell(0)?;
/// assert_eq!(total.recv()?, 3);
/// system.close()?;
/// # Ok(()) }
/// ```
pub trait Actor: Send + Sized + 'static {
    /// The type of its messages.
    type Message: Send + 'static;

    /// Called before the first message, and on each new actor after a restart.
    fn started(&mut self, ctx: &mut Context<Self>) {
        let _ = ctx;
    }

    /// Called with each message.
    fn receive(&mut self, message: Self::Message, ctx: &mut Context<Self>);

    /// Called once when an actor that it [watches](Context::watch) has stopped, even if that
    /// happened before it began to watch. All messages that the stopped actor had sent to this one
    /// come first.
    fn terminated(&mut self, gone: Terminated, ctx: &mut Context<Self>) {
        let _ = (gone, ctx);
    }

    /// Called when no message has come for the time given to [`Context::set_receive_timeout`], and
    /// again each time it passes.
    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        let _ = ctx;
    }

    /// Whether a message restarts the receive timeout. By default all do, those of keyed timers
    /// included.
    fn influences_receive_timeout(message: &Self::Message) -> bool {
        let _ = message;
        true
    }

    /// Copies a message that is about to be received, for [`restarting`](Self::restarting) if it
    /// fails. By default no copy is made.
    fn keep(message: &Self::Message) -> Option<Self::Message> {
        let _ = message;
        None
    }

    /// Called on an actor that has panicked and is about to be replaced by a new one. Its timers
    /// have been cancelled; it is dropped after this, without a call of [`stopped`](Self::stopped).
    /// If it calls [`Context::stop`] here, or did before it panicked, there will be no new one.
    fn restarting(&mut self, failure: Failure<Self::Message>, ctx: &mut Context<Self>) {
        let _ = (failure, ctx);
    }

    /// Called once, after the last message, whatever the reason. At that time the actor's timers
    /// have been cancelled, and its children have stopped. The actor is dropped after this. An
    /// actor that is replaced gets [`restarting`](Self::restarting) instead.
    fn stopped(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        let _ = (reason, ctx);
    }
}

/// The receive timeout of an actor.
struct Quiet {
    after: Duration,
    generation: u64,
    since: Instant,
    armed: Option<Cancellable>,
    /// Of the call that set it.
    place: Place,
}

/// What an actor has put aside.
struct Stash<M> {
    aside: VecDeque<M>,
    /// What is to be received next.
    unstashed: VecDeque<M>,
    /// The spans in which they were put aside, if the system captures spans; otherwise empty.
    spans_aside: VecDeque<Option<Told>>,
    spans_unstashed: VecDeque<Option<Told>>,
}

impl<M> Stash<M> {
    fn new() -> Self {
        Self {
            aside: VecDeque::new(),
            unstashed: VecDeque::new(),
            spans_aside: VecDeque::new(),
            spans_unstashed: VecDeque::new(),
        }
    }
}

/// What few actors have. Each part is boxed again if it is large.
struct Belongings<M: Send + 'static> {
    timers: Option<Box<Timers<M>>>,
    quiet: Option<Box<Quiet>>,
    quiet_generation: u64,
    stash: Option<Box<Stash<M>>>,
    stash_capacity: usize,
    /// By their numbers, and so in the order in which they were spawned.
    children: BTreeMap<u64, Arc<dyn Resident>>,
    /// By their numbers, each with this actor's number among its watchers.
    watching: BTreeMap<u64, (Arc<dyn Resident>, Option<u64>)>,
}

impl<M: Send + 'static> Belongings<M> {
    fn new(stash_capacity: usize) -> Self {
        Self {
            timers: None,
            quiet: None,
            quiet_generation: 0,
            stash: None,
            stash_capacity,
            children: BTreeMap::new(),
            watching: BTreeMap::new(),
        }
    }
}

/// Passed to an actor with each call.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Actor, Context, Recipient, StopReason};
/// use std::time::Duration;
///
/// /// Opens a minute after it has started. Guests that come before that wait.
/// struct Gate {
///     open: bool,
///     hall: Recipient<&'static str>,
/// }
///
/// impl Actor for Gate {
///     type Message = &'static str;
///     fn started(&mut self, ctx: &mut Context<Self>) {
///         let _ = ctx.timers().start_single("clock", Duration::from_secs(60), "open");
///     }
///     fn receive(&mut self, message: &'static str, ctx: &mut Context<Self>) {
///         match message {
///             "open" => {
///                 self.open = true;
///                 ctx.unstash_all();
///             }
///             "close" => ctx.stop(),
///             guest if self.open => drop(self.hall.tell(guest)),
///             guest => ctx.stash(guest).expect("few come so early"),
///         }
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let guests = kit.probe::<&'static str>("hall");
/// let hall = guests.actor().recipient();
/// let gate = kit.spawn("gate", move || Gate { open: false, hall })?;
/// gate.tell("early")?;
/// guests.expect_no_message_for(Duration::from_secs(59));
/// assert_eq!(guests.expect_message_within(Duration::from_secs(1)), "early");
/// gate.tell("close")?;
/// assert_eq!(guests.expect_terminated(&gate), StopReason::Itself);
/// # Ok(()) }
/// ```
pub struct Context<A: Actor> {
    myself: ActorRef<A::Message>,
    system: System,
    /// Made when the actor first has something of it.
    belongings: Option<Box<Belongings<A::Message>>>,
    /// It is being created and started.
    pub(crate) starting: bool,
    /// It wants to stop.
    pub(crate) stopping: bool,
    /// No more children are accepted.
    pub(crate) closing: bool,
}

/// How many messages an actor may stash, unless its [`Props`](crate::Props) say otherwise.
pub(crate) const STASH: usize = 1024;

impl<A: Actor> Context<A> {
    pub(crate) fn new(cell: &Arc<Cell<A::Message>>, system: System, stash_capacity: usize) -> Self {
        let is_usual = stash_capacity == STASH;
        Self {
            myself: ActorRef::new(Arc::clone(cell)),
            system,
            belongings: (!is_usual).then(|| Box::new(Belongings::new(stash_capacity))),
            starting: false,
            stopping: false,
            closing: false,
        }
    }

    fn belongings(&mut self) -> &mut Belongings<A::Message> {
        self.belongings.get_or_insert_with(|| Box::new(Belongings::new(STASH)))
    }

    #[inline]
    fn quiet(&self) -> Option<&Quiet> {
        self.belongings.as_ref()?.quiet.as_deref()
    }

    #[inline]
    fn quiet_mut(&mut self) -> Option<&mut Quiet> {
        self.belongings.as_mut()?.quiet.as_deref_mut()
    }

    pub(crate) fn add_child(&mut self, number: u64, child: Arc<dyn Resident>) {
        self.belongings().children.insert(number, child);
    }

    pub(crate) fn remove_child(&mut self, number: u64) -> Option<Arc<dyn Resident>> {
        self.belongings.as_mut()?.children.remove(&number)
    }

    pub(crate) fn has_children(&self) -> bool {
        self.belongings.as_ref().is_some_and(|it| !it.children.is_empty())
    }

    /// The children with this number or a higher one, and their numbers.
    pub(crate) fn children_from(
        &self,
        number: u64,
    ) -> impl Iterator<Item = (&u64, &Arc<dyn Resident>)> {
        self.belongings.iter().flat_map(move |it| it.children.range(number..))
    }

    /// A reference to this actor.
    pub fn myself(&self) -> &ActorRef<A::Message> {
        &self.myself
    }

    /// Stops this actor when the current call returns. Messages left in its mailbox become dead
    /// letters, and its children are stopped. (To receive what is queued first:
    /// `ctx.myself().stop()`.)
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Fails the actor, as a panic would, and does not return. The error is logged, counted and
    /// shown to [`Builder::on_panic`](crate::Builder::on_panic); the actor's
    /// [`supervision`](crate::Props::supervision) decides what follows. The stack unwinds as in a
    /// panic, but the hook of [`std::panic::set_hook`] is not called.
    ///
    /// # Panics
    ///
    /// Always; the panic ends at the actor. Only the actor itself may call this, on the thread that
    /// it runs on.
    ///
    /// # Examples
    ///
    /// A handler that returns a `Result`:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::test_kit::TestKit;
    /// use mini_actor::supervision::SupervisionStrategy;
    /// use mini_actor::{Actor, Context, Props};
    /// use std::num::ParseIntError;
    ///
    /// struct Sum(u64);
    ///
    /// impl Sum {
    ///     fn add(&mut self, line: &str) -> Result<(), ParseIntError> {
    ///         self.0 += line.parse::<u64>()?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// impl Actor for Sum {
    ///     type Message = &'static str;
    ///     fn receive(&mut self, line: &'static str, ctx: &mut Context<Self>) {
    ///         self.add(line).unwrap_or_else(|error| ctx.fail(error));
    ///     }
    /// }
    ///
    /// let kit = TestKit::new("test")?;
    /// let props = Props::new(|| Sum(0)).supervision(SupervisionStrategy::restart());
    /// let sum = kit.spawn_with("sum", props)?;
    /// sum.tell("12")?;
    /// sum.tell("a dozen")?;
    /// assert_eq!(kit.panics()[0].panic.message, "invalid digit found in string");
    /// assert_eq!(sum.metrics().restarts, 1);
    /// # Ok(()) }
    /// ```
    pub fn fail(&self, error: impl fmt::Display) -> ! {
        resume_unwind(Box::new(error.to_string()))
    }

    /// How often this actor has been restarted. Put it into messages that only this incarnation
    /// should act on: see [`pipe_to_self`](Self::pipe_to_self).
    pub fn incarnation(&self) -> u64 {
        self.myself.cell().restarted()
    }

    /// The system, to spawn actors without a parent.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The system's scheduler, for messages to others. See [`timers`](Self::timers) for messages to
    /// this actor.
    pub fn scheduler(&self) -> &Scheduler {
        self.system.scheduler()
    }

    /// This actor's own timers.
    pub fn timers(&mut self) -> &mut Timers<A::Message> {
        let Self { myself, belongings, .. } = self;
        let belongings = belongings.get_or_insert_with(|| Box::new(Belongings::new(STASH)));
        let make = || Box::new(Timers::new(Arc::clone(myself.cell())));
        belongings.timers.get_or_insert_with(make)
    }

    pub(crate) fn list_timers(&self) -> Vec<ActorTimer> {
        let timers = self.belongings.as_ref().and_then(|it| it.timers.as_ref());
        timers.map(|timers| timers.list()).unwrap_or_default()
    }

    /// The living child with this name, if it receives messages of this type.
    pub fn child<M: Send + 'static>(&self, name: &str) -> Option<ActorRef<M>> {
        let found = self.system.registry().tree.find_child(self.myself.id(), name)?;
        ActorRef::of(found)
    }

    /// The names of the living children, in the order in which they were spawned. The iterator
    /// knows its length. [`child`](Self::child) returns a reference to one of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use mini_actor::{Actor, Context};
    ///
    /// struct Worker;
    /// # impl Actor for Worker {
    /// #     type Message = u32;
    /// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
    /// # }
    ///
    /// struct Pool;
    ///
    /// impl Actor for Pool {
    ///     type Message = u32;
    ///     fn started(&mut self, ctx: &mut Context<Self>) {
    ///         for name in ["first", "second"] {
    ///             // The names are free. While the system ends there are no more actors.
    ///             let _ = ctx.spawn(name, || Worker);
    ///         }
    ///         assert!(ctx.children().eq(["first", "second"]));
    ///     }
    ///     /// To all.
    ///     fn receive(&mut self, number: u32, ctx: &mut Context<Self>) {
    ///         for name in ctx.children() {
    ///             if let Some(worker) = ctx.child::<u32>(name) {
    ///                 let _ = worker.tell(number);
    ///             }
    ///         }
    ///     }
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let kit = mini_actor::test_kit::TestKit::new("test")?;
    /// # let pool = kit.spawn("pool", || Pool)?;
    /// # pool.tell(7)?;
    /// # kit.settle();
    /// # assert_eq!(kit.metrics().processed, 3);
    /// # Ok(()) }
    /// ```
    pub fn children(&self) -> impl ExactSizeIterator<Item = &str> {
        // Whoever has learned of an end may be faster than the signal that removes the child here.
        let children = self.children_from(0).map(|(_, child)| child);
        let living = children.filter(|child| child.watchers().reason().is_none());
        let names: Vec<_> = living.map(|child| child.lineage().name()).collect();
        names.into_iter()
    }

    /// Has [`Actor::terminated`] called when that actor has stopped: once, even if it has stopped
    /// already. Watching twice is the same as watching once. A restarted actor watches what its
    /// predecessor watched, and learns of the ends in between after its
    /// [`started`](Actor::started).
    ///
    /// Takes an [`ActorRef`] or a [`Recipient`](crate::Recipient).
    pub fn watch(&mut self, other: impl Into<Watched>) {
        let other = other.into().0;
        if self.belongings().watching.contains_key(&other.id()) {
            return;
        }
        let me = Watcher::Actor(Arc::clone(self.myself.cell()) as Arc<_>);
        let number = match other.watchers().add(me) {
            Ok(number) => Some(number),
            Err((_, reason)) => {
                let gone = Terminated { id: other.id(), path: other.lineage().to_path(), reason };
                (Arc::clone(self.myself.cell()) as Arc<dyn Resident>).tell_end(gone);
                None
            }
        };
        self.belongings().watching.insert(other.id(), (other, number));
    }

    /// Stops watching that actor: [`Actor::terminated`] is not called for it any more, even if the
    /// report of its end is on its way. True if it was watched and its end had not been reported.
    pub fn unwatch(&mut self, other: impl Into<Watched>) -> bool {
        self.remove_watched(other.into().0.id()).map(unwatch).is_some()
    }

    /// Stops watching `id`; true if it was watched.
    pub(crate) fn was_watching(&mut self, id: u64) -> bool {
        self.remove_watched(id).is_some()
    }

    fn remove_watched(&mut self, id: u64) -> Option<(Arc<dyn Resident>, Option<u64>)> {
        self.belongings.as_mut()?.watching.remove(&id)
    }

    /// Puts a message aside, to be received again after [`unstash_all`](Self::unstash_all).
    ///
    /// # Errors
    ///
    /// [`StashFull`] gives the message back if the stash holds as many as
    /// [`Props::stash`](crate::Props::stash) allows; by default these are 1,024.
    pub fn stash(&mut self, message: A::Message) -> Result<(), StashFull<A::Message>> {
        let has_spans = self.myself.cell().mailbox.has_spans();
        let stashed = self.stashed();
        let belongings = self.belongings();
        let capacity = belongings.stash_capacity;
        if stashed >= capacity {
            return Err(StashFull { capacity, message });
        }
        let stash = belongings.stash.get_or_insert_with(|| Box::new(Stash::new()));
        stash.aside.push_back(message);
        if has_spans {
            stash.spans_aside.push_back(told_here());
        }
        Ok(())
    }

    /// How many messages are stashed.
    pub fn stashed(&self) -> usize {
        self.stashing().map_or(0, |stash| stash.aside.len())
    }

    #[inline]
    fn stashing(&self) -> Option<&Stash<A::Message>> {
        self.belongings.as_ref()?.stash.as_deref()
    }

    fn stashing_mut(&mut self) -> Option<&mut Stash<A::Message>> {
        self.belongings.as_mut()?.stash.as_deref_mut()
    }

    /// Makes all stashed messages the next to be received: in the order in which they were stashed,
    /// and before those in the mailbox.
    pub fn unstash_all(&mut self) {
        if let Some(stash) = self.stashing_mut() {
            // Messages that were unstashed before come behind these: they were received, and
            // stashed, later.
            while let Some(message) = stash.aside.pop_back() {
                stash.unstashed.push_front(message);
            }
            while let Some(span) = stash.spans_aside.pop_back() {
                stash.spans_unstashed.push_front(span);
            }
        }
    }

    /// Whether an unstashed message is to be received next.
    #[inline]
    pub(crate) fn has_unstashed(&self) -> bool {
        self.stashing().is_some_and(|stash| !stash.unstashed.is_empty())
    }

    /// The next one, and the span in which it was put aside.
    pub(crate) fn next_unstashed(&mut self, span: &mut Option<Told>) -> Option<A::Message> {
        let stash = self.stashing_mut()?;
        *span = stash.spans_unstashed.pop_front().flatten();
        stash.unstashed.pop_front()
    }

    /// Has [`Actor::receive_timeout`] called when no message has been received for `after`. The
    /// time counts from now, and from the end of each message's handling. The hook is called again
    /// and again, until the timeout is changed or [cancelled](Self::cancel_receive_timeout), or the
    /// actor stops or is restarted. Messages for which [`Actor::influences_receive_timeout`]
    /// returns false do not count.
    ///
    /// It costs one timer in all, and a reading of the clock for each message. The hook is never
    /// called while a message that came in time is queued.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] if `after` is zero; otherwise as for
    /// [`Timers::start_single`](crate::timers::Timers::start_single). The timeout stays as it was.
    ///
    /// # Examples
    ///
    /// ```
    /// use mini_actor::{Actor, Context};
    /// use std::time::Duration;
    ///
    /// struct Session;
    ///
    /// impl Actor for Session {
    ///     type Message = &'static str;
    ///     fn started(&mut self, ctx: &mut Context<Self>) {
    ///         assert!(ctx.set_receive_timeout(Duration::ZERO).is_err());
    ///         let minute = Duration::from_secs(60);
    ///         let _ = ctx.set_receive_timeout(minute); // an error only at `max_pending`
    ///     }
    ///     fn receive(&mut self, _: &'static str, _: &mut Context<Self>) {}
    ///     fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
    ///         ctx.stop();
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mini_actor::test_kit::TestKit;
    ///
    /// let kit = TestKit::new("test")?;
    /// let session = kit.spawn("session", || Session)?;
    /// kit.advance(Duration::from_secs(59));
    /// session.tell("still there")?;
    /// kit.advance(Duration::from_secs(59));
    /// assert!(!session.is_stopped());
    /// kit.advance(Duration::from_secs(1));
    /// assert!(session.is_stopped());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn set_receive_timeout(&mut self, after: Duration) -> Result<(), Refusal> {
        check_period(after)?;
        let generation = self.belongings().quiet_generation + 1;
        let since = self.system.registry().timers.now();
        let (check, place) = (self.quiet_check(Armed::new(generation, false)), Location::caller());
        let armed = match self.system.registry().arm_own(after, check, place) {
            Ok(armed) => armed,
            Err(refusal) => return self.move_receive_timeout(after, since, place).ok_or(refusal),
        };
        self.cancel_receive_timeout();
        let belongings = self.belongings();
        belongings.quiet_generation = generation;
        belongings.quiet = Some(Box::new(Quiet { after, generation, since, armed, place }));
        Ok(())
    }

    /// There is no place for another timer: moves the one of the timeout that is set, if there is
    /// one that has not fired.
    fn move_receive_timeout(
        &mut self,
        after: Duration,
        since: Instant,
        place: Place,
    ) -> Option<()> {
        let quiet = self.quiet_mut()?;
        if !quiet.armed.as_ref()?.reset(after) {
            return None;
        }
        (quiet.after, quiet.since, quiet.place) = (after, since, place);
        Some(())
    }

    /// The receive timeout, if one is set.
    pub fn receive_timeout(&self) -> Option<Duration> {
        self.quiet().map(|quiet| quiet.after)
    }

    /// Turns the receive timeout off: the hook is not called any more.
    pub fn cancel_receive_timeout(&mut self) {
        let quiet = self.belongings.as_mut().and_then(|it| it.quiet.take());
        if let Some(armed) = quiet.and_then(|quiet| quiet.armed) {
            armed.cancel();
        }
    }

    fn quiet_check(&self, armed: Armed) -> Task<QuietCheck<A::Message>> {
        Task::new(QuietCheck { cell: Arc::clone(self.myself.cell()), armed })
    }

    /// Looks again later. If there is no place for that, the timeout ends.
    fn arm_quiet_again(&mut self, delay: Duration) {
        let Some(&Quiet { generation, place, .. }) = self.quiet() else { return };
        let check = self.quiet_check(Armed::new(generation, delay.is_zero()));
        let cell = self.myself.cell();
        let armed = cell.registry.arm_for(&cell.lineage, delay, check, place);
        if armed.is_none() {
            self.cancel_receive_timeout();
        } else if let Some(quiet) = self.quiet_mut() {
            quiet.armed = armed;
        }
    }

    /// A message that counts has been received.
    #[inline]
    pub(crate) fn heard(&mut self) {
        let Self { belongings, system, .. } = self;
        if let Some(quiet) = belongings.as_mut().and_then(|it| it.quiet.as_mut()) {
            quiet.since = system.registry().timers.now();
        }
    }

    /// The receive timeout's timer fired at `fired`, and all messages that had come by then have
    /// been received. Returns whether it had been quiet long enough; if not, looks again later.
    pub(crate) fn is_quiet(&mut self, generation: u64, fired: Instant) -> bool {
        let Some(quiet) = self.quiet().filter(|quiet| quiet.generation == generation) else {
            return false;
        };
        // Not judged by the time now: messages may have come since the timer fired, and wait.
        if fired.saturating_duration_since(quiet.since) >= quiet.after {
            return true;
        }
        let now = self.system.registry().timers.now();
        let left = quiet.after.saturating_sub(now.saturating_duration_since(quiet.since));
        // If nothing is left the timer fires at once, behind the messages that wait now.
        self.arm_quiet_again(left);
        false
    }

    /// When it has been quiet long enough.
    pub(crate) fn quiet_at(&self) -> Option<Instant> {
        let quiet = self.quiet()?;
        quiet.since.checked_add(quiet.after)
    }

    /// The call of [`Actor::receive_timeout`] has ended: the time starts over, unless it has been
    /// changed.
    pub(crate) fn quiet_again(&mut self, generation: u64) {
        let now = self.system.registry().timers.now();
        if let Some(quiet) = self.quiet_mut().filter(|quiet| quiet.generation == generation) {
            quiet.since = now;
            let after = quiet.after;
            self.arm_quiet_again(after);
        }
    }

    /// Runs code that blocks or takes long. Before that, the actors that wait for this very thread
    /// are handed to other threads. (An actor that always blocks is better
    /// [pinned](crate::Props::pinned).) The time does not count for
    /// [`Builder::slow_receive`](crate::Builder::slow_receive).
    pub fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        about_to_block();
        let _forgiven = Forgiven::enter();
        work()
    }

    /// Ends what belongs to one incarnation: timers and the receive timeout.
    pub(crate) fn end_timers(&mut self) {
        if let Some(timers) = self.timers_mut() {
            timers.cancel_all();
        }
        self.cancel_receive_timeout();
    }

    /// Like [`end_timers`](Self::end_timers), but no more of them than `most`. True if there are
    /// more.
    pub(crate) fn end_some_timers(&mut self, most: usize) -> bool {
        self.cancel_receive_timeout();
        self.timers_mut().is_some_and(|timers| timers.cancel_some(most))
    }

    fn timers_mut(&mut self) -> Option<&mut Timers<A::Message>> {
        self.belongings.as_mut()?.timers.as_deref_mut()
    }

    /// Ends watching, of no more than `most` actors. True if there are more.
    pub(crate) fn unwatch_some(&mut self, most: usize) -> bool {
        let Some(belongings) = &mut self.belongings else { return false };
        for _ in 0..most {
            let Some((_, watched)) = belongings.watching.pop_first() else { return false };
            unwatch(watched);
        }
        !belongings.watching.is_empty()
    }
}

fn unwatch((other, number): (Arc<dyn Resident>, Option<u64>)) {
    if let Some(number) = number {
        other.watchers().remove(number);
    }
}

/// The timer of a receive timeout.
struct QuietCheck<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    armed: Armed,
}

impl<M: Send + 'static> TaskBody for QuietCheck<M> {
    fn run(self) {
        // Read before the place among the messages: what has come by now is received first.
        let fired = self.cell.registry.timers.now();
        let Self { cell, armed } = self;
        let generation = armed.generation();
        let due = match armed.is_missed() {
            true => Due::MissedQuiet { generation, fired },
            false => Due::Quiet { generation, fired },
        };
        cell.send_signal_at(|at| Signal::Due(at, due));
    }
}

show!([A: Actor] Context<A>, "Context", |it|
    myself: it.myself, children: it.children_from(0).count(), stopping: it.stopping
);
