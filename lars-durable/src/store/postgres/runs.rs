//! Loads, starts and finishes, in SQL: each batch is a few statements, whatever its size.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rows;
use super::transaction::{Result, Transaction};
use super::values::{Id, text};
use crate::model::{Finish, Finished, Loaded, NodeId, Row, Start, Then, TimerId};
use crate::store::{Reply, Request};
use crate::time::Timestamp;

impl Transaction<'_> {
    /// All buckets in one statement.
    pub(super) async fn load(&self, loads: &[&Request]) -> Result<Vec<Reply>> {
        let (mut buckets, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut untils, mut limits) = (Vec::new(), Vec::new());
        for load in loads {
            let Request::Load { bucket, after, until, limit } = load else { continue };
            buckets.push(rows::number(*bucket));
            dues.push(after.0);
            ids.push(after.1);
            untils.push(*until);
            limits.push(i64::try_from(*limit).unwrap_or(i64::MAX));
        }
        let sql = "SELECT t.*, c.place
                     FROM unnest($2::smallint[], $3::timestamptz[], $4::bigint[],
                                            $5::timestamptz[], $6::bigint[])
                          WITH ORDINALITY AS c (bucket, due, id, until, most, place)
                    CROSS JOIN LATERAL (
                          SELECT id, bucket, due_at, planned_at, handler, fence
                            FROM lars.timer
                           WHERE grp = $1 AND bucket = c.bucket
                             AND (due_at, id) > (c.due, c.id) AND due_at < c.until
                           ORDER BY due_at, id LIMIT c.most) AS t
                    ORDER BY c.place, t.due_at, t.id";
        let found =
            self.query(sql, &[&self.group, &buckets, &dues, &ids, &untils, &limits]).await?;
        let mut loaded: Vec<Vec<Loaded>> = vec![Vec::new(); buckets.len()];
        for row in &found {
            let place: i64 = row.get(6);
            if let Some(of) = usize::try_from(place - 1).ok().and_then(|at| loaded.get_mut(at)) {
                of.push(rows::loaded(row));
            }
        }
        Ok(loaded.into_iter().map(Reply::Loaded).collect())
    }

    pub(super) async fn read(&self, ids: &[TimerId]) -> Result<Vec<Loaded>> {
        let sql = "SELECT id, bucket, due_at, planned_at, handler, fence FROM lars.timer
                    WHERE grp = $1 AND id = ANY ($2)";
        let found = self.query(sql, &[&self.group, &ids]).await?;
        let found: HashMap<TimerId, Loaded> =
            found.iter().map(rows::loaded).map(|row| (row.id, row)).collect();
        Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
    }

    pub(super) async fn start(&self, node: NodeId, lead: i64, starts: &[Start]) -> Result<Reply> {
        let (mut all, mut moved) = (Vec::with_capacity(starts.len()), Vec::new());
        for wave in waves(starts, |start| start.id) {
            self.start_wave(node, lead, wave, &mut all, &mut moved).await?;
        }
        Ok(Reply::Started { rows: all, moved })
    }

    async fn start_wave(
        &self,
        node: NodeId,
        lead: i64,
        starts: &[Start],
        all: &mut Vec<Row>,
        moved: &mut Vec<(TimerId, Timestamp)>,
    ) -> Result<()> {
        let mut starts = starts.to_vec();
        if self.around_locks {
            let ids: Vec<TimerId> = starts.iter().map(|start| start.id).collect();
            let free = self.not_held(&ids).await?;
            // Left out as if they were gone: the sweep finds them when they are free.
            starts.retain(|start| free.contains(&start.id));
        }
        let ids: Vec<TimerId> = starts.iter().map(|start| start.id).collect();
        let fences: Vec<i64> = starts.iter().map(|start| start.fence.0).collect();
        let limit = self.clock.plus(lead);
        // `t.epoch`: a statement that an older owner sent before it lost the bucket, and that was
        // held up until now, starts nothing.
        let sql = "UPDATE lars.timer t
                      SET attempt = t.attempt + (t.fence IS DISTINCT FROM c.fence)::int,
                          deaths = t.deaths + (t.fence <> c.fence IS TRUE)::int,
                          fence = c.fence,
                          epoch = (c.fence >> 32)::int
                     FROM unnest($2::bigint[], $3::bigint[]) AS c (id, fence),
                          lars.bucket b
                    WHERE t.id = c.id AND t.grp = $1
                      AND b.grp = $1 AND b.bucket = t.bucket AND b.owner = $4
                      AND b.epoch = c.fence >> 32 AND t.epoch <= c.fence >> 32
                      AND (t.fence = c.fence OR t.deadline <= $5
                           AND (t.fence IS NULL OR t.fence >> 32 < c.fence >> 32))
                   RETURNING t.id, t.handler, t.payload_version, t.payload, t.key, t.deadline,
                             t.planned_at, t.attempt, t.deaths, t.repeat";
        let found = self.query(sql, &[&self.group, &ids, &fences, &Id(node), &limit]).await?;
        let mut found: HashMap<TimerId, Row> =
            found.iter().map(rows::started).map(|row| (row.id, row)).collect();
        let left: Vec<Start> =
            starts.iter().filter(|start| !found.contains_key(&start.id)).copied().collect();
        all.extend(starts.iter().filter_map(|start| found.remove(&start.id)));
        if left.is_empty() {
            return Ok(());
        }
        let ids: Vec<TimerId> = left.iter().map(|start| start.id).collect();
        let epochs: Vec<i64> = left.iter().map(|start| i64::from(start.fence.epoch())).collect();
        let sql = "UPDATE lars.timer t SET due_at = t.deadline
                     FROM unnest($2::bigint[], $3::bigint[]) AS c (id, epoch),
                          lars.bucket b
                    WHERE t.id = c.id AND t.grp = $1 AND t.fence IS NULL
                      AND b.grp = $1 AND b.bucket = t.bucket AND b.owner = $4 AND b.epoch = c.epoch
                   RETURNING t.id, t.due_at";
        let found = self.query(sql, &[&self.group, &ids, &epochs, &Id(node)]).await?;
        let found: HashMap<TimerId, Timestamp> =
            found.iter().map(|row| (row.get(0), row.get(1))).collect();
        moved.extend(ids.iter().filter_map(|id| Some((*id, *found.get(id)?))));
        Ok(())
    }

    /// Those of these rows that no other transaction holds; from now on this one does.
    async fn not_held(&self, ids: &[TimerId]) -> Result<BTreeSet<TimerId>> {
        let sql = "SELECT id FROM lars.timer WHERE grp = $1 AND id = ANY ($2)
                    ORDER BY id FOR UPDATE SKIP LOCKED";
        let found = self.query(sql, &[&self.group, &ids]).await?;
        Ok(found.iter().map(|row| row.get(0)).collect())
    }

    async fn there_are(&self, ids: &[TimerId]) -> Result<BTreeSet<TimerId>> {
        let sql = "SELECT id FROM lars.timer WHERE grp = $1 AND id = ANY ($2)";
        let found = self.query(sql, &[&self.group, &ids]).await?;
        Ok(found.iter().map(|row| row.get(0)).collect())
    }

    pub(super) async fn finish(&self, finishes: &[Finish]) -> Result<Vec<Finished>> {
        let mut all = Vec::with_capacity(finishes.len());
        for wave in waves(finishes, |finish| finish.id) {
            let mut outcomes: HashMap<TimerId, Finished> = HashMap::new();
            let mut open: Vec<&Finish> = wave.iter().collect();
            if self.around_locks {
                let ids: Vec<TimerId> = wave.iter().map(|finish| finish.id).collect();
                // In this order: one that is gone in between is no longer there.
                let free = self.not_held(&ids).await?;
                let there = self.there_are(&ids).await?;
                for id in there.difference(&free) {
                    outcomes.insert(*id, Finished::Held);
                }
                open.retain(|finish| free.contains(&finish.id));
            }
            self.finish_wave(&open, &mut outcomes).await?;
            all.extend(
                wave.iter().map(|finish| outcomes.remove(&finish.id).unwrap_or(Finished::Stale)),
            );
        }
        Ok(all)
    }

    async fn finish_wave(
        &self,
        finishes: &[&Finish],
        outcomes: &mut HashMap<TimerId, Finished>,
    ) -> Result<()> {
        let mut done: Vec<(TimerId, i64)> = Vec::new();
        let (mut next, mut retry) = (Columns::default(), Columns::default());
        let (mut back, mut park) = (Columns::default(), Columns::default());
        let mut planned: Vec<Timestamp> = Vec::new();
        for Finish { id, fence, then } in finishes {
            let (id, fence) = (*id, fence.0);
            match then {
                Then::Done => done.push((id, fence)),
                Then::Next { when, offset } => {
                    let when = when.by(self.clock);
                    planned.push(when);
                    next.push(id, fence, when.plus(*offset), "");
                }
                Then::Retry { after, error } => {
                    retry.push(id, fence, self.clock.plus(*after), error);
                }
                Then::GiveBack { after } => back.push(id, fence, self.clock.plus(*after), ""),
                Then::Park { reason } => park.push(id, fence, self.clock, reason),
            }
        }
        if !next.ids.is_empty() {
            let sql = "UPDATE lars.timer t
                          SET fence = NULL, planned_at = f.planned, due_at = f.due,
                              deadline = f.due, attempt = 0, deaths = 0, last_error = NULL
                         FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[],
                                                $5::timestamptz[]) AS f (id, fence, due, planned)
                        WHERE t.id = f.id AND t.grp = $1 AND t.fence = f.fence
                          AND t.repeat IS NOT NULL
                       RETURNING t.id, t.due_at";
            let Columns { ids, fences, dues, .. } = &next;
            let found = self.query(sql, &[&self.group, ids, fences, dues, &planned]).await?;
            again(&found, outcomes);
            // The others are a series no longer.
            let over = ids.iter().zip(fences).filter(|(id, _)| !outcomes.contains_key(id));
            done.extend(over.map(|(id, fence)| (*id, *fence)));
        }
        if !retry.ids.is_empty() {
            let sql = "UPDATE lars.timer t
                          SET fence = NULL, due_at = f.due, deadline = f.due, deaths = 0,
                              last_error = f.error
                         FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[],
                                                $5::text[]) AS f (id, fence, due, error)
                        WHERE t.id = f.id AND t.grp = $1 AND t.fence = f.fence
                       RETURNING t.id, t.due_at";
            let Columns { ids, fences, dues, texts } = &retry;
            let found = self.query(sql, &[&self.group, ids, fences, dues, texts]).await?;
            again(&found, outcomes);
        }
        if !back.ids.is_empty() {
            let sql = "UPDATE lars.timer t
                          SET fence = NULL, attempt = greatest(t.attempt - 1, 0),
                              due_at = greatest(t.deadline, f.due),
                              deadline = greatest(t.deadline, f.due)
                         FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[])
                              AS f (id, fence, due)
                        WHERE t.id = f.id AND t.grp = $1 AND t.fence = f.fence
                       RETURNING t.id, t.due_at";
            let Columns { ids, fences, dues, .. } = &back;
            let found = self.query(sql, &[&self.group, ids, fences, dues]).await?;
            again(&found, outcomes);
        }
        if !park.ids.is_empty() {
            let sql = "WITH gone AS (
                         DELETE FROM lars.timer t
                          USING unnest($2::bigint[], $3::bigint[], $4::text[])
                                AS f (id, fence, reason)
                          WHERE t.id = f.id AND t.grp = $1 AND t.fence = f.fence
                         RETURNING t.*, f.reason)
                       INSERT INTO lars.parked
                       SELECT id, grp, bucket, deadline, planned_at, key, handler, payload_version,
                              payload, repeat, remember, attempt, deaths, last_error, reason, $5
                         FROM gone RETURNING id";
            let Columns { ids, fences, texts, .. } = &park;
            let found = self.query(sql, &[&self.group, ids, fences, texts, &self.clock]).await?;
            for row in &found {
                outcomes.insert(row.get(0), Finished::Parked);
            }
        }
        self.done(&done, outcomes).await
    }

    /// Deletes them, and remembers the keys of those that ask for it.
    async fn done(
        &self,
        done: &[(TimerId, i64)],
        outcomes: &mut HashMap<TimerId, Finished>,
    ) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        let (ids, fences): (Vec<TimerId>, Vec<i64>) = done.iter().copied().unzip();
        let sql = "DELETE FROM lars.timer t
                    USING unnest($2::bigint[], $3::bigint[]) AS f (id, fence)
                    WHERE t.id = f.id AND t.grp = $1 AND t.fence = f.fence
                   RETURNING t.id, t.key, t.remember";
        let gone = self.query(sql, &[&self.group, &ids, &fences]).await?;
        let (mut keys, mut untils): (Vec<&str>, Vec<Timestamp>) = (Vec::new(), Vec::new());
        for row in &gone {
            outcomes.insert(row.get(0), Finished::Gone);
            let remember: i64 = row.get(2);
            if let Some(key) = row.get::<_, Option<&str>>(1).filter(|_| remember > 0) {
                keys.push(key);
                untils.push(self.clock.plus(remember));
            }
        }
        if !keys.is_empty() {
            let sql = "INSERT INTO lars.used_key (grp, key, until)
                       SELECT $1, u.key, u.until
                         FROM unnest($2::text[], $3::timestamptz[]) AS u (key, until)
                       ON CONFLICT (grp, key) DO UPDATE SET until = EXCLUDED.until";
            self.query(sql, &[&self.group, &keys, &untils]).await?;
        }
        Ok(())
    }

    /// The new times are computed here: PostgreSQL's intervals have days and months.
    pub(super) async fn put_off(
        &self,
        ids: &[TimerId],
        least: i64,
        most: i64,
    ) -> Result<Vec<Option<Timestamp>>> {
        let sql = "SELECT id, planned_at FROM lars.timer
                    WHERE grp = $1 AND id = ANY ($2) AND fence IS NULL ORDER BY id FOR UPDATE";
        let found = self.query(sql, &[&self.group, &ids]).await?;
        let mut dues: BTreeMap<TimerId, Timestamp> = BTreeMap::new();
        for row in &found {
            let waited = self.clock.0.saturating_sub(row.get::<_, Timestamp>(1).0);
            dues.insert(row.get(0), self.clock.plus(waited.clamp(least, most)));
        }
        let sql = "UPDATE lars.timer t SET due_at = p.due, deadline = p.due
                     FROM unnest($2::bigint[], $3::timestamptz[]) AS p (id, due)
                    WHERE t.id = p.id AND t.grp = $1";
        let (late, due): (Vec<TimerId>, Vec<Timestamp>) =
            dues.iter().map(|(a, b)| (*a, *b)).unzip();
        self.query(sql, &[&self.group, &late, &due]).await?;
        Ok(ids.iter().map(|id| dues.get(id).copied()).collect())
    }

    pub(super) async fn park(
        &self,
        ids: &[TimerId],
        before: Timestamp,
        reason: &str,
    ) -> Result<usize> {
        let sql = "WITH gone AS (
                     DELETE FROM lars.timer t
                      WHERE t.grp = $1 AND t.id = ANY ($2) AND t.fence IS NULL
                        AND t.planned_at <= $3
                     RETURNING t.*)
                   INSERT INTO lars.parked
                   SELECT id, grp, bucket, deadline, planned_at, key, handler, payload_version,
                          payload, repeat, remember, attempt, deaths, last_error, $4, $5
                     FROM gone RETURNING id";
        let reason = text(reason);
        let parked =
            self.query(sql, &[&self.group, &ids, &before, &reason.as_ref(), &self.clock]).await?;
        Ok(parked.len())
    }
}

/// What goes into one statement.
#[derive(Default)]
struct Columns {
    ids: Vec<TimerId>,
    fences: Vec<i64>,
    dues: Vec<Timestamp>,
    texts: Vec<String>,
}

impl Columns {
    fn push(&mut self, id: TimerId, fence: i64, due: Timestamp, words: &str) {
        self.ids.push(id);
        self.fences.push(fence);
        self.dues.push(due);
        self.texts.push(text(words).into_owned());
    }
}

fn again(found: &[tokio_postgres::Row], outcomes: &mut HashMap<TimerId, Finished>) {
    for row in found {
        outcomes.insert(row.get(0), Finished::Again { due: row.get(1) });
    }
}

/// Slices in which no timer comes twice: a statement changes a row once.
fn waves<T>(all: &[T], id: impl Fn(&T) -> TimerId) -> Vec<&[T]> {
    let (mut waves, mut first, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for (place, one) in all.iter().enumerate() {
        if !seen.insert(id(one)) {
            waves.push(&all[first..place]);
            first = place;
            seen = BTreeSet::from([id(one)]);
        }
    }
    waves.push(&all[first..]);
    waves
}
