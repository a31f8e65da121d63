//! The actor systems that are compared: what they have to be able to do, and the list of them.

pub(crate) mod behaviour;
mod ours;
#[cfg(feature = "peers")]
mod peers;

use std::time::Duration;

use self::behaviour::{Address, Behaviour, Sends};
use crate::peer::Peer;
use crate::record::Workload;
use crate::workload;

/// An actor system under test. All its actors do what [`Behaviour`] says.
pub(crate) trait Actors: Sync + Sized {
    /// What it is called in tables and options.
    const NAME: &'static str;
    /// How it is used here, in a few words.
    const ABOUT: &'static str;
    /// The tick of its timer in microseconds, if it has one.
    const TICK_US: Option<u64>;
    /// Whether a message that comes early is a failure, and not just a figure.
    const IS_OURS: bool = false;

    /// What messages are sent to.
    type Address: Address;

    /// Starts it, with its threads.
    fn start() -> Self;

    /// Makes an actor with a mailbox that takes any number of messages.
    fn spawn(&self, behaviour: Behaviour<Self::Address>) -> Self::Address;

    /// Schedules all of `sends` to the actor, by the system's own timer if it has one. Returns how long the
    /// calls took.
    fn send_later(&self, to: &Self::Address, sends: Sends) -> Duration;
}

fn peer<A: Actors>() -> Peer {
    Peer {
        name: A::NAME,
        about: A::ABOUT,
        tick_us: A::TICK_US,
        workloads: &Workload::ACTORS,
        measure: workload::measure_actors::<A>,
    }
}

/// All of them, ours first.
pub(crate) fn all() -> Vec<Peer> {
    let all = vec![peer::<ours::Mini>()];
    #[cfg(feature = "peers")]
    let all = [all, peers::all()].concat();
    all
}
