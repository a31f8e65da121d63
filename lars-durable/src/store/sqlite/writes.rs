//! What callers ask for, in SQL.

use std::collections::BTreeSet;

use rusqlite::{CachedStatement, OptionalExtension, Result, Row, params};

use super::rows::{self, LISTED_PARKED, PARKED};
use super::verbs::Verbs;
use crate::model::{Listed, NewTimer, OnConflict, TimerId};
use crate::store::{How, Placed, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

const INSERT: &str = "INSERT INTO lars_timer (id, grp, bucket, due_at, deadline, planned_at, key, \
     handler, payload_version, payload, repeat, remember) \
     VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

impl Verbs<'_> {
    pub(super) fn write(&self, write: &Write) -> Result<Written> {
        match write {
            Write::Schedule(timers) if self.repeats => self.schedule_again(timers),
            Write::Cancel { .. }
            | Write::Reset { .. }
            | Write::RetryParked { .. }
            | Write::DiscardParked { .. }
                if self.repeats =>
            {
                Ok(Written::Unsure)
            }
            #[cfg(feature = "actors")]
            Write::Remove { .. } if self.repeats => Ok(Written::Unsure),
            Write::Schedule(timers) => self.schedule(timers),
            Write::Cancel { key } => self.cancel(key),
            #[cfg(feature = "actors")]
            Write::Remove { key, but } => self.remove_by_key(key, *but),
            Write::Reset { key, when } => self.reset(key, when.by(self.now)),
            Write::Get { key } => Ok(Written::Listed(self.listed_by_key(key)?)),
            Write::Pause { handler, paused } => {
                let sql = match paused {
                    true => "INSERT OR IGNORE INTO lars_paused VALUES (?1, ?2)",
                    false => "DELETE FROM lars_paused WHERE grp = ?1 AND handler = ?2",
                };
                self.execute(sql, params![self.group, handler])?;
                Ok(Written::Applied)
            }
            Write::Parked { after, handler, limit, scan } => {
                self.page(*after, handler.as_deref(), *limit, *scan)
            }
            Write::RetryParked { id } => self.retry_parked(*id),
            Write::DiscardParked { id } => {
                let sql = "DELETE FROM lars_parked WHERE id = ?1 AND grp = ?2";
                Ok(match self.execute(sql, params![id, self.group])? {
                    0 => Written::NotFound,
                    _ => Written::Applied,
                })
            }
        }
    }

    fn page(
        &self,
        after: TimerId,
        handler: Option<&str>,
        limit: usize,
        scan: usize,
    ) -> Result<Written> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT {LISTED_PARKED} FROM (SELECT * FROM lars_parked WHERE grp = ?1 AND id > ?2
                                           ORDER BY id LIMIT ?3)
              WHERE ?4 IS NULL OR handler = ?4 ORDER BY id LIMIT ?5"
        );
        let parameters = params![self.group, after, number(scan), handler, number(limit)];
        let mut statement = self.prepare(&sql)?;
        let page: Vec<Listed> =
            statement.query_map(parameters, rows::listed)?.collect::<Result<_>>()?;
        let last = match page.last().filter(|_| page.len() >= limit) {
            Some(last) => Some(last.id),
            None => {
                let sql = "SELECT max(id) FROM (SELECT id FROM lars_parked
                            WHERE grp = ?1 AND id > ?2 ORDER BY id LIMIT ?3)";
                let parameters = params![self.group, after, number(scan)];
                self.prepare(sql)?.query_row(parameters, |row| row.get(0))?
            }
        };
        let more = "SELECT 1 FROM lars_parked WHERE grp = ?1 AND id > ?2 LIMIT 1";
        let next = match last {
            Some(last) if self.prepare(more)?.exists(params![self.group, last])? => Some(last),
            _ => None,
        };
        Ok(Written::Page(page, next))
    }

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
                    self.execute("DELETE FROM lars_timer WHERE id = ?1", [other])?;
                    how = How::Replaced { started: started.then_some(other) };
                }
                Some((other, _)) => return self.placed(other, How::Kept),
                None if new.conflict == OnConflict::Keep && self.is_remembered(key)? => {
                    let handler = Arc::clone(&new.handler);
                    let (bucket, due) = (new.bucket, self.now);
                    return Ok(Placed { id: 0, bucket, due, handler, how: How::Kept });
                }
                None => {}
            }
        }
        let planned = new.when.by(self.now);
        let due = planned.plus(new.offset);
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
            new.remember
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

    /// The timer with this key, and whether it has started.
    fn owner_of(&self, key: &str) -> Result<Option<(TimerId, bool)>> {
        let sql = "SELECT id, fence IS NOT NULL FROM lars_timer WHERE grp = ?1 AND key = ?2";
        let owner = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.prepare(sql)?.query_row(params![self.group, key], owner).optional()
    }

    fn is_remembered(&self, key: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM lars_used_key WHERE grp = ?1 AND key = ?2 AND until > ?3";
        self.prepare(sql)?.exists(params![self.group, key, self.now])
    }

    fn placed(&self, id: TimerId, how: How) -> Result<Placed> {
        let sql = "SELECT bucket, due_at, handler FROM lars_timer WHERE id = ?1";
        self.prepare(sql)?.query_row([id], |row| {
            let handler = Arc::from(row.get_ref(2)?.as_str()?);
            Ok(Placed { id, bucket: row.get(0)?, due: row.get(1)?, handler, how })
        })
    }

    fn cancel(&self, key: &str) -> Result<Written> {
        let sql = "DELETE FROM lars_timer WHERE grp = ?1 AND key = ?2 AND fence IS NULL
                   RETURNING id, due_at";
        let parameters = params![self.group, key];
        let deleted = self
            .prepare(sql)?
            .query_row(parameters, |row| {
                Ok(Written::Prevented { id: row.get(0)?, due: row.get(1)? })
            })
            .optional()?;
        if let Some(prevented) = deleted {
            return Ok(prevented);
        }
        let sql = "UPDATE lars_timer SET repeat = NULL WHERE grp = ?1 AND key = ?2";
        Ok(match self.execute(sql, parameters)? {
            0 => Written::NotFound,
            _ => Written::Running,
        })
    }

    #[cfg(feature = "actors")]
    fn remove_by_key(&self, key: &str, but: Option<TimerId>) -> Result<Written> {
        match self.owner_of(key)? {
            Some((id, true)) if but != Some(id) => {
                self.execute("DELETE FROM lars_timer WHERE id = ?1", [id])?;
                Ok(Written::Removed { id })
            }
            _ => self.cancel(key),
        }
    }

    fn reset(&self, key: &str, deadline: Timestamp) -> Result<Written> {
        let sql = "SELECT id, bucket, due_at, fence IS NOT NULL, handler FROM lars_timer
                    WHERE grp = ?1 AND key = ?2";
        let found = self
            .prepare(sql)?
            .query_row(params![self.group, key], |row| {
                let handler = Arc::from(row.get_ref(4)?.as_str()?);
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, handler))
            })
            .optional()?;
        let Some((id, bucket, was_due, running, handler)) = found else {
            return Ok(Written::NotFound);
        };
        if running {
            return Ok(Written::Running);
        }
        let sql = "UPDATE lars_timer SET deadline = ?2, planned_at = ?2, due_at = min(due_at, ?2)
                    WHERE id = ?1";
        self.execute(sql, params![id, deadline])?;
        Ok(Written::Reset { id, bucket, was_due, due: deadline.min(was_due), handler })
    }

    fn retry_parked(&self, id: TimerId) -> Result<Written> {
        let sql = "SELECT key FROM lars_parked WHERE id = ?1 AND grp = ?2";
        let key: Option<Option<String>> =
            self.prepare(sql)?.query_row(params![id, self.group], |row| row.get(0)).optional()?;
        let Some(key) = key else { return Ok(Written::NotFound) };
        if let Some(key) = key
            && (self.owner_of(&key)?.is_some() || self.is_remembered(&key)?)
        {
            return Ok(Written::KeyTaken(key));
        }
        // The columns that `lars_timer` has beside.
        let sql = format!(
            "INSERT INTO lars_timer ({PARKED}, due_at)
             SELECT {PARKED}, ?2 FROM lars_parked WHERE id = ?1"
        );
        self.execute(&sql, params![id, self.now])?;
        let sql = "UPDATE lars_timer SET deadline = ?2, planned_at = ?2, attempt = 0, deaths = 0
                    WHERE id = ?1";
        self.execute(sql, params![id, self.now])?;
        self.execute("DELETE FROM lars_parked WHERE id = ?1", [id])?;
        Ok(Written::Placed(self.placed(id, How::New)?))
    }
}
