//! The bound of a mailbox, and the senders that wait for room.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::base::panics::guard;
use crate::mailbox::overflow::Overflow;
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, real_now};

pub(super) struct Bound {
    pub(super) capacity: u64,
    pub(super) overflow: Overflow,
    waiting: AtomicUsize,
    lock: Mutex<Waiting>,
    room: Condvar,
}

#[derive(Default)]
pub(super) struct Waiting {
    /// Whether sending actors must not wait now.
    barred: bool,
    /// The number of the next future that waits.
    next: u64,
    /// Those of futures, by their numbers, so that one that is dropped can be removed.
    wakers: BTreeMap<u64, Waker>,
}

impl Bound {
    pub(super) fn new(capacity: u64, overflow: Overflow) -> Self {
        Self {
            capacity,
            overflow,
            waiting: AtomicUsize::new(0),
            lock: Mutex::default(),
            room: Condvar::default(),
        }
    }

    /// Whether senders take messages out, so that the reader's side needs the lock.
    #[inline]
    pub(super) fn evicts(&self) -> bool {
        self.overflow == Overflow::DropOldest
    }

    /// The right to read a mailbox that evicts, until this is dropped.
    pub(super) fn reader(&self) -> MutexGuard<'_, Waiting> {
        self.lock.lock()
    }

    /// Whether a thread has the right to read.
    #[cfg(not(any(lars_loom, lars_shuttle)))]
    pub(super) fn is_read(&self) -> bool {
        self.lock.is_locked()
    }

    /// How many senders wait for room.
    #[cfg(all(test, lars_shuttle))]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until there is room or the mailbox is closed, but not beyond `deadline`. `false` if
    /// that has passed, or if the sender is an actor and actors must not wait.
    pub(super) fn wait(
        &self,
        deadline: Option<Instant>,
        actor: bool,
        has_room_or_end: impl Fn() -> bool,
    ) -> bool {
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // SeqCst fence, pairs with the one in `made_room`: either the reader sees us waiting, or we
        // see the room that it made.
        fence(Ordering::SeqCst);
        let mut in_time = true;
        while !has_room_or_end() {
            if actor && guard.barred || deadline.is_some_and(|deadline| real_now() >= deadline) {
                in_time = false;
                break;
            }
            guard = self.room.wait(guard, deadline);
        }
        // Relaxed: as in `wake`.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        in_time
    }

    /// Like [`wait`](Self::wait), for a future. The number in `place` identifies it. It may be
    /// woken although there is no room.
    pub(super) fn poll(
        &self,
        place: &mut Option<u64>,
        waker: &Waker,
        actor: bool,
        has_room_or_end: impl Fn() -> bool,
    ) -> Poll<bool> {
        // Cloned and dropped outside the lock: it is foreign code.
        let waker = waker.clone();
        let mut waiting = self.lock.lock();
        if actor && waiting.barred {
            drop(waiting);
            self.leave(place, false);
            return Poll::Ready(false);
        }
        let number = *place.get_or_insert(waiting.next);
        waiting.next = waiting.next.max(number + 1);
        let before = waiting.wakers.insert(number, waker);
        if before.is_none() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        // SeqCst fence, as in `wait`.
        fence(Ordering::SeqCst);
        let ready = has_room_or_end();
        drop(waiting);
        drop(before);
        if ready {
            self.leave(place, false);
            return Poll::Ready(true);
        }
        Poll::Pending
    }

    /// A future no longer waits. If it was woken and has not `used` the room, another future may be
    /// waiting for that room.
    pub(super) fn leave(&self, place: &mut Option<u64>, used: bool) {
        let Some(number) = place.take() else {
            return;
        };
        let left = self.lock.lock().wakers.remove(&number);
        match left {
            Some(_) => drop(self.waiting.fetch_sub(1, Ordering::Relaxed)),
            None if used => {}
            None => self.wake(1),
        }
    }

    /// Allows or forbids actors to wait here for room; forbidding it wakes those that do.
    pub(super) fn let_actors_wait(&self, wait: bool) {
        self.lock.lock().barred = !wait;
        if !wait {
            self.wake(usize::MAX);
        }
    }

    /// There is room for `most` messages, or will never be any: wakes those that wait.
    #[inline]
    pub(super) fn made_room(&self, most: usize) {
        // SeqCst fence: see `wait`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake(most);
        }
    }

    /// Wakes the threads that wait, and `most` of the futures. A future that then finds no room
    /// waits again. One that is dropped without having used the room wakes the next.
    fn wake(&self, most: usize) {
        let mut wakers = Vec::new();
        {
            let mut waiting = self.lock.lock();
            while wakers.len() < most
                && let Some((_, waker)) = waiting.wakers.pop_first()
            {
                wakers.push(waker);
            }
        }
        // Relaxed: a number that is too large only costs a look.
        self.waiting.fetch_sub(wakers.len(), Ordering::Relaxed);
        self.room.notify_all();
        // Outside the lock: they are foreign code.
        for waker in wakers {
            guard("a waker", || waker.wake());
        }
    }
}
