//! The thread that turns the engine, and uses a store that has one session.
//!
//! With such a store, inputs gather in the inbox while a transaction is flushed, and the next turn
//! makes one batch of them. That does not delay runs: they are armed in the wheel, and begin on
//! the executor.
//!
//! ```text
//!   inbox ─▶ take_in ─▶ node ─ turn ─▶ outputs ─┬▶ the store, at once or by a lane's thread
//!                        ▲                      ├▶ the wheel: alarms, and runs
//!                        └──── replied ─────────┴▶ callers, and the gate
//! ```
//!
//! Only this thread touches the node. Whatever runs elsewhere reaches it through the inbox:
//! callers, lanes, alarms, the ends of runs. What a waker or a handler does here is contained,
//! because a panic would end the node for everybody.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use lars_scheduler::Task;

use super::ending::Ending;
use super::explain::Way;
use super::gate::Lease;
use super::inbox::{Input, Then};
use super::lanes::Lanes;
use super::{Handlers, Report, Run, Shared, Signal, contain};
use crate::engine::{Answer, CallId, Lane, Launch, Node, Output, Parked, RunEnd};
use crate::error::Error;
use crate::model::{CancelReason, Fence, TimerId};
use crate::store::{Backend, Committed, Keep, Request, Store, StoreError};
use crate::sync::Arc;
use crate::time::{Micros, Mono, MonoClock};

/// How long the thread sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How long after the limit of a close the node tries to tell the store how its runs have ended,
/// and that it leaves.
const FAREWELL: Micros = Micros::SECOND.times(5);

/// How often a store that others use is asked what they have made, if nothing else is asked of it.
const LOOK_FOR_OTHERS: Micros = Micros::MILLISECOND.times(100);

/// For how long the callers of a batch are waited for to call again: a part of the time that their
/// batch took, if that is worth a sleep, and at most so long.
const GATHER_PART: i64 = 8;
const GATHER_LEAST: Micros = Micros(20);
const GATHER_MOST: Micros = Micros(250);

/// After more calls than that, none are waited for: so many cannot call again in a moment, and the
/// store had better work while they are told.
const GATHER_CALLS: usize = 64;

/// How many timers that others have made are taken at once, and how soon the next.
const OTHERS: usize = 1_000;
const MORE_OTHERS: Micros = Micros::MILLISECOND.times(5);

/// Who carries batches out.
enum Sessions {
    /// This thread.
    One(Box<dyn Store>),
    /// A thread for each lane.
    Lanes(Lanes),
}

/// How long a node takes to close, at most.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    /// Then what runs is given up.
    give_up: Mono,
    /// Then the node ends, although it has not told the store.
    end: Mono,
}

/// What a turn without a thread leaves to do.
#[cfg(feature = "test-kit")]
#[must_use]
pub(super) enum Step {
    /// Something after this long, if nothing comes in before.
    Waits(Duration),
    /// Nothing: the node has ended.
    Ended,
}

/// A run that is about to begin.
pub(super) struct Begin {
    launch: Launch,
    ending: Ending,
    lease: Lease,
    shared: Arc<Shared>,
    handlers: Handlers,
    way: Way,
}

impl Begin {
    /// On a thread of the executor: this one, if its handler has it, and then what waits for it.
    fn on_its_thread(mut self) {
        let shared = Arc::clone(&self.shared);
        self.way = Way::here(&shared);
        let mut place = self.launch.handler;
        let waits = |begin: &mut Self, most| begin.way.wait(&shared, most);
        let mut next = shared.threads.enter(place, self, waits);
        while let Some(begin) = next.take() {
            if let Err(panic) = contain(|| begin.now()) {
                tracing::error!(target: "lars_durable", %panic, "a run panicked");
            }
            if let Some((whose, begin)) = shared.threads.leave(place) {
                (place, next) = (whose, Some(begin));
            }
        }
    }

    /// Unless it is too late, or too early.
    fn now(self) {
        let Self { launch, ending, lease, shared, handlers, way } = self;
        if shared.gate.opens(launch.row.deadline, launch.deleted, &lease) {
            let handler = launch.handler;
            shared.began(&launch, way);
            handlers[handler].run(Run { launch, ending, lease, shared });
        } else {
            ending.say(RunEnd::NotBegun);
        }
    }
}

/// See the module's documentation.
pub(super) struct Driver {
    node: Node,
    store: Sessions,
    handlers: Handlers,
    shared: Arc<Shared>,
    clock: MonoClock,
    /// Who waits for the answer of which call.
    answers: HashMap<CallId, Then>,
    next_call: CallId,
    /// What was launched, and has not ended.
    running: HashMap<TimerId, (Fence, Arc<Signal>)>,
    /// For a store with one session: they go together.
    batches: Vec<(Lane, Vec<Request>)>,
    /// When the last batch with calls was sent, and how many it had.
    sent: Mono,
    sent_calls: usize,
    closing: Option<Deadlines>,
    /// Whether the last transaction of each lane has failed.
    failing: [bool; 3],
    /// How many have failed since none did.
    failed: u64,
    /// The node has left, and had given up so many runs.
    closed: Option<usize>,
    /// When the store is asked what others have made.
    next_look: Mono,
    /// What is said to callers whose calls the store has not answered by then.
    last_words: String,
}

/// How many of these requests are calls.
fn calls_in(requests: &[Request]) -> usize {
    requests.iter().filter(|request| matches!(request, Request::Write(_))).count()
}

impl Driver {
    pub(super) fn new(
        node: Node,
        backend: Backend,
        handlers: Handlers,
        shared: Arc<Shared>,
        clock: MonoClock,
    ) -> io::Result<Self> {
        let store = match backend {
            Backend::One { store, .. } => Sessions::One(store),
            Backend::Lanes { keeper, writer, runner, bell, .. } => {
                Sessions::Lanes(Lanes::start([keeper, writer, runner], bell, &shared)?)
            }
        };
        let shared_store = matches!(&store, Sessions::One(store) if store.is_shared());
        let next_look = if shared_store { clock.now() } else { Mono::NEVER };
        Ok(Self {
            next_look,
            node,
            store,
            handlers,
            shared,
            clock,
            answers: HashMap::new(),
            next_call: 0,
            running: HashMap::new(),
            batches: Vec::new(),
            sent: Mono::MIN,
            sent_calls: 0,
            closing: None,
            failing: [false; 3],
            failed: 0,
            closed: None,
            last_words: "the node was closed before the store answered".into(),
        })
    }

    /// Runs until the node is closed; returns how many runs were given up.
    pub(super) fn run(&mut self) -> usize {
        while self.closed.is_none() && !self.is_overdue() {
            let inputs = self.shared.inbox.take(self.patience());
            let mut written = false;
            // Nothing else is held up.
            let mut only = true;
            for input in inputs {
                match &input {
                    Input::Call { .. } => {}
                    Input::Replied { lane: Lane::Writer, .. } => written = true,
                    _ => only = false,
                }
                self.take_in(input);
            }
            if written && only {
                self.gather();
            }
            self.look_for_others();
            self.turn();
            if !self.batches.is_empty() {
                let written = self.batches.iter().all(|(lane, _)| *lane == Lane::Writer);
                self.sent = self.clock.now();
                self.sent_calls = self.batches.iter().map(|(_, requests)| calls_in(requests)).sum();
                self.transact();
                if written {
                    self.gather();
                }
                self.turn();
            }
        }
        self.end()
    }

    /// Tells the callers of a batch what it did, and waits a moment until they have called again:
    /// then their calls go into the next batch, and not into the one after it. Without that, eight
    /// callers soon go four by four. Whatever else comes ends the moment. After a large batch none
    /// are waited for.
    fn gather(&mut self) {
        if self.sent_calls > GATHER_CALLS {
            return;
        }
        let now = self.clock.now();
        let before = self.answers.len();
        self.carry_out(now);
        let answered = before - self.answers.len();
        let moment = ((now - self.sent) / GATHER_PART).min(GATHER_MOST);
        if answered > 1 && moment >= GATHER_LEAST {
            self.shared.inbox.wait_for_calls(answered, moment.to_duration());
            for input in self.shared.inbox.take(Duration::ZERO) {
                self.take_in(input);
            }
        }
    }

    /// Does all that is to be done now, on a store with one session.
    #[cfg(feature = "test-kit")]
    pub(super) fn step(&mut self) -> Step {
        loop {
            let inputs = self.shared.inbox.take(Duration::ZERO);
            let nothing = inputs.is_empty();
            for input in inputs {
                self.take_in(input);
            }
            self.turn();
            if self.closed.is_some() || self.is_overdue() {
                self.finish();
                return Step::Ended;
            }
            if !self.batches.is_empty() {
                self.transact();
                self.turn();
            } else if nothing {
                return Step::Waits(self.patience());
            }
        }
    }

    /// How long to wait for an input.
    fn patience(&self) -> Duration {
        if !self.batches.is_empty() {
            return Duration::ZERO;
        }
        let mut next = self.node.next_turn().min(self.next_look);
        if let Some(Deadlines { give_up, end }) = self.closing {
            next = next.min(if give_up > self.clock.now() { give_up } else { end });
        }
        (next - self.clock.now()).to_duration().min(LONGEST_SLEEP)
    }

    /// Passes an input on. What comes of it is done in the next turn.
    fn take_in(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Call { write, then } => {
                self.next_call += 1;
                self.answers.insert(self.next_call, then);
                self.node.call(now, self.next_call, write);
            }
            Input::Ended { id, fence, end } => {
                if self.running.get(&id).is_some_and(|(of, _)| *of == fence) {
                    self.running.remove(&id);
                }
                self.node.ended(now, id, fence, end);
            }
            Input::Acknowledged { id, fence } => self.node.acknowledged(id, fence),
            Input::Handled { id, fence } => self.node.handled(id, fence),
            Input::MovedIn { bucket, epoch } => self.node.moved_in(bucket, epoch),
            Input::MovedOut { bucket } => self.node.moved_out(bucket),
            Input::Alarm => {}
            Input::Replied { lane, result } => {
                self.heard(lane, result.as_ref().map(|_| ()));
                self.node.replied(lane, now, result);
            }
            Input::Near(timers) => self.node.notified(timers),
            Input::Free => self.node.renew_soon(now),
            Input::Deaf => self.node.sweep_soon(now),
            Input::Close { limit } => {
                self.node.close();
                self.tell_all(CancelReason::Closing);
                // These need not wait for a thread to learn that it is too late.
                for begin in self.shared.threads.take_waiting(|begin| begin.launch.deleted) {
                    begin.ending.say(RunEnd::NotBegun);
                }
                let give_up = now + limit.into();
                let earlier = self.closing.map_or(give_up, |earlier| earlier.give_up);
                let give_up = give_up.min(earlier);
                self.closing = Some(Deadlines { give_up, end: (give_up + FAREWELL) });
            }
        }
    }

    /// Others may have made timers in the store, and do not tell this node. Or they keep its log
    /// from being taken over.
    fn look_for_others(&mut self) {
        let now = self.clock.now();
        let Sessions::One(store) = &mut self.store else { return };
        if now < self.next_look {
            return;
        }
        self.shared.set_log_bytes(store.log_bytes());
        let made = store.made_by_others(OTHERS);
        self.next_look = now + if made.len() < OTHERS { LOOK_FOR_OTHERS } else { MORE_OTHERS };
        // Such a store has one bucket.
        self.node.notified(made.into_iter().map(|id| (0, id)));
    }

    /// Turns the node, and carries out what it wants done.
    fn turn(&mut self) {
        let now = self.clock.now();
        if let Some(clock) = self.shared.gate.local_store_now() {
            self.node.observe(now, now, clock);
        }
        if self.closing.is_some_and(|closing| closing.give_up <= now) {
            self.node.abandon();
        }
        self.node.turn(now);
        self.carry_out(now);
    }

    /// Carries out what the node wants done.
    fn carry_out(&mut self, now: Mono) {
        // Before the answers, so that a caller finds its call counted.
        *self.shared.counts.lock() = self.node.counts();
        self.shared.gate.set_ahead(self.node.clock_ahead(now));
        let mut outputs = self.node.take_outputs();
        // The store works on the next batch of calls while the callers of this one are told.
        let writes = |output: &Output| matches!(output, Output::Send { lane: Lane::Writer, .. });
        if let Some(place) = outputs.iter().position(writes) {
            outputs[..=place].rotate_right(1);
        }
        for output in outputs {
            match output {
                Output::Send { lane, mut requests } => {
                    self.fill_report(&mut requests);
                    match &self.store {
                        Sessions::One(_) => self.batches.push((lane, requests)),
                        Sessions::Lanes(lanes) => {
                            if lane == Lane::Writer {
                                (self.sent, self.sent_calls) = (now, calls_in(&requests));
                            }
                            lanes.send(lane, requests);
                        }
                    }
                }
                Output::Alarm { at } => self.set_alarm(now, at),
                Output::Launch(launch) => self.launch(now, launch),
                Output::Cancel { id, fence, reason } => {
                    if let Some((of, signal)) = self.running.get(&id)
                        && *of == fence
                    {
                        signal.tell(reason);
                    }
                }
                Output::Answer { call, result } => {
                    if let Some(then) = self.answers.remove(&call) {
                        self.shared.answered();
                        answer(then, result);
                    }
                }
                Output::ValidUntil(until) => self.shared.gate.set_valid_until(until),
                Output::BegunAnew => self.shared.gate.begin_anew(),
                Output::Notify(timers) => match &self.store {
                    // One owner: the only node that there is to be told is this one.
                    Sessions::One(_) => self.node.notified(timers),
                    Sessions::Lanes(lanes) => lanes.announce(timers),
                },
                Output::Vacate { bucket, epoch, lost } => {
                    for handler in &*self.handlers {
                        handler.vacate(bucket, epoch, lost);
                    }
                }
                Output::Admit { bucket, epoch } => {
                    for handler in &*self.handlers {
                        handler.admit(bucket, epoch);
                    }
                }
                Output::Parked(parked) => self.tell_parked(parked),
                Output::Closed { abandoned } => self.closed = Some(abandoned),
            }
        }
    }

    /// Foreign code, and so not on this thread.
    fn tell_parked(&self, parked: Parked) {
        let Some(told) = self.shared.on_parked.clone() else { return };
        let telling = self.shared.telling.begin();
        let tell = move || {
            if let Err(panic) = telling.tell(|| told(&parked)) {
                tracing::error!(target: "lars_durable", %panic, "`on_parked` panicked");
            }
        };
        // A wheel that has stopped belongs to a node that is ending.
        drop(self.shared.timers.schedule_once(Duration::ZERO, tell));
    }

    /// A transaction has failed, or has not. An outage is said once, whichever lanes meet it, and
    /// that it is over.
    fn heard(&mut self, lane: Lane, result: Result<(), &StoreError>) {
        let away = self.failing.contains(&true);
        match result {
            Err(error) => {
                if away {
                    tracing::debug!(target: "lars_durable", %error, "a transaction failed");
                } else {
                    tracing::warn!(target: "lars_durable", %error, "a transaction failed");
                }
                self.failing[lane as usize] = true;
                self.failed += 1;
            }
            Ok(()) => {
                self.failing[lane as usize] = false;
                // Nobody sends a call again that has failed, and there may be no other for long.
                if lane == Lane::Keeper {
                    self.failing[Lane::Writer as usize] = false;
                }
                if away && !self.failing.contains(&true) {
                    let failed = std::mem::take(&mut self.failed);
                    tracing::info!(target: "lars_durable", failed, "the store answers again");
                }
            }
        }
    }

    /// What the node says of itself goes with its renewal.
    fn fill_report(&self, requests: &mut [Request]) {
        if let [Request::Keep(Keep::Renew { report, .. })] = requests {
            let said = Report::of(&self.shared, &self.node);
            *report = serde_json::to_string(&said).ok().map(Arc::from);
        }
    }

    /// All lanes in one transaction.
    fn transact(&mut self) {
        let Sessions::One(store) = &mut self.store else { return };
        let batches = std::mem::take(&mut self.batches);
        let lanes: Vec<(Lane, usize)> =
            batches.iter().map(|(lane, requests)| (*lane, requests.len())).collect();
        let requests: Vec<Request> =
            batches.into_iter().flat_map(|(_, requests)| requests).collect();
        let result = store.transact(&requests);
        let store_is_lost = store.is_lost();
        let now = self.clock.now();
        // All lanes, under the name of one.
        self.heard(Lane::Keeper, result.as_ref().map(|_| ()));
        match result {
            Ok(Committed { clock, replies }) => {
                let mut replies = replies.into_iter();
                for (lane, count) in lanes {
                    let replies = replies.by_ref().take(count).collect();
                    self.node.replied(lane, now, Ok(Committed { clock, replies }));
                }
            }
            Err(error) => {
                if store_is_lost {
                    return self.lose_store(error.reason);
                }
                for (lane, _) in lanes {
                    self.node.replied(lane, now, Err(error.clone()));
                }
            }
        }
    }

    /// Another process owns the timers now, and runs them. So nothing begins here any more, and the
    /// node ends.
    fn lose_store(&mut self, reason: String) {
        tracing::error!(target: "lars_durable", %reason, "the node has ended");
        self.shared.lose_store();
        self.tell_all(CancelReason::LeaseLost);
        for handler in &*self.handlers {
            handler.vacate(0, u32::MAX, true);
        }
        self.closed = Some(self.node.counts().in_flight);
        self.last_words = reason;
    }

    /// A turn at this instant.
    fn set_alarm(&self, now: Mono, at: Mono) {
        let shared = Arc::clone(&self.shared);
        let alarm = Task::new(move || drop(shared.push(Input::Alarm))).inline();
        // A wheel that has stopped belongs to a node that is ending.
        drop(self.shared.timers.schedule_once(until(now, at), alarm));
    }

    /// Arms a run in the wheel. The gate decides when it is about to begin.
    fn launch(&mut self, now: Mono, launch: Launch) {
        let (shared, handlers) = (Arc::clone(&self.shared), Arc::clone(&self.handlers));
        let (at, short) = (launch.at, self.handlers[launch.handler].is_short());
        let (id, fence, signal) = (launch.row.id, launch.fence, Arc::<Signal>::default());
        if let Some(reason) = launch.told.or(self.closing.map(|_| CancelReason::Closing)) {
            signal.tell(reason);
        }
        self.running.insert(id, (fence, Arc::clone(&signal)));
        let ending = Ending::new(Arc::clone(&shared), id, fence, signal);
        let lease = shared.gate.lease();
        let begin = Begin { launch, ending, lease, shared, handlers, way: Way::Wheel };
        // If it is refused, it is dropped, and its ending says so.
        if short {
            let begin = Task::new(move || begin.now()).inline();
            drop(self.shared.timers.schedule_once(until(now, at), begin));
        } else {
            let begin = move || begin.on_its_thread();
            drop(self.shared.timers.schedule_once(until(now, at), begin));
        }
    }

    /// Tells all that run that they need not go on.
    fn tell_all(&self, reason: CancelReason) {
        for (_, signal) in self.running.values() {
            signal.tell(reason);
        }
    }

    /// Whether the node has to end without having told the store.
    fn is_overdue(&self) -> bool {
        self.closing.is_some_and(|closing| closing.end <= self.clock.now())
    }

    fn end(&mut self) -> usize {
        self.finish();
        self.closed.unwrap_or_else(|| self.node.counts().in_flight)
    }

    /// Nobody is left without an answer.
    fn finish(&mut self) {
        self.shared.looks.end();
        for input in self.shared.inbox.end() {
            if let Input::Call { then, .. } = input {
                answer(then, Err(self.shared.why_ended().into()));
            }
        }
        drop(self.shared.threads.end());
        for (_, then) in self.answers.drain() {
            answer(then, Err(Error::OutcomeUnknown { reason: self.last_words.clone() }));
        }
    }
}

/// A waker that panics is its owner's problem, and not that of the others.
fn answer(then: Then, result: Result<Answer, Error>) {
    if let Err(panic) = contain(|| then(result)) {
        tracing::error!(target: "lars_durable", %panic, "a waker panicked");
    }
}

fn until(now: Mono, at: Mono) -> Duration {
    (at - now).to_duration()
}
