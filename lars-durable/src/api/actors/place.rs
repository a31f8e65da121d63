//! Where an actor lives: its address, the message that it has in hand, and what it has asked of its
//! reminders.

use std::collections::BTreeMap;

use mini_actor::TimerKey;

use crate::engine::RunEnd;
use crate::error::Error;
use crate::model::{BucketNo, TimerId};
use crate::runtime::{Ending, Shared};
use crate::sync::{Arc, AtomicBool, Mutex};

/// What is known of one actor, shared by all that deal with it. Nothing is called while its lock is
/// held.
pub(super) struct Place {
    pub(super) address: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) bucket: BucketNo,
    pub(super) shared: Arc<Shared>,
    pub(super) ledger: Mutex<Ledger>,
    /// Goes on with what waits for the actor.
    pub(super) pump: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
pub(super) struct Ledger {
    /// A message was handed to the actor, and is not acknowledged.
    pub(super) in_hand: bool,
    /// Reminder calls without an answer.
    pub(super) open: usize,
    /// Why one of them failed.
    pub(super) failed: Option<String>,
    /// Of the message that was handled, while calls are open.
    receipt: Option<Receipt>,
    pub(super) keys: BTreeMap<String, Wanted>,
}

/// What may be received of a reminder's key, as far as this life of the actor has decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// How many calls have no answer.
    Asking(u32),
    Only(TimerId),
    Nothing,
}

impl Place {
    /// The key in the store. A name may have a colon, so that of the actor is written without.
    pub(super) fn key(&self, key: &TimerKey) -> String {
        let address = self.address.replace('%', "%25").replace(':', "%3A");
        match (key.number(), key.name()) {
            (Some(number), Some(name)) => format!("{address}:{number}:{name}"),
            (Some(number), None) => format!("{address}:{number}"),
            (None, name) => format!("{address}::{}", name.unwrap_or_default()),
        }
    }

    /// The actor asks something about a reminder: until the answer, nothing of this key is
    /// received, and the message in hand is not acknowledged.
    pub(super) fn asks(&self, key: &str) {
        let mut ledger = self.ledger.lock();
        ledger.open += 1;
        let wanted = ledger.keys.entry(key.to_owned()).or_insert(Wanted::Nothing);
        *wanted = match *wanted {
            Wanted::Asking(calls) => Wanted::Asking(calls + 1),
            Wanted::Only(_) | Wanted::Nothing => Wanted::Asking(1),
        };
    }

    /// The answer: `None` if nothing of this key can come any more.
    pub(super) fn answered(&self, key: &str, answer: Result<Option<Wanted>, Error>) {
        let mut ledger = self.ledger.lock();
        ledger.open -= 1;
        let open = match ledger.keys.get(key) {
            Some(Wanted::Asking(calls)) => calls - 1,
            _ => 0,
        };
        match &answer {
            _ if open > 0 => drop(ledger.keys.insert(key.to_owned(), Wanted::Asking(open))),
            Ok(Some(wanted)) => drop(ledger.keys.insert(key.to_owned(), *wanted)),
            Ok(None) | Err(_) => drop(ledger.keys.remove(key)),
        }
        if let Err(error) = answer {
            if ledger.in_hand {
                ledger.failed = Some(error.to_string());
            } else {
                let address = &*self.address;
                tracing::warn!(target: "lars_durable", address, %error, "a reminder failed");
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
    pub(super) id: TimerId,
    pub(super) key: Option<String>,
    /// The actor has it.
    pub(super) in_hand: bool,
    ending: Option<Ending>,
}

impl Receipt {
    pub(super) fn new(place: Arc<Place>, id: TimerId, key: Option<String>, ending: Ending) -> Self {
        Self { place, id, key, in_hand: false, ending: Some(ending) }
    }

    /// The handler has returned. What it has asked of its reminders is committed first.
    pub(super) fn acknowledge(self) {
        let place = Arc::clone(&self.place);
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

    /// To be set if the row is gone, because the actor has given its key to another reminder.
    pub(super) fn replaced(&self) -> Arc<AtomicBool> {
        self.ending.as_ref().map(Ending::acknowledged).unwrap_or_default()
    }

    fn settle(&mut self, end: RunEnd) {
        let Some(ending) = self.ending.take() else { return };
        if !self.in_hand {
            return ending.say(end);
        }
        let mut ledger = self.place.ledger.lock();
        ledger.in_hand = false;
        if let Some(key) = &self.key
            && end == RunEnd::Done
            && ledger.keys.get(key) == Some(&Wanted::Only(self.id))
        {
            // A repeat comes with the same identity, and is received without an entry too.
            ledger.keys.remove(key);
        }
        drop(ledger);
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
