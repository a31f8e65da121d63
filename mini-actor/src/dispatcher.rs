//! Where actors run: on a pool of threads, on the thread of a pinned actor, or on the thread of a
//! test.

pub(crate) mod journal;
pub(crate) mod marks;
pub(crate) mod tally;
pub(crate) mod task;
pub(crate) mod watch;

mod shared;

pub(crate) mod worker;

pub(crate) mod pool;

pub(crate) mod manual;

use crate::dispatcher::manual::Manual;
use crate::dispatcher::pool::Pool;
use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::Task;
use crate::sync::Arc;
use lars_base::time::Instant;

#[derive(Clone)]
pub(crate) enum Dispatcher {
    Pool(Arc<Pool>),
    Manual(Arc<Manual>),
}

impl Dispatcher {
    #[inline]
    pub(crate) fn schedule(&self, task: Task) {
        match self {
            Self::Pool(pool) => pool.schedule(task),
            Self::Manual(manual) => manual.schedule(task),
        }
    }

    /// Whether actors of this dispatcher run on the calling thread.
    pub(crate) fn is_current(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.is_current(),
            Self::Manual(manual) => manual.is_current(),
        }
    }

    pub(crate) fn as_manual(&self) -> Option<&Manual> {
        if let Self::Manual(manual) = self { Some(manual) } else { None }
    }

    fn as_pool(&self) -> Option<&Pool> {
        if let Self::Pool(pool) = self { Some(pool) } else { None }
    }

    /// Where the calling thread, which runs an actor, counts the messages received.
    pub(crate) fn tally(&self) -> &Tally {
        match self {
            Self::Pool(pool) => pool.tally(),
            Self::Manual(manual) => manual.tally(),
        }
    }

    /// How many messages have been received here.
    pub(crate) fn received(&self) -> u64 {
        match self {
            Self::Pool(pool) => pool.received(),
            Self::Manual(manual) => manual.tally().count(),
        }
    }

    /// Whether the threads end, or have ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.as_pool().is_some_and(Pool::is_ending)
    }

    /// How many threads have not ended.
    pub(crate) fn running(&self) -> usize {
        self.as_pool().map_or(0, Pool::running)
    }

    /// Waits until the threads have ended, until `deadline` at most.
    pub(crate) fn wait_ended(&self, deadline: Option<Instant>) {
        if let Some(pool) = self.as_pool() {
            pool.wait_ended(deadline);
        }
    }

    /// Lets the threads finish what is scheduled, and end.
    pub(crate) fn end(&self) {
        if let Some(pool) = self.as_pool() {
            pool.end();
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::base::threads::OnThreadStart;
    use crate::dispatcher::task::Activate;

    /// Counts a message in its one turn, and says whether it ran where it should.
    struct Counting {
        dispatcher: Dispatcher,
        is_there: mpsc::Sender<bool>,
    }

    impl Activate for Counting {
        fn activate(self: Arc<Self>) -> bool {
            self.dispatcher.tally().add_one();
            self.is_there.send(self.dispatcher.is_current()).unwrap();
            false
        }
    }

    /// Schedules ten, lets them run, and looks at what they said.
    fn ten(dispatcher: &Dispatcher, run: impl FnOnce()) {
        let (is_there, seen) = mpsc::channel();
        assert!(!dispatcher.is_current());
        for _ in 0..10 {
            let (dispatcher, is_there) = (dispatcher.clone(), is_there.clone());
            dispatcher.clone().schedule(Arc::new(Counting { dispatcher, is_there }));
        }
        drop(is_there);
        run();
        assert!(seen.iter().eq([true; 10]));
        assert_eq!((dispatcher.received(), dispatcher.is_current()), (10, false));
    }

    #[test]
    fn a_pool_works_off_what_is_scheduled_before_its_end_and_counts_it() {
        let pool = Pool::start("test", 2, &OnThreadStart::default()).unwrap();
        let dispatcher = Dispatcher::Pool(pool);
        assert_eq!((dispatcher.is_ending(), dispatcher.running()), (false, 2));
        ten(&dispatcher, || {
            dispatcher.end();
            dispatcher.wait_ended(None);
        });
        assert_eq!((dispatcher.is_ending(), dispatcher.running()), (true, 0));
    }

    #[test]
    fn a_dispatcher_without_threads_runs_what_is_scheduled_when_it_is_told_and_counts_it() {
        let dispatcher = Dispatcher::Manual(Arc::new(Manual::new()));
        ten(&dispatcher, || assert_eq!(dispatcher.as_manual().unwrap().run(100), 10));
        // It has no threads to end.
        dispatcher.end();
        dispatcher.wait_ended(None);
        assert_eq!((dispatcher.is_ending(), dispatcher.running()), (false, 0));
    }
}
