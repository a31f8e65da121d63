//! Membership and buckets, in SQL.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::types::ToSql;

use super::rows::{bucket, count, number};
use super::transaction::{Result, Transaction};
use super::values::Id;
use crate::model::{BucketNo, NodeId, TimerId};
use crate::store::{Keep, Peer, Renewed, Reply, Tenure, Terms, Write};
use crate::sync::Arc;
use crate::time::Micros;

/// How long the last batch of a writer is remembered: thirty days.
const SILENT: Micros = Micros::DAY.times(30);

const JOIN: &str = "INSERT INTO lars.node (id, grp, serves, lease, ahead, started_at, renewed_at)
     VALUES ($1, $2, $3, $5, $6, $4, $4) ON CONFLICT (id) DO NOTHING";

/// Writers whose last batch was long ago are gone. The index is walked backwards, from the last
/// batch of a writer to the last one of the writer before it. The batches between them may be dead
/// rows by the million, as long as a snapshot keeps them.
const FORGET_SILENT: &str = "WITH RECURSIVE last AS (
       (SELECT writer, at FROM lars.batch ORDER BY writer DESC, token DESC LIMIT 1)
        UNION ALL
       SELECT b.writer, b.at
         FROM last CROSS JOIN LATERAL (
              SELECT writer, at FROM lars.batch WHERE writer < last.writer
               ORDER BY writer DESC, token DESC LIMIT 1) AS b)
     DELETE FROM lars.batch WHERE writer = ANY (ARRAY(SELECT writer FROM last WHERE at < $1))";

const MAKE_BUCKETS: &str = "SELECT lars.make_buckets($1)";

const COUNT_BUCKETS: &str = "SELECT pg_catalog.count(*)::smallint FROM lars.bucket WHERE grp = $1";

const RELEASE: &str = "UPDATE lars.bucket SET owner = NULL
      WHERE grp = $1 AND owner = $2 AND bucket = ANY ($3)";

const LEAVE: &str = "DELETE FROM lars.node WHERE id = $1";

const RELEASE_ALL: &str = "UPDATE lars.bucket SET owner = NULL WHERE grp = $1 AND owner = $2";

const TELL: &str = "SELECT pg_catalog.pg_notify(lars.channel($1), 'free')";

impl Transaction<'_> {
    pub(super) async fn keep(&self, keep: &Keep) -> Result<Reply> {
        Ok(match keep {
            Keep::Join { node, serves, terms } => {
                Reply::Joined { buckets: self.join(*node, *serves, *terms).await? }
            }
            Keep::Renew { node, report } => {
                Reply::Renewed(self.renew(*node, report.as_deref()).await?)
            }
            Keep::Claim { node, dead, buckets } => {
                Reply::Claimed(self.claim(*node, dead, buckets).await?)
            }
            Keep::Release { node, buckets } => {
                self.release(*node, buckets).await?;
                Reply::Released
            }
            Keep::Leave { node } => {
                self.leave(*node).await?;
                Reply::Left
            }
        })
    }

    /// Says how many buckets the group has.
    async fn join(&self, node: NodeId, serves: bool, terms: Terms) -> Result<BucketNo> {
        let Terms { lease: Micros(lease), window: Micros(window) } = terms;
        let node = Id(node);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&node, &self.group, &serves, &self.clock, &lease, &window];
        self.query(JOIN, &parameters).await?;
        self.query(FORGET_SILENT, &[&(self.clock - SILENT)]).await?;
        self.query(MAKE_BUCKETS, &[&self.group]).await?;
        Ok(bucket(self.query(COUNT_BUCKETS, &[&self.group]).await?[0].get(0)))
    }

    async fn release(&self, node: NodeId, buckets: &[BucketNo]) -> Result<()> {
        let buckets: Vec<i16> = buckets.iter().copied().map(number).collect();
        self.query(RELEASE, &[&self.group, &Id(node), &buckets]).await?;
        self.tell_of_free_buckets().await
    }

    async fn leave(&self, node: NodeId) -> Result<()> {
        self.query(LEAVE, &[&Id(node)]).await?;
        self.query(RELEASE_ALL, &[&self.group, &Id(node)]).await?;
        self.tell_of_free_buckets().await
    }

    /// Notifies the other nodes, which would otherwise see the free buckets with their next
    /// renewals. This is rare, so it may be part of the transaction.
    async fn tell_of_free_buckets(&self) -> Result<()> {
        if self.notifies {
            self.query(TELL, &[&self.group]).await?;
        }
        Ok(())
    }
}

macro_rules! hold {
    () => {
        "SELECT bucket, epoch FROM lars.bucket
      WHERE grp = $1 AND bucket = ANY ($2) ORDER BY bucket FOR SHARE"
    };
}

/// Nobody takes these buckets as long as this transaction is open.
const HOLD: &str = hold!();

/// Without those that somebody is taking or giving back.
const HOLD_FREE: &str = concat!(hold!(), " SKIP LOCKED");

impl Transaction<'_> {
    /// Which of these are asked for under an epoch that is over.
    pub(super) async fn lost(&self, writes: &[&Write]) -> Result<Vec<bool>> {
        let tenure = |write: &&Write| match write {
            Write::Under { tenure, .. } => Some(*tenure),
            _ => None,
        };
        let epochs = self.epochs(HOLD, writes.iter().filter_map(tenure)).await?;
        let is_over = |tenure: Tenure| epochs.get(&tenure.bucket) != Some(&tenure.epoch);
        Ok(writes.iter().map(|write| tenure(write).is_some_and(is_over)).collect())
    }

    /// Those of these timers whose bucket nobody else has owned since, nor is taking just now.
    pub(super) async fn own(&self, timers: &[(TimerId, Tenure)]) -> Result<Vec<TimerId>> {
        let epochs = self.epochs(HOLD_FREE, timers.iter().map(|(_, tenure)| *tenure)).await?;
        let own =
            |(_, tenure): &&(TimerId, Tenure)| epochs.get(&tenure.bucket) == Some(&tenure.epoch);
        Ok(timers.iter().filter(own).map(|(id, _)| *id).collect())
    }

    /// In which epochs these buckets are, which are held as `hold` says.
    async fn epochs(
        &self,
        hold: &'static str,
        tenures: impl Iterator<Item = Tenure>,
    ) -> Result<BTreeMap<BucketNo, u32>> {
        let buckets: BTreeSet<BucketNo> = tenures.map(|tenure| tenure.bucket).collect();
        if buckets.is_empty() {
            return Ok(BTreeMap::new());
        }
        let buckets: Vec<i16> = buckets.into_iter().map(number).collect();
        let found = self.query(hold, &[&self.group, &buckets]).await?;
        Ok(found.iter().map(|row| (bucket(row.get(0)), count(row.get(1)))).collect())
    }
}

/// The date and the report are for people; the number of renewals decides.
const RENEW: &str = "UPDATE lars.node SET renewals = renewals + 1, renewed_at = $2,
            report = coalesce($3, report) WHERE id = $1 RETURNING 1";

const NODES: &str = "SELECT id, renewals, serves, lease, ahead FROM lars.node WHERE grp = $1";

const BUCKETS: &str = "SELECT bucket, owner, epoch FROM lars.bucket WHERE grp = $1 ORDER BY bucket";

const PAUSED: &str = "SELECT handler FROM lars.paused WHERE grp = $1";

impl Transaction<'_> {
    async fn renew(&self, node: NodeId, report: Option<&str>) -> Result<Renewed> {
        let renewed = self.query(RENEW, &[&Id(node), &self.clock, &report]).await?;
        let nodes = self.query(NODES, &[&self.group]).await?;
        let buckets = self.query(BUCKETS, &[&self.group]).await?;
        let paused = self.query(PAUSED, &[&self.group]).await?;
        Ok(Renewed {
            alive: !renewed.is_empty(),
            nodes: nodes
                .iter()
                .map(|row| Peer {
                    id: row.get::<_, Id>(0).0,
                    renewals: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0),
                    serves: row.get(2),
                    terms: Terms { lease: Micros(row.get(3)), window: Micros(row.get(4)) },
                })
                .collect(),
            buckets: buckets
                .iter()
                .map(|row| {
                    let owner = row.get::<_, Option<Id>>(1).map(|owner| owner.0);
                    (bucket(row.get(0)), owner, count(row.get(2)))
                })
                .collect(),
            paused: paused.iter().map(|row| Arc::from(row.get::<_, &str>(0))).collect(),
        })
    }
}

/// Unless it has renewed its lease since it was seen dead.
const BURY: &str = "DELETE FROM lars.node WHERE id = $1 AND renewals = $2";

/// A node that was buried takes nothing, and while this transaction is open nobody buries it.
const LIVES: &str = "SELECT 1 FROM lars.node WHERE id = $1 FOR KEY SHARE";

/// Locked first: what is free is then decided by a statement that sees everything that was
/// committed before. What another node is taking right now is its own.
const LOCK: &str = "SELECT bucket FROM lars.bucket WHERE grp = $1 AND bucket = ANY ($2)
      ORDER BY bucket FOR UPDATE SKIP LOCKED";

const TAKE: &str = "UPDATE lars.bucket b SET owner = $3, epoch = epoch + 1
      WHERE grp = $1 AND bucket = ANY ($2) AND (owner IS NULL
         OR NOT EXISTS (SELECT FROM lars.node n WHERE n.id = b.owner))
     RETURNING bucket, epoch";

impl Transaction<'_> {
    /// What was free, in the order in which it was asked for.
    async fn claim(
        &self,
        node: NodeId,
        dead: &[(NodeId, u64)],
        buckets: &[BucketNo],
    ) -> Result<Vec<(BucketNo, u32)>> {
        for (dead, seen) in dead {
            let seen = i64::try_from(*seen).unwrap_or(i64::MAX);
            self.query(BURY, &[&Id(*dead), &seen]).await?;
        }
        if self.query(LIVES, &[&Id(node)]).await?.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<i16> = buckets.iter().copied().map(number).collect();
        let locked = self.query(LOCK, &[&self.group, &wanted]).await?;
        let locked: Vec<i16> = locked.iter().map(|row| row.get(0)).collect();
        let taken = self.query(TAKE, &[&self.group, &locked, &Id(node)]).await?;
        let mut claimed: Vec<(BucketNo, u32)> =
            taken.iter().map(|row| (bucket(row.get(0)), count(row.get(1)))).collect();
        let place = |wanted: BucketNo| buckets.iter().position(|bucket| *bucket == wanted);
        claimed.sort_by_key(|(bucket, _)| place(*bucket));
        Ok(claimed)
    }
}
