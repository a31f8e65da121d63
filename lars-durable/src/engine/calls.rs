//! The writer: calls and their answers.
//!
//! ```text
//!   call ─▶ queue ─▶ in flight ─▶ answered
//!             │ ▲        │
//!    patience │ └────────┤ nothing was done: batched again, perhaps with others
//!             ▼          │ perhaps committed: sent again as it was, until that is known
//!        Unavailable     └─ patience ─▶ OutcomeUnknown, and it goes on being sent
//! ```
//!
//! Each call is answered exactly once. `Unavailable` says that nothing was done: so only a call
//! that is not part of an uncertain batch gets it. A batch that may have been committed is never
//! taken apart, because the token says of the whole whether it was carried out.
//!
//! What others hold goes apart, and is asked for a few calls at a time, in batches of its own, so
//! that however much it is, the other calls have at least every second batch. Later calls about the
//! same go there too: they keep their order.
//!
//! Calls wait until the node has joined: before that nobody knows how many buckets there are. A
//! timer gets its identity and its bucket when it is first sent, and keeps them, so that sending it
//! again makes no second one.

mod call;
mod held;

use std::collections::VecDeque;
use std::ops::Range;

use self::call::Call;
pub(crate) use self::call::CallId;
use self::held::HeldCalls;
use super::lane::{LONGEST_PAUSE, LaneState};
use super::window::Key;
use super::{Lane, Node, Output};
use crate::error::{Error, Refused};
use crate::model::{BucketNo, NewTimer, TimerId, stable_hash};
use crate::store::{
    Committed, History, How, Placed, Reply, Request, StoreError, Write, Written, mismatched, paired,
};
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

/// The answer to a call that was carried out.
pub(crate) type Answer = Written;

/// Identities are drawn in blocks; a new one when fewer than half of it are left, or than the last
/// batch took.
const BLOCK: usize = 1_024;

/// How long calls wait for what others hold, before they are asked for again: as long as the batch
/// took that found it held, but at least so long, and at most a second.
const HELD: Micros = Micros::MILLISECOND.times(100);

/// Why a call does nothing that was made by an actor whose bucket went to another node.
const LOST: &str = "the bucket has had another owner since";

/// How many bytes of payloads, keys and tags a batch has at most, unless one call has more.
const LONGEST_BATCH: usize = 4 << 20;

/// See the module's documentation. Its lane is the writer's.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Calls {
    lane: LaneState,
    /// In the order in which they came, and those that failed once before them.
    queue: VecDeque<Call>,
    held: HeldCalls,
    /// How many calls have come.
    numbers: u64,
    /// The batch that was sent. If its outcome is not known, the same is sent again, with the same
    /// token.
    in_flight: Vec<Call>,
    sent: Vec<Request>,
    ids: Ids,
    /// The writer's identity, for tokens; it stays when the node starts over.
    writer: u128,
    token: i64,
    /// One try of the batch that was sent may have been committed.
    uncertain: bool,
}

/// Identities that are drawn and not used, in blocks.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Ids {
    blocks: VecDeque<Range<TimerId>>,
    /// Of the store, when they were drawn. The timers of all calls that wait have identities of
    /// this history, or none.
    history: Option<History>,
}

impl Calls {
    pub(super) fn new(rng: &mut fastrand::Rng) -> Self {
        Self {
            lane: LaneState::new(LONGEST_PAUSE),
            queue: VecDeque::new(),
            held: HeldCalls::new(),
            numbers: 0,
            in_flight: Vec::new(),
            sent: Vec::new(),
            ids: Ids::default(),
            writer: rng.u128(..),
            token: rng.i64(..),
            uncertain: false,
        }
    }

    /// The reply of the batch in flight came: says when that was sent.
    pub(super) fn answered(&mut self, now: Mono, result: &Result<Committed, StoreError>) -> Mono {
        self.lane.answered(now, result)
    }

    /// The batch in flight was not committed, or perhaps was.
    fn failed(&mut self, error: &StoreError) {
        for call in &mut self.in_flight {
            call.reason = Some(error.reason.clone());
        }
        self.uncertain |= error.unknown;
        if error.redraw {
            self.uncertain = false;
        }
        if !self.uncertain {
            // Nothing was done, so they can be batched again.
            self.sent.clear();
            for call in std::mem::take(&mut self.in_flight).into_iter().rev() {
                self.queue.push_front(call);
            }
        }
        if error.redraw {
            self.disown_ids(&error.reason);
        }
    }

    fn drawn(&mut self, blocks: Vec<Range<TimerId>>, history: History) {
        if self.ids.history.is_some_and(|before| before != history) {
            self.disown_ids("the store has another history");
        }
        self.ids.history = Some(history);
        self.ids.blocks.extend(blocks);
    }

    /// What was drawn before may be drawn again by others: it is not used any more.
    fn disown_ids(&mut self, reason: &str) {
        tracing::warn!(target: "lars_durable", %reason, "identities are drawn anew");
        self.ids = Ids::default();
        let mut held = self.held.take_all();
        held.extend(self.queue.drain(..));
        held.sort_by_key(|call| call.number);
        self.queue.extend(held);
        for call in &mut self.queue {
            if let Write::Schedule(timers) = &mut call.write {
                Arc::make_mut(timers).iter_mut().for_each(|timer| timer.id = 0);
            }
        }
    }

    /// Buckets for which somebody has asked for something, and has no answer.
    pub(super) fn buckets(&self) -> impl Iterator<Item = BucketNo> {
        let all = self.queue.iter().chain(&self.in_flight).chain(self.held.iter());
        let tenures = all.filter_map(|call| call.tenure);
        tenures.map(|tenure| tenure.bucket)
    }

    /// Whether a batch is under way.
    pub(super) fn waits_for_store(&self) -> bool {
        !self.lane.is_idle()
    }

    /// Whether no call waits for its answer.
    pub(super) fn is_idle(&self) -> bool {
        let waits = self.queue.is_empty() && self.held.is_empty();
        waits && self.in_flight.is_empty() && self.lane.is_idle()
    }
}

impl Node {
    /// Takes a call in; its answer is an output.
    pub(crate) fn call(&mut self, now: Mono, id: CallId, write: Write) {
        if self.waits_for_calls_only() {
            let result = Err(Refused::Closed.into());
            return self.out.push(Output::Answer { call: id, result });
        }
        let patience = now + self.settings.call_timeout;
        let (tenure, write) = match write {
            Write::Under { tenure, write } => (Some(tenure), *write),
            write => (None, write),
        };
        self.calls.numbers += 1;
        let number = self.calls.numbers;
        let call = Call { id, number, write, tenure, patience, given_up: false, reason: None };
        self.calls.queue.push_back(call);
    }

    /// When the writer has something to do, if nothing comes in before.
    pub(super) fn next_write(&self) -> Mono {
        let calls = &self.calls;
        let has_joined = self.lease.buckets() > 0;
        let held = calls.held.iter().next();
        let send = calls.lane.next(match held {
            _ if !calls.sent.is_empty() => Mono::MIN,
            _ if has_joined && !calls.queue.is_empty() => Mono::MIN,
            Some(_) if has_joined => calls.held.again(),
            _ => Mono::NEVER,
        });
        let open = calls.in_flight.iter().filter(|call| !call.given_up);
        let open = open.chain(calls.queue.front()).chain(held);
        let patience = open.map(|call| call.patience).min();
        send.min(patience.unwrap_or(Mono::NEVER))
    }

    /// Sends what the writer has to send.
    pub(super) fn write(&mut self, now: Mono) {
        self.give_up_calls(now);
        if !self.calls.lane.is_free(now) || self.lease.buckets() == 0 {
            return;
        }
        if self.calls.sent.is_empty() {
            self.next_batch(now);
        }
        if !self.calls.sent.is_empty() {
            self.calls.lane.sent(now);
            let requests = self.calls.sent.clone();
            self.out.push(Output::Send { lane: Lane::Writer, requests });
        }
    }

    /// Puts the next batch together: as many calls as it holds, but at least one, and identities
    /// for those that come next: as many as this one took, because the next one may be as large. If
    /// there are too few for the first call, they are all that is asked for.
    fn next_batch(&mut self, now: Mono) {
        let (mut taken, mut bytes) = (0, 0);
        let (others, ids) = (!self.calls.queue.is_empty(), self.calls.ids.left());
        let (mut calls, mut short_of) = self.calls.held.turn(now, others, ids);
        while let Some(call) = self.calls.queue.front().filter(|_| !self.calls.held.had_turn()) {
            if self.calls.held.has_subject_of(&call.write) {
                let waits = self.calls.queue.pop_front();
                waits.into_iter().for_each(|call| self.calls.held.put(call));
                continue;
            }
            let more = call.weight();
            bytes += call.bytes();
            let too_many = taken + more > self.settings.batch || bytes > LONGEST_BATCH;
            if !calls.is_empty() && too_many {
                break;
            }
            if call.needs_ids() && taken + more > self.calls.ids.left() {
                short_of = short_of.max(more);
                break;
            }
            taken += more;
            calls.extend(self.calls.queue.pop_front());
        }
        let mut requests = Vec::with_capacity(calls.len() + 2);
        if !calls.is_empty() {
            self.calls.token = self.calls.token.wrapping_add(1);
            let (writer, token) = (self.calls.writer, self.calls.token);
            let history = self.calls.ids.history;
            requests.push(Request::Batch { writer, token, history });
        }
        for call in &mut calls {
            if let Write::Schedule(timers) = &mut call.write {
                Arc::make_mut(timers).iter_mut().for_each(|timer| self.give_place(timer));
            }
            requests.push(Request::Write(call.asked()));
        }
        let ahead = taken.max(BLOCK / 2);
        if short_of > 0 || !calls.is_empty() && self.calls.ids.left() < ahead {
            let count = i64::try_from(BLOCK.max(short_of).max(ahead)).unwrap_or(i64::MAX);
            requests.push(Request::Ids { count });
        }
        (self.calls.in_flight, self.calls.sent) = (calls, requests);
    }

    /// Gives a timer its identity and its bucket; once, so that it can be sent again.
    fn give_place(&mut self, timer: &mut NewTimer) {
        if timer.id != 0 {
            return;
        }
        timer.id = self.calls.ids.draw();
        let buckets = self.lease.buckets();
        timer.bucket = match timer.home.as_ref().or(timer.key.as_ref()) {
            Some(key) => bucket_of(key, buckets),
            None => self.window.any_bucket().unwrap_or_else(|| self.rng.u16(..buckets)),
        };
    }

    /// Takes in the reply to the batch in flight.
    pub(super) fn written(&mut self, sent: Mono, now: Mono, result: Result<Committed, StoreError>) {
        match result {
            Ok(committed) => {
                self.calls.uncertain = false;
                let took = now - sent;
                let sent = std::mem::take(&mut self.calls.sent);
                let mut calls = std::mem::take(&mut self.calls.in_flight).into_iter();
                let again = now + HELD.max(took).min(Micros::SECOND);
                for (request, reply) in paired(sent, committed.replies) {
                    match (request, reply) {
                        (Request::Batch { .. }, Reply::Batched) => {}
                        (Request::Write(_), Reply::Written(written)) => {
                            let call = calls.next().expect("each call sends one write");
                            if written == Written::Held {
                                self.calls.held.wait(call, again);
                            } else {
                                self.answer(now, call, written);
                            }
                        }
                        (Request::Ids { .. }, Reply::Ids { blocks, history }) => {
                            self.calls.drawn(blocks, history);
                        }
                        (request, reply) => mismatched(&request, &reply),
                    }
                }
            }
            Err(error) => self.calls.failed(&error),
        }
    }

    /// Tells callers what their calls did, and takes to the window what is near.
    fn answer(&mut self, now: Mono, call: Call, written: Written) {
        self.take_effect(now, &written);
        self.tell_of_call(&call.write, &written);
        if let (Written::Scheduled(placed), Write::Schedule(timers)) = (&written, &call.write) {
            for (placed, new) in placed.iter().zip(&**timers) {
                self.placed(now, placed, Some(&new.payload));
                if let How::Updated { .. } = placed.how {
                    self.runs.follow(placed.id, new.series.as_deref());
                }
            }
        }
        if let Write::Pause { handler, paused } = &call.write {
            // The other nodes learn of it with their next renewal.
            self.lease.set_paused(now, handler, *paused);
        }
        let result = match written {
            Written::KeyTaken(key) => Err(Refused::KeyTaken { key }.into()),
            // An earlier try did it.
            Written::Unsure => {
                Err(Error::OutcomeUnknown { reason: call.reason.unwrap_or_default() })
            }
            Written::Lost => Err(Error::Unavailable { reason: LOST.into() }),
            written => Ok(written),
        };
        self.out.push(Output::Answer { call: call.id, result });
    }

    /// What is in memory follows what was written.
    fn take_effect(&mut self, now: Mono, written: &Written) {
        match written {
            Written::Selected(selected) => {
                for written in &selected.each {
                    self.take_effect(now, written);
                }
            }
            Written::Placed(placed) => self.placed(now, placed, None),
            Written::Prevented { id, due } => {
                self.counts.cancelled += 1;
                self.window.remove((*due, *id));
                self.runs.forget((*due, *id));
            }
            Written::Reset { id, bucket, was_due, due, handler } => {
                self.moved(now, *bucket, (*was_due, *due, *id), (handler, None));
            }
            // With what was asked for.
            Written::Scheduled(_) => {}
            Written::Held
            | Written::KeyTaken(_)
            | Written::Unsure
            | Written::Lost
            | Written::Running { .. }
            | Written::NotFound
            | Written::Listed(_)
            | Written::Runs(..)
            | Written::Applied => {}
            // The finish of its run finds no row.
            Written::Removed { .. } => {}
        }
    }

    /// A timer was made; one that was kept is another call's.
    fn placed(&mut self, now: Mono, placed: &Placed, letter: Option<&str>) {
        let Placed { id, bucket, due, handler, how } = placed;
        match how {
            // There is none.
            _ if *id == 0 => {}
            How::Kept => {}
            How::Updated { was_due } => {
                self.moved(now, *bucket, (*was_due, *due, *id), (handler, letter));
            }
            How::New | How::Replaced { .. } => {
                self.counts.scheduled += 1;
                self.arrived(now, *bucket, (*due, *id), (handler, letter));
            }
        }
    }

    /// A timer is due at another time. If that is later, it is where it was.
    fn moved(
        &mut self,
        now: Mono,
        bucket: BucketNo,
        (was_due, due, id): (Timestamp, Timestamp, TimerId),
        whose: (&Arc<str>, Option<&str>),
    ) {
        if due < was_due {
            self.window.remove((was_due, id));
            self.runs.forget((was_due, id));
            self.arrived(now, bucket, (due, id), whose);
        }
    }

    /// A timer of this handler, with this payload, has a new place: near means that its owner has
    /// to know.
    fn arrived(
        &mut self,
        now: Mono,
        bucket: BucketNo,
        key: Key,
        (handler, letter): (&Arc<str>, Option<&str>),
    ) {
        let resident = self.resident(bucket, handler, letter);
        if letter.is_none() && self.has_recipients(resident) {
            // Its row says whose it is.
            self.runner.announce(self.window.reaches(bucket, key).then_some(key.1));
        } else {
            self.near(key, resident);
        }
        if self.is_foreign_and_near(bucket, key.0, now) {
            self.out.push(Output::Notify(vec![(bucket, key.1)]));
        }
    }

    /// Answers those whose patience is over.
    fn give_up_calls(&mut self, now: Mono) {
        let mut over = self.calls.held.take_impatient(now);
        while self.calls.queue.front().is_some_and(|call| call.patience <= now) {
            over.extend(self.calls.queue.pop_front());
        }
        for call in over {
            let joining = self.lease.last_words().map(str::to_owned);
            let reason = call.reason.or(joining).unwrap_or_else(|| "no answer yet".into());
            let result = Err(Error::Unavailable { reason });
            self.out.push(Output::Answer { call: call.id, result });
        }
        for call in &mut self.calls.in_flight {
            if call.patience <= now && !call.given_up {
                // It goes on being sent: only the store knows what it is part of.
                call.given_up = true;
                let reason = call.reason.clone().unwrap_or_else(|| "no answer yet".into());
                let result = Err(Error::OutcomeUnknown { reason });
                self.out.push(Output::Answer { call: call.id, result });
            }
        }
    }
}

impl Ids {
    fn left(&self) -> usize {
        self.blocks.iter().map(|block| usize::try_from(block.end - block.start).unwrap_or(0)).sum()
    }

    /// Draws an identity. The caller has made sure that one is left.
    fn draw(&mut self) -> TimerId {
        while let Some(block) = self.blocks.front_mut() {
            if let Some(id) = block.next() {
                return id;
            }
            self.blocks.pop_front();
        }
        unreachable!("a batch takes no more timers than there are identities")
    }
}

/// The bucket of a key.
fn bucket_of(key: &str, buckets: BucketNo) -> BucketNo {
    let place = stable_hash(key) % u64::from(buckets);
    BucketNo::try_from(place).expect("less than the number of buckets")
}
