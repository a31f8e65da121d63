//! Timers for async code.

#[cfg(feature = "peers")]
mod others;
mod ours;

use crate::peer::Peer;

/// All of them, ours first.
pub(super) fn all() -> Vec<Peer> {
    let all = vec![Peer::sleeps::<ours::Lars<false>>(), Peer::sleeps::<ours::Lars<true>>()];
    #[cfg(feature = "peers")]
    let all = [all, others::all()].concat();
    all
}
