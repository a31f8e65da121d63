//! The verbs in SQL: each the same, statement for statement, as in the reference.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Result, params};

use super::rows::{self, LISTED, LOADED, PARKED, ROW};
use crate::model::{Finish, Finished, Loaded, Start, Then, TimerId};
use crate::store::{Reply, Request};
use crate::sync::Arc;
use crate::time::Timestamp;

/// One transaction's view of one group.
pub(super) struct Verbs<'a> {
    pub(super) connection: &'a Connection,
    pub(super) group: &'a str,
    /// The epoch, if the caller owns the bucket.
    pub(super) owned: Option<u32>,
    /// The writes of this transaction were carried out before.
    pub(super) repeats: bool,
    pub(super) now: Timestamp,
}

impl<'a> Verbs<'a> {
    pub(super) fn carry_out(&self, request: &Request) -> Result<Reply> {
        Ok(match request {
            Request::Write(write) => Reply::Written(self.write(write)?),
            Request::Ids { count } => Reply::Ids { first: self.ids(*count)?, count: *count },
            Request::Load { bucket, after, until, limit } => {
                Reply::Loaded(self.load(i64::from(*bucket), *after, *until, *limit)?)
            }
            Request::Read { ids } => Reply::Loaded(self.read(ids)?),
            Request::Start { lead, starts, .. } => self.start(*lead, starts)?,
            Request::Finish(finishes) => {
                Reply::Finished(finishes.iter().map(|it| self.finish(it)).collect::<Result<_>>()?)
            }
            Request::PutOff { ids, least, most } => {
                let put_off = |id: &TimerId| self.put_off(*id, *least, *most);
                Reply::PutOff(ids.iter().map(put_off).collect::<Result<_>>()?)
            }
            Request::Park { ids, before, reason } => {
                let condition = format!("fence IS NULL AND planned_at <= {}", before.0);
                let mut parked = 0;
                for id in ids {
                    parked += self.park(*id, reason, &condition)?;
                }
                Reply::Parked(parked)
            }
            Request::Forget => {
                let sql = "DELETE FROM lars_used_key WHERE grp = ?1 AND until <= ?2";
                self.execute(sql, params![self.group, self.now])?;
                Reply::Done
            }
            Request::Keep(_) | Request::Batch { .. } => {
                unreachable!("the store answers these itself")
            }
        })
    }

    fn ids(&self, count: i64) -> Result<TimerId> {
        let sql = "UPDATE lars_meta SET next_id = next_id + ?1 RETURNING next_id - ?1";
        self.prepare(sql)?.query_row([count], |row| row.get(0))
    }

    fn load(
        &self,
        bucket: i64,
        (due, id): (Timestamp, TimerId),
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Loaded>> {
        let sql = format!(
            "SELECT {LOADED} FROM lars_timer WHERE grp = ?1 AND bucket = ?2
                AND (due_at, id) > (?3, ?4) AND due_at < ?5
              ORDER BY due_at, id LIMIT ?6"
        );
        let mut statement = self.prepare(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![self.group, bucket, due, id, until, limit], rows::loaded)?;
        rows.collect()
    }

    fn read(&self, ids: &[TimerId]) -> Result<Vec<Loaded>> {
        let sql = format!("SELECT {LOADED} FROM lars_timer WHERE id = ?1 AND grp = ?2");
        let mut statement = self.prepare(&sql)?;
        let mut found = Vec::new();
        for id in ids {
            found.extend(statement.query_row(params![id, self.group], rows::loaded).optional()?);
        }
        Ok(found)
    }

    fn start(&self, lead: i64, starts: &[Start]) -> Result<Reply> {
        let start = format!(
            "UPDATE lars_timer
                SET attempt = attempt + (fence IS NOT ?2),
                    deaths = deaths + (fence IS NOT NULL AND fence <> ?2),
                    fence = ?2
              WHERE id = ?1 AND grp = ?5 AND (fence = ?2
                 OR deadline <= ?3 AND (fence IS NULL OR fence >> 32 < ?4))
             RETURNING {ROW}"
        );
        let moved = "UPDATE lars_timer SET due_at = deadline
                      WHERE id = ?1 AND grp = ?2 AND fence IS NULL RETURNING due_at";
        let (mut start, mut move_on) = (self.prepare(&start)?, self.prepare(moved)?);
        let (mut rows, mut moved) = (Vec::with_capacity(starts.len()), Vec::new());
        for Start { id, fence, .. } in starts {
            if self.owned != Some(fence.epoch()) {
                continue;
            }
            let limit = self.now.plus(lead);
            let parameters = params![id, fence, limit, fence.epoch(), self.group];
            let row = start.query_row(parameters, rows::row).optional()?;
            match row {
                Some(row) => rows.push(row),
                None => {
                    let due = move_on.query_row(params![id, self.group], |row| row.get(0));
                    moved.extend(due.optional()?.map(|due| (*id, due)));
                }
            }
        }
        Ok(Reply::Started { rows, moved })
    }

    fn finish(&self, Finish { id, fence, then }: &Finish) -> Result<Finished> {
        match then {
            Then::Done => self.done(*id, fence.0, ""),
            Then::Next { when, offset } => {
                let planned = when.by(self.now);
                let due = planned.plus(*offset);
                let sql = "UPDATE lars_timer SET fence = NULL, planned_at = ?3, due_at = ?4,
                                  deadline = ?4, attempt = 0, deaths = 0, last_error = NULL
                            WHERE id = ?1 AND fence = ?2 AND repeat IS NOT NULL";
                match self.execute(sql, params![id, fence, planned, due])? {
                    0 => self.done(*id, fence.0, "AND repeat IS NULL"),
                    _ => Ok(Finished::Again { due }),
                }
            }
            Then::Retry { after, error } => {
                let due = self.now.plus(*after);
                let sql = "UPDATE lars_timer SET fence = NULL, due_at = ?3, deadline = ?3,
                                  deaths = 0, last_error = ?4
                            WHERE id = ?1 AND fence = ?2";
                Ok(match self.execute(sql, params![id, fence, due, error])? {
                    0 => Finished::Stale,
                    _ => Finished::Again { due },
                })
            }
            Then::GiveBack { after } => {
                let sql = "UPDATE lars_timer SET fence = NULL, attempt = max(attempt - 1, 0),
                                  due_at = max(deadline, ?3), deadline = max(deadline, ?3)
                            WHERE id = ?1 AND fence = ?2 RETURNING due_at";
                let earliest = self.now.plus(*after);
                let due = self
                    .prepare(sql)?
                    .query_row(params![id, fence, earliest], |row| row.get(0))
                    .optional()?;
                Ok(due.map_or(Finished::Stale, |due| Finished::Again { due }))
            }
            Then::Park { reason } => {
                Ok(match self.park(*id, reason, &format!("fence = {}", fence.0))? {
                    0 => Finished::Stale,
                    _ => Finished::Parked,
                })
            }
        }
    }

    /// Deletes it, and remembers its key if it is to be.
    fn done(&self, id: TimerId, fence: i64, and: &str) -> Result<Finished> {
        let sql = format!(
            "DELETE FROM lars_timer WHERE id = ?1 AND fence = ?2 {and} RETURNING key, remember"
        );
        let deleted = self
            .prepare(&sql)?
            .query_row(params![id, fence], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((key, remember)): Option<(Option<String>, i64)> = deleted else {
            return Ok(Finished::Stale);
        };
        if let Some(key) = key
            && remember > 0
        {
            let sql = "INSERT OR REPLACE INTO lars_used_key VALUES (?1, ?2, ?3)";
            self.execute(sql, params![self.group, key, self.now.plus(remember)])?;
        }
        Ok(Finished::Gone)
    }

    fn put_off(&self, id: TimerId, least: i64, most: i64) -> Result<Option<Timestamp>> {
        let sql = "UPDATE lars_timer SET
                          due_at = ?3 + max(?4, min(?5, ?3 - planned_at)),
                          deadline = ?3 + max(?4, min(?5, ?3 - planned_at))
                    WHERE id = ?1 AND grp = ?2 AND fence IS NULL RETURNING due_at";
        let parameters = params![id, self.group, self.now, least, most];
        self.prepare(sql)?.query_row(parameters, |row| row.get(0)).optional()
    }

    /// `condition` is a constant, or has a number that we made.
    fn park(&self, id: TimerId, reason: &str, condition: &str) -> Result<usize> {
        let columns = PARKED;
        let sql = format!(
            "INSERT INTO lars_parked ({columns}, reason, parked_at)
             SELECT {columns}, ?2, ?3 FROM lars_timer WHERE id = ?1 AND grp = ?4 AND {condition}"
        );
        // Not cached: it is rare, and the number would fill the cache with its like.
        let parked = self.connection.execute(&sql, params![id, reason, self.now, self.group])?;
        if parked > 0 {
            self.execute("DELETE FROM lars_timer WHERE id = ?1", [id])?;
        }
        Ok(parked)
    }

    pub(super) fn listed_by_key(&self, key: &str) -> Result<Vec<crate::model::Listed>> {
        let sql = format!("SELECT {LISTED} FROM lars_timer WHERE grp = ?1 AND key = ?2");
        let mut statement = self.prepare(&sql)?;
        statement.query_map(params![self.group, key], rows::listed)?.collect()
    }

    pub(super) fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        self.prepare(sql)?.execute(parameters)
    }

    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql)
    }
}

/// The handlers of a group that are paused.
pub(super) fn paused(connection: &Connection, group: &str) -> Result<Vec<Arc<str>>> {
    let mut statement =
        connection.prepare_cached("SELECT handler FROM lars_paused WHERE grp = ?1")?;
    statement.query_map([group], |row| Ok(Arc::from(row.get_ref(0)?.as_str()?)))?.collect()
}

/// Whether the last batch had this token; from now on it has.
pub(super) fn is_last_batch(connection: &Connection, token: i64) -> Result<bool> {
    let mut update = connection
        .prepare_cached("UPDATE lars_meta SET last_batch = ?1 WHERE last_batch IS NOT ?1")?;
    Ok(update.execute([token])? == 0)
}
