//! The items, and who waits for them.
//!
//! Every waiting consumer, thread or future, has a ticket, and under it a waker in `waiting`. To notify is to
//! take the waker out and call it; the consumer then looks for itself, and, if it has to wait on, puts a waker
//! back under the same ticket, so that it keeps its place in the line.
//!
//! Somebody has to come when the first item is due. That is one consumer, the *leader*: a thread that parks with a
//! limit, or a future with a timer. All others wait without one. (The Leader/Followers pattern of Schmidt et al.,
//! *Pattern-Oriented Software Architecture 2*, as the JDK's `DelayQueue` uses it.) Whoever leaves makes the next in
//! line look, who then leads. An earlier item notifies the leader, which then waits for a shorter time; nobody else
//! wakes up.
//!
//! The rule that nothing is missed: while a consumer waits and an item has a deadline, there is a leader, or a
//! consumer that was notified and has not looked yet. A consumer that leaves, with an item or without, sees to the
//! rule for the others (`tend`).
//!
//! Under the lock runs no foreign code: no clock, no waker, no destructor of an item.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::QueueClosed;
use crate::clock::real_now;
use crate::executor::Runnable;
use crate::sync::{AtomicU64, Mutex, Ordering, Parker, Unparker};

/// When an item comes due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Due {
    At(Instant),
    /// Beyond what the clock can express. Later than everything else.
    Never,
}

impl Due {
    pub(super) fn after(now: Instant, delay: Duration) -> Self {
        now.checked_add(delay).map_or(Self::Never, Self::At)
    }

    fn is_reached(self, now: Instant) -> bool {
        self <= Self::At(now)
    }

    pub(super) fn remaining(self, now: Instant) -> Duration {
        match self {
            Self::At(due) => due.saturating_duration_since(now),
            Self::Never => Duration::MAX,
        }
    }

    pub(super) fn instant(self) -> Option<Instant> {
        match self {
            Self::At(due) => Some(due),
            Self::Never => None,
        }
    }
}

pub(super) struct Shared<T> {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    pub(super) state: Mutex<State<T>>,
    /// Distinguishes the keys of this queue from those of all others.
    pub(super) id: u64,
}

pub(super) struct State<T> {
    /// By deadline, and then by a number that is never given twice.
    pub(super) items: BTreeMap<(Due, u64), T>,
    pub(super) closed: bool,
    waiting: BTreeMap<u64, Waker>,
    leader: Option<u64>,
    /// The last number given to an item, or to a consumer.
    last_number: u64,
}

impl<T> State<T> {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn first_due(&self) -> Due {
        self.items.first_key_value().map_or(Due::Never, |(&(due, _), _)| due)
    }

    /// Adds an item; returns its number, and whom to wake.
    pub(super) fn push(&mut self, due: Due, item: T) -> (u64, Option<Waker>) {
        let is_first = due < self.first_due();
        let number = self.number();
        self.items.insert((due, number), item);
        let to_wake = match self.leader {
            _ if !is_first => None,
            // It waits for too long now. If it has been notified already it is about to look anyway.
            Some(leader) => self.waiting.remove(&leader),
            None => self.tend(),
        };
        (number, to_wake)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<T> {
        let first = self.items.first_entry()?;
        first.key().0.is_reached(now).then(|| first.remove())
    }

    /// Puts a consumer in the line; returns until when it has to wait by itself, and its former waker.
    fn enter(&mut self, ticket: u64, waker: Waker) -> (Due, Option<Waker>) {
        let replaced = self.waiting.insert(ticket, waker);
        if self.leader.is_some_and(|leader| leader != ticket) {
            return (Due::Never, replaced);
        }
        let due = self.first_due();
        self.leader = due.instant().map(|_| ticket);
        (due, replaced)
    }

    /// Takes a consumer out of the line; returns its waker, and whom to wake in its place.
    fn leave(&mut self, ticket: Option<u64>) -> (Option<Waker>, Option<Waker>) {
        if ticket.is_some() && self.leader == ticket {
            self.leader = None;
        }
        (ticket.and_then(|ticket| self.waiting.remove(&ticket)), self.tend())
    }

    /// Sees to it that somebody waits for the first item, by notifying who has waited longest.
    fn tend(&mut self) -> Option<Waker> {
        if self.leader.is_some() || self.first_due() == Due::Never {
            return None;
        }
        self.waiting.pop_first().map(|(_, waker)| waker)
    }

    /// Notifies everybody.
    pub(super) fn notify_all(&mut self) -> BTreeMap<u64, Waker> {
        std::mem::take(&mut self.waiting)
    }
}

/// Wakes. A waker that panics is contained and logged: what has been done to the queue is done.
pub(super) fn wake(waker: Waker) {
    Runnable::new(move || waker.wake()).run();
}

/// Drops a waker that is not needed. A panic in it must not lose the item that was taken meanwhile.
fn discard(waker: Option<Waker>) {
    if let Some(waker) = waker {
        Runnable::new(move || drop(waker)).run();
    }
}

impl<T> Shared<T> {
    pub(super) fn new(clock: Box<dyn Fn() -> Instant + Send + Sync>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let state = State {
            items: BTreeMap::new(),
            closed: false,
            waiting: BTreeMap::new(),
            leader: None,
            last_number: 0,
        };
        // Relaxed: the number only has to differ from all others.
        Self { clock, state: Mutex::new(state), id: NEXT_ID.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Blocks this thread until an item is due, or, by the queue's clock, until `deadline`.
    pub(super) fn wait(self: &Arc<Self>, deadline: Due) -> Result<Option<T>, QueueClosed> {
        let parker = Parker::new();
        let waker = Waker::from(Arc::new(Unpark(parker.unparker().clone())));
        let mut consumer = Consumer::new(Arc::clone(self));
        loop {
            let due = match consumer.look(&waker) {
                Look::Item(item) => return Ok(Some(item)),
                Look::Closed => return Err(QueueClosed),
                Look::NotYet(due) => due,
            };
            let now = self.now();
            if deadline.is_reached(now) {
                return Ok(None);
            }
            match real_now().checked_add(due.min(deadline).remaining(now)) {
                Some(until) => parker.park_deadline(until),
                None => parker.park(),
            }
        }
    }
}

struct Unpark(Unparker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What a consumer saw.
pub(super) enum Look<T> {
    Item(T),
    Closed,
    /// Nothing is due. The consumer is in the line, and looks again when it is woken, and at this time.
    NotYet(Due),
}

/// A consumer that may have to wait. Dropping it takes it out of the line, whatever state it is in, and passes on
/// what it may have been notified of.
pub(super) struct Consumer<T> {
    pub(super) queue: Arc<Shared<T>>,
    ticket: Option<u64>,
}

impl<T> Consumer<T> {
    pub(super) fn new(queue: Arc<Shared<T>>) -> Self {
        Self { queue, ticket: None }
    }

    /// Looks for an item that is due; without one, gets into the line, to be woken through `waker`.
    pub(super) fn look(&mut self, waker: &Waker) -> Look<T> {
        let now = self.queue.now();
        let waker = waker.clone();
        let mut state = self.queue.state.lock();
        let item = state.pop_due(now);
        if item.is_none() && !state.closed {
            let ticket = *self.ticket.get_or_insert_with(|| state.number());
            let (due, replaced) = state.enter(ticket, waker);
            drop(state);
            discard(replaced);
            return Look::NotYet(due);
        }
        let (own, to_wake) = state.leave(self.ticket.take());
        drop(state);
        discard(own);
        to_wake.into_iter().for_each(wake);
        item.map_or(Look::Closed, Look::Item)
    }

    /// Leaves the line.
    pub(super) fn leave(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let (own, to_wake) = self.queue.state.lock().leave(self.ticket.take());
        discard(own);
        to_wake.into_iter().for_each(wake);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.leave();
    }
}
