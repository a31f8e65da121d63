//! Timers for async code from crates.io.

mod async_io;
mod futures_timer;
mod tokio;

use crate::peer::Peer;

pub(super) fn all() -> Vec<Peer> {
    vec![
        Peer::sleeps::<tokio::Tokio>(),
        Peer::sleeps::<async_io::AsyncIo>(),
        Peer::sleeps::<futures_timer::FuturesTimer>(),
    ]
}
