//! Timers from crates.io.

mod async_io;
mod delay_queue_channel;
mod delay_queue_mutex;
mod futures_timer;
mod hash_wheel;
mod runtime;
mod seg_queue;
mod thread_pool;
mod tokio_sleep;
mod tokio_task;

use super::{Entry, entry};

pub(super) fn all() -> Vec<Entry> {
    vec![
        entry::<tokio_sleep::TokioSleep>(),
        entry::<tokio_task::TokioTask>(),
        entry::<delay_queue_channel::DelayQueueChannel>(),
        entry::<delay_queue_mutex::DelayQueueMutex>(),
        entry::<hash_wheel::HashWheel>(),
        entry::<async_io::AsyncIo>(),
        entry::<futures_timer::FuturesTimer>(),
        entry::<thread_pool::ThreadPool>(),
        entry::<seg_queue::Intake>(),
    ]
}
