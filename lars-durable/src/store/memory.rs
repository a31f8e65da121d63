//! The reference: tables in memory, each verb as plain as it can be.
//!
//! Clones share the tables, so that several nodes of a simulation meet in one store.
//!
//! A transaction holds the lock from its first request to its last, so it is atomic as long as no
//! request fails, and none can. What this does is what the others have to do: `proof::conformance`
//! asks all stores the same and compares.

mod looks;
mod writes;

mod selects;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Committed, How, Keep, Letters, Looker, Peer, Placed, Renewed, Reply, Request, Store,
    StoreError, Tenure, Terms, Written,
};
use crate::model::{
    BucketNo, Fence, Finish, Finished, Kept, LETTER, Listed, Loaded, Look, NodeId, Old, Ran, Row,
    RunsSelect, Start, Then, There, TimerId,
};
use crate::sync::{Arc, Mutex};
use crate::time::{Clock, Micros, Timestamp};

/// Timers that live as long as the last clone.
#[derive(Clone)]
pub(crate) struct MemoryStore {
    tables: Arc<Mutex<Tables>>,
    clock: Clock,
}

/// All there is. `due` and `keys` are indices of `timers`: only `insert`, `remove` and `look_at`
/// change them.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Tables {
    /// The identity of the store.
    store: u128,
    next_id: TimerId,
    timers: BTreeMap<TimerId, Stored>,
    due: BTreeSet<(BucketNo, Timestamp, TimerId)>,
    keys: BTreeMap<Arc<str>, TimerId>,
    used_keys: BTreeMap<Arc<str>, Timestamp>,
    parked: BTreeMap<TimerId, (Stored, String, Timestamp)>,
    /// Runs that are over, by timer.
    runs: BTreeMap<(TimerId, Fence), Ran>,
    paused: BTreeSet<Arc<str>>,
    nodes: BTreeMap<NodeId, Member>,
    buckets: Vec<(Option<NodeId>, u32)>,
    /// The last batch of each writer.
    batches: BTreeMap<u128, i64>,
    /// The writes of this transaction were carried out before.
    repeats: bool,
}

/// A node that has joined.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Member {
    renewals: u64,
    serves: bool,
    terms: Terms,
    joined: Timestamp,
    renewed: Timestamp,
    report: Option<Arc<str>>,
}

/// A row.
#[derive(Debug, Clone)]
struct Stored {
    bucket: BucketNo,
    /// When it is looked at: not after the deadline.
    due: Timestamp,
    /// Before this it may not run.
    deadline: Timestamp,
    /// What it is meant for: stays while it is tried again.
    planned: Timestamp,
    key: Option<Arc<str>>,
    tag: Option<Arc<str>>,
    handler: Arc<str>,
    payload_version: u16,
    payload: Arc<str>,
    series: Option<Arc<str>>,
    remember: Micros,
    attempt: u32,
    deaths: u32,
    fence: Option<Fence>,
    last_error: Option<String>,
    /// How many runs of a series are over.
    run: i64,
    /// Of a parked run, the series that went on.
    origin: Option<TimerId>,
    /// When it was first put off because nobody could run it.
    unknown_since: Option<Timestamp>,
    /// It was cancelled while it ran.
    cancelled: bool,
}

impl MemoryStore {
    pub(crate) fn new(buckets: BucketNo, clock: Clock) -> Self {
        let buckets = vec![(None, 0); usize::from(buckets)];
        let tables = Tables { store: fastrand::u128(..), next_id: 1, buckets, ..Tables::default() };
        Self { tables: Arc::new(Mutex::new(tables)), clock }
    }

    /// A store of its own with the same rows.
    #[cfg(test)]
    pub(crate) fn copy(&self) -> Self {
        let tables = Arc::new(Mutex::new(self.tables.lock().clone()));
        Self { tables, clock: Arc::clone(&self.clock) }
    }

    /// The same, after a restore that is declared, which is that of this number.
    #[cfg(test)]
    pub(crate) fn restored(&self, number: u32) -> Self {
        let copy = self.copy();
        let mut tables = copy.tables.lock();
        tables.store = fastrand::u128(..);
        tables.next_id += TimerId::from(number) << 40;
        tables.nodes.clear();
        for (owner, epoch) in &mut tables.buckets {
            (*owner, *epoch) = (None, *epoch + (number << 20));
        }
        drop(tables);
        copy
    }

    /// The payloads of what is parked, and what each run was planned for.
    #[cfg(test)]
    pub(crate) fn parked_runs(&self) -> Vec<(Arc<str>, Timestamp)> {
        let tables = self.tables.lock();
        let runs = tables.parked.values().map(|(it, ..)| (Arc::clone(&it.payload), it.planned));
        runs.collect()
    }

    /// Who owns each bucket.
    #[cfg(test)]
    pub(crate) fn owners(&self) -> Vec<Option<NodeId>> {
        self.tables.lock().buckets.iter().map(|(owner, _)| *owner).collect()
    }

    /// All rows, in words.
    #[cfg(test)]
    pub(crate) fn words(&self) -> String {
        format!("{:?}", self.tables.lock())
    }

    #[cfg(feature = "test-kit")]
    pub(crate) fn clock(&self) -> Clock {
        Arc::clone(&self.clock)
    }
}

impl Store for MemoryStore {
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError> {
        let clock = (self.clock)();
        let mut tables = self.tables.lock();
        tables.repeats = false;
        let replies = requests.iter().map(|request| tables.carry_out(request, clock)).collect();
        Ok(Committed { clock, replies })
    }
}

impl Looker for MemoryStore {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        Ok(self.tables.lock().look((self.clock)(), limit))
    }
}

impl Tables {
    fn carry_out(&mut self, request: &Request, now: Timestamp) -> Reply {
        match request {
            Request::Keep(keep) => self.keep(keep, now),
            Request::Write(write) => Reply::Written(self.write(write, now)),
            Request::Batch { writer, token, .. } => {
                self.repeats = self.batches.insert(*writer, *token) == Some(*token);
                Reply::Batched
            }
            Request::Ids { count } => {
                let first = self.next_id;
                self.next_id += count;
                // It loses nothing, so it has one history.
                let (blocks, history) = (std::iter::once(first..self.next_id).collect(), 0);
                Reply::Ids { blocks, history }
            }
            Request::Load { bucket, after, until, limit, letters } => {
                Reply::Loaded(self.load(*bucket, *after, *until, *limit, letters))
            }
            Request::Read { ids, letters } => {
                Reply::Loaded(ids.iter().filter_map(|id| self.loaded(*id, letters)).collect())
            }
            Request::Start { node, lead, starts } => self.start(*node, *lead, starts, now),
            Request::Finish(finishes) => {
                Reply::Finished(finishes.iter().map(|finish| self.finish(finish, now)).collect())
            }
            Request::PutOff { timers, least, most } => Reply::PutOff(
                timers.iter().map(|timer| self.put_off(*timer, (*least, *most), now)).collect(),
            ),
            Request::Park { timers, before, reason } => {
                let park = |timer| self.park_waiting(timer, *before, reason, now);
                Reply::Parked(timers.iter().copied().filter_map(park).collect())
            }
            Request::Forget { limit } => {
                let mut forgotten = 0;
                self.used_keys.retain(|_, until| {
                    let stays = *until > now || forgotten == *limit;
                    forgotten += usize::from(!stays);
                    stays
                });
                Reply::Forgotten(forgotten)
            }
            Request::Record(runs) => {
                for ran in runs {
                    self.runs.entry((ran.timer, ran.fence)).or_insert_with(|| ran.clone());
                }
                Reply::Recorded
            }
            Request::Prune { old: Old::Parked, kept, limit } => {
                Reply::Pruned(self.prune(*kept, *limit, now))
            }
            Request::Prune { old: Old::Runs, kept, limit } => {
                Reply::Pruned(self.prune_runs(*kept, *limit, now))
            }
        }
    }

    fn keep(&mut self, keep: &Keep, now: Timestamp) -> Reply {
        match keep {
            Keep::Join { node, serves, terms } => {
                let (joined, renewed, report) = (now, now, None);
                let (serves, terms) = (*serves, *terms);
                let member = Member { renewals: 0, serves, terms, joined, renewed, report };
                self.nodes.entry(*node).or_insert(member);
                let buckets = BucketNo::try_from(self.buckets.len()).expect("made of a BucketNo");
                Reply::Joined { buckets }
            }
            Keep::Renew { node, report } => Reply::Renewed(self.renew(*node, report.as_ref(), now)),
            Keep::Claim { node, dead, buckets } => Reply::Claimed(self.claim(*node, dead, buckets)),
            Keep::Release { node, buckets } => {
                for bucket in buckets {
                    let bucket = &mut self.buckets[usize::from(*bucket)];
                    if bucket.0 == Some(*node) {
                        bucket.0 = None;
                    }
                }
                Reply::Released
            }
            Keep::Leave { node } => {
                self.nodes.remove(node);
                for bucket in self.buckets.iter_mut().filter(|bucket| bucket.0 == Some(*node)) {
                    bucket.0 = None;
                }
                Reply::Left
            }
        }
    }

    fn renew(&mut self, node: NodeId, report: Option<&Arc<str>>, now: Timestamp) -> Renewed {
        let alive = match self.nodes.get_mut(&node) {
            Some(member) => {
                member.renewals += 1;
                member.renewed = now;
                member.report = report.cloned().or(member.report.take());
                true
            }
            None => false,
        };
        Renewed {
            alive,
            nodes: (self.nodes.iter())
                .map(|(id, Member { renewals, serves, terms, .. })| Peer {
                    id: *id,
                    renewals: *renewals,
                    serves: *serves,
                    terms: *terms,
                })
                .collect(),
            buckets: (0..)
                .zip(&self.buckets)
                .map(|(no, (own, epoch))| (no, *own, *epoch))
                .collect(),
            paused: self.paused.iter().cloned().collect(),
        }
    }

    fn claim(
        &mut self,
        node: NodeId,
        dead: &[(NodeId, u64)],
        buckets: &[BucketNo],
    ) -> Vec<(BucketNo, u32)> {
        for (dead, seen) in dead {
            if self.nodes.get(dead).is_some_and(|member| member.renewals == *seen) {
                self.nodes.remove(dead);
            }
        }
        if !self.nodes.contains_key(&node) {
            return Vec::new();
        }
        let mut claimed = Vec::new();
        for number in buckets {
            let (owner, epoch) = &mut self.buckets[usize::from(*number)];
            if owner.is_none_or(|owner| !self.nodes.contains_key(&owner)) {
                *owner = Some(node);
                *epoch += 1;
                claimed.push((*number, *epoch));
            }
        }
        claimed
    }

    fn load(
        &self,
        bucket: BucketNo,
        (due, id): (Timestamp, TimerId),
        until: Timestamp,
        limit: usize,
        letters: &Letters,
    ) -> Vec<Loaded> {
        use std::ops::Bound::Excluded;
        let until = (bucket, until, TimerId::MIN);
        let after = (bucket, due, id);
        if after >= until {
            return Vec::new();
        }
        let range = self.due.range((Excluded(after), Excluded(until)));
        range.take(limit).filter_map(|(_, _, id)| self.loaded(*id, letters)).collect()
    }

    fn loaded(&self, id: TimerId, letters: &Letters) -> Option<Loaded> {
        let timer = self.timers.get(&id)?;
        let asked = letters.contains(&timer.handler);
        Some(Loaded {
            id,
            bucket: timer.bucket,
            due: timer.due,
            planned: timer.planned,
            handler: Arc::clone(&timer.handler),
            fence: timer.fence,
            deaths: timer.deaths,
            cancelled: timer.cancelled,
            letter: asked.then(|| timer.payload.chars().take(LETTER.into()).collect()),
        })
    }

    fn start(&mut self, node: NodeId, lead: Micros, starts: &[Start], now: Timestamp) -> Reply {
        let (mut rows, mut moved) = (Vec::new(), Vec::new());
        for start in starts {
            let Some(timer) = self.timers.get_mut(&start.id) else { continue };
            let epoch = start.fence.epoch();
            if self.buckets[usize::from(timer.bucket)] != (Some(node), epoch) {
                continue;
            }
            let again = timer.fence == Some(start.fence);
            if timer.fence.is_some_and(|fence| fence.epoch() >= epoch) && !again {
                continue;
            }
            if timer.deadline > now + lead && !again {
                if timer.fence.is_none() {
                    let due = timer.deadline;
                    self.look_at(start.id, due);
                    moved.push((start.id, due));
                }
                continue;
            }
            if !again {
                timer.attempt += 1;
                timer.deaths += u32::from(timer.fence.is_some());
                timer.fence = Some(start.fence);
            }
            rows.push(timer.row(start.id, self.store));
        }
        Reply::Started { rows, moved }
    }

    fn finish(&mut self, finish: &Finish, now: Timestamp) -> Finished {
        let id = finish.id;
        let Some(timer) = self.timers.get_mut(&id).filter(|it| it.fence == Some(finish.fence))
        else {
            return Finished::Stale;
        };
        let then = finish.then.by(now);
        if let Then::ParkRun { reason, .. } = &*then
            && timer.series.is_some()
        {
            let (series, fence, origin) = (None, None, Some(id));
            let run = Stored { series, fence, origin, ..timer.clone() };
            self.parked.insert(self.next_id, (run, reason.clone(), now));
            self.next_id += 1;
        }
        let due = match &*then {
            Then::ParkRun { when, offset, .. }
            | Then::Next { when, offset }
            | Then::LeftOut { when, offset }
                if timer.series.is_some() =>
            {
                timer.run += i64::from(!matches!(*then, Then::LeftOut { .. }));
                timer.plan_next(when.by(now)) + *offset
            }
            Then::Done | Then::Next { .. } | Then::LeftOut { .. } => {
                let timer = self.remove(id).expect("looked up above");
                if let Some(key) = timer.key.filter(|_| timer.remember > Micros::ZERO) {
                    self.used_keys.insert(key, now + timer.remember);
                }
                return Finished::Gone;
            }
            Then::Retry { after, error } => {
                timer.last_error = Some(error.clone());
                timer.deaths = 0;
                timer.unknown_since = None;
                now + *after
            }
            Then::GiveBack { after, ran } => {
                timer.attempt = timer.attempt.saturating_sub(1);
                if *ran {
                    (timer.deaths, timer.unknown_since) = (0, None);
                }
                timer.deadline.max(now + *after)
            }
            Then::PutOff { after } => {
                timer.attempt = timer.attempt.saturating_sub(1);
                timer.unknown_since.get_or_insert(now);
                timer.deadline.max(now + *after)
            }
            Then::Park { reason } | Then::ParkRun { reason, .. } => {
                self.park(id, reason.clone(), now);
                return Finished::Parked;
            }
        };
        timer.fence = None;
        timer.deadline = due;
        self.look_at(id, due);
        Finished::Again { due }
    }

    fn put_off(
        &mut self,
        (id, tenure): (TimerId, Tenure),
        (least, most): (Micros, Micros),
        now: Timestamp,
    ) -> Option<Timestamp> {
        if !self.is_held_in(tenure) {
            return None;
        }
        let timer = self.timers.get_mut(&id).filter(|timer| timer.fence.is_none())?;
        let since = *timer.unknown_since.get_or_insert(now);
        let due = now + (now - since).clamp(least, most);
        timer.deadline = due;
        self.look_at(id, due);
        Some(due)
    }

    /// Parks what nobody could run since `before`.
    fn park_waiting(
        &mut self,
        (id, tenure): (TimerId, Tenure),
        before: Timestamp,
        reason: &str,
        now: Timestamp,
    ) -> Option<Row> {
        let waits = |timer: &&Stored| {
            let since = timer.unknown_since;
            timer.fence.is_none() && since.is_some_and(|since| since <= before)
        };
        let timer = self.timers.get(&id).filter(waits).filter(|_| self.is_held_in(tenure))?;
        let row = timer.row(id, self.store);
        self.park(id, reason.to_owned(), now);
        Some(row)
    }

    fn park(&mut self, id: TimerId, reason: String, now: Timestamp) {
        if let Some(mut timer) = self.remove(id) {
            timer.fence = None;
            self.parked.insert(id, (timer, reason, now));
        }
    }

    fn prune(&mut self, kept: Kept, limit: usize, now: Timestamp) -> usize {
        let all = self.parked.iter().map(|(id, (_, _, at))| (*at, *id)).collect();
        let gone = too_old(all, kept, limit, now);
        gone.into_iter().map(|(_, id)| self.parked.remove(&id)).count()
    }

    fn prune_runs(&mut self, kept: Kept, limit: usize, now: Timestamp) -> usize {
        let all = self.runs.values().map(|ran| (ran.ended, ran.place())).collect();
        let gone = too_old(all, kept, limit, now);
        gone.into_iter().map(|(_, (_, id, fence))| self.runs.remove(&(id, fence))).count()
    }

    fn runs(&self, select: &RunsSelect) -> Written {
        let mut rows: Vec<&Ran> = match select.timer {
            Some(id) => self.runs.range((id, Fence(i64::MIN))..=(id, select.before().2)),
            None => self.runs.range(..),
        }
        .map(|(_, ran)| ran)
        .filter(|ran| match select.timer {
            Some(_) => ran.fence < select.before().2,
            None => ran.place() < select.before(),
        })
        .collect();
        match select.timer {
            Some(_) => rows.reverse(),
            None => rows.sort_unstable_by_key(|ran| std::cmp::Reverse(ran.place())),
        }
        let (page, next) = select.page(rows.into_iter().take(select.most()).cloned());
        Written::Runs(page, next)
    }

    fn insert(&mut self, id: TimerId, timer: Stored) {
        self.due.insert((timer.bucket, timer.due, id));
        if let Some(key) = &timer.key {
            self.keys.insert(Arc::clone(key), id);
        }
        self.timers.insert(id, timer);
    }

    fn remove(&mut self, id: TimerId) -> Option<Stored> {
        let timer = self.timers.remove(&id)?;
        self.due.remove(&(timer.bucket, timer.due, id));
        if let Some(key) = &timer.key {
            self.keys.remove(key);
        }
        Some(timer)
    }

    fn look_at(&mut self, id: TimerId, due: Timestamp) {
        if let Some(timer) = self.timers.get_mut(&id) {
            self.due.remove(&(timer.bucket, timer.due, id));
            timer.due = due;
            self.due.insert((timer.bucket, due, id));
        }
    }
}

/// What is not to be kept of these, the oldest first; each has a time.
fn too_old<T: Ord>(
    mut all: Vec<(Timestamp, T)>,
    kept: Kept,
    limit: usize,
    now: Timestamp,
) -> Vec<(Timestamp, T)> {
    all.sort_unstable_by(|one, other| other.cmp(one));
    let too_many = kept.most.map_or(all.len(), |most| most.min(all.len()));
    let is_old = |(at, _): &(Timestamp, T)| kept.age.is_some_and(|age| *at < now - age);
    let too_old = all.iter().position(is_old).unwrap_or(all.len());
    let gone = all.split_off(too_many.min(too_old));
    gone.into_iter().rev().take(limit).collect()
}

impl Stored {
    /// Its series goes on with another run, planned for then.
    fn plan_next(&mut self, planned: Timestamp) -> Timestamp {
        (self.attempt, self.deaths, self.last_error) = (0, 0, None);
        (self.planned, self.unknown_since) = (planned, None);
        planned
    }

    fn row(&self, id: TimerId, store: u128) -> Row {
        Row {
            id,
            handler: Arc::clone(&self.handler),
            payload_version: self.payload_version,
            payload: self.payload.to_string(),
            key: self.key.as_deref().map(str::to_owned),
            deadline: self.deadline,
            planned: self.planned,
            attempt: self.attempt,
            deaths: self.deaths,
            series: self.series.as_deref().map(str::to_owned),
            store,
            origin: self.origin.unwrap_or(id),
            run: self.run,
            unknown_since: self.unknown_since,
            cancelled: self.cancelled,
        }
    }

    fn there(&self) -> There<'_> {
        There {
            handler: &self.handler,
            payload_version: self.payload_version,
            payload: &self.payload,
            series: self.series.as_deref(),
            tag: self.tag.as_deref(),
            remember: self.remember,
            started: self.fence.is_some(),
            cancelled: self.cancelled,
            attempt: self.attempt,
            deadline: self.deadline,
        }
    }

    fn placed(&self, id: TimerId, how: How) -> Placed {
        Placed { id, bucket: self.bucket, due: self.due, handler: Arc::clone(&self.handler), how }
    }

    fn listed(&self, id: TimerId, parked: Option<(String, Timestamp)>) -> Listed {
        Listed {
            id,
            key: self.key.as_deref().map(str::to_owned),
            tag: self.tag.as_deref().map(str::to_owned),
            cancelled: self.cancelled && parked.is_none(),
            handler: self.handler.to_string(),
            payload_version: self.payload_version,
            payload: self.payload.to_string(),
            deadline: self.deadline,
            attempt: self.attempt,
            deaths: self.deaths,
            running: self.fence.is_some(),
            series: self.series.as_deref().map(str::to_owned),
            run: self.run,
            last_error: self.last_error.clone(),
            parked,
        }
    }
}
