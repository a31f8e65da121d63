//! The life of an actor: what an activation does with messages, signals and panics.
//!
//! ```text
//! Unborn ──▶ Alive ──────────────────────────────▶ Draining ──▶ Over
//!              │ ▲       (asked to stop, children gone,   │
//!              │ │        mailbox closed)                 │ panic
//!      restart │ │ children gone, pause over              ▼
//!              ▼ │                                      Ending ──▶ Over
//!           Restarting ───────────────────────────────────▲
//!              │        kill, stop(), panic to stop: mailbox closed, its messages dead letters,
//!              ▼        children asked to stop
//!            Paused
//! ```

use lars_scheduler::in_span::CapturedSpan;
use lars_scheduler::panics::{contain, quietly};
use lars_scheduler::{Cancellable, Task, TaskBody};
use std::collections::VecDeque;

use crate::actor::context::{Actor, Context};
use crate::base::stop_reason::{StopReason, Terminated};
use crate::base::supervision::{Directive, Failure, Panic, Restarts, Supervision};
use crate::cell::dead_letters::Undelivered;
use crate::cell::home::{Cell, Life, NEVER, Progress, Turn};
use crate::cell::registry::Place;
use crate::cell::signal::{Due, Resident, Signal, Watcher};
use crate::mailbox::spans::Told;
use crate::sync::{Arc, Ordering, real_now};

/// Creates an actor.
pub(crate) enum Factory<A> {
    Once(Option<Box<dyn FnOnce() -> A + Send>>),
    Many(Box<dyn FnMut() -> A + Send>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
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
    Over,
}

/// How an actor is supervised, and how often it has been restarted.
struct Supervised {
    rules: Supervision,
    /// Of the call that spawned the actor.
    place: Place,
    restarts: Restarts,
    /// The number of the restart after the pause, and its timer.
    revival: u64,
    pause: Option<Cancellable>,
}

pub(crate) struct Incarnations<A: Actor> {
    factory: Factory<A>,
    /// Boxed, since few actors have any: without one a panic stops the actor.
    supervised: Option<Box<Supervised>>,
    /// Here and not in the cell: a reference to a stopped actor keeps the cell, and would keep, and
    /// at last drop, all generations above it.
    parent: Option<Arc<dyn Resident>>,
    /// It is being created and started.
    starting: bool,
    actor: Option<A>,
    ctx: Context<A>,
    phase: Phase,
    /// What is due, each behind this many messages.
    due: VecDeque<(u64, Due)>,
    /// Panics that children have escalated. They are handled one at a time, so that many at once do
    /// not keep other actors from their turn.
    escalated: VecDeque<Panic>,
    /// Set when the actor was asked to stop: after how many messages it stops, and why.
    stop: Option<(u64, StopReason)>,
    /// How many entries of `due` come before the stop as well.
    due_before_stop: usize,
    /// Its children have stopped since it was asked to stop, and the ends that had arrived by then
    /// are counted in `due_before_stop`.
    childless: bool,
}

type Cells<A> = Arc<Cell<<A as Actor>::Message>>;
type TurnOf<'a, A> = Turn<'a, <A as Actor>::Message>;

impl<A: Actor> Incarnations<A> {
    pub(crate) fn new(
        factory: Factory<A>,
        supervision: Option<(Supervision, Place)>,
        parent: Option<Arc<dyn Resident>>,
        ctx: Context<A>,
    ) -> Self {
        Self {
            factory,
            supervised: supervision.map(|(rules, place)| {
                let restarts = Restarts::default();
                Box::new(Supervised { rules, place, restarts, revival: 0, pause: None })
            }),
            parent,
            starting: false,
            actor: None,
            ctx,
            phase: Phase::Unborn,
            due: VecDeque::new(),
            escalated: VecDeque::new(),
            stop: None,
            due_before_stop: 0,
            childless: false,
        }
    }

    /// Calls the actor, and decides on a panic.
    fn call(&mut self, cell: &Cells<A>, code: impl FnOnce(&mut A, &mut Context<A>)) {
        self.call_keeping(cell, |actor, ctx, _| code(actor, ctx));
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
            let panic = Panic { path: Arc::clone(&cell.path), message };
            self.failed(cell, panic, kept);
        } else if kept.is_some() {
            self_report(cell, contain(|| drop(kept)));
        }
    }

    /// Creates the actor. If that fails in a way that ends it, nothing is left to do.
    fn start(&mut self, cell: &Cells<A>) {
        self.phase = Phase::Alive;
        self.starting = true;
        self.make(cell);
        self.starting = false;
    }

    fn make(&mut self, cell: &Cells<A>) {
        let factory = &mut self.factory;
        let made = contain(|| match factory {
            Factory::Once(make) => make.take().map(|make| make()),
            Factory::Many(make) => Some(make()),
        });
        match made {
            Ok(Some(actor)) => {
                self.actor = Some(actor);
                quietly(|| {
                    tracing::debug!(target: "mini_actor", actor = &*cell.path, "an actor started");
                });
                self.call(cell, A::started);
            }
            // An actor that can be created only once is not restarted; this is reached only after a
            // panic.
            Ok(None) => self.end(cell, StopReason::Panicked),
            Err(message) => {
                let panic = Panic { path: Arc::clone(&cell.path), message };
                self.failed(cell, panic, None);
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
            counts = ctx.receive_timeout().is_some() && A::influences_receive_timeout(&message);
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
    fn receive_told(
        &mut self,
        turn: &TurnOf<'_, A>,
        from_stash: bool,
        take: impl FnOnce(&mut Context<A>, &mut Option<Told>) -> Option<A::Message>,
    ) -> bool {
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

    /// Handles what is next: a failure, an unstashed message, what is due, or a message. Returns
    /// whether there was anything.
    #[inline]
    fn next(&mut self, turn: &TurnOf<'_, A>) -> bool {
        if matches!(self.phase, Phase::Ending { .. }) {
            return bury_next(turn);
        }
        if let Some(panic) = self.escalated.pop_front() {
            self.failed(turn.cell(), panic, None);
            return true;
        }
        if self.ctx.has_unstashed() {
            return self.receive_told(turn, true, Context::next_unstashed);
        }
        if let Some((at, _)) = self.due.front()
            && *at <= turn.position()
            && let Some((_, due)) = self.due.pop_front()
        {
            self.due_before_stop = self.due_before_stop.saturating_sub(1);
            self.handle_due(turn, due);
            return true;
        }
        if turn.cell().mailbox.has_spans() {
            return self.receive_told(turn, false, |_, span| turn.pop_told(span));
        }
        self.receive_with(turn, false, |_| turn.pop())
    }

    fn handle_due(&mut self, turn: &TurnOf<'_, A>, due: Due) {
        let cell = turn.cell();
        match due {
            Due::Tick(generation) => {
                self.receive_told(turn, false, |ctx, span| ctx.timers().take(generation, span));
                self.ctx.timers().handled(generation);
            }
            Due::Quiet { generation, fired } => {
                if self.ctx.is_quiet(generation, fired) {
                    self.call(cell, A::receive_timeout);
                    self.ctx.quiet_again(generation);
                }
            }
            Due::Gone(gone) => {
                // It counts as watched until here: an actor that watches again meanwhile watches
                // once, and one that unwatches is told nothing.
                if self.ctx.was_watching(gone.id) {
                    self.call(cell, |actor, ctx| actor.terminated(gone, ctx));
                }
            }
        }
    }

    fn handle_signal(&mut self, cell: &Cells<A>, signal: Signal) {
        match signal {
            Signal::Stop { at, reason } => {
                if self.stop.is_none() {
                    self.stop = Some((at, reason));
                    self.due_before_stop = self.due.len();
                }
                // An actor that is asked to stop is restarted at once, without the pause.
                if self.phase == Phase::Paused {
                    self.revive(cell);
                }
            }
            Signal::Kill(reason) => match self.phase {
                Phase::Ending { .. } | Phase::Over => {}
                _ => self.end(cell, reason),
            },
            Signal::Due(at, due) => {
                if let Due::Gone(gone) = &due {
                    // Before the actor is told: it may then ask which children are left.
                    self.child_gone(cell, gone.id);
                }
                if !matches!(self.phase, Phase::Ending { .. } | Phase::Over) {
                    self.due.push_back((at, due));
                }
            }
            Signal::ChildGone(id) => self.child_gone(cell, id),
            Signal::ChildFailed(panic) => match self.phase {
                Phase::Alive | Phase::Draining { .. } => self.escalated.push_back(panic),
                // This actor is failing or ending already.
                _ => {}
            },
            Signal::Revive(number) => {
                let awaited = self.supervised.as_ref().map(|supervised| supervised.revival);
                if self.phase == Phase::Paused && awaited == Some(number) {
                    self.revive(cell);
                }
            }
            Signal::ListTimers(tell) => tell(self.ctx.list_timers()),
        }
    }

    /// A child has stopped, if it was one.
    fn child_gone(&mut self, cell: &Cells<A>, id: u64) {
        let child = self.ctx.children.remove(&id);
        if child.is_some() && self.phase == Phase::Paused && self.ctx.children.is_empty() {
            cell.let_actors_wait(true);
        }
    }

    /// The actor panicked: decides what happens to it.
    fn failed(&mut self, cell: &Cells<A>, panic: Panic, mut message: Option<Box<A::Message>>) {
        let mut directive = match &self.supervised {
            Some(supervised) => contain(|| supervised.rules.directive(&panic)),
            None => Ok(Directive::Stop),
        }
        .unwrap_or(Directive::Stop);
        let mut pause = None;
        if directive == Directive::Restart {
            // An actor is not restarted if it is about to end, if it cannot be created again, or if
            // it fails to start only to receive what is left.
            let hopeless = self.starting && self.stop.is_some();
            let possible = matches!(self.factory, Factory::Many(_));
            if self.phase == Phase::Alive && possible && !hopeless {
                let now = cell.registry.timers.now();
                let seed = cell.registry.seed(&cell.path);
                if let Some(supervised) = &mut self.supervised {
                    pause = supervised.restarts.next(&supervised.rules, now, seed);
                }
            }
            if pause.is_none() {
                directive = Directive::Stop;
            }
        }
        // Nothing is left to go on with.
        if directive == Directive::Resume && self.actor.is_none() {
            directive = Directive::Stop;
        }
        if Arc::ptr_eq(&panic.path, &cell.path) {
            cell.registry.panicked(&panic, directive);
        } else {
            // One that a child escalated, and that was counted there.
            cell.registry.tell_panic(&panic, directive);
        }
        if directive != Directive::Restart && message.is_some() {
            self_report(cell, contain(|| drop(message.take())));
        }
        match directive {
            Directive::Resume => {}
            Directive::Restart => {
                let message = message.map(|message| *message);
                self.restart(cell, Failure { panic, message }, pause.unwrap_or_default());
            }
            Directive::Stop => self.end(cell, StopReason::Panicked),
            Directive::Escalate => {
                if let Some(parent) = &self.parent {
                    Arc::clone(parent).signal(Signal::ChildFailed(panic));
                }
                self.end(cell, StopReason::Panicked);
            }
        }
    }

    /// Forgets what was due to one incarnation. The next one still has to learn of ends.
    fn forget_due(&mut self) {
        self.escalated.clear();
        self.due.retain(|(_, due)| matches!(due, Due::Gone(_)));
        self.due_before_stop = 0;
        self.childless = false;
    }

    fn restart(
        &mut self,
        cell: &Cells<A>,
        failure: Failure<A::Message>,
        pause: std::time::Duration,
    ) {
        // Relaxed: statistics.
        cell.restarts.fetch_add(1, Ordering::Relaxed);
        cell.registry.restarts.fetch_add(1, Ordering::Relaxed);
        self.ctx.end_timers();
        self.forget_due();
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
        // What the hook may have started.
        self.ctx.end_timers();
        self.ctx.unstash_all();
        quietly(|| {
            tracing::info!(target: "mini_actor", actor = &*cell.path, ?pause, "an actor restarts");
        });
        cell.mailbox.suspend(true);
        // A child that waited for room or an answer here would wait for the restart, which waits
        // for the child.
        cell.let_actors_wait(self.ctx.children.is_empty());
        for child in self.ctx.children.values() {
            Arc::clone(child).stop_for(StopReason::Parent);
        }
        self.phase = Phase::Restarting;
        if let Some(supervised) = &mut self.supervised {
            supervised.revival += 1;
            if !pause.is_zero() && self.stop.is_none() {
                let number = supervised.revival;
                let revive = Task::new(Revive { cell: Arc::clone(cell), number });
                // If it is refused, the actor does not wait.
                let (registry, place) = (&cell.registry, supervised.place);
                supervised.pause = registry.arm_for(&cell.path, pause, revive, place);
                if supervised.pause.is_some() {
                    self.phase = Phase::Paused;
                }
            }
        }
    }

    /// The pause is over.
    fn revive(&mut self, cell: &Cells<A>) {
        self.end_pause();
        self.phase = Phase::Restarting;
        self.settle_restart(cell);
    }

    fn end_pause(&mut self) {
        if let Some(pause) = self.supervised.as_mut().and_then(|it| it.pause.take()) {
            pause.cancel();
        }
    }

    /// Restarts, if all children have stopped.
    fn settle_restart(&mut self, cell: &Cells<A>) -> bool {
        if !self.ctx.children.is_empty() {
            return false;
        }
        cell.let_actors_wait(true);
        cell.mailbox.suspend(false);
        self.start(cell);
        true
    }

    /// Ends without receiving what is queued.
    fn end(&mut self, cell: &Cells<A>, reason: StopReason) {
        self.ctx.closing = true;
        self.ctx.end_timers();
        self.end_pause();
        self.due.clear();
        self.escalated.clear();
        let accepted = cell.mailbox.close();
        cell.mailbox.suspend(false);
        for child in self.ctx.children.values() {
            if reason == StopReason::Killed {
                Arc::clone(child).signal(Signal::Kill(StopReason::Killed));
            } else {
                Arc::clone(child).stop_for(StopReason::Parent);
            }
        }
        self.phase = Phase::Ending { reason, accepted };
    }

    /// Moves on to the next phase if it is time: then `Some(true)`. `Some(false)` if this one has
    /// nothing to do but wait.
    fn settle(&mut self, turn: &TurnOf<'_, A>) -> Option<bool> {
        let cell = turn.cell();
        if !self.escalated.is_empty() {
            return None;
        }
        match self.phase {
            Phase::Unborn => {
                self.start(cell);
                Some(true)
            }
            Phase::Alive | Phase::Draining { .. } if self.ctx.stopping => {
                self.end(cell, StopReason::Itself);
                Some(true)
            }
            Phase::Alive => {
                let (at, reason) = self.stop?;
                if turn.position() < at || self.due_before_stop > 0 || self.ctx.has_unstashed() {
                    return None;
                }
                if !self.ctx.closing {
                    self.ctx.closing = true;
                    for child in self.ctx.children.values() {
                        Arc::clone(child).stop_for(StopReason::Parent);
                    }
                }
                if !self.ctx.children.is_empty() {
                    // It goes on while they end, because they may have messages for it.
                    return None;
                }
                if !std::mem::replace(&mut self.childless, true) {
                    // It learns of the ends that have arrived. Later ones do not delay its own end.
                    let last = self.due.iter().rposition(|(_, due)| matches!(due, Due::Gone(_)));
                    if let Some(last) = last {
                        self.due_before_stop = last + 1;
                        return None;
                    }
                }
                self.phase = Phase::Draining { reason, accepted: cell.mailbox.close() };
                Some(true)
            }
            Phase::Draining { reason, accepted } => {
                if turn.position() < accepted || self.ctx.has_unstashed() {
                    return None;
                }
                self.over(cell, reason);
                Some(true)
            }
            Phase::Restarting => Some(self.settle_restart(cell)),
            Phase::Paused => Some(false),
            Phase::Ending { reason, accepted } => {
                if turn.position() < accepted {
                    return None;
                }
                if !self.ctx.children.is_empty() {
                    return Some(false);
                }
                self.over(cell, reason);
                Some(true)
            }
            Phase::Over => Some(false),
        }
    }

    /// The end.
    fn over(&mut self, cell: &Cells<A>, reason: StopReason) {
        self.phase = Phase::Over;
        self.ctx.end_timers();
        if let Some(mut actor) = self.actor.take() {
            let ctx = &mut self.ctx;
            self_report(cell, contain(|| actor.stopped(reason, ctx)));
            self_report(cell, contain(|| drop(actor)));
        }
        // What the hook may have started.
        self.ctx.end_timers();
        self.ctx.unstash_all();
        while let Some(message) = self.ctx.next_unstashed(&mut None) {
            cell.bury(Undelivered::Stopped, message);
        }
        let factory = std::mem::replace(&mut self.factory, Factory::Once(None));
        self_report(cell, contain(|| drop(factory)));
        self.ctx.unwatch_all();
        quietly(|| {
            tracing::debug!(target: "mini_actor", actor = &*cell.path, %reason, "an actor stopped");
        });
        let resident: &dyn Resident = &**cell;
        // The name is free before anyone can learn of the end, and can be used again at once.
        cell.registry.leave(resident, reason);
        let watchers = resident.watchers().close(reason);
        for watcher in watchers {
            match watcher {
                Watcher::Actor(actor) => {
                    let path = Arc::clone(&cell.path);
                    actor.tell_end(Terminated { id: cell.id, path, reason });
                }
                Watcher::Other(tell) => self_report(cell, contain(|| tell(reason))),
            }
        }
        if let Some(parent) = self.parent.take() {
            parent.signal(Signal::ChildGone(cell.id));
        }
    }
}

/// Makes the next message a dead letter, in its span. Returns whether there was one.
#[cold]
#[inline(never)]
fn bury_next<M: Send + 'static>(turn: &Turn<'_, M>) -> bool {
    let mut span = None;
    let left = turn.pop_told(&mut span);
    let _inside = span.and_then(CapturedSpan::enter);
    left.map(|message| turn.cell().bury(Undelivered::Stopped, message)).is_some()
}

/// A panic that no longer changes anything.
fn self_report<M>(cell: &Arc<Cell<M>>, result: Result<(), String>) {
    if let Err(message) = result {
        let panic = Panic { path: Arc::clone(&cell.path), message };
        cell.registry.panicked(&panic, Directive::Resume);
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
        // The hint may have been taken back by an earlier look that came before the announcement.
        let mut signalled = cell.mailbox.is_signalled();
        let progress = loop {
            if std::mem::take(&mut signalled) || cell.lane.hint() {
                for signal in cell.take_signals() {
                    self.handle_signal(cell, signal);
                }
            }
            // Read before `settle` looks. The position may move on by itself, past a slot without a
            // message or by an eviction. What is due at a position that was not looked at needs
            // another activation.
            let seen = turn.position();
            let change = self.settle(turn);
            match change {
                Some(false) if self.phase == Phase::Over => break Progress::Gone,
                Some(false) => break Progress::Done(seen),
                Some(true) | None => {}
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
            if change.is_none() && !self.next(turn) {
                break Progress::Done(seen);
            }
            steps += 1;
        };
        if watched && steps != looked {
            turn.end_watch(steps.wrapping_sub(looked), reading.saturating_sub(steps));
        }
        progress
    }
}

/// The end of a pause.
struct Revive<M: Send + 'static> {
    cell: Arc<Cell<M>>,
    number: u64,
}

impl<M: Send + 'static> TaskBody for Revive<M> {
    fn run(self) {
        self.cell.send_signal(Signal::Revive(self.number));
    }
}
