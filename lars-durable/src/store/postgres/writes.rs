//! What callers ask for, in SQL.
//!
//! Consecutive calls that their keys decide are carried out together. The rows of all their keys
//! are read, the calls are applied in order to what was read, and the result is written, with one
//! statement for each kind of change. If another transaction takes one of the keys meanwhile, the
//! unique index refuses the insert, and all of it is tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio_postgres::types::ToSql;

use super::rows::{self, bucket};
use super::transaction::{Result, Transaction};
use super::values::text;
use crate::model::{BucketNo, Listed, NewTimer, OnConflict, TimerId};
use crate::store::{How, Placed, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// A timer that has one of the keys.
#[derive(Clone)]
struct Holder {
    id: TimerId,
    bucket: BucketNo,
    due: Timestamp,
    started: bool,
    handler: Arc<str>,
}

/// A timer to be inserted.
struct Insert<'a> {
    new: &'a NewTimer,
    due: Timestamp,
    deadline: Timestamp,
    planned: Timestamp,
}

/// What the calls of one group change.
#[derive(Default)]
struct Changes<'a> {
    holders: HashMap<&'a str, Holder>,
    remembered: BTreeSet<String>,
    inserts: BTreeMap<TimerId, Insert<'a>>,
    deletes: Vec<TimerId>,
    /// Due and deadline.
    moves: BTreeMap<TimerId, (Timestamp, Timestamp)>,
    /// Series whose current run is the last.
    ended: Vec<TimerId>,
}

impl Transaction<'_> {
    pub(super) async fn write_by_key(&self, writes: &[&Write]) -> Result<Vec<Written>> {
        let mut changes = self.read_keys(writes).await?;
        let written = writes.iter().map(|write| changes.apply(write, self.clock)).collect();
        self.store(&changes).await?;
        Ok(written)
    }

    async fn read_keys<'a>(&self, writes: &[&'a Write]) -> Result<Changes<'a>> {
        // Rows that are changed are locked, so that what is decided here holds.
        let (mut keys, mut locks, mut asks) = (BTreeSet::new(), false, BTreeSet::new());
        for write in writes {
            match write {
                Write::Schedule(timers) => {
                    for timer in timers.iter() {
                        let Some(key) = timer.key.as_deref() else { continue };
                        keys.insert(key);
                        match timer.conflict {
                            OnConflict::Replace => locks = true,
                            OnConflict::Keep | OnConflict::Fail => drop(asks.insert(key)),
                        }
                    }
                }
                Write::Cancel { key } | Write::Reset { key, .. } => {
                    keys.insert(key);
                    locks = true;
                }
                #[cfg(feature = "actors")]
                Write::Remove { key, .. } => {
                    keys.insert(key);
                    locks = true;
                }
                _ => {}
            }
        }
        let mut changes = Changes::default();
        if keys.is_empty() {
            return Ok(changes);
        }
        let wanted: Vec<&str> = keys.iter().copied().collect();
        let found = if locks {
            let sql = "SELECT key, id, bucket, due_at, fence IS NOT NULL, handler FROM lars.timer
                        WHERE grp = $1 AND key = ANY ($2) ORDER BY id FOR UPDATE";
            self.query(sql, &[&self.group, &wanted]).await?
        } else {
            let sql = "SELECT key, id, bucket, due_at, fence IS NOT NULL, handler FROM lars.timer
                        WHERE grp = $1 AND key = ANY ($2)";
            self.query(sql, &[&self.group, &wanted]).await?
        };
        for row in &found {
            let holder = Holder {
                id: row.get(1),
                bucket: bucket(row.get(2)),
                due: row.get(3),
                started: row.get(4),
                handler: Arc::from(row.get::<_, &str>(5)),
            };
            if let Some(key) = keys.get(row.get::<_, &str>(0)) {
                changes.holders.insert(key, holder);
            }
        }
        if !asks.is_empty() {
            let asks: Vec<&str> = asks.into_iter().collect();
            let sql = "SELECT key FROM lars.used_key
                        WHERE grp = $1 AND key = ANY ($2) AND until > $3";
            let found = self.query(sql, &[&self.group, &asks, &self.clock]).await?;
            changes.remembered = found.iter().map(|row| row.get(0)).collect();
        }
        Ok(changes)
    }

    async fn store(&self, changes: &Changes<'_>) -> Result<()> {
        if !changes.deletes.is_empty() {
            let sql = "DELETE FROM lars.timer WHERE grp = $1 AND id = ANY ($2)";
            self.query(sql, &[&self.group, &changes.deletes]).await?;
        }
        if !changes.ended.is_empty() {
            let sql = "UPDATE lars.timer SET repeat = NULL WHERE grp = $1 AND id = ANY ($2)";
            self.query(sql, &[&self.group, &changes.ended]).await?;
        }
        if !changes.moves.is_empty() {
            let ids: Vec<TimerId> = changes.moves.keys().copied().collect();
            let (dues, deadlines): (Vec<Timestamp>, Vec<Timestamp>) =
                changes.moves.values().copied().unzip();
            let sql = "UPDATE lars.timer t
                          SET due_at = m.due, deadline = m.deadline, planned_at = m.deadline
                         FROM unnest($2::bigint[], $3::timestamptz[],
                                                $4::timestamptz[]) AS m (id, due, deadline)
                        WHERE t.id = m.id AND t.grp = $1";
            self.query(sql, &[&self.group, &ids, &dues, &deadlines]).await?;
        }
        if !changes.inserts.is_empty() {
            self.insert(changes.inserts.values()).await?;
        }
        Ok(())
    }

    async fn insert<'a>(
        &self,
        inserts: impl ExactSizeIterator<Item = &'a Insert<'a>>,
    ) -> Result<()> {
        let count = inserts.len();
        let (mut ids, mut buckets) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut dues, mut deadlines) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut planned, mut keys) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut handlers, mut versions) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut payloads, mut series) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut remembers = Vec::with_capacity(count);
        for Insert { new, due, deadline, planned: plan } in inserts {
            ids.push(new.id);
            buckets.push(rows::number(new.bucket));
            dues.push(*due);
            deadlines.push(*deadline);
            planned.push(*plan);
            keys.push(new.key.as_deref());
            handlers.push(text(&new.handler));
            versions.push(i32::from(new.payload_version));
            payloads.push(&*new.payload);
            series.push(new.series.as_deref());
            remembers.push(new.remember);
        }
        let handlers: Vec<&str> = handlers.iter().map(AsRef::as_ref).collect();
        let sql = "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key,
                                           handler, payload_version, payload, repeat, remember)
                   SELECT n.id, $1, n.bucket, n.due, n.deadline, n.planned, n.key, n.handler,
                          n.version, n.payload, n.repeat, n.remember
                     FROM unnest($2::bigint[], $3::smallint[], $4::timestamptz[],
                                            $5::timestamptz[], $6::timestamptz[], $7::text[],
                                            $8::text[], $9::int[], $10::text[], $11::text[],
                                            $12::bigint[])
                          AS n (id, bucket, due, deadline, planned, key, handler, version, payload,
                                repeat, remember)";
        self.query(
            sql,
            &[
                &self.group,
                &ids,
                &buckets,
                &dues,
                &deadlines,
                &planned,
                &keys,
                &handlers,
                &versions,
                &payloads,
                &series,
                &remembers,
            ],
        )
        .await?;
        Ok(())
    }

    /// What is asked for one by one, and everything of a batch that was carried out before.
    pub(super) async fn write(&self, write: &Write) -> Result<Written> {
        match write {
            Write::Schedule(timers) => self.schedule_again(timers).await,
            Write::Cancel { .. } | Write::Reset { .. } => Ok(Written::Unsure),
            #[cfg(feature = "actors")]
            Write::Remove { .. } => Ok(Written::Unsure),
            Write::RetryParked { .. } | Write::DiscardParked { .. } if self.repeats => {
                Ok(Written::Unsure)
            }
            Write::Get { key } => {
                let sql = "SELECT id, key, handler, payload_version, payload, deadline, attempt,
                                  deaths, repeat IS NOT NULL, last_error, fence IS NOT NULL,
                                  NULL::text, NULL::timestamptz
                             FROM lars.timer WHERE grp = $1 AND key = $2";
                let found = self.query(sql, &[&self.group, &&**key]).await?;
                Ok(Written::Listed(found.iter().map(rows::listed).collect()))
            }
            Write::Pause { handler, paused } => {
                let handler = text(handler);
                let sql = match paused {
                    true => {
                        "INSERT INTO lars.paused (grp, handler) VALUES ($1, $2)
                         ON CONFLICT (grp, handler) DO NOTHING"
                    }
                    false => "DELETE FROM lars.paused WHERE grp = $1 AND handler = $2",
                };
                self.query(sql, &[&self.group, &handler.as_ref()]).await?;
                Ok(Written::Applied)
            }
            Write::Parked { after, handler, limit, scan } => {
                self.page(*after, handler.as_deref(), *limit, *scan).await
            }
            Write::RetryParked { id } => self.retry_parked(*id).await,
            Write::DiscardParked { id } => {
                let sql = "DELETE FROM lars.parked WHERE grp = $1 AND id = $2 RETURNING id";
                Ok(match self.query(sql, &[&self.group, id]).await?.is_empty() {
                    true => Written::NotFound,
                    false => Written::Applied,
                })
            }
        }
    }

    /// These were made before, as far as their keys allowed it. One without a key that is not there
    /// has run.
    async fn schedule_again(&self, timers: &[NewTimer]) -> Result<Written> {
        let ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
        let found: HashMap<TimerId, crate::model::Loaded> =
            self.read(&ids).await?.into_iter().map(|row| (row.id, row)).collect();
        let mut all = Vec::with_capacity(timers.len());
        for new in timers {
            let (id, how) = (new.id, How::New);
            match found.get(&id) {
                Some(row) => {
                    let (bucket, due, handler) = (row.bucket, row.due, Arc::clone(&row.handler));
                    all.push(Placed { id, bucket, due, handler, how });
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

    async fn page(
        &self,
        after: TimerId,
        handler: Option<&str>,
        limit: usize,
        scan: usize,
    ) -> Result<Written> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let sql = "SELECT id, key, handler, payload_version, payload, deadline, attempt, deaths,
                          repeat IS NOT NULL, last_error, false, reason, parked_at
                     FROM (SELECT * FROM lars.parked WHERE grp = $1 AND id > $2
                            ORDER BY id LIMIT $3) AS first
                    WHERE $4::text IS NULL OR handler = $4 ORDER BY id LIMIT $5";
        let handler = handler.map(text);
        let handler = handler.as_deref();
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&self.group, &after, &number(scan), &handler, &number(limit)];
        let found = self.query(sql, &parameters).await?;
        let page: Vec<Listed> = found.iter().map(rows::listed).collect();
        let last = match page.last().filter(|_| page.len() >= limit) {
            Some(last) => Some(last.id),
            None => {
                let sql = "SELECT max(id) FROM (SELECT id FROM lars.parked
                            WHERE grp = $1 AND id > $2 ORDER BY id LIMIT $3) AS first";
                self.query(sql, &[&self.group, &after, &number(scan)]).await?[0].get(0)
            }
        };
        let more = "SELECT 1 FROM lars.parked WHERE grp = $1 AND id > $2 LIMIT 1";
        let next = match last {
            Some(last) if self.query(more, &[&self.group, &last]).await?.is_empty() => None,
            last => last,
        };
        Ok(Written::Page(page, next))
    }

    async fn retry_parked(&self, id: TimerId) -> Result<Written> {
        let sql = "SELECT key, bucket, handler FROM lars.parked
                    WHERE grp = $1 AND id = $2 FOR UPDATE";
        let found = self.query(sql, &[&self.group, &id]).await?;
        let Some(parked) = found.first() else { return Ok(Written::NotFound) };
        if let Some(key) = parked.get::<_, Option<&str>>(0) {
            let sql = "SELECT 1 FROM lars.timer WHERE grp = $1 AND key = $2
                       UNION ALL
                       SELECT 1 FROM lars.used_key WHERE grp = $1 AND key = $2 AND until > $3";
            if !self.query(sql, &[&self.group, &key, &self.clock]).await?.is_empty() {
                return Ok(Written::KeyTaken(key.to_owned()));
            }
        }
        let sql = "WITH back AS (DELETE FROM lars.parked WHERE grp = $1 AND id = $2 RETURNING *)
                   INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key,
                                           handler, payload_version, payload, repeat, remember,
                                           last_error)
                   SELECT id, grp, bucket, $3, $3, $3, key, handler, payload_version, payload,
                          repeat, remember, last_error FROM back";
        self.query(sql, &[&self.group, &id, &self.clock]).await?;
        let handler = Arc::from(parked.get::<_, &str>(2));
        let (bucket, due) = (bucket(parked.get(1)), self.clock);
        Ok(Written::Placed(Placed { id, bucket, due, handler, how: How::New }))
    }
}

impl<'a> Changes<'a> {
    fn apply(&mut self, write: &'a Write, clock: Timestamp) -> Written {
        match write {
            Write::Schedule(timers) => self.schedule(timers, clock),
            Write::Cancel { key } => self.cancel(key),
            #[cfg(feature = "actors")]
            Write::Remove { key, but } => self.remove(key, *but),
            Write::Reset { key, when } => self.reset(key, when.by(clock)),
            _ => unreachable!("only these are decided by their keys"),
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
                Some(Holder { id, bucket, due, handler, .. }) => {
                    let (id, bucket, due, handler) = (*id, *bucket, *due, Arc::clone(handler));
                    return Placed { id, bucket, due, handler, how: How::Kept };
                }
                None if new.conflict == OnConflict::Keep && self.remembered.contains(key) => {
                    let (bucket, handler) = (new.bucket, Arc::clone(&new.handler));
                    return Placed { id: 0, bucket, due: clock, handler, how: How::Kept };
                }
                None => {}
            }
        }
        let planned = new.when.by(clock);
        let due = planned.plus(new.offset);
        self.inserts.insert(new.id, Insert { new, due, deadline: due, planned });
        let (id, bucket, handler) = (new.id, new.bucket, Arc::clone(&new.handler));
        if let Some(key) = new.key.as_deref() {
            let handler = Arc::clone(&handler);
            self.holders.insert(key, Holder { id, bucket, due, started: false, handler });
        }
        Placed { id, bucket, due, handler, how }
    }

    fn delete(&mut self, id: TimerId) {
        if self.inserts.remove(&id).is_none() {
            self.moves.remove(&id);
            self.deletes.push(id);
        }
    }

    fn cancel(&mut self, key: &str) -> Written {
        let Some(holder) = self.holders.get(key).cloned() else { return Written::NotFound };
        if holder.started {
            self.ended.push(holder.id);
            return Written::Running;
        }
        self.holders.remove(key);
        self.delete(holder.id);
        Written::Prevented { id: holder.id, due: holder.due }
    }

    #[cfg(feature = "actors")]
    fn remove(&mut self, key: &str, but: Option<TimerId>) -> Written {
        match self.holders.get(key) {
            Some(Holder { id, started: true, .. }) if but != Some(*id) => {
                let id = *id;
                self.holders.remove(key);
                self.delete(id);
                Written::Removed { id }
            }
            _ => self.cancel(key),
        }
    }

    fn reset(&mut self, key: &str, deadline: Timestamp) -> Written {
        let Some(holder) = self.holders.get_mut(key) else { return Written::NotFound };
        if holder.started {
            return Written::Running;
        }
        let (id, was_due) = (holder.id, holder.due);
        holder.due = was_due.min(deadline);
        let (bucket, due, handler) = (holder.bucket, holder.due, Arc::clone(&holder.handler));
        match self.inserts.get_mut(&id) {
            Some(insert) => {
                (insert.due, insert.deadline, insert.planned) = (due, deadline, deadline);
            }
            None => drop(self.moves.insert(id, (due, deadline))),
        }
        Written::Reset { id, bucket, was_due, due, handler }
    }
}
