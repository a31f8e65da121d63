//! The limit of a pool's queue, and waiting for room without a thread.
//!
//! The limit holds for all unfinished tasks together: those that wait, and one for each thread.
//!
//! # No wake-up is lost
//!
//! A party that waits for room is registered and counted under the lock of the waiters, and looks
//! at the tasks after a fence. A worker counts a finished task, and looks at the count of the
//! waiters after a fence. So one of the two sees the other (`Shared::tell_waiters`). The worker
//! takes the registration under the lock, and calls the waker after that. A driver asks under the
//! same lock whether it is still registered, after it has announced its sleep: if it is, the worker
//! that takes the registration later sees the announcement.
//!
//! # Room for those that wait
//!
//! As long as somebody waits for room, the others get none above the mark at which those that wait
//! are woken. Otherwise a submitter that tries again and again could keep the pool above the mark
//! forever. A request lasts until the party that made it has come and seen how much room there is;
//! at the mark there is some.

use std::sync::Arc;
use std::task::Waker;

use super::{Pool, Shared, Waiters};
use crate::sync::{Ordering, fence};

/// How many tasks may be unfinished.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLimit {
    /// How many may wait, as the user gave it.
    given: Option<usize>,
    most: usize,
    /// Those that wait for room are woken when only this many are left: not for each task, or the
    /// timer thread would be woken as often.
    few: usize,
}

impl QueueLimit {
    pub(super) fn new(given: Option<usize>, threads: usize) -> Self {
        let below = |queued: usize| threads.saturating_add(queued);
        Self {
            given,
            most: given.map_or(usize::MAX, below),
            few: given.map_or(usize::MAX, |limit| below(limit / 2)),
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.given.is_some()
    }
}

/// A party that waits for room.
pub(super) struct ForRoom {
    number: u64,
    waker: Waker,
}

impl ForRoom {
    pub(super) fn wake(self) {
        self.waker.wake();
    }
}

impl Pool {
    /// How many tasks may wait for a thread; `None` if there is no limit.
    pub fn queue_limit(&self) -> Option<usize> {
        self.guard.shared.limit.given
    }

    /// How many more tasks there is room for, for a party that has `waited`, or for any other.
    pub(crate) fn room(&self, waited: bool) -> usize {
        let shared = &self.guard.shared;
        let most = if waited { shared.limit.most } else { shared.most_now() };
        most.saturating_sub(self.unfinished())
    }

    /// Calls `waker` once when there is room again for some tasks, and returns the number of this
    /// request, which is to be ended by [`want_no_room`](Self::want_no_room). `None`, and no call,
    /// if there is such room now.
    pub(crate) fn call_when_room(&self, waker: &Waker) -> Option<u64> {
        let shared = &self.guard.shared;
        let mut waiters = shared.waiters.lock();
        let number = waiters.waits;
        waiters.waits += 1;
        // Relaxed, and a SeqCst fence before we look at the tasks: see `Shared::tell_waiters`.
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if shared.has_room_again() {
            // Relaxed: a worker that still sees us finds nobody to wake.
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // Relaxed: a submitter that does not see it yet takes one place more.
        shared.wishes.fetch_add(1, Ordering::Relaxed);
        waiters.for_room.push(ForRoom { number, waker: waker.clone() });
        Some(number)
    }

    /// Whether the waker of this request has not been called, and is not about to be.
    pub(crate) fn still_wants_room(&self, number: u64) -> bool {
        let waiters = self.guard.shared.waiters.lock();
        waiters.for_room.iter().any(|waiter| waiter.number == number)
    }

    /// Ends the request, whether it has been met or is withdrawn.
    pub(crate) fn want_no_room(&self, number: u64) {
        let shared = &self.guard.shared;
        shared.wishes.fetch_sub(1, Ordering::Relaxed); // as in `call_when_room`
        let mut waiters = shared.waiters.lock();
        if let Some(place) = waiters.for_room.iter().position(|waiter| waiter.number == number) {
            let given_up = waiters.for_room.swap_remove(place);
            shared.waiting.fetch_sub(1, Ordering::Relaxed); // as there
            drop(waiters);
            drop(given_up);
        }
    }
}

impl Shared {
    /// Counts a task as submitted if there is room for it, or says why not.
    pub(super) fn count_if_room(self: &Arc<Self>) -> Result<(), String> {
        let Some(limit) = self.limit.given else {
            // Relaxed: see `submit`.
            self.submitted.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        loop {
            // First what has finished: so what is unfinished is never counted too low, and the
            // exchange makes the limit exact.
            let finished = self.finished_in_all();
            // Relaxed, all of it: see `submit`.
            let submitted = self.submitted.load(Ordering::Relaxed);
            let unfinished = submitted.wrapping_sub(finished);
            let name = &self.settings.name;
            if unfinished >= self.limit.most {
                return Err(format!("{limit} tasks wait in the pool {name:?}, and no more may"));
            }
            if unfinished >= self.most_now() {
                return Err(format!(
                    "the pool {name:?}, in which {limit} tasks may wait, has been full, and the \
                     tasks of a scheduler come first"
                ));
            }
            let more = submitted.wrapping_add(1);
            let (ok, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.submitted.compare_exchange_weak(submitted, more, ok, failed).is_ok() {
                return Ok(());
            }
        }
    }

    /// How many tasks may be unfinished, for a party that has not waited for room.
    fn most_now(&self) -> usize {
        // Relaxed: as in `call_when_room`.
        let wishes = self.wishes.load(Ordering::Relaxed);
        if wishes > 0 { self.limit.few } else { self.limit.most }
    }

    /// Whether so few tasks are left that those that wait for room are woken.
    fn has_room_again(&self) -> bool {
        self.unfinished() <= self.limit.few
    }

    /// Takes those that are to be woken because there is room.
    pub(super) fn take_those_for_room(&self, waiters: &mut Waiters) -> Vec<ForRoom> {
        if waiters.for_room.is_empty() || !self.has_room_again() {
            return Vec::new();
        }
        let taken = std::mem::take(&mut waiters.for_room);
        // Relaxed: as in `call_when_room`.
        self.waiting.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }
}
