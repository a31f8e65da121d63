//! Why runs are launched late, as far as the engine knows. Only if somebody wants to know.
//!
//! What keeps the timers of a handler from starting changes in turns alone. So each turn ends with
//! a look at it, and the handler's *record* has a new piece if that has changed. When a run is
//! launched late, the time since it was due is laid over what is known of it:
//!
//! ```text
//!   due ─────▶ bucket taken ─────▶ picked ─────▶ recorded ─────▶ launched
//!     no owner          the record        the store       the lease
//! ```
//!
//! What is left over is unknown. A run that is punctual writes nothing here.

use std::collections::{BTreeMap, VecDeque};

use lars_scheduler::late::Cause;

use super::Node;
use crate::model::{BucketNo, NodeId};
use crate::sync::Arc;
use crate::time::{Micros, Mono};

/// How many pieces the record of a handler has at most: the last ones.
const PIECES: usize = 512;

/// What keeps the timers of a handler from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing does, and nothing waits.
    Idle,
    /// What is not told apart here, such as quarantine.
    Otherwise,
    /// A transaction is under way, or is tried again.
    Store,
    /// The lease has ended, because the store does not answer its renewals.
    Lease,
    /// The handler has as many runs as it may.
    Handler,
    /// So has the node. The handler in this place has most of them.
    Node(usize),
    /// Whom its timers are for has as many as it may.
    Recipient,
}

/// A part of the time by which a run was launched late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delay {
    pub(crate) cause: Cause,
    /// A handler or a node.
    pub(crate) culprit: Option<Arc<str>>,
    pub(crate) time: Micros,
}

/// What is known of a timer that was due before it came here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    pub(super) bucket: BucketNo,
    /// When it came.
    pub(super) at: Mono,
    /// It was accepted just then, or so was its next run: it could not have begun before.
    pub(super) accepted: bool,
}

/// What has become of a run so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub(super) heard: Option<Heard>,
    /// When the request to start it was made.
    pub(super) picked: Mono,
    /// When the store had answered all that has to come before the run.
    pub(super) recorded: Mono,
}

/// What is known of a bucket's owners.
#[derive(Debug, Clone, Copy)]
struct Owned {
    /// Since when it is this node's, if it is.
    since: Option<Mono>,
    /// The one before, and its last sign of life.
    before: Option<NodeId>,
    empty_from: Mono,
}

/// See the module's documentation.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Delays {
    /// The present instant, as far as the node was told.
    pub(super) now: Mono,
    handlers: Vec<Record>,
    buckets: BTreeMap<BucketNo, Owned>,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Record {
    name: Arc<str>,
    /// What began when.
    pieces: VecDeque<(Mono, Held)>,
    paused: bool,
    /// When it was paused no longer.
    resumed: Mono,
}

impl Delays {
    pub(super) fn new(handlers: impl Iterator<Item = Arc<str>>, now: Mono) -> Self {
        let record =
            |name| Record { name, pieces: VecDeque::new(), paused: false, resumed: Mono::MIN };
        Self { now, handlers: handlers.map(record).collect(), buckets: BTreeMap::new() }
    }

    /// From when on a run of the handler in this place is late that was due then: no timer can
    /// begin before it is accepted, or while its handler is paused.
    pub(super) fn counts_from(&self, due: Mono, place: usize, past: &Past) -> Mono {
        let accepted = past.heard.filter(|heard| heard.accepted).map_or(Mono::MIN, |it| it.at);
        due.max(accepted).max(self.handlers[place].resumed)
    }

    /// Another node has this bucket, and gave its last sign of life then; or nobody has it.
    pub(super) fn saw_owner(&mut self, bucket: BucketNo, owner: Option<(NodeId, Mono)>, now: Mono) {
        let nobody = Owned { since: None, before: None, empty_from: Mono::MIN };
        let owned = self.buckets.entry(bucket).or_insert(nobody);
        if let Some((node, alive)) = owner {
            *owned = Owned { since: None, before: Some(node), empty_from: alive };
        } else if owned.since.is_some() {
            *owned = Owned { empty_from: now, ..nobody };
        }
    }

    /// It is this node's.
    pub(super) fn took(&mut self, bucket: BucketNo, now: Mono) {
        let nobody = Owned { since: None, before: None, empty_from: Mono::MIN };
        self.buckets.entry(bucket).or_insert(nobody).since.get_or_insert(now);
    }

    /// No bucket is this node's any more.
    pub(super) fn lost_all(&mut self, now: Mono) {
        for owned in self.buckets.values_mut().filter(|owned| owned.since.is_some()) {
            *owned = Owned { since: None, before: None, empty_from: now };
        }
    }

    /// What the time from `from` to `to` was spent with, for a run of the handler in this place
    /// that is launched at `to`.
    pub(super) fn explain(
        &self,
        (place, bucket): (usize, BucketNo),
        past: &Past,
        (from, to): (Mono, Mono),
    ) -> Vec<Delay> {
        let mut sum = Sum(Vec::new());
        if from >= to {
            return sum.0;
        }
        let mut taken = from;
        if let Some(Owned { since: Some(since), before, empty_from }) = self.buckets.get(&bucket) {
            taken = (*since).clamp(from, to);
            let culprit = before.map(|node| format!("node {node:032x}").into());
            sum.add(Cause::NoOwner, culprit, taken - (*empty_from).clamp(from, taken));
        }
        let picked = past.picked.clamp(taken, to);
        for (held, time) in self.handlers[place].between(taken, picked) {
            let name = |place: usize| Some(Arc::clone(&self.handlers[place].name));
            match held {
                Held::Idle if past.heard.is_none() => sum.add(Cause::Timer, None, time),
                Held::Idle | Held::Otherwise => {}
                Held::Store | Held::Lease => sum.add(Cause::Store, None, time),
                Held::Handler => sum.add(Cause::HandlerFull, name(place), time),
                Held::Node(most) => sum.add(Cause::NodeFull, name(most), time),
                Held::Recipient => sum.add(Cause::MessagesBefore, name(place), time),
            }
        }
        let recorded = past.recorded.clamp(picked, to);
        sum.add(Cause::Store, None, recorded - picked);
        for (held, time) in self.handlers[place].between(recorded, to) {
            if held == Held::Lease {
                sum.add(Cause::Store, None, time);
            }
        }
        sum.0
    }
}

impl Record {
    fn note(&mut self, now: Mono, held: Held) {
        if self.pieces.back().is_some_and(|(from, _)| *from >= now) {
            self.pieces.pop_back();
        }
        if self.pieces.back().is_some_and(|(_, last)| *last == held) {
            return;
        }
        if self.pieces.len() == PIECES {
            self.pieces.pop_front();
        }
        self.pieces.push_back((now, held));
    }

    /// What held its timers between the two, as far as that is remembered.
    fn between(&self, from: Mono, to: Mono) -> impl Iterator<Item = (Held, Micros)> {
        let first = self.pieces.partition_point(|(began, _)| *began <= from).saturating_sub(1);
        let ends = self.pieces.iter().skip(first + 1).map(|(began, _)| *began).chain([to]);
        let pieces = self.pieces.iter().skip(first).zip(ends);
        let pieces = pieces.take_while(move |((began, _), _)| *began < to);
        pieces.map(move |((began, held), end)| (*held, end.min(to) - from.max(*began)))
    }
}

/// Delays, each cause and culprit once.
struct Sum(Vec<Delay>);

impl Sum {
    fn add(&mut self, cause: Cause, culprit: Option<Arc<str>>, time: Micros) {
        if time <= Micros::ZERO {
            return;
        }
        match self.0.iter_mut().find(|it| it.cause == cause && it.culprit == culprit) {
            Some(delay) => delay.time = delay.time + time,
            None => self.0.push(Delay { cause, culprit, time }),
        }
    }
}

impl Node {
    /// What keeps timers from starting, until the next turn.
    pub(super) fn note_delays(&mut self, now: Mono) {
        let Some(mut delays) = self.delays.take() else { return };
        let limit = self.in_flight_limit(now);
        let most = (0..delays.handlers.len()).max_by_key(|place| self.runs.busy(*place));
        for (place, record) in delays.handlers.iter_mut().enumerate() {
            record.note(now, self.held_by(place, most.unwrap_or(place), limit, now));
            let paused = self.lease.is_paused(&record.name);
            if std::mem::replace(&mut record.paused, paused) && !paused {
                record.resumed = now;
            }
        }
        self.delays = Some(delays);
    }

    /// `most`: the handler with most runs.
    fn held_by(&self, place: usize, most: usize, limit: usize, now: Mono) -> Held {
        let (runs, handler) = (&self.runs, &self.settings.handlers[place]);
        let waits = runs.ready_of(place) > 0;
        if !self.lease.is_valid(now) {
            return if self.lease.waits_for_store() { Held::Lease } else { Held::Otherwise };
        }
        if waits && runs.busy(place) >= handler.concurrency {
            return Held::Handler;
        }
        if waits && !self.has_place(place, limit) {
            let is_one = runs.busy(place) == runs.busy(most);
            return Held::Node(if is_one { place } else { most });
        }
        // A store with one owner has one session: what one lane does, the others wait for.
        let others = self.calls.waits_for_store() || self.lease.waits_for_store();
        match waits {
            _ if self.runner.waits_for_store(now) || self.settings.sole && others => Held::Store,
            false => Held::Idle,
            true if handler.recipient.is_some() && runs.quarantined() == 0 => Held::Recipient,
            true => Held::Otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let pieces = VecDeque::new();
        Record { name: "x".into(), pieces, paused: false, resumed: Mono::MIN }
    }

    fn between(record: &Record, from: i64, to: i64) -> Vec<(Held, i64)> {
        record.between(Mono(from), Mono(to)).map(|(held, time)| (held, time.0)).collect()
    }

    #[test]
    fn a_record_says_for_how_long_each_was_so_and_the_last_look_at_an_instant_counts() {
        let mut record = record();
        for (at, held) in [(10, Held::Idle), (20, Held::Store), (20, Held::Handler)] {
            record.note(Mono(at), held);
        }
        record.note(Mono(30), Held::Handler);
        record.note(Mono(40), Held::Idle);
        let all = [(Held::Idle, 10), (Held::Handler, 20), (Held::Idle, 10)];
        assert_eq!(between(&record, 0, 50), all, "what was before it is not known");
        assert_eq!(between(&record, 15, 25), [(Held::Idle, 5), (Held::Handler, 5)]);
        assert_eq!(between(&record, 25, 35), [(Held::Handler, 10)]);
        assert_eq!(between(&record, 60, 70), [(Held::Idle, 10)]);
        assert_eq!(between(&record, 0, 5), []);
    }

    #[test]
    fn a_record_forgets_its_first_pieces() {
        let mut record = record();
        for at in 0..2_000 {
            let held = if at % 2 == 0 { Held::Store } else { Held::Idle };
            record.note(Mono(at), held);
        }
        assert_eq!(record.pieces.len(), PIECES);
        let time: i64 = between(&record, 0, 2_000).iter().map(|(_, time)| time).sum();
        assert_eq!(time, PIECES as i64);
    }
}
