//! The life of an actor: what an activation does with messages, signals and panics.
//!
//! ```text
//! Unborn ──▶ Alive ──────────────────────────────▶ Draining ──▶ Over
//!              │ ▲       (asked to stop, children gone,   │
//!              │ │        mailbox closed)                 │ panic to stop
//!      restart │ │ children gone, pause over              ▼
//!              ▼ │                                      Ending ──▶ Over
//!           Restarting ───────────────────────────────────▲
//!              │        kill, stop(), panic to stop: mailbox closed, its messages dead letters,
//!              ▼        children asked to stop
//!            Paused
//! ```
//!
//! Here is the run loop: what comes next, and the calls of the actor. `phase` says when and how an
//! actor comes from one phase to the next, `failure` what is done about a panic. `agenda` keeps
//! what is due besides messages, `backlog` what may be very much and is done some at a time.

mod agenda;

mod backlog;

mod phase;

mod failure;

use lars_base::in_span::CapturedSpan;
use lars_base::panics::{contain, quietly};
use std::collections::VecDeque;

use self::agenda::{Agenda, Stop};
use self::backlog::{Backlog, Word};
pub(crate) use self::failure::Supervised;
use self::phase::{Phase, Settled};
use crate::actor::context::{Actor, Context};
use crate::base::late::Timed;
use crate::base::late::course::Did;
use crate::base::lineage::Stands;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::base::supervision::{Directive, Panic};
use crate::cell::dead_letters::Undelivered;
use crate::cell::home::{Cell, Life, NEVER, Progress, Turn};
use crate::cell::lateness::Kind;
use crate::cell::signal::{Due, Resident, Signal};
use crate::mailbox::asides::{Aside, Told};
use crate::sync::{Arc, real_now};
use lars_base::time::Instant;
use lars_scheduler::extend::Systems;

/// Creates an actor.
pub(crate) enum Factory<A> {
    Once(Option<Box<dyn FnOnce() -> A + Send>>),
    Many(Box<dyn FnMut() -> A + Send>),
}

pub(crate) struct Incarnations<A: Actor> {
    factory: Factory<A>,
    /// Boxed, since few actors have any: without one a panic stops the actor.
    supervised: Option<Box<Supervised>>,
    /// Here and not in the cell: a reference to a stopped actor keeps the cell, and would keep, and
    /// at last drop, all generations above it.
    parent: Option<Arc<dyn Resident>>,
    /// In a box of its own, made by the thread that makes the actor: a large state has no place on
    /// the stack of a thread that spawns.
    actor: Option<Box<A>>,
    ctx: Context<A>,
    phase: Phase,
    /// Made by the first signal.
    duties: Option<Box<Duties>>,
}

/// What an actor has to do besides receiving messages.
#[derive(Default)]
struct Duties {
    agenda: Agenda,
    backlog: Backlog,
    /// Panics that children have escalated, and whether they kept this actor from starting. They
    /// are handled one at a time, so that many at once do not keep other actors from their turn.
    escalated: VecDeque<(Panic, bool)>,
}

/// What an actor is called with besides messages.
enum Call {
    Started,
    ReceiveTimeout,
    Terminated(Terminated),
}

type Cells<A> = Arc<Cell<<A as Actor>::Message>>;
/// What finds the next message, and the span that comes with it. (Called through its address, so
/// that the code that receives is compiled once, and not for each of them.)
type Take<'a, A> =
    &'a mut dyn FnMut(&mut Context<A>, &mut Option<Told>) -> Option<<A as Actor>::Message>;
type TurnOf<'a, A> = Turn<'a, <A as Actor>::Message>;

impl<A: Actor> Incarnations<A> {
    pub(crate) fn new(
        factory: Factory<A>,
        supervised: Option<Supervised>,
        parent: Option<Arc<dyn Resident>>,
        ctx: Context<A>,
    ) -> Self {
        Self {
            factory,
            supervised: supervised.map(Box::new),
            parent,
            actor: None,
            ctx,
            phase: Phase::Unborn,
            duties: None,
        }
    }

    fn duties(&mut self) -> &mut Duties {
        self.duties.get_or_insert_default()
    }

    /// Whether there is a backlog, before which the actor does nothing else.
    #[inline]
    fn is_behind(&self) -> bool {
        self.duties.as_ref().is_some_and(|duties| !duties.backlog.is_empty())
    }

    /// The stop that was asked for.
    #[inline]
    fn asked_to_stop(&self) -> Option<Stop> {
        self.duties.as_ref()?.agenda.stop()
    }

    /// The next panic that a child has escalated, and whether it kept this actor from starting.
    #[inline]
    fn next_escalated(&mut self) -> Option<(Panic, bool)> {
        self.duties.as_mut()?.escalated.pop_front()
    }

    /// What is due at this position of the turn.
    #[inline]
    fn next_due(&mut self, turn: &TurnOf<'_, A>) -> Option<Due> {
        let agenda = &mut self.duties.as_mut()?.agenda;
        if agenda.is_empty() { None } else { agenda.next(turn.position()) }
    }

    /// Calls the actor with what is no message, and decides on a panic.
    fn call(&mut self, cell: &Cells<A>, what: Call) {
        self.call_keeping(cell, |actor, ctx, _| match what {
            Call::Started => actor.started(ctx),
            Call::ReceiveTimeout => actor.receive_timeout(ctx),
            Call::Terminated(gone) => actor.terminated(gone, ctx),
        });
    }

    #[inline]
    fn call_keeping(
        &mut self,
        cell: &Cells<A>,
        code: impl FnOnce(&mut A, &mut Context<A>, &mut Option<Box<A::Message>>),
    ) {
        let Some(actor) = &mut self.actor else {
            return;
        };
        let mut kept = None;
        let ctx = &mut self.ctx;
        if let Err(message) = contain(|| code(actor, ctx, &mut kept)) {
            let panic = Panic { path: Arc::clone(cell.lineage.path()), message };
            self.failed(cell, panic, kept, self.ctx.starting);
        } else {
            drop_kept(cell, kept);
        }
    }

    /// Creates the actor. If that fails in a way that ends it, nothing is left to do.
    fn start(&mut self, cell: &Cells<A>) {
        // The children that it had are gone. Those that it will have are told nothing.
        self.tell_no_children();
        self.phase = Phase::Alive;
        self.remake(cell);
    }

    fn remake(&mut self, cell: &Cells<A>) {
        self.ctx.starting = true;
        self.make(cell);
        self.ctx.starting = false;
    }

    fn make(&mut self, cell: &Cells<A>) {
        let factory = &mut self.factory;
        let made = contain(|| match factory {
            Factory::Once(make) => make.take().map(|make| Box::new(make())),
            Factory::Many(make) => Some(Box::new(make())),
        });
        match made {
            Ok(Some(actor)) => {
                self.actor = Some(actor);
                quietly(|| {
                    tracing::debug!(
                        target: "mini_actor", actor = &*cell.lineage.to_path(),
                        "an actor started"
                    );
                });
                self.call(cell, Call::Started);
            }
            // An actor that can be created only once is not restarted; this is reached only after a
            // panic.
            Ok(None) => self.end(cell, StopReason::Panicked),
            Err(message) => {
                let panic = Panic { path: Arc::clone(cell.lineage.path()), message };
                self.failed(cell, panic, None, true);
            }
        }
    }

    /// Calls the actor with the message that `take` finds. Returns whether it found one. A message
    /// that comes out of the stash was counted when it was received first.
    ///
    /// The message is taken inside everything that contains panics, so that a large one is not
    /// passed from frame to frame.
    #[inline]
    fn receive_with(
        &mut self,
        turn: &TurnOf<'_, A>,
        from_stash: bool,
        take: impl FnOnce(&mut Context<A>) -> Option<A::Message>,
    ) -> bool {
        let (mut received, mut counts) = (false, false);
        self.call_keeping(turn.cell(), |actor, ctx, kept| {
            let Some(message) = take(ctx) else {
                return;
            };
            received = true;
            if !from_stash {
                // Before the call: an actor that closes its system counts this message as received
                // before that.
                turn.count_one();
            }
            // Even if no timeout is set: this call may set one.
            counts = A::influences_receive_timeout(&message);
            *kept = A::keep(&message).map(Box::new);
            actor.receive(message, ctx);
        });
        // Even if the handler panicked: the actor may resume.
        if counts {
            self.ctx.heard();
        }
        received
    }

    /// Like [`receive_with`](Self::receive_with), in the span that comes with the message, if one
    /// does.
    #[inline(never)]
    fn receive_told(&mut self, turn: &TurnOf<'_, A>, from_stash: bool, take: Take<'_, A>) -> bool {
        let mut inside = None;
        let received = self.receive_with(turn, from_stash, |ctx| {
            let mut span = None;
            let message = take(ctx, &mut span);
            inside = span.and_then(CapturedSpan::enter);
            message
        });
        drop(inside);
        received
    }

    /// Receives the next message, with what is kept beside it. Returns whether there was one.
    #[inline(never)]
    fn receive_with_aside(&mut self, turn: &TurnOf<'_, A>) -> bool {
        let mut due = None;
        let received = self.receive_told(turn, false, &mut |_, span| {
            let mut aside = Aside::default();
            let message = turn.pop_with_aside(&mut aside);
            *span = aside.told;
            due = aside.timed.map(|timed| (timed, real_now()));
            message
        });
        if let Some((timed, begun)) = due {
            turn.was_received(Kind::Message, timed, begun);
        }
        received
    }

    /// The actor begins to receive what a timer of its own fired for at this instant; what was due
    /// then, if it may be late.
    fn begins(
        &self,
        turn: &TurnOf<'_, A>,
        fired: Instant,
        nominal: Option<Instant>,
    ) -> Option<(Timed, Instant)> {
        let registry = &turn.cell().registry;
        registry.incidents.late()?;
        let promised = registry.timers.promised(nominal?)?;
        Some((Timed { promised, put_in: fired }, real_now()))
    }

    /// Handles what is next: a failure, an unstashed message, what is due, or a message. Returns
    /// whether there was anything.
    #[inline]
    fn next(&mut self, turn: &TurnOf<'_, A>) -> bool {
        if matches!(self.phase, Phase::Ending { .. }) {
            return bury_next(turn);
        }
        let duties = self.duties.is_some();
        if duties && let Some((panic, at_start)) = self.next_escalated() {
            self.failed(turn.cell(), panic, None, at_start);
            return true;
        }
        if self.ctx.has_unstashed() {
            return self.receive_told(turn, true, &mut Context::next_unstashed);
        }
        if duties && let Some(due) = self.next_due(turn) {
            self.handle_due(turn, due);
            return true;
        }
        if turn.cell().mailbox.asides().is_some() {
            return self.receive_with_aside(turn);
        }
        self.receive_with(turn, false, |_| turn.pop())
    }

    fn handle_due(&mut self, turn: &TurnOf<'_, A>, due: Due) {
        let cell = turn.cell();
        match due {
            Due::Tick { generation, fired } => {
                let due = fired.and_then(|fired| {
                    let nominal = self.ctx.timers().due_at(generation);
                    self.begins(turn, fired, nominal)
                });
                let received = self.receive_told(turn, false, &mut |ctx, span| {
                    ctx.timers().take(generation, span)
                });
                if let Some((timed, begun)) = due.filter(|_| received) {
                    turn.was_received(Kind::Message, timed, begun);
                }
                self.ctx.timers().handled(generation);
            }
            Due::Quiet { generation, fired } => self.handle_quiet(turn, generation, fired, true),
            Due::MissedQuiet { generation, fired } => {
                self.handle_quiet(turn, generation, fired, false);
            }
            Due::Gone(gone) => {
                // It counts as watched until here: an actor that watches again meanwhile watches
                // once, and one that unwatches is told nothing.
                if self.ctx.was_watching(gone.id) {
                    self.call(cell, Call::Terminated(gone));
                }
            }
        }
    }

    /// The timer of the receive timeout fired then. `timed`: it may turn out to be late.
    fn handle_quiet(&mut self, turn: &TurnOf<'_, A>, generation: u64, fired: Instant, timed: bool) {
        if !self.ctx.is_quiet(generation, fired) {
            return;
        }
        let due = self.ctx.quiet_at().filter(|_| timed);
        let begins = self.begins(turn, fired, due);
        self.call(turn.cell(), Call::ReceiveTimeout);
        if let Some((timed, begun)) = begins {
            turn.was_received(Kind::Timeout, timed, begun);
        }
        self.ctx.quiet_again(generation);
    }

    fn handle_signal(&mut self, cell: &Cells<A>, signal: Signal) {
        match signal {
            Signal::Stop { at, reason } => {
                self.duties().agenda.ask_to_stop(Stop { at, reason });
                // An actor that is asked to stop is restarted at once, without the pause.
                if self.phase == Phase::Paused {
                    self.revive(cell);
                }
            }
            Signal::Kill(reason) => match self.phase {
                // What is left of it is its children.
                Phase::Ending { .. } => self.tell_children(Word::Kill),
                Phase::Leaving { .. } | Phase::Over => {}
                _ => self.end(cell, reason),
            },
            Signal::Due(at, due) => {
                if let Due::Gone(gone) = &due {
                    // Before the actor is told: it may then ask which children are left.
                    self.child_gone(cell, gone.id);
                }
                let ends = matches!(
                    self.phase,
                    Phase::Ending { .. } | Phase::Leaving { .. } | Phase::Over
                );
                if !ends {
                    self.duties().agenda.push(at, due);
                }
            }
            Signal::ChildGone(id) => self.child_gone(cell, id),
            Signal::ChildFailed { panic, at_start } => match self.phase {
                Phase::Alive | Phase::Draining { .. } => {
                    self.duties().escalated.push_back((panic, at_start));
                }
                // This actor is failing or ending already.
                _ => {}
            },
            Signal::Revive(number) => {
                let is_awaited =
                    self.supervised.as_ref().is_some_and(|it| it.is_last_pause(number));
                if self.phase == Phase::Paused && is_awaited {
                    self.revive(cell);
                }
            }
            Signal::ListTimers(tell) => tell(self.ctx.list_timers()),
        }
    }

    /// A child has stopped, if it was one.
    fn child_gone(&mut self, cell: &Cells<A>, id: u64) {
        let child = self.ctx.remove_child(id);
        if child.is_some() && self.phase == Phase::Paused && !self.ctx.has_children() {
            cell.let_actors_wait(true);
        }
    }
}

/// Makes the next message a dead letter, in its span. Returns whether there was one.
#[cold]
#[inline(never)]
fn bury_next<M: Send + 'static>(turn: &Turn<'_, M>) -> bool {
    let mut aside = Aside::default();
    let left = turn.pop_with_aside(&mut aside);
    let _inside = aside.told.and_then(CapturedSpan::enter);
    left.map(|message| turn.cell().bury(Undelivered::Stopped, message)).is_some()
}

/// Drops what the actor kept of a message. Its destructor is foreign code.
#[inline]
fn drop_kept<M: Send + 'static>(cell: &Arc<Cell<M>>, kept: Option<Box<M>>) {
    if kept.is_some() {
        self_report(cell, contain(|| drop(kept)));
    }
}

/// A panic that no longer changes anything.
fn self_report<M>(cell: &Arc<Cell<M>>, result: Result<(), String>) {
    if let Err(message) = result {
        let panic = Panic { path: Arc::clone(cell.lineage.path()), message };
        cell.registry.incidents.panicked(&panic, Directive::Resume);
    }
}

/// What an actor has done last, and when it was over, if that has been read already.
type Course = (Did, Option<Instant>);

impl<A: Actor> Incarnations<A> {
    /// The turn begins: what came before it, if what is late is explained.
    #[inline]
    fn begin_course(&self, turn: &TurnOf<'_, A>) -> Option<Course> {
        let now = turn.begin_course()?;
        let between_two = matches!(self.phase, Phase::Restarting | Phase::Paused);
        Some((if between_two { Did::Unknown } else { Did::Waited }, Some(now)))
    }

    fn note(&self, turn: &TurnOf<'_, A>, (did, now): &mut Course) {
        let waits = |it: &Duties| !it.agenda.is_empty() || !it.backlog.is_empty();
        let waits = self.duties.as_deref().is_some_and(waits);
        turn.note(*did, waits, now.take());
    }
}

impl<A: Actor> Life<A::Message> for Incarnations<A> {
    fn run(&mut self, turn: &TurnOf<'_, A>) -> Progress {
        let cell = turn.cell();
        let rules = &cell.registry.rules;
        let end_of_slice = rules.time_slice.and_then(|slice| real_now().checked_add(slice));
        // The watch assumes one step, until it is told of more.
        let (mut steps, mut looked) = (0, 1_u32);
        // Before which step the clock is read: with a time slice before each, otherwise now and
        // then.
        let mut reading = turn.begin_watch();
        let watched = reading != NEVER;
        let mut bound = if end_of_slice.is_some() { 1 } else { reading.min(rules.throughput) };
        let mut course = self.begin_course(turn);
        // The hint may have been taken back by an earlier look that came before the announcement.
        let mut signalled = cell.mailbox.is_signalled();
        let progress = loop {
            if let Some(course) = &mut course {
                self.note(turn, course);
            }
            if std::mem::take(&mut signalled) || cell.lane.hint() {
                self.add_signals(cell.take_signals());
            }
            // Read before `settle` looks. The position may move on by itself, past a slot without a
            // message or by an eviction. What is due at a position that was not looked at needs
            // another activation.
            let seen = turn.position();
            let behind = self.is_behind() && self.catch_up(cell);
            let settled = if behind { Settled::Moved } else { self.settle(turn) };
            if let Some((did, _)) = &mut course {
                *did = if settled == Settled::Works { Did::Message } else { Did::Hook };
            }
            match settled {
                Settled::Over => break Progress::Gone,
                Settled::Waits => break Progress::Done(seen),
                Settled::Moved | Settled::Works => {}
            }
            // An actor that is restarted forever lets others have their turn as well.
            if steps >= bound {
                let over = steps >= rules.throughput;
                if end_of_slice.is_none() && over {
                    break Progress::More;
                }
                let now = real_now();
                if watched {
                    reading = steps + turn.look(now, steps.wrapping_sub(looked));
                    looked = steps;
                }
                if over || end_of_slice.is_some_and(|end| now >= end) {
                    break Progress::More;
                }
                bound = if end_of_slice.is_some() { steps + 1 } else { reading };
                bound = bound.min(rules.throughput);
            }
            if settled == Settled::Works && !self.next(turn) {
                break Progress::Done(seen);
            }
            steps += 1;
        };
        if let Some(mut course) = course {
            self.note(turn, &mut course);
            turn.end_course();
        }
        if watched && steps != looked {
            turn.end_watch(steps.wrapping_sub(looked), reading.saturating_sub(steps));
        }
        progress
    }
}
