//! Why an actor is no more.

use std::fmt;

use crate::sync::Arc;

/// Why an actor stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// [`ActorRef::stop`](crate::ActorRef::stop) was called: everything that was queued before has been
    /// received.
    Asked,
    /// [`ActorRef::kill`](crate::ActorRef::kill) was called: what was queued has become dead letters.
    Killed,
    /// [`Context::stop`](crate::Context::stop) was called.
    Itself,
    /// It panicked, and its [`Supervision`](crate::Supervision) did not let it go on.
    Panicked,
    /// Its parent stopped, or restarted.
    Parent,
    /// The system was closed.
    SystemClosed,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "asked to stop",
            Self::Killed => "killed",
            Self::Itself => "stopped itself",
            Self::Panicked => "panicked",
            Self::Parent => "its parent stopped",
            Self::SystemClosed => "the system was closed",
        })
    }
}

/// An actor that is being [watched](crate::Context::watch) has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// Which one. [`ActorRef::id`](crate::ActorRef::id) tells actors of the same path apart.
    pub id: u64,
    /// Its path.
    pub path: Arc<str>,
    /// Why.
    pub reason: StopReason,
}
