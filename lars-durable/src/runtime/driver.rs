//! The thread that turns the engine, and uses a store that has one session.
//!
//! With such a store, inputs gather in the inbox while a transaction is flushed, and the next turn
//! makes one batch of them. That does not delay runs: they are armed in the wheel, and begin on
//! the executor.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use lars_scheduler::Task;

use super::ending::Ending;
use super::inbox::{Input, Then};
#[cfg(feature = "postgres")]
use super::lanes::Lanes;
use super::{Handlers, Report, Run, Shared, contain};
use crate::engine::{CallId, Lane, Launch, Node, Output, RunEnd};
use crate::error::Error;
use crate::model::LOOK;
use crate::store::{Backend, Committed, Keep, Request, Store, StoreError};
use crate::sync::Arc;
use crate::time::{Mono, MonoClock, micros};

/// How long the thread sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How long a node that is closed tries to tell the store, after its runs have ended or were given
/// up.
const FAREWELL: Duration = Duration::from_secs(5);

/// Who carries batches out.
enum Sessions {
    /// This thread.
    One(Box<dyn Store>),
    /// A thread for each lane.
    #[cfg(feature = "postgres")]
    Lanes(Lanes),
}

pub(super) struct Driver {
    node: Node,
    store: Sessions,
    handlers: Handlers,
    shared: Arc<Shared>,
    clock: MonoClock,
    answers: HashMap<CallId, Then>,
    next_call: CallId,
    batches: Vec<(Lane, Vec<Request>)>,
    /// When what runs is given up, and when the node ends without having told the store.
    closing: Option<(Mono, Mono)>,
    closed: Option<usize>,
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
            #[cfg(feature = "postgres")]
            Backend::Lanes { keeper, writer, runner, looker, bell, .. } => {
                Sessions::Lanes(Lanes::start([keeper, writer, runner], looker, bell, &shared)?)
            }
        };
        Ok(Self {
            node,
            store,
            handlers,
            shared,
            clock,
            answers: HashMap::new(),
            next_call: 0,
            batches: Vec::new(),
            closing: None,
            closed: None,
        })
    }

    /// Runs until the node is closed; returns how many runs were given up.
    pub(super) fn run(mut self) -> usize {
        while self.closed.is_none() && !self.is_overdue() {
            let inputs = self.shared.inbox.take(self.patience());
            for input in inputs {
                self.take_in(input);
            }
            self.turn();
            if !self.batches.is_empty() {
                self.transact();
                self.turn();
                // Callers that have just been answered may call again: their calls go into the next
                // transaction, and not into the one after it.
                std::thread::yield_now();
            }
        }
        self.end()
    }

    /// Does all that is to be done now, on a store with one session. Says after how long there is
    /// something to do, if nothing comes in before; `None` when the node has ended.
    #[cfg(feature = "test-kit")]
    pub(super) fn step(&mut self) -> Option<Duration> {
        loop {
            let inputs = self.shared.inbox.take(None);
            let nothing = inputs.is_empty();
            for input in inputs {
                self.take_in(input);
            }
            self.turn();
            if self.closed.is_some() || self.is_overdue() {
                self.finish();
                return None;
            }
            if !self.batches.is_empty() {
                self.transact();
                self.turn();
            } else if nothing {
                return self.patience();
            }
        }
    }

    /// How long to wait for an input.
    fn patience(&self) -> Option<Duration> {
        if !self.batches.is_empty() {
            return None;
        }
        let mut next = self.node.next_turn();
        if let Some((give_up, end)) = self.closing {
            next = next.min(if give_up > self.clock.now() { give_up } else { end });
        }
        let left = next.0.saturating_sub(self.clock.now().0);
        Some(Duration::from_micros(u64::try_from(left).unwrap_or(0)).min(LONGEST_SLEEP))
    }

    fn take_in(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Call { write, then } => {
                self.next_call += 1;
                self.answers.insert(self.next_call, then);
                self.node.call(now, self.next_call, write);
            }
            Input::Look { then } => match &mut self.store {
                Sessions::One(store) => {
                    let look = store.look(LOOK);
                    if let Err(panic) = contain(|| then(look)) {
                        tracing::error!(target: "lars_durable", %panic, "a waker panicked");
                    }
                }
                #[cfg(feature = "postgres")]
                Sessions::Lanes(lanes) => lanes.look(then),
            },
            Input::Ended { id, fence, end } => self.node.ended(now, id, fence, end),
            #[cfg(any(feature = "postgres", feature = "actors"))]
            Input::Acknowledged { id, fence } => self.node.acknowledged(id, fence),
            #[cfg(feature = "actors")]
            Input::MovedIn { bucket, epoch } => self.node.moved_in(bucket, epoch),
            #[cfg(feature = "actors")]
            Input::MovedOut { bucket } => self.node.moved_out(bucket),
            Input::Alarm => {}
            #[cfg(feature = "postgres")]
            Input::Replied { lane, result } => {
                if let Err(error) = &result {
                    tracing::warn!(target: "lars_durable", %error, "a transaction failed");
                }
                self.node.replied(lane, now, result);
            }
            #[cfg(feature = "postgres")]
            Input::Near(timers) => self.node.notified(timers),
            #[cfg(feature = "postgres")]
            Input::Free => self.node.renew_soon(now),
            #[cfg(feature = "postgres")]
            Input::Deaf => self.node.sweep_soon(now),
            Input::Close { limit } => {
                self.node.close();
                let give_up = now.plus(micros(limit));
                let first = self.closing.map_or(give_up, |(earlier, _)| earlier.min(give_up));
                self.closing = Some((first, first.plus(micros(FAREWELL))));
            }
        }
    }

    fn turn(&mut self) {
        let now = self.clock.now();
        if let Some(clock) = self.shared.gate.local_store_now() {
            self.node.observe(now, now, clock);
        }
        if self.closing.is_some_and(|(give_up, _)| give_up <= now) {
            self.node.abandon();
        }
        self.node.turn(now);
        // Before the answers, so that a caller finds its call counted.
        *self.shared.counts.lock() = self.node.counts();
        #[cfg(feature = "postgres")]
        self.shared.gate.set_ahead(self.node.clock_ahead(now));
        for output in self.node.take_outputs() {
            match output {
                Output::Send { lane, mut requests } => {
                    self.fill_report(&mut requests);
                    match &self.store {
                        Sessions::One(_) => self.batches.push((lane, requests)),
                        #[cfg(feature = "postgres")]
                        Sessions::Lanes(lanes) => lanes.send(lane, requests),
                    }
                }
                Output::Alarm { at } => self.set_alarm(now, at),
                Output::Launch(launch) => self.launch(now, launch),
                Output::Answer { call, result } => {
                    if let Some(then) = self.answers.remove(&call) {
                        self.shared.answered();
                        // A waker that panics is its owner's problem, and not that of the others.
                        if let Err(panic) = contain(|| then(result)) {
                            tracing::error!(target: "lars_durable", %panic, "a waker panicked");
                        }
                    }
                }
                Output::ValidUntil(until) => self.shared.gate.set_valid_until(until),
                Output::BegunAnew => self.shared.gate.begin_anew(),
                Output::Notify(timers) => match &self.store {
                    // One owner: the only node that there is to be told is this one.
                    Sessions::One(_) => self.node.notified(timers),
                    #[cfg(feature = "postgres")]
                    Sessions::Lanes(lanes) => {
                        if let Some(bell) = lanes.bell() {
                            bell.near(timers);
                        }
                    }
                },
                #[cfg(feature = "actors")]
                Output::Vacate { bucket, epoch, lost } => {
                    for handler in &*self.handlers {
                        handler.vacate(bucket, epoch, lost);
                    }
                }
                #[cfg(feature = "actors")]
                Output::Admit { bucket, epoch } => {
                    for handler in &*self.handlers {
                        handler.admit(bucket, epoch);
                    }
                }
                Output::Closed { abandoned } => self.closed = Some(abandoned),
            }
        }
    }

    /// What the node says of itself goes with its renewal.
    fn fill_report(&self, requests: &mut [Request]) {
        if let [Request::Keep(Keep::Renew { report, .. })] = requests {
            let said = Report::of(&self.shared, self.node.handler_counts(), self.node.lease());
            *report = serde_json::to_string(&said).ok().map(Arc::from);
        }
    }

    /// All lanes in one transaction.
    fn transact(&mut self) {
        #[cfg_attr(not(feature = "postgres"), expect(irrefutable_let_patterns))]
        let Sessions::One(store) = &mut self.store else { return };
        let batches = std::mem::take(&mut self.batches);
        let lanes: Vec<(Lane, usize)> =
            batches.iter().map(|(lane, requests)| (*lane, requests.len())).collect();
        let requests: Vec<Request> =
            batches.into_iter().flat_map(|(_, requests)| requests).collect();
        let result = store.transact(&requests);
        let now = self.clock.now();
        match result {
            Ok(Committed { clock, replies }) => {
                let mut replies = replies.into_iter();
                for (lane, count) in lanes {
                    let replies = replies.by_ref().take(count).collect();
                    self.node.replied(lane, now, Ok(Committed { clock, replies }));
                }
            }
            Err(error) => {
                tracing::warn!(target: "lars_durable", %error, "a transaction failed");
                for (lane, _) in lanes {
                    self.node.replied(lane, now, Err(error.clone()));
                }
            }
        }
    }

    fn set_alarm(&self, now: Mono, at: Mono) {
        let shared = Arc::clone(&self.shared);
        let alarm = Task::new(move || drop(shared.push(Input::Alarm))).inline();
        // A wheel that has stopped belongs to a node that is ending.
        drop(self.shared.timers.schedule_once(until(now, at), alarm));
    }

    fn launch(&self, now: Mono, launch: Launch) {
        let (shared, handlers) = (Arc::clone(&self.shared), Arc::clone(&self.handlers));
        let (at, short) = (launch.at, self.handlers[launch.handler].is_short());
        let ending = Ending::new(Arc::clone(&shared), launch.row.id, launch.fence);
        let lease = shared.gate.lease();
        let begin = move || {
            if shared.gate.opens(launch.row.deadline, launch.deleted, &lease) {
                let handler = launch.handler;
                shared.began(handler, launch.row.deadline);
                handlers[handler].run(Run { launch, ending, lease, shared });
            } else {
                ending.say(RunEnd::NotBegun);
            }
        };
        // If it is refused, it is dropped, and its ending says so.
        if short {
            drop(self.shared.timers.schedule_once(until(now, at), Task::new(begin).inline()));
        } else {
            drop(self.shared.timers.schedule_once(until(now, at), begin));
        }
    }

    fn is_overdue(&self) -> bool {
        self.closing.is_some_and(|(_, end)| end <= self.clock.now())
    }

    fn end(mut self) -> usize {
        self.finish();
        self.closed.unwrap_or_else(|| self.node.counts().in_flight)
    }

    fn finish(&mut self) {
        for input in self.shared.inbox.end() {
            match input {
                Input::Call { then, .. } => then(Err(crate::error::Refused::Closed.into())),
                Input::Look { then } => {
                    let reason = "the node was closed".into();
                    then(Err(StoreError { reason, unknown: false }));
                }
                _ => {}
            }
        }
        for (_, then) in self.answers.drain() {
            let reason = "the node was closed before the store answered".into();
            then(Err(Error::OutcomeUnknown { reason }));
        }
    }
}

fn until(now: Mono, at: Mono) -> Duration {
    Duration::from_micros(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0))
}
