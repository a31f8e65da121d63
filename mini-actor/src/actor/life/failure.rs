//! What is done about a panic: the decision, which is pure, and carrying it out.

use lars_base::panics::contain;
use lars_base::time::Instant;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::{Cancellable, Task};
use std::time::Duration;

use super::phase::Phase;
use super::{Cells, Factory, Incarnations, drop_kept};
use crate::actor::context::Actor;
use crate::base::lineage::Stands;
use crate::base::stop_reason::StopReason;
use crate::base::supervision::{Directive, Failure, Panic, Restarts, SupervisionStrategy};
use crate::cell::home::Cell;
use crate::cell::registry::Place;
use crate::cell::signal::Signal;
use crate::sync::Arc;

/// What is done about a panic: a directive that can be carried out.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Resume,
    Restart { pause: Duration },
    Stop,
    Escalate,
}

impl Verdict {
    fn directive(self) -> Directive {
        match self {
            Self::Resume => Directive::Resume,
            Self::Restart { .. } => Directive::Restart,
            Self::Stop => Directive::Stop,
            Self::Escalate => Directive::Escalate,
        }
    }
}

/// Decides on a panic. What the supervision `asks` for is done where it is possible; where it is
/// not, the actor stops. `next_pause` is the pause before a restart, or `None` if it is one too
/// many.
fn decide(
    asks: Directive,
    can_resume: bool,
    can_restart: bool,
    next_pause: impl FnOnce() -> Option<Duration>,
) -> Verdict {
    match asks {
        Directive::Resume if can_resume => Verdict::Resume,
        Directive::Restart if can_restart => {
            next_pause().map_or(Verdict::Stop, |pause| Verdict::Restart { pause })
        }
        Directive::Resume | Directive::Restart | Directive::Stop => Verdict::Stop,
        Directive::Escalate => Verdict::Escalate,
    }
}

/// How an actor is supervised, and how often it has been restarted.
pub(crate) struct Supervised {
    rules: SupervisionStrategy,
    /// Of the call that spawned the actor.
    place: Place,
    /// Its parent spawned it in `started`, and so is not started without it.
    belongs_to_start: bool,
    restarts: Restarts,
    /// The number of the last pause, and its timer.
    pauses: u64,
    pause: Option<Cancellable>,
}

impl Supervised {
    pub(crate) fn new(rules: SupervisionStrategy, place: Place, belongs_to_start: bool) -> Self {
        let restarts = Restarts::default();
        Self { rules, place, belongs_to_start, restarts, pauses: 0, pause: None }
    }

    /// What the rules ask for. They are foreign code; if they panic, the actor stops.
    fn directive(&self, panic: &Panic) -> Directive {
        contain(|| self.rules.directive(panic)).unwrap_or(Directive::Stop)
    }

    fn next_pause(&mut self, at_start: bool, now: Instant, seed: Option<u64>) -> Option<Duration> {
        self.restarts.next(&self.rules, at_start, now, seed)
    }

    /// Begins a pause. False if its timer is refused.
    fn begin_pause<M: Send + 'static>(&mut self, cell: &Arc<Cell<M>>, pause: Duration) -> bool {
        self.pauses += 1;
        let revive = Task::new(Revive { cell: Arc::clone(cell), number: self.pauses });
        self.pause = cell.registry.arm_for(&cell.lineage, pause, revive, self.place);
        self.pause.is_some()
    }

    /// Whether the last pause has this number.
    pub(super) fn is_last_pause(&self, number: u64) -> bool {
        self.pauses == number
    }

    pub(super) fn end_pause(&mut self) {
        if let Some(pause) = self.pause.take() {
            pause.cancel();
        }
    }
}

/// The end of a pause.
struct Revive<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    number: u64,
}

impl<M: Send + 'static> TaskBody for Revive<M> {
    fn run(self) {}
}

/// Run, or dropped: a scheduler of somebody else may stop during the pause, and nothing else would
/// end that. (After a cancel nobody waits for it.)
impl<M: Send + 'static> Drop for Revive<M> {
    fn drop(&mut self) {
        self.cell.send_signal(Signal::Revive(self.number));
    }
}

impl<A: Actor> Incarnations<A> {
    /// The actor panicked, or a child that escalates its panic did. `message` is what the actor
    /// kept of the message that failed. `at_start`: the panic kept it from starting; a child's that
    /// it spawned in `started` does so too.
    pub(super) fn failed(
        &mut self,
        cell: &Cells<A>,
        panic: Panic,
        message: Option<Box<A::Message>>,
        at_start: bool,
    ) {
        let verdict = self.decide(cell, &panic, at_start);
        // First, so that the verdict that others learn of is what happens.
        let verdict = self.begin_pause(cell, verdict, at_start);
        if Arc::ptr_eq(&panic.path, cell.lineage.path()) {
            cell.registry.incidents.panicked(&panic, verdict.directive());
        } else {
            // One that a child escalated, and that was counted there.
            cell.registry.incidents.tell_panic(&panic, verdict.directive());
        }
        self.carry_out(cell, verdict, panic, message, at_start);
    }

    fn decide(&mut self, cell: &Cells<A>, panic: &Panic, at_start: bool) -> Verdict {
        let stops = self.asked_to_stop().is_some();
        let Some(supervised) = &mut self.supervised else {
            return Verdict::Stop;
        };
        let can_resume = self.actor.is_some();
        // An actor is not restarted if it ends, if it cannot be created again, or if it fails to
        // start only to receive what is left.
        let hopeless = self.ctx.starting && stops;
        let can_be_made = matches!(self.factory, Factory::Many(_));
        let receives = matches!(self.phase, Phase::Alive | Phase::Draining { .. });
        let can_restart = receives && can_be_made && !hopeless;
        decide(supervised.directive(panic), can_resume, can_restart, || {
            let seed = cell.registry.seed(&cell.lineage);
            supervised.next_pause(at_start, cell.registry.timers.now(), seed)
        })
    }

    /// Begins the pause of a restart, if it has one. An actor that was asked to stop does not wait.
    fn begin_pause(&mut self, cell: &Cells<A>, verdict: Verdict, at_start: bool) -> Verdict {
        let Verdict::Restart { pause } = verdict else { return verdict };
        let at_once = Verdict::Restart { pause: Duration::ZERO };
        if pause.is_zero() || self.asked_to_stop().is_some() {
            return at_once;
        }
        // They end whatever comes now, and the pause's timer may need one of their places.
        self.ctx.end_timers();
        if self.supervised.as_mut().is_some_and(|it| it.begin_pause(cell, pause)) {
            verdict
        } else if at_start {
            // Without a pause it would fail to start again and again, and take a processor.
            Verdict::Stop
        } else {
            at_once
        }
    }

    fn carry_out(
        &mut self,
        cell: &Cells<A>,
        verdict: Verdict,
        panic: Panic,
        message: Option<Box<A::Message>>,
        at_start: bool,
    ) {
        match verdict {
            Verdict::Restart { pause } => {
                let message = message.map(|message| *message);
                self.restart(cell, Failure { panic, message }, pause);
            }
            Verdict::Resume => drop_kept(cell, message),
            Verdict::Stop => {
                drop_kept(cell, message);
                self.end(cell, StopReason::Panicked);
            }
            Verdict::Escalate => {
                drop_kept(cell, message);
                let belongs = self.supervised.as_ref().is_some_and(|it| it.belongs_to_start);
                if let Some(parent) = &self.parent {
                    Arc::clone(parent)
                        .signal(Signal::ChildFailed { panic, at_start: at_start && belongs });
                }
                self.end(cell, StopReason::Panicked);
            }
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn decided(asks: Directive, can_resume: bool, can_restart: bool) -> Verdict {
        decide(asks, can_resume, can_restart, || Some(PAUSE))
    }

    #[test]
    fn what_is_asked_for_is_done_where_it_is_possible_and_otherwise_the_actor_stops() {
        let restart = Verdict::Restart { pause: PAUSE };
        assert_eq!(decided(Directive::Resume, true, false), Verdict::Resume);
        assert_eq!(decided(Directive::Resume, false, true), Verdict::Stop);
        assert_eq!(decided(Directive::Restart, false, true), restart);
        assert_eq!(decided(Directive::Restart, true, false), Verdict::Stop);
        assert_eq!(decided(Directive::Stop, true, true), Verdict::Stop);
        assert_eq!(decided(Directive::Escalate, false, false), Verdict::Escalate);
    }

    #[test]
    fn a_restart_that_is_one_too_many_stops_the_actor_and_only_a_restart_is_counted() {
        assert_eq!(decide(Directive::Restart, true, true, || None), Verdict::Stop);
        let count = || panic!("this one is not counted");
        assert_eq!(decide(Directive::Resume, true, true, count), Verdict::Resume);
        assert_eq!(decide(Directive::Restart, true, false, count), Verdict::Stop);
    }
}
