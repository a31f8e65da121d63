//! What may be very much at once, and is done some at a time: the signals that have come, what the
//! children are told, and what those learn who watch.
//!
//! Each step of a turn does [`AT_ONCE`] of it, and counts as a message does. So an actor with very
//! many children lets others have their turn while it ends.

use std::collections::VecDeque;
use std::collections::btree_map::IntoValues;

use lars_base::panics::contain;

use super::{Cells, Incarnations, self_report};
use crate::actor::context::Actor;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::cell::home::Cell;
use crate::cell::signal::{Signal, Watcher};
use crate::sync::Arc;

/// How much is done in one step.
pub(super) const AT_ONCE: usize = 16;

/// What the children of an actor are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Stop,
    Kill,
}

/// How far the telling has come.
struct Telling {
    word: Word,
    /// The number of the next child. While there is this, there are no new children.
    next: u64,
}

/// Signals that have been taken out of the lane, in order, and what the children are to be told. As
/// long as there is either, the actor does nothing else.
#[derive(Default)]
pub(super) struct Backlog {
    signals: VecDeque<Signal>,
    telling: Option<Telling>,
    /// Once the actor has left the tree.
    pub(super) farewell: Option<Box<Farewell>>,
}

impl Backlog {
    /// Signals that have come behind those that are here.
    fn add(&mut self, signals: Vec<Signal>) {
        if self.signals.is_empty() {
            self.signals = signals.into();
        } else {
            self.signals.extend(signals);
        }
    }

    /// Whether the actor may go on: those who watch learn of an end in its own phase.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.signals.is_empty() && self.telling.is_none()
    }

    fn next_signal(&mut self) -> Option<Signal> {
        let next = self.signals.pop_front();
        if self.signals.is_empty() {
            // An idle actor keeps no memory for them.
            self.signals = VecDeque::new();
        }
        next
    }
}

impl<A: Actor> Incarnations<A> {
    /// Signals that have come behind those that are here.
    pub(super) fn add_signals(&mut self, signals: Vec<Signal>) {
        // The bit may have been set for an empty lane.
        if !signals.is_empty() {
            self.duties().backlog.add(signals);
        }
    }

    /// Does some of the backlog. Returns whether there is more.
    #[inline(never)]
    pub(super) fn catch_up(&mut self, cell: &Cells<A>) -> bool {
        for _ in 0..AT_ONCE {
            let Some(signal) = self.duties().backlog.next_signal() else { break };
            self.handle_signal(cell, signal);
        }
        self.tell_some_children();
        self.is_behind()
    }

    pub(super) fn tell_no_children(&mut self) {
        if let Some(duties) = &mut self.duties {
            duties.backlog.telling = None;
        }
    }

    /// Tells all children. Whatever they were being told before, this comes instead: nothing is
    /// weaker than to be asked to stop, and a second time does nothing.
    pub(super) fn tell_children(&mut self, word: Word) {
        if self.ctx.has_children() {
            self.duties().backlog.telling = Some(Telling { word, next: 0 });
            self.tell_some_children();
        } else {
            self.tell_no_children();
        }
    }

    fn tell_some_children(&mut self) {
        let Some(duties) = &mut self.duties else { return };
        let Some(telling) = &mut duties.backlog.telling else { return };
        let mut children = self.ctx.children_from(telling.next);
        for (number, child) in children.by_ref().take(AT_ONCE) {
            telling.next = number + 1;
            match telling.word {
                Word::Stop => Arc::clone(child).stop_for(StopReason::Parent),
                Word::Kill => Arc::clone(child).signal(Signal::Kill(StopReason::Killed)),
            }
        }
        if children.next().is_none() {
            duties.backlog.telling = None;
        }
    }
}

/// Those who have not learned yet that the actor has stopped.
pub(super) struct Farewell {
    watchers: IntoValues<u64, Watcher>,
    /// The path, once one of them needs it.
    path: Option<Arc<str>>,
}

impl Farewell {
    pub(super) fn new(watchers: IntoValues<u64, Watcher>) -> Self {
        Self { watchers, path: None }
    }

    /// Tells some of them. Returns whether there are more.
    pub(super) fn tell_some<M: Send + 'static>(
        &mut self,
        cell: &Arc<Cell<M>>,
        reason: StopReason,
    ) -> bool {
        for watcher in self.watchers.by_ref().take(AT_ONCE) {
            match watcher {
                Watcher::Actor(actor) => {
                    let path = self.path.get_or_insert_with(|| cell.lineage.to_path());
                    let path = Arc::clone(path);
                    actor.tell_end(Terminated { id: cell.id, path, reason });
                }
                Watcher::Other(tell) => self_report(cell, contain(|| tell(reason))),
            }
        }
        self.watchers.len() > 0
    }
}
