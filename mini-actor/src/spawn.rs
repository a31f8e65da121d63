//! Starting actors.

use crate::actor::{Actor, Context};
use crate::address::ActorRef;
use crate::cell::{Behavior, Cell, Envelope};
use crate::error::{NAME_RULE, SpawnError, is_name};
use crate::handle::System;
use crate::stop_reason::StopReason;
use crate::sync::Arc;

impl System {
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
            return Err(SpawnError::Name { given: name.to_owned(), rule: NAME_RULE });
        }
        let name: Arc<str> = name.into();
        let system = self.clone();
        let make = move |cell: &Arc<Cell<A::Message>>| -> Box<dyn Behavior<A::Message>> {
            let ctx = Context::new(ActorRef::new(Arc::clone(cell)), system);
            Box::new(Incarnation { actor: factory(), ctx })
        };
        let cell = Cell::new(Arc::clone(&name), Arc::clone(self.registry()), Box::new(make));
        self.registry().enter(&name, Arc::clone(&cell) as Arc<_>)?;
        // Nobody but a closing system knows the actor yet, so this is the first in its mailbox, or it is
        // refused because the actor has been stopped unborn.
        let _ = cell.send(Envelope::Start);
        Ok(ActorRef::new(cell))
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
