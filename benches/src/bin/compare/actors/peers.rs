//! Actor systems from crates.io.

mod actix;
mod kameo;
mod kompact;
mod ractor;
mod tokio_mpsc;
mod xtra;

use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::behaviour::{Address, Sends};
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

/// Sends later as one does it by hand with tokio: a task for each message, with a sleep in it.
fn send_by_tasks<A: Address>(runtime: &Runtime, to: &A, sends: Sends) -> Duration {
    sends.each(|delay, message| {
        let to = to.clone();
        // Read here: the task may not run before some time has passed.
        let deadline = Instant::now() + delay;
        runtime.spawn(async move {
            tokio::time::sleep_until(deadline).await;
            to.tell(message);
        });
    })
}
