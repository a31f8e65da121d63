//! What people want to see.

use std::collections::BTreeMap;

use super::{Stored, Tables};
use crate::model::{BucketNo, Counted, Look, LookedHandler, LookedNode, MAX_NODES, TimerId};
use crate::sync::Arc;
use crate::time::Timestamp;

impl Tables {
    pub(super) fn look(&self, now: Timestamp, limit: usize) -> Look {
        let mut nodes: Vec<LookedNode> = (self.nodes.iter())
            .map(|(id, member)| LookedNode {
                id: *id,
                serves: member.serves,
                joined: member.joined,
                renewed: member.renewed,
                report: member.report.clone(),
            })
            .collect();
        nodes.sort_by_key(|node| (node.joined, node.id));
        nodes.truncate(MAX_NODES);
        Look {
            clock: now,
            counted: now,
            nodes,
            buckets: (0..)
                .zip(&self.buckets)
                .map(|(no, (own, epoch))| (no, *own, *epoch))
                .collect(),
            paused: self.paused.iter().cloned().collect(),
            timers: Some(self.count_timers(now, limit)),
            parked: Some(self.count_parked(limit)),
            database: None,
        }
    }

    fn count_timers(&self, now: Timestamp, limit: usize) -> Counted<LookedHandler> {
        let share = (limit / self.buckets.len().max(1)).max(1);
        let (mut counts, mut more) = (BTreeMap::new(), false);
        for bucket in 0..BucketNo::try_from(self.buckets.len()).unwrap_or(BucketNo::MAX) {
            let first = (bucket, Timestamp::MIN, TimerId::MIN);
            let end = (bucket, Timestamp::NEVER, TimerId::MAX);
            let mut range = self.due.range(first..=end);
            for (_, _, id) in range.by_ref().take(share) {
                count(&mut counts, &self.timers[id], now);
            }
            more |= range.next().is_some();
        }
        Counted { by_handler: counts.into_iter().collect(), more }
    }

    fn count_parked(&self, limit: usize) -> Counted<u64> {
        let mut counts = BTreeMap::new();
        for (timer, ..) in self.parked.values().take(limit) {
            *counts.entry(timer.handler.clone()).or_default() += 1;
        }
        Counted { by_handler: counts.into_iter().collect(), more: self.parked.len() > limit }
    }
}

fn count(counts: &mut BTreeMap<Arc<str>, LookedHandler>, timer: &Stored, now: Timestamp) {
    let none = LookedHandler { pending: 0, overdue: 0, retrying: 0, running: 0, next: None };
    let counted = counts.entry(timer.handler.clone()).or_insert(none);
    if timer.fence.is_some() {
        counted.running += 1;
        return;
    }
    counted.pending += 1;
    counted.overdue += u64::from(timer.deadline <= now);
    counted.retrying += u64::from(timer.attempt > 0);
    counted.next = Some(counted.next.map_or(timer.deadline, |next| next.min(timer.deadline)));
}
