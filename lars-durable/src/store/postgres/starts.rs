//! The start of runs, in SQL: a fence goes into each row.
//!
//! The statement itself asks whether the bucket is the node's own in the epoch of the fence,
//! whether the time has come by the server's clock, and whether nobody of this epoch or a later one
//! has started the timer. So a node that has lost its buckets and does not know it starts nothing.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;

use super::rows::{self, by_id};
use super::transaction::{Result, Transaction};
use super::values::Id;
use super::waves::waves;
use crate::model::{NodeId, Row, Start, TimerId};
use crate::store::Reply;
use crate::time::{Micros, Timestamp};

/// `t.epoch`: a statement that an older owner sent before it lost the bucket, and that was held up
/// until now, starts nothing. The very same fence: the answer to the first try was lost.
const START: &str = concat!(
    "UPDATE lars.timer t
        SET attempt = t.attempt + (t.fence IS DISTINCT FROM c.fence)::int,
            deaths = t.deaths + (t.fence <> c.fence IS TRUE)::int,
            fence = c.fence,
            epoch = (c.fence >> 32)::int
       FROM unnest($2::bigint[], $3::bigint[], $6::smallint[]) AS c (id, fence, bucket),
            lars.bucket b
      WHERE ",
    by_id!("c"),
    " AND t.bucket = c.bucket
        AND b.grp = $1 AND b.bucket = ANY ($6) AND b.bucket = c.bucket AND b.owner = $4
        AND b.epoch = c.fence >> 32 AND t.epoch <= c.fence >> 32
        AND (t.fence = c.fence OR t.deadline <= $5
             AND (t.fence IS NULL OR t.fence >> 32 < c.fence >> 32))
     RETURNING t.id, t.handler, t.payload_version, t.payload, t.key, t.deadline, t.planned_at,
               t.attempt, t.deaths, t.repeat, (SELECT store FROM lars.meta),
               coalesce(t.origin, t.id), t.run, t.unknown_since, t.cancelled",
);

/// A deadline is pushed out without the index: here the index follows.
const MOVE: &str = concat!(
    "UPDATE lars.timer t SET due_at = t.deadline
       FROM unnest($2::bigint[], $3::bigint[], $5::smallint[]) AS c (id, epoch, bucket),
            lars.bucket b
      WHERE ",
    by_id!("c"),
    " AND t.bucket = c.bucket AND t.fence IS NULL
        AND b.grp = $1 AND b.bucket = ANY ($5) AND b.bucket = c.bucket AND b.owner = $4
        AND b.epoch = c.epoch
     RETURNING t.id, t.due_at",
);

impl Transaction<'_> {
    pub(super) async fn start(
        &self,
        node: NodeId,
        lead: Micros,
        starts: &[Start],
    ) -> Result<Reply> {
        let (mut rows, mut moved) = (Vec::with_capacity(starts.len()), Vec::new());
        for wave in waves(starts, |start| start.id) {
            let mut wave = wave.to_vec();
            if self.around_locks {
                let ids: Vec<TimerId> = wave.iter().map(|start| start.id).collect();
                let free = self.not_held(&ids).await?;
                // Left out as if they were gone: the sweep finds them when they are free.
                wave.retain(|start| free.contains(&start.id));
            }
            let mut started = self.start_wave(node, lead, &wave).await?;
            let (ready, early): (Vec<Start>, Vec<Start>) =
                wave.iter().partition(|start| started.contains_key(&start.id));
            rows.extend(ready.iter().filter_map(|start| started.remove(&start.id)));
            moved.extend(self.move_wave(node, &early).await?);
        }
        Ok(Reply::Started { rows, moved })
    }

    /// Those that run now.
    async fn start_wave(
        &self,
        node: NodeId,
        lead: Micros,
        starts: &[Start],
    ) -> Result<HashMap<TimerId, Row>> {
        let (ids, fences): (Vec<TimerId>, Vec<i64>) =
            starts.iter().map(|start| (start.id, start.fence.0)).unzip();
        let buckets = buckets(starts);
        let limit = self.clock + lead;
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&self.group, &ids, &fences, &Id(node), &limit, &buckets];
        let found = self.query(START, &parameters).await?;
        Ok(found.iter().map(rows::started).map(|row| (row.id, row)).collect())
    }

    /// Of those that did not start, the ones that are due later than they were thought to be.
    async fn move_wave(&self, node: NodeId, starts: &[Start]) -> Result<Vec<(TimerId, Timestamp)>> {
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, epochs): (Vec<TimerId>, Vec<i64>) =
            starts.iter().map(|start| (start.id, i64::from(start.fence.epoch()))).unzip();
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&self.group, &ids, &epochs, &Id(node), &buckets(starts)];
        let found = self.query(MOVE, &parameters).await?;
        let found: HashMap<TimerId, Timestamp> =
            found.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(ids.iter().filter_map(|id| Some((*id, *found.get(id)?))).collect())
    }
}

/// Where they are. A timer stays in its bucket, so a row is joined with one bucket and not with all
/// of them.
fn buckets(starts: &[Start]) -> Vec<i16> {
    starts.iter().map(|start| rows::number(start.bucket)).collect()
}
