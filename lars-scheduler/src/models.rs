//! Models for loom: every interleaving of the protocols between the two sides, up to a bound.
//!
//! Run with `ci/loom.sh`. Each model names the protocol that it covers; docs/memory-ordering.md says which
//! atomics those are. The whole pipeline (handle, driver) is in most of them, over a clock that stands
//! still; only the timer thread's loop and the wheel's arithmetic are left to other tests. All memory is
//! tracked by the allocations' own tokens: a leak or a double drop fails the model.

mod arena;
mod batch;
mod handover;
mod intake;
mod lane;
mod repeat;
mod reset;
mod sleep;

use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::clock::Clock;
use crate::driver::Driver;
use crate::executor::pool::Pool;
use crate::handle::Handle;
use crate::report::Reporter;
use crate::shared::{Core, DefaultExecutor, Live, Settings};
use crate::sync::{Arc, Parker, Unparker};
use crate::tick::Tick;

/// A scheduler without a thread: a handle, and the driver to be turned by the model.
fn scheduler() -> (Handle, Driver) {
    scheduler_waking(Parker::new().unparker().clone(), None)
}

fn scheduler_waking(unparker: Unparker, limit: Option<usize>) -> (Handle, Driver) {
    let settings = Settings {
        tick: Tick::new(Tick::MIN).expect("the shortest tick is a tick"),
        coalesce: 0,
        lanes: (1, 1),
        limit,
        executor: DefaultExecutor::Inline,
        pool: Pool::new("model", 1).expect("one thread is a pool"),
        reporter: Reporter::default(),
    };
    let live = Live::new(Core::new(settings, Clock::manual(0), unparker));
    let driver = Driver::new(Arc::clone(&live), 2, false);
    (Handle::new(live), driver)
}

/// Explores with at most `preemptions` involuntary switches per execution, which finds nearly all there is
/// to find (Musuvathi and Qadeer, *Iterative context bounding*, PLDI 2007) and keeps the time finite.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
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
