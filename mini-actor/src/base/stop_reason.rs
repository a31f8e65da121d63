//! Why an actor stopped.

use std::fmt;

use crate::sync::Arc;

/// Why an actor stopped.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::StopReason;
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?;
/// let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
/// first.actor().stop();
/// second.actor().kill();
/// assert_eq!(first.expect_terminated(first.actor()), StopReason::Asked);
/// assert_eq!(first.expect_terminated(second.actor()), StopReason::Killed);
/// assert_eq!(StopReason::Asked.to_string(), "asked to stop");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// [`ActorRef::stop`](crate::ActorRef::stop) was called: everything that was queued before has
    /// been received.
    Asked,
    /// [`ActorRef::kill`](crate::ActorRef::kill) was called: what was queued has become dead
    /// letters.
    Killed,
    /// [`Context::stop`](crate::Context::stop) was called.
    Itself,
    /// It panicked, and its [`supervision`](crate::Props::supervision) did not let it go on.
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
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Actor, ActorRef, Context, Recipient, Terminated};
///
/// struct Guard {
///     worker: ActorRef<u32>,
///     office: Recipient<String>,
/// }
///
/// impl Actor for Guard {
///     type Message = ();
///     fn started(&mut self, ctx: &mut Context<Self>) {
///         ctx.watch(&self.worker);
///     }
///     fn receive(&mut self, (): (), _: &mut Context<Self>) {}
///     fn terminated(&mut self, gone: Terminated, _: &mut Context<Self>) {
///         if gone.id == self.worker.id() {
///             let _ = self.office.tell(format!("{}: {}", gone.path, gone.reason));
///         }
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let (office, worker) = (kit.probe::<String>("office"), kit.probe::<u32>("worker"));
/// let guard = Guard { worker: worker.actor().clone(), office: office.actor().recipient() };
/// kit.spawn("guard", || guard)?;
/// worker.actor().kill();
/// assert_eq!(office.expect_message(), "/worker: killed");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// Its number, [`ActorRef::id`](crate::ActorRef::id), which tells actors with the same path
    /// apart.
    pub id: u64,
    /// Its path.
    pub path: Arc<str>,
    /// Why.
    pub reason: StopReason,
}
