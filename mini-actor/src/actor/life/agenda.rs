//! What is due to an actor besides its messages, each behind as many messages as had been accepted
//! when it came: ticks, timeouts, ends of others, and the stop.

use std::collections::VecDeque;

use crate::base::stop_reason::StopReason;
use crate::cell::signal::Due;

/// A stop that was asked for.
#[derive(Clone, Copy)]
pub(super) struct Stop {
    /// After how many messages the actor stops.
    pub(super) at: u64,
    pub(super) reason: StopReason,
}

#[derive(Default)]
pub(super) struct Agenda {
    /// What is due, each behind this many messages.
    due: VecDeque<(u64, Due)>,
    /// Set when the actor was asked to stop.
    stop: Option<Stop>,
    /// How many entries of `due` come before the stop as well.
    before_stop: usize,
    /// The actor's children have stopped since it was asked to stop, and the ends that had arrived
    /// by then are counted in `before_stop`.
    childless: bool,
}

impl Agenda {
    pub(super) fn push(&mut self, at: u64, due: Due) {
        self.due.push_back((at, due));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Takes out what is due after this many messages.
    #[inline]
    pub(super) fn next(&mut self, position: u64) -> Option<Due> {
        if self.due.front()?.0 > position {
            return None;
        }
        self.before_stop = self.before_stop.saturating_sub(1);
        self.due.pop_front().map(|(_, due)| due)
    }

    /// The actor is asked to stop. The first time counts.
    pub(super) fn ask_to_stop(&mut self, stop: Stop) {
        if self.stop.is_none() {
            self.stop = Some(stop);
            self.before_stop = self.due.len();
        }
    }

    #[inline]
    pub(super) fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Whether something that came before the stop is still due.
    pub(super) fn has_due_before_stop(&self) -> bool {
        self.before_stop > 0
    }

    /// The actor could stop now, since its children have. The first time, the ends that have
    /// arrived come before that: true if there are any. Later ones do not delay it.
    pub(super) fn learns_of_ends(&mut self) -> bool {
        if !std::mem::replace(&mut self.childless, true) {
            let last = self.due.iter().rposition(|(_, due)| matches!(due, Due::Gone(_)));
            self.before_stop = last.map_or(0, |last| last + 1);
        }
        self.has_due_before_stop()
    }

    /// Forgets what was due to one incarnation. The next one still has to learn of ends.
    pub(super) fn forget(&mut self) {
        self.due.retain(|(_, due)| matches!(due, Due::Gone(_)));
        self.before_stop = 0;
        self.childless = false;
    }

    /// Nothing is due any more.
    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.before_stop = 0;
    }
}
