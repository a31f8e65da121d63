//! Models for loom: every interleaving of the protocols between the two sides, up to a bound.
//!
//! Run with `ci/loom.sh`. Each model names the protocol that it covers; docs/memory-ordering.md
//! says which atomics those are. The whole pipeline (handle, driver) is in most of them, over a
//! clock that stands still; only the timer thread's loop and the wheel's arithmetic are left to
//! other tests. All memory is tracked by the allocations' own tokens: a leak or a double drop fails
//! the model.

mod arena;
mod batch;
mod chunk;
mod gate;
mod handover;
mod in_hand;
mod intake;
mod lane;
mod listing;
mod repeat;
mod reset;
mod sleep;

use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::api::handle::Handle;
use crate::base::backpressure::Backpressure;
use crate::base::clock::Clock;
use crate::base::panics::Reporter;
use crate::base::tick::Tick;
use crate::engine::driver::{Driver, Intaken, Next};
use crate::engine::entry::Entry;
use crate::engine::lanes::{LaneSettings, MOST_WHEELS};
use crate::engine::shared::{DefaultExecutor, Executors, Live, Settings};
use crate::executor::pool::Pool;
use crate::sync::{Arc, Parker, Unparker};

/// A scheduler without a thread: a handle, and the driver to be turned by the model.
fn scheduler() -> (Handle, Driver) {
    scheduler_waking(Parker::new().unparker().clone(), None)
}

/// There are this many wheels at most.
fn scheduler_with(most_wheels: usize) -> (Handle, Driver) {
    scheduler_of(Parker::new().unparker().clone(), None, most_wheels)
}

fn scheduler_waking(unparker: Unparker, limit: Option<usize>) -> (Handle, Driver) {
    scheduler_of(unparker, limit, MOST_WHEELS)
}

fn scheduler_of(unparker: Unparker, limit: Option<usize>, most_wheels: usize) -> (Handle, Driver) {
    let tick = Tick::new(Tick::MIN).expect("the shortest tick is a tick");
    let settings = Settings {
        tick,
        coalesce: 0,
        // A thread with a slot has a wheel from its first timer on.
        lanes: LaneSettings { channels: 1, wheel_after: Some(0), most_wheels, tick, wheel_size: 2 },
        limit,
        backpressure: Backpressure::Off,
        capture_spans: false,
        reporter: Reporter::default(),
    };
    let pool = Pool::new("model", 1).expect("one thread is a pool");
    let executors = Executors { default: DefaultExecutor::Inline, pool };
    let live = Live::new(settings, executors, Clock::manual(0), unparker);
    let driver = Driver::new(Arc::clone(&live), 2, false);
    (Handle::new(live), driver)
}

/// Explores with at most `preemptions` involuntary switches per execution, which finds nearly all
/// defects (Musuvathi and Qadeer, *Iterative context bounding*, PLDI 2007) and keeps the
/// time finite.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = builder.max_branches.max(10_000);
    builder.check(model);
}

/// The loop of `timer_thread::drive`, until the task has run. The clock stands still: a task comes
/// due only if it has no delay, or was moved to "at once".
fn drive(driver: &mut Driver, parker: &Parker, fate: &Fate) {
    let mut announced = false;
    while fate.runs() == 0 {
        let intaken = driver.take_in();
        let turn = driver.turn(0);
        if turn.fired > 0 {
            continue;
        }
        if intaken == Intaken::Gap || matches!(turn.next, Next::Now | Next::Soon) {
            loom::thread::yield_now();
        } else if announced {
            parker.park();
            driver.core().sleep.announce_awake();
            announced = false;
        } else {
            driver.core().sleep.announce_sleep(9);
            announced = true;
        }
    }
}

/// An entry in an allocation of its own, to be passed to one thread.
struct Boxed(*mut Entry);

// SAFETY: the thread that has the address owns the entry.
unsafe impl Send for Boxed {}

impl Boxed {
    fn new() -> Self {
        Self(Box::into_raw(Box::new(Entry::free(0))))
    }
}

/// Counts runs and drops of one task.
struct Token {
    fate: Arc<Fate>,
}

struct Fate {
    runs: AtomicUsize,
    drops: AtomicUsize,
    /// Fails the model if a task is never dropped.
    _leak: loom::alloc::Track<()>,
}

impl Token {
    fn new() -> (Self, Arc<Fate>) {
        let fate = Arc::new(Fate {
            runs: AtomicUsize::new(0),
            drops: AtomicUsize::new(0),
            _leak: loom::alloc::Track::new(()),
        });
        (Self { fate: Arc::clone(&fate) }, fate)
    }

    fn run(&self) {
        self.fate.runs.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.fate.drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Fate {
    fn runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }
    fn drops(&self) -> usize {
        self.drops.load(Ordering::Acquire)
    }
}
