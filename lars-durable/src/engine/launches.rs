//! From the record of a start to that of the finish: what has started is launched at its deadline,
//! and what has ended is finished.
//!
//! A run that is recorded ends with one finish, unless its bucket is another node's by then. Three
//! things may come in between, and each has one answer:
//!
//! - *The lease has ended.* The run is held, and launched when the lease holds again. If the bucket
//!   is another's by then, it is dropped: the new owner finds the fence in the row.
//! - *It did not begin*, because the gate of the runtime refused it. It is launched again, with the
//!   same fence and as the same attempt. One that the executor dropped is given back; or launched
//!   again a second later, if its row is gone.
//! - *The handler has recorded the end itself*, in a transaction whose outcome nobody here knows.
//!   The finish is one of a failed run: it is stale if that transaction was committed, and true if
//!   not. If it is stale, and an earlier try of it may have been committed, the row tells: it has
//!   the same run still, or none, or the next one.

use super::delays::Delay;
use super::history::outcome_of;
use super::runs::{Run, Stage};
use super::settings::{LEAST_PUT_OFF, MOST_PUT_OFF, UNKNOWN_FOR};
use super::{Node, Output, Parked};
use crate::model::BucketNo;
use crate::model::{
    CancelReason, Fence, Finish, Finished, Row, RunOutcome, Series, Start, Then, TimerId,
};
use crate::store::Written;
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

/// A run that is recorded is begun within this time, or given back.
const LONGEST_WAIT: Micros = Micros::SECOND;

/// How long a run is put off that its executor has dropped.
const DROPPED: Micros = LONGEST_WAIT;

/// The error of a run that asked for the statement that acknowledges it, and was not acknowledged.
const UNCOMMITTED: &str = "the transaction that acknowledges it was not committed";

/// Why a timer is parked that only another release can run.
const TOO_NEW: &str = "a newer release stored it, and none has come for fourteen days";

/// A run to be begun.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) row: Arc<Row>,
    pub(crate) bucket: BucketNo,
    pub(crate) fence: Fence,
    /// The handler's place in the settings.
    pub(crate) handler: usize,
    pub(crate) at: Mono,
    /// The row is gone: whatever happens, this is its only run.
    pub(crate) deleted: bool,
    /// Why it need not go on, if that is known already.
    pub(crate) told: Option<CancelReason>,
    /// From when on it is late.
    pub(crate) counts_from: Mono,
    /// What the time from then to `at` was spent with, if that is to be known.
    pub(crate) delays: Vec<Delay>,
}

/// How a run ended, as its handler or the runtime says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Done,
    /// The same, and its series is over.
    Last,
    Retry {
        error: String,
    },
    RetryAfter {
        after: Micros,
        error: String,
    },
    Park {
        reason: String,
    },
    /// It has not happened, and is put off by this long.
    GiveBack {
        after: Micros,
    },
    /// It has ended, and is to count as if it had not happened.
    Snooze {
        after: Micros,
    },
    /// Its payload is newer than the handler: another node may know it.
    TooNew,
    /// It did not begin: it was too early, or the lease had ended, or the node is closing.
    NotBegun,
    /// It did not begin: its executor has dropped it.
    Dropped,
}

/// The longest text of a failure, in bytes. What fails together is stored together.
const LONGEST_TEXT: usize = 8_192;

impl RunEnd {
    /// What its handler says went wrong.
    fn failure(&self) -> Option<&str> {
        match self {
            Self::Retry { error: text }
            | Self::RetryAfter { error: text, .. }
            | Self::Park { reason: text } => Some(text),
            Self::Done
            | Self::Last
            | Self::GiveBack { .. }
            | Self::Snooze { .. }
            | Self::TooNew
            | Self::NotBegun
            | Self::Dropped => None,
        }
    }

    /// What a handler quotes may be of any length; its beginning says enough.
    fn with_short_text(mut self) -> Self {
        let (Self::Retry { error: text }
        | Self::RetryAfter { error: text, .. }
        | Self::Park { reason: text }) = &mut self
        else {
            return self;
        };
        if text.len() > LONGEST_TEXT {
            let more = format!("… ({} bytes in all)", text.len());
            let mut ends = (0..=LONGEST_TEXT - more.len()).rev();
            text.truncate(ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0));
            text.push_str(&more);
            text.shrink_to_fit();
        }
        self
    }
}

/// Whether a row whose start is recorded runs.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Runs,
    /// It would go before its run, and could not be read then.
    Unreadable(String),
    /// It has killed its process too often, perhaps.
    Poisoned,
    /// A newer release wrote its rule or its payload: another node may know it.
    TooNew,
    /// Its cron expression or zone is not known here, which this says: a node with other data of
    /// zones may know it.
    UnknownRule(String),
    /// It is too late, by its rule for missed runs.
    LeftOut,
}

impl Node {
    /// Starts are recorded, or came too late.
    pub(super) fn started(
        &mut self,
        now: Mono,
        starts: &[Start],
        rows: Vec<Row>,
        moved: Vec<(TimerId, Timestamp)>,
    ) {
        for row in rows {
            self.counts.started += 1;
            if let Some(run) = self.runs.get(row.id) {
                self.tallies[run.handler].started += 1;
            }
            let row = self.runs.up_to_date(row);
            self.prepare(now, Arc::new(row));
        }
        for (id, due) in moved {
            if let Some(run) = self.runs.end(id) {
                self.near((due, id), run.resident);
            }
        }
        for Start { id, .. } in starts {
            // Cancelled, or this node is not the owner any more.
            if self.runs.get(*id).is_some_and(|run| matches!(run.stage, Stage::Starting)) {
                self.runs.end(*id);
            }
        }
    }

    /// It is recorded that this row is started: launch it, or say at once what becomes of it.
    fn prepare(&mut self, now: Mono, row: Arc<Row>) {
        let id = row.id;
        let Some(run) = self.runs.get(id) else { return };
        let handler = run.handler;
        let at_most_once = self.settings.handlers[handler].at_most_once;
        self.runs.recorded(id, now);
        self.runs.hold(id, Arc::clone(&row));
        if row.cancelled {
            self.tell(id, CancelReason::Cancelled);
        }
        let then = match self.verdict(now, handler, &row) {
            Verdict::Poisoned => {
                let reason = format!("the process died {} times while it ran", row.deaths);
                self.give_up(now, &row, reason)
            }
            Verdict::Unreadable(reason) => Then::Park { reason },
            Verdict::TooNew => self.put_off(now, &row, TOO_NEW),
            Verdict::UnknownRule(error) => {
                self.say_unknown_rule(now, handler, &row, &error);
                self.put_off(now, &row, &format!("{error}, for fourteen days on each node"))
            }
            Verdict::LeftOut => {
                self.counts.skipped += 1;
                row.after_left_out(self.clock.at_least(now))
            }
            // It has its row still, and would lose it to a run for which nobody may wait.
            Verdict::Runs if at_most_once && self.closing.is_closing() => {
                Then::GiveBack { after: Micros::ZERO, ran: false }
            }
            Verdict::Runs if at_most_once => {
                let then = self.after_success(now, &row);
                self.say_outcome(now, handler, &row, &then);
                return self.runs.delete_first(id, row, then);
            }
            Verdict::Runs => return self.launch(now, id),
        };
        self.say_outcome(now, handler, &row, &then);
        self.runs.finish(id, then);
    }

    /// What is to become of a row that was just recorded as started.
    fn verdict(&self, now: Mono, handler: usize, row: &Row) -> Verdict {
        if row.deaths >= self.settings.max_deaths {
            return Verdict::Poisoned;
        }
        let handler = &self.settings.handlers[handler];
        if row.payload_version > handler.newest {
            return Verdict::TooNew;
        }
        if let Some(text) = row.series.as_deref() {
            let Some(series) = Series::parse(text) else { return Verdict::TooNew };
            if let Some(error) = series.unknown_rule() {
                return Verdict::UnknownRule(error);
            }
            let clock = self.clock.at_least(now).max(row.deadline);
            // What is tried again was not left out when it was tried first.
            let first = row.attempt == 1;
            // What its handler has put off is not late before that time. It is if nobody could run
            // it.
            let since = row.unknown_since.map_or(row.deadline, |_| Timestamp::MIN);
            if first && series.leaves_out((row.planned, since), clock, row.key.as_deref()) {
                return Verdict::LeftOut;
            }
        }
        // Others are asked when they run: until then their rows stay.
        let asked = handler.at_most_once.then_some(handler.unreadable);
        let reason = asked.and_then(|why| why(row.payload_version, &row.payload));
        reason.map_or(Verdict::Runs, Verdict::Unreadable)
    }

    /// Launches a run that is recorded, if its bucket is still this node's and its lease holds.
    fn launch(&mut self, now: Mono, id: TimerId) {
        self.launch_from(now, id, now);
    }

    /// The same, to be begun at `earliest` or later.
    fn launch_from(&mut self, now: Mono, id: TimerId, earliest: Mono) {
        let Some(run) = self.runs.get(id) else { return };
        let (Stage::Held(row) | Stage::Running(row)) = &run.stage else { return };
        let row = Arc::clone(row);
        // The row of a handler that runs at most once is gone: nobody else can run it.
        let deleted = self.settings.handlers[run.handler].at_most_once;
        let due = self.clock.local(row.deadline, now);
        let at = due.max(earliest);
        // The start was recorded a lead before; only a clock that went back makes it longer. Then a
        // run whose row is gone is refused by the gate, and launched again.
        let at = if deleted { at.min(now + LONGEST_WAIT) } else { at };
        let soon = at <= now + LONGEST_WAIT;
        if !deleted && (self.closing.is_closing() || !soon) {
            self.runs.finish(id, Then::GiveBack { after: Micros::ZERO, ran: false });
        } else if !deleted && self.window.epoch(run.resident.bucket) != Some(run.fence.epoch()) {
            // Another owner finds the fence in the row.
            self.runs.end(id);
        } else if soon && (deleted || self.lease.is_valid(now)) {
            let (bucket, past, mut counts_from) = (run.resident.bucket, &run.past, due);
            let delays = self.delays.as_ref().map_or_else(Vec::new, |delays| {
                counts_from = delays.counts_from(due, run.handler, past);
                delays.explain((run.handler, bucket), past, (counts_from, at))
            });
            let launch = Launch {
                row: Arc::clone(&row),
                bucket,
                fence: run.fence,
                handler: run.handler,
                at,
                deleted,
                told: run.told,
                counts_from,
                delays,
            };
            self.out.push(Output::Launch(launch));
            self.runs.launch(id, row, at);
        } else {
            self.runs.hold(id, row);
        }
    }

    /// A renewal that was sent at `sent` says what this node owns. A row that was to be deleted
    /// before its run, and is gone, was deleted by this node itself if nobody else has owned the
    /// bucket since: the answer to that was lost.
    pub(super) fn resolve_doubts(&mut self, sent: Mono, now: Mono) {
        for (id, row, since) in self.runs.doubtful() {
            let Some(run) = self.runs.get(id) else { continue };
            if sent < since {
                self.renew_soon(now);
            } else if self.window.epoch(run.resident.bucket) == Some(run.fence.epoch()) {
                self.runs.recorded(id, now);
                self.runs.hold(id, row);
                self.launch(now, id);
            } else {
                self.counts.stale += 1;
                self.runs.end(id);
            }
        }
    }

    /// The lease was renewed.
    pub(super) fn launch_held(&mut self, now: Mono) {
        for (_, id) in self.runs.held() {
            self.launch(now, id);
        }
    }

    /// The handler of a launched run has recorded its end in a transaction of its own, if that
    /// commits.
    pub(crate) fn acknowledged(&mut self, id: TimerId, fence: Fence) {
        self.runs.acknowledge(id, fence);
    }

    /// The handler of a launched run has returned. That the run has ended follows when the calls
    /// that the handler made are answered.
    pub(crate) fn handled(&mut self, id: TimerId, fence: Fence) {
        self.runs.handle(id, fence);
    }

    /// A launched run has ended.
    pub(crate) fn ended(&mut self, now: Mono, id: TimerId, fence: Fence, end: RunEnd) {
        let Some(run) = self.runs.get(id).filter(|run| run.fence == fence) else { return };
        let Stage::Running(row) = &run.stage else { return };
        let (row, end, own) = (Arc::clone(row), end.with_short_text(), run.acknowledged);
        let place = run.handler;
        if end == RunEnd::Dropped {
            self.say_dropped(now, place, &row);
        }
        if self.settings.handlers[place].at_most_once {
            return self.ended_once(now, id, &row, &end);
        }
        let last = end == RunEnd::Last;
        let then = self.runs.get(id).and_then(|run| self.after_run(now, run, &row, end));
        let Some(then) = then else { return self.launch(now, id) };
        if !own {
            self.tell_end(now, id, &row, &then);
        } else if last {
            // What has become of it shows when the finish is recorded.
            self.runs.say_last(id);
        }
        self.runs.finish(id, then);
    }

    /// A run of a handler that runs at most once has ended. It is over already, whatever it says,
    /// unless it has not begun.
    fn ended_once(&mut self, now: Mono, id: TimerId, row: &Row, end: &RunEnd) {
        match end {
            RunEnd::NotBegun => return self.launch(now, id),
            RunEnd::Dropped => return self.launch_from(now, id, now + DROPPED),
            _ => {}
        }
        let Some(run) = self.runs.end(id) else { return };
        let error = end.failure();
        let outcome = if error.is_some() { RunOutcome::Lost } else { RunOutcome::Done };
        let ran = self.remembered(now, &run, row, outcome, error);
        self.history.extend(ran);
        if *end == RunEnd::Last {
            self.runs.end_series(id);
        } else if row.series.is_some() {
            // The next run, which waits since before this one, was not taken in beside it.
            self.runner.announce([id]);
        }
        match error {
            Some(error) => self.say_lost(now, run.handler, row, error),
            None => self.count_done(run.handler),
        }
    }

    /// What becomes of a timer whose run has ended so; `None` if that has not begun, and is
    /// launched again.
    fn after_run(&self, now: Mono, run: &Run, row: &Row, end: RunEnd) -> Option<Then> {
        let handler = &self.settings.handlers[run.handler];
        let retry = |error: String, after: Micros| {
            if row.attempt < handler.max_attempts {
                return Then::Retry { after, error };
            }
            self.give_up(now, row, format!("attempt {} failed: {error}", row.attempt))
        };
        let backoff = || handler.delay(row.id.unsigned_abs(), row.attempt).into();
        Some(match end {
            RunEnd::NotBegun => return None,
            RunEnd::Dropped => Then::GiveBack { after: DROPPED, ran: false },
            // The row knows whether the handler's transaction was committed: if it still has this
            // fence, it was not, and the run has failed. If that transaction is still open, it
            // holds the row, and the finish waits.
            RunEnd::Done | RunEnd::Last if run.acknowledged => retry(UNCOMMITTED.into(), backoff()),
            RunEnd::Done => self.after_success(now, row),
            RunEnd::Last => Then::Done,
            RunEnd::Retry { error } => retry(error, backoff()),
            RunEnd::RetryAfter { after, error } => retry(error, after),
            RunEnd::Park { reason } => Then::Park { reason },
            RunEnd::GiveBack { after } => Then::GiveBack { after, ran: false },
            RunEnd::Snooze { after } => Then::GiveBack { after, ran: true },
            RunEnd::TooNew => self.put_off(now, row, TOO_NEW),
        })
    }

    /// Remembers, counts and says what becomes of a timer whose run has ended.
    fn tell_end(&mut self, now: Mono, id: TimerId, row: &Row, then: &Then) {
        let Some(run) = self.runs.get(id) else { return };
        let (place, outcome) = (run.handler, outcome_of(then));
        let ran =
            outcome.and_then(|(outcome, error)| self.remembered(now, run, row, outcome, error));
        self.history.extend(ran);
        match then {
            Then::Done | Then::Next { .. } => self.count_done(place),
            Then::Retry { .. } => self.count_retried(place, then),
            Then::LeftOut { .. }
            | Then::Park { .. }
            | Then::ParkRun { .. }
            | Then::GiveBack { .. }
            | Then::PutOff { .. } => {}
        }
        self.say_outcome(now, place, row, then);
    }

    /// What becomes of a timer that another node may know: it waits for that, twice as long each
    /// time, and is parked in the end, for this reason.
    fn put_off(&self, now: Mono, row: &Row, reason: &str) -> Then {
        let waited =
            row.unknown_since.map_or(Micros::ZERO, |since| self.clock.at_least(now) - since);
        if waited >= UNKNOWN_FOR {
            return Then::Park { reason: reason.into() };
        }
        Then::PutOff { after: waited.clamp(LEAST_PUT_OFF, MOST_PUT_OFF) }
    }

    /// What becomes of a timer whose run is over.
    fn after_success(&self, now: Mono, row: &Row) -> Then {
        row.after_success(self.clock.at_least(now))
    }

    /// What becomes of a timer whose run has failed too often. A series goes on: what its next run
    /// meets may be over by then.
    fn give_up(&self, now: Mono, row: &Row, reason: String) -> Then {
        match self.after_success(now, row) {
            Then::Next { when, offset } => Then::ParkRun { reason, when, offset },
            _ => Then::Park { reason },
        }
    }

    /// A finish is recorded, or came too late.
    ///
    /// `again`: an earlier try of the same may have been committed.
    pub(super) fn finished(&mut self, now: Mono, finish: Finish, finished: Finished, again: bool) {
        let id = finish.id;
        if finished == Finished::Held {
            self.runs.retry_finish(now, finish);
            return;
        }
        let Some(run) = self.runs.get(id) else { return };
        if let Stage::Deleting(row) = &run.stage {
            let row = Arc::clone(row);
            return self.deleted_first(now, id, row, finished, again);
        }
        let gives_up = matches!(finish.then, Then::Park { .. } | Then::ParkRun { .. });
        let unsure = run.last || again;
        if finished == Finished::Stale && run.acknowledged && unsure && !(again && gives_up) {
            self.runs.unsettle(finish);
            return;
        }
        let Some(run) = self.runs.end(id) else { return };
        if let (true, Stage::Finishing(Some(row))) = (run.acknowledged, &run.stage) {
            let recorded = finished != Finished::Stale;
            self.remember_own(now, &run, row, (recorded || again).then_some(&finish.then));
            if recorded {
                self.say_outcome(now, run.handler, row, &finish.then);
            }
        }
        match finished {
            Finished::Gone => {}
            Finished::Parked => self.parked(run, finish.then, false),
            Finished::Stale if run.acknowledged && !again => {
                // The handler's transaction has ended it; a series has another place now.
                self.count_done(run.handler);
                self.runner.announce([id]);
            }
            Finished::Stale if again => {
                self.was_finished(run, finish.then);
                self.runner.announce([id]);
            }
            Finished::Stale => {
                self.counts.stale += 1;
                tracing::warn!(target: "lars_durable", id, "a newer run has taken over");
            }
            Finished::Again { due } => {
                if run.acknowledged {
                    self.count_retried(run.handler, &finish.then);
                }
                self.near((due, id), run.resident);
                if let Then::ParkRun { .. } = finish.then {
                    self.parked(run, finish.then, true);
                }
            }
            Finished::Held => {}
        }
    }

    /// The answer to the finish that deletes a row before its run.
    fn deleted_first(
        &mut self,
        now: Mono,
        id: TimerId,
        row: Arc<Row>,
        finished: Finished,
        again: bool,
    ) {
        if finished != Finished::Stale {
            self.runs.recorded(id, now);
            self.runs.hold(id, row);
            self.launch(now, id);
        } else if again {
            self.runs.doubt(id, row, now);
            self.renew_soon(now);
        } else {
            self.counts.stale += 1;
            self.runs.end(id);
        }
    }

    /// A finish came too late of which this node has made an earlier try: it was that, as long as
    /// nobody else has owned the bucket. What was not given up waits again.
    fn was_finished(&mut self, run: Run, then: Then) {
        let own = self.window.epoch(run.resident.bucket) == Some(run.fence.epoch());
        let goes_on = matches!(then, Then::ParkRun { .. });
        if own && (goes_on || matches!(then, Then::Park { .. })) {
            self.parked(run, then, goes_on);
        }
    }

    /// What has become of a timer whose handler may have ended its run in a transaction of its own.
    /// The finish came too late: because of that transaction, or of an earlier try of the finish,
    /// whose answer was lost; or because another node has the bucket, and decides.
    pub(super) fn settled(&mut self, now: Mono, finish: &Finish, written: &Written) {
        let Some(run) = self.runs.end(finish.id) else { return };
        let (Written::Listed(found), Stage::Finishing(Some(row))) = (written, &run.stage) else {
            self.counts.stale += 1;
            tracing::warn!(target: "lars_durable", id = finish.id, "a newer run has taken over");
            return;
        };
        let committed = found.iter().all(|it| it.run != row.run);
        self.remember_own(now, &run, row, (!committed).then_some(&finish.then));
        if committed {
            self.count_done(run.handler);
            if run.last {
                self.runs.end_series(finish.id);
            }
        } else {
            // The same run waits.
            self.say_outcome(now, run.handler, row, &finish.then);
            self.count_retried(run.handler, &finish.then);
        }
        self.runner.announce([finish.id]);
    }

    /// What became of a run whose handler may have recorded its end itself: it has, or this.
    fn remember_own(&mut self, now: Mono, run: &Run, row: &Row, then: Option<&Then>) {
        let outcome = then.map_or(Some((RunOutcome::Done, None)), outcome_of);
        let ran =
            outcome.and_then(|(outcome, error)| self.remembered(now, run, row, outcome, error));
        self.history.extend(ran);
    }

    /// A run of the handler in this place is retried, if that is what became of it.
    fn count_retried(&mut self, place: usize, then: &Then) {
        if matches!(then, Then::Retry { .. }) {
            self.counts.retried += 1;
            self.tallies[place].retried += 1;
        }
    }

    /// A run of the handler in this place has ended well.
    fn count_done(&mut self, place: usize) {
        self.counts.done += 1;
        self.tallies[place].done += 1;
    }

    /// A series is ended whose row had gone on, or somebody holds it.
    pub(super) fn series_ended(&mut self, now: Mono, id: TimerId, written: &Written) {
        match written {
            Written::Held => self.runs.retry_end(now, id),
            Written::Prevented { id, due } => {
                self.window.remove((*due, *id));
                self.runs.forget((*due, *id));
            }
            // It runs elsewhere, for the last time; or it was over.
            _ => {}
        }
    }

    /// It is recorded that a run was given up.
    fn parked(&mut self, run: Run, then: Then, goes_on: bool) {
        self.counts.parked += 1;
        self.tallies[run.handler].parked += 1;
        if let (Stage::Finishing(Some(row)), Then::Park { reason } | Then::ParkRun { reason, .. }) =
            (run.stage, then)
        {
            self.out.push(Output::Parked(Parked { row, reason, goes_on }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_of_a_failure_the_beginning_is_kept_and_its_length() {
        let long = "ä".repeat(3_000_000);
        for end in [
            RunEnd::Retry { error: long.clone() },
            RunEnd::RetryAfter { after: Micros::ZERO, error: long.clone() },
            RunEnd::Park { reason: long.clone() },
        ] {
            let (RunEnd::Retry { error: text }
            | RunEnd::RetryAfter { error: text, .. }
            | RunEnd::Park { reason: text }) = end.with_short_text()
            else {
                unreachable!("it stays what it was")
            };
            assert!(text.len() <= LONGEST_TEXT && text.len() > LONGEST_TEXT - 9, "{}", text.len());
            assert!(text.starts_with("ää") && text.ends_with("ä… (6000000 bytes in all)"));
        }
        let short = RunEnd::Retry { error: "short".into() };
        assert_eq!(short.clone().with_short_text(), short);
    }
}
