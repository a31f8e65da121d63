//! What was given up, for people, in SQL.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;

use super::floor::Floor;
use super::rows::bucket;
use super::transaction::{Result, Transaction};
use crate::model::{Kept, TimerId};
use crate::store::{How, Placed, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The series that a parked run is of has the key.
macro_rules! lock {
    ($rest:literal) => {
        concat!(
            "SELECT id, CASE WHEN origin IS NULL THEN key END, bucket, handler
               FROM lars.parked
              WHERE grp = $1 AND id = ANY ($2) ORDER BY id + 0 FOR UPDATE",
            $rest
        )
    };
}
const LOCK: &str = lock!("");
const LOCK_FREE: &str = lock!(" SKIP LOCKED");

pub(super) const ARE_PARKED: &str = "SELECT id FROM lars.parked WHERE grp = $1 AND id = ANY ($2)";

const TAKEN: &str = "SELECT key FROM lars.timer WHERE grp = $1 AND key = ANY ($2)
     UNION ALL
     SELECT key FROM lars.used_key WHERE grp = $1 AND key = ANY ($2) AND until > $3";

/// What is not named begins anew. In the order of the keys, as all make timers (`writes`).
const UNPARK: &str = "WITH back AS (
       DELETE FROM lars.parked WHERE grp = $1 AND id = ANY ($2) RETURNING *)
     INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                             payload_version, payload, repeat, remember, last_error, run, origin,
                             tag)
     SELECT id, grp, bucket, $3, $3, $3, CASE WHEN origin IS NULL THEN key END, handler,
            payload_version, payload, repeat, remember, last_error, run, origin, tag
       FROM back ORDER BY key COLLATE \"POSIX\", id";

const DISCARD: &str = "DELETE FROM lars.parked WHERE grp = $1 AND id = ANY ($2) RETURNING id";

impl Transaction<'_> {
    /// One answer for each, in their order. Of two that have one key the first has it.
    pub(super) async fn retry_parked(&self, ids: &[TimerId]) -> Result<Vec<Written>> {
        let (rows, held) = self.lock_parked(ids).await?;
        let key = |row: &Row| row.get::<_, Option<String>>(1);
        let keys: Vec<String> = rows.values().filter_map(key).collect();
        let taken = self.query(TAKEN, &[&self.group, &keys, &self.clock]).await?;
        let mut taken: BTreeSet<String> = taken.iter().map(|row| row.get(0)).collect();
        let held_keys = self.held_keys(keys.iter().filter(|key| !taken.contains(*key))).await?;
        let (mut back, mut each) = (Vec::new(), Vec::with_capacity(ids.len()));
        for id in ids {
            let Some(row) = rows.get(id) else {
                let others = held.contains(id);
                each.push(if others { Written::Held } else { Written::NotFound });
                continue;
            };
            if let Some(key) = key(row) {
                if held_keys.contains(&key) {
                    each.push(Written::Held);
                    continue;
                }
                if !taken.insert(key.clone()) {
                    each.push(Written::KeyTaken(key));
                    continue;
                }
            }
            back.push(*id);
            let (bucket, handler) = (bucket(row.get(2)), Arc::from(row.get::<_, &str>(3)));
            let (due, how) = (self.clock, How::New);
            each.push(Written::Placed(Placed { id: *id, bucket, due, handler, how }));
        }
        self.query(UNPARK, &[&self.group, &back, &self.clock]).await?;
        Ok(each)
    }

    /// The same.
    pub(super) async fn discard_parked(&self, ids: &[TimerId]) -> Result<Vec<Written>> {
        let (mut free, mut held) = (ids.to_vec(), BTreeSet::new());
        if self.around_locks {
            let rows;
            (rows, held) = self.lock_parked(ids).await?;
            free = rows.into_keys().collect();
        }
        let gone = self.query(DISCARD, &[&self.group, &free]).await?;
        let gone: BTreeSet<TimerId> = gone.iter().map(|row| row.get(0)).collect();
        let written = |id| match id {
            id if gone.contains(id) => Written::Applied,
            id if held.contains(id) => Written::Held,
            _ => Written::NotFound,
        };
        Ok(ids.iter().map(written).collect())
    }

    /// Those of them that are parked, locked; and those that another transaction holds, if this one
    /// leaves such alone.
    async fn lock_parked(
        &self,
        ids: &[TimerId],
    ) -> Result<(HashMap<TimerId, Row>, BTreeSet<TimerId>)> {
        let lock = if self.around_locks { LOCK_FREE } else { LOCK };
        let rows = self.query(lock, &[&self.group, &ids]).await?;
        let rows: HashMap<TimerId, Row> = rows.into_iter().map(|row| (row.get(0), row)).collect();
        let mut held = BTreeSet::new();
        if self.around_locks && ids.iter().any(|id| !rows.contains_key(id)) {
            let there = self.query(ARE_PARKED, &[&self.group, &ids]).await?;
            held = there.iter().map(|row| row.get(0)).collect();
            held.retain(|id| !rows.contains_key(id));
        }
        Ok((rows, held))
    }

    /// Those of these keys, which no timer has, with which another transaction has made one, if
    /// this one leaves such alone.
    async fn held_keys(&self, keys: impl Iterator<Item = &String>) -> Result<BTreeSet<String>> {
        let mut held = BTreeSet::new();
        if self.around_locks {
            // Each once: two timers with one key would be refused.
            let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
            if !keys.is_empty() {
                self.probe(keys.into_iter().collect(), &mut held).await?;
            }
        }
        Ok(held)
    }
}

/// The last one that is kept, if so many are.
const LAST_KEPT: &str = "SELECT parked_at, id FROM lars.parked WHERE grp = $1 COLLATE \"C\"
      ORDER BY parked_at DESC, id DESC LIMIT 1 OFFSET $2";

/// Whoever lets one run again, or discards it, holds it.
const BEFORE: &str = "SELECT id, parked_at FROM lars.parked
      WHERE grp = $1 COLLATE \"C\" AND (parked_at, id) < ($2, $3) AND parked_at >= $5
      ORDER BY parked_at, id LIMIT $4 FOR UPDATE SKIP LOCKED";

impl Transaction<'_> {
    /// Deletes what was parked before all that is kept.
    pub(super) async fn prune(&self, kept: Kept, limit: usize, floor: &mut Floor) -> Result<usize> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut first: Option<(Timestamp, TimerId)> =
            kept.age.map(|age| (self.clock - age, TimerId::MIN));
        if let Some(most) = kept.most {
            let others = number(most.saturating_sub(1));
            let last = self.query(LAST_KEPT, &[&self.group, &others]).await?;
            first = first.max(last.first().map(|row| (row.get(0), row.get(1))));
        }
        let Some((at, id)) = first else { return Ok(0) };
        let begin = floor.begin(self.clock);
        let gone = self.query(BEFORE, &[&self.group, &at, &id, &number(limit), &begin]).await?;
        floor.raise(gone.last().map(|row| row.get(1)), at);
        let gone: Vec<TimerId> = gone.iter().map(|row| row.get(0)).collect();
        if !gone.is_empty() {
            self.discard_parked(&gone).await?;
        }
        Ok(gone.len())
    }
}
