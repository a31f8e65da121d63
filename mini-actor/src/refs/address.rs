//! References to actors.

use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::error::{SendError, Unsendable};
use crate::base::lineage::Stands;
use crate::base::oneshot::{NoValue, OneShot};
use crate::base::stop_reason::StopReason;
use crate::cell::home::{Cell, Wait};
use crate::cell::registry::Registry;
use crate::cell::signal::{Resident, Signal, Watcher};
use crate::dispatcher::marks::Inside;
use crate::dispatcher::worker::{about_to_block, polled_and_pending};
use crate::sync::{Arc, Ordering, Weak, real_now};
use lars_base::time::Instant;

/// A reference to an actor that receives messages of type `M`. Cheap to clone, `Send` and `Sync`.
///
/// It does not keep the actor alive: an actor runs until it is stopped, stops itself, panics, or
/// its system is closed. Two references are equal if they refer to the same actor; a later actor
/// with the same path is a different one.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::StopReason;
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?; // any system has such references
/// let probe = kit.probe::<String>("probe");
/// let actor = probe.actor();
/// actor.tell("hello".to_owned())?;
/// assert_eq!(probe.expect_message(), "hello");
/// assert_eq!((actor.name(), actor.metrics().processed), ("probe", 1));
///
/// let weak = actor.downgrade();
/// assert_eq!(weak.upgrade().as_ref(), Some(actor));
///
/// let termination = actor.termination();
/// actor.stop(); // after what is queued; `kill` does not wait for that
/// kit.settle();
/// assert!(actor.is_stopped());
/// assert_eq!(termination.wait_timeout(std::time::Duration::ZERO), Some(StopReason::Asked));
/// let refused = actor.tell("too late".to_owned()).unwrap_err();
/// assert_eq!(refused.into_message(), "too late");
/// # Ok(()) }
/// ```
pub struct ActorRef<M> {
    cell: Arc<Cell<M>>,
}

/// Counts of one actor.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u32>("probe");
/// for number in 0..3 {
///     probe.actor().tell(number)?;
/// }
/// let metrics = probe.actor().metrics();
/// assert_eq!((metrics.mailbox_depth, metrics.processed), (3, 0));
/// kit.settle();
/// let metrics = probe.actor().metrics();
/// assert_eq!((metrics.mailbox_depth, metrics.processed, metrics.restarts), (0, 3, 0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorMetrics {
    /// Messages that wait in the mailbox, including those that the actor is working off now.
    pub mailbox_depth: u64,
    /// Messages received, including the one that is being received. A stashed message counts once.
    pub processed: u64,
    /// How often it was restarted.
    pub restarts: u64,
}

impl<M: Send + 'static> ActorRef<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self { cell }
    }

    /// To this actor, if it receives messages of this type.
    pub(crate) fn of(actor: Arc<dyn Resident>) -> Option<Self> {
        actor.as_any().downcast().ok().map(Self::new)
    }

    /// Puts a message into the actor's mailbox. It does not wait for the actor, which receives the
    /// message on a thread of the system. Only if the mailbox is full and its policy is
    /// [`Overflow::Block`](crate::Overflow::Block), the caller waits for room.
    ///
    /// # Ordering
    ///
    /// Messages of one thread to one actor arrive in the order of the calls.
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the message back if the actor has stopped, or if its mailbox is full and
    /// its policy is to fail. An accepted message that the actor does not live to receive becomes a
    /// dead letter.
    #[inline]
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        let sent = self.cell.send(message, Wait::Until(None));
        sent.map_err(|(reason, message)| SendError::new(message, reason, self.cell.lineage.path()))
    }

    /// Sends like [`tell`](Self::tell), but never waits for room:
    /// [`Overflow::Block`](crate::Overflow::Block) is treated like
    /// [`Overflow::Fail`](crate::Overflow::Fail).
    ///
    /// # Errors
    ///
    /// Same as [`tell`](Self::tell).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, Context};
    /// use mini_actor::test_kit::TestKit;
    /// use mini_actor::{Overflow, Props, Unsendable};
    /// use std::time::Duration;
    /// # struct Printer;
    /// # impl Actor for Printer {
    /// #     type Message = u32;
    /// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
    /// # }
    ///
    /// let kit = TestKit::new("test")?;
    /// let minute = Duration::from_secs(60);
    /// let props = Props::new(|| Printer).bounded(1, Overflow::Block(minute));
    /// let printer = kit.spawn_with("printer", props)?;
    /// printer.try_tell(1)?;
    /// assert_eq!(printer.try_tell(2).unwrap_err().reason(), Unsendable::Full);
    /// # Ok(()) }
    /// ```
    pub fn try_tell(&self, message: M) -> Result<(), SendError<M>> {
        let sent = self.cell.send(message, Wait::Never);
        sent.map_err(|(reason, message)| SendError::new(message, reason, self.cell.lineage.path()))
    }

    /// Sends like [`tell`](Self::tell), as soon as there is room. If the mailbox is full and its
    /// policy is [`Fail`](crate::Overflow::Fail) or [`Block`](crate::Overflow::Block), the future
    /// waits, without a limit and without occupying a thread. Nothing is sent before it is polled;
    /// dropping it withdraws the message. Senders that wait are woken in the order in which they
    /// began to; one that has not waited may be faster than the one that is woken.
    ///
    /// An actor does not await it, but pipes it:
    /// [`Context::pipe_to_self`](crate::Context::pipe_to_self).
    ///
    /// # Errors
    ///
    /// The future yields a [`SendError`] if the actor stops before there is room. An actor that
    /// blocks on it with an executor of its own also gets one where it must not wait: see
    /// [`Overflow::Block`](crate::Overflow::Block).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mini_actor::{Actor, ActorSystem, Context};
    /// use mini_actor::{Overflow, Props};
    /// # struct Printer;
    /// # impl Actor for Printer {
    /// #     type Message = u32;
    /// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
    /// # }
    ///
    /// let system = ActorSystem::new("demo")?;
    /// let props = Props::new(|| Printer).bounded(1, Overflow::Fail);
    /// let printer = system.spawn_with("printer", props)?;
    /// futures::executor::block_on(async {
    ///     for page in 0..100 {
    ///         printer.tell_when_room(page).await?; // none is refused
    ///     }
    ///     Ok::<_, mini_actor::SendError<u32>>(())
    /// })?;
    /// assert_eq!(system.close()?.dead_letters, 0);
    /// # Ok(()) }
    /// ```
    pub fn tell_when_room(&self, message: M) -> Telling<M> {
        Telling { cell: Arc::clone(&self.cell), message: Some(message), place: None }
    }

    /// Stops the actor when it has received what is in its mailbox now. Its children are stopped
    /// first; meanwhile it goes on receiving. Then its mailbox is closed: messages accepted until
    /// then are received, later ones come back to their senders. So a stop loses no message.
    ///
    /// Stopping an actor that is stopping or has stopped does nothing.
    pub fn stop(&self) {
        Arc::clone(&self.cell).stop_for(StopReason::Asked);
    }

    /// Stops the actor before its next message. What is in its mailbox becomes dead letters, and
    /// its children are killed. The message that it is receiving is not interrupted.
    pub fn kill(&self) {
        self.cell.send_signal(Signal::Kill(StopReason::Killed));
    }

    /// Whether the actor accepts no more messages: it has stopped, or is about to stop and has
    /// closed its mailbox.
    pub fn is_stopped(&self) -> bool {
        self.cell.mailbox.is_closed()
    }

    /// The end of the actor, for a thread or a task to wait for. It is ready when the actor has
    /// been dropped and its name is free.
    pub fn termination(&self) -> Termination {
        let shot = Arc::new(OneShot::new());
        let end = End(Arc::clone(&shot));
        let tell = Box::new(move |reason| _ = end.0.settle(Ok(reason)));
        let watched = match self.cell.watchers().add(Watcher::Other(tell)) {
            Ok(number) => {
                let cell = Arc::clone(&self.cell) as Arc<dyn Resident>;
                Some((Arc::downgrade(&cell), number))
            }
            Err((Watcher::Other(tell), reason)) => {
                tell(reason);
                None
            }
            Err((Watcher::Actor(_), _)) => None,
        };
        Termination { shot, watched }
    }

    /// The name that it was spawned with.
    pub fn name(&self) -> &str {
        self.cell.lineage.name()
    }

    /// Its place in the tree of its system: `/parent/child`.
    pub fn path(&self) -> &str {
        self.cell.lineage.path()
    }

    /// A number that no other actor of the process has.
    pub fn id(&self) -> u64 {
        self.cell.id
    }

    /// A snapshot of the actor's counts.
    pub fn metrics(&self) -> ActorMetrics {
        // Relaxed: statistics.
        ActorMetrics {
            mailbox_depth: self.cell.mailbox.depth(),
            processed: self.cell.processed.load(Ordering::Relaxed),
            restarts: self.cell.restarted(),
        }
    }

    /// A reference that does not keep the actor's memory.
    pub fn downgrade(&self) -> WeakActorRef<M> {
        WeakActorRef { cell: Arc::downgrade(&self.cell) }
    }

    /// A reference for senders that know only a part of the protocol.
    pub fn recipient<P: Into<M> + Send + 'static>(&self) -> Recipient<P> {
        self.map(Into::into)
    }

    /// A reference for senders of another type, which `map` turns into this actor's messages. `map`
    /// runs on the sender's thread, and should be short: until it returns, later messages to the
    /// actor wait. What `map` itself sends never waits for room.
    pub fn map<P: Send + 'static>(
        &self,
        map: impl Fn(P) -> M + Send + Sync + 'static,
    ) -> Recipient<P> {
        let cell = Arc::clone(&self.cell);
        Recipient { target: Arc::new(Mapped { home: Arc::clone(&cell) as _, cell, map }) }
    }

    pub(crate) fn cell(&self) -> &Arc<Cell<M>> {
        &self.cell
    }
}

impl<M> Clone for ActorRef<M> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell) }
    }
}

impl<M> PartialEq for ActorRef<M> {
    fn eq(&self, other: &Self) -> bool {
        self.cell.id == other.cell.id
    }
}

impl<M> Eq for ActorRef<M> {}

impl<M> Hash for ActorRef<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cell.id.hash(state);
    }
}

show!([M] ActorRef<M>, "ActorRef", |it| path: it.cell.lineage);

/// A reference to an actor that does not keep its memory. (No reference keeps an actor alive.) Use
/// it to hold very many references for a long time.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u32>("probe");
/// let weak = probe.actor().downgrade();
/// let actor = weak.upgrade().ok_or("it has gone")?;
/// actor.tell(7)?;
/// assert_eq!(probe.expect_message(), 7);
///
/// actor.stop();
/// kit.settle();
/// assert!(weak.upgrade().is_some_and(|actor| actor.is_stopped()));
/// drop((actor, probe)); // the last references
/// assert!(weak.upgrade().is_none());
/// # Ok(()) }
/// ```
pub struct WeakActorRef<M> {
    cell: Weak<Cell<M>>,
}

impl<M> WeakActorRef<M> {
    /// The actor, if its memory is still there. It may have stopped.
    pub fn upgrade(&self) -> Option<ActorRef<M>> {
        self.cell.upgrade().map(|cell| ActorRef { cell })
    }
}

impl<M> Clone for WeakActorRef<M> {
    fn clone(&self) -> Self {
        Self { cell: Weak::clone(&self.cell) }
    }
}

show!([M] WeakActorRef<M>, "WeakActorRef", |it| actor: it.upgrade());

/// An actor to [watch](crate::Context::watch): an [`ActorRef`] or a [`Recipient`].
pub struct Watched(pub(crate) Arc<dyn Resident>);

impl<M: Send + 'static> From<&ActorRef<M>> for Watched {
    fn from(actor: &ActorRef<M>) -> Self {
        Self(Arc::clone(&actor.cell) as _)
    }
}

impl<P> From<&Recipient<P>> for Watched {
    fn from(recipient: &Recipient<P>) -> Self {
        Self(Arc::clone(recipient.target.home()))
    }
}

show!([] Watched, "Watched", |it| path: it.0.lineage());

pub(crate) trait Accept<P>: Send + Sync {
    fn accept(&self, given: P, wait: Wait) -> Result<(), (Unsendable, P)>;
    fn home(&self) -> &Arc<dyn Resident>;
    fn registry(&self) -> &Arc<Registry>;
}

struct Mapped<M, F> {
    cell: Arc<Cell<M>>,
    /// The cell without its type.
    home: Arc<dyn Resident>,
    map: F,
}

impl<P, M: Send + 'static, F: Fn(P) -> M + Send + Sync> Accept<P> for Mapped<M, F> {
    fn accept(&self, given: P, wait: Wait) -> Result<(), (Unsendable, P)> {
        self.cell.offer(given, &self.map, wait)
    }

    fn home(&self) -> &Arc<dyn Resident> {
        &self.home
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.cell.registry
    }
}

/// A reference to an actor by a part of its protocol: each message is converted into one of the
/// actor's. Made by [`ActorRef::recipient`] and [`ActorRef::map`]. Cheap to clone, `Send` and
/// `Sync`.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::Recipient;
/// use mini_actor::test_kit::TestKit;
///
/// enum Event {
///     Line(String),
///     Closed(u32),
/// }
///
/// impl From<String> for Event {
///     fn from(line: String) -> Self {
///         Self::Line(line)
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<Event>("probe");
/// let lines: Recipient<String> = probe.actor().recipient();
/// let closed: Recipient<u32> = probe.actor().map(Event::Closed);
/// lines.tell("hello".to_owned())?;
/// closed.tell(7)?;
/// assert!(matches!(probe.expect_message(), Event::Line(line) if line == "hello"));
/// assert!(matches!(probe.expect_message(), Event::Closed(7)));
/// # Ok(()) }
/// ```
pub struct Recipient<P> {
    pub(crate) target: Arc<dyn Accept<P>>,
}

impl<P> Recipient<P> {
    /// Sends a message, like [`ActorRef::tell`].
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the message back, as it was before the conversion.
    ///
    /// # Panics
    ///
    /// If the conversion does. Then nothing is sent.
    pub fn tell(&self, given: P) -> Result<(), SendError<P>> {
        let sent = self.target.accept(given, Wait::Until(None));
        sent.map_err(|(reason, given)| {
            SendError::new(given, reason, self.target.home().lineage().path())
        })
    }

    /// The path of the actor.
    pub fn path(&self) -> &str {
        self.target.home().lineage().path()
    }

    /// The number of the actor, as in [`ActorRef::id`].
    pub fn id(&self) -> u64 {
        self.target.home().id()
    }

    /// Whether the actor accepts no more messages.
    pub fn is_stopped(&self) -> bool {
        self.target.home().is_stopped()
    }
}

impl<P> Clone for Recipient<P> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target) }
    }
}

/// Equal if they refer to the same actor, however they convert messages.
impl<P> PartialEq for Recipient<P> {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl<P> Eq for Recipient<P> {}

show!([P] Recipient<P>, "Recipient", |it| path: it.path());

/// A message that waits for room. Made by [`ActorRef::tell_when_room`].
#[must_use = "nothing is sent before it is polled"]
pub struct Telling<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    /// Until it has been sent or given back.
    message: Option<M>,
    /// The number under which it waits.
    place: Option<u64>,
}

/// The message is moved in and out, and never pinned.
impl<M: Send + 'static> Unpin for Telling<M> {}

impl<M: Send + 'static> Future for Telling<M> {
    type Output = Result<(), SendError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { cell, message, place } = &mut *self;
        while let Some(given) = message.take() {
            let Err((reason, given)) = cell.send(given, Wait::Never) else {
                cell.mailbox.leave_room(place, true);
                return Poll::Ready(Ok(()));
            };
            let room = match reason {
                Unsendable::Full => {
                    cell.mailbox.poll_room(place, context.waker(), Inside::any_actor())
                }
                Unsendable::Stopped => Poll::Ready(false),
            };
            if room == Poll::Ready(false) {
                return Poll::Ready(Err(SendError::new(given, reason, cell.lineage.path())));
            }
            *message = Some(given);
            if room.is_pending() {
                polled_and_pending();
                break;
            }
        }
        Poll::Pending
    }
}

impl<M: Send + 'static> Drop for Telling<M> {
    fn drop(&mut self) {
        self.cell.mailbox.leave_room(&mut self.place, false);
    }
}

show!([M: Send + 'static] Telling<M>, "Telling", |it| path: it.cell.lineage);

/// Settles a termination, even if its actor goes with a system that no thread runs any more.
struct End(Arc<OneShot<StopReason>>);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.settle(Err(NoValue::Dropped));
    }
}

/// The end of an actor, with the reason. Made by [`ActorRef::termination`].
///
/// A future for any executor; any number of threads can also [`wait`](Self::wait) for it. It can be
/// polled again after it was ready, and yields the same reason.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{Actor, ActorSystem, Context, StopReason};
///
/// struct Once;
///
/// impl Actor for Once {
///     type Message = ();
///     fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
///         ctx.stop();
///     }
/// }
///
/// let system = ActorSystem::new("demo")?;
/// let once = system.spawn("once", || Once)?;
/// let end = once.termination();
/// once.tell(())?;
/// assert_eq!(end.wait(), StopReason::Itself); // or `end.await`
/// # Ok(()) }
/// ```
#[must_use = "it says when the actor has stopped to whoever waits for it"]
pub struct Termination {
    shot: Arc<OneShot<StopReason>>,
    /// The actor, and the number of this watcher there. Not a strong reference: a system that no
    /// thread runs any more frees its actors, and that settles this as well.
    watched: Option<(Weak<dyn Resident>, u64)>,
}

/// Leaves nothing behind at an actor that lives on.
impl Drop for Termination {
    fn drop(&mut self) {
        if let Some((actor, number)) = self.watched.take()
            && let Some(actor) = actor.upgrade()
        {
            actor.watchers().remove(number);
        }
    }
}

impl Termination {
    /// Blocks until the actor has stopped.
    ///
    /// An actor must not wait for itself or its parent. In virtual time nothing must wait, because
    /// the waiting thread is the one that moves time and runs actors.
    pub fn wait(&self) -> StopReason {
        // Without a deadline it comes back with a result.
        self.wait_until(None).unwrap_or(StopReason::SystemClosed)
    }

    /// Like [`wait`](Self::wait), but not longer than `limit`. `None` if that has passed.
    pub fn wait_timeout(&self, limit: Duration) -> Option<StopReason> {
        self.wait_until(real_now().checked_add(limit))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Option<StopReason> {
        about_to_block();
        self.shot.wait_for_copy(deadline).map(Self::reason)
    }

    fn reason(result: Result<StopReason, NoValue>) -> StopReason {
        // In virtual time, a cell may be freed with its system without having stopped.
        result.unwrap_or(StopReason::SystemClosed)
    }
}

impl Future for Termination {
    type Output = StopReason;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<StopReason> {
        let polled = self.shot.poll_copy(context).map(Self::reason);
        if polled.is_pending() {
            polled_and_pending();
        }
        polled
    }
}

show!([] Termination, "Termination", |it| open: it.shot.is_open());
