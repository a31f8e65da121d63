//! What an actor can do while it is called.

use std::fmt;

use crate::actor::Actor;
use crate::address::ActorRef;
use crate::handle::System;
use crate::sends::Scheduler;

/// Passed to an actor with each call.
pub struct Context<A: Actor> {
    myself: ActorRef<A::Message>,
    system: System,
    stopping: bool,
}

impl<A: Actor> Context<A> {
    pub(crate) fn new(myself: ActorRef<A::Message>, system: System) -> Self {
        Self { myself, system, stopping: false }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// A reference to this actor.
    pub fn myself(&self) -> &ActorRef<A::Message> {
        &self.myself
    }

    /// Stops this actor when the current call returns. What is left in its mailbox becomes dead letters.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// The system, to spawn other actors.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The system's scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        self.system.scheduler()
    }
}

impl<A: Actor> fmt::Debug for Context<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("myself", &self.myself)
            .field("stopping", &self.stopping)
            .finish_non_exhaustive()
    }
}
