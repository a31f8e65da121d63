//! The books of a model: how each task and message ended.

use std::sync::{Arc, Mutex, MutexGuard};

use super::park::{Parker, Unparker};

/// What has happened to one of them. Each may happen once.
#[derive(Debug, Default, Clone, Copy)]
struct Fate {
    accepted: usize,
    refused: usize,
    ran: usize,
    cancelled: usize,
    buried: usize,
    dropped: usize,
}

/// Counts the fates of tokens. No other thread of the model comes in between while it counts.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    books: Arc<Books>,
}

#[derive(Debug, Default)]
struct Books {
    fates: Mutex<Vec<Fate>>,
    waiting: Mutex<Vec<Unparker>>,
}

/// Goes with a task or a message to wherever that goes.
#[derive(Debug)]
pub struct Token {
    pub number: usize,
    ledger: Ledger,
}

impl Token {
    /// The task runs, or the message is received.
    pub fn run(&self) {
        self.ledger.note(self.number, |fate| fate.ran += 1);
    }

    pub fn buried(&self) {
        self.ledger.note(self.number, |fate| fate.buried += 1);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.ledger.note(self.number, |fate| fate.dropped += 1);
    }
}

impl Ledger {
    pub fn new() -> Self {
        Self::default()
    }

    fn fates(&self) -> MutexGuard<'_, Vec<Fate>> {
        self.books.fates.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn note(&self, number: usize, what: impl FnOnce(&mut Fate)) {
        what(&mut self.fates()[number]);
        let waiting = {
            let mut waiting =
                self.books.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut *waiting)
        };
        waiting.iter().for_each(Unparker::unpark);
    }

    pub fn token(&self) -> Token {
        let mut fates = self.fates();
        fates.push(Fate::default());
        Token { number: fates.len() - 1, ledger: self.clone() }
    }

    pub fn accepted(&self, number: usize) {
        self.note(number, |fate| fate.accepted += 1);
    }

    pub fn refused(&self, number: usize) {
        self.note(number, |fate| fate.refused += 1);
    }

    /// A call of `cancel` said so.
    pub fn cancelled(&self, number: usize, really: bool) {
        self.note(number, |fate| fate.cancelled += usize::from(really));
    }

    pub fn ran(&self, number: usize) -> usize {
        self.fates()[number].ran
    }

    pub fn total_ran(&self) -> usize {
        self.fates().iter().map(|fate| fate.ran).sum()
    }

    fn wait_until(&self, over: impl Fn(&[Fate]) -> bool) {
        let parker = Parker::new();
        loop {
            let mut waiting =
                self.books.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if over(&self.fates()) {
                return;
            }
            waiting.push(parker.unparker().clone());
            drop(waiting);
            parker.park();
        }
    }

    /// Sleeps until that one has run; if it was forgotten, forever, which is a deadlock.
    pub fn wait_run(&self, number: usize) {
        self.wait_until(|fates| fates[number].ran > 0);
    }

    /// Sleeps until all tokens are gone, and says whether each had one fate: it was refused; or it
    /// was accepted, and ran, was cancelled, or became a dead letter.
    pub fn settle(&self) {
        self.settle_with(1..=1);
    }

    /// Like `settle`, but accepted tokens may have been dropped unrun, because nobody runs the
    /// rest.
    pub fn settle_dropped(&self) {
        self.settle_with(0..=1);
    }

    fn settle_with(&self, fates_of_accepted: std::ops::RangeInclusive<usize>) {
        self.wait_until(|fates| fates.iter().all(|fate| fate.dropped > 0));
        for (number, fate) in self.fates().iter().enumerate() {
            let ends = fate.ran + fate.cancelled + fate.buried;
            let right = match (fate.accepted, fate.refused) {
                (1, 0) => fates_of_accepted.contains(&ends),
                (0, 1) => ends == 0,
                _ => false,
            };
            assert!(right && fate.dropped == 1, "number {number}: {fate:?}");
        }
    }
}
