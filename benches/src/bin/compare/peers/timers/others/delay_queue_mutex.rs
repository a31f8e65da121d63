//! tokio-util's `DelayQueue` behind a mutex: producers insert, and a task polls it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{EnterGuard, Runtime};
use tokio::sync::Notify;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::callback::Callback;
use crate::record::Workload;
use crate::runtime;
use crate::timers::{Producer, Timers};

struct Item {
    period: Option<Duration>,
    callback: Callback,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<DelayQueue<Item>>,
    /// The queue wakes whoever polls it only if that one found something pending.
    filled: Notify,
}

pub(crate) struct DelayQueueMutex {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

pub(crate) struct Inserter<'a> {
    shared: &'a Shared,
    _inside: EnterGuard<'a>,
}

impl Timers for DelayQueueMutex {
    const NAME: &'static str = "delay-queue-mutex";
    const ABOUT: &'static str = "tokio-util's DelayQueue under a Mutex, polled by a task";
    const TICK_US: Option<u64> = Some(1_000);
    /// Not those in which one cancels what may have fired: a key is used again, and then cancels
    /// another timer.
    const WORKLOADS: &'static [Workload] = {
        use Workload::*;
        &[W1, W2, W2b, W3, W4, W5, W6, W7, W9, W11, W12, W14]
    };

    type Timer = Key;
    type Producer<'a> = Inserter<'a>;

    fn start() -> Self {
        let runtime = runtime::start(1);
        let shared = Arc::new(Shared::default());
        runtime.spawn(serve(Arc::clone(&shared)));
        Self { shared, runtime: Some(runtime) }
    }

    fn producer(&self) -> Inserter<'_> {
        let runtime = self.runtime.as_ref().expect("it is there until it is dropped");
        Inserter { shared: &self.shared, _inside: runtime.enter() }
    }
}

impl Drop for DelayQueueMutex {
    fn drop(&mut self) {
        runtime::stop(&mut self.runtime);
    }
}

async fn serve(shared: Arc<Shared>) {
    loop {
        let expired = poll_fn(|context| {
            let mut queue = shared.queue.lock().expect("no callback panics");
            match queue.poll_expired(context) {
                Poll::Ready(Some(expired)) => {
                    let deadline = expired.deadline();
                    let item = expired.into_inner();
                    let callback = item.callback;
                    if let Some(period) = item.period {
                        queue.insert_at(item, deadline + period);
                    }
                    Poll::Ready(Some(callback))
                }
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match expired.await {
            Some(callback) => callback.call(),
            None => shared.filled.notified().await,
        }
    }
}

impl Inserter<'_> {
    fn insert(&self, delay: Duration, period: Option<Duration>, callback: Callback) -> Key {
        let mut queue = self.shared.queue.lock().expect("no callback panics");
        let was_empty = queue.is_empty();
        let key = queue.insert(Item { period, callback }, delay);
        drop(queue);
        if was_empty {
            self.shared.filled.notify_one();
        }
        key
    }
}

impl Producer for Inserter<'_> {
    type Timer = Key;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Key {
        self.insert(delay, None, callback)
    }

    fn cancel(&mut self, timer: Key) -> bool {
        self.shared.queue.lock().expect("no callback panics").try_remove(&timer).is_some()
    }

    fn reset(&mut self, timer: Key, delay: Duration, _: Callback) -> Option<Key> {
        self.shared.queue.lock().expect("no callback panics").reset(&timer, delay);
        Some(timer)
    }

    /// It is in the queue when the insert returns.
    fn settle(&mut self) {}

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        self.insert(initial, Some(period), callback);
    }
}
