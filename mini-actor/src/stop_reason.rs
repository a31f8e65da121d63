//! Why an actor is no more.

use std::fmt;

/// Why an actor stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// [`ActorRef::stop`](crate::ActorRef::stop) was called: everything that was queued before has been
    /// received.
    Asked,
    /// [`Context::stop`](crate::Context::stop) was called.
    Itself,
    /// It panicked.
    Panicked,
    /// The system was closed.
    SystemClosed,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "asked to stop",
            Self::Itself => "stopped itself",
            Self::Panicked => "panicked",
            Self::SystemClosed => "the system was closed",
        })
    }
}
