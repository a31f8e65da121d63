//! Noticing that the scheduler's own pool is stalled: all its threads are busy with tasks that take
//! long, and others wait. Then slow tasks do delay others.
//!
//! The driver looks a second after it has handed more tasks over than the pool has threads, and
//! then once a second until no task waits. So this wakes the timer thread at most once a second,
//! and not at all while there are enough threads.

use super::Driver;
use crate::engine::shared::DefaultExecutor;
use lars_base::panics::quietly;

/// For how long all threads have to be busy, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// How long after a warning the next one may come.
const PAUSE: u64 = 10 * SECOND;

impl Driver {
    /// To be called at the end of a turn.
    #[inline]
    pub(super) fn watch_pool(&mut self) {
        let handed_over = self.batch.take_handed_over();
        match self.look_at_pool {
            None if handed_over => self.plan_look(),
            Some(at) if self.now >= at => self.look_at_pool(),
            _ => {}
        }
    }

    /// Plans a look at the pool, if more tasks have been handed over than it has threads.
    fn plan_look(&mut self) {
        let pool = &self.live.pool;
        // (Another pool is shared with others, whose clocks may not be ours.)
        let own = matches!(&self.live.executor, DefaultExecutor::Pool(other) if other.is(pool));
        if own && pool.unfinished() > pool.threads() {
            self.look_at_pool = Some(self.now.saturating_add(SECOND));
        }
    }

    #[cold]
    fn look_at_pool(&mut self) {
        let (pool, now) = (&self.live.pool, self.now);
        let (threads, unfinished) = (pool.threads(), pool.unfinished());
        if unfinished <= threads {
            self.look_at_pool = None;
            return;
        }
        let stalled = pool.all_busy_since().is_some_and(|since| now.saturating_sub(since) > SECOND);
        self.look_at_pool = Some(now.saturating_add(if stalled { PAUSE } else { SECOND }));
        if stalled {
            self.live.reporter.pool_stalled();
            quietly(|| {
                tracing::warn!(
                    target: "lars_scheduler",
                    threads,
                    waiting = unfinished - threads,
                    "all threads of the pool have been busy for more than a second, and tasks wait"
                );
            });
        }
    }
}
