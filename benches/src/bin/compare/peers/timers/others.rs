//! Timers from crates.io.

mod async_io;
mod delay_queue_channel;
mod delay_queue_mutex;
mod futures_timer;
mod hash_wheel;
mod pingora;
mod seg_queue;
mod thread_pool;
mod tokio_sleep;
mod tokio_task;

use crate::peer::Peer;

pub(super) fn all() -> Vec<Peer> {
    vec![
        Peer::timers::<tokio_sleep::TokioSleep<false>>(),
        #[cfg(tokio_unstable)]
        Peer::timers::<tokio_sleep::TokioSleep<true>>(),
        Peer::timers::<tokio_task::TokioTask<false>>(),
        Peer::timers::<delay_queue_channel::DelayQueueChannel>(),
        Peer::timers::<delay_queue_mutex::DelayQueueMutex>(),
        Peer::timers::<hash_wheel::HashWheel>(),
        Peer::timers::<async_io::AsyncIo>(),
        Peer::timers::<futures_timer::FuturesTimer>(),
        Peer::timers::<pingora::Pingora>(),
        Peer::timers::<thread_pool::ThreadPool<false>>(),
        Peer::timers::<seg_queue::Intake>(),
        // Last, so that the other timers keep their colours in plots.
        Peer::timers::<tokio_task::TokioTask<true>>(),
        Peer::timers::<thread_pool::ThreadPool<true>>(),
    ]
}
