//! The timers.

mod floor;
mod heap;
#[cfg(feature = "peers")]
mod others;
mod ours;

use crate::peer::Peer;

/// All of them, ours and the floor first.
pub(super) fn all() -> Vec<Peer> {
    let all = vec![
        Peer::timers::<ours::Lars<1_000, false, false>>(),
        Peer::timers::<ours::Lars<1_000, false, true>>(),
        Peer::timers::<ours::Lars<1_000, true, false>>(),
        Peer::timers::<ours::Lars<100, false, false>>(),
        Peer::timers::<ours::Forgotten>(),
        Peer::timers::<ours::Explaining<false>>(),
        Peer::timers::<ours::Explaining<true>>(),
        Peer::timers::<floor::Floor>(),
        Peer::timers::<heap::Heap>(),
    ];
    #[cfg(feature = "peers")]
    let all = [all, others::all()].concat();
    all
}
