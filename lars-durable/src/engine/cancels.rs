//! Runs that need not go on, and how their handlers hear of it.
//!
//! ```text
//!   a call of this node ──────────────────────────────▶ tell
//!   a call elsewhere ── notification ─▶ read the row ─▶ tell
//!   SQL, or a lost notification ── with each sweep ───▶ read the rows of runs ─▶ tell
//!   the lease has ended, or a bucket is another's ────▶ tell
//! ```
//!
//! All of it is for speed: a run that is told nothing goes on, and its end is what its row says.
//! What is told does not change what becomes of the timer. Each run is told once.

use std::collections::BTreeMap;

use super::runs::{Run, Stage};
use super::{Node, Output};
use crate::model::{Act, BucketNo, CancelReason, Loaded, TimerId};
use crate::store::{How, Write, Written};
use crate::time::Mono;

impl Node {
    /// Tells the handler of this run, if it is at work; if it has not begun, it is told when it
    /// does.
    pub(super) fn tell(&mut self, id: TimerId, reason: CancelReason) {
        if let Some(run) = self.runs.tell(id, reason) {
            self.out.push(Output::Cancel { id, fence: run.fence, reason });
        }
    }

    /// A call that cancels has found runs under way, here or elsewhere.
    pub(super) fn tell_of_call(&mut self, write: &Write, written: &Written) {
        let cancels = match write {
            Write::Cancel { .. } | Write::Remove { .. } | Write::Schedule(_) => true,
            Write::Select { act, .. } => *act == Act::Cancel,
            Write::EndSeries { .. }
            | Write::Reset { .. }
            | Write::Get { .. }
            | Write::Pause { .. }
            | Write::Runs { .. }
            | Write::RetryParked { .. }
            | Write::DiscardParked { .. }
            | Write::Under { .. } => false,
        };
        match written {
            _ if !cancels => {}
            Written::Running { id, bucket } | Written::Removed { id, bucket } => {
                self.tell_owner(*bucket, *id);
            }
            Written::Scheduled(placed) => {
                for placed in placed {
                    if let How::Replaced { started: Some(id) } = placed.how {
                        self.tell_owner(placed.bucket, id);
                    }
                }
            }
            Written::Selected(selected) => {
                for written in &selected.each {
                    self.tell_of_call(write, written);
                }
            }
            _ => {}
        }
    }

    fn tell_owner(&mut self, bucket: BucketNo, id: TimerId) {
        if self.runs.holds(id) {
            self.tell(id, CancelReason::Cancelled);
        } else if self.window.epoch(bucket).is_none() {
            self.out.push(Output::Notify(vec![(bucket, id)]));
        }
    }

    /// The runs whose rows the sweep looks at, `most` of them: all have their turn. The row of one
    /// that runs at most once is gone.
    pub(super) fn runs_to_look_at(&mut self, most: usize) -> Vec<TimerId> {
        let after = std::mem::replace(&mut self.looked_at, TimerId::MIN);
        let handlers = &self.settings.handlers;
        let untold = self.runs.untold(after).filter(|(_, run)| !handlers[run.handler].at_most_once);
        let ids: Vec<TimerId> = untold.map(|(id, _)| id).take(most).collect();
        if ids.len() == most {
            self.looked_at = ids.last().copied().unwrap_or(TimerId::MIN);
        }
        ids
    }

    /// What the store has of these timers says of those that run here whether they are to go on.
    pub(super) fn look_at_runs(&mut self, ids: &[TimerId], rows: &[Loaded]) {
        let found: BTreeMap<TimerId, &Loaded> = rows.iter().map(|row| (row.id, row)).collect();
        for id in ids {
            self.look_at_run(*id, found.get(id).copied());
        }
    }

    fn look_at_run(&mut self, id: TimerId, found: Option<&Loaded>) {
        let Some(run) = self.runs.get(id).filter(|run| matches!(run.stage, Stage::Running(_)))
        else {
            return;
        };
        if self.settings.handlers[run.handler].at_most_once {
            return;
        }
        match found {
            // Its row went while it ran: removed or replaced, unless its handler has ended it.
            None => self.tell(id, CancelReason::Cancelled),
            Some(row) if row.fence != Some(run.fence) => self.tell(id, CancelReason::LeaseLost),
            Some(row) if row.cancelled => self.tell(id, CancelReason::Cancelled),
            Some(_) => {}
        }
    }

    /// When the lease ends, if it is not renewed and something runs that has to hear of it.
    pub(super) fn next_lapse(&self) -> Mono {
        if self.runs.in_flight() == 0 { Mono::NEVER } else { self.lease.next_lapse() }
    }

    /// The lease has ended without a renewal: another node may have what runs.
    pub(super) fn tell_of_lease(&mut self, now: Mono) {
        if self.lease.has_just_lapsed(now) {
            self.tell_those_that(|_, _| true);
        }
    }

    /// Buckets may be another node's by now.
    pub(super) fn tell_of_buckets(&mut self) {
        self.tell_those_that(|node, run| {
            node.window.epoch(run.resident.bucket) != Some(run.fence.epoch())
        });
    }

    fn tell_those_that(&mut self, lost: impl Fn(&Self, &Run) -> bool) {
        let handlers = &self.settings.handlers;
        let untold = self.runs.untold(TimerId::MIN);
        let untold = untold.filter(|(_, run)| !handlers[run.handler].at_most_once);
        let ids: Vec<TimerId> =
            untold.filter(|(_, run)| lost(self, run)).map(|(id, _)| id).collect();
        for id in ids {
            self.tell(id, CancelReason::LeaseLost);
        }
    }
}
