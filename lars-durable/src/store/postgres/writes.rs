//! What callers ask for, in SQL.
//!
//! Consecutive calls that their keys decide are carried out together. The rows of all their keys
//! are read, the calls are applied in order to what was read (`keys`), and the result is written,
//! with one statement for each kind of change. If another transaction takes one of the keys
//! meanwhile, the unique index refuses the insert, and all of it is tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio_postgres::types::ToSql;

use super::errors::Failure;
use super::keys::{Changes, Held, Holder, Insert, Times, Update};
use super::rows::{self, bucket, by_id};
use super::transaction::{Result, Transaction};
use super::values::text;
use super::{LOCK_PATIENCE, milliseconds};
use crate::model::{Loaded, NewTimer, OnConflict, TimerId, Which};
use crate::store::{How, Letters, Placed, Write, Written};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};

impl Transaction<'_> {
    /// What is asked for one by one, and everything of a batch that was carried out before.
    pub(super) async fn write(&self, write: &Write) -> Result<Written> {
        // What was carried out before had its bucket then.
        if !self.repeats && self.lost(&[write]).await?[0] {
            return Ok(Written::Lost);
        }
        match write.asked() {
            Write::Under { .. } => unreachable!("it is asked for under one condition"),
            Write::Schedule(timers) => self.schedule_again(timers).await,
            Write::Cancel { .. } | Write::EndSeries { .. } | Write::Reset { .. } => {
                Ok(Written::Unsure)
            }
            Write::Remove { .. } => Ok(Written::Unsure),
            Write::RetryParked { .. } | Write::DiscardParked { .. } if self.repeats => {
                Ok(Written::Unsure)
            }
            Write::Get { which } => self.get(which).await,
            Write::Pause { handler, paused } => self.pause(handler, *paused).await,
            Write::Runs { select } => self.runs(select).await,
            Write::Select { act, .. } if act.changes() && self.repeats => Ok(Written::Unsure),
            Write::RetryParked { id } => Ok(self.retry_parked(&[*id]).await?.remove(0)),
            Write::DiscardParked { id } => Ok(self.discard_parked(&[*id]).await?.remove(0)),
            Write::Select { select, act } => self.select(select, *act).await,
        }
    }

    /// The same, but if others are to be left alone, a handler that one of them pauses or resumes
    /// is.
    pub(super) async fn write_or_leave(&self, write: &Write) -> Result<Written> {
        if !self.around_locks || !matches!(write.asked(), Write::Pause { .. }) {
            return self.write(write).await;
        }
        self.session().execute("SAVEPOINT alone; SET LOCAL lock_timeout = 20").await?;
        match self.write(write).await {
            Err(failure) if failure.is_locked() => {
                let end = "ROLLBACK TO SAVEPOINT alone; RELEASE SAVEPOINT alone";
                self.session().execute(end).await?;
                Ok(Written::Held)
            }
            written => {
                let patience = milliseconds(LOCK_PATIENCE);
                let end = format!("RELEASE SAVEPOINT alone; SET LOCAL lock_timeout = {patience}");
                let written = written?;
                self.session().execute(&end).await?;
                Ok(written)
            }
        }
    }

    /// What their keys decide, all at once.
    pub(super) async fn write_by_key(&self, writes: &[&Write]) -> Result<Vec<Written>> {
        let lost = self.lost(writes).await?;
        let all = writes.iter().map(|write| write.asked()).zip(lost);
        let all: Vec<(&Write, bool)> = all.collect();
        let wanted: Vec<&Write> =
            all.iter().filter(|(_, lost)| !lost).map(|(write, _)| *write).collect();
        let mut held = match self.around_locks {
            true => self.held(&wanted).await?,
            false => BTreeSet::new(),
        };
        let waits = wanted.iter().map(|write| {
            let waits = has_key_of(write, &held);
            if waits {
                // What comes later about another key of it waits with it.
                held.extend(Keys::of(&[write]).all.into_iter().map(str::to_owned));
            }
            waits
        });
        let waits: Vec<bool> = waits.collect();
        let free = wanted.iter().zip(&waits).filter(|(_, waits)| !*waits);
        let free: Vec<&Write> = free.map(|(write, _)| *write).collect();
        let mut changes = self.read_keys(&Keys::of(&free)).await?;
        let (mut written, mut waits) = (Vec::with_capacity(all.len()), waits.into_iter());
        for (write, lost) in all {
            written.push(match lost {
                true => Written::Lost,
                false if waits.next() == Some(true) => Written::Held,
                false => changes.apply(write, self.clock),
            });
        }
        self.store(&changes).await?;
        Ok(written)
    }
}

/// The keys that decide a batch.
#[derive(Default)]
struct Keys<'a> {
    all: BTreeSet<&'a str>,
    /// Those of which it matters whether they are remembered.
    remembered: BTreeSet<&'a str>,
    /// Those whose timers may be updated.
    updated: BTreeSet<&'a str>,
    /// Those whose timers are changed: they are locked, so that what is decided holds.
    locked: BTreeSet<&'a str>,
    /// Those with which perhaps nothing is made if no timer has them. (What is made is refused by
    /// the index if another transaction has made a timer meanwhile.)
    sought: BTreeSet<&'a str>,
}

impl<'a> Keys<'a> {
    fn of(writes: &[&'a Write]) -> Self {
        let mut keys = Self::default();
        for write in writes {
            match write {
                Write::Schedule(timers) => timers.iter().for_each(|timer| keys.schedule(timer)),
                Write::Cancel { which: Which::Key(key) }
                | Write::Reset { which: Which::Key(key), .. }
                | Write::Remove { key, .. } => keys.change(key),
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
        keys
    }

    fn schedule(&mut self, timer: &'a NewTimer) {
        let Some(key) = timer.key.as_deref() else { return };
        self.all.insert(key);
        if timer.series.is_some() && timer.conflict != OnConflict::Keep {
            // It may be over before it begins.
            self.sought.insert(key);
        }
        match timer.conflict {
            OnConflict::Replace => drop(self.locked.insert(key)),
            OnConflict::Update => {
                self.locked.insert(key);
                self.updated.insert(key);
                self.remembered.insert(key);
            }
            OnConflict::Keep | OnConflict::Fail => drop(self.remembered.insert(key)),
        }
    }

    fn change(&mut self, key: &'a str) {
        self.all.insert(key);
        self.locked.insert(key);
        self.sought.insert(key);
    }
}

const HOLDERS: &str = "SELECT id, bucket, due_at, fence IS NOT NULL, handler, key FROM lars.timer
      WHERE grp = $1 AND key = ANY ($2)";

const LOCK_HOLDERS: &str =
    "SELECT id, bucket, due_at, fence IS NOT NULL, handler, key FROM lars.timer
      WHERE grp = $1 AND key = ANY ($2) ORDER BY id + 0 FOR UPDATE";

/// What may be updated, once it is locked.
const HELD: &str = "SELECT id, payload_version, payload, repeat, remember, attempt, deadline, tag,
            cancelled
       FROM lars.timer WHERE grp = $1 AND key = ANY ($2)";

const REMEMBERED: &str = "SELECT key FROM lars.used_key
      WHERE grp = $1 AND key = ANY ($2) AND until > $3";

impl Transaction<'_> {
    async fn read_keys<'a>(&self, keys: &Keys<'a>) -> Result<Changes<'a>> {
        let mut changes = Changes::default();
        if keys.all.is_empty() {
            return Ok(changes);
        }
        let wanted: Vec<&str> = keys.all.iter().copied().collect();
        let holders = if keys.locked.is_empty() { HOLDERS } else { LOCK_HOLDERS };
        for row in &self.query(holders, &[&self.group, &wanted]).await? {
            if let Some(key) = keys.all.get(row.get::<_, &str>(5)) {
                changes.holders.insert(key, holder(row));
            }
        }
        let found = |key: &&&str| changes.holders.contains_key(**key);
        let missing: Vec<&str> = keys.sought.iter().filter(|key| !found(key)).copied().collect();
        // A timer that was replaced while its lock was waited for is gone, and the statement has
        // not seen its successor.
        if !missing.is_empty() && !self.query(HOLDERS, &[&self.group, &missing]).await?.is_empty() {
            return Err(Failure::race("a timer was replaced meanwhile"));
        }
        if !keys.updated.is_empty() && !changes.holders.is_empty() {
            let asked: Vec<&str> = keys.updated.iter().copied().collect();
            let found = self.query(HELD, &[&self.group, &asked]).await?;
            changes.held = found.iter().map(|row| (row.get(0), held(row))).collect();
        }
        if !keys.remembered.is_empty() {
            let asked: Vec<&str> = keys.remembered.iter().copied().collect();
            let found = self.query(REMEMBERED, &[&self.group, &asked, &self.clock]).await?;
            changes.remembered = found.iter().map(|row| row.get(0)).collect();
        }
        Ok(changes)
    }
}

/// As many of them as nobody else holds; from now on this transaction does.
const LOCK_FREE: &str = "SELECT key FROM lars.timer WHERE grp = $1 AND key = ANY ($2)
      ORDER BY id + 0 FOR UPDATE SKIP LOCKED";

/// Waits for whoever has inserted one of these keys and not committed yet. Inserts in the order of
/// the keys, so that two probes of the same keys do not wait for each other.
const PROBE: &str = "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key,
                                             handler, payload_version, payload)
     SELECT $3 + n, $1, 0, 'infinity', 'infinity', 'infinity', key, '', 0, ''
       FROM unnest($2::text[]) WITH ORDINALITY AS k (key, n) ORDER BY key COLLATE \"POSIX\"";

/// How long the first probe of a transaction waits, in milliseconds.
const PROBE_PATIENCE: i64 = 20;

/// How long each later one waits, once another has waited in vain: then there may be hundreds.
const SHORT_PATIENCE: i64 = 2;

/// How many probes of a transaction may wait in vain: 0.27 s in all, besides their round trips. A
/// call may take 5 s, unless that is set.
const VAIN_PROBES: usize = 128;

impl Transaction<'_> {
    /// The keys that another transaction holds: its timers are changed there, or made, and that is
    /// not committed yet.
    async fn held(&self, writes: &[&Write]) -> Result<BTreeSet<String>> {
        let keys = Keys::of(writes);
        let all: Vec<&str> = keys.all.iter().copied().collect();
        let found = self.query(HOLDERS, &[&self.group, &all]).await?;
        let there: BTreeSet<&str> = found.iter().map(|row| row.get(5)).collect();
        let change: Vec<&str> = keys.locked.intersection(&there).copied().collect();
        let locked = self.query(LOCK_FREE, &[&self.group, &change]).await?;
        let locked: BTreeSet<&str> = locked.iter().map(|row| row.get(0)).collect();
        let held = change.iter().filter(|key| !locked.contains(*key));
        let mut held: BTreeSet<String> = held.map(|key| (*key).to_owned()).collect();
        let inserts = |write: &&&Write| matches!(write, Write::Schedule(_));
        let made: Vec<&Write> = writes.iter().filter(inserts).copied().collect();
        let new: Vec<&str> = Keys::of(&made).all.difference(&there).copied().collect();
        if !new.is_empty() {
            self.probe(new, &mut held).await?;
        }
        Ok(held)
    }

    /// Tries to insert timers with these keys, and takes that back; halves what does not go. After
    /// [`VAIN_PROBES`] all that is left counts as held. The keys are shuffled, so it is a different
    /// part each time, and a key that is free is found to be so in the end.
    pub(super) async fn probe(
        &self,
        mut keys: Vec<&str>,
        held: &mut BTreeSet<String>,
    ) -> Result<()> {
        fastrand::shuffle(&mut keys);
        let mut left = vec![keys];
        let (mut patience, mut in_vain) = (PROBE_PATIENCE, 0);
        while let Some(mut keys) = left.pop() {
            if in_vain == VAIN_PROBES {
                held.extend(keys.into_iter().map(Into::into));
                continue;
            }
            let begin = format!("SAVEPOINT probe; SET LOCAL lock_timeout = {patience}");
            self.session().execute(&begin).await?;
            // Nobody else tries the same identities.
            let below = fastrand::i64(i64::MIN..-(1 << 32));
            let tried = self.query(PROBE, &[&self.group, &keys, &below]).await;
            let end = "ROLLBACK TO SAVEPOINT probe; RELEASE SAVEPOINT probe";
            self.session().execute(end).await?;
            if matches!(&tried, Err(failure) if failure.is_locked()) {
                (patience, in_vain) = (SHORT_PATIENCE, in_vain + 1);
            }
            match tried {
                Err(failure) if failure.is_locked() && keys.len() > 1 => {
                    let half = keys.split_off(keys.len() / 2);
                    left.extend([keys, half]);
                }
                Err(failure) if failure.is_locked() => {
                    held.extend(keys.into_iter().map(Into::into))
                }
                // One of them is there by now: that shows when it is read.
                Err(failure) if failure.is_race() => {}
                tried => drop(tried?),
            }
        }
        Ok(())
    }
}

/// Whether one of these keys decides a call.
fn has_key_of(write: &Write, held: &BTreeSet<String>) -> bool {
    !held.is_empty() && Keys::of(&[write]).all.iter().any(|key| held.contains(*key))
}

const DELETE: &str = "DELETE FROM lars.timer WHERE grp = $1 AND id = ANY ($2)";

/// Those that were cancelled, the second, are among those that end.
const END_SERIES: &str =
    "UPDATE lars.timer SET repeat = NULL, cancelled = cancelled OR id = ANY ($3)
      WHERE grp = $1 AND id = ANY ($2)";

const MOVE: &str = concat!(
    "UPDATE lars.timer t
        SET due_at = m.due, deadline = m.deadline, planned_at = m.deadline
       FROM unnest($2::bigint[], $3::timestamptz[], $4::timestamptz[]) AS m (id, due, deadline)
      WHERE ",
    by_id!("m"),
);

impl Transaction<'_> {
    /// Writes what the calls have changed. Deletes go first: they free keys for the inserts.
    pub(super) async fn store(&self, changes: &Changes<'_>) -> Result<()> {
        if !changes.deletes.is_empty() {
            self.query(DELETE, &[&self.group, &changes.deletes]).await?;
        }
        if !changes.updates.is_empty() {
            self.update(&changes.updates).await?;
        }
        // What is updated after its end has none.
        if !changes.ended.is_empty() {
            let Changes { ended, cancelled, .. } = changes;
            self.query(END_SERIES, &[&self.group, ended, cancelled]).await?;
        }
        if !changes.moves.is_empty() {
            let ids: Vec<TimerId> = changes.moves.keys().copied().collect();
            let (dues, deadlines): (Vec<Timestamp>, Vec<Timestamp>) =
                changes.moves.values().copied().unzip();
            self.query(MOVE, &[&self.group, &ids, &dues, &deadlines]).await?;
        }
        if !changes.inserts.is_empty() {
            // Others wait for a timer that is made with their key. Two batches that made timers
            // with the same keys in different orders would wait for each other.
            let mut inserts: Vec<&Insert<'_>> = changes.inserts.values().collect();
            inserts.sort_by_key(|insert| insert.new.key.as_deref());
            self.insert(&Columns::of(&inserts)).await?;
        }
        Ok(())
    }
}

/// Reads `id, bucket, due_at, fence IS NOT NULL, handler`.
pub(super) fn holder(row: &tokio_postgres::Row) -> Holder {
    Holder {
        id: row.get(0),
        bucket: bucket(row.get(1)),
        due: row.get(2),
        started: row.get(3),
        handler: Arc::from(row.get::<_, &str>(4)),
    }
}

fn held(row: &tokio_postgres::Row) -> Held {
    Held {
        payload_version: rows::version(row.get(1)),
        payload: row.get(2),
        series: row.get(3),
        remember: Micros(row.get(4)),
        attempt: rows::count(row.get(5)),
        deadline: row.get(6),
        tag: row.get(7),
        cancelled: row.get(8),
    }
}

/// Where no time is given, it stays.
const UPDATE: &str = concat!(
    "UPDATE lars.timer t
        SET payload_version = n.version, payload = n.payload, repeat = n.repeat,
            remember = n.remember, due_at = coalesce(n.due, t.due_at),
            deadline = coalesce(n.deadline, t.deadline),
            planned_at = coalesce(n.planned, t.planned_at), cancelled = false, tag = n.tag
       FROM unnest($2::bigint[], $3::int[], $4::text[], $5::text[], $6::bigint[],
                   $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[])
            AS n (id, version, payload, repeat, remember, due, deadline, planned, tag)
      WHERE ",
    by_id!("n"),
);

impl Transaction<'_> {
    async fn update(&self, updates: &BTreeMap<TimerId, Update<'_>>) -> Result<()> {
        let ids: Vec<TimerId> = updates.keys().copied().collect();
        let of = |part: fn(&NewTimer) -> Option<&str>| -> Vec<Option<&str>> {
            updates.values().map(|update| part(update.new)).collect()
        };
        let versions: Vec<i32> =
            updates.values().map(|update| i32::from(update.new.payload_version)).collect();
        let payloads = of(|new| Some(&*new.payload));
        let series = of(|new| new.series.as_deref());
        let tags = of(|new| new.tag.as_deref());
        let remembers: Vec<i64> = updates.values().map(|update| update.new.remember.0).collect();
        let times = |part: fn(Times) -> Timestamp| -> Vec<Option<Timestamp>> {
            updates.values().map(|update| update.times.map(part)).collect()
        };
        let (dues, deadlines) = (times(|it| it.due), times(|it| it.deadline));
        let planned = times(|it| it.planned);
        let parameters: [&(dyn ToSql + Sync); 10] = [
            &self.group,
            &ids,
            &versions,
            &payloads,
            &series,
            &remembers,
            &dues,
            &deadlines,
            &planned,
            &tags,
        ];
        self.query(UPDATE, &parameters).await?;
        Ok(())
    }
}

/// The arrays are taken apart in the select list, side by side. In `FROM` each of them would be
/// written into a table of its own first: batches of 1,000 took a seventh longer. An array that
/// ends before the others gives NULL for the rest, so one with the same for all timers is sent
/// empty ([`Columns`]).
const INSERT: &str = "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key,
                             handler, payload_version, payload, repeat, remember, tag)
     SELECT id, $1, bucket, due, coalesce(deadline, due), coalesce(planned, due), key,
            coalesce(handler, $14), coalesce(version, $15), payload, repeat, coalesce(remember, 0),
            tag
       FROM (SELECT unnest($2::bigint[]), unnest($3::smallint[]), unnest($4::timestamptz[]),
                    unnest($5::timestamptz[]), unnest($6::timestamptz[]), unnest($7::text[]),
                    unnest($8::text[]), unnest($9::int[]), unnest($10::text[]),
                    unnest($11::text[]), unnest($12::bigint[]), unnest($13::text[]))
            AS new (id, bucket, due, deadline, planned, key, handler, version, payload, repeat,
                    remember, tag)";

/// New timers, as columns. A column is left empty if no timer has a value there, if all are due at
/// their deadlines or planned times, and if they all have one handler or version.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<TimerId>,
    buckets: Vec<i16>,
    dues: Vec<Timestamp>,
    deadlines: Vec<Timestamp>,
    planned: Vec<Timestamp>,
    keys: Vec<Option<&'a str>>,
    handlers: Vec<String>,
    versions: Vec<i32>,
    payloads: Vec<&'a str>,
    series: Vec<Option<&'a str>>,
    remembers: Vec<i64>,
    tags: Vec<Option<&'a str>>,
    /// For those of which `handlers` and `versions` say nothing.
    handler: String,
    version: i32,
}

impl<'a> Columns<'a> {
    fn of(inserts: &[&'a Insert<'a>]) -> Self {
        let mut columns = Self::default();
        for Insert { id, new, due, deadline, planned } in inserts {
            columns.ids.push(*id);
            columns.buckets.push(rows::number(new.bucket));
            columns.dues.push(*due);
            columns.deadlines.push(*deadline);
            columns.planned.push(*planned);
            columns.keys.push(new.key.as_deref());
            columns.handlers.push(text(&new.handler).into_owned());
            columns.versions.push(i32::from(new.payload_version));
            columns.payloads.push(&*new.payload);
            columns.series.push(new.series.as_deref());
            columns.remembers.push(new.remember.0);
            columns.tags.push(new.tag.as_deref());
        }
        columns.handler = columns.handlers.first().cloned().unwrap_or_default();
        columns.version = columns.versions.first().copied().unwrap_or_default();
        columns.leave_out();
        columns
    }

    fn leave_out(&mut self) {
        fn unless_all<T: PartialEq>(values: &mut Vec<T>, usual: &T) {
            if values.iter().all(|value| value == usual) {
                values.clear();
            }
        }
        for times in [&mut self.deadlines, &mut self.planned] {
            if *times == self.dues {
                times.clear();
            }
        }
        unless_all(&mut self.keys, &None);
        unless_all(&mut self.handlers, &self.handler);
        unless_all(&mut self.versions, &self.version);
        unless_all(&mut self.series, &None);
        unless_all(&mut self.remembers, &0);
        unless_all(&mut self.tags, &None);
    }
}

impl Transaction<'_> {
    async fn insert(&self, new: &Columns<'_>) -> Result<()> {
        let parameters: [&(dyn ToSql + Sync); 15] = [
            &self.group,
            &new.ids,
            &new.buckets,
            &new.dues,
            &new.deadlines,
            &new.planned,
            &new.keys,
            &new.handlers,
            &new.versions,
            &new.payloads,
            &new.series,
            &new.remembers,
            &new.tags,
            &new.handler,
            &new.version,
        ];
        self.query(INSERT, &parameters).await?;
        Ok(())
    }

    /// These were made before, as far as their keys allowed it. One without a key that is not there
    /// has run.
    async fn schedule_again(&self, timers: &[NewTimer]) -> Result<Written> {
        let ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
        let found: HashMap<TimerId, Loaded> = self
            .read(&ids, &Letters::default())
            .await?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        let mut all = Vec::with_capacity(timers.len());
        for new in timers {
            let (id, how) = (new.id, How::New);
            match found.get(&id) {
                Some(row) => {
                    let (bucket, due, handler) = (row.bucket, row.due, Arc::clone(&row.handler));
                    all.push(Placed { id, bucket, due, handler, how });
                }
                None if new.key.is_none() && new.is_over(self.clock) => {
                    all.push(Placed::over(new, How::Kept));
                }
                None if new.key.is_none() => {
                    let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
                    all.push(Placed { id, bucket, due: Timestamp::NEVER, handler, how });
                }
                None => return Ok(Written::Unsure),
            }
        }
        Ok(Written::Scheduled(all))
    }
}

macro_rules! get {
    ($condition:literal) => {
        concat!(
            "SELECT id, key, handler, payload_version, payload, deadline, attempt, deaths,
                    repeat, last_error, fence IS NOT NULL, NULL::text, NULL::timestamptz, run, tag,
                    cancelled
               FROM lars.timer WHERE grp = $1 AND ",
            $condition,
        )
    };
}

const GET: &str = get!("key = $2");

const GET_BY_ID: &str = get!("id = $2");

const PAUSE: &str = "INSERT INTO lars.paused (grp, handler) VALUES ($1, $2)
     ON CONFLICT (grp, handler) DO NOTHING";

const RESUME: &str = "DELETE FROM lars.paused WHERE grp = $1 AND handler = $2";

impl Transaction<'_> {
    async fn get(&self, which: &Which) -> Result<Written> {
        let found = match which {
            Which::Key(key) => self.query(GET, &[&self.group, &&**key]).await?,
            Which::Id(id) => self.query(GET_BY_ID, &[&self.group, id]).await?,
        };
        Ok(Written::Listed(found.iter().map(rows::listed).collect()))
    }

    async fn pause(&self, handler: &str, paused: bool) -> Result<Written> {
        let sql = if paused { PAUSE } else { RESUME };
        self.query(sql, &[&self.group, &text(handler).as_ref()]).await?;
        Ok(Written::Applied)
    }
}
