//! The writer: calls and their answers.

use std::collections::VecDeque;
use std::ops::Range;

use super::lane::LaneState;
use super::window::Key;
use super::{Lane, Node, Output};
use crate::error::{Error, Refused};
use crate::model::{BucketNo, NewTimer, TimerId, stable_hash};
use crate::store::{Committed, How, Placed, Reply, Request, StoreError, Write, Written};
use crate::sync::Arc;
use crate::time::Mono;

/// The number of a call.
pub(crate) type CallId = u64;

/// The answer to a call that was carried out.
pub(crate) type Answer = Written;

/// Identities are drawn in blocks; a new one when fewer than half of it are left.
const BLOCK: usize = 1_024;

#[derive(Debug)]
pub(super) struct Calls {
    pub(super) lane: LaneState,
    queue: VecDeque<Call>,
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
struct Ids(VecDeque<Range<TimerId>>);

#[derive(Debug)]
struct Call {
    id: CallId,
    write: Write,
    /// After this the call fails: the store cannot be used.
    patience: Mono,
    /// Its caller has been answered that the outcome is not known.
    given_up: bool,
    /// What the store said to an earlier try.
    reason: Option<String>,
}

impl Calls {
    pub(super) fn new(rng: &mut fastrand::Rng) -> Self {
        Self {
            lane: LaneState::new(),
            queue: VecDeque::new(),
            in_flight: Vec::new(),
            sent: Vec::new(),
            ids: Ids::default(),
            writer: rng.u128(..),
            token: rng.i64(..),
            uncertain: false,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty() && self.lane.is_idle()
    }
}

impl Node {
    /// Takes a call in; its answer is an output.
    pub(crate) fn call(&mut self, now: Mono, id: CallId, write: Write) {
        let patience = now.plus(self.settings.call_timeout);
        self.calls.queue.push_back(Call { id, write, patience, given_up: false, reason: None });
    }

    pub(super) fn next_write(&self) -> Mono {
        let calls = &self.calls;
        let waits = !calls.sent.is_empty() || !calls.queue.is_empty() && self.lease.buckets > 0;
        let send = calls.lane.next(if waits { Mono(i64::MIN) } else { Mono::NEVER });
        let open = calls.in_flight.iter().filter(|call| !call.given_up);
        let patience = open.chain(calls.queue.front()).map(|call| call.patience).min();
        send.min(patience.unwrap_or(Mono::NEVER))
    }

    /// Sends what the writer has to send.
    pub(super) fn write(&mut self, now: Mono) {
        self.give_up_calls(now);
        if !self.calls.lane.is_free(now) || self.lease.buckets == 0 {
            return;
        }
        if self.calls.sent.is_empty() {
            self.next_batch();
        }
        if !self.calls.sent.is_empty() {
            self.calls.lane.sent(now);
            let requests = self.calls.sent.clone();
            self.out.push(Output::Send { lane: Lane::Writer, requests });
        }
    }

    fn next_batch(&mut self) {
        let (mut taken, mut calls, mut short_of) = (0, Vec::new(), 0);
        while let Some(call) = self.calls.queue.front() {
            let more = call.weight();
            if !calls.is_empty() && taken + more > self.settings.batch {
                break;
            }
            if call.needs_ids() && taken + more > self.calls.ids.left() {
                short_of = more;
                break;
            }
            taken += more;
            calls.extend(self.calls.queue.pop_front());
        }
        let mut requests = Vec::with_capacity(calls.len() + 2);
        if !calls.is_empty() {
            self.calls.token = self.calls.token.wrapping_add(1);
            let (writer, token) = (self.calls.writer, self.calls.token);
            requests.push(Request::Batch { writer, token });
        }
        for call in &mut calls {
            if let Write::Schedule(timers) = &mut call.write {
                Arc::make_mut(timers).iter_mut().for_each(|timer| self.give_place(timer));
            }
            requests.push(Request::Write(call.write.clone()));
        }
        if short_of > 0 || !calls.is_empty() && self.calls.ids.left() < BLOCK / 2 {
            let count = i64::try_from(BLOCK.max(short_of)).unwrap_or(i64::MAX);
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
        let buckets = self.lease.buckets;
        timer.bucket = match timer.home.as_ref().or(timer.key.as_ref()) {
            Some(key) => bucket_of(key, buckets),
            None => self.window.any_bucket().unwrap_or_else(|| self.rng.u16(..buckets)),
        };
    }

    pub(super) fn written(&mut self, now: Mono, result: Result<Committed, StoreError>) {
        match result {
            Ok(committed) => {
                self.calls.sent.clear();
                self.calls.uncertain = false;
                let mut calls = std::mem::take(&mut self.calls.in_flight).into_iter();
                for reply in committed.replies {
                    match reply {
                        Reply::Ids { first, count } => self.calls.ids.add(first, count),
                        Reply::Written(written) => {
                            if let Some(call) = calls.next() {
                                self.answer(now, call, written);
                            }
                        }
                        _ => {}
                    }
                }
            }
            Err(error) => {
                for call in &mut self.calls.in_flight {
                    call.reason = Some(error.reason.clone());
                }
                if !error.unknown && !self.calls.uncertain {
                    // Nothing was done, so they can be batched again.
                    self.calls.sent.clear();
                    let calls = std::mem::take(&mut self.calls.in_flight);
                    for call in calls.into_iter().rev() {
                        self.calls.queue.push_front(call);
                    }
                }
                self.calls.uncertain |= error.unknown;
            }
        }
    }

    /// Tells callers what their calls did, and takes to the window what is near.
    fn answer(&mut self, now: Mono, call: Call, written: Written) {
        match &written {
            Written::Scheduled(placed) => {
                for placed in placed {
                    self.placed(now, placed);
                }
            }
            Written::Placed(placed) => self.placed(now, placed),
            Written::Prevented { id, due } => {
                self.counts.cancelled += 1;
                self.window.remove((*due, *id));
                self.runs.forget((*due, *id));
            }
            Written::Reset { id, bucket, was_due, due, handler } if due < was_due => {
                self.window.remove((*was_due, *id));
                self.runs.forget((*was_due, *id));
                self.arrived(now, *bucket, (*due, *id), handler);
            }
            _ => {}
        }
        if let Write::Pause { handler, paused } = &call.write {
            // The other nodes learn of it with their next renewal.
            match paused {
                true => drop(self.lease.paused.insert(handler.clone())),
                false => drop(self.lease.paused.remove(handler)),
            }
        }
        let result = match written {
            Written::KeyTaken(key) => Err(Refused::KeyTaken { key }.into()),
            // An earlier try did it.
            Written::Unsure => {
                Err(Error::OutcomeUnknown { reason: call.reason.unwrap_or_default() })
            }
            written => Ok(written),
        };
        self.out.push(Output::Answer { call: call.id, result });
    }

    fn placed(&mut self, now: Mono, placed: &Placed) {
        if placed.how != How::Kept {
            self.counts.scheduled += 1;
            self.arrived(now, placed.bucket, (placed.due, placed.id), &placed.handler);
        }
    }

    /// A timer has a new place: near means that its owner has to know.
    fn arrived(&mut self, now: Mono, bucket: BucketNo, key: Key, handler: &Arc<str>) {
        self.near(bucket, key, handler);
        if self.is_foreign_and_near(bucket, key.0, now) {
            self.out.push(Output::Notify(vec![(bucket, key.1)]));
        }
    }

    fn give_up_calls(&mut self, now: Mono) {
        while self.calls.queue.front().is_some_and(|call| call.patience <= now) {
            let Some(call) = self.calls.queue.pop_front() else { return };
            let joining = self.lease.last_error.as_ref().map(|error| error.reason.clone());
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

impl Call {
    /// How much the call counts in a batch.
    fn weight(&self) -> usize {
        if let Write::Schedule(timers) = &self.write { timers.len().max(1) } else { 1 }
    }

    fn needs_ids(&self) -> bool {
        matches!(&self.write, Write::Schedule(timers) if timers.iter().any(|timer| timer.id == 0))
    }
}

impl Ids {
    fn add(&mut self, first: TimerId, count: i64) {
        self.0.push_back(first..first + count);
    }

    fn left(&self) -> usize {
        self.0.iter().map(|block| usize::try_from(block.end - block.start).unwrap_or(0)).sum()
    }

    /// Draws an identity. The caller has made sure that one is left.
    fn draw(&mut self) -> TimerId {
        while let Some(block) = self.0.front_mut() {
            if let Some(id) = block.next() {
                return id;
            }
            self.0.pop_front();
        }
        unreachable!("a batch takes no more timers than there are identities")
    }
}

/// The bucket of a key.
fn bucket_of(key: &str, buckets: BucketNo) -> BucketNo {
    let place = stable_hash(key) % u64::from(buckets);
    BucketNo::try_from(place).expect("less than the number of buckets")
}
