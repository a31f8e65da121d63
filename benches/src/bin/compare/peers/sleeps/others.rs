//! Timers for async code from crates.io.

mod async_io;
mod futures_timer;
mod pingora;
mod tokio;

use crate::peer::Peer;

pub(super) fn all() -> Vec<Peer> {
    vec![
        Peer::sleeps::<tokio::Tokio<false>>(),
        #[cfg(tokio_unstable)]
        Peer::sleeps::<tokio::Tokio<true>>(),
        Peer::sleeps::<async_io::AsyncIo>(),
        Peer::sleeps::<futures_timer::FuturesTimer>(),
        Peer::sleeps::<pingora::Pingora>(),
    ]
}
