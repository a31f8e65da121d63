//! Actor systems from crates.io.

mod actix;
mod kameo;
mod kompact;
mod ractor;
mod tokio_mpsc;
mod xtra;

use std::thread;

use super::peer;
use crate::peer::Peer;

pub(super) fn all() -> Vec<Peer> {
    vec![
        peer::<actix::Actix>(),
        peer::<kameo::Kameo>(),
        peer::<kompact::Kompact>(),
        peer::<ractor::Ractor>(),
        peer::<tokio_mpsc::TokioMpsc>(),
        peer::<xtra::Xtra>(),
    ]
}

/// As many threads as mini-actor has.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
