//! What the engine asks for, in SQL: each verb does the same as in the reference.
//!
//! Called inside a transaction that the store has begun, and one at a time. Nothing here commits. A
//! row is one statement: SQLite has no round trips, and a statement that is prepared once costs
//! some microseconds.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Result, params};

use super::rows::{self, loaded_columns, parked_columns, row_columns};
use crate::model::{Finish, Finished, Kept, LETTER, Loaded, Old, Row, Start, Then, TimerId, When};
use crate::store::{Letters, Reply, Request, Tenure};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};

/// One transaction's view of one group.
pub(super) struct Verbs<'a> {
    pub(super) connection: &'a Connection,
    pub(super) group: &'a str,
    /// The caller is the engine, which has timers in memory.
    pub(super) by_owner: bool,
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
            Request::Ids { count } => {
                let first = self.draw(*count)?;
                // A file that loses commits is another one: see `declare_restored`.
                let (blocks, history) = (std::iter::once(first..first + count).collect(), 0);
                Reply::Ids { blocks, history }
            }
            Request::Load { bucket, after, until, limit, letters } => {
                Reply::Loaded(self.load(i64::from(*bucket), *after, *until, *limit, letters)?)
            }
            Request::Read { ids, letters } => Reply::Loaded(self.read(ids, letters)?),
            Request::Start { lead, starts, .. } => self.start(*lead, starts)?,
            Request::Finish(finishes) => {
                Reply::Finished(finishes.iter().map(|it| self.finish(it)).collect::<Result<_>>()?)
            }
            Request::PutOff { timers, least, most } => {
                let put_off = |(id, tenure): &(TimerId, Tenure)| match self.is_held_in(*tenure) {
                    true => self.put_off(*id, *least, *most),
                    false => Ok(None),
                };
                Reply::PutOff(timers.iter().map(put_off).collect::<Result<_>>()?)
            }
            Request::Park { timers, before, reason } => {
                let own = timers.iter().filter(|(_, tenure)| self.is_held_in(*tenure));
                let ids: Vec<TimerId> = own.map(|(id, _)| *id).collect();
                Reply::Parked(self.park_waiting(&ids, *before, reason)?)
            }
            Request::Forget { limit } => {
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                Reply::Forgotten(self.execute(FORGET, params![self.group, self.now, limit])?)
            }
            Request::Record(runs) => {
                self.record(runs)?;
                Reply::Recorded
            }
            Request::Prune { old: Old::Parked, kept, limit } => {
                Reply::Pruned(self.prune(*kept, *limit)?)
            }
            Request::Prune { old: Old::Runs, kept, limit } => {
                Reply::Pruned(self.prune_runs(*kept, *limit)?)
            }
            Request::Keep(_) | Request::Batch { .. } => {
                unreachable!("the store answers these itself")
            }
        })
    }

    pub(super) fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        self.prepare(sql)?.execute(parameters)
    }

    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql)
    }
}

const FORGET: &str = "DELETE FROM lars_used_key WHERE grp = ?1 AND key IN (
       SELECT key FROM lars_used_key WHERE grp = ?1 AND until <= ?2 ORDER BY until LIMIT ?3)";

const DRAW: &str = "UPDATE lars_meta SET next_id = next_id + ?1 RETURNING next_id - ?1";

const LOAD: &str = concat!(
    "SELECT ",
    loaded_columns!(),
    " FROM lars_timer
      WHERE grp = ?3 AND bucket = ?4 AND (due_at, id) > (?5, ?6) AND due_at < ?7
      ORDER BY due_at, id LIMIT ?8",
);

const READ: &str =
    concat!("SELECT ", loaded_columns!(), " FROM lars_timer WHERE id = ?3 AND grp = ?4");

/// As the statements take them.
fn names(letters: &Letters) -> String {
    let letters: Vec<&str> = letters.iter().map(|name| &**name).collect();
    serde_json::json!(letters).to_string()
}

impl Verbs<'_> {
    /// The first of `count` identities that nobody else has.
    pub(super) fn draw(&self, count: i64) -> Result<TimerId> {
        self.prepare(DRAW)?.query_row([count], |row| row.get(0))
    }

    fn load(
        &self,
        bucket: i64,
        (due, id): (Timestamp, TimerId),
        until: Timestamp,
        limit: usize,
        letters: &Letters,
    ) -> Result<Vec<Loaded>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let letters = names(letters);
        let parameters = params![letters, LETTER, self.group, bucket, due, id, until, limit];
        self.prepare(LOAD)?.query_map(parameters, rows::loaded)?.collect()
    }

    fn read(&self, ids: &[TimerId], letters: &Letters) -> Result<Vec<Loaded>> {
        let (mut statement, letters) = (self.prepare(READ)?, names(letters));
        let mut found = Vec::new();
        for id in ids {
            let parameters = params![letters, LETTER, id, self.group];
            found.extend(statement.query_row(parameters, rows::loaded).optional()?);
        }
        Ok(found)
    }
}

/// The very same fence: the answer to the first try was lost, and no second attempt is counted.
const START: &str = concat!(
    "UPDATE lars_timer
        SET attempt = attempt + (fence IS NOT ?2),
            deaths = deaths + (fence IS NOT NULL AND fence <> ?2),
            fence = ?2
      WHERE id = ?1 AND grp = ?5 AND (fence = ?2
         OR deadline <= ?3 AND (fence IS NULL OR fence >> 32 < ?4))
     RETURNING ",
    row_columns!(),
);

/// A deadline is pushed out without the index: here the index follows.
const MOVE: &str = "UPDATE lars_timer SET due_at = deadline
      WHERE id = ?1 AND grp = ?2 AND fence IS NULL RETURNING due_at";

impl Verbs<'_> {
    fn start(&self, lead: Micros, starts: &[Start]) -> Result<Reply> {
        let (mut start, mut move_on) = (self.prepare(START)?, self.prepare(MOVE)?);
        let (mut rows, mut moved) = (Vec::with_capacity(starts.len()), Vec::new());
        for Start { id, fence, .. } in starts {
            if self.owned != Some(fence.epoch()) {
                continue;
            }
            let parameters = params![id, fence, self.now + lead, fence.epoch(), self.group];
            match start.query_row(parameters, rows::row).optional()? {
                Some(row) => rows.push(row),
                None => {
                    let due = move_on.query_row(params![id, self.group], |row| row.get(0));
                    moved.extend(due.optional()?.map(|due| (*id, due)));
                }
            }
        }
        Ok(Reply::Started { rows, moved })
    }

    pub(super) fn finish(&self, Finish { id, fence, then }: &Finish) -> Result<Finished> {
        let (id, fence) = (*id, fence.0);
        match &*then.by(self.now) {
            Then::Done => self.end(END, id, fence),
            Then::Next { when, offset } => self.go_on(GO_ON, id, fence, (*when, *offset)),
            Then::LeftOut { when, offset } => {
                self.go_on(GO_ON_WITHOUT, id, fence, (*when, *offset))
            }
            Then::Retry { after, error } => self.retry(id, fence, *after, error),
            Then::GiveBack { after, ran } => self.give_back(id, fence, *after, None, *ran),
            Then::PutOff { after } => self.give_back(id, fence, *after, Some(self.now), false),
            Then::Park { reason } => self.give_up(id, fence, reason),
            Then::ParkRun { reason, when, offset } => {
                self.give_up_run(id, fence, reason, (*when, *offset))
            }
        }
    }
}

const END: &str = "DELETE FROM lars_timer WHERE id = ?1 AND fence = ?2 RETURNING key, remember";

/// It was a series when its run began, and was cancelled meanwhile.
const END_CANCELLED: &str = "DELETE FROM lars_timer
      WHERE id = ?1 AND fence = ?2 AND repeat IS NULL RETURNING key, remember";

const REMEMBER: &str = "INSERT OR REPLACE INTO lars_used_key (grp, key, until) VALUES (?1, ?2, ?3)";

/// What a timer leaves when it ends.
struct Left {
    key: Option<String>,
    remember: Micros,
}

impl Verbs<'_> {
    /// Deletes it, and remembers its key if it is to be.
    fn end(&self, sql: &str, id: TimerId, fence: i64) -> Result<Finished> {
        let left = |row: &rusqlite::Row<'_>| {
            Ok(Left { key: rows::maybe_text(row, 0)?, remember: row.get(1)? })
        };
        let deleted = self.prepare(sql)?.query_row(params![id, fence], left).optional()?;
        let Some(Left { key, remember }) = deleted else { return Ok(Finished::Stale) };
        if let Some(key) = key
            && remember > Micros::ZERO
        {
            self.execute(REMEMBER, params![self.group, key, self.now + remember])?;
        }
        Ok(Finished::Gone)
    }
}

/// The next run of a series, when so many more are over.
macro_rules! go_on {
    ($more:literal) => {
        concat!(
            "UPDATE lars_timer
                SET fence = NULL, planned_at = ?3, due_at = ?4, deadline = ?4, attempt = 0,
                    deaths = 0, last_error = NULL, unknown_since = NULL, run = run + ",
            $more,
            " WHERE id = ?1 AND fence = ?2 AND repeat IS NOT NULL",
        )
    };
}

const GO_ON: &str = go_on!("1");

const GO_ON_WITHOUT: &str = go_on!("0");

impl Verbs<'_> {
    /// The next run of a series, unless that was cancelled meanwhile.
    fn go_on(
        &self,
        sql: &str,
        id: TimerId,
        fence: i64,
        (when, offset): (When, Micros),
    ) -> Result<Finished> {
        let planned = when.by(self.now);
        let due = planned + offset;
        match self.execute(sql, params![id, fence, planned, due])? {
            0 => self.end(END_CANCELLED, id, fence),
            _ => Ok(Finished::Again { due }),
        }
    }
}

const RETRY: &str = "UPDATE lars_timer
        SET fence = NULL, due_at = ?3, deadline = ?3, deaths = 0, last_error = ?4,
            unknown_since = NULL
      WHERE id = ?1 AND fence = ?2";

const GIVE_BACK: &str = "UPDATE lars_timer
        SET fence = NULL, attempt = max(attempt - 1, 0), due_at = max(deadline, ?3),
            deadline = max(deadline, ?3), deaths = iif(?5, 0, deaths),
            unknown_since = iif(?5, NULL, coalesce(unknown_since, ?4))
      WHERE id = ?1 AND fence = ?2 RETURNING due_at";

impl Verbs<'_> {
    /// The same run once more.
    fn retry(&self, id: TimerId, fence: i64, after: Micros, error: &str) -> Result<Finished> {
        let due = self.now + after;
        Ok(match self.execute(RETRY, params![id, fence, due, error])? {
            0 => Finished::Stale,
            _ => Finished::Again { due },
        })
    }

    /// As if it had not been started. `unknown_since`: nobody here can run it.
    fn give_back(
        &self,
        id: TimerId,
        fence: i64,
        after: Micros,
        unknown_since: Option<Timestamp>,
        ran: bool,
    ) -> Result<Finished> {
        let parameters = params![id, fence, self.now + after, unknown_since, ran];
        let due = self.prepare(GIVE_BACK)?.query_row(parameters, |row| row.get(0)).optional()?;
        Ok(due.map_or(Finished::Stale, |due| Finished::Again { due }))
    }
}

const PUT_OFF: &str = "UPDATE lars_timer
        SET due_at = ?3 + max(?4, min(?5, ?3 - coalesce(unknown_since, ?3))),
            deadline = ?3 + max(?4, min(?5, ?3 - coalesce(unknown_since, ?3))),
            unknown_since = coalesce(unknown_since, ?3)
      WHERE id = ?1 AND grp = ?2 AND fence IS NULL RETURNING due_at";

impl Verbs<'_> {
    /// By as long as it has been put off, within these bounds.
    fn put_off(&self, id: TimerId, least: Micros, most: Micros) -> Result<Option<Timestamp>> {
        let parameters = params![id, self.group, self.now, least, most];
        self.prepare(PUT_OFF)?.query_row(parameters, |row| row.get(0)).optional()
    }
}

const PARK_STARTED: &str = concat!(
    "INSERT INTO lars_parked (",
    parked_columns!(),
    ", reason, parked_at) SELECT ",
    parked_columns!(),
    ", ?2, ?3 FROM lars_timer WHERE id = ?1 AND grp = ?4 AND fence = ?5",
);

const PARK_WAITING: &str = concat!(
    "INSERT INTO lars_parked (",
    parked_columns!(),
    ", reason, parked_at) SELECT ",
    parked_columns!(),
    ", ?2, ?3 FROM lars_timer WHERE id = ?1 AND grp = ?4 AND fence IS NULL AND unknown_since <= ?5",
);

/// The series goes on without it, under the same identity and key: the run has the next one that
/// nobody has.
const PARK_RUN: &str = "INSERT INTO lars_parked
            (id, grp, bucket, deadline, planned_at, key, handler, payload_version, payload, repeat,
             remember, attempt, deaths, last_error, run, origin, tag, reason, parked_at)
     SELECT (SELECT next_id FROM lars_meta), grp, bucket, deadline, planned_at, key, handler,
            payload_version, payload, NULL, remember, attempt, deaths, last_error, run, id, tag, ?2,
            ?3
       FROM lars_timer WHERE id = ?1 AND grp = ?4 AND fence = ?5 AND repeat IS NOT NULL";

/// After its copy was parked.
const DELETE: &str = "DELETE FROM lars_timer WHERE id = ?1";

const TAKE: &str = concat!("DELETE FROM lars_timer WHERE id = ?1 RETURNING ", row_columns!());

impl Verbs<'_> {
    /// Parks what has run too often.
    fn give_up(&self, id: TimerId, fence: i64, reason: &str) -> Result<Finished> {
        let parameters = params![id, reason, self.now, self.group, fence];
        if self.execute(PARK_STARTED, parameters)? == 0 {
            return Ok(Finished::Stale);
        }
        self.execute(DELETE, [id])?;
        Ok(Finished::Parked)
    }

    /// Parks one run of a series, and plans the next; all of it, if it is a series no longer.
    fn give_up_run(
        &self,
        id: TimerId,
        fence: i64,
        reason: &str,
        (when, offset): (When, Micros),
    ) -> Result<Finished> {
        let parameters = params![id, reason, self.now, self.group, fence];
        if self.execute(PARK_RUN, parameters)? == 0 {
            return self.give_up(id, fence, reason);
        }
        self.draw(1)?;
        self.go_on(GO_ON, id, fence, (when, offset))
    }

    /// Parks what nobody can run.
    fn park_waiting(&self, ids: &[TimerId], before: Timestamp, reason: &str) -> Result<Vec<Row>> {
        let (mut take, mut parked) = (self.prepare(TAKE)?, Vec::new());
        for id in ids {
            let parameters = params![id, reason, self.now, self.group, before];
            if self.execute(PARK_WAITING, parameters)? > 0 {
                parked.push(take.query_row([id], rows::row)?);
            }
        }
        Ok(parked)
    }
}

/// The last one that is kept, if so many are.
const LAST_KEPT: &str = "SELECT parked_at, id FROM lars_parked WHERE grp = ?1
      ORDER BY parked_at DESC, id DESC LIMIT 1 OFFSET ?2 - 1";

const PRUNE: &str = "DELETE FROM lars_parked WHERE id IN (
       SELECT id FROM lars_parked WHERE grp = ?1 AND (parked_at, id) < (?2, ?3)
        ORDER BY parked_at, id LIMIT ?4)";

impl Verbs<'_> {
    /// Deletes what was parked before all that is kept.
    fn prune(&self, kept: Kept, limit: usize) -> Result<usize> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut first = kept.age.map(|age| (self.now - age, TimerId::MIN));
        if let Some(most) = kept.most {
            let last = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let parameters = params![self.group, number(most)];
            first = first.max(self.prepare(LAST_KEPT)?.query_row(parameters, last).optional()?);
        }
        let Some((at, id)) = first else { return Ok(0) };
        self.execute(PRUNE, params![self.group, at, id, number(limit)])
    }
}

const PAUSED: &str = "SELECT handler FROM lars_paused WHERE grp = ?1";

/// The handlers of a group that are paused.
pub(super) fn paused(connection: &Connection, group: &str) -> Result<Vec<Arc<str>>> {
    let mut statement = connection.prepare_cached(PAUSED)?;
    statement.query_map([group], |row| Ok(Arc::from(row.get_ref(0)?.as_str()?)))?.collect()
}

const WERE_MOVED: &str = "SELECT 1 FROM lars_moved";

/// Whether somebody else has moved timers that were not taken yet.
pub(super) fn were_moved(connection: &Connection) -> Result<bool> {
    connection.prepare_cached(WERE_MOVED)?.exists([])
}

const TAKE_MOVED: &str = "DELETE FROM lars_moved
      WHERE id IN (SELECT id FROM lars_moved LIMIT ?1) AND (SELECT epoch FROM lars_meta) = ?2
     RETURNING id";

/// At most `limit` of those that somebody else than the owner of the file has moved, each once.
pub(super) fn take_moved(
    connection: &Connection,
    epoch: u32,
    limit: usize,
) -> Result<Vec<TimerId>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(TAKE_MOVED)?;
    statement.query_map(params![limit, epoch], |row| row.get(0))?.collect()
}

const NEXT_BATCH: &str = "UPDATE lars_meta SET last_batch = ?1 WHERE last_batch IS NOT ?1";

/// Whether the last batch had this token; from now on it has.
pub(super) fn is_last_batch(connection: &Connection, token: i64) -> Result<bool> {
    Ok(connection.prepare_cached(NEXT_BATCH)?.execute([token])? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_reads_only_those_remembered_keys_that_it_forgets() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema_1.sql")).unwrap();
        let explained = format!("EXPLAIN QUERY PLAN {FORGET}");
        let mut plan = connection.prepare(&explained).unwrap();
        let steps = plan.query_map(params!["default", 0, 9], |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let reads = |by: &str| steps.iter().filter(|step| step.ends_with(by)).count();
        let by_time = reads("USING COVERING INDEX lars_used_key_until (grp=? AND until<?)");
        let by_key = reads("USING PRIMARY KEY (grp=? AND key=?)");
        assert_eq!((by_time, by_key), (1, 1), "{steps:?}");
        let costly = |step: &&String| step.starts_with("SCAN") || step.contains("TEMP B-TREE");
        assert!(!steps.iter().any(|step| costly(&step)), "{steps:?}");
    }
}
