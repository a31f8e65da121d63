//! No timer: crossbeam's `SegQueue` as the way to one. Deadline and callback go in, and a thread
//! takes them out and drops them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;

use crate::callback::Callback;
use crate::record::Workload;
use crate::timers::{Cancelling, Producer, Timers};

/// How long the thread sleeps when it finds nothing.
const NAP: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Shared {
    queue: SegQueue<(Instant, Callback)>,
    taken: AtomicU64,
    stopped: AtomicBool,
}

pub(crate) struct Intake {
    shared: Arc<Shared>,
    consumer: Option<JoinHandle<()>>,
}

pub(crate) struct Pusher<'a> {
    shared: &'a Shared,
}

impl Timers for Intake {
    const NAME: &'static str = "seg-queue";
    const ABOUT: &'static str = "no timer: crossbeam's SegQueue, emptied by a thread every 1 ms";
    const WORKLOADS: &'static [Workload] = &[Workload::W1, Workload::W7];
    const CANCELLING: Cancelling = Cancelling::Leaves;
    const FIRES: bool = false;

    type Timer = ();
    type Producer<'a> = Pusher<'a>;

    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let shared_too = Arc::clone(&shared);
        let consumer = Some(thread::spawn(move || consume(&shared_too)));
        Self { shared, consumer }
    }

    fn producer(&self) -> Pusher<'_> {
        Pusher { shared: &self.shared }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(consumer) = self.consumer.take() {
            consumer.join().expect("it does not panic");
        }
    }
}

fn consume(shared: &Shared) {
    while !shared.stopped.load(Ordering::Relaxed) {
        let mut taken = 0;
        while shared.queue.pop().is_some() {
            taken += 1;
        }
        shared.taken.fetch_add(taken, Ordering::Release);
        thread::sleep(NAP);
    }
}

impl Producer for Pusher<'_> {
    type Timer = ();

    fn schedule(&mut self, delay: Duration, callback: Callback) {
        self.shared.queue.push((Instant::now() + delay, callback));
    }

    fn cancel(&mut self, (): ()) -> bool {
        true
    }

    /// Empty is empty, whoever filled it.
    fn settle(&mut self) {
        while !self.shared.queue.is_empty() {
            thread::sleep(NAP / 10);
        }
    }
}
