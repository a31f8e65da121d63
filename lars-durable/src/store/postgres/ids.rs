//! Calls about timers by their identities, in SQL.
//!
//! Consecutive ones are carried out together: the rows are locked, the calls are applied in order
//! to what was found, and the result is written.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{Changes, Holder};
use super::transaction::{Result, Transaction};
use super::writes::holder;
use crate::model::{TimerId, When, Which};
use crate::store::{Write, Written};

/// In the order of their identities, as everybody locks them.
const LOCK: &str = "SELECT id, bucket, due_at, fence IS NOT NULL, handler FROM lars.timer
      WHERE grp = $1 AND id = ANY ($2) ORDER BY id + 0 FOR UPDATE";

const LOCK_FREE: &str = "SELECT id, bucket, due_at, fence IS NOT NULL, handler FROM lars.timer
      WHERE grp = $1 AND id = ANY ($2) ORDER BY id + 0 FOR UPDATE SKIP LOCKED";

/// What is done to a timer that is named by its identity.
#[derive(Debug, Clone, Copy)]
enum ById {
    Cancel,
    EndSeries,
    Reset(When),
}

impl Transaction<'_> {
    /// One answer for each call, in their order.
    pub(super) async fn write_by_id(&self, writes: &[&Write]) -> Result<Vec<Written>> {
        let calls = writes.iter().map(|write| match write {
            Write::Cancel { which: Which::Id(id) } => (*id, ById::Cancel),
            Write::EndSeries { id } => (*id, ById::EndSeries),
            Write::Reset { which: Which::Id(id), when } => (*id, ById::Reset(*when)),
            _ => unreachable!("no identity decides these"),
        });
        let calls: Vec<(TimerId, ById)> = calls.collect();
        let ids: Vec<TimerId> = calls.iter().map(|(id, _)| *id).collect();
        let (mut found, held) = self.lock_timers(&ids).await?;
        let mut changes = Changes::default();
        let mut written = Vec::with_capacity(calls.len());
        for (id, call) in &calls {
            let Some(holder) = found.get_mut(id) else {
                let others = held.contains(id);
                written.push(if others { Written::Held } else { Written::NotFound });
                continue;
            };
            let did = match call {
                ById::Cancel => changes.cancel_one(holder),
                ById::EndSeries => changes.end(holder),
                ById::Reset(when) => changes.shift(holder, when.by(self.clock)),
            };
            if let Written::Prevented { .. } = did {
                found.remove(id);
            }
            written.push(did);
        }
        self.store(&changes).await?;
        Ok(written)
    }

    /// Those of these timers that there are, locked; and those that another transaction holds, if
    /// this one leaves such alone.
    async fn lock_timers(
        &self,
        ids: &[TimerId],
    ) -> Result<(BTreeMap<TimerId, Holder>, BTreeSet<TimerId>)> {
        let lock = if self.around_locks { LOCK_FREE } else { LOCK };
        let rows = self.query(lock, &[&self.group, &ids]).await?;
        let found: BTreeMap<TimerId, Holder> =
            rows.iter().map(holder).map(|holder| (holder.id, holder)).collect();
        let mut held = BTreeSet::new();
        if self.around_locks && ids.iter().any(|id| !found.contains_key(id)) {
            held = self.there_are(ids).await?;
            held.retain(|id| !found.contains_key(id));
        }
        Ok((found, held))
    }
}
