//! What an actor system has to be able to do to be compared.

pub(crate) mod behaviour;

use std::time::Duration;

use self::behaviour::{Address, Behaviour, Sends, Session};
use crate::record::Workload;

/// An actor system under test. All its actors do what [`Behaviour`] says.
pub(crate) trait Actors: Sync + Sized {
    /// What it is called in tables and options.
    const NAME: &'static str;
    /// How it is used here, in a few words.
    const ABOUT: &'static str;
    /// The tick of its timer in microseconds, if it has one.
    const TICK_US: Option<u64>;
    /// The workloads that it is measured with.
    const WORKLOADS: &'static [Workload] = &Workload::ACTORS;
    /// Whether a message that comes early is a failure, and not just a figure.
    const IS_OURS: bool = false;

    /// What messages are sent to.
    type Address: Address;

    /// Starts it, with its threads.
    fn start() -> Self;

    /// Makes an actor with a mailbox that takes any number of messages.
    fn spawn(&self, behaviour: Behaviour<Self::Address>) -> Self::Address;

    /// Makes an actor that restarts a timer of its own with each message, as the system's users do
    /// it for a session that ends when nothing has come for some time.
    fn spawn_session(&self, session: Session<Self::Address>) -> Self::Address {
        let _ = session;
        unreachable!("the system says that its actors have no timers");
    }

    /// Ends these actors, which are all that there are. It may return before they have ended. Most
    /// end when nobody can reach them any more.
    fn end(self, actors: Vec<Self::Address>) {
        drop(actors);
    }

    /// Schedules all of `sends` to the actor, by the system's own timer if it has one. Returns how
    /// long the calls took.
    fn send_later(&self, to: &Self::Address, sends: Sends) -> Duration;
}
