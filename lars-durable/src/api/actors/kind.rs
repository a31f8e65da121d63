//! A kind of actors, and how a node comes to have it.

use std::fmt;
use std::time::Duration;

use lars_base::backoff::BackoffPolicy;
use mini_actor::{Actor, ActorRef, Context, Props, StopReason, System};

use super::host::{FAREWELL, Host, Make, SetProps};
use super::hosted::{DurableActor, Hosted};
use crate::api::address;
use crate::api::durable::Builder;
use crate::api::handler::Handler;
use crate::api::payload::Payload;
use crate::api::schedule::{Once, Schedule};
use crate::api::timers::Timers;
use crate::engine::HandlerSettings;
use crate::runtime::{Run, RunHandler, Shared};
use crate::sync::{Arc, Mutex, Weak};

/// How long an actor may be without a message before it stops, unless it is set.
const SILENCE: Duration = Duration::from_secs(600);

/// A kind of named actor: how to create one, and the rules for its messages.
///
/// # Examples
///
/// An order that is cancelled if nobody pays for it in a day, whatever happens to machines:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::actors::{DurableActor, DurableContext, Hosted, Kind};
/// use lars_durable::{Durable, Payload};
/// use mini_actor::{ActorSystem, Context};
/// use serde::{Deserialize, Serialize};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// #[derive(Serialize, Deserialize)]
/// enum Event {
///     Placed,
///     Paid,
///     PaymentDue,
/// }
///
/// impl Payload for Event {
///     const NAME: &'static str = "order"; // the kind
/// }
///
/// struct Order {
///     number: String,
///     paid: mpsc::Sender<String>,
/// }
///
/// impl DurableActor for Order {
///     type Reminder = Event;
///     type Message = Event;
///
///     fn receive(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) {
///         let day = Duration::from_secs(86_400);
///         match event {
///             Event::Placed => { // (Only values out of range are refused.)
///                 let _ = ctx.reminders().start_single("payment", day, Event::PaymentDue);
///             }
///             Event::Paid => {
///                 let _ = ctx.reminders().cancel("payment");
///                 let _ = self.paid.send(self.number.clone());
///             }
///             Event::PaymentDue => { /* cancel the order */ }
///         }
///     }
/// }
///
/// let (paid, numbers) = mpsc::channel();
/// let system = ActorSystem::new("shop")?;
/// let orders = Kind::new(move |number| Order { number: number.into(), paid: paid.clone() });
/// let durable = Durable::in_memory().actors(&system, orders).start()?;
///
/// let timers = durable.timers();
/// timers.tell("order/17", Event::Placed).submit().wait()?; // makes the actor
/// timers.tell("order/17", Event::Paid).submit().wait()?;
/// assert_eq!(numbers.recv()?, "17");
/// durable.close()?;
/// # Ok(()) }
/// ```
#[must_use = "it does nothing until a node has it"]
pub struct Kind<A: DurableActor> {
    make: Arc<Make<A>>,
    set_props: Arc<SetProps<A>>,
    silence: Duration,
    settings: HandlerSettings,
}

impl<A: DurableActor> Kind<A> {
    /// Actors that `make` creates from their names, on a thread of the actor system: once more for
    /// each restart, and when a message comes for one that has stopped.
    pub fn new(make: impl Fn(&str) -> A + Send + Sync + 'static) -> Self {
        let settings = HandlerSettings::new(A::Reminder::NAME, usize::MAX);
        let settings = HandlerSettings { recipient: Some(address::recipient), ..settings };
        let (make, set_props) = (Arc::new(make), Arc::new(|props| props));
        Self { make, set_props, silence: SILENCE, settings }
    }

    /// How long an actor may be without a message before it stops: ten minutes unless it is set.
    /// Its reminders stay, and the next message creates it again. This is the actor's receive
    /// timeout: [`Context::set_receive_timeout`] changes it for one actor, and
    /// [`Context::cancel_receive_timeout`] lets that actor live on.
    ///
    /// If the system's scheduler is at its `max_pending` when the actor is made, the timeout is set
    /// later, and the actor stops later: it tries again each time a silence has passed, or a second
    /// if that is longer, until there is a place.
    pub fn passivate_after(mut self, silence: Duration) -> Self {
        // An actor's receive timeout cannot be nothing.
        self.silence = silence.max(Duration::from_nanos(1));
        self
    }

    /// Changes how the actors live: their mailboxes, supervision, threads. The closure is called
    /// for each actor that is made, on the thread that fires the node's timers, so it must not
    /// block.
    pub fn props(
        mut self,
        set: impl Fn(Props<Hosted<A>>) -> Props<Hosted<A>> + Send + Sync + 'static,
    ) -> Self {
        self.set_props = Arc::new(set);
        self
    }

    /// How many attempts a message has before it is parked: 25 unless it is set; at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// The pauses between attempts: from one second, doubled up to ten minutes, unless it is set.
    pub fn backoff(mut self, policy: BackoffPolicy) -> Self {
        self.settings.backoff = policy;
        self
    }

    /// How many messages of this kind may be on their way to actors of this node: as many as runs
    /// [may be in flight](Builder::max_in_flight), unless it is set; at least 1. With 3 or more,
    /// one actor never has all of them.
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.settings.concurrency = messages;
        self
    }
}

impl Builder {
    /// Lets actors of this kind live in `system`, if this node owns their buckets. Call it once for
    /// each kind.
    ///
    /// When the system is closed, the node closes too: it lets what runs end, for five seconds at
    /// most, and gives its buckets to others. All its handlers end with that.
    pub fn actors<A: DurableActor>(self, system: &System, kind: Kind<A>) -> Self {
        let Kind { make, set_props, silence, settings } = kind;
        let host = Arc::new(Host::new(system.clone(), make, set_props, silence));
        let runner = Runner { host, anchor: Mutex::new(None) };
        self.handler(Handler::of(settings, Box::new(runner)))
    }
}

impl Timers {
    /// A durable message for the actor at `address`, wherever it lives, due now. The address is the
    /// kind (the message's [`NAME`](Payload::NAME)), a slash, and a name; at most 255 bytes.
    ///
    /// All messages and reminders of one actor come from one node, in the order of (due, identity),
    /// and one at a time: the next one when the one before is acknowledged. (A message that failed
    /// is redelivered later, and so out of order.)
    pub fn tell<P: Payload>(&self, address: &str, message: P) -> Schedule<Once> {
        self.tell_after(address, Duration::ZERO, message)
    }

    /// Like [`tell`](Self::tell), but due `delay` from now.
    pub fn tell_after<P: Payload>(
        &self,
        address: &str,
        delay: Duration,
        message: P,
    ) -> Schedule<Once> {
        let schedule = self.schedule_once(delay, message);
        match address::name(address, P::NAME) {
            Ok(name) => schedule.for_actor(&address.into(), &name.into()),
            Err(refused) => schedule.refused(refused),
        }
    }
}

/// Gives runs to actors.
struct Runner<A: DurableActor> {
    host: Arc<Host<A>>,
    anchor: Mutex<Option<ActorRef<()>>>,
}

impl<A: DurableActor> RunHandler for Runner<A> {
    fn run(&self, run: Run) {
        self.host.deliver(run);
    }

    fn bind(&self, shared: &Arc<Shared>) {
        let shared = Arc::downgrade(shared);
        // A system that is closed already shows with the first message.
        let anchor = self.host.system.spawn_anonymous(Props::once(|| Anchor(shared)));
        *self.anchor.lock() = anchor.ok();
    }

    fn is_short(&self) -> bool {
        true
    }

    fn vacate(&self, bucket: crate::model::BucketNo, epoch: u32, lost: bool) {
        self.host.vacate(bucket, epoch, lost);
    }

    fn admit(&self, bucket: crate::model::BucketNo, epoch: u32) {
        self.host.admit(bucket, epoch);
    }
}

impl<A: DurableActor> Drop for Runner<A> {
    fn drop(&mut self) {
        if let Some(anchor) = self.anchor.lock().take() {
            anchor.stop();
        }
    }
}

/// Tells the node when the actor system is closed.
struct Anchor(Weak<Shared>);

impl Actor for Anchor {
    type Message = ();

    fn receive(&mut self, (): (), _: &mut Context<Self>) {}

    fn stopped(&mut self, reason: StopReason, _: &mut Context<Self>) {
        if reason == StopReason::SystemClosed
            && let Some(shared) = self.0.upgrade()
        {
            shared.leave(FAREWELL);
        }
    }
}

impl<A: DurableActor> fmt::Debug for Kind<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("name", &self.settings.name)
            .field("passivate_after", &self.silence)
            .finish_non_exhaustive()
    }
}
