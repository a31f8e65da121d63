//! Timers that no node can run, in SQL: put off, and parked in the end.
//!
//! What another transaction holds is left alone, and found again by the next sweep: to wait for it
//! would hold up what starts and ends in the same batch. The same goes for a bucket that somebody
//! takes just now. One that has had another owner since is that node's, which may be able to run
//! what is in it.

use std::collections::BTreeMap;

use super::rows::{self, by_id, park_gone};
use super::transaction::{Result, Transaction};
use super::values::text;
use crate::model::{Row, TimerId};
use crate::store::Tenure;
use crate::time::{Micros, Timestamp};

const WAITING: &str = "SELECT id, coalesce(unknown_since, $3) FROM lars.timer
      WHERE grp = $1 AND id = ANY ($2) AND fence IS NULL
      ORDER BY id + 0 FOR UPDATE SKIP LOCKED";

const PUT_OFF: &str = concat!(
    "UPDATE lars.timer t
        SET due_at = p.due, deadline = p.due, unknown_since = coalesce(t.unknown_since, $4)
       FROM unnest($2::bigint[], $3::timestamptz[]) AS p (id, due)
      WHERE ",
    by_id!("p"),
);

impl Transaction<'_> {
    /// The new times are computed here: PostgreSQL's intervals have days and months.
    pub(super) async fn put_off(
        &self,
        timers: &[(TimerId, Tenure)],
        least: Micros,
        most: Micros,
    ) -> Result<Vec<Option<Timestamp>>> {
        let ids = self.own(timers).await?;
        let waiting = self.query(WAITING, &[&self.group, &ids, &self.clock]).await?;
        let mut dues: BTreeMap<TimerId, Timestamp> = BTreeMap::new();
        for row in &waiting {
            let since_first = self.clock - row.get::<_, Timestamp>(1);
            dues.insert(row.get(0), self.clock + since_first.clamp(least, most));
        }
        let (late, due): (Vec<TimerId>, Vec<Timestamp>) =
            dues.iter().map(|(id, due)| (*id, *due)).unzip();
        self.query(PUT_OFF, &[&self.group, &late, &due, &self.clock]).await?;
        Ok(timers.iter().map(|(id, _)| dues.get(id).copied()).collect())
    }
}

const PARK_WAITING: &str = concat!(
    "WITH gone AS (
       DELETE FROM lars.timer t
        WHERE t.id = ANY (ARRAY(
              SELECT id FROM lars.timer
               WHERE grp = $1 AND id = ANY ($2) AND fence IS NULL AND unknown_since <= $4
               ORDER BY id + 0 FOR UPDATE SKIP LOCKED))
       RETURNING t.*),
     parked AS (",
    park_gone!("$5"),
    ") SELECT id, handler, payload_version, payload, key, deadline, planned_at, attempt, deaths,
              repeat, (SELECT store FROM lars.meta), coalesce(origin, id), run, unknown_since,
              cancelled
         FROM gone",
);

impl Transaction<'_> {
    /// Parks what nobody can run.
    pub(super) async fn park(
        &self,
        timers: &[(TimerId, Tenure)],
        before: Timestamp,
        reason: &str,
    ) -> Result<Vec<Row>> {
        let ids = self.own(timers).await?;
        let reason = text(reason);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&self.group, &ids, &self.clock, &before, &reason.as_ref()];
        Ok(self.query(PARK_WAITING, &parameters).await?.iter().map(rows::started).collect())
    }
}
