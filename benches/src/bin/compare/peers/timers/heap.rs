//! What one writes by hand: a binary heap under a mutex, and a thread that waits on a condition
//! variable.
//!
//! Cancelling sets a flag that is looked at when the timer is due. Finding it in the heap would
//! take linear time.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::callback::Callback;
use crate::timers::{Cancelling, Producer, Timers};

type Task = Box<dyn FnMut() + Send>;

struct Due {
    deadline: Instant,
    number: u64,
    period: Option<Duration>,
    cancelled: Arc<AtomicBool>,
    task: Task,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Order::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Self) -> Order {
        (other.deadline, other.number).cmp(&(self.deadline, self.number))
    }
}

#[derive(Default)]
struct State {
    heap: BinaryHeap<Due>,
    number: u64,
    stopped: bool,
}

#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    earlier: Condvar,
}

pub(crate) struct Heap {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

impl Timers for Heap {
    const NAME: &'static str = "heap";
    const ABOUT: &'static str = "by hand: BinaryHeap under a Mutex, one thread on a Condvar; \
                                 a cancel sets a flag";
    const CANCELLING: Cancelling = Cancelling::Leaves;

    type Timer = Arc<AtomicBool>;
    type Producer<'a> = &'a Shared;

    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let shared_too = Arc::clone(&shared);
        let worker = Some(thread::spawn(move || work(&shared_too)));
        Self { shared, worker }
    }

    fn producer(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.shared.state.lock().expect("no task panics").stopped = true;
        self.shared.earlier.notify_one();
        if let Some(worker) = self.worker.take() {
            worker.join().expect("no task panics");
        }
    }
}

fn work(shared: &Shared) {
    let mut state = shared.state.lock().expect("no task panics");
    while !state.stopped {
        let now = Instant::now();
        match state.heap.peek() {
            None => state = shared.earlier.wait(state).expect("no task panics"),
            Some(first) if first.deadline > now => {
                let rest = first.deadline - now;
                (state, _) = shared.earlier.wait_timeout(state, rest).expect("no task panics");
            }
            Some(_) => {
                let mut due = state.heap.pop().expect("there is a first");
                drop(state);
                if !due.cancelled.load(Ordering::Acquire) {
                    (due.task)();
                }
                state = shared.state.lock().expect("no task panics");
                if let Some(period) = due.period {
                    due.deadline += period;
                    state.heap.push(due);
                }
            }
        }
    }
}

impl Shared {
    fn push(
        &self,
        delay: Duration,
        period: Option<Duration>,
        callback: Callback,
    ) -> Arc<AtomicBool> {
        let deadline = Instant::now() + delay;
        let cancelled = Arc::new(AtomicBool::new(false));
        let task: Task = Box::new(move || callback.call());
        let mut state = self.state.lock().expect("no task panics");
        let number = state.number;
        state.number += 1;
        let is_first = state.heap.peek().is_none_or(|first| deadline < first.deadline);
        state.heap.push(Due { deadline, number, period, cancelled: Arc::clone(&cancelled), task });
        drop(state);
        if is_first {
            self.earlier.notify_one();
        }
        cancelled
    }
}

impl Producer for &Shared {
    type Timer = Arc<AtomicBool>;

    fn schedule(&mut self, delay: Duration, callback: Callback) -> Arc<AtomicBool> {
        self.push(delay, None, callback)
    }

    fn cancel(&mut self, timer: Arc<AtomicBool>) -> bool {
        !timer.swap(true, Ordering::AcqRel)
    }

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        let _ = self.push(initial, Some(period), callback);
    }
}
