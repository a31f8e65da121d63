//! Actors on the thread that asks for them to run, as in a test.

use std::collections::VecDeque;

use lars_scheduler::Handle;
use lars_scheduler::extend::Systems;

use crate::base::panics::guard;
use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::Task;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, thread};

/// The most activations that a system in virtual time has to close, to be dropped, or to answer: an
/// actor or a future that wakes itself forever must not keep the caller.
pub(crate) const LAST_TURNS: usize = 1 << 20;

/// Runs actors in the order in which they were scheduled, on the thread that asks for it.
pub(crate) struct Manual {
    queue: Mutex<VecDeque<Task>>,
    running: Mutex<Option<thread::ThreadId>>,
    tally: Tally,
    /// Whose turns run the actors; `None` if somebody asks for each.
    turner: Option<Turner>,
}

struct Turner {
    timers: Handle,
    /// A timer that runs the actors is pending.
    is_asked: AtomicBool,
}

/// How many activations a turn of the scheduler has, so that its timers are not kept waiting.
const TURNS: usize = 512;

impl Manual {
    pub(crate) fn new() -> Self {
        Self::of(None)
    }

    /// Actors run in the turns of this scheduler.
    #[cfg(any(test, all(target_family = "wasm", target_os = "unknown")))]
    pub(crate) fn turned_by(timers: Handle) -> Self {
        Self::of(Some(Turner { timers, is_asked: AtomicBool::new(false) }))
    }

    fn of(turner: Option<Turner>) -> Self {
        Self {
            turner,
            queue: Mutex::new(VecDeque::new()),
            running: Mutex::new(None),
            tally: Tally::new(false),
        }
    }

    /// Runs until nothing is scheduled, or `limit` activations are over. Returns how many there
    /// were.
    pub(crate) fn run(&self, limit: usize) -> usize {
        let before = self.running.lock().replace(thread::current().id());
        let mut turns = 0;
        while turns < limit {
            let Some(task) = self.queue.lock().pop_front() else {
                break;
            };
            turns += 1;
            // Foreign code in an activation is contained inside; this is for a log subscriber that
            // panics. Otherwise the thread would count as running actors from then on, and what is
            // scheduled would wait for another call.
            let again = guard("an activation", || Arc::clone(&task).activate());
            if again.unwrap_or(true) {
                self.queue.lock().push_back(task);
            } else {
                // It may be the last reference, and its destructors are foreign code.
                guard("what an actor left", || drop(task));
            }
        }
        *self.running.lock() = before;
        turns
    }

    pub(super) fn schedule(self: &Arc<Self>, task: Task) {
        self.queue.lock().push_back(task);
        self.ask_for_a_turn();
    }

    /// Has the actors run by the scheduler, if there is one, at its next turn.
    fn ask_for_a_turn(self: &Arc<Self>) {
        let Some(Turner { timers, is_asked }) = &self.turner else { return };
        // AcqRel: whoever finds it set has pushed before that, and the timer, which takes it back
        // before it looks at the queue, sees what was pushed.
        if is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        let turn = move || {
            if let Some(turner) = &this.turner {
                turner.is_asked.swap(false, Ordering::AcqRel);
            }
            this.run(TURNS);
            if !this.queue.lock().is_empty() {
                this.ask_for_a_turn();
            }
        };
        // Not a timer that takes a place within `max_pending`: if there were none, nothing would
        // ask again, because an actor that waits here counts as scheduled.
        if !timers.run_next_turn(turn) {
            // The scheduler has ended. Closing the system runs what is left.
            is_asked.swap(false, Ordering::AcqRel);
        }
    }

    /// Whether the calling thread is running actors here.
    pub(super) fn is_current(&self) -> bool {
        *self.running.lock() == Some(thread::current().id())
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::dispatcher::task::Activate;
    use lars_scheduler::LightArrayRevolverScheduler;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// Panics in its first turn, and when it is dropped.
    #[derive(Default)]
    struct Bomb(AtomicUsize);

    impl Activate for Bomb {
        fn activate(self: Arc<Self>) -> bool {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "expected by this test");
            false
        }
    }

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "expected by this test");
        }
    }

    struct Counted(Arc<AtomicUsize>);

    impl Activate for Counted {
        fn activate(self: Arc<Self>) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            false
        }
    }

    #[test]
    fn an_activation_that_panics_has_another_turn_and_the_others_run_and_the_thread_is_free() {
        let manual = Arc::new(Manual::new());
        let count = Arc::default();
        manual.schedule(Arc::new(Bomb::default()));
        manual.schedule(Arc::new(Counted(Arc::clone(&count))));
        let _ = lars_base::panics::contain(|| manual.run(10));
        assert!(!manual.is_current());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(manual.run(10), 0);
    }

    #[test]
    fn a_turn_in_which_something_panics_goes_on_with_the_others() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let manual = Arc::new(Manual::turned_by(time.handle()));
        let count = Arc::default();
        manual.schedule(Arc::new(Bomb::default()));
        manual.schedule(Arc::new(Counted(Arc::clone(&count))));
        time.advance(Duration::ZERO);
        assert_eq!((count.load(Ordering::Relaxed), time.metrics().panicked), (1, 0));
        assert!(!manual.is_current());
    }

    #[test]
    fn no_more_activations_run_than_were_asked_for_and_the_caller_is_told_how_many_did() {
        let manual = Arc::new(Manual::new());
        let count = Arc::default();
        (0..5).for_each(|_| manual.schedule(Arc::new(Counted(Arc::clone(&count)))));
        for (limit, runs, all) in [(0, 0, 0), (1, 1, 1), (2, 2, 3), (10, 2, 5), (10, 0, 5)] {
            assert_eq!((manual.run(limit), count.load(Ordering::Relaxed)), (runs, all));
        }
    }
}
