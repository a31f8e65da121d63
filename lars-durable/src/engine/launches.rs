//! From the record of a start to that of the finish: what has started is launched at its deadline,
//! and what has ended is finished.

use super::runs::{LONGEST_WAIT, Launch, Run, RunEnd, Stage};
use super::settings::PUT_OFF;
use super::window::Key;
use super::{Node, Output};
use crate::model::{Fence, Finish, Finished, Next, Row, Series, Then, TimerId};
use crate::sync::Arc;
use crate::time::{Mono, Timestamp, micros};

/// The error of a run that asked for the statement that acknowledges it, and was not acknowledged.
const UNCOMMITTED: &str = "the transaction that acknowledges it was not committed";

impl Node {
    /// Starts are recorded, or came too late.
    pub(super) fn started(
        &mut self,
        now: Mono,
        ids: Vec<TimerId>,
        rows: Vec<Row>,
        moved: Vec<(TimerId, Timestamp)>,
    ) {
        for row in rows {
            self.counts.started += 1;
            if let Some(run) = self.runs.runs.get(&row.id) {
                self.tallies[run.handler].started += 1;
            }
            self.prepare(now, Arc::new(row));
        }
        for (id, due) in moved {
            if let Some(run) = self.drop_run(id) {
                let handler = Arc::clone(self.window.name(run.resident));
                self.near(run.resident.bucket, (due, id), &handler);
            }
        }
        for id in ids {
            // Cancelled, or this node is not the owner any more.
            if self.runs.runs.get(&id).is_some_and(|run| matches!(run.stage, Stage::Starting)) {
                self.drop_run(id);
            }
        }
    }

    /// It is recorded that this row is started: launch it, or say at once what becomes of it.
    fn prepare(&mut self, now: Mono, row: Arc<Row>) {
        let id = row.id;
        let Some(run) = self.runs.runs.get_mut(&id) else { return };
        let at_most_once = self.settings.handlers[run.handler].at_most_once;
        run.stage = Stage::Held(Arc::clone(&row));
        let series = row.series.as_deref().map(Series::parse);
        let clock = self.clock.at_least(now).max(row.deadline);
        let then = if row.deaths >= self.settings.max_deaths {
            let deaths = row.deaths;
            Some(Then::Park { reason: format!("the process died {deaths} times while it ran") })
        } else if series == Some(None) {
            Some(Then::GiveBack { after: PUT_OFF.0 })
        } else if let Some(Some(series)) = &series
            && row.attempt == 1
            && series.leaves_out(row.planned, clock, row.key.as_deref())
        {
            self.counts.skipped += 1;
            Some(self.after_success(now, &row))
        } else {
            None
        };
        if let Some(then) = then {
            self.finish(id, then);
        } else if at_most_once {
            let then = self.after_success(now, &row);
            if let Some(run) = self.runs.runs.get_mut(&id) {
                let fence = run.fence;
                run.stage = Stage::Deleting(row);
                self.runs.finishes.push_back(Finish { id, fence, then });
            }
        } else {
            self.launch(now, id);
        }
    }

    /// Launches a run that is recorded, if its bucket is still this node's and its lease holds.
    fn launch(&mut self, now: Mono, id: TimerId) {
        let Some(run) = self.runs.runs.get_mut(&id) else { return };
        let (Stage::Held(row) | Stage::Running(row)) = &run.stage else { return };
        let row = Arc::clone(row);
        // The row of a handler that runs at most once is gone: nobody else can run it.
        let deleted = self.settings.handlers[run.handler].at_most_once;
        let at = self.clock.local(row.deadline, now).max(now);
        // The start was recorded a lead before; only a clock that went back makes it longer.
        let soon = at <= now.plus(LONGEST_WAIT);
        if !deleted && (self.closing.is_closing() || !soon) {
            self.finish(id, Then::GiveBack { after: 0 });
        } else if !deleted && self.window.epoch(run.resident.bucket) != Some(run.fence.epoch()) {
            // Another owner finds the fence in the row.
            self.drop_run(id);
        } else if soon && (deleted || self.lease.is_valid(now)) {
            run.stage = Stage::Running(Arc::clone(&row));
            let launch = Launch {
                row,
                #[cfg(feature = "actors")]
                bucket: run.resident.bucket,
                fence: run.fence,
                handler: run.handler,
                at,
                deleted,
            };
            self.out.push(Output::Launch(launch));
        } else {
            run.stage = Stage::Held(row);
        }
    }

    pub(super) fn launch_held(&mut self, now: Mono) {
        let held = |run: &Run| matches!(run.stage, Stage::Held(_));
        let mut held: Vec<(Key, TimerId)> = (self.runs.runs.iter())
            .filter(|(_, run)| held(run))
            .map(|(id, run)| (run.key, *id))
            .collect();
        held.sort_unstable();
        for (_, id) in held {
            self.launch(now, id);
        }
    }

    /// The handler of a launched run has recorded its end in a transaction of its own, if that
    /// commits.
    #[cfg(any(feature = "postgres", feature = "actors"))]
    pub(crate) fn acknowledged(&mut self, id: TimerId, fence: Fence) {
        if let Some(run) = self.runs.runs.get_mut(&id).filter(|run| run.fence == fence) {
            run.acknowledged = true;
        }
    }

    /// A launched run has ended.
    pub(crate) fn ended(&mut self, now: Mono, id: TimerId, fence: Fence, end: RunEnd) {
        let Some(run) = self.runs.runs.get(&id).filter(|run| run.fence == fence) else { return };
        let Stage::Running(row) = &run.stage else { return };
        let row = Arc::clone(row);
        let (place, handler) = (run.handler, &self.settings.handlers[run.handler]);
        if handler.at_most_once {
            // It is over already, whatever it says.
            match end {
                RunEnd::NotBegun => self.launch(now, id),
                _ => {
                    self.tallies[place].done += 1;
                    drop(self.drop_run(id));
                }
            }
            return;
        }
        let retry = |error: String, after: i64| match row.attempt >= handler.max_attempts {
            true => Then::Park { reason: format!("attempt {} failed: {error}", row.attempt) },
            false => Then::Retry { after, error },
        };
        let own = run.acknowledged;
        let then = match end {
            RunEnd::NotBegun => return self.launch(now, id),
            // The row knows whether the handler's transaction was committed: if it still has this
            // fence, it was not, and the run has failed. If that transaction is still open, it
            // holds the row, and the finish waits.
            RunEnd::Done if own => {
                let delay = handler.delay(id.unsigned_abs(), row.attempt);
                retry(UNCOMMITTED.into(), micros(delay))
            }
            RunEnd::Done => self.after_success(now, &row),
            RunEnd::Retry { error } => {
                let delay = handler.delay(id.unsigned_abs(), row.attempt);
                retry(error, micros(delay))
            }
            RunEnd::RetryAfter { micros, error } => retry(error, micros),
            RunEnd::Park { reason } => Then::Park { reason },
            #[cfg(feature = "actors")]
            RunEnd::GiveBack { micros } => Then::GiveBack { after: micros },
            RunEnd::TooNew => Then::GiveBack { after: PUT_OFF.0 },
        };
        match then {
            // What has become of it shows when the finish is recorded.
            _ if own => {}
            Then::Done | Then::Next { .. } => {
                self.counts.done += 1;
                self.tallies[place].done += 1;
            }
            Then::Retry { .. } => {
                self.counts.retried += 1;
                self.tallies[place].retried += 1;
            }
            Then::Park { .. } | Then::GiveBack { .. } => {}
        }
        self.finish(id, then);
    }

    /// What becomes of a timer whose run is over: the next run of a series is computed from what
    /// this one was planned for.
    fn after_success(&self, now: Mono, row: &Row) -> Then {
        let Some(series) = row.series.as_deref().and_then(Series::parse) else { return Then::Done };
        let clock = self.clock.at_least(now).max(row.deadline);
        match series.next(row.planned, clock, row.key.as_deref()) {
            Next::Run { when, offset } => Then::Next { when, offset },
            Next::Over => Then::Done,
        }
    }

    fn finish(&mut self, id: TimerId, then: Then) {
        if let Some(run) = self.runs.runs.get_mut(&id) {
            self.runs.busy[run.handler] -= 1;
            run.stage = Stage::Finishing;
            let fence = run.fence;
            self.runs.finishes.push_back(Finish { id, fence, then });
        }
    }

    /// A finish is recorded, or came too late.
    pub(super) fn finished(&mut self, now: Mono, finish: Finish, finished: Finished) {
        let id = finish.id;
        if finished == Finished::Held {
            self.runs.hold_finish(now, finish);
            return;
        }
        let Some(run) = self.runs.runs.get_mut(&id) else { return };
        if let Stage::Deleting(row) = &run.stage {
            let row = Arc::clone(row);
            if finished == Finished::Stale {
                self.counts.stale += 1;
                self.drop_run(id);
            } else {
                run.stage = Stage::Held(row);
                self.launch(now, id);
            }
            return;
        }
        let Some(run) = self.drop_run(id) else { return };
        match finished {
            Finished::Gone => {}
            Finished::Parked => {
                self.counts.parked += 1;
                self.tallies[run.handler].parked += 1;
            }
            Finished::Stale if run.acknowledged => {
                // The handler's transaction has ended it; a series has another place now.
                self.counts.done += 1;
                self.tallies[run.handler].done += 1;
                self.runs.notified([id]);
            }
            Finished::Stale => {
                self.counts.stale += 1;
                tracing::warn!(target: "lars_durable", id, "a newer run has taken over");
            }
            Finished::Again { due } => {
                if run.acknowledged && matches!(finish.then, Then::Retry { .. }) {
                    self.counts.retried += 1;
                    self.tallies[run.handler].retried += 1;
                }
                let handler = Arc::clone(self.window.name(run.resident));
                self.near(run.resident.bucket, (due, id), &handler);
            }
            Finished::Held => {}
        }
    }

    fn drop_run(&mut self, id: TimerId) -> Option<Run> {
        let run = self.runs.runs.remove(&id)?;
        if !matches!(run.stage, Stage::Finishing) {
            self.runs.busy[run.handler] -= 1;
        }
        if self.runs.in_quarantine == Some(id) {
            self.runs.in_quarantine = None;
        }
        Some(run)
    }
}
