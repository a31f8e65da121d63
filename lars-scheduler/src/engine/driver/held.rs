//! Due tasks that wait for room in a pool whose queue has a limit.
//!
//! They stay pending: like the entries in the due list, theirs wait in a list of their own, behind
//! it. So they keep their place within `max_pending`, can be cancelled and moved, are listed, and
//! are handed back by `stop`. Inline tasks pass them.
//!
//! The pool wakes the driver when it has room again ([`Pool::call_when_room`]).

use std::task::{Wake, Waker};

use super::{Driver, FIRE};
use crate::engine::counts::DriverCounts;
use crate::engine::due::{Detached, DueList};
use crate::engine::entry::Entry;
use crate::engine::shared::{DefaultExecutor, Live};
use crate::executor::pool::Pool;
use crate::sync::Arc;
use lars_base::panics::quietly;

/// How long after a warning the next one may come, in nanoseconds.
const PAUSE: u64 = 10_000_000_000;

/// What waits for room.
#[derive(Debug)]
pub(super) struct Held {
    /// The pool, if it has a limit. (In virtual time the limit does not hold: time would have to
    /// wait for the threads of the pool.)
    pool: Option<Pool>,
    list: DueList,
    /// How many more tasks there is room for in this turn.
    room: usize,
    /// How many entries at the front of the due list have their room already.
    granted: usize,
    /// The number of the request for room that the pool keeps.
    wish: Option<u64>,
    /// The pool has said that there is room.
    told: bool,
    /// When the next warning may come.
    warn_at: u64,
}

/// Wakes the driver.
struct Bell(Arc<Live>);

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.sleep.wake();
    }
}

impl Held {
    pub(super) fn new(live: &Live, exact_order: bool) -> Self {
        let pool = match &live.executor {
            DefaultExecutor::Pool(pool) if !exact_order && pool.queue_limit().is_some() => {
                Some(pool.clone())
            }
            _ => None,
        };
        let list = DueList::new();
        Self { pool, list, room: 0, granted: 0, wish: None, told: false, warn_at: 0 }
    }

    /// Whether tasks may have to wait at all.
    #[inline]
    pub(super) fn has_limit(&self) -> bool {
        self.pool.is_some()
    }

    pub(super) fn pop(&mut self) -> Option<*mut Entry> {
        self.list.pop()
    }

    /// Whether the pool has called, or is about to. The request lasts until the room is taken.
    fn has_been_called(&self) -> bool {
        let wish = self.pool.as_ref().zip(self.wish);
        wish.is_some_and(|(pool, wish)| !pool.still_wants_room(wish))
    }

    /// Withdraws the request for room.
    pub(super) fn give_up(&mut self) {
        if let (Some(pool), Some(wish)) = (&self.pool, self.wish.take()) {
            pool.want_no_room(wish);
        }
    }
}

impl Driver {
    /// At the beginning of a turn: as many of those that wait as there is room for come first.
    #[inline]
    pub(super) fn grant_room(&mut self) {
        if self.held.has_limit() {
            self.held.room = 0;
            self.held.granted = 0;
            if self.held.list.is_empty() {
                self.batch.held_from = None;
            } else {
                self.grant_room_to_first();
            }
        }
    }

    #[cold]
    fn grant_room_to_first(&mut self) {
        let held = &mut self.held;
        let Some(pool) = &held.pool else { return };
        let told = std::mem::take(&mut held.told) || held.has_been_called();
        let room = pool.room(told);
        held.granted = self.due.put_first(&mut held.list, room.min(FIRE));
        held.room = room - held.granted;
        if told || held.list.is_empty() {
            held.give_up();
        }
    }

    /// Whether an entry that has left the due list has to wait for room. Then it has been put
    /// aside.
    #[inline(never)]
    pub(super) fn must_wait(&mut self, entry: *mut Entry) -> bool {
        // SAFETY: an entry that has just left the due list is alive.
        if unsafe { (*entry).state.flags() }.is_inline() || self.has_room() {
            return false;
        }
        if self.held.list.is_empty() {
            self.say_that_the_pool_is_full();
            self.batch.held_from = Some(self.live.clock.now());
        }
        let mut chain = Detached::default();
        chain.add(entry);
        // SAFETY: an entry that has left the due list still says that it is queued, and is in no
        // other list. Nobody but the driver touches its links, and it stays alive until the driver
        // has popped it and found out whether it was cancelled.
        unsafe { self.held.list.append(chain) };
        DriverCounts::add(&self.live.counts.held_for_pool, 1);
        true
    }

    /// Takes the room for one task.
    fn has_room(&mut self) -> bool {
        if self.held.granted > 0 {
            self.held.granted -= 1;
            return true;
        }
        // First in, first out.
        if !self.held.list.is_empty() {
            return false;
        }
        if self.held.room == 0 {
            // What was pushed counts as well.
            self.batch.flush(&self.live, &mut self.runs);
            let pool = self.held.pool.as_ref();
            self.held.room = pool.map_or(usize::MAX, |pool| pool.room(false));
        }
        let has = self.held.room > 0;
        self.held.room -= usize::from(has);
        has
    }

    /// Whether there is room again for those that wait. If not, the pool wakes the driver when
    /// there is.
    #[inline]
    pub(super) fn has_room_for_held(&mut self) -> bool {
        !self.held.list.is_empty() && self.room_has_come()
    }

    #[cold]
    fn room_has_come(&mut self) -> bool {
        let Some(pool) = &self.held.pool else { return true };
        if self.held.wish.is_none() {
            let bell = Waker::from(std::sync::Arc::new(Bell(Arc::clone(&self.live))));
            self.held.wish = pool.call_when_room(&bell);
        }
        self.held.told = self.held.wish.is_none() || self.held.has_been_called();
        self.held.told
    }

    #[cold]
    fn say_that_the_pool_is_full(&mut self) {
        if self.now < self.held.warn_at {
            return;
        }
        self.held.warn_at = self.now.saturating_add(PAUSE);
        let limit = self.held.pool.as_ref().and_then(Pool::queue_limit);
        quietly(|| {
            tracing::warn!(
                target: "lars_scheduler",
                limit,
                "the queue of the pool is full: tasks that are due wait in the scheduler"
            );
        });
    }
}
