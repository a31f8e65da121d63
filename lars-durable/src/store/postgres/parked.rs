//! What was given up, for people, in SQL.

use super::rows::{self, bucket};
use super::transaction::{Result, Transaction};
use super::values::text;
use crate::model::{Listed, TimerId};
use crate::store::{How, Placed, Written};
use crate::sync::Arc;

/// What is looked at is bounded, and not only what is found.
const PAGE: &str = "SELECT id, key, handler, payload_version, payload, deadline, attempt, deaths,
            repeat, last_error, false, reason, parked_at
       FROM (SELECT * FROM lars.parked WHERE grp = $1 AND id > $2 ORDER BY id LIMIT $3) AS first
      WHERE $4::text IS NULL OR handler = $4 ORDER BY id LIMIT $5";

const LAST_LOOKED_AT: &str = "SELECT max(id) FROM (SELECT id FROM lars.parked
      WHERE grp = $1 AND id > $2 ORDER BY id LIMIT $3) AS first";

const MORE: &str = "SELECT 1 FROM lars.parked WHERE grp = $1 AND id > $2 LIMIT 1";

impl Transaction<'_> {
    /// See `Write::Parked`.
    pub(super) async fn page(
        &self,
        after: TimerId,
        handler: Option<&str>,
        limit: usize,
        scan: usize,
    ) -> Result<Written> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let (most, looked_at, handler) = (number(limit), number(scan), handler.map(text));
        let handler = handler.as_deref();
        let found = self.query(PAGE, &[&self.group, &after, &looked_at, &handler, &most]).await?;
        let page: Vec<Listed> = found.iter().map(rows::listed).collect();
        let last = match page.last().filter(|_| page.len() >= limit) {
            Some(last) => Some(last.id),
            None => self.query(LAST_LOOKED_AT, &[&self.group, &after, &looked_at]).await?[0].get(0),
        };
        let next = match last {
            Some(last) if self.query(MORE, &[&self.group, &last]).await?.is_empty() => None,
            last => last,
        };
        Ok(Written::Page(page, next))
    }
}

/// The series that a parked run is of has the key.
const LOCK_PARKED: &str = "SELECT CASE WHEN origin IS NULL THEN key END, bucket, handler
       FROM lars.parked
      WHERE grp = $1 AND id = $2 FOR UPDATE";

const TAKEN: &str = "SELECT 1 FROM lars.timer WHERE grp = $1 AND key = $2
     UNION ALL
     SELECT 1 FROM lars.used_key WHERE grp = $1 AND key = $2 AND until > $3";

/// What is not named begins anew.
const UNPARK: &str = "WITH back AS (DELETE FROM lars.parked WHERE grp = $1 AND id = $2 RETURNING *)
     INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                             payload_version, payload, repeat, remember, last_error, run, origin)
     SELECT id, grp, bucket, $3, $3, $3, CASE WHEN origin IS NULL THEN key END, handler,
            payload_version, payload, repeat, remember, last_error, run, origin
       FROM back";

const DISCARD: &str = "DELETE FROM lars.parked WHERE grp = $1 AND id = $2 RETURNING id";

impl Transaction<'_> {
    pub(super) async fn retry_parked(&self, id: TimerId) -> Result<Written> {
        let found = self.query(LOCK_PARKED, &[&self.group, &id]).await?;
        let Some(parked) = found.first() else { return Ok(Written::NotFound) };
        if let Some(key) = parked.get::<_, Option<&str>>(0)
            && !self.query(TAKEN, &[&self.group, &key, &self.clock]).await?.is_empty()
        {
            return Ok(Written::KeyTaken(key.to_owned()));
        }
        self.query(UNPARK, &[&self.group, &id, &self.clock]).await?;
        let handler = Arc::from(parked.get::<_, &str>(2));
        let (bucket, due) = (bucket(parked.get(1)), self.clock);
        Ok(Written::Placed(Placed { id, bucket, due, handler, how: How::New }))
    }

    pub(super) async fn discard_parked(&self, id: TimerId) -> Result<Written> {
        Ok(match self.query(DISCARD, &[&self.group, &id]).await?.is_empty() {
            true => Written::NotFound,
            false => Written::Applied,
        })
    }
}
