//! Membership and buckets, in SQL.

use super::rows::{bucket, count, number};
use super::transaction::{Result, Transaction};
use super::values::Id;
use crate::model::{BucketNo, NodeId};
use crate::store::{Keep, Renewed, Reply};
use crate::sync::Arc;

/// How long the last batch of a writer is remembered: thirty days.
const SILENT: i64 = 30 * 86_400_000_000;

impl Transaction<'_> {
    pub(super) async fn keep(&self, keep: &Keep) -> Result<Reply> {
        Ok(match keep {
            Keep::Join { node, serves } => {
                let join = "INSERT INTO lars.node (id, grp, serves, started_at, renewed_at)
                            VALUES ($1, $2, $3, $4, $4) ON CONFLICT (id) DO NOTHING";
                self.query(join, &[&Id(*node), &self.group, serves, &self.clock]).await?;
                // Writers that have been silent for this long are gone.
                let silent = self.clock.plus(-SILENT);
                self.query("DELETE FROM lars.batch WHERE at < $1", &[&silent]).await?;
                // The first node of a group makes its buckets.
                let make = "INSERT INTO lars.bucket (grp, bucket)
                            SELECT $1, place FROM lars.meta,
                                   pg_catalog.generate_series(0, buckets - 1) AS place
                            ON CONFLICT (grp, bucket) DO NOTHING";
                self.query(make, &[&self.group]).await?;
                let sql = "SELECT pg_catalog.count(*)::smallint FROM lars.bucket WHERE grp = $1";
                let buckets = bucket(self.query(sql, &[&self.group]).await?[0].get(0));
                Reply::Joined { buckets }
            }
            Keep::Renew { node, report } => {
                Reply::Renewed(self.renew(*node, report.as_deref()).await?)
            }
            Keep::Claim { node, dead, buckets } => {
                Reply::Claimed(self.claim(*node, dead, buckets).await?)
            }
            Keep::Release { node, buckets } => {
                let buckets: Vec<i16> = buckets.iter().copied().map(number).collect();
                let sql = "UPDATE lars.bucket SET owner = NULL
                            WHERE grp = $1 AND owner = $2 AND bucket = ANY ($3)";
                self.query(sql, &[&self.group, &Id(*node), &buckets]).await?;
                self.tell_of_free_buckets().await?;
                Reply::Done
            }
            Keep::Leave { node } => {
                self.query("DELETE FROM lars.node WHERE id = $1", &[&Id(*node)]).await?;
                let sql = "UPDATE lars.bucket SET owner = NULL WHERE grp = $1 AND owner = $2";
                self.query(sql, &[&self.group, &Id(*node)]).await?;
                self.tell_of_free_buckets().await?;
                Reply::Done
            }
        })
    }

    /// Notifies the other nodes, which would otherwise see the free buckets with their next
    /// renewals. This is rare, so it may be part of the transaction.
    async fn tell_of_free_buckets(&self) -> Result<()> {
        if self.notifies {
            let sql = "SELECT pg_catalog.pg_notify(lars.channel($1), 'free')";
            self.query(sql, &[&self.group]).await?;
        }
        Ok(())
    }

    async fn renew(&self, node: NodeId, report: Option<&str>) -> Result<Renewed> {
        // The date and the report are for people; the number of renewals decides.
        let renew = "UPDATE lars.node SET renewals = renewals + 1, renewed_at = $2,
                            report = coalesce($3, report) WHERE id = $1 RETURNING 1";
        let alive = self.query(renew, &[&Id(node), &self.clock, &report]).await?;
        let alive = !alive.is_empty();
        let nodes = self
            .query("SELECT id, renewals, serves FROM lars.node WHERE grp = $1", &[&self.group])
            .await?;
        let buckets = "SELECT bucket, owner, epoch FROM lars.bucket WHERE grp = $1 ORDER BY bucket";
        let buckets = self.query(buckets, &[&self.group]).await?;
        let paused =
            self.query("SELECT handler FROM lars.paused WHERE grp = $1", &[&self.group]).await?;
        Ok(Renewed {
            alive,
            nodes: nodes
                .iter()
                .map(|row| {
                    let renewals = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
                    (row.get::<_, Id>(0).0, renewals, row.get(2))
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

    async fn claim(
        &self,
        node: NodeId,
        dead: &[(NodeId, u64)],
        buckets: &[BucketNo],
    ) -> Result<Vec<(BucketNo, u32)>> {
        for (dead, seen) in dead {
            let seen = i64::try_from(*seen).unwrap_or(i64::MAX);
            let bury = "DELETE FROM lars.node WHERE id = $1 AND renewals = $2";
            self.query(bury, &[&Id(*dead), &seen]).await?;
        }
        let alive = "SELECT 1 FROM lars.node WHERE id = $1 FOR KEY SHARE";
        if self.query(alive, &[&Id(node)]).await?.is_empty() {
            return Ok(Vec::new());
        }
        // Locked first: what is free is then decided by a statement that sees everything that was
        // committed before. What another node is taking right now is its own.
        let wanted: Vec<i16> = buckets.iter().copied().map(number).collect();
        let lock = "SELECT bucket FROM lars.bucket WHERE grp = $1 AND bucket = ANY ($2)
                     ORDER BY bucket FOR UPDATE SKIP LOCKED";
        let locked = self.query(lock, &[&self.group, &wanted]).await?;
        let locked: Vec<i16> = locked.iter().map(|row| row.get(0)).collect();
        let take = "UPDATE lars.bucket b SET owner = $3, epoch = epoch + 1
                     WHERE grp = $1 AND bucket = ANY ($2) AND (owner IS NULL
                        OR NOT EXISTS (SELECT FROM lars.node n WHERE n.id = b.owner))
                    RETURNING bucket, epoch";
        let taken = self.query(take, &[&self.group, &locked, &Id(node)]).await?;
        let mut claimed: Vec<(BucketNo, u32)> =
            taken.iter().map(|row| (bucket(row.get(0)), count(row.get(1)))).collect();
        let place = |wanted: BucketNo| buckets.iter().position(|bucket| *bucket == wanted);
        claimed.sort_by_key(|(bucket, _)| place(*bucket));
        Ok(claimed)
    }
}
