//! An actor that durable messages make and reach.

use std::fmt;
use std::time::Duration;

use lars_scheduler::{Handle, Task};
use mini_actor::supervision::Failure;
use mini_actor::{Actor, Context, StopReason, Terminated, WeakActorRef};

use super::delivery::Delivery;
use super::place::{Letter, Place};
use super::reminders::Reminders;
use super::scope::{self, Handled, Scope, within};
use crate::api::address::open;
use crate::api::payload::{Payload, Unreadable, read};
use crate::api::timers::Timers;
use crate::engine::RunEnd;
use crate::sync::Arc;
use crate::time::Micros;

/// An actor with a name, of which there is one in the whole group.
///
/// Its hooks are those of an [`Actor`]. Its context can do what the context of any actor can, and
/// has [`reminders`](DurableContext::reminders).
///
/// It is created when a message for it is due, and stops after a
/// [silence](super::Kind::passivate_after). So keep what it has to know in a database of yours, and
/// what it has to do later in a reminder.
///
/// # Examples
///
/// See [`Kind`](super::Kind).
pub trait DurableActor: Send + Sized + 'static {
    /// What can be sent to it durably. Its [`NAME`](Payload::NAME) is the kind of actor.
    type Reminder: Payload;

    /// What it receives: the same, or more. Messages that are not durable come from the actor
    /// itself, its children, and anything that it has given a reference to.
    type Message: From<Self::Reminder> + Send + 'static;

    /// Called before the first message, and again for each new actor after a restart. A reminder
    /// that is started here leaves one with its key in place: see
    /// [`Reminders`](super::Reminders).
    fn started(&mut self, ctx: &mut Context<Hosted<Self>>) {
        let _ = ctx;
    }

    /// Called with each message. A durable one is acknowledged when this returns, and comes again
    /// if it panics.
    fn receive(&mut self, message: Self::Message, ctx: &mut Context<Hosted<Self>>);

    /// Called once when an actor that it watches has stopped.
    fn terminated(&mut self, gone: Terminated, ctx: &mut Context<Hosted<Self>>) {
        let _ = (gone, ctx);
    }

    /// Called on an actor that has panicked and is about to be replaced by a new one.
    fn restarting(&mut self, ctx: &mut Context<Hosted<Self>>) {
        let _ = ctx;
    }

    /// Called once, after the last message, whatever the reason.
    fn stopped(&mut self, reason: StopReason, ctx: &mut Context<Hosted<Self>>) {
        let _ = (reason, ctx);
    }
}

/// What a durable actor's context adds to that of mini-actor.
pub trait DurableContext<P> {
    /// The actor's reminders.
    fn reminders(&mut self) -> Reminders<P>;

    /// Its address, such as `order/17`.
    fn address(&self) -> String;

    /// What is known of the durable message that is being received; `None` in all other hooks, and
    /// for a message that is not durable.
    fn delivery(&self) -> Option<Delivery>;
}

impl<A: DurableActor> DurableContext<A::Reminder> for Context<Hosted<A>> {
    fn reminders(&mut self) -> Reminders<A::Reminder> {
        let Scope { place, epoch, .. } = scope::current();
        Reminders::new(Timers::new(Arc::clone(&place.shared)), place, epoch)
    }

    fn address(&self) -> String {
        scope::current().place.address.to_string()
    }

    fn delivery(&self) -> Option<Delivery> {
        scope::current().handled.map(|handled| handled.delivery)
    }
}

/// How long an actor without a timeout waits at least, before it tries to get one.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What a [`DurableActor`] is for mini-actor: an [`Actor`] that gives it its messages.
pub struct Hosted<A> {
    actor: A,
    place: Arc<Place>,
    /// In which its bucket was owned when it was made.
    epoch: u32,
    silence: Duration,
}

/// What a [`Hosted`] actor is sent: a durable message, or, by [`From`], any other.
pub struct Envelope<M>(Content<M>);

enum Content<M> {
    Plain(M),
    Durable(Sealed),
    /// Its receive timeout was refused, and may be set by now.
    NoTimeout,
}

/// A letter that may be dropped unopened: by the end of its actor, or by a full mailbox.
struct Sealed(Option<Letter>);

impl Drop for Sealed {
    fn drop(&mut self) {
        if let Some(letter) = self.0.take() {
            let place = Arc::clone(&letter.receipt.place);
            (place.unread)(letter);
        }
    }
}

impl<M> From<M> for Envelope<M> {
    fn from(message: M) -> Self {
        Self(Content::Plain(message))
    }
}

impl<M> Envelope<M> {
    pub(super) fn of(letter: Letter) -> Self {
        Self(Content::Durable(Sealed(Some(letter))))
    }

    /// The letter that it was made from.
    pub(super) fn into_letter(self) -> Option<Letter> {
        match self.0 {
            Content::Durable(mut sealed) => sealed.0.take(),
            Content::Plain(_) | Content::NoTimeout => None,
        }
    }
}

impl<A: DurableActor> Hosted<A> {
    pub(super) fn new(actor: A, place: Arc<Place>, epoch: u32, silence: Duration) -> Self {
        Self { actor, place, epoch, silence }
    }

    /// The actor system's scheduler may be at its `max_pending`. The node's own has no limit, so it
    /// has the actor try again: there may be no other message that could.
    fn await_silence(&self, ctx: &mut Context<Self>) {
        if ctx.set_receive_timeout(self.silence).is_err() {
            let after = self.silence.max(TRY_AGAIN);
            try_later(self.place.shared.timers.clone(), ctx.myself().downgrade(), after);
        }
    }

    fn scope(&self) -> Scope {
        let (place, epoch) = (Arc::clone(&self.place), self.epoch);
        Scope { place, epoch, handled: None, declares: false }
    }

    fn receive_letter(&mut self, letter: Letter, ctx: &mut Context<Self>) {
        let Letter { row, fence, lease, receipt, .. } = letter;
        let gate = &self.place.shared.gate;
        if !lease.is_valid(gate.now()) {
            // Another copy may live elsewhere by now.
            return receipt.say(RunEnd::GiveBack { after: Micros::ZERO });
        }
        let message = open(&row.payload)
            .map_err(Unreadable::Broken)
            .and_then(|(_, json)| read::<A::Reminder>(row.payload_version, json));
        let message = match message {
            Ok(message) => message,
            Err(Unreadable::TooNew) => return receipt.say(RunEnd::TooNew),
            Err(Unreadable::Broken(reason)) => return receipt.say(RunEnd::Park { reason }),
        };
        // Runs are started in another order than that in which an actor receives them. So what it
        // shows to others counts deliveries, under the epoch of its bucket.
        let Some(fence) = self.place.shared.next_delivery(self.place.bucket, fence.epoch()) else {
            return receipt.say(RunEnd::GiveBack { after: Micros::ZERO });
        };
        let delivery = Delivery::new(&row, fence, gate.store_now());
        let handled = Some(Handled { id: row.id, delivery, signal: receipt.signal() });
        let failed = {
            let mut ledger = self.place.ledger.lock();
            ledger.reads = true;
            ledger.failed.take()
        };
        if let Some(error) = failed {
            // Of a call that the actor made before: this message cannot make up for it.
            self.place.say_failed(&error);
        }
        let scope = Scope { handled, ..self.scope() };
        // A panic drops the receipt, which then says so.
        within(scope, || self.actor.receive(message.into(), ctx));
        receipt.acknowledge();
    }
}

/// Tells an actor that has no timeout to try again.
fn try_later<M: Send + 'static>(timers: Handle, actor: WeakActorRef<Envelope<M>>, after: Duration) {
    let again = timers.clone();
    let tell = move || {
        let Some(it) = actor.upgrade().filter(|actor| !actor.is_stopped()) else { return };
        // A full mailbox might drop one of its messages for this one.
        let waits = it.metrics().mailbox_depth > 0;
        if waits || it.try_tell(Envelope(Content::NoTimeout)).is_err() {
            try_later(again, actor, after);
        }
    };
    // A wheel that has stopped belongs to a node that is ending, and its actors with it.
    drop(timers.schedule_once(after, Task::new(tell).inline()));
}

impl<A: DurableActor> Actor for Hosted<A> {
    type Message = Envelope<A::Message>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.await_silence(ctx);
        within(Scope { declares: true, ..self.scope() }, || self.actor.started(ctx));
    }

    fn receive(&mut self, envelope: Self::Message, ctx: &mut Context<Self>) {
        match envelope.0 {
            Content::Durable(mut sealed) => {
                if let Some(letter) = sealed.0.take() {
                    self.receive_letter(letter, ctx);
                }
            }
            Content::Plain(message) => {
                within(self.scope(), || self.actor.receive(message, ctx));
            }
            // Unless the actor has set one itself.
            Content::NoTimeout if ctx.receive_timeout().is_none() => self.await_silence(ctx),
            Content::NoTimeout => {}
        }
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        // What comes until the mailbox is closed is received, and what comes later makes a new one.
        ctx.myself().stop();
    }

    fn terminated(&mut self, gone: Terminated, ctx: &mut Context<Self>) {
        within(self.scope(), || self.actor.terminated(gone, ctx));
    }

    fn restarting(&mut self, _: Failure<Self::Message>, ctx: &mut Context<Self>) {
        within(self.scope(), || self.actor.restarting(ctx));
    }

    fn stopped(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        within(self.scope(), || self.actor.stopped(reason, ctx));
    }
}

impl<A> fmt::Debug for Hosted<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted").field("address", &self.place.address).finish_non_exhaustive()
    }
}

impl<M> fmt::Debug for Envelope<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durable = matches!(self.0, Content::Durable(_));
        f.debug_struct("Envelope").field("durable", &durable).finish_non_exhaustive()
    }
}
