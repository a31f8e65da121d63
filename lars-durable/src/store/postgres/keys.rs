//! Calls that their keys decide, without SQL: what was read, what each call does to it, and what
//! has to be written.
//!
//! A batch may name a key more than once, so each call sees what those before it did: a timer that
//! is made and then cancelled is never inserted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{BucketNo, Change, NewTimer, OnConflict, There, TimerId, Which};
use crate::store::{How, Placed, Write, Written};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};

/// A timer that has one of the keys.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) id: TimerId,
    pub(super) bucket: BucketNo,
    pub(super) due: Timestamp,
    pub(super) started: bool,
    pub(super) handler: Arc<str>,
}

/// What a timer has that is to be updated, if it is there.
pub(super) struct Held {
    pub(super) payload_version: u16,
    pub(super) payload: String,
    pub(super) series: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) remember: Micros,
    pub(super) cancelled: bool,
    pub(super) attempt: u32,
    pub(super) deadline: Timestamp,
}

/// A timer to be updated, and when it is planned for and due, if that changes too.
pub(super) struct Update<'a> {
    pub(super) new: &'a NewTimer,
    pub(super) times: Option<Times>,
}

#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) due: Timestamp,
    pub(super) deadline: Timestamp,
    pub(super) planned: Timestamp,
}

/// A timer to be inserted.
pub(super) struct Insert<'a> {
    pub(super) id: TimerId,
    /// What it carries: of a later call of the batch, if that has updated it.
    pub(super) new: &'a NewTimer,
    pub(super) due: Timestamp,
    pub(super) deadline: Timestamp,
    pub(super) planned: Timestamp,
}

/// What was read, and what has to be written.
#[derive(Default)]
pub(super) struct Changes<'a> {
    pub(super) holders: HashMap<&'a str, Holder>,
    /// Of those that may be updated.
    pub(super) held: HashMap<TimerId, Held>,
    pub(super) remembered: BTreeSet<String>,
    pub(super) updates: BTreeMap<TimerId, Update<'a>>,
    pub(super) inserts: BTreeMap<TimerId, Insert<'a>>,
    pub(super) deletes: Vec<TimerId>,
    /// Due and deadline.
    pub(super) moves: BTreeMap<TimerId, (Timestamp, Timestamp)>,
    /// Series whose current run is the last.
    pub(super) ended: Vec<TimerId>,
    /// And those of them that were cancelled, so that the run hears of it.
    pub(super) cancelled: Vec<TimerId>,
}

impl Holder {
    fn placed(&self, how: How) -> Placed {
        let (id, bucket, due, handler) = (self.id, self.bucket, self.due, self.handler.clone());
        Placed { id, bucket, due, handler, how }
    }
}

impl<'a> Changes<'a> {
    /// Carries out one call on what was read.
    pub(super) fn apply(&mut self, write: &'a Write, clock: Timestamp) -> Written {
        match write {
            Write::Schedule(timers) => self.schedule(timers, clock),
            Write::Cancel { which: Which::Key(key) } => self.cancel(key),
            Write::Remove { key, but } => self.remove(key, *but),
            Write::Reset { which: Which::Key(key), when } => self.reset(key, when.by(clock)),
            Write::Cancel { .. }
            | Write::EndSeries { .. }
            | Write::Reset { .. }
            | Write::Get { .. }
            | Write::Pause { .. }
            | Write::Runs { .. }
            | Write::RetryParked { .. }
            | Write::DiscardParked { .. }
            | Write::Select { .. }
            | Write::Under { .. } => unreachable!("no key decides these"),
        }
    }

    fn schedule(&mut self, timers: &'a [NewTimer], clock: Timestamp) -> Written {
        let mut before = BTreeSet::new();
        for timer in timers {
            let Some(key) = timer.key.as_deref() else { continue };
            let taken = self.holders.contains_key(key)
                || self.remembered.contains(key)
                || before.contains(key);
            if timer.conflict == OnConflict::Fail && taken {
                return Written::KeyTaken(key.to_owned());
            }
            before.insert(key);
        }
        Written::Scheduled(timers.iter().map(|timer| self.schedule_one(timer, clock)).collect())
    }

    fn schedule_one(&mut self, new: &'a NewTimer, clock: Timestamp) -> Placed {
        let mut how = How::New;
        if let Some(key) = new.key.as_deref() {
            match self.holders.get(key) {
                Some(Holder { id, started, .. }) if new.conflict == OnConflict::Replace => {
                    how = How::Replaced { started: started.then_some(*id) };
                    let id = *id;
                    self.delete(id);
                }
                Some(holder) if new.conflict == OnConflict::Update => {
                    let holder = holder.clone();
                    match self.change(&holder, new, clock) {
                        Change::Nothing => return holder.placed(How::Kept),
                        Change::All => {
                            how = How::Replaced { started: holder.started.then_some(holder.id) };
                            self.delete(holder.id);
                        }
                        change => return self.update(key, new, change, clock),
                    }
                }
                Some(Holder { id, bucket, due, handler, .. }) => {
                    let (id, bucket, due, handler) = (*id, *bucket, *due, Arc::clone(handler));
                    return Placed { id, bucket, due, handler, how: How::Kept };
                }
                None if self.remembered.contains(key)
                    && matches!(new.conflict, OnConflict::Keep | OnConflict::Update) =>
                {
                    let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
                    return Placed { id: 0, bucket, due: clock, handler, how: How::Kept };
                }
                None => {}
            }
        }
        if new.is_over(clock) {
            new.key.as_deref().map(|key| self.holders.remove(key));
            return Placed::over(new, if how == How::New { How::Kept } else { how });
        }
        let planned = new.when.by(clock);
        let due = planned + new.offset;
        self.inserts.insert(new.id, Insert { id: new.id, new, due, deadline: due, planned });
        let (id, bucket, handler) = (new.id, new.bucket, Arc::clone(&new.handler));
        if let Some(key) = new.key.as_deref() {
            let handler = Arc::clone(&handler);
            self.holders.insert(key, Holder { id, bucket, due, started: false, handler });
        }
        Placed { id, bucket, due, handler, how }
    }

    /// See [`OnConflict::Update`].
    fn change(&self, holder: &Holder, new: &NewTimer, clock: Timestamp) -> Change {
        let (handler, started) = (&*holder.handler, holder.started);
        if let Some(Insert { new: made, deadline, .. }) = self.inserts.get(&holder.id) {
            let there = There {
                handler,
                payload_version: made.payload_version,
                payload: &made.payload,
                series: made.series.as_deref(),
                tag: made.tag.as_deref(),
                remember: made.remember,
                started,
                cancelled: false,
                attempt: 0,
                deadline: *deadline,
            };
            return new.change(&there, clock);
        }
        let held = self.held.get(&holder.id).expect("it was read with its key");
        let there = There {
            handler,
            payload_version: held.payload_version,
            payload: &held.payload,
            series: held.series.as_deref(),
            tag: held.tag.as_deref(),
            remember: held.remember,
            started,
            cancelled: held.cancelled,
            attempt: held.attempt,
            deadline: held.deadline,
        };
        new.change(&there, clock)
    }

    fn update(&mut self, key: &str, new: &'a NewTimer, change: Change, clock: Timestamp) -> Placed {
        let holder = self.holders.get_mut(key).expect("it has the key");
        let was_due = holder.due;
        let times = (change == Change::ContentAndTime).then(|| {
            let planned = new.when.by(clock);
            let deadline = planned + new.offset;
            Times { due: was_due.min(deadline), deadline, planned }
        });
        holder.due = times.map_or(was_due, |times| times.due);
        let (id, placed) = (holder.id, holder.placed(How::Updated { was_due }));
        // It is wanted again, whatever came before.
        self.ended.retain(|ended| *ended != id);
        self.cancelled.retain(|cancelled| *cancelled != id);
        if let Some(insert) = self.inserts.get_mut(&id) {
            insert.new = new;
            if let Some(Times { due, deadline, planned }) = times {
                (insert.due, insert.deadline, insert.planned) = (due, deadline, planned);
            }
            return placed;
        }
        if let Some(held) = self.held.get_mut(&id) {
            held.payload_version = new.payload_version;
            held.payload = new.payload.to_string();
            held.series = new.series.as_deref().map(str::to_owned);
            held.tag = new.tag.as_deref().map(str::to_owned);
            (held.remember, held.cancelled) = (new.remember, false);
            held.deadline = times.map_or(held.deadline, |times| times.deadline);
        }
        if times.is_some() {
            self.moves.remove(&id);
        }
        let before = self.updates.get(&id).and_then(|update| update.times);
        self.updates.insert(id, Update { new, times: times.or(before) });
        placed
    }

    fn delete(&mut self, id: TimerId) {
        if self.inserts.remove(&id).is_none() {
            self.moves.remove(&id);
            self.updates.remove(&id);
            self.deletes.push(id);
        }
    }

    fn cancel(&mut self, key: &str) -> Written {
        let Some(holder) = self.holders.get(key).cloned() else { return Written::NotFound };
        if !holder.started {
            self.holders.remove(key);
        }
        self.cancel_one(&holder)
    }

    /// This timer is cancelled.
    pub(super) fn cancel_one(&mut self, holder: &Holder) -> Written {
        if holder.started {
            self.cancelled.push(holder.id);
            if let Some(held) = self.held.get_mut(&holder.id) {
                held.cancelled = true;
            }
        }
        self.end(holder)
    }

    /// The run that has started is the last of this timer.
    pub(super) fn end(&mut self, holder: &Holder) -> Written {
        let id = holder.id;
        if holder.started {
            self.ended.push(id);
            if let Some(held) = self.held.get_mut(&id) {
                held.series = None;
            }
            return Written::Running { id, bucket: holder.bucket };
        }
        self.delete(id);
        Written::Prevented { id, due: holder.due }
    }

    fn remove(&mut self, key: &str, but: Option<TimerId>) -> Written {
        match self.holders.get(key) {
            Some(Holder { id, bucket, started: true, .. }) if but != Some(*id) => {
                let (id, bucket) = (*id, *bucket);
                self.holders.remove(key);
                self.delete(id);
                Written::Removed { id, bucket }
            }
            _ => self.cancel(key),
        }
    }

    fn reset(&mut self, key: &'a str, deadline: Timestamp) -> Written {
        let Some(mut holder) = self.holders.remove(key) else { return Written::NotFound };
        let written = self.shift(&mut holder, deadline);
        self.holders.insert(key, holder);
        written
    }

    /// This timer is moved.
    pub(super) fn shift(&mut self, holder: &mut Holder, deadline: Timestamp) -> Written {
        let (id, was_due) = (holder.id, holder.due);
        if holder.started {
            return Written::Running { id, bucket: holder.bucket };
        }
        holder.due = was_due.min(deadline);
        let (bucket, due, handler) = (holder.bucket, holder.due, Arc::clone(&holder.handler));
        if let Some(held) = self.held.get_mut(&id) {
            held.deadline = deadline;
        }
        match self.inserts.get_mut(&id) {
            Some(insert) => {
                (insert.due, insert.deadline, insert.planned) = (due, deadline, deadline);
            }
            None => drop(self.moves.insert(id, (due, deadline))),
        }
        Written::Reset { id, bucket, was_due, due, handler }
    }
}
