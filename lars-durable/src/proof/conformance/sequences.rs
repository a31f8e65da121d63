//! Random requests in random order: each store answers as the reference does.

use super::super::assert_same;
use super::*;
use crate::model::{End, Series};

#[test]
fn a_store_answers_every_sequence_of_requests_as_the_reference_does() {
    for seed in 0..12 {
        for batch in [1, 7, 1_000] {
            for store in Bench::others() {
                compare(seed, batch, store);
            }
        }
    }
}

fn compare(seed: u64, batch: usize, mut store: Bench) {
    let mut rng = fastrand::Rng::with_seed(seed * 31 + batch as u64);
    let mut reference = Bench::memory();
    assert_eq!(reference.epoch, store.epoch, "both are new");
    let mut requests = Sequence { rng: rng.fork(), next_id: 1, started: Vec::new() };
    let mut left = 1_000;
    while left > 0 {
        let count = batch.min(left);
        left -= count;
        let all: Vec<Request> = (0..count).map(|_| requests.next(reference.epoch)).collect();
        let (expected, found) = (nameless(reference.ask(&all)), nameless(store.ask(&all)));
        for (number, request) in all.iter().enumerate() {
            assert_eq!(found[number], expected[number], "seed {seed}, request {request:?}");
        }
        let by = rng.i64(0..SECOND);
        reference.later(by);
        store.later(by);
    }
    assert_same(&store.ids(), &reference.ids(), &format!("seed {seed}"));
}

/// Without the identities of the stores, which differ.
fn nameless(mut replies: Vec<Reply>) -> Vec<Reply> {
    for reply in &mut replies {
        if let Reply::Started { rows, .. } | Reply::Parked(rows) = reply {
            rows.iter_mut().for_each(|row| row.store = 0);
        }
    }
    replies
}

struct Sequence {
    rng: fastrand::Rng,
    next_id: TimerId,
    started: Vec<(TimerId, Fence)>,
}

impl Sequence {
    fn next(&mut self, epoch: u32) -> Request {
        let key: Arc<str> = self.rng.u8(..6).to_string().into();
        let id = self.rng.i64(1..=self.next_id);
        match self.rng.u8(..20) {
            0..=5 => {
                let count = self.rng.usize(1..4);
                let timers = (0..count).map(|_| self.timer()).collect();
                self.perhaps_under(epoch, Write::Schedule(Arc::new(timers)))
            }
            6 if self.rng.bool() => {
                let but = self.rng.bool().then_some(id);
                self.perhaps_under(epoch, Write::Remove { key, but })
            }
            6 if self.rng.u8(..4) == 0 => Request::Write(Write::EndSeries { id }),
            6 => Request::Write(Write::Cancel { which: self.which(key, id) }),
            7 => Request::Write(Write::Reset { which: self.which(key, id), when: self.when() }),
            8 => Request::Write(Write::Get { which: self.which(key, id) }),
            9 => self.select(),
            10 if self.rng.bool() => Request::Write(Write::RetryParked { id }),
            10 => Request::Write(Write::DiscardParked { id }),
            11..=14 => self.start(epoch),
            15..=17 => self.finish(),
            18 => match self.rng.u8(..3) {
                0 => Request::PutOff {
                    timers: self.own(id, epoch),
                    least: Micros::SECOND,
                    most: Micros::SECOND * 3,
                },
                1 => {
                    let before = Timestamp(START + self.rng.i64(0..20 * SECOND));
                    let timers = self.own(id, epoch);
                    Request::Park { timers, before, reason: "unknown".into() }
                }
                _ => Request::Read { ids: vec![id, id + 1], letters: Letters::default() },
            },
            19 if self.rng.u8(..4) == 0 => {
                let most = self.rng.bool().then(|| self.rng.usize(1..4));
                let age = self.rng.bool().then(|| Micros(self.rng.i64(0..9 * SECOND)));
                let old = if self.rng.bool() { Old::Parked } else { Old::Runs };
                Request::Prune { old, kept: Kept { most, age }, limit: self.rng.usize(1..4) }
            }
            19 if self.rng.bool() => Request::Record(vec![self.ran(id)]),
            19 if self.rng.bool() => {
                Request::Write(Write::Runs { select: Arc::new(self.runs(id)) })
            }
            _ => Request::Load {
                bucket: 0,
                after: FAR,
                until: Timestamp(START + self.rng.i64(0..20 * SECOND)),
                limit: self.rng.usize(1..10),
                letters: Letters::default(),
            },
        }
    }

    /// As a node says which timer it means, which may have lost its bucket.
    fn own(&mut self, id: TimerId, epoch: u32) -> Vec<(TimerId, Tenure)> {
        let epoch = epoch - u32::from(self.rng.u8(..4) == 0);
        vec![(id, Tenure { bucket: 0, epoch })]
    }

    /// As an actor asks, which may have lost its bucket.
    fn perhaps_under(&mut self, epoch: u32, write: Write) -> Request {
        let epoch = match self.rng.u8(..4) {
            0 => epoch,
            1 => epoch - 1,
            _ => return Request::Write(write),
        };
        let (tenure, write) = (Tenure { bucket: 0, epoch }, Box::new(write));
        Request::Write(Write::Under { tenure, write })
    }

    fn select(&mut self) -> Request {
        let timers = States::ALL.without(States::PARKED);
        let (act, fits) = match self.rng.u8(..6) {
            0 => (Act::Count, States::ALL),
            1 => (Act::List, States::ALL),
            2 => (Act::Cancel, timers),
            3 => (Act::Reset(self.when()), timers.without(States::RUNNING)),
            4 => (Act::Retry, States::PARKED),
            _ => (Act::Discard, States::PARKED),
        };
        let from = Timestamp(START + self.rng.i64(-SECOND..5 * SECOND));
        let due = Timestamp(START + self.rng.i64(0..20 * SECOND));
        let prefix: Option<Arc<str>> = self.rng.bool().then(|| self.rng.u8(..6).to_string().into());
        let after = match self.rng.u8(..6) {
            0 => Some(Cursor::Parked(self.rng.i64(1..=self.next_id))),
            1 if prefix.is_some() => Some(Cursor::Key(self.rng.u8(..6).to_string())),
            2 if prefix.is_none() => Some(Cursor::Due { bucket: 0, due, id: self.next_id / 2 }),
            _ => None,
        };
        let select = Select {
            handler: (self.rng.u8(..4) == 0).then(|| "handler".into()),
            prefix,
            tag: (self.rng.u8(..3) == 0).then(|| self.rng.u8(..3).to_string().into()),
            states: if self.rng.bool() { fits } else { fits.and(States::WAITING) },
            due: (from, if self.rng.bool() { due } else { Timestamp::NEVER }),
            failed_with: (self.rng.u8(..4) == 0).then(|| "error".into()),
            after,
            limit: self.rng.usize(1..5),
            scan: self.rng.usize(1..9),
        };
        Request::Write(Write::Select { select: Arc::new(select), act })
    }

    fn start(&mut self, epoch: u32) -> Request {
        let starts = (0..self.rng.usize(1..6))
            .map(|n| {
                let id = self.rng.i64(1..=self.next_id);
                let old = self.rng.u8(..10) == 0;
                let n = u32::try_from(self.started.len() + n).unwrap();
                let fence = Fence::new(epoch - u32::from(old), n);
                self.started.push((id, fence));
                Start { id, bucket: 0, fence }
            })
            .collect();
        Request::Start { node: NODE, lead: Micros::SECOND / 2, starts }
    }

    fn finish(&mut self) -> Request {
        let Some((id, fence)) = self.rng.choice(&self.started).copied() else {
            return Request::Forget { limit: self.rng.usize(1..4) };
        };
        let then = match self.rng.u8(..8) {
            0..=1 => Then::Done,
            7 => Then::LeftOut { when: self.when(), offset: Micros(self.rng.i64(0..10)) },
            2 => Then::Next { when: self.when(), offset: Micros(self.rng.i64(0..10)) },
            3 => Then::Retry { after: Micros(self.rng.i64(0..SECOND)), error: "error".into() },
            4 => Then::GiveBack { after: Micros(self.rng.i64(0..SECOND)), ran: self.rng.bool() },
            5 => Then::PutOff { after: Micros(self.rng.i64(0..SECOND)) },
            _ => Then::Park { reason: "reason".into() },
        };
        Request::Finish(vec![Finish { id, fence, then }])
    }

    /// A run that may have been recorded before.
    fn ran(&mut self, id: TimerId) -> Ran {
        let number = self.rng.u32(..4);
        let ended = Timestamp(START + i64::from(number) * SECOND);
        super::history::ran(id, Fence::new(1, number), ended)
    }

    fn runs(&mut self, id: TimerId) -> RunsSelect {
        let fence = Fence::new(1, self.rng.u32(..4));
        let place = (Timestamp(START + self.rng.i64(0..4) * SECOND), id, fence);
        RunsSelect {
            timer: self.rng.bool().then_some(id),
            handler: self.rng.bool().then(|| "handler".into()),
            before: self.rng.bool().then_some(place),
            limit: self.rng.usize(1..4),
            scan: self.rng.usize(1..6),
        }
    }

    fn which(&mut self, key: Arc<str>, id: TimerId) -> Which {
        if self.rng.bool() { Which::Key(key) } else { Which::Id(id) }
    }

    fn when(&mut self) -> When {
        match self.rng.u8(..3) {
            0 => When::At(Timestamp(START + self.rng.i64(0..20 * SECOND))),
            _ => When::After(Micros(self.rng.i64(0..5 * SECOND))),
        }
    }

    /// A series that may be over before it begins.
    fn ending(&mut self) -> Series {
        let until = Some(START + self.rng.i64(0..3) * 5 * SECOND);
        Series::FixedDelay { delay: SECOND }.with_end(End { until, times: Some(3) })
    }

    fn timer(&mut self) -> NewTimer {
        let id = self.next_id;
        self.next_id += 1;
        let all = [OnConflict::Keep, OnConflict::Replace, OnConflict::Fail, OnConflict::Update];
        NewTimer {
            id,
            bucket: 0,
            when: self.when(),
            offset: Micros(self.rng.i64(0..3)),
            home: None,
            key: (id % 2 == 0).then(|| (id % 6).to_string().into()),
            tag: self.rng.bool().then(|| self.rng.u8(..3).to_string().into()),
            conflict: all[usize::try_from(id).unwrap() / 2 % 4],
            handler: "handler".into(),
            payload_version: 1,
            payload: "{}".into(),
            series: match id % 15 {
                0 | 5 => Some("rule".into()),
                10 => Some(self.ending().to_text().into()),
                _ => None,
            },
            remember: if id % 7 == 0 { Micros::SECOND } else { Micros::ZERO },
        }
    }
}
