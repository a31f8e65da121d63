//! tokio-util's `DelayQueue` as a service: a task owns it, and is told through an unbounded
//! channel.
//!
//! A timer is cancelled by its number, of which the task keeps the queue's key. Deadlines are
//! stamped by the producer, so that what waits in the channel is not late for that.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::callback::{Callback, Recorder};
use crate::record::Workload;
use crate::runtime;
use crate::timers::{LIMIT, Producer, Timers};

/// Received at once.
const BATCH: usize = 256;

enum Command {
    Insert {
        number: u64,
        deadline: Instant,
        period: Option<Duration>,
        callback: Callback,
    },
    Cancel(u64),
    Reset {
        number: u64,
        deadline: Instant,
    },
    /// Calls back at once.
    Settle(Callback),
}

struct Item {
    number: u64,
    period: Option<Duration>,
    callback: Callback,
}

/// Numbers are distinct, and need no protection against each other.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Keys = HashMap<u64, Key, BuildHasherDefault<NumberHasher>>;

pub(crate) struct DelayQueueChannel {
    runtime: Option<Runtime>,
    commands: UnboundedSender<Command>,
    producers: AtomicU64,
}

pub(crate) struct Commander {
    commands: UnboundedSender<Command>,
    next: u64,
}

impl Timers for DelayQueueChannel {
    const NAME: &'static str = "delay-queue-channel";
    const ABOUT: &'static str =
        "tokio-util's DelayQueue, owned by a task behind an unbounded tokio channel";
    /// (W14 was not done within three minutes.)
    const WORKLOADS: &'static [Workload] = {
        use Workload::*;
        &[W1, W2, W2b, W3, W4, W5, W6, W7, W8, W9, W11, W12, W13]
    };
    const TICK_US: Option<u64> = Some(1_000);

    type Timer = u64;
    type Producer<'a> = Commander;

    fn start() -> Self {
        let runtime = runtime::start(1);
        let (commands, receiver) = unbounded_channel();
        runtime.spawn(serve(receiver));
        Self { runtime: Some(runtime), commands, producers: AtomicU64::new(0) }
    }

    fn producer(&self) -> Commander {
        let number = self.producers.fetch_add(1, Ordering::Relaxed);
        Commander { commands: self.commands.clone(), next: number << 40 }
    }
}

impl Drop for DelayQueueChannel {
    fn drop(&mut self) {
        runtime::stop(&mut self.runtime);
    }
}

async fn serve(mut commands: UnboundedReceiver<Command>) {
    let mut queue = DelayQueue::new();
    let mut keys = Keys::default();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            received = commands.recv_many(&mut batch, BATCH) => {
                if received == 0 {
                    return;
                }
                for command in batch.drain(..) {
                    match command {
                        Command::Insert { number, deadline, period, callback } => {
                            let item = Item { number, period, callback };
                            keys.insert(number, queue.insert_at(item, deadline));
                        }
                        Command::Cancel(number) => {
                            if let Some(key) = keys.remove(&number) {
                                queue.remove(&key);
                            }
                        }
                        Command::Reset { number, deadline } => {
                            if let Some(key) = keys.get(&number) {
                                queue.reset_at(key, deadline);
                            }
                        }
                        Command::Settle(callback) => callback.call(),
                    }
                }
            }
            Some(expired) = poll_fn(|context| queue.poll_expired(context)),
                if !queue.is_empty() =>
            {
                let deadline = expired.deadline();
                let item = expired.into_inner();
                item.callback.call();
                match item.period {
                    Some(period) => {
                        let number = item.number;
                        keys.insert(number, queue.insert_at(item, deadline + period));
                    }
                    None => {
                        keys.remove(&item.number);
                    }
                }
            }
        }
    }
}

impl Commander {
    fn insert(&mut self, delay: Duration, period: Option<Duration>, callback: Callback) -> u64 {
        let (number, deadline) = (self.next, Instant::now() + delay);
        self.next += 1;
        let command = Command::Insert { number, deadline, period, callback };
        assert!(self.commands.send(command).is_ok(), "the task is running");
        number
    }
}

impl Producer for Commander {
    type Timer = u64;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> u64 {
        self.insert(delay, None, callback)
    }

    /// The answer is not waited for.
    fn cancel(&mut self, timer: u64) -> bool {
        self.commands.send(Command::Cancel(timer)).is_ok()
    }

    /// The answer is not waited for.
    fn reset(&mut self, timer: u64, delay: Duration, _: Callback) -> Option<u64> {
        let command = Command::Reset { number: timer, deadline: Instant::now() + delay };
        self.commands.send(command).is_ok().then_some(timer)
    }

    fn settle(&mut self) {
        let received = Recorder::burst(1);
        let command = Command::Settle(received.callback());
        assert!(self.commands.send(command).is_ok(), "the task is running");
        assert!(received.wait(LIMIT), "the task did not answer");
    }

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        self.insert(initial, Some(period), callback);
    }
}
