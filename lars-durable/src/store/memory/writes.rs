//! What callers ask for.

use std::collections::BTreeSet;

use super::{Stored, Tables};
use crate::model::{Change, NewTimer, OnConflict, TimerId, Which};
use crate::store::{How, Placed, Tenure, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

impl Tables {
    pub(super) fn write(&mut self, write: &Write, now: Timestamp) -> Written {
        match write {
            Write::Schedule(timers) if self.repeats => self.schedule_again(timers, now),
            Write::Cancel { .. }
            | Write::EndSeries { .. }
            | Write::Reset { .. }
            | Write::RetryParked { .. }
            | Write::DiscardParked { .. }
                if self.repeats =>
            {
                Written::Unsure
            }
            Write::Select { act, .. } if self.repeats && act.changes() => Written::Unsure,
            Write::Remove { .. } if self.repeats => Written::Unsure,
            Write::Schedule(timers) => self.schedule(timers, now),
            Write::Cancel { which } => self.cancel(which),
            Write::EndSeries { id } => self.end(&Which::Id(*id), false),
            Write::Remove { key, but } => self.remove_by_key(key, *but),
            Write::Reset { which, when } => self.reset(which, when.by(now)),
            Write::Get { which } => {
                let timer = self.find(which).map(|id| self.timers[&id].listed(id, None));
                Written::Listed(timer.into_iter().collect())
            }
            Write::Pause { handler, paused } => {
                if *paused {
                    self.paused.insert(Arc::clone(handler));
                } else {
                    self.paused.remove(handler);
                }
                Written::Applied
            }
            Write::Runs { select } => self.runs(select),
            Write::RetryParked { id } => self.retry_parked(*id, now),
            Write::DiscardParked { id } => self.discard_parked(*id),
            Write::Select { select, act } => self.select(select, *act, now),
            // What was carried out before had the bucket then.
            Write::Under { tenure, write } if self.repeats || self.is_held_in(*tenure) => {
                self.write(write, now)
            }
            Write::Under { .. } => Written::Lost,
        }
    }

    /// Whether nobody else has owned the bucket since.
    pub(super) fn is_held_in(&self, Tenure { bucket, epoch }: Tenure) -> bool {
        self.buckets[usize::from(bucket)].1 == epoch
    }

    fn schedule(&mut self, timers: &[NewTimer], now: Timestamp) -> Written {
        let mut before = BTreeSet::new();
        for timer in timers {
            let Some(key) = &timer.key else { continue };
            let taken = self.is_taken(key, now) || before.contains(key);
            if timer.conflict == OnConflict::Fail && taken {
                return Written::KeyTaken(key.to_string());
            }
            before.insert(key);
        }
        Written::Scheduled(timers.iter().map(|timer| self.schedule_one(timer, now)).collect())
    }

    fn is_taken(&self, key: &Arc<str>, now: Timestamp) -> bool {
        self.keys.contains_key(key) || self.used_keys.get(key).is_some_and(|until| *until > now)
    }

    /// These were made before, as far as their keys allowed it. One without a key that is not there
    /// has run.
    fn schedule_again(&self, timers: &[NewTimer], now: Timestamp) -> Written {
        let placed = timers.iter().map(|new| match self.timers.get(&new.id) {
            Some(timer) => Some(timer.placed(new.id, How::New)),
            None if new.key.is_none() && new.is_over(now) => Some(Placed::over(new, How::Kept)),
            None if new.key.is_none() => Some(over(new)),
            None => None,
        });
        placed.collect::<Option<_>>().map_or(Written::Unsure, Written::Scheduled)
    }

    fn schedule_one(&mut self, new: &NewTimer, now: Timestamp) -> Placed {
        let mut how = How::New;
        if let Some(key) = &new.key {
            match (self.keys.get(key).copied(), new.conflict) {
                (Some(other), OnConflict::Replace) => {
                    let started = self.remove(other).is_some_and(|it| it.fence.is_some());
                    how = How::Replaced { started: started.then_some(other) };
                }
                (Some(other), OnConflict::Update) => {
                    match new.change(&self.timers[&other].there(), now) {
                        Change::Nothing => return self.timers[&other].placed(other, How::Kept),
                        Change::All => {
                            let started = self.remove(other).is_some_and(|it| it.fence.is_some());
                            how = How::Replaced { started: started.then_some(other) };
                        }
                        change => return self.update(other, new, change, now),
                    }
                }
                (Some(other), _) => return self.timers[&other].placed(other, How::Kept),
                (None, OnConflict::Keep | OnConflict::Update) if self.is_taken(key, now) => {
                    let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
                    return Placed { id: 0, bucket, due: now, handler, how: How::Kept };
                }
                (None, _) => {}
            }
        }
        if new.is_over(now) {
            return Placed::over(new, if how == How::New { How::Kept } else { how });
        }
        let planned = new.when.by(now);
        let due = planned + new.offset;
        self.insert(
            new.id,
            Stored {
                bucket: new.bucket,
                due,
                deadline: due,
                planned,
                key: new.key.clone(),
                tag: new.tag.clone(),
                handler: Arc::clone(&new.handler),
                payload_version: new.payload_version,
                payload: Arc::clone(&new.payload),
                series: new.series.clone(),
                remember: new.remember,
                attempt: 0,
                deaths: 0,
                fence: None,
                last_error: None,
                run: 0,
                origin: None,
                unknown_since: None,
                cancelled: false,
            },
        );
        self.timers[&new.id].placed(new.id, how)
    }

    /// See [`OnConflict::Update`].
    fn update(&mut self, id: TimerId, new: &NewTimer, change: Change, now: Timestamp) -> Placed {
        let timer = self.timers.get_mut(&id).expect("a key's timer exists");
        let was_due = timer.due;
        timer.payload_version = new.payload_version;
        timer.payload = Arc::clone(&new.payload);
        (timer.series, timer.remember) = (new.series.clone(), new.remember);
        (timer.tag, timer.cancelled) = (new.tag.clone(), false);
        let mut due = was_due;
        if change == Change::ContentAndTime {
            timer.planned = new.when.by(now);
            timer.deadline = timer.planned + new.offset;
            due = due.min(timer.deadline);
        }
        self.look_at(id, due);
        self.timers[&id].placed(id, How::Updated { was_due })
    }

    fn find(&self, which: &Which) -> Option<TimerId> {
        match which {
            Which::Key(key) => self.keys.get(key).copied(),
            Which::Id(id) => self.timers.contains_key(id).then_some(*id),
        }
    }

    pub(super) fn cancel(&mut self, which: &Which) -> Written {
        self.end(which, true)
    }

    /// The run that has started is the last; `cancels`: and hears of that.
    fn end(&mut self, which: &Which, cancels: bool) -> Written {
        let Some(id) = self.find(which) else { return Written::NotFound };
        let timer = self.timers.get_mut(&id).expect("it was found");
        if timer.fence.is_some() {
            timer.series = None;
            timer.cancelled |= cancels;
            return Written::Running { id, bucket: timer.bucket };
        }
        let due = timer.due;
        self.remove(id);
        Written::Prevented { id, due }
    }

    fn remove_by_key(&mut self, key: &Arc<str>, but: Option<TimerId>) -> Written {
        match self.cancel(&Which::Key(Arc::clone(key))) {
            Written::Running { id, bucket } if but != Some(id) => {
                self.remove(id);
                Written::Removed { id, bucket }
            }
            written => written,
        }
    }

    pub(super) fn reset(&mut self, which: &Which, deadline: Timestamp) -> Written {
        let Some(id) = self.find(which) else { return Written::NotFound };
        let timer = self.timers.get_mut(&id).expect("it was found");
        if timer.fence.is_some() {
            return Written::Running { id, bucket: timer.bucket };
        }
        let (was_due, bucket, handler) = (timer.due, timer.bucket, Arc::clone(&timer.handler));
        (timer.deadline, timer.planned) = (deadline, deadline);
        let due = was_due.min(deadline);
        self.look_at(id, due);
        Written::Reset { id, bucket, was_due, due, handler }
    }

    pub(super) fn discard_parked(&mut self, id: TimerId) -> Written {
        match self.parked.remove(&id) {
            Some(_) => Written::Applied,
            None => Written::NotFound,
        }
    }

    pub(super) fn retry_parked(&mut self, id: TimerId, now: Timestamp) -> Written {
        let Some((timer, _, _)) = self.parked.get(&id) else { return Written::NotFound };
        if let Some(key) = timer.key.as_ref().filter(|_| timer.origin.is_none())
            && self.is_taken(key, now)
        {
            return Written::KeyTaken(key.to_string());
        }
        let (mut timer, _, _) = self.parked.remove(&id).expect("looked up above");
        // The series has the key.
        timer.key = timer.key.filter(|_| timer.origin.is_none());
        (timer.attempt, timer.deaths, timer.unknown_since) = (0, 0, None);
        timer.cancelled = false;
        (timer.due, timer.deadline, timer.planned) = (now, now, now);
        self.insert(id, timer);
        Written::Placed(self.timers[&id].placed(id, How::New))
    }
}

/// The answer for a timer that is asked for again, and is over.
fn over(new: &NewTimer) -> Placed {
    let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
    Placed { id: new.id, bucket, due: Timestamp::NEVER, handler, how: How::New }
}
