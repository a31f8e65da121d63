//! The node as the only member of its group: in memory, where a server has tables for it.

use rusqlite::Result;

use super::BUCKET;
use crate::model::NodeId;
use crate::store::{Keep, Peer, Renewed, Reply, Terms};
use crate::sync::Arc;
use crate::time::Timestamp;

/// What the node has said of itself, and what it owns.
#[derive(Debug, Clone)]
pub(super) struct Membership {
    pub(super) node: Option<NodeId>,
    pub(super) owns_bucket: bool,
    pub(super) joined: Timestamp,
    pub(super) renewed: Timestamp,
    pub(super) report: Option<Arc<str>>,
}

impl Membership {
    /// Before the node joins.
    pub(super) fn none() -> Self {
        let never = Timestamp::MIN;
        Self { node: None, owns_bucket: false, joined: never, renewed: never, report: None }
    }

    /// In a transaction of the store. If that is not committed, it is to be undone.
    pub(super) fn keep(
        &mut self,
        keep: &Keep,
        epoch: u32,
        now: Timestamp,
        paused: impl FnOnce() -> Result<Vec<Arc<str>>>,
    ) -> Result<Reply> {
        Ok(match keep {
            Keep::Join { node, .. } => {
                self.node = Some(*node);
                (self.joined, self.renewed, self.report) = (now, now, None);
                Reply::Joined { buckets: 1 }
            }
            Keep::Renew { node, report } => {
                let alive = self.node == Some(*node);
                if alive {
                    self.renewed = now;
                    self.report = report.clone().or(self.report.take());
                }
                Reply::Renewed(Renewed {
                    alive,
                    nodes: self.node.map(member).into_iter().collect(),
                    buckets: vec![(BUCKET, self.node.filter(|_| self.owns_bucket), epoch)],
                    paused: paused()?,
                })
            }
            Keep::Claim { node, buckets, .. } => {
                let free = self.node == Some(*node) && !self.owns_bucket;
                let claimed = free && buckets.contains(&BUCKET);
                self.owns_bucket |= claimed;
                Reply::Claimed(if claimed { vec![(BUCKET, epoch)] } else { Vec::new() })
            }
            Keep::Release { .. } => {
                self.owns_bucket = false;
                Reply::Released
            }
            Keep::Leave { .. } => {
                (self.node, self.owns_bucket) = (None, false);
                Reply::Left
            }
        })
    }
}

/// There is nobody who judges it.
fn member(id: NodeId) -> Peer {
    Peer { id, renewals: 0, serves: true, terms: Terms::default() }
}
