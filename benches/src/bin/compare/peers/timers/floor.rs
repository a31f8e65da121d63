//! No timer: the least that any lock-free intake does. A node of 64 bytes, one exchange, one
//! store.
//!
//! Nodes are kept until the process ends. A cancel is a compare-exchange on the node, which the
//! thread then uses again; so a second round is the floor on memory that is there already.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use crate::callback::Callback;
use crate::record::Workload;
use crate::timers::{Producer, Timers};

const ARMED: u64 = 1;
const CANCELLED: u64 = 2;

/// As large as a cache line.
struct Node {
    next: AtomicPtr<Node>,
    state: AtomicU64,
    /// Stored to make the node as expensive as one that is used.
    _deadline: Duration,
    _callback: Option<Callback>,
    _rest: [u64; 2],
}

/// The producers' end of a linked queue.
pub(crate) struct Floor {
    last: AtomicPtr<Node>,
}

/// A node; they are never freed.
pub(crate) struct Kept(*mut Node);

// SAFETY: nodes are shared by atomics only, and live as long as the process.
unsafe impl Send for Kept {}

pub(crate) struct FloorProducer<'a> {
    floor: &'a Floor,
    free: Vec<*mut Node>,
    _not_send: PhantomData<*mut ()>,
}

impl Timers for Floor {
    const NAME: &'static str = "floor";
    const ABOUT: &'static str = "no timer: a heap node of 64 bytes, one exchange, one store; \
                                 a cancel is one compare-exchange";
    const WORKLOADS: &'static [Workload] = {
        use Workload::*;
        &[W1, W2, W2b, W4, W5, W7, W8, W9, W12, W13]
    };
    const FIRES: bool = false;
    const ANSWERS: bool = true;

    type Timer = Kept;
    type Producer<'a> = FloorProducer<'a>;

    fn start() -> Self {
        const { assert!(size_of::<Node>() == 64) };
        Self { last: AtomicPtr::new(new_node(Duration::ZERO, None)) }
    }

    fn producer(&self) -> FloorProducer<'_> {
        FloorProducer {
            floor: self,
            free: benches::process::touched_vec(1 << 20),
            _not_send: PhantomData,
        }
    }
}

fn new_node(deadline: Duration, callback: Option<Callback>) -> *mut Node {
    Box::into_raw(Box::new(Node {
        next: AtomicPtr::new(ptr::null_mut()),
        state: AtomicU64::new(ARMED),
        _deadline: deadline,
        _callback: callback,
        _rest: [0; 2],
    }))
}

impl Producer for FloorProducer<'_> {
    type Timer = Kept;

    #[inline]
    fn schedule(&mut self, delay: Duration, callback: Callback) -> Kept {
        let node = match self.free.pop() {
            Some(node) => {
                // SAFETY: a node of this thread's, that nobody reads but through atomics.
                unsafe {
                    (*node).next.store(ptr::null_mut(), Ordering::Relaxed);
                    (*node).state.store(ARMED, Ordering::Relaxed);
                    (*node)._deadline = delay;
                    (*node)._callback = Some(callback);
                }
                node
            }
            None => new_node(delay, Some(callback)),
        };
        let before = self.floor.last.swap(node, Ordering::AcqRel);
        // SAFETY: nodes are never freed.
        unsafe { (*before).next.store(node, Ordering::Release) };
        Kept(node)
    }

    #[inline]
    fn cancel(&mut self, timer: Kept) -> bool {
        // SAFETY: nodes are never freed.
        let state = unsafe { &(*timer.0).state };
        let won =
            state.compare_exchange(ARMED, CANCELLED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.free.push(timer.0);
        won
    }

    fn settle(&mut self) {}
}
