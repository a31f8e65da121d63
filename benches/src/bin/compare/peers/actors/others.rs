//! Actor systems from crates.io.

mod actix;
mod kameo;
mod kompact;
mod ractor;
mod tokio_mpsc;
mod xtra;

use crate::peer::Peer;

pub(super) fn all() -> Vec<Peer> {
    vec![
        Peer::actors::<actix::Actix>(),
        Peer::actors::<kameo::Kameo>(),
        Peer::actors::<kompact::Kompact>(),
        Peer::actors::<ractor::Ractor>(),
        Peer::actors::<tokio_mpsc::TokioMpsc>(),
        Peer::actors::<xtra::Xtra>(),
    ]
}
