//! The runner: starts due timers, as far as there are places for them, records finishes, and keeps
//! the window loaded.
//!
//! One batch goes at a time, put together in this order: finishes, so that their places are free;
//! ends of series; questions about finishes that came too late; what this node has no handler for;
//! starts; what other nodes announced; loads and sweeps. A batch that failed is sent again as it
//! was, for each of its requests can be repeated, but for its sweeps and for reads from the start
//! of an index (see `portion`).
//!
//! What limits the starts: the lease, the places of each handler, the limit of the node, and after
//! buckets were taken a ramp, so that a node that comes back does not begin with all at once.

use std::collections::{BTreeMap, VecDeque};

use super::delays::Past;
use super::lane::{LONGEST_PAUSE, LaneState};
use super::portion::Portion;
use super::quarantine::Released;
use super::settings::{LEAST_PUT_OFF, MOST_PUT_OFF, UNKNOWN_FOR};
use super::window::{Key, LoadOrder, Resident, TakenIn};
use super::{Lane, Node, Output, Parked};
use crate::model::{BucketNo, Finish, Kept, NodeId, Old, Ran, Row, Start, TimerId, Which};
use crate::store::{
    Committed, Letters, Reply, Request, StoreError, Tenure, Write, mismatched, paired,
};
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

/// Why a timer is parked in the end that has no handler.
const UNHANDLED: &str = "no handler for fourteen days";

/// What is overdue by more than this, and is not here, was missed.
const SWEEP_GRACE: Micros = Micros::SECOND;

/// A sweep takes at most this part of the runner's time.
const SWEEP_SHARE: i64 = 40;

/// The longest pause between two sweeps, however slow they are.
const LONGEST_SWEEP: Micros = Micros::SECOND.times(10);

/// How often everything that is overdue is looked at, and how far back all other sweeps look.
const FULL_SWEEP: Micros = Micros::SECOND.times(60);

/// How often it is said that nothing starts any more.
const SAY_AGAIN: Micros = Micros::SECOND.times(60);

/// How often it is asked whether something old is to be deleted.
const PRUNE: Micros = Micros::SECOND.times(60);

/// How many are deleted at once, and of which part of the runner's time that takes at most one,
/// while there are more. Runs end faster than timers are parked.
fn pruned_at_once(old: Old) -> (usize, i64) {
    match old {
        Old::Parked => (250, SWEEP_SHARE),
        Old::Runs => (1_000, 8),
    }
}

/// How many keys are forgotten at once, and of which part of the runner's time that takes at most
/// one, while there are more. After a long stop there may be millions.
const FORGOTTEN_AT_ONCE: usize = 1_000;
const FORGET_SHARE: i64 = 8;

/// The group has one bucket of this number, and so one node that deletes what is old.
const PRUNER: BucketNo = 0;

/// When there are no places, how soon they are counted again: the ramp grows with the second.
const NO_PLACE: Micros = Micros::MILLISECOND.times(100);

/// What the runner is about to do, and what it waits for.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Runner {
    lane: LaneState,
    /// What the lane has in flight. After a failure the same is sent again: each request can be
    /// repeated.
    sent: Vec<Asked>,
    /// One try of that may have been committed.
    uncertain: bool,
    /// Identities that another node says are near.
    notified: VecDeque<TimerId>,
    /// Since when the node has buckets.
    ramp_from: Mono,
    next_sweep: Mono,
    next_full_sweep: Mono,
    /// While everything is looked at: from which bucket on.
    full_sweep: Option<BucketNo>,
    /// Of the batch that is put together, or is under way.
    pub(super) portion: Portion,
    /// When parked timers, and the history, are looked through.
    next_prune: [Mono; 2],
    /// When more keys are forgotten, before the next sweep.
    next_forget: Mono,
    /// Nothing can be started before this, although something is ready.
    blocked_until: Mono,
    /// When it is said again that nothing starts.
    say_used_up: Mono,
}

/// What the runner has asked for: enough to ask again, and to understand the reply.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum Asked {
    Finish(Vec<Finish>),
    EndSeries(TimerId),
    /// What has become of a timer whose finish came too late.
    Settle(Finish, BucketNo),
    Park {
        timers: Vec<(TimerId, Tenure)>,
        before: Timestamp,
    },
    PutOff(Vec<(TimerId, Tenure)>, Vec<Resident>),
    Start {
        node: NodeId,
        lead: Micros,
        starts: Vec<Start>,
    },
    Read(Vec<TimerId>),
    /// The rows of runs: whether these are to go on.
    Look(Vec<TimerId>),
    Forget,
    Record(Vec<Ran>),
    Prune(Old, Kept),
    Load(LoadOrder),
}

/// The batch whose replies are read.
#[derive(Debug, Clone, Copy)]
struct Flight {
    sent: Mono,
    /// One try of it before may have been committed.
    again: bool,
}

impl Asked {
    /// Whether a batch that failed is sent again without this: it may be what took too long, and is
    /// asked for anew. So it is with what deletes.
    fn goes_once(&self) -> bool {
        match self {
            Self::Load(order) => order.sweeps() || order.is_from_start(),
            Self::Prune(..) | Self::Forget => true,
            _ => false,
        }
    }

    /// Of the handlers in `letters`, timers come with the beginnings of their payloads.
    fn request(&self, letters: &Letters) -> Request {
        match self {
            Self::Finish(finishes) => Request::Finish(finishes.clone()),
            Self::EndSeries(id) => Request::Write(Write::EndSeries { id: *id }),
            Self::Settle(Finish { id, fence, .. }, bucket) => {
                let (tenure, which) = (Tenure::of(*bucket, *fence), Which::Id(*id));
                let write = Box::new(Write::Get { which });
                Request::Write(Write::Under { tenure, write })
            }
            Self::Park { timers, before } => {
                let (timers, reason) = (timers.clone(), UNHANDLED.to_owned());
                Request::Park { timers, before: *before, reason }
            }
            Self::PutOff(timers, _) => {
                let (timers, least, most) = (timers.clone(), LEAST_PUT_OFF, MOST_PUT_OFF);
                Request::PutOff { timers, least, most }
            }
            Self::Start { node, lead, starts } => {
                Request::Start { node: *node, lead: *lead, starts: starts.clone() }
            }
            Self::Read(ids) => Request::Read { ids: ids.clone(), letters: Arc::clone(letters) },
            Self::Look(ids) => Request::Read { ids: ids.clone(), letters: Letters::default() },
            Self::Forget => Request::Forget { limit: FORGOTTEN_AT_ONCE },
            Self::Record(runs) => Request::Record(runs.clone()),
            Self::Prune(old, kept) => {
                Request::Prune { old: *old, kept: *kept, limit: pruned_at_once(*old).0 }
            }
            Self::Load(order) => {
                let LoadOrder { bucket, after, until, limit, .. } = *order;
                Request::Load { bucket, after, until, limit, letters: Arc::clone(letters) }
            }
        }
    }
}

impl Runner {
    pub(super) fn new() -> Self {
        Self {
            lane: LaneState::new(LONGEST_PAUSE),
            sent: Vec::new(),
            uncertain: false,
            notified: VecDeque::new(),
            ramp_from: Mono(0),
            next_sweep: Mono(0),
            next_full_sweep: Mono(0),
            full_sweep: None,
            portion: Portion::FIRST,
            next_prune: [Mono(0); 2],
            next_forget: Mono::NEVER,
            blocked_until: Mono(0),
            say_used_up: Mono::MIN,
        }
    }

    /// The reply of the batch in flight came: says when that was sent.
    pub(super) fn answered(&mut self, now: Mono, result: &Result<Committed, StoreError>) -> Mono {
        self.lane.answered(now, result)
    }

    /// The batch failed: what is left of it goes again.
    fn failed(&mut self, error: &StoreError) {
        self.uncertain |= error.unknown;
        self.portion.failed();
        self.sent.retain(|asked| !asked.goes_once());
    }

    /// A load has taken `took`: when the next sweep comes, if this was one.
    fn pace_sweeps(&mut self, now: Mono, took: Micros, taken_in: TakenIn, every: Micros) {
        let pause = took * SWEEP_SHARE;
        match taken_in {
            TakenIn::Load => {}
            TakenIn::SweepHasMore => self.next_sweep = now + pause.min(every),
            TakenIn::Sweep => {
                // Dead rows at the head of the index make it slow.
                self.next_sweep = self.next_sweep.max(now + pause.min(LONGEST_SWEEP));
            }
        }
    }

    /// Whether it waits for no reply.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether it has to wait before it can send anything.
    pub(super) fn waits_for_store(&self, now: Mono) -> bool {
        !self.is_idle() || !self.lane.is_free(now)
    }

    /// The node has buckets again, after it had none.
    pub(super) fn begin(&mut self, now: Mono) {
        self.ramp_from = now;
        self.sweep_everything(now);
    }

    /// The next sweep comes at once, and looks at everything.
    fn sweep_everything(&mut self, now: Mono) {
        (self.next_sweep, self.next_full_sweep, self.full_sweep) = (now, now, None);
    }

    /// These may be in the window: they are to be read.
    pub(super) fn announce(&mut self, ids: impl IntoIterator<Item = TimerId>) {
        self.notified.extend(ids);
    }

    /// Whether the sweep that is made now looks at all that is overdue in this bucket. It is asked
    /// of each bucket in order. Most look back for a minute only: behind that, rows that are dead
    /// and not yet removed may be many.
    pub(super) fn sweeps_from_start(&mut self, bucket: BucketNo) -> bool {
        let is_next = self.full_sweep.is_some_and(|next| next <= bucket);
        if !is_next || !self.portion.takes() {
            return false;
        }
        self.full_sweep = bucket.checked_add(1);
        true
    }

    /// A sweep is made now. Where each bucket takes long, it takes several to look at everything.
    fn sweep(&mut self, now: Mono) {
        if self.full_sweep.is_none() && now >= self.next_full_sweep {
            self.next_full_sweep = now + FULL_SWEEP;
            self.full_sweep = Some(0);
        }
    }

    /// A sweep is made, and `last` is the last bucket there is. If it leaves buckets to be looked
    /// at from the start, the next one comes as soon as its share of the time allows.
    fn swept(&mut self, now: Mono, every: Micros, last: Option<BucketNo>) {
        self.full_sweep = self.full_sweep.filter(|next| last.is_some_and(|last| *next <= last));
        self.next_sweep = if self.full_sweep.is_some() { now } else { now + every };
    }
}

impl Node {
    /// When the runner has something to do, if nothing comes in before.
    pub(super) fn next_run(&self) -> Mono {
        let (runner, retry) = (&self.runner, self.runs.next_retry());
        let ended = self.runs.has_finishes() || !self.history.is_empty();
        let wanted = if !runner.sent.is_empty() || ended {
            Mono::MIN
        } else if self.closing.is_closing() {
            retry
        } else if !runner.notified.is_empty() || self.runs.has_unknown() {
            Mono::MIN
        } else {
            // An estimate of the clock that is a little old makes the load a little late.
            let load = self.next_load(runner.next_sweep);
            let sweeps = runner.blocked_until.min(runner.next_sweep).min(retry).min(load);
            let sweeps = sweeps.min(runner.next_forget);
            let prunes =
                [Old::Parked, Old::Runs].into_iter().filter(|old| self.prunes(*old).is_some());
            prunes.map(|old| runner.next_prune[old as usize]).fold(sweeps, Mono::min)
        };
        runner.lane.next(wanted)
    }

    /// Timers may have come that nobody told this node of.
    pub(crate) fn sweep_soon(&mut self, now: Mono) {
        self.runner.sweep_everything(now);
    }

    /// Other nodes put these timers into this node's window, perhaps.
    pub(crate) fn notified(&mut self, timers: impl IntoIterator<Item = (BucketNo, TimerId)>) {
        let window = &self.window;
        let own = timers.into_iter().filter(|(bucket, _)| window.starts_in(*bucket).is_some());
        self.runner.announce(own.map(|(_, id)| id));
    }

    /// Sends what the runner has to send.
    pub(super) fn run(&mut self, now: Mono) {
        self.sort_due(now);
        if !self.runner.lane.is_free(now) {
            return;
        }
        if self.runner.sent.is_empty() {
            self.gather(now);
        }
        if !self.runner.sent.is_empty() {
            let requests = self.runner.sent.iter().map(|it| it.request(&self.letters)).collect();
            self.runner.lane.sent(now);
            self.out.push(Output::Send { lane: Lane::Runner, requests });
        }
    }

    /// What is due by now, but for the lead, leaves the window.
    fn sort_due(&mut self, now: Mono) {
        let limit = self.clock.at_least(now) + self.settings.lead;
        for (key, resident) in self.window.take_due(limit) {
            self.runs.due(key, resident);
        }
    }

    /// Puts the next batch together.
    fn gather(&mut self, now: Mono) {
        let finishes = self.runs.take_finishes(now, self.settings.batch);
        if !finishes.is_empty() {
            self.runner.sent.push(Asked::Finish(finishes));
        }
        if !self.history.is_empty() {
            self.runner.sent.push(Asked::Record(std::mem::take(&mut self.history)));
        }
        // Before the next runs of these start.
        let ends = self.runs.take_ends(self.settings.batch);
        self.runner.sent.extend(ends.into_iter().map(Asked::EndSeries));
        for finish in self.runs.take_unsettled() {
            if let Some(run) = self.runs.get(finish.id) {
                self.runner.sent.push(Asked::Settle(finish, run.resident.bucket));
            }
        }
        if self.closing.is_closing() {
            return;
        }
        self.put_off_unknown(now);
        let starts = self.pick_starts(now);
        if !starts.is_empty() {
            let (node, lead) = (self.lease.node(), self.settings.lead);
            self.runner.sent.push(Asked::Start { node, lead, starts });
        }
        if !self.runner.notified.is_empty() {
            let count = self.runner.notified.len().min(self.settings.batch);
            let ids = self.runner.notified.drain(..count).collect();
            self.runner.sent.push(Asked::Read(ids));
        }
        let sweeps = now >= self.runner.next_sweep && self.window.owned() > 0;
        let mut orders = self.loads(now, sweeps);
        if sweeps {
            self.runner.sweep(now);
            orders.extend(self.sweeps(now, SWEEP_GRACE, FULL_SWEEP));
            self.runner.swept(now, self.settings.sweep, self.window.last());
            let runs = self.runs_to_look_at(self.settings.batch);
            if !runs.is_empty() {
                self.runner.sent.push(Asked::Look(runs));
            }
        } else if self.window.owned() == 0 {
            self.runner.next_sweep = now + self.settings.sweep;
        }
        self.runner.sent.extend(orders.into_iter().map(Asked::Load));
        if sweeps || now >= self.runner.next_forget {
            self.runner.next_forget = Mono::NEVER;
            self.runner.sent.push(Asked::Forget);
        }
        for old in [Old::Parked, Old::Runs] {
            if let Some(kept) =
                self.prunes(old).filter(|_| now >= self.runner.next_prune[old as usize])
            {
                self.runner.next_prune[old as usize] = now + PRUNE;
                self.runner.sent.push(Asked::Prune(old, kept));
            }
        }
    }

    /// What is kept, if this node deletes what is not.
    fn prunes(&self, old: Old) -> Option<Kept> {
        self.settings.kept(old).filter(|_| self.window.starts_in(PRUNER).is_some())
    }

    fn pruned(&mut self, now: Mono, sent: Mono, old: Old, count: usize) {
        let (most, share) = pruned_at_once(old);
        if count >= most {
            self.runner.next_prune[old as usize] = now + (now - sent) * share;
        }
        if old == Old::Parked && count > 0 {
            tracing::info!(target: "lars_durable", count, "parked timers were deleted");
            self.counts.pruned += count as u64;
        }
    }

    /// Timers that this node cannot run go to another node, or wait for one; they are never
    /// dropped.
    fn put_off_unknown(&mut self, now: Mono) {
        let unknown = self.runs.take_unknown(self.settings.batch).into_iter();
        let unknown = unknown.filter_map(|(key, resident)| {
            let (bucket, epoch) = (resident.bucket, self.window.starts_in(resident.bucket)?);
            Some(((key.1, Tenure { bucket, epoch }), resident))
        });
        let (timers, residents): (Vec<(TimerId, Tenure)>, Vec<Resident>) = unknown.unzip();
        let (Some((id, _)), Some(first)) = (timers.first(), residents.first()) else { return };
        let (handler, count) = (self.window.name(*first), timers.len());
        tracing::warn!(target: "lars_durable", %handler, id, count, "no handler: put off");
        let before = self.clock.at_least(now) - UNKNOWN_FOR;
        self.runner.sent.push(Asked::Park { timers: timers.clone(), before });
        self.runner.sent.push(Asked::PutOff(timers, residents));
    }

    /// These are parked, because nobody could run them.
    fn unhandled(&mut self, rows: Vec<Row>) {
        let Some(Row { handler, id, key, .. }) = rows.first() else { return };
        let (count, reason) = (rows.len(), UNHANDLED);
        tracing::error!(target: "lars_durable", %handler, id, key, count, reason, "parked");
        self.counts.parked += count as u64;
        let parked = |row| {
            let (row, reason) = (Arc::new(row), UNHANDLED.to_owned());
            Output::Parked(Parked { row, reason, goes_on: false })
        };
        self.out.extend(rows.into_iter().map(parked));
    }

    /// The next timers to be started, in the order of (due, id), as far as there are places for
    /// them.
    fn pick_starts(&mut self, now: Mono) -> Vec<Start> {
        let mut starts = Vec::new();
        self.runner.blocked_until = Mono::NEVER;
        if !self.lease.is_valid(now) {
            return starts;
        }
        // Those that have ended leave with a finish that goes before these starts, or with one that
        // waits for the same lane.
        let limit = self.in_flight_limit(now);
        let (active, all) = (self.runs.active(), self.settings.max_in_flight);
        // The ramp does not count for handlers with few runs.
        let open = limit.saturating_sub(active) + self.kept_free(limit);
        let mut places = open.min(all.saturating_sub(active)).min(self.settings.batch);
        if self.runs.ready() > places {
            // One half runs while the other is being started.
            places = places.min(limit.div_ceil(2));
        }
        while starts.len() < places {
            let Some(released) = self.next_quarantined(now, limit) else { break };
            if let Some(start) = self.start(released.key, released.resident, now) {
                self.runs.isolate(now, released);
                self.counts.quarantined += 1;
                starts.push(start);
            }
        }
        let behind = self.runs.held_up(|resident| self.has_recipients(resident));
        while starts.len() < places {
            let Some((key, resident)) = self.next_ready(limit, &behind) else { break };
            starts.extend(self.start(key, resident, now));
        }
        self.runner.blocked_until = self.runs.next_release(now);
        let full = self.runs.active() >= limit && self.runs.quarantined() > 0;
        let ramps = limit < self.settings.max_in_flight && (full || self.runs.ready() > 0);
        if places == 0 || ramps || (starts.len() == places && places < self.settings.batch) {
            self.runner.blocked_until = now + NO_PLACE;
        }
        starts
    }

    /// The limit of the node, and below it the ramp.
    pub(super) fn in_flight_limit(&self, now: Mono) -> usize {
        let seconds =
            u32::try_from((now - self.runner.ramp_from).0 / Micros::SECOND.0).unwrap_or(0);
        let ramped = self.settings.ramp.checked_shl(seconds.min(32)).unwrap_or(usize::MAX);
        // Each handler has a place.
        ramped.max(self.settings.handlers.len()).min(self.settings.max_in_flight)
    }

    /// The first of those that wait for a handler that has a place and is not paused, and nothing
    /// else: of a recipient that has a place as well, and not behind what is in quarantine.
    fn next_ready(
        &mut self,
        limit: usize,
        behind: &BTreeMap<Resident, Key>,
    ) -> Option<(Key, Resident)> {
        let paused = |place: usize| self.lease.is_paused(&self.settings.handlers[place].name);
        let open = |place| !paused(place) && self.has_place(place, limit);
        let goes = |key: Key, resident: Resident| {
            behind.get(&resident).is_none_or(|first| key < *first)
                && self.has_place_in_line(resident, limit)
        };
        let (key, place) = self.runs.first_ready(open, goes)?;
        self.runs.take_ready(key, place)
    }

    /// Takes the next one of quarantine, of a handler that has a place and is not paused.
    fn next_quarantined(&mut self, now: Mono, limit: usize) -> Option<Released> {
        let paused = |place: usize| self.lease.is_paused(&self.settings.handlers[place].name);
        let open = |place| !paused(place) && self.has_place(place, limit);
        let released = self.runs.next_quarantined(now, open)?;
        self.runs.leave_quarantine(released);
        Some(released)
    }

    /// `None` if the bucket is not this node's any more, or the timer runs: one that was moved
    /// nearer by another node is here under its old time as well. Its finish says when it is due
    /// again.
    fn start(&mut self, key: Key, resident: Resident, now: Mono) -> Option<Start> {
        let heard = self.window.forget_heard(key);
        if self.runs.holds(key.1) {
            return None;
        }
        let Some(fence) = self.window.next_fence(resident.bucket) else {
            self.renew_used_up(resident.bucket, now);
            return None;
        };
        let past = Past { heard, picked: now, recorded: now };
        Some(self.runs.start(key, resident, fence, past))
    }

    /// If the fences of this bucket's epoch are used up, nothing starts there before it has
    /// another. A bucket that others may own is given back, and has one when it is taken again. The
    /// bucket of a file has one when the file is opened again.
    fn renew_used_up(&mut self, bucket: BucketNo, now: Mono) {
        if !self.window.is_used_up(bucket) {
            return;
        }
        if !self.settings.sole && self.window.give_back_used_up(bucket, now) {
            tracing::info!(
                target: "lars_durable", bucket,
                "all fences of the bucket's epoch are used: it is given back for a new one"
            );
        } else if self.settings.sole && now >= self.runner.say_used_up {
            self.runner.say_used_up = now + SAY_AGAIN;
            let (starts, limit) = (u32::MAX, "an epoch has fences for no more");
            tracing::error!(
                target: "lars_durable", starts, limit,
                "nothing starts any more until the node is closed and opened again"
            );
        }
    }

    /// Takes in the reply to what was sent.
    pub(super) fn ran(&mut self, sent: Mono, now: Mono, result: Result<Committed, StoreError>) {
        let committed = match result {
            Ok(committed) => committed,
            Err(error) => {
                for asked in &self.runner.sent {
                    if let Asked::Load(order) = asked {
                        self.window.load_failed(order);
                    }
                }
                return self.runner.failed(&error);
            }
        };
        self.runner.portion.took(now - sent);
        let asked = std::mem::take(&mut self.runner.sent);
        let flight = Flight { sent, again: std::mem::take(&mut self.runner.uncertain) };
        for (asked, reply) in paired(asked, committed.replies) {
            self.understand(flight, now, asked, reply);
        }
    }

    /// Does what the reply to one request of the batch says.
    fn understand(&mut self, flight: Flight, now: Mono, asked: Asked, reply: Reply) {
        match (asked, reply) {
            (Asked::Start { starts, .. }, Reply::Started { rows, moved }) => {
                self.started(now, &starts, rows, moved);
            }
            (Asked::Finish(finishes), Reply::Finished(finished)) => {
                for (finish, finished) in finishes.into_iter().zip(finished) {
                    self.finished(now, finish, finished, flight.again);
                }
            }
            (Asked::EndSeries(id), Reply::Written(written)) => {
                self.series_ended(now, id, &written);
            }
            (Asked::Settle(finish, _), Reply::Written(written)) => {
                self.settled(now, &finish, &written);
            }
            (Asked::PutOff(timers, residents), Reply::PutOff(dues)) => {
                for (((id, _), resident), due) in timers.into_iter().zip(residents).zip(dues) {
                    // Unless another took it.
                    if let Some(due) = due {
                        self.near((due, id), resident);
                    }
                }
            }
            (Asked::Park { .. }, Reply::Parked(rows)) => self.unhandled(rows),
            (Asked::Load(order), Reply::Loaded(rows)) => {
                let taken_in = self.loaded(order, rows);
                self.runner.pace_sweeps(now, now - flight.sent, taken_in, self.settings.sweep);
            }
            (Asked::Read(ids), Reply::Loaded(rows)) => {
                self.look_at_runs(&ids, &rows);
                for row in &rows {
                    self.announced(row);
                }
            }
            (Asked::Look(ids), Reply::Loaded(rows)) => self.look_at_runs(&ids, &rows),
            (Asked::Forget, Reply::Forgotten(count)) => {
                if count >= FORGOTTEN_AT_ONCE {
                    self.runner.next_forget = now + (now - flight.sent) * FORGET_SHARE;
                }
            }
            (Asked::Record(_), Reply::Recorded) => {}
            (Asked::Prune(old, _), Reply::Pruned(count)) => {
                self.pruned(now, flight.sent, old, count);
            }
            (asked, reply) => mismatched(&asked, &reply),
        }
    }
}
