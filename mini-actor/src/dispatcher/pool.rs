//! The pool: as many threads as there are workers, and the thread of a pinned actor.

#[cfg(test)]
use std::cell::Cell;

use crossbeam_deque::Worker as Queue;
use lars_base::idle::Idle;
use lars_base::time::Instant;

use crate::base::threads::{OnThreadStart, ThreadKind};
use crate::dispatcher::shared::{Running, Shared};
use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::Task;
use crate::dispatcher::worker::{self, Worker, work};
#[cfg(test)]
use crate::sync::thread_local;
use crate::sync::{Arc, thread};

/// The stack size of a thread; only the part that is used costs memory. Actors receive messages by
/// value, and an unoptimised build keeps several copies of a large one.
const STACK: usize = 16 << 20;

/// Ends the threads when the last reference goes. The threads hold `Shared`, not this.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[cfg(test)]
thread_local! {
    /// How many pools the calling thread has started.
    pub(crate) static STARTED_FROM_HERE: Cell<u32> = const { Cell::new(0) };
}

impl Pool {
    /// Starts `threads` threads for many actors, named `name-0` and so on.
    pub(crate) fn start(
        name: &str,
        threads: usize,
        on_start: &OnThreadStart,
    ) -> std::io::Result<Arc<Self>> {
        Self::launch(name, threads, false, on_start)
    }

    /// Starts the thread of one actor.
    pub(crate) fn start_own(name: &str, on_start: &OnThreadStart) -> std::io::Result<Arc<Self>> {
        Self::launch(name, 1, true, on_start)
    }

    fn launch(
        name: &str,
        threads: usize,
        own: bool,
        on_start: &OnThreadStart,
    ) -> std::io::Result<Arc<Self>> {
        #[cfg(test)]
        STARTED_FROM_HERE.with(|started| started.set(started.get() + 1));
        let queues: Vec<Queue<Task>> = (0..threads).map(|_| Queue::new_fifo()).collect();
        let (idle, sleepers) = Idle::new(threads);
        let shared = Arc::new(Shared::new(own, &queues, idle));
        // If a thread cannot be started, dropping this ends those that were.
        let pool = Arc::new(Self { shared });
        for (number, (queue, sleeper)) in queues.into_iter().zip(sleepers).enumerate() {
            let running = Running::new(&pool.shared);
            let (name, on_start) = (format!("{name}-{number}"), on_start.clone());
            let kind = if own { ThreadKind::Pinned } else { ThreadKind::Actors { number } };
            let thread = thread::Builder::new().name(name.clone()).stack_size(STACK);
            thread.spawn(move || {
                on_start.call(kind, &name);
                drop((on_start, name));
                work(Worker::new(Arc::clone(&running.0), number, queue), &sleeper);
                drop(running);
            })?;
        }
        Ok(pool)
    }

    #[inline]
    pub(super) fn schedule(&self, task: Task) {
        worker::schedule(&self.shared, task);
    }

    /// Whether the calling thread is one of the pool's.
    pub(super) fn is_current(&self) -> bool {
        worker::number_in(&self.shared).is_some()
    }

    /// Where the calling thread, which is one of the pool's, counts the messages received.
    pub(super) fn tally(&self) -> &Tally {
        let number = worker::number_in(&self.shared);
        debug_assert!(number.is_some(), "the pool's thread");
        &self.shared.tallies[number.unwrap_or(0)]
    }

    /// How many messages have been received on its threads.
    pub(super) fn received(&self) -> u64 {
        self.shared.tallies.iter().map(Tally::count).sum()
    }

    /// Whether the threads end, or have ended.
    pub(super) fn is_ending(&self) -> bool {
        self.shared.is_ending()
    }

    /// How many threads have not ended.
    pub(super) fn running(&self) -> usize {
        self.shared.running()
    }

    /// Waits until the threads have ended, until `deadline` at most.
    pub(super) fn wait_ended(&self, deadline: Option<Instant>) {
        self.shared.wait_ended(deadline);
    }

    /// Lets the threads finish what is scheduled, and end.
    pub(super) fn end(&self) {
        self.shared.end();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.end();
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::dispatcher::task::Activate;
    use crate::sync::real_now;

    /// Drops what it holds with itself.
    struct Holding {
        _held: mpsc::Sender<()>,
    }

    impl Activate for Holding {
        fn activate(self: Arc<Self>) -> bool {
            false
        }
    }

    #[test]
    fn what_is_scheduled_after_the_last_thread_has_ended_is_dropped() {
        let pool = Pool::start("test", 2, &OnThreadStart::default()).unwrap();
        let (held, dropped) = mpsc::channel();
        pool.end();
        pool.wait_ended(None);
        assert_eq!((pool.running(), pool.is_ending()), (0, true));
        pool.schedule(Arc::new(Holding { _held: held }) as Task);
        // By this thread, or by the last one of the pool, which looks once more.
        let end = dropped.recv_timeout(Duration::from_secs(60));
        assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected));
    }

    /// Panics when it is dropped.
    struct Bomb;

    impl Activate for Bomb {
        fn activate(self: Arc<Self>) -> bool {
            false
        }
    }

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }

    #[test]
    fn what_panics_when_it_is_dropped_after_the_last_thread_has_ended_harms_nobody() {
        let pool = Pool::start("test", 1, &OnThreadStart::default()).unwrap();
        pool.end();
        pool.wait_ended(None);
        pool.schedule(Arc::new(Bomb) as Task);
    }

    /// Has one turn after another until it is told to end.
    struct Busy(Arc<AtomicBool>);

    impl Activate for Busy {
        fn activate(self: Arc<Self>) -> bool {
            !self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn what_is_scheduled_from_outside_has_its_turn_while_others_always_have_more_to_do() {
        let pool = Pool::start("test", 1, &OnThreadStart::default()).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (held, dropped) = mpsc::channel();
        for _ in 0..3 {
            pool.schedule(Arc::new(Busy(Arc::clone(&is_over))));
        }
        pool.schedule(Arc::new(Holding { _held: held }));
        let end = dropped.recv_timeout(Duration::from_secs(60));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn the_threads_of_a_pool_end_when_the_last_reference_goes() {
        let pool = Pool::start("test", 2, &OnThreadStart::default()).unwrap();
        let shared = Arc::clone(&pool.shared);
        drop(pool);
        shared.wait_ended(real_now().checked_add(Duration::from_secs(60)));
        assert_eq!((shared.running(), shared.is_ending()), (0, true));
    }
}
