//! What callers ask for, in SQL.
//!
//! One call is carried out at a time, and inside a transaction that nobody else writes in: what was
//! read holds until it is written. So keys are asked first, and no statement has to fail.
//!
//! A batch that was carried out before is not carried out again. What it made is looked up, and
//! what else it did cannot be told any more.

use std::collections::BTreeSet;

use rusqlite::{CachedStatement, OptionalExtension, Result, Row, ToSql, params};

use super::BUCKET;
use super::rows::{self, listed_columns};
use super::verbs::Verbs;
use crate::model::{Change, NewTimer, OnConflict, There, TimerId, Which};
use crate::store::{How, Placed, Tenure, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// What is asked of a parked timer before it waits again.
struct Parked {
    key: Option<String>,
}

impl Verbs<'_> {
    /// Whether the file has had no other owner since.
    pub(super) fn is_held_in(&self, tenure: Tenure) -> bool {
        self.owned == Some(tenure.epoch)
    }

    pub(super) fn write(&self, write: &Write) -> Result<Written> {
        match write {
            Write::Schedule(timers) if self.repeats => self.schedule_again(timers),
            Write::Cancel { .. }
            | Write::EndSeries { .. }
            | Write::Reset { .. }
            | Write::RetryParked { .. }
            | Write::DiscardParked { .. }
                if self.repeats =>
            {
                Ok(Written::Unsure)
            }
            Write::Remove { .. } if self.repeats => Ok(Written::Unsure),
            Write::Select { act, .. } if self.repeats && act.changes() => Ok(Written::Unsure),
            Write::Schedule(timers) => self.schedule(timers),
            Write::Cancel { which } => self.cancel(which),
            Write::EndSeries { id } => self.end_series(END_SERIES, id),
            Write::Remove { key, but } => self.remove_by_key(key, *but),
            Write::Reset { which, when } => self.reset(which, when.by(self.now)),
            Write::Get { which } => self.get(which),
            Write::Pause { handler, paused } => self.pause(handler, *paused),
            Write::Runs { select } => self.runs(select),
            Write::RetryParked { id } => self.retry_parked(*id),
            Write::DiscardParked { id } => self.discard_parked(*id),
            Write::Select { select, act } => self.select(select, *act),
            // What was carried out before had the file then.
            Write::Under { tenure, write } if self.repeats || self.is_held_in(*tenure) => {
                self.write(write)
            }
            Write::Under { .. } => Ok(Written::Lost),
        }
    }
}

const GET: &str =
    concat!("SELECT ", listed_columns!(), " FROM lars_timer WHERE id = ?1 AND grp = ?2");

const PAUSE: &str = "INSERT OR IGNORE INTO lars_paused (grp, handler) VALUES (?1, ?2)";

const RESUME: &str = "DELETE FROM lars_paused WHERE grp = ?1 AND handler = ?2";

impl Verbs<'_> {
    fn get(&self, which: &Which) -> Result<Written> {
        let Some((id, _)) = self.find(which)? else { return Ok(Written::Listed(Vec::new())) };
        let mut statement = self.prepare(GET)?;
        let found = statement.query_map(params![id, self.group], rows::listed)?;
        Ok(Written::Listed(found.collect::<Result<_>>()?))
    }

    fn pause(&self, handler: &str, paused: bool) -> Result<Written> {
        self.execute(if paused { PAUSE } else { RESUME }, params![self.group, handler])?;
        Ok(Written::Applied)
    }
}

const INSERT: &str = "INSERT INTO lars_timer (id, grp, bucket, due_at, deadline, planned_at, key,
                             handler, payload_version, payload, repeat, remember, tag)
     VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

const DELETE: &str = "DELETE FROM lars_timer WHERE id = ?1";

const THERE_IS: &str = "SELECT id, fence IS NOT NULL FROM lars_timer WHERE id = ?1 AND grp = ?2";

const OWNER: &str = "SELECT id, fence IS NOT NULL FROM lars_timer WHERE grp = ?1 AND key = ?2";

const REMEMBERED: &str = "SELECT 1 FROM lars_used_key WHERE grp = ?1 AND key = ?2 AND until > ?3";

const PLACED: &str = "SELECT bucket, due_at, handler FROM lars_timer WHERE id = ?1";

impl Verbs<'_> {
    /// All of them or none.
    fn schedule(&self, timers: &[NewTimer]) -> Result<Written> {
        let mut before = BTreeSet::new();
        for timer in timers {
            let Some(key) = timer.key.as_deref() else { continue };
            if timer.conflict == OnConflict::Fail
                && (before.contains(key)
                    || self.owner_of(key)?.is_some()
                    || self.is_remembered(key)?)
            {
                return Ok(Written::KeyTaken(key.to_owned()));
            }
            before.insert(key);
        }
        let mut insert = self.prepare(INSERT)?;
        let place = |timer| self.schedule_one(&mut insert, timer);
        Ok(Written::Scheduled(timers.iter().map(place).collect::<Result<_>>()?))
    }

    fn schedule_one(&self, insert: &mut CachedStatement<'_>, new: &NewTimer) -> Result<Placed> {
        let mut how = How::New;
        if let Some(key) = new.key.as_deref() {
            match self.owner_of(key)? {
                Some((other, started)) if new.conflict == OnConflict::Replace => {
                    self.execute(DELETE, [other])?;
                    how = How::Replaced { started: started.then_some(other) };
                }
                Some((other, started)) if new.conflict == OnConflict::Update => {
                    match self.change(other, new)? {
                        Change::Nothing => return self.placed(other, How::Kept),
                        change if self.may_update(change) => {
                            return self.update(other, new, change);
                        }
                        Change::All | Change::Content | Change::ContentAndTime => {
                            self.execute(DELETE, [other])?;
                            how = How::Replaced { started: started.then_some(other) };
                        }
                    }
                }
                Some((other, _)) => return self.placed(other, How::Kept),
                None if keeps(new.conflict) && self.is_remembered(key)? => {
                    let handler = Arc::clone(&new.handler);
                    let (bucket, due) = (new.bucket, self.now);
                    return Ok(Placed { id: 0, bucket, due, handler, how: How::Kept });
                }
                None => {}
            }
        }
        if new.is_over(self.now) {
            return Ok(Placed::over(new, if how == How::New { How::Kept } else { how }));
        }
        let planned = new.when.by(self.now);
        let due = planned + new.offset;
        insert.execute(params![
            new.id,
            self.group,
            new.bucket,
            due,
            planned,
            new.key,
            new.handler,
            new.payload_version,
            new.payload,
            new.series,
            new.remember,
            new.tag
        ])?;
        let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
        Ok(Placed { id: new.id, bucket, due, handler, how })
    }

    /// These were made before, as far as their keys allowed it. One without a key that is not there
    /// has run.
    fn schedule_again(&self, timers: &[NewTimer]) -> Result<Written> {
        let mut all = Vec::with_capacity(timers.len());
        for new in timers {
            match self.placed(new.id, How::New).optional()? {
                Some(placed) => all.push(placed),
                None if new.key.is_none() && new.is_over(self.now) => {
                    all.push(Placed::over(new, How::Kept));
                }
                None if new.key.is_none() => {
                    let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
                    let (due, how) = (Timestamp::NEVER, How::New);
                    all.push(Placed { id: new.id, bucket, due, handler, how });
                }
                None => return Ok(Written::Unsure),
            }
        }
        Ok(Written::Scheduled(all))
    }

    /// The timer, and whether it has started.
    fn find(&self, which: &Which) -> Result<Option<(TimerId, bool)>> {
        match which {
            Which::Key(key) => self.owner_of(key),
            Which::Id(id) => {
                let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
                self.prepare(THERE_IS)?.query_row(params![id, self.group], found).optional()
            }
        }
    }

    /// The timer with this key, and whether it has started.
    fn owner_of(&self, key: &str) -> Result<Option<(TimerId, bool)>> {
        let owner = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.prepare(OWNER)?.query_row(params![self.group, key], owner).optional()
    }

    fn is_remembered(&self, key: &str) -> Result<bool> {
        self.prepare(REMEMBERED)?.exists(params![self.group, key, self.now])
    }

    fn placed(&self, id: TimerId, how: How) -> Result<Placed> {
        self.prepare(PLACED)?.query_row([id], |row| {
            let handler = rows::name(row, 2)?;
            Ok(Placed { id, bucket: row.get(0)?, due: row.get(1)?, handler, how })
        })
    }
}

const THERE: &str = "SELECT handler, payload_version, payload, repeat, remember, fence IS NOT NULL,
            attempt, deadline, tag, cancelled FROM lars_timer WHERE id = ?1";

const UPDATE: &str = "UPDATE lars_timer
        SET payload_version = ?2, payload = ?3, repeat = ?4, remember = ?5, cancelled = 0,
            tag = ?6
      WHERE id = ?1";

impl Verbs<'_> {
    /// See [`OnConflict::Update`].
    fn change(&self, id: TimerId, new: &NewTimer) -> Result<Change> {
        self.prepare(THERE)?.query_row([id], |row| {
            let (handler, payload) = (rows::text(row, 0)?, rows::payload(row, 2)?);
            let (series, tag) = (rows::maybe_text(row, 3)?, rows::maybe_text(row, 8)?);
            let there = There {
                handler: &handler,
                payload_version: row.get(1)?,
                payload: &payload,
                series: series.as_deref(),
                remember: row.get(4)?,
                started: row.get(5)?,
                attempt: row.get(6)?,
                deadline: row.get(7)?,
                tag: tag.as_deref(),
                cancelled: row.get(9)?,
            };
            Ok(new.change(&there, self.now))
        })
    }

    /// The engine has the time of a timer in memory, and finds another one only if the timer is
    /// another.
    fn may_update(&self, change: Change) -> bool {
        match change {
            Change::Content => true,
            Change::ContentAndTime => self.by_owner,
            Change::Nothing | Change::All => false,
        }
    }

    fn update(&self, id: TimerId, new: &NewTimer, change: Change) -> Result<Placed> {
        let was_due = self.placed(id, How::Kept)?.due;
        let NewTimer { payload_version, payload, series, remember, tag, .. } = new;
        self.execute(UPDATE, params![id, payload_version, payload, series, remember, tag])?;
        if change == Change::ContentAndTime {
            let planned = new.when.by(self.now);
            self.execute(MOVE, params![id, planned + new.offset, planned])?;
        }
        self.placed(id, How::Updated { was_due })
    }
}

/// Whether a key that is only remembered is enough to change nothing.
fn keeps(conflict: OnConflict) -> bool {
    matches!(conflict, OnConflict::Keep | OnConflict::Update)
}

/// What cancels: if a row has not started, the first, and else the second, after which this run is
/// the last. Both write at once, because a transaction of a user that reads first may fail then.
macro_rules! cancel {
    ($condition:literal, $says:literal) => {
        (
            concat!(
                "DELETE FROM lars_timer WHERE grp = ?1 AND ",
                $condition,
                " AND fence IS NULL RETURNING id, due_at",
            ),
            concat!(
                "UPDATE lars_timer SET repeat = NULL",
                $says,
                " WHERE grp = ?1 AND ",
                $condition,
                " RETURNING id",
            ),
        )
    };
}

const CANCEL: (&str, &str) = cancel!("key = ?2", ", cancelled = 1");

const CANCEL_BY_ID: (&str, &str) = cancel!("id = ?2", ", cancelled = 1");

/// The run does not hear of it.
const END_SERIES: (&str, &str) = cancel!("id = ?2", "");

impl Verbs<'_> {
    pub(super) fn cancel(&self, which: &Which) -> Result<Written> {
        match which {
            Which::Key(key) => self.end_series(CANCEL, key),
            Which::Id(id) => self.end_series(CANCEL_BY_ID, id),
        }
    }

    fn end_series(&self, (cancel, end): (&str, &str), which: &dyn ToSql) -> Result<Written> {
        let prevented =
            |row: &Row<'_>| Ok(Written::Prevented { id: row.get(0)?, due: row.get(1)? });
        let running = |row: &Row<'_>| Ok(Written::Running { id: row.get(0)?, bucket: BUCKET });
        let parameters = params![self.group, which];
        if let Some(prevented) =
            self.prepare(cancel)?.query_row(parameters, prevented).optional()?
        {
            return Ok(prevented);
        }
        let ended = self.prepare(end)?.query_row(parameters, running).optional()?;
        Ok(ended.unwrap_or(Written::NotFound))
    }

    fn remove_by_key(&self, key: &str, but: Option<TimerId>) -> Result<Written> {
        match self.owner_of(key)? {
            Some((id, true)) if but != Some(id) => {
                self.execute(DELETE, [id])?;
                Ok(Written::Removed { id, bucket: BUCKET })
            }
            _ => self.cancel(&Which::Key(key.into())),
        }
    }
}

/// The index stays where it is if the deadline is pushed out: that is most of them, and cheap.
const MOVE: &str = "UPDATE lars_timer
        SET deadline = ?2, planned_at = ?3, due_at = min(due_at, ?2) WHERE id = ?1";

/// The engine is to read it again.
const MOVED: &str = "INSERT OR IGNORE INTO lars_moved (id) VALUES (?1)";

impl Verbs<'_> {
    pub(super) fn reset(&self, which: &Which, deadline: Timestamp) -> Result<Written> {
        let id = match self.find(which)? {
            None => return Ok(Written::NotFound),
            Some((id, true)) => return Ok(Written::Running { id, bucket: BUCKET }),
            Some((id, false)) => id,
        };
        let Placed { bucket, due: was_due, handler, .. } = self.placed(id, How::Kept)?;
        self.execute(MOVE, params![id, deadline, deadline])?;
        if !self.by_owner {
            self.execute(MOVED, [id])?;
            // By this it finds that there is something.
            self.draw(1)?;
        }
        Ok(Written::Reset { id, bucket, was_due, due: deadline.min(was_due), handler })
    }
}

/// The series that a parked run is of has the key.
const KEY_OF_PARKED: &str = "SELECT CASE WHEN origin IS NULL THEN key END FROM lars_parked
      WHERE id = ?1 AND grp = ?2";

/// What is not named begins anew.
const UNPARK: &str = "INSERT INTO lars_timer (id, grp, bucket, due_at, deadline, planned_at, key,
                             handler, payload_version, payload, repeat, remember, last_error, run,
                             origin, tag)
     SELECT id, grp, bucket, ?2, ?2, ?2, CASE WHEN origin IS NULL THEN key END, handler,
            payload_version, payload, repeat, remember, last_error, run, origin, tag
       FROM lars_parked WHERE id = ?1";

const DELETE_PARKED: &str = "DELETE FROM lars_parked WHERE id = ?1";

const DISCARD: &str = "DELETE FROM lars_parked WHERE id = ?1 AND grp = ?2";

impl Verbs<'_> {
    pub(super) fn retry_parked(&self, id: TimerId) -> Result<Written> {
        let found = |row: &Row<'_>| Ok(Parked { key: rows::maybe_text(row, 0)? });
        let parameters = params![id, self.group];
        let found = self.prepare(KEY_OF_PARKED)?.query_row(parameters, found).optional()?;
        let Some(Parked { key }) = found else { return Ok(Written::NotFound) };
        if let Some(key) = key
            && (self.owner_of(&key)?.is_some() || self.is_remembered(&key)?)
        {
            return Ok(Written::KeyTaken(key));
        }
        self.execute(UNPARK, params![id, self.now])?;
        self.execute(DELETE_PARKED, [id])?;
        Ok(Written::Placed(self.placed(id, How::New)?))
    }

    pub(super) fn discard_parked(&self, id: TimerId) -> Result<Written> {
        Ok(match self.execute(DISCARD, params![id, self.group])? {
            0 => Written::NotFound,
            _ => Written::Applied,
        })
    }
}
