//! The runner: starts due timers, as far as there are places for them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::lane::LaneState;
use super::settings::PUT_OFF;
use super::window::{Key, LoadOrder, Resident};
use super::{Lane, Node, NodeSettings, Output};
use crate::model::{BucketNo, Fence, Finish, Row, Start, TimerId};
use crate::store::{Committed, Reply, Request, StoreError};
use crate::sync::Arc;
use crate::time::Mono;

/// After this long without a handler it is parked.
const UNKNOWN_FOR: i64 = 14 * 86_400_000_000;

/// A run that is recorded is begun within this time, or given back.
pub(super) const LONGEST_WAIT: i64 = 1_000_000;

/// What is overdue by more than this, and is not here, was missed.
const SWEEP_GRACE: i64 = 1_000_000;

/// How long after a failed try the finish of a row that somebody holds is tried again.
const HELD: i64 = 500_000;

/// A sweep takes at most this part of the runner's time.
const SWEEP_SHARE: i64 = 40;

/// The longest pause between two sweeps, however slow they are.
const LONGEST_SWEEP: i64 = 10_000_000;

/// A run to be begun.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) row: Arc<Row>,
    #[cfg(feature = "actors")]
    pub(crate) bucket: BucketNo,
    pub(crate) fence: Fence,
    /// The handler's place in the settings.
    pub(crate) handler: usize,
    pub(crate) at: Mono,
    /// The row is gone: whatever happens, this is its only run.
    pub(crate) deleted: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Done,
    Retry {
        error: String,
    },
    RetryAfter {
        micros: i64,
        error: String,
    },
    Park {
        reason: String,
    },
    /// It has not happened, and is put off by this many microseconds.
    #[cfg(feature = "actors")]
    GiveBack {
        micros: i64,
    },
    /// Its payload is newer than the handler: another node may know it.
    TooNew,
    /// It did not begin: it was too early, or the lease had ended, or the node is closing.
    NotBegun,
}

#[derive(Debug)]
pub(super) struct Runs {
    pub(super) lane: LaneState,
    /// What the lane has in flight. After a failure the same is sent again: each request can be
    /// repeated.
    sent: Vec<(Request, Asked)>,
    /// Due, and waiting to be started: by handler, in the order of (due, id).
    ready: Vec<BTreeMap<Key, Resident>>,
    /// Due, and without a handler on this node.
    unknown: Vec<(Key, Resident)>,
    /// Started by an owner that died: one at a time.
    quarantine: BTreeMap<Key, Resident>,
    pub(super) in_quarantine: Option<TimerId>,
    /// From the request to start until the finish is recorded.
    pub(super) runs: HashMap<TimerId, Run>,
    /// How many of them each handler has that have not ended.
    pub(super) busy: Vec<usize>,
    pub(super) finishes: VecDeque<Finish>,
    /// Finishes of rows that somebody holds, and when they are tried again.
    held_finishes: (Vec<Finish>, Mono),
    /// Identities that another node says are near.
    notified: Vec<TimerId>,
    ramp_from: Mono,
    next_sweep: Mono,
    pub(super) next_full_sweep: Mono,
    /// Nothing can be started before this, although something is ready.
    blocked_until: Mono,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: Key,
    pub(super) resident: Resident,
    pub(super) fence: Fence,
    pub(super) handler: usize,
    pub(super) stage: Stage,
    /// The handler has recorded its end itself, perhaps.
    pub(super) acknowledged: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The request to start it is on its way.
    Starting,
    /// It is recorded, and waits for the lease.
    Held(Arc<Row>),
    Running(Arc<Row>),
    /// Deleted before it runs: what the finish says does not matter to the run.
    Deleting(Arc<Row>),
    /// It has ended, or was never begun; the finish is on its way.
    Finishing,
}

/// What a request of the runner was for.
#[derive(Debug)]
enum Asked {
    Start(Vec<TimerId>),
    Finish,
    PutOff(Vec<(Key, Resident)>),
    Park,
    Load(LoadOrder),
    Read,
    Other,
}

impl Runs {
    pub(super) fn new(settings: &NodeSettings) -> Self {
        let handlers = settings.handlers.len();
        Self {
            lane: LaneState::new(),
            sent: Vec::new(),
            ready: vec![BTreeMap::new(); handlers],
            unknown: Vec::new(),
            quarantine: BTreeMap::new(),
            in_quarantine: None,
            runs: HashMap::new(),
            busy: vec![0; handlers],
            finishes: VecDeque::new(),
            held_finishes: (Vec::new(), Mono::NEVER),
            notified: Vec::new(),
            ramp_from: Mono(0),
            next_sweep: Mono(0),
            next_full_sweep: Mono(0),
            blocked_until: Mono(0),
        }
    }

    /// How many timers are here and not resident.
    pub(super) fn len(&self) -> usize {
        let ready: usize = self.ready.iter().map(BTreeMap::len).sum();
        ready + self.unknown.len() + self.quarantine.len() + self.runs.len()
    }

    /// Whether nothing runs, and nothing waits to be recorded.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty()
            && self.finishes.is_empty()
            && self.held_finishes.0.is_empty()
            && self.sent.is_empty()
    }

    pub(super) fn holds(&self, id: TimerId) -> bool {
        self.runs.contains_key(&id)
    }

    pub(super) fn is_ready(&self, key: Key, resident: Resident) -> bool {
        match self.ready.get(usize::from(resident.name)) {
            Some(ready) => ready.contains_key(&key),
            None => self.unknown.iter().any(|(other, _)| *other == key),
        }
    }

    /// Buckets in which something runs.
    pub(super) fn buckets(&self) -> BTreeSet<BucketNo> {
        self.runs.values().map(|run| run.resident.bucket).collect()
    }

    pub(super) fn quarantine(&mut self, key: Key, resident: Resident) {
        self.quarantine.insert(key, resident);
    }

    /// A row is held by a transaction that may take long, such as one of a user.
    pub(super) fn hold_finish(&mut self, now: Mono, finish: Finish) {
        let (held, again) = &mut self.held_finishes;
        held.push(finish);
        *again = (*again).min(now.plus(HELD));
    }

    fn release_held(&mut self, now: Mono) {
        let (held, again) = &mut self.held_finishes;
        if *again <= now {
            *again = Mono::NEVER;
            self.finishes.extend(held.drain(..));
        }
    }

    pub(super) fn ramp_from(&mut self, now: Mono) {
        (self.ramp_from, self.next_sweep) = (now, now);
        self.next_full_sweep = now;
    }

    /// Forgets a timer that was cancelled before it started.
    pub(super) fn forget(&mut self, key: Key) {
        for ready in &mut self.ready {
            ready.remove(&key);
        }
    }

    pub(super) fn notified(&mut self, ids: impl IntoIterator<Item = TimerId>) {
        self.notified.extend(ids);
    }

    /// Gives up all runs that have not ended.
    pub(super) fn abandon(&mut self) -> Vec<(TimerId, Fence)> {
        let mut abandoned = Vec::new();
        for (id, run) in &mut self.runs {
            match run.stage {
                Stage::Held(_) | Stage::Running(_) => {
                    run.stage = Stage::Finishing;
                    self.busy[run.handler] -= 1;
                    abandoned.push((*id, run.fence));
                }
                Stage::Starting | Stage::Deleting(_) | Stage::Finishing => {}
            }
        }
        abandoned
    }
}

impl Node {
    pub(super) fn next_run(&self) -> Mono {
        let runs = &self.runs;
        let wanted = if !runs.sent.is_empty() || !runs.finishes.is_empty() {
            Mono(i64::MIN)
        } else if self.closing.is_closing() {
            runs.held_finishes.1
        } else if !runs.notified.is_empty() {
            Mono(i64::MIN)
        } else {
            // An estimate of the clock that is a little old makes the load a little late.
            let load = self.next_load(runs.next_sweep);
            runs.blocked_until.min(runs.next_sweep).min(runs.held_finishes.1).min(load)
        };
        runs.lane.next(wanted)
    }

    /// Timers may have come that nobody told this node of.
    #[cfg(feature = "postgres")]
    pub(crate) fn sweep_soon(&mut self, now: Mono) {
        self.runs.next_sweep = now;
        self.runs.next_full_sweep = now;
    }

    /// Other nodes put these timers into this node's window, perhaps.
    pub(crate) fn notified(&mut self, timers: impl IntoIterator<Item = (BucketNo, TimerId)>) {
        let window = &self.window;
        let own = timers.into_iter().filter(|(bucket, _)| window.starts_in(*bucket).is_some());
        self.runs.notified(own.map(|(_, id)| id));
    }

    /// Sends what the runner has to send.
    pub(super) fn run(&mut self, now: Mono) {
        self.sort_due(now);
        if !self.runs.lane.is_free(now) {
            return;
        }
        if self.runs.sent.is_empty() {
            self.gather(now);
        }
        if !self.runs.sent.is_empty() {
            let requests = self.runs.sent.iter().map(|(request, _)| request.clone()).collect();
            self.runs.lane.sent(now);
            self.out.push(Output::Send { lane: Lane::Runner, requests });
        }
    }

    /// What is due by now, but for the lead, leaves the window.
    fn sort_due(&mut self, now: Mono) {
        let limit = self.clock.at_least(now).plus(self.settings.lead);
        while let Some((key, resident)) = self.window.pop_due(limit) {
            match self.runs.ready.get_mut(usize::from(resident.name)) {
                Some(ready) => {
                    ready.insert(key, resident);
                }
                None => self.runs.unknown.push((key, resident)),
            }
        }
    }

    fn gather(&mut self, now: Mono) {
        self.runs.release_held(now);
        let count = self.runs.finishes.len().min(self.settings.batch);
        if count > 0 {
            let finishes: Vec<Finish> = self.runs.finishes.drain(..count).collect();
            self.runs.sent.push((Request::Finish(finishes), Asked::Finish));
        }
        if self.closing.is_closing() {
            return;
        }
        self.put_off_unknown(now);
        let starts = self.pick_starts(now);
        if !starts.is_empty() {
            let ids = starts.iter().map(|start| start.id).collect();
            let (node, lead) = (self.lease.node, self.settings.lead);
            self.runs.sent.push((Request::Start { node, lead, starts }, Asked::Start(ids)));
        }
        if !self.runs.notified.is_empty() {
            let ids = std::mem::take(&mut self.runs.notified);
            self.runs.sent.push((Request::Read { ids }, Asked::Read));
        }
        let sweeps = now >= self.runs.next_sweep && self.window.owned() > 0;
        let mut orders = self.loads(now, sweeps);
        if sweeps {
            self.runs.next_sweep = now.plus(self.settings.sweep);
            orders.extend(self.sweeps(now, SWEEP_GRACE));
            self.runs.sent.push((Request::Forget, Asked::Other));
        } else if self.window.owned() == 0 {
            self.runs.next_sweep = now.plus(self.settings.sweep);
        }
        for order in orders {
            let LoadOrder { bucket, after, until, limit, .. } = order;
            self.runs
                .sent
                .push((Request::Load { bucket, after, until, limit }, Asked::Load(order)));
        }
    }

    /// Timers that this node cannot run go to another node, or wait for one; they are never
    /// dropped.
    fn put_off_unknown(&mut self, now: Mono) {
        let mut unknown = std::mem::take(&mut self.runs.unknown);
        unknown.retain(|(_, resident)| self.window.starts_in(resident.bucket).is_some());
        let Some((key, resident)) = unknown.first() else { return };
        let (handler, count) = (self.window.name(*resident), unknown.len());
        tracing::warn!(target: "lars_durable", %handler, id = key.1, count, "no handler: put off");
        let ids: Vec<TimerId> = unknown.iter().map(|(key, _)| key.1).collect();
        let before = self.clock.at_least(now).plus(-UNKNOWN_FOR);
        let reason = "no handler for fourteen days".to_owned();
        let park = Request::Park { ids: ids.clone(), before, reason };
        let (least, most) = PUT_OFF;
        self.runs.sent.push((park, Asked::Park));
        self.runs.sent.push((Request::PutOff { ids, least, most }, Asked::PutOff(unknown)));
    }

    /// The next timers to be started, in the order of (due, id), as far as there are places for
    /// them.
    fn pick_starts(&mut self, now: Mono) -> Vec<Start> {
        let mut starts = Vec::new();
        self.runs.blocked_until = Mono::NEVER;
        if !self.lease.is_valid(now) {
            return starts;
        }
        // Those that have ended leave with a finish that goes before these starts, or with one that
        // waits for the same lane.
        let active: usize = self.runs.busy.iter().sum();
        let limit = self.in_flight_limit(now);
        let mut places = limit.saturating_sub(active).min(self.settings.batch);
        if self.runs.ready.iter().map(BTreeMap::len).sum::<usize>() > places {
            // One half runs while the other is being started.
            places = places.min(limit.div_ceil(2));
        }
        if self.runs.in_quarantine.is_none()
            && places > 0
            && let Some((key, resident)) = self.next_quarantined()
            && let Some(start) = self.start(key, resident)
        {
            self.runs.in_quarantine = Some(start.id);
            self.counts.quarantined += 1;
            starts.push(start);
        }
        while starts.len() < places {
            let Some((key, resident)) = self.next_ready() else { break };
            starts.extend(self.start(key, resident));
        }
        if places == 0 || (starts.len() == places && places < self.settings.batch) {
            // The limit grows with the second.
            self.runs.blocked_until = now.plus(100_000);
        }
        starts
    }

    fn in_flight_limit(&self, now: Mono) -> usize {
        let seconds = u32::try_from((now.0 - self.runs.ramp_from.0) / 1_000_000).unwrap_or(0);
        let ramped = self.settings.ramp.checked_shl(seconds.min(32)).unwrap_or(usize::MAX);
        ramped.clamp(1, self.settings.max_in_flight)
    }

    /// The first of those that wait for a handler that has a place and is not paused.
    fn next_ready(&mut self) -> Option<(Key, Resident)> {
        let (settings, lease, runs) = (&self.settings, &self.lease, &self.runs);
        let open = settings.handlers.iter().enumerate().filter(|(place, handler)| {
            runs.busy[*place] < handler.concurrency && !lease.paused.contains(&handler.name)
        });
        let first = open.filter_map(|(place, _)| Some((*runs.ready[place].keys().next()?, place)));
        let (_, place) = first.min()?;
        self.runs.ready[place].pop_first()
    }

    fn next_quarantined(&mut self) -> Option<(Key, Resident)> {
        let (window, lease) = (&self.window, &self.lease);
        let paused = |resident: &Resident| lease.paused.contains(window.name(*resident));
        let first = self.runs.quarantine.iter().find(|(_, resident)| !paused(resident));
        let key = *first?.0;
        self.runs.quarantine.remove_entry(&key)
    }

    /// `None` if the bucket is not this node's any more, or the timer runs: one that was moved
    /// nearer by another node is here under its old time as well. Its finish says when it is due
    /// again.
    fn start(&mut self, key: Key, resident: Resident) -> Option<Start> {
        if self.runs.holds(key.1) {
            return None;
        }
        let handler = usize::from(resident.name);
        let fence = self.window.next_fence(resident.bucket)?;
        self.runs.busy[handler] += 1;
        let (stage, acknowledged) = (Stage::Starting, false);
        let run = Run { key, resident, fence, handler, stage, acknowledged };
        self.runs.runs.insert(key.1, run);
        Some(Start { id: key.1, bucket: resident.bucket, fence })
    }

    pub(super) fn ran(&mut self, sent: Mono, now: Mono, result: Result<Committed, StoreError>) {
        let committed = match result {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(target: "lars_durable", %error, "the runner's batch is repeated");
                // Sweeps are not repeated: they may be what took too long, and the next sweep looks
                // again.
                let sweeps = |asked: &Asked| matches!(asked, Asked::Load(it) if it.sweeps());
                self.runs.sent.retain(|(_, asked)| !sweeps(asked));
                return;
            }
        };
        let asked = std::mem::take(&mut self.runs.sent);
        for ((request, asked), reply) in asked.into_iter().zip(committed.replies) {
            match (asked, reply) {
                (Asked::Start(ids), Reply::Started { rows, moved }) => {
                    self.started(now, ids, rows, moved);
                }
                (Asked::Finish, Reply::Finished(finished)) => {
                    let Request::Finish(finishes) = request else { continue };
                    for (finish, finished) in finishes.into_iter().zip(finished) {
                        self.finished(now, finish, finished);
                    }
                }
                (Asked::PutOff(timers), Reply::PutOff(dues)) => {
                    for ((key, resident), due) in timers.into_iter().zip(dues) {
                        let handler = Arc::clone(self.window.name(resident));
                        if let Some(due) = due {
                            self.near(resident.bucket, (due, key.1), &handler);
                        }
                    }
                }
                (Asked::Park, Reply::Parked(count)) => self.counts.parked += count as u64,
                (Asked::Load(order), Reply::Loaded(rows)) => {
                    let (sweeps, pause) = (order.sweeps(), (now.0 - sent.0) * SWEEP_SHARE);
                    if self.loaded(order, rows) {
                        self.runs.next_sweep = now.plus(pause.min(self.settings.sweep));
                    } else if sweeps {
                        // Dead rows at the head of the index make it slow.
                        let slower = now.plus(pause.min(LONGEST_SWEEP));
                        self.runs.next_sweep = self.runs.next_sweep.max(slower);
                    }
                }
                (Asked::Read, Reply::Loaded(rows)) => {
                    for row in rows {
                        self.take_in(row);
                    }
                }
                (_, _) => {}
            }
        }
    }
}
