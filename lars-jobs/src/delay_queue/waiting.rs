//! The items, and the consumers that wait for them.
//!
//! Every waiting consumer, thread or future, has a ticket, and under it a waker in `waiting`. To
//! notify a consumer is to take its waker out and call it. The consumer then looks for itself. If
//! it has to go on waiting, it puts a waker back under the same ticket, and so keeps its place in
//! the line.
//!
//! One consumer, the *leader*, waits for the first item: a thread that parks with a limit, or a
//! future with a timer. All others wait without a limit. (The Leader/Followers pattern of Schmidt
//! et al., *Pattern-Oriented Software Architecture 2*, as the JDK's `DelayQueue` uses it.) A leader
//! that leaves notifies the next in line, which then leads. An earlier item notifies the leader,
//! which then waits for a shorter time; no other consumer wakes up.
//!
//! The rule that makes sure that nothing is missed: while a consumer waits and an item has a
//! deadline, there is a leader, or a consumer that was notified and has not looked yet. A consumer
//! that leaves, with an item or without, restores the rule for the others (`tend`).
//!
//! No foreign code runs under the lock: no clock, no waker, no destructor of an item.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use super::QueueClosed;
use crate::contained::contain;
use lars_base::sync::real_now;
use lars_base::sync::{AtomicU64, Mutex, Ordering};
use lars_base::time::Instant;
use lars_base::waiting::{park_until, waker_of, with_parker};
use lars_base::when_due::WhenDue;

pub(super) struct SharedQueue<T> {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    pub(super) contents: Mutex<Contents<T>>,
    /// Distinguishes the keys of this queue from those of all others.
    pub(super) id: u64,
}

pub(super) struct Contents<T> {
    /// By deadline, and then by a number that is never given twice.
    pub(super) items: BTreeMap<(WhenDue, u64), T>,
    pub(super) closed: bool,
    waiting: BTreeMap<u64, Waker>,
    leader: Option<u64>,
    /// The last number given to an item, or to a consumer.
    last_number: u64,
}

impl<T> Contents<T> {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn first_due(&self) -> WhenDue {
        self.items.first_key_value().map_or(WhenDue::Never, |(&(due, _), _)| due)
    }

    /// Adds an item. Returns its number, and the waker to call.
    pub(super) fn push(&mut self, due: WhenDue, item: T) -> (u64, Option<Waker>) {
        let is_first = due < self.first_due();
        let number = self.number();
        self.items.insert((due, number), item);
        let to_wake = match self.leader {
            _ if !is_first => None,
            // It waits for too long now. If it was notified already, it is about to look anyway.
            Some(leader) => self.waiting.remove(&leader),
            None => self.tend(),
        };
        (number, to_wake)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<T> {
        let first = self.items.first_entry()?;
        first.key().0.has_come(now).then(|| first.remove())
    }

    /// Puts a consumer in the line. Returns until when it has to wait by itself, and its former
    /// waker.
    fn enter(&mut self, ticket: u64, waker: Waker) -> (WhenDue, Option<Waker>) {
        let replaced = self.waiting.insert(ticket, waker);
        if self.leader.is_some_and(|leader| leader != ticket) {
            return (WhenDue::Never, replaced);
        }
        let due = self.first_due();
        self.leader = due.instant().map(|_| ticket);
        (due, replaced)
    }

    /// Takes a consumer out of the line. Returns its waker, and the waker to call in its place.
    fn leave(&mut self, ticket: Option<u64>) -> (Option<Waker>, Option<Waker>) {
        if ticket.is_some() && self.leader == ticket {
            self.leader = None;
        }
        (ticket.and_then(|ticket| self.waiting.remove(&ticket)), self.tend())
    }

    /// Sees to it that a consumer waits for the first item, by notifying the one that has waited
    /// longest.
    fn tend(&mut self) -> Option<Waker> {
        if self.leader.is_some() || self.first_due() == WhenDue::Never {
            return None;
        }
        self.waiting.pop_first().map(|(_, waker)| waker)
    }

    /// Takes all wakers out, to be called.
    pub(super) fn notify_all(&mut self) -> BTreeMap<u64, Waker> {
        std::mem::take(&mut self.waiting)
    }
}

/// Wakes. A panic of the waker stays here: the queue has been changed already.
pub(super) fn wake(waker: Waker) {
    contain(|| waker.wake());
}

impl<T> SharedQueue<T> {
    pub(super) fn new(clock: Box<dyn Fn() -> Instant + Send + Sync>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let contents = Contents {
            items: BTreeMap::new(),
            closed: false,
            waiting: BTreeMap::new(),
            leader: None,
            last_number: 0,
        };
        // Relaxed: the number only has to differ from all others.
        Self { clock, contents: Mutex::new(contents), id: NEXT_ID.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Blocks this thread until an item is due, or, by the queue's clock, until `deadline`.
    pub(super) fn wait(self: &Arc<Self>, deadline: WhenDue) -> Result<Option<T>, QueueClosed> {
        with_parker(|parker| {
            let waker = waker_of(parker);
            let mut consumer = Consumer::new(Arc::clone(self));
            loop {
                let due = match consumer.look(&waker) {
                    Found::Item(item) => return Ok(Some(item)),
                    Found::Closed => return Err(QueueClosed),
                    Found::NotYet(due) => due,
                };
                let now = self.now();
                if deadline.has_come(now) {
                    return Ok(None);
                }
                park_until(parker, real_now().checked_add(due.min(deadline).remaining(now)));
            }
        })
    }
}

/// What a consumer saw.
pub(super) enum Found<T> {
    Item(T),
    Closed,
    /// Nothing is due. The consumer is in the line, and looks again when it is woken, and at this
    /// time.
    NotYet(WhenDue),
}

/// A consumer that may have to wait. Dropping it takes it out of the line, and passes a
/// notification on to the next one.
pub(super) struct Consumer<T> {
    pub(super) queue: Arc<SharedQueue<T>>,
    ticket: Option<u64>,
}

impl<T> Consumer<T> {
    pub(super) fn new(queue: Arc<SharedQueue<T>>) -> Self {
        Self { queue, ticket: None }
    }

    /// Looks for an item that is due; without one, gets into the line, to be woken through `waker`.
    pub(super) fn look(&mut self, waker: &Waker) -> Found<T> {
        let now = self.queue.now();
        let waker = waker.clone();
        let mut state = self.queue.contents.lock();
        let item = state.pop_due(now);
        if item.is_none() && !state.closed {
            let ticket = *self.ticket.get_or_insert_with(|| state.number());
            let (due, replaced) = state.enter(ticket, waker);
            drop(state);
            contain(|| drop(replaced));
            return Found::NotYet(due);
        }
        let (own, to_wake) = state.leave(self.ticket.take());
        drop(state);
        contain(|| drop(own));
        to_wake.into_iter().for_each(wake);
        item.map_or(Found::Closed, Found::Item)
    }

    /// Leaves the line.
    pub(super) fn leave(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let (own, to_wake) = self.queue.contents.lock().leave(self.ticket.take());
        contain(|| drop(own));
        to_wake.into_iter().for_each(wake);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.leave();
    }
}
