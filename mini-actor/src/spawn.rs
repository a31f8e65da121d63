//! Starting actors: a system as its actors and users see it.

use std::fmt;

use crate::actor::{Actor, StopReason};
use crate::address::ActorRef;
use crate::cell::{Behavior, Cell, Envelope};
use crate::context::Context;
use crate::error::{NAME_RULE, SpawnError, is_name};
use crate::registry::Registry;
use crate::sends::Scheduler;
use crate::sync::{Arc, Ordering};

/// A system of actors, to spawn in and to schedule with. Cheap to clone, `Send` and `Sync`.
///
/// It does not keep the system open; that is what its [`ActorSystem`](crate::ActorSystem) does.
#[derive(Clone)]
pub struct System {
    registry: Arc<Registry>,
    scheduler: Scheduler,
}

/// Counts of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemMetrics {
    /// Actors that were spawned and have not stopped.
    pub alive: usize,
    /// Actors that have stopped.
    pub stopped: usize,
    /// Panics contained.
    pub panicked: u64,
    /// Messages that reached nobody.
    pub dead_letters: u64,
}

impl System {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let scheduler = Scheduler::new(registry.timers.clone());
        Self {
            registry,
            scheduler,
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Starts an actor. `factory` makes it, on a thread of the system, before its first message; messages
    /// can be sent to it as soon as this returns.
    ///
    /// # Errors
    ///
    /// [`SpawnError::NameTaken`] if an actor of that name is alive; [`SpawnError::Name`] if it is no name;
    /// [`SpawnError::Closed`] after the system was closed.
    pub fn spawn<A: Actor>(
        &self,
        name: &str,
        factory: impl FnOnce() -> A + Send + 'static,
    ) -> Result<ActorRef<A::Message>, SpawnError> {
        if !is_name(name) {
            return Err(SpawnError::Name {
                given: name.to_owned(),
                rule: NAME_RULE,
            });
        }
        let name: Arc<str> = name.into();
        let system = self.clone();
        let make = move |cell: &Arc<Cell<A::Message>>| -> Box<dyn Behavior<A::Message>> {
            let ctx = Context::new(ActorRef::new(Arc::clone(cell)), system);
            Box::new(Incarnation {
                actor: factory(),
                ctx,
            })
        };
        let cell = Cell::new(
            Arc::clone(&name),
            Arc::clone(&self.registry),
            Box::new(make),
        );
        self.registry.enter(&name, Arc::clone(&cell) as Arc<_>)?;
        // Nobody but a closing system knows the actor yet, so this is the first in its mailbox, or it is
        // refused because the actor has been stopped unborn.
        let _ = cell.send(Envelope::Start);
        Ok(ActorRef::new(cell))
    }

    /// The scheduler for messages to actors of this system.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The name that the system was built with.
    pub fn name(&self) -> &str {
        &self.registry.name
    }

    /// A snapshot of the system's counts.
    pub fn metrics(&self) -> SystemMetrics {
        SystemMetrics {
            alive: self.registry.alive(),
            // Relaxed: statistics.
            stopped: self.registry.stopped.load(Ordering::Relaxed),
            panicked: self.registry.panics.load(Ordering::Relaxed),
            dead_letters: self.registry.dead_letters.count(),
        }
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("System").field(&self.registry.name).finish()
    }
}

/// A living actor with its context.
struct Incarnation<A: Actor> {
    actor: A,
    ctx: Context<A>,
}

impl<A: Actor> Behavior<A::Message> for Incarnation<A> {
    fn started(&mut self) -> bool {
        self.actor.started(&mut self.ctx);
        !self.ctx.is_stopping()
    }

    fn receive(&mut self, message: A::Message) -> bool {
        self.actor.receive(message, &mut self.ctx);
        !self.ctx.is_stopping()
    }

    fn stopped(&mut self, reason: StopReason) {
        self.actor.stopped(reason, &mut self.ctx);
    }
}
