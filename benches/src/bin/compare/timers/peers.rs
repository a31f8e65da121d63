//! Timers from crates.io.

mod async_io;
mod delay_queue_channel;
mod delay_queue_mutex;
mod futures_timer;
mod hash_wheel;
mod seg_queue;
mod thread_pool;
mod tokio_sleep;
mod tokio_task;

use super::peer;
use crate::peer::Peer;

pub(super) fn all() -> Vec<Peer> {
    vec![
        peer::<tokio_sleep::TokioSleep>(),
        peer::<tokio_task::TokioTask>(),
        peer::<delay_queue_channel::DelayQueueChannel>(),
        peer::<delay_queue_mutex::DelayQueueMutex>(),
        peer::<hash_wheel::HashWheel>(),
        peer::<async_io::AsyncIo>(),
        peer::<futures_timer::FuturesTimer>(),
        peer::<thread_pool::ThreadPool>(),
        peer::<seg_queue::Intake>(),
    ]
}
