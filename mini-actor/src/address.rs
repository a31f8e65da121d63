//! References to actors.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::cell::{Cell, Envelope};
use crate::error::SendError;
use crate::stop_reason::StopReason;
use crate::sync::Arc;

/// A reference to an actor that receives messages of type `M`. Cheap to clone, `Send` and `Sync`.
///
/// It does not decide how long the actor lives: an actor runs until it is stopped, stops itself, panics, or
/// its system is closed. Two references are equal if they refer to the same actor.
pub struct ActorRef<M> {
    cell: Arc<Cell<M>>,
}

impl<M: Send + 'static> ActorRef<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self { cell }
    }

    /// Puts a message into the actor's mailbox. Never waits for the actor, which receives it on a thread of the system.
    ///
    /// # Ordering
    ///
    /// Messages of one thread to one actor arrive in the order of the calls.
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the message back if the actor has stopped. A message that was accepted and that
    /// the actor does not live to receive becomes a dead letter.
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        match self.cell.send(Envelope::Message(message)) {
            Ok(()) => Ok(()),
            Err(Envelope::Message(message)) => {
                Err(SendError::new(message, Arc::clone(&self.cell.name)))
            }
            Err(Envelope::Start | Envelope::Stop(_)) => {
                unreachable!("a mailbox gives back what it was given")
            }
        }
    }

    /// Stops the actor after what is in its mailbox now. What arrives later becomes a dead letter, or is
    /// given back. Stopping an actor that has stopped does nothing.
    pub fn stop(&self) {
        let _ = self.cell.send(Envelope::Stop(StopReason::Asked));
    }

    /// Whether the actor has stopped, so that it receives nothing any more.
    pub fn is_stopped(&self) -> bool {
        self.cell.is_stopped()
    }

    /// The name that it was spawned with.
    pub fn name(&self) -> &str {
        &self.cell.name
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
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}

impl<M> Eq for ActorRef<M> {}

impl<M> Hash for ActorRef<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.cell).hash(state);
    }
}

impl<M> fmt::Debug for ActorRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActorRef").field(&&*self.cell.name).finish()
    }
}
