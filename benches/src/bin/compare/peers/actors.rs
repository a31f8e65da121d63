//! The actor systems.

#[cfg(feature = "peers")]
mod others;
mod ours;

use crate::peer::Peer;

/// All of them, ours first.
pub(super) fn all() -> Vec<Peer> {
    let all = vec![
        Peer::actors::<ours::Mini<false>>(),
        Peer::actors::<ours::WithReceiveTimeout>(),
        Peer::actors::<ours::Mini<true>>(),
    ];
    #[cfg(feature = "peers")]
    let all = [all, others::all()].concat();
    all
}
