//! All that is compared.

mod actors;
mod timers;

use crate::peer::Peer;

/// Timers and actor systems, ours first among their kind.
pub(crate) fn all() -> Vec<Peer> {
    [timers::all(), actors::all()].concat()
}
