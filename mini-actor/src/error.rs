//! What can go wrong, with the message handed back where there is one.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// A message that was not sent, given back. The recipient has stopped.
///
/// The error is `Send` and `Sync` whenever the message is `Send`, so it passes through `?` into the usual
/// boxed errors.
pub struct SendError<M> {
    message: Exclusive<M>,
    recipient: std::sync::Arc<str>,
}

/// Hands its content out by value only, so sharing it shares nothing.
struct Exclusive<M>(M);

// SAFETY: a shared reference to `Exclusive` gives no access to the value inside: no method takes `&self` and
// returns anything of it.
unsafe impl<M> Sync for Exclusive<M> {}

impl<M> SendError<M> {
    pub(crate) fn new(message: M, recipient: std::sync::Arc<str>) -> Self {
        Self { message: Exclusive(message), recipient }
    }

    /// The message, as it was handed in.
    pub fn into_message(self) -> M {
        self.message.0
    }

    /// The name of the actor that it was for.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("recipient", &self.recipient).finish_non_exhaustive()
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the actor {:?} has stopped; the message is given back", &*self.recipient)
    }
}

impl<M> std::error::Error for SendError<M> {}

/// A system could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A name that is empty or has a character that names cannot have.
    #[error("the system's name is {given:?}, but {rule}")]
    Name {
        /// What was asked for.
        given: String,
        /// What names must be like.
        rule: &'static str,
    },
    /// A throughput out of its range.
    #[error("throughput is {given}, but it must be between 1 and {max}")]
    Throughput {
        /// What was asked for.
        given: usize,
        /// The most messages of one activation.
        max: usize,
    },
    /// The number of threads is out of its range.
    #[error(transparent)]
    Threads(#[from] lars_scheduler::ConfigError),
    /// The scheduler could not be started.
    #[error(transparent)]
    Scheduler(#[from] lars_scheduler::BuildError),
    /// Not a single thread could be started for the actors.
    #[error("no thread could be started for the actors: {0}")]
    Dispatcher(String),
}

/// An actor could not be spawned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// An actor of that name is alive.
    #[error("an actor named {name:?} is alive already; names are unique among the living")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A name that is empty or has a character that names cannot have.
    #[error("the actor's name is {given:?}, but {rule}")]
    Name {
        /// What was asked for.
        given: String,
        /// What names must be like.
        rule: &'static str,
    },
    /// The system is being closed, or was.
    #[error("the actor system {system:?} has been closed")]
    Closed {
        /// The system's name.
        system: String,
    },
}

/// Why a system could not be closed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CloseError {
    /// It was called by an actor, or by a scheduled task, which would have waited for itself. Nothing
    /// has happened; call it from another thread.
    #[error("close was called on a thread of the system, which it has to wait for")]
    FromInside,
    /// The scheduler could not be closed in time. It is stopped all the same, and accepts nothing any more; what it
    /// had pending comes with the error's future. The actors go on.
    #[error(transparent)]
    Scheduler(#[from] lars_scheduler::CloseError),
    /// Some actors had not stopped when the time was up. They stop when they have worked off what was
    /// queued before; the system accepts no new ones.
    #[error("{running} actors had not stopped within {limit:?}")]
    Timeout {
        /// How many.
        running: usize,
        /// The system's `shutdown_timeout`.
        limit: Duration,
    },
}

/// What names must be like.
pub(crate) const NAME_RULE: &str =
    "a name must have 1 to 255 bytes, and neither '/' nor control characters";

pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.contains(|c: char| c == '/' || c.is_control())
}
