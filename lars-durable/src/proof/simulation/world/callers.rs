//! Callers: their calls, and the answers.

use super::{Asked, SECOND, Step, World};
use crate::error::Error;
use crate::model::{MissedTick, NewTimer, OnConflict, Series, When};
use crate::proof::history::{Answer, Event, Kind};
use crate::store::{How, Write, Written};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};

impl World {
    /// Somebody calls a node that is alive.
    pub(super) fn call(&mut self) {
        let alive: Vec<usize> = (0..self.plan.nodes)
            .filter(|node| self.members[*node].node.is_some() && !self.members[*node].closing)
            .collect();
        let Some(node) = self.rng.choice(&alive).copied() else {
            if self.healed {
                self.at(self.now + SECOND, Step::Call);
            }
            return;
        };
        let (write, asked) = if self.healed {
            let Some(key) = self.series_keys.pop() else { return };
            self.series_keys.insert(0, key);
            self.cancel(key)
        } else {
            self.calls_left = self.calls_left.saturating_sub(1);
            match self.rng.u8(..100) {
                0..=14 if !self.plan.fails => {
                    let key = self.rng.u64(..8);
                    self.cancel(key)
                }
                _ if self.plan.fails => {
                    let key = self.next_tag;
                    let timer = self.timer(Some(key));
                    self.schedule(vec![timer])
                }
                15..=24 => {
                    let (key, after) = (self.rng.u64(..8), self.rng.i64(0..6 * SECOND));
                    let not_before = self.lowest(after);
                    self.events.push(Event::ResetAsked { key, not_before });
                    let which = key.to_string().as_str().into();
                    (Write::Reset { which, when: When::After(Micros(after)) }, Asked::Reset(key))
                }
                25..=27 if self.plan.faults.any() && !self.plan.stuck => {
                    let paused = self.rng.bool();
                    (Write::Pause { handler: "tag".into(), paused }, Asked::Other)
                }
                28..=34 => {
                    let batch = self.rng.usize(2..6);
                    let timers: Vec<NewTimer> = (0..batch).map(|_| self.timer(None)).collect();
                    self.schedule(timers)
                }
                _ => {
                    let key = self.rng.bool().then(|| self.rng.u64(..8));
                    let timer = self.timer(key);
                    self.schedule(vec![timer])
                }
            }
        };
        self.next_call += 1;
        let (call, now) = (self.next_call, self.mono(node));
        self.members[node].open_calls.insert(call, asked);
        self.member(node).call(now, call, write);
        self.turn_at(node, self.now.max(self.members[node].frozen_until));
    }

    fn cancel(&mut self, key: u64) -> (Write, Asked) {
        self.events.push(Event::CancelAsked { key });
        if self.plan.actors && self.rng.bool() {
            // As an actor cancels a reminder.
            return (Write::Remove { key: key.to_string().into(), but: None }, Asked::Cancel(key));
        }
        (Write::Cancel { which: key.to_string().as_str().into() }, Asked::Cancel(key))
    }

    fn schedule(&mut self, timers: Vec<NewTimer>) -> (Write, Asked) {
        let tags = timers.iter().map(|it| it.payload.parse().expect("a tag")).collect();
        (Write::Schedule(Arc::new(timers)), Asked::Timers(tags))
    }

    fn timer(&mut self, key: Option<u64>) -> NewTimer {
        let tag = self.next_tag;
        self.next_tag += 1;
        let after = match self.rng.u8(..10) {
            0 => 0,
            1..=5 => self.rng.i64(0..100_000),
            _ => self.rng.i64(0..8 * SECOND),
        };
        let stuck = self.plan.stuck && self.rng.u8(..10) < 7;
        let key = key.filter(|_| !stuck);
        let after = if stuck { after.min(SECOND) } else { after };
        let (kind, series) = self.kind(key, stuck);
        if let (Some(key), Some(_)) = (key, &series) {
            self.series_keys.push(key);
        }
        let all = [OnConflict::Keep, OnConflict::Replace, OnConflict::Fail];
        let conflict = *self.rng.choice(&all).expect("not empty");
        let not_before = self.store_now().saturating_add(after);
        let when = match self.rng.bool() {
            true => When::At(Timestamp(not_before)),
            false => When::After(Micros(after)),
        };
        let replaces = conflict == OnConflict::Replace;
        // With an absolute time the bound stays where it is when the clock goes back.
        let not_before = if matches!(when, When::At(_)) { not_before } else { self.lowest(after) };
        self.events.push(Event::Asked { tag, key, not_before, kind, replaces });
        let (handler, home) = match kind {
            Kind::AtMostOnce => ("once", None),
            _ if stuck => (super::STUCK, None),
            _ if self.plan.actors && self.rng.bool() => {
                (super::hosts::KIND, Some(super::hosts::address(tag).into()))
            }
            _ => ("tag", None),
        };
        NewTimer {
            id: 0,
            bucket: 0,
            when,
            offset: Micros::ZERO,
            home,
            key: key.map(|key| key.to_string().into()),
            tag: None,
            conflict,
            handler: handler.into(),
            payload_version: 1,
            payload: tag.to_string().into(),
            series: series.map(|series| series.to_text().into()),
            remember: crate::time::Micros::ZERO,
        }
    }

    /// What a timer is: once, or by which rule it repeats.
    fn kind(&mut self, key: Option<u64>, stuck: bool) -> (Kind, Option<Series>) {
        let kind = match (key, self.rng.u8(..10)) {
            _ if stuck => Kind::Once,
            (Some(_), 0..=1) => Kind::Delay(self.rng.i64(10_000..SECOND)),
            (Some(_), 2..=3) => Kind::Rate(self.rng.i64(100_000..SECOND)),
            (Some(_), 4..=5) if self.plan.fails => Kind::Delay(self.rng.i64(10_000..SECOND)),
            (Some(_), _) if self.plan.fails => Kind::Rate(self.rng.i64(100_000..SECOND)),
            (None, 0) => Kind::AtMostOnce,
            _ => Kind::Once,
        };
        match kind {
            Kind::Delay(delay) => (kind, Some(Series::FixedDelay { delay })),
            Kind::Rate(every) | Kind::Burst(every) => {
                let all = [(MissedTick::Burst, Kind::Burst(every)), (MissedTick::Skip, kind)];
                let (missed, kind) = *self.rng.choice(&all).expect("not empty");
                (kind, Some(Series::FixedRate { every, missed }))
            }
            Kind::Once | Kind::AtMostOnce => (kind, None),
        }
    }

    /// The earliest deadline of a delay that counts from when the store takes the timer in, which
    /// may be after its clock has been set back.
    fn lowest(&self, after: i64) -> i64 {
        let back = if self.plan.faults.jumps > 0 { 2 * 3602 * SECOND } else { 0 };
        self.store_now() + after - back
    }

    pub(super) fn answered(&mut self, node: usize, call: u64, result: Result<Written, Error>) {
        let Some(asked) = self.members[node].open_calls.remove(&call) else { return };
        self.is_busy(node);
        match (asked, result) {
            (Asked::Timers(tags), Ok(Written::Scheduled(placed))) => {
                for (tag, placed) in tags.into_iter().zip(placed) {
                    self.events.push(match placed.how {
                        How::Kept => Event::Refused { tag },
                        How::New | How::Replaced { .. } => Event::Accepted { tag },
                        How::Updated { .. } => unreachable!("nobody asks for that"),
                    });
                }
            }
            (Asked::Timers(tags), Err(Error::Refused(_) | Error::Unavailable { .. })) => {
                self.events.extend(tags.into_iter().map(|tag| Event::Refused { tag }));
            }
            (Asked::Cancel(key), Ok(written)) => {
                let answer = match written {
                    Written::Prevented { .. } => Answer::Prevented,
                    Written::Running { .. } => Answer::Running,
                    Written::Removed { .. } => Answer::Running,
                    _ => Answer::NotFound,
                };
                self.events.push(Event::CancelAnswered { key, answer });
            }
            (Asked::Reset(key), Ok(written)) => {
                let moved = Some(matches!(written, Written::Reset { .. }));
                self.events.push(Event::ResetAnswered { key, moved });
            }
            (asked, Err(_)) => self.unknown(asked),
            (_, Ok(_)) => {}
        }
    }

    /// Nobody will know what became of a call.
    pub(super) fn unknown(&mut self, asked: Asked) {
        match asked {
            Asked::Timers(tags) => {
                self.unknown.extend(&tags);
                self.events.extend(tags.into_iter().map(|tag| Event::Unknown { tag }));
            }
            Asked::Cancel(key) => {
                self.events.push(Event::CancelAnswered { key, answer: Answer::Unknown });
            }
            Asked::Reset(key) => self.events.push(Event::ResetAnswered { key, moved: None }),
            Asked::Other => {}
        }
    }
}
