//! Where an actor lives: its address, the message that it has in hand, and what it has asked of its
//! reminders.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use mini_actor::timers::TimerKey;

use crate::engine::RunEnd;
use crate::error::Error;
use crate::model::{BucketNo, Fence, Row, TimerId};
use crate::runtime::{Ending, Lease, Shared, Signal};
use crate::sync::{Arc, Mutex};

/// What is known of one actor, shared by all that deal with it. Nothing is called while its lock is
/// held.
pub(super) struct Place {
    pub(super) address: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) bucket: BucketNo,
    pub(super) shared: Arc<Shared>,
    pub(super) ledger: Mutex<Ledger>,
    /// Drops what waits for the actor, and is ended by this.
    pub(super) drop_ended: Box<dyn Fn(&Decision) + Send + Sync>,
    /// Gets a message that the actor was handed and has not begun to receive.
    pub(super) unread: Box<dyn Fn(Letter) + Send + Sync>,
    /// Goes on with what waits for the actor.
    pub(super) pump: Box<dyn Fn() + Send + Sync>,
}

/// A durable message on its way to its actor.
pub(super) struct Letter {
    pub(super) row: Arc<Row>,
    pub(super) fence: Fence,
    pub(super) lease: Lease,
    /// The number of this message among those that have come for the actor.
    pub(super) arrival: u64,
    pub(super) receipt: Receipt,
}

/// What the actor has decided about a key, and the store has carried out: the timer that had it has
/// no row any more.
///
/// A later timer may have the same key. So a message is dropped only if its timer was there before
/// the decision, whatever its key. Nothing is lost by that: if the timer of a dropped message still
/// has a row, its finish fails, and the timer comes again.
pub(super) struct Decision {
    pub(super) key: String,
    /// How many messages had come when the actor asked. Those with this key belong to timers that
    /// were there before.
    pub(super) arrivals: u64,
    /// The timer that the store has ended, if it had started.
    pub(super) ended: Option<TimerId>,
}

/// What the store says of the timer that had a key before the actor decided about it.
pub(super) enum Before {
    Stays,
    /// It is gone, if there was one. One that had started may be on its way.
    Gone(Option<TimerId>),
}

#[derive(Default)]
pub(super) struct Ledger {
    /// Whose message was handed to the actor, and is not acknowledged.
    pub(super) in_hand: Option<TimerId>,
    /// The actor has begun to receive something since a message came back unread.
    pub(super) reads: bool,
    /// Reminder calls without an answer.
    pub(super) open: usize,
    /// Why one of them failed.
    pub(super) failed: Option<String>,
    /// Of the message that was handled, while calls are open.
    receipt: Option<Receipt>,
    /// How many reminder calls have no answer, by key.
    pub(super) asking: BTreeMap<String, u32>,
    /// How many messages have come for the actor.
    pub(super) arrivals: u64,
}

impl Place {
    /// The key in the store. A name may have a colon, so the actor's name is written without one.
    pub(super) fn key(&self, key: &TimerKey) -> String {
        let address = self.address.replace('%', "%25").replace(':', "%3A");
        match (key.number(), key.name()) {
            (Some(number), Some(name)) => format!("{address}:{number}:{name}"),
            (Some(number), None) => format!("{address}:{number}"),
            (None, name) => format!("{address}::{}", name.unwrap_or_default()),
        }
    }

    /// The actor asks something about a reminder: until the answer, nothing of this key is
    /// received, and the message in hand is not acknowledged. Returns how many messages have come.
    pub(super) fn asks(&self, key: &str) -> u64 {
        let mut ledger = self.ledger.lock();
        ledger.open += 1;
        *ledger.asking.entry(key.to_owned()).or_default() += 1;
        ledger.arrivals
    }

    /// Says that a call failed for which no message comes again.
    pub(super) fn say_failed(&self, error: &str) {
        let address = &*self.address;
        tracing::warn!(target: "lars_durable", address, %error, "a reminder failed");
    }

    /// The answer: what has become of the timer that had the key.
    pub(super) fn answered(&self, key: String, arrivals: u64, answer: Result<Before, Error>) {
        let answer = answer.map(|before| {
            let Before::Gone(started) = before else { return };
            // The message in hand is not on its way. But if its actor has panicked since it asked,
            // the timer may have started once more.
            let in_hand = self.ledger.lock().in_hand;
            let ended = started.filter(|id| in_hand != Some(*id));
            // Before the lock is taken: until the call is over, nothing of this key is received.
            (self.drop_ended)(&Decision { key: key.clone(), arrivals, ended });
        });
        let mut ledger = self.ledger.lock();
        ledger.open -= 1;
        if let Entry::Occupied(mut calls) = ledger.asking.entry(key) {
            *calls.get_mut() -= 1;
            if *calls.get() == 0 {
                calls.remove();
            }
        }
        if let Err(error) = answer {
            if ledger.in_hand.is_some() {
                ledger.failed = Some(error.to_string());
            } else {
                self.say_failed(&error.to_string());
            }
        }
        let receipt = if ledger.open == 0 { ledger.receipt.take() } else { None };
        let failed = if receipt.is_some() { ledger.failed.take() } else { None };
        drop(ledger);
        match receipt {
            Some(receipt) => receipt.say(end(failed)),
            None => (self.pump)(),
        }
    }
}

fn end(failed: Option<String>) -> RunEnd {
    match failed {
        None => RunEnd::Done,
        Some(error) => RunEnd::Retry { error: format!("a reminder failed: {error}") },
    }
}

/// The end of a message, said exactly once: by the actor, or by being dropped.
pub(super) struct Receipt {
    pub(super) place: Arc<Place>,
    /// The actor has it.
    pub(super) in_hand: bool,
    ending: Option<Ending>,
}

impl Receipt {
    pub(super) fn new(place: Arc<Place>, ending: Ending) -> Self {
        Self { place, in_hand: false, ending: Some(ending) }
    }

    /// The handler has returned. What it has asked of its reminders is committed first.
    pub(super) fn acknowledge(self) {
        let place = Arc::clone(&self.place);
        if place.ledger.lock().open > 0 {
            // Not under the lock: in virtual time this turns the node, and that may answer.
            self.ending.iter().for_each(Ending::handled);
        }
        let mut ledger = place.ledger.lock();
        if ledger.open > 0 {
            ledger.receipt = Some(self);
            return;
        }
        let failed = ledger.failed.take();
        drop(ledger);
        self.say(end(failed));
    }

    pub(super) fn say(mut self, end: RunEnd) {
        self.settle(end);
    }

    /// Nobody receives it: the actor has ended its timer. If that is not so, it comes again.
    pub(super) fn drop_ended(self) {
        self.signal().acknowledge(true);
        self.say(RunEnd::Done);
    }

    /// Where it is said that the row is gone, because the actor has given its key to another
    /// reminder.
    pub(super) fn signal(&self) -> Arc<Signal> {
        self.ending.as_ref().map(Ending::signal).unwrap_or_default()
    }

    fn settle(&mut self, end: RunEnd) {
        let Some(ending) = self.ending.take() else { return };
        if !self.in_hand {
            return ending.say(end);
        }
        self.place.ledger.lock().in_hand = None;
        ending.say(end);
        (self.place.pump)();
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let error = match std::thread::panicking() {
            true => "the actor panicked",
            false => "the actor ended before it received the message",
        };
        self.settle(RunEnd::Retry { error: error.into() });
    }
}
