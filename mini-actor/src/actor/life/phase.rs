//! The phases of an actor's life, and how it comes from one to the next.

use lars_base::panics::{contain, quietly};
use std::time::Duration;

use super::agenda::Stop;
use super::backlog::{AT_ONCE, Farewell, Word};
use super::{Cells, Factory, Incarnations, TurnOf, self_report};
use crate::actor::context::Actor;
use crate::base::stop_reason::StopReason;
use crate::base::supervision::Failure;
use crate::cell::dead_letters::Undelivered;
use crate::cell::signal::{Resident, Signal};
use crate::sync::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Unborn,
    Alive,
    /// Waits for its children to stop before it is restarted.
    Restarting,
    /// Waits until the pause before its restart is over.
    Paused,
    /// The mailbox is closed; what was accepted, this many in all, is received.
    Draining {
        reason: StopReason,
        accepted: u64,
    },
    /// The mailbox is closed; what was accepted becomes dead letters, and the children stop.
    Ending {
        reason: StopReason,
        accepted: u64,
    },
    /// The actor has been dropped. What it leaves is seen to, and then others learn of its end.
    Leaving {
        reason: StopReason,
    },
    Over,
}

/// What an actor does next, as its phase has it.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// It has moved on to another phase, which is to be settled as well.
    Moved,
    /// It works: on failures, on what is due, on messages.
    Works,
    /// It waits for a signal.
    Waits,
    /// It has stopped.
    Over,
}

impl<A: Actor> Incarnations<A> {
    /// Moves on to the next phase, if it is time.
    pub(super) fn settle(&mut self, turn: &TurnOf<'_, A>) -> Settled {
        // What most actors are told before each message.
        if self.duties.is_none() && self.phase == Phase::Alive && !self.ctx.stopping {
            return Settled::Works;
        }
        let settled = self.settle_phase(turn);
        // Its children may have to be told of it, which comes before all else.
        if self.is_behind() { Settled::Moved } else { settled }
    }

    fn settle_phase(&mut self, turn: &TurnOf<'_, A>) -> Settled {
        let cell = turn.cell();
        if self.duties.as_ref().is_some_and(|duties| !duties.escalated.is_empty()) {
            return Settled::Works;
        }
        match self.phase {
            Phase::Unborn => {
                self.start(cell);
                Settled::Moved
            }
            Phase::Alive | Phase::Draining { .. } if self.ctx.stopping => {
                self.end(cell, StopReason::Itself);
                Settled::Moved
            }
            Phase::Alive => match self.asked_to_stop() {
                Some(stop) => self.settle_stop(turn, stop),
                None => Settled::Works,
            },
            Phase::Draining { reason, accepted } => {
                if turn.position() < accepted || self.ctx.has_unstashed() {
                    return Settled::Works;
                }
                self.settle_over(cell, reason)
            }
            Phase::Restarting => self.settle_restart(cell),
            Phase::Paused => Settled::Waits,
            Phase::Ending { reason, accepted } => {
                // First, since they may be in the way of others.
                if self.ctx.end_some_timers(AT_ONCE) {
                    return Settled::Moved;
                }
                if turn.position() < accepted {
                    return Settled::Works;
                }
                if self.ctx.has_children() {
                    return Settled::Waits;
                }
                self.settle_over(cell, reason)
            }
            Phase::Leaving { reason } => self.settle_leave(cell, reason),
            Phase::Over => Settled::Over,
        }
    }

    /// The actor was asked to stop: closes the mailbox, if everything has come before that.
    fn settle_stop(&mut self, turn: &TurnOf<'_, A>, stop: Stop) -> Settled {
        let waits_for_turn =
            turn.position() < stop.at || self.duties().agenda.has_due_before_stop();
        if waits_for_turn || self.ctx.has_unstashed() {
            return Settled::Works;
        }
        if !self.ctx.closing {
            self.ctx.closing = true;
            self.tell_children(Word::Stop);
        }
        // It goes on while they end, because they may have messages for it.
        if self.ctx.has_children() || self.duties().agenda.learns_of_ends() {
            return Settled::Works;
        }
        self.phase = Phase::Draining { reason: stop.reason, accepted: turn.cell().mailbox.close() };
        Settled::Moved
    }

    /// Ends this incarnation. The next one starts when the children have stopped and the pause,
    /// which has begun unless it is zero, is over.
    pub(super) fn restart(
        &mut self,
        cell: &Cells<A>,
        failure: Failure<A::Message>,
        pause: Duration,
    ) {
        self.ctx.end_timers();
        if let Some(duties) = &mut self.duties {
            duties.escalated.clear();
            duties.agenda.forget();
        }
        if let Some(mut actor) = self.actor.take() {
            let ctx = &mut self.ctx;
            self_report(cell, contain(|| actor.restarting(failure, ctx)));
            self_report(cell, contain(|| drop(actor)));
        }
        if self.ctx.stopping {
            // It called `Context::stop`, so it is not restarted.
            self.end(cell, StopReason::Itself);
            return;
        }
        // Only now: the hook still belongs to the incarnation that ends. Relaxed: statistics.
        cell.extras.make().restarts.fetch_add(1, Ordering::Relaxed);
        cell.registry.restarts.fetch_add(1, Ordering::Relaxed);
        // What the hook may have started.
        self.ctx.end_timers();
        self.ctx.unstash_all();
        quietly(|| {
            tracing::info!(
                target: "mini_actor", actor = &*cell.lineage.to_path(), ?pause,
                "an actor restarts"
            );
        });
        if matches!(self.phase, Phase::Draining { .. }) {
            // It has no children, and goes on at once with what it has accepted.
            self.remake(cell);
            return;
        }
        cell.mailbox.suspend(true);
        // A child that waited for room or an answer here would wait for the restart, which waits
        // for the child.
        cell.let_actors_wait(!self.ctx.has_children());
        self.tell_children(Word::Stop);
        self.phase = if pause.is_zero() { Phase::Restarting } else { Phase::Paused };
    }

    /// The pause is over.
    pub(super) fn revive(&mut self, cell: &Cells<A>) {
        self.end_pause();
        self.phase = Phase::Restarting;
        // At once, before the signals behind this one. `settle` finds out what came of it.
        let _ = self.settle_restart(cell);
    }

    fn end_pause(&mut self) {
        if let Some(supervised) = &mut self.supervised {
            supervised.end_pause();
        }
    }

    /// Restarts, if all children have stopped.
    fn settle_restart(&mut self, cell: &Cells<A>) -> Settled {
        if self.ctx.has_children() {
            return Settled::Waits;
        }
        cell.let_actors_wait(true);
        cell.mailbox.suspend(false);
        self.start(cell);
        Settled::Moved
    }

    /// Ends without receiving what is queued.
    pub(super) fn end(&mut self, cell: &Cells<A>, reason: StopReason) {
        self.ctx.closing = true;
        self.end_pause();
        if let Some(duties) = &mut self.duties {
            duties.agenda.clear();
            duties.escalated.clear();
        }
        let accepted = cell.mailbox.close();
        cell.mailbox.suspend(false);
        let kills = reason == StopReason::Killed;
        self.tell_children(if kills { Word::Kill } else { Word::Stop });
        self.phase = Phase::Ending { reason, accepted };
    }

    /// The end of the actor itself, when its timers have ended.
    fn settle_over(&mut self, cell: &Cells<A>, reason: StopReason) -> Settled {
        if self.ctx.end_some_timers(AT_ONCE) {
            return Settled::Moved;
        }
        self.phase = Phase::Leaving { reason };
        if let Some(mut actor) = self.actor.take() {
            let ctx = &mut self.ctx;
            self_report(cell, contain(|| actor.stopped(reason, ctx)));
            self_report(cell, contain(|| drop(actor)));
        }
        self.ctx.unstash_all();
        let factory = std::mem::replace(&mut self.factory, Factory::Once(None));
        self_report(cell, contain(|| drop(factory)));
        self.settle_leave(cell, reason)
    }

    /// Sees to what the actor has left, some of it each time, and then to those who want to know.
    fn settle_leave(&mut self, cell: &Cells<A>, reason: StopReason) -> Settled {
        if self.farewell().is_none() {
            // What the last hook may have started comes first.
            let more = self.ctx.end_some_timers(AT_ONCE)
                || self.bury_some_stashed(cell)
                || self.ctx.unwatch_some(AT_ONCE);
            if more {
                return Settled::Moved;
            }
            self.leave(cell, reason);
        }
        if self.farewell().is_some_and(|farewell| farewell.tell_some(cell, reason)) {
            return Settled::Moved;
        }
        self.phase = Phase::Over;
        if let Some(parent) = self.parent.take() {
            parent.signal(Signal::ChildGone(cell.id));
        }
        Settled::Moved
    }

    /// Makes some of what is left of the stash dead letters. True if that was not all.
    fn bury_some_stashed(&mut self, cell: &Cells<A>) -> bool {
        for _ in 0..AT_ONCE {
            let Some(message) = self.ctx.next_unstashed(&mut None) else { return false };
            cell.bury(Undelivered::Stopped, message);
        }
        self.ctx.has_unstashed()
    }

    /// Leaves the tree. Then others may learn of it.
    fn leave(&mut self, cell: &Cells<A>, reason: StopReason) {
        quietly(|| {
            tracing::debug!(
                target: "mini_actor", actor = &*cell.lineage.to_path(), %reason,
                "an actor stopped"
            );
        });
        let resident: &dyn Resident = &**cell;
        // The name is free before anyone can learn of the end, and can be used again at once.
        cell.registry.leave(resident, reason);
        let watchers = resident.watchers().close(reason);
        if watchers.len() > 0 {
            self.duties().backlog.farewell = Some(Box::new(Farewell::new(watchers)));
        }
    }

    fn farewell(&mut self) -> Option<&mut Farewell> {
        self.duties.as_mut()?.backlog.farewell.as_deref_mut()
    }
}
