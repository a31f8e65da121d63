//! Whose turns a thread has run lately, for those that waited for it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use crate::base::late::{Parts, Piece, Whose};
use crate::sync::real_now;
use lars_base::rate::nanos;
use lars_base::time::Instant;

/// How many pieces of time are kept. A busy thread has one for each sixteenth of the bound, or for
/// each turn that is longer.
const PIECES: usize = 512;

/// It is the worker's own, and never borrowed while foreign code runs. Empty unless what is late is
/// explained.
#[derive(Default)]
pub(crate) struct Journal {
    /// What the thread is in, since when, and how long a piece of several may be.
    current: Cell<Option<(Whose, Instant, u64)>>,
    /// When the last ended, if the thread has done nothing else since.
    last: Cell<Option<Instant>>,
    pieces: RefCell<VecDeque<Piece>>,
}

impl Journal {
    /// The thread begins this. Returns since when.
    pub(crate) fn begin(&self, whose: Whose, bound: Duration) -> Instant {
        let from = self.last.take().unwrap_or_else(real_now);
        self.current.set(Some((whose, from, nanos(bound) / 16)));
        from
    }

    /// What it began has ended.
    pub(crate) fn end(&self) {
        let Some((whose, from, grain)) = self.current.take() else { return };
        let to = real_now();
        self.last.set(Some(to));
        let mut pieces = self.pieces.borrow_mut();
        if pieces.back_mut().is_some_and(|last| last.grow(whose, from, to, grain)) {
            return;
        }
        if pieces.len() == PIECES {
            pieces.pop_front();
        }
        pieces.push_back(Piece::new(whose, from, to));
    }

    /// The thread does something else.
    pub(crate) fn pause(&self) {
        self.last.set(None);
    }

    /// Adds what it ran between two instants.
    pub(crate) fn lay(&self, from: Instant, to: Instant, parts: &mut Parts) {
        let pieces = self.pieces.borrow();
        let overlapping = pieces.iter().rev().take_while(|piece| piece.to > from);
        overlapping.for_each(|piece| piece.lay(from, to, parts));
    }

    /// All that it knows.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        self.pieces.borrow().iter().cloned().collect()
    }
}
