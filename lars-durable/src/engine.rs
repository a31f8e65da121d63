//! The engine: one node of a group, as a value that is turned. It has no thread, no clock and no
//! I/O.
//!
//! Its inputs are calls, the store's replies, the ends of runs and the time. Its [outputs](Output)
//! are requests for the store, alarms for the wheel, runs to launch and answers to callers. A
//! thread turns it (`runtime`), or a simulation (`proof::simulation`), and neither can do anything
//! that the other cannot.
//!
//! # The journey of a timer
//!
//! ```text
//! call ── Schedule ──▶ stored ── Load ──▶ resident ── due - lead ──▶ ready
//!                        ▲                                             │ Start: a fence in the row
//!                        │ Finish: retry, next run                     ▼
//!            gone ◀── Finish ◀── running ◀── launched, at the deadline ── started
//! ```
//!
//! Only timers that are due within the window are resident; the watermark of each bucket says how
//! far it has been loaded. A timer that was missed, for whatever reason, is overdue and not in
//! memory: the sweep finds it. Correctness rests on the row's fence and on the sweep; everything
//! else is for speed.
//!
//! # Three lanes
//!
//! The *writer* carries the calls, the *runner* loads, starts and finishes timers, the *keeper*
//! renews the lease. Each has at most one batch in flight; requests that arrive meanwhile make up
//! the next one. That is group commit. A store with one connection serves all lanes in one
//! transaction.

mod clock;
mod close;
mod lane;
mod settings;

mod delays;

mod lease;
mod tenants;
mod window;

mod calls;
mod failures;
mod quarantine;
mod ready;
mod runs;

mod cancels;
mod history;
mod portion;
mod room;

mod launches;
mod runner;

use self::calls::Calls;
pub(crate) use self::calls::{Answer, CallId};
use self::clock::{ClockEstimate, Course};
use self::close::Closing;
pub(crate) use self::delays::Delay;
use self::delays::Delays;
pub(crate) use self::lane::Lane;
pub(crate) use self::launches::{Launch, RunEnd};
use self::lease::Lease;
use self::runner::Runner;
use self::runs::Runs;
#[cfg(test)]
pub(crate) use self::settings::LEAD;
pub(crate) use self::settings::{
    CALL_TIMEOUT, HandlerSettings, LEASE, MAX_IN_FLIGHT, MAX_RESIDENT, NodeSettings, WINDOW,
};
use self::window::Window;
use crate::error::Error;
#[cfg(test)]
use crate::model::NodeId;
use crate::model::{BucketNo, CancelReason, Fence, Ran, Row, TimerId};
use crate::store::{Committed, Letters, Request, StoreError};
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

/// What a node wants done.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) enum Output {
    /// A batch for the store, as one transaction; the answer goes to [`Node::replied`].
    Send { lane: Lane, requests: Vec<Request> },
    /// A turn at this instant: something is due.
    Alarm { at: Mono },
    /// A run, to be begun at its instant; its end goes to [`Node::ended`].
    Launch(Launch),
    /// Whoever has launched this run is told that it need not go on.
    Cancel { id: TimerId, fence: Fence, reason: CancelReason },
    /// The answer to a call.
    Answer { call: CallId, result: Result<Answer, Error> },
    /// It is recorded that a run was given up.
    Parked(Parked),
    /// Timers that are due within another node's window: to be announced to all nodes.
    Notify(Vec<(BucketNo, TimerId)>),
    /// Nothing may begin at this instant or later.
    ValidUntil(Mono),
    /// The node was declared dead. What was launched so far may not begin any more, whatever lease
    /// follows.
    BegunAnew,
    /// Whoever lives in this bucket for runs of up to this epoch has to go; at once, if it is
    /// `lost`.
    Vacate { bucket: BucketNo, epoch: u32, lost: bool },
    /// Runs of this epoch may bring somebody into this bucket again. It ends each
    /// [`Vacate`](Self::Vacate).
    Admit { bucket: BucketNo, epoch: u32 },
    /// The node has left. `abandoned` runs had not ended.
    Closed { abandoned: usize },
}

/// A run that was given up.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Parked {
    pub(crate) row: Arc<Row>,
    pub(crate) reason: String,
    /// It is one of a series, which goes on.
    pub(crate) goes_on: bool,
}

/// One node. A search through what may happen goes on from copies of it.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Node {
    settings: NodeSettings,
    /// Handlers with recipients.
    letters: Letters,
    rng: fastrand::Rng,
    clock: ClockEstimate,
    lease: Lease,
    calls: Calls,
    window: Window,
    runs: Runs,
    runner: Runner,
    tenants: tenants::Tenants,
    /// The last run whose row a sweep has looked at.
    looked_at: TimerId,
    /// Runs that are over, to be recorded.
    history: Vec<Ran>,
    closing: Closing,
    counts: Counts,
    tallies: Vec<HandlerCounts>,
    /// What was said of each handler's failures.
    failures: Vec<failures::Failures>,
    /// Why runs are late, if somebody wants to know.
    delays: Option<Delays>,
    out: Vec<Output>,
}

/// What a node has done since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) started: u64,
    pub(crate) done: u64,
    pub(crate) retried: u64,
    pub(crate) parked: u64,
    pub(crate) skipped: u64,
    pub(crate) stale: u64,
    pub(crate) quarantined: u64,
    pub(crate) pruned: u64,
    pub(crate) resident: usize,
    pub(crate) in_flight: usize,
}

/// What a node has done for one handler since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandlerCounts {
    pub(crate) name: Arc<str>,
    pub(crate) started: u64,
    pub(crate) done: u64,
    pub(crate) retried: u64,
    pub(crate) parked: u64,
}

impl Node {
    pub(crate) fn new(settings: NodeSettings, mut rng: fastrand::Rng, now: Mono) -> Self {
        let letters = settings.handlers.iter().filter(|handler| handler.recipient.is_some());
        let names = settings.handlers.iter().map(|handler| Arc::clone(&handler.name));
        Self {
            letters: letters.map(|handler| Arc::clone(&handler.name)).collect(),
            lease: Lease::new(&mut rng, settings.terms(), now),
            calls: Calls::new(&mut rng),
            window: Window::new(&settings),
            runs: Runs::new(&settings.handlers),
            runner: Runner::new(),
            tenants: tenants::Tenants::default(),
            looked_at: TimerId::MIN,
            history: Vec::new(),
            tallies: (settings.handlers.iter())
                .map(|handler| {
                    let name = Arc::clone(&handler.name);
                    HandlerCounts { name, started: 0, done: 0, retried: 0, parked: 0 }
                })
                .collect(),
            failures: vec![failures::Failures::default(); settings.handlers.len()],
            delays: settings.explains_late.then(|| Delays::new(names, now)),
            settings,
            rng,
            clock: ClockEstimate::default(),
            closing: Closing::default(),
            counts: Counts::default(),
            out: Vec::new(),
        }
    }

    /// Takes in the reply of the batch that `lane` has in flight.
    pub(crate) fn replied(&mut self, lane: Lane, now: Mono, result: Result<Committed, StoreError>) {
        self.is_now(now);
        let sent = match lane {
            Lane::Keeper => self.lease.answered(now, &result),
            Lane::Writer => self.calls.answered(now, &result),
            Lane::Runner => self.runner.answered(now, &result),
        };
        if let Ok(committed) = &result {
            self.observe(sent, now, committed.clock);
        }
        match lane {
            Lane::Keeper => self.kept(sent, now, result),
            Lane::Writer => self.written(sent, now, result),
            Lane::Runner => self.ran(sent, now, result),
        }
    }

    /// The store's clock showed `clock` at some instant between `sent` and `now`.
    pub(crate) fn observe(&mut self, sent: Mono, now: Mono, clock: Timestamp) {
        match self.clock.observe(sent, now, clock) {
            Course::Steady => {}
            Course::Jumped => self.window.forget_alarms(),
        }
    }

    /// Does all that is to be done at `now`. What comes of it is in
    /// [`take_outputs`](Self::take_outputs).
    pub(crate) fn turn(&mut self, now: Mono) {
        self.is_now(now);
        self.keep(now);
        self.write(now);
        self.run(now);
        self.vacate(now);
        self.tell_of_lease(now);
        self.close_down();
        self.set_alarms(now);
        self.note_delays(now);
    }

    /// For what has to know when something came to be known here.
    fn is_now(&mut self, now: Mono) {
        if let Some(delays) = &mut self.delays {
            delays.now = now;
        }
    }

    /// How far the local clock is at most ahead of the store's, if anything is known of it.
    pub(crate) fn clock_ahead(&self, now: Mono) -> Option<Micros> {
        self.clock.ahead(now)
    }

    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// When there is something to do, if nothing comes in before. What is due has alarms of its
    /// own.
    pub(crate) fn next_turn(&self) -> Mono {
        let next = self.next_keep().min(self.next_write()).min(self.next_run());
        next.min(self.next_vacate()).min(self.next_lapse())
    }

    pub(crate) fn counts(&self) -> Counts {
        let (resident, in_flight) = (self.window.len(), self.runs.in_flight());
        Counts { resident, in_flight, ..self.counts }
    }

    /// Under which the store knows this node, until it is declared dead.
    #[cfg(test)]
    pub(crate) fn identity(&self) -> NodeId {
        self.lease.node()
    }

    pub(crate) fn lease(&self) -> Micros {
        self.settings.lease
    }

    /// In the order of the handlers.
    pub(crate) fn handler_counts(&self) -> &[HandlerCounts] {
        &self.tallies
    }

    /// How many timers wait for a place of the handler in this place, and whether more are left in
    /// the store for want of memory.
    pub(crate) fn waiting(&self, place: usize) -> (usize, bool) {
        (self.runs.ready_of(place), self.window.leaves(place))
    }
}
