//! All that is compared.

mod actors;
mod sleeps;
mod timers;

use crate::peer::Peer;

/// Timers, futures and actor systems, ours first among their kind.
pub(crate) fn all() -> Vec<Peer> {
    [timers::all(), sleeps::all(), actors::all()].concat()
}
