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

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::base::late::Why;

    const HOUR: Duration = Duration::from_secs(3_600);
    const MS: Duration = Duration::from_millis(1);

    /// Waits until the clock shows so much more.
    fn pass(time: Duration) {
        let begun = real_now();
        while real_now() <= begun + time {}
    }

    /// What is noted between two instants: the actors, and for how long each.
    fn laid(journal: &Journal, from: Instant, to: Instant) -> Vec<(u64, Duration)> {
        let mut parts = Parts::default();
        journal.lay(from, to, &mut parts);
        let part = |(why, time)| match why {
            Why::Thread(Some(Whose::Piped(actor))) => (actor, Duration::from_nanos(time)),
            why => panic!("{why:?}"),
        };
        let mut laid: Vec<_> = parts.0.into_iter().map(part).collect();
        laid.sort();
        laid
    }

    #[test]
    fn what_a_thread_goes_on_with_has_begun_when_the_last_ended_and_else_just_now() {
        let journal = Journal::default();
        journal.begin(Whose::Piped(1), HOUR);
        journal.end();
        let ended = journal.pieces()[0].to;
        pass(Duration::ZERO);
        assert_eq!(journal.begin(Whose::Piped(2), HOUR), ended);
        journal.end();
        let ended = journal.pieces()[0].to;
        journal.pause();
        pass(Duration::ZERO);
        assert!(journal.begin(Whose::Piped(3), HOUR) > ended);
    }

    #[test]
    fn what_a_thread_runs_without_a_pause_shares_a_piece_unless_it_takes_a_sixteenth_of_the_bound()
    {
        for (bound, pieces) in [(HOUR, 1), (16 * MS, 2)] {
            let journal = Journal::default();
            let from = journal.begin(Whose::Piped(1), bound);
            pass(MS);
            journal.end();
            journal.end(); // nothing
            let between = journal.pieces()[0].to;
            journal.begin(Whose::Piped(2), bound);
            pass(Duration::ZERO);
            journal.end();
            assert_eq!(journal.pieces().len(), pieces);
            let to = journal.pieces()[pieces - 1].to;
            assert_eq!(laid(&journal, from, to), [(1, between - from), (2, to - between)]);
        }
    }

    #[test]
    fn the_last_pieces_are_kept() {
        let journal = Journal::default();
        let mut begun = Vec::new();
        let many = PIECES as u64 + 10;
        for actor in 0..many {
            begun.push(journal.begin(Whose::Piped(actor), HOUR));
            pass(Duration::ZERO);
            journal.end();
            journal.pause();
            pass(Duration::ZERO);
        }
        assert_eq!(journal.pieces().len(), PIECES);
        let actors = |from, to| laid(&journal, from, to).into_iter().map(|(actor, _)| actor);
        assert!(actors(begun[0], begun[10]).next().is_none());
        assert!(actors(begun[9], begun[11]).eq([10]));
        assert!(actors(begun[many as usize - 2], real_now()).eq([many - 2, many - 1]));
    }

    #[test]
    fn of_what_a_thread_ran_the_part_between_two_instants_counts() {
        let (journal, begun) = (Journal::default(), real_now());
        let at = |ms: u32| begun + ms * MS;
        for number in 0..4 {
            let piece = Piece::new(
                Whose::Piped(number),
                at(10 * number as u32),
                at(10 * number as u32 + 10),
            );
            journal.pieces.borrow_mut().push_back(piece);
        }
        assert_eq!(laid(&journal, at(15), at(23)), [(1, 5 * MS), (2, 3 * MS)]);
        assert_eq!(laid(&journal, at(40), at(50)), []);
    }
}
