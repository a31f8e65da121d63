//! An actor's home: its mailbox, its state, and the activations that bring the two together.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::mailbox::{Mailbox, Sent};
use crate::registry::{Registry, Resident};
use crate::stop_reason::StopReason;
use crate::sync::{Arc, Ordering, UnsafeCell, yield_now};

/// What lies in a mailbox.
pub(crate) enum Envelope<M> {
    /// The first of all: makes the actor.
    Start,
    /// For the actor.
    Message(M),
    /// Stops it, when everything before has been received.
    Stop(StopReason),
}

/// An actor without its type.
pub(crate) trait Behavior<M>: Send {
    /// The hooks and the messages of an actor. They say whether it wants to go on.
    fn started(&mut self) -> bool;
    fn receive(&mut self, message: M) -> bool;
    fn stopped(&mut self, reason: StopReason);
}

/// Makes the actor, on a thread of the system.
pub(crate) type Factory<M> = Box<dyn FnOnce(&Arc<Cell<M>>) -> Box<dyn Behavior<M>> + Send>;

enum Body<M> {
    Unborn(Factory<M>),
    Alive(Box<dyn Behavior<M>>),
    Gone,
}

pub(crate) struct Cell<M> {
    pub(crate) name: Arc<str>,
    pub(crate) registry: Arc<Registry>,
    mailbox: Mailbox<Envelope<M>>,
    /// Touched by the one activation only.
    body: UnsafeCell<Body<M>>,
}

// SAFETY: the body is `Send`, and touched only inside `activate`, of which the mailbox's run word allows
// one at a time, each after the other. Everything else is `Sync` by itself.
unsafe impl<M: Send> Sync for Cell<M> {}

impl<M: Send + 'static> Cell<M> {
    pub(crate) fn new(name: Arc<str>, registry: Arc<Registry>, factory: Factory<M>) -> Arc<Self> {
        Arc::new(Self {
            name,
            registry,
            mailbox: Mailbox::new(),
            body: UnsafeCell::new(Body::Unborn(factory)),
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Sends an envelope; gives it back if the actor has stopped.
    pub(crate) fn send(self: &Arc<Self>, envelope: Envelope<M>) -> Result<(), Envelope<M>> {
        if self.mailbox.send(envelope)? == Sent::Schedule {
            self.schedule();
        }
        Ok(())
    }

    /// Delivers a scheduled message; if the actor has stopped it becomes a dead letter. Says whether it
    /// was delivered.
    pub(crate) fn deliver(self: &Arc<Self>, message: M) -> bool {
        match self.send(Envelope::Message(message)) {
            Ok(()) => true,
            Err(envelope) => {
                self.bury(envelope);
                false
            }
        }
    }

    fn schedule(self: &Arc<Self>) {
        let cell = Arc::clone(self);
        self.registry.dispatch(move || cell.activate());
    }

    fn bury(&self, envelope: Envelope<M>) {
        match envelope {
            Envelope::Message(message) => self.registry.dead_letters.bury(&self.name, message),
            Envelope::Start | Envelope::Stop(_) => {}
        }
    }

    /// Works off what is counted, up to the throughput.
    fn activate(self: Arc<Self>) {
        let limit = self.mailbox.waiting().min(self.registry.throughput);
        let mut done = 0;
        while done < limit {
            // SAFETY: this is the mailbox's one activation, and `limit` messages are counted.
            let Some(envelope) = (unsafe { self.mailbox.pop() }) else {
                break;
            };
            done += 1;
            self.handle(envelope);
        }
        if done == 0 {
            // A sender was interrupted in the middle of its push, and the next activation can only
            // succeed when it has run.
            yield_now();
        }
        if self.mailbox.finish(done) {
            self.schedule();
        }
    }

    fn handle(self: &Arc<Self>, envelope: Envelope<M>) {
        // Taken out for the call, so that nothing is borrowed while foreign code runs.
        // SAFETY: this is the one activation.
        let body = self.body.with_mut(|body| unsafe { std::mem::replace(&mut *body, Body::Gone) });
        let next = match (body, envelope) {
            (Body::Unborn(factory), Envelope::Start) => self.start(factory),
            // The system was closed before it could start.
            (Body::Unborn(factory), Envelope::Stop(reason)) => {
                self.contain(|| drop(factory));
                Next::Over(reason)
            }
            (Body::Alive(mut behavior), Envelope::Message(message)) => {
                match self.contain(|| behavior.receive(message)) {
                    Some(true) => Next::GoOn(behavior),
                    Some(false) => Next::Stop(behavior, StopReason::Itself),
                    None => Next::Stop(behavior, StopReason::Panicked),
                }
            }
            (Body::Alive(behavior), Envelope::Stop(reason)) => Next::Stop(behavior, reason),
            (body, envelope) => {
                // It has stopped, and this came in before that was known.
                debug_assert!(matches!(body, Body::Gone), "`Start` comes first, and once");
                self.bury(envelope);
                return;
            }
        };
        match next {
            Next::GoOn(behavior) => {
                // SAFETY: this is the one activation.
                self.body.with_mut(|body| unsafe { *body = Body::Alive(behavior) });
            }
            Next::Stop(mut behavior, reason) => {
                self.mailbox.close();
                self.contain(|| behavior.stopped(reason));
                self.contain(|| drop(behavior));
                self.leave(reason);
            }
            Next::Over(reason) => {
                self.mailbox.close();
                self.leave(reason);
            }
        }
    }

    fn start(self: &Arc<Self>, factory: Factory<M>) -> Next<M> {
        let Some(mut behavior) = self.contain(|| factory(self)) else {
            return Next::Over(StopReason::Panicked);
        };
        match self.contain(|| behavior.started()) {
            Some(true) => Next::GoOn(behavior),
            Some(false) => Next::Stop(behavior, StopReason::Itself),
            None => Next::Stop(behavior, StopReason::Panicked),
        }
    }

    fn leave(&self, reason: StopReason) {
        tracing::debug!(target: "mini_actor", actor = &*self.name, %reason, "an actor stopped");
        self.registry.leave(&self.name);
    }

    /// Runs foreign code; a panic in it is told of, and gives `None`.
    fn contain<R>(&self, code: impl FnOnce() -> R) -> Option<R> {
        // Unwind safety: what a panicking actor leaves behind is only dropped.
        match catch_unwind(AssertUnwindSafe(code)) {
            Ok(value) => Some(value),
            Err(payload) => {
                // Relaxed: a statistic.
                self.registry.panics.fetch_add(1, Ordering::Relaxed);
                let message = payload
                    .downcast_ref::<&'static str>()
                    .copied()
                    .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("(a panic without a message)");
                tracing::error!(target: "mini_actor", actor = &*self.name, message, "an actor panicked");
                // The payload's destructor may panic in turn.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
                None
            }
        }
    }
}

/// What an envelope led to.
enum Next<M> {
    GoOn(Box<dyn Behavior<M>>),
    Stop(Box<dyn Behavior<M>>, StopReason),
    /// There is no actor to be told.
    Over(StopReason),
}

impl<M: Send + 'static> Resident for Cell<M> {
    fn system_closes(self: Arc<Self>) {
        // Refused if it has stopped already, which is as good.
        let _ = self.send(Envelope::Stop(StopReason::SystemClosed));
    }
}
