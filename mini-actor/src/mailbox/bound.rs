//! The bound of a mailbox, and the senders that wait for room.
//!
//! # Who is woken
//!
//! Threads and futures wait in one line, by numbers. Each place that becomes free wakes the first
//! of them, and removes him from the line. Whoever then finds that a sender who did not wait was
//! faster waits again under his old number, so that he comes first again. A place is never free
//! while all wait, because
//!
//! - a sender looks for room after he has got in line. Either he finds it, or the reader, who makes
//!   it later, finds him ([`wait`](Bound::wait), [`made_room`](Bound::made_room));
//! - whoever was woken looks for room before he gives up, and a future that is dropped before it
//!   has looked wakes the next one.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use crate::base::panics::guard;
use crate::mailbox::overflow::Overflow;
use crate::sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, real_now};
use lars_base::time::Instant;

pub(super) struct Bound {
    pub(super) capacity: u64,
    pub(super) overflow: Overflow,
    /// How many are in line. Written under the lock.
    waiting: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Default)]
pub(super) struct Line {
    /// Whether sending actors must not wait now.
    barred: bool,
    /// The number of the next sender that waits.
    next: u64,
    sleepers: BTreeMap<u64, Sleeper>,
}

/// How a sender that waits is woken.
enum Sleeper {
    /// A thread, by a variable of its own.
    Thread(Arc<Condvar>),
    Future(Waker),
}

impl Sleeper {
    fn wake(self) {
        match self {
            Self::Thread(condvar) => condvar.notify_all(),
            Self::Future(waker) => drop(guard("a waker", || waker.wake())),
        }
    }
}

impl Bound {
    pub(super) fn new(capacity: u64, overflow: Overflow) -> Self {
        Self { capacity, overflow, waiting: AtomicUsize::new(0), line: Mutex::default() }
    }

    /// Whether senders take messages out, so that the reader's side needs the lock.
    #[inline]
    pub(super) fn evicts(&self) -> bool {
        self.overflow == Overflow::DropOldest
    }

    /// The right to read a mailbox that evicts, until this is dropped.
    pub(super) fn reader(&self) -> MutexGuard<'_, Line> {
        self.line.lock()
    }

    /// Whether a thread has the right to read.
    #[cfg(not(any(lars_loom, lars_shuttle)))]
    pub(super) fn is_read(&self) -> bool {
        self.line.is_locked()
    }

    /// How many senders wait for room.
    #[cfg(all(test, not(lars_loom)))]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until there is room or the mailbox is closed, but not beyond `deadline`. `false` if
    /// that has passed, or if the sender is an actor and actors must not wait.
    ///
    /// The number in `place` is the sender's in the line: a sender to whom another was faster keeps
    /// it.
    pub(super) fn wait(
        &self,
        place: &mut Option<u64>,
        deadline: Option<Instant>,
        actor: bool,
        has_room_or_end: impl Fn() -> bool,
    ) -> bool {
        let mine = Arc::new(Condvar::default());
        let mut line = self.line.lock();
        let in_time = loop {
            let _ = self.enter(&mut line, place, Sleeper::Thread(Arc::clone(&mine)));
            if has_room_or_end() {
                break true;
            }
            // Only now, so that a sender who was woken knows that the room is not left to others.
            if actor && line.barred || deadline.is_some_and(|deadline| real_now() >= deadline) {
                break false;
            }
            line = mine.wait(line, deadline);
        };
        let _ = self.remove(&mut line, *place);
        in_time
    }

    /// Like [`wait`](Self::wait), for a future. It may be woken although there is no room.
    pub(super) fn poll(
        &self,
        place: &mut Option<u64>,
        waker: &Waker,
        actor: bool,
        has_room_or_end: impl Fn() -> bool,
    ) -> Poll<bool> {
        // Wakers are cloned and dropped outside the lock: they are foreign code.
        let sleeper = Sleeper::Future(waker.clone());
        let mut line = self.line.lock();
        let before = self.enter(&mut line, place, sleeper);
        let polled = if has_room_or_end() {
            Poll::Ready(true)
        } else if actor && line.barred {
            Poll::Ready(false)
        } else {
            Poll::Pending
        };
        let left = if polled.is_ready() { self.remove(&mut line, *place) } else { None };
        drop(line);
        drop((before, left));
        polled
    }

    /// A future no longer waits. If it was woken and has not `used` the room, that is there for the
    /// next one.
    pub(super) fn leave(&self, place: &mut Option<u64>, used: bool) {
        if place.is_none() {
            return;
        }
        let left = self.remove(&mut self.line.lock(), place.take());
        if left.is_none() && !used {
            self.wake(1);
        }
    }

    /// Allows or forbids actors to wait here for room; forbidding it wakes those that do.
    pub(super) fn let_actors_wait(&self, wait: bool) {
        self.line.lock().barred = !wait;
        if !wait {
            self.wake(usize::MAX);
        }
    }

    /// There is room for `most` messages more, or will never be any: wakes as many of those that
    /// wait.
    #[inline]
    pub(super) fn made_room(&self, most: usize) {
        // SeqCst fence, pairs with the one in `enter`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake(most);
        }
    }

    #[cold]
    fn wake(&self, most: usize) {
        let mut woken = Vec::new();
        {
            let mut line = self.line.lock();
            while woken.len() < most
                && let Some((_, sleeper)) = line.sleepers.pop_first()
            {
                woken.push(sleeper);
            }
            self.count(&line);
        }
        // Outside the lock: wakers are foreign code, and a thread that wakes needs the lock.
        woken.into_iter().for_each(Sleeper::wake);
    }

    /// Gets a sender in line, at his place if he had one. Returns what stood there. Whoever looks
    /// for room after this misses none: it was there, or he is woken for it.
    fn enter(&self, line: &mut Line, place: &mut Option<u64>, sleeper: Sleeper) -> Option<Sleeper> {
        let number = *place.get_or_insert(line.next);
        line.next = line.next.max(number + 1);
        let before = line.sleepers.insert(number, sleeper);
        self.count(line);
        // SeqCst fence, pairs with the one in `made_room`: either the reader sees the sender, or
        // the sender sees the room that the reader made.
        fence(Ordering::SeqCst);
        before
    }

    fn remove(&self, line: &mut Line, place: Option<u64>) -> Option<Sleeper> {
        let left = line.sleepers.remove(&place?);
        self.count(line);
        left
    }

    fn count(&self, line: &Line) {
        // Relaxed: see `enter` and `made_room`, which have fences. The lock orders the writes.
        self.waiting.store(line.sleepers.len(), Ordering::Relaxed);
    }
}
