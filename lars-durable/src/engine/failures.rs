//! What is said of runs that fail: a line for each, as long as they are few.
//!
//! A handler whose provider is down fails thousands of times a second. So there are at most
//! [`LINES`] lines a second of each handler, and the next one says how many there were beside. What
//! was parked has a measure of its own: it is not drowned by what is retried.
//!
//! A line has the key, because people look for the timer by it, and the words of the error. It
//! never has the payload.

use super::Node;
use crate::model::{Row, Then};
use crate::time::{Micros, Mono};

/// How many lines a second there are.
const LINES: u32 = 10;

/// How much of an error a line shows, in characters.
const WORDS: usize = 500;

/// What was said of one handler's runs.
#[derive(Debug, Default, Clone)]
pub(super) struct Failures {
    retried: Said,
    parked: Said,
}

#[derive(Debug, Default, Clone)]
struct Said {
    /// Since when `lines` counts.
    since: Option<Mono>,
    lines: u32,
    /// What was not said.
    unsaid: u64,
}

impl Said {
    /// How many lines were left out before this one; `None` if this one is, too.
    fn may_say(&mut self, now: Mono) -> Option<u64> {
        if self.since.is_none_or(|since| now - since >= Micros::SECOND) {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines >= LINES {
            self.unsaid += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl Node {
    /// Says that a run has failed, and what becomes of it, or that a series ends because no date is
    /// left; nothing, if all is well.
    pub(super) fn say_outcome(&mut self, now: Mono, handler: usize, row: &Row, then: &Then) {
        let said = &mut self.failures[handler];
        let (said, error) = match then {
            Then::Retry { error, .. } => (&mut said.retried, error),
            Then::Park { reason } | Then::ParkRun { reason, .. } => (&mut said.parked, reason),
            Then::Done => return self.say_if_no_date(now, handler, row),
            Then::Next { .. }
            | Then::LeftOut { .. }
            | Then::GiveBack { .. }
            | Then::PutOff { .. } => return,
        };
        let Some(unsaid) = said.may_say(now) else { return };
        let (handler, id, attempt) = (&*row.handler, row.id, row.attempt);
        let (key, error) = (row.key.as_deref(), short(error));
        if let Then::Retry { after, .. } = then {
            let after = after.to_duration();
            tracing::warn!(
                target: "lars_durable",
                handler, id, key, attempt, ?after, unsaid, %error, "a run has failed: retried"
            );
        } else {
            tracing::error!(
                target: "lars_durable",
                handler, id, key, attempt, unsaid, reason = %error, "given up: parked"
            );
        }
    }

    /// Says that a series ends that nobody has ended: the clock is beyond all dates, and perhaps
    /// wrong.
    pub(super) fn say_if_no_date(&mut self, now: Mono, handler: usize, row: &Row) {
        if !row.has_no_date(self.clock.at_least(now)) {
            return;
        }
        let Some(unsaid) = self.failures[handler].parked.may_say(now) else { return };
        let (handler, id, key) = (&*row.handler, row.id, row.key.as_deref());
        tracing::error!(
            target: "lars_durable",
            handler, id, key, unsaid, "no date is left up to the year 5000: the series has ended"
        );
    }

    /// Says that an executor has not begun a run.
    pub(super) fn say_dropped(&mut self, now: Mono, handler: usize, row: &Row) {
        let Some(unsaid) = self.failures[handler].retried.may_say(now) else { return };
        let (handler, id, key) = (&*row.handler, row.id, row.key.as_deref());
        tracing::warn!(
            target: "lars_durable",
            handler, id, key, unsaid, "the executor has dropped a run before it began: put off"
        );
    }

    /// Says that a cron timer's expression or zone is not known here.
    pub(super) fn say_unknown_rule(&mut self, now: Mono, handler: usize, row: &Row, error: &str) {
        let Some(unsaid) = self.failures[handler].retried.may_say(now) else { return };
        let (handler, id, key) = (&*row.handler, row.id, row.key.as_deref());
        tracing::error!(target: "lars_durable", handler, id, key, unsaid, %error, "put off");
    }

    /// Says that the only run of a timer has failed, whose handler runs at most once.
    pub(super) fn say_lost(&mut self, now: Mono, handler: usize, row: &Row, error: &str) {
        let Some(unsaid) = self.failures[handler].retried.may_say(now) else { return };
        let (handler, id) = (&*row.handler, row.id);
        let (key, error) = (row.key.as_deref(), short(error));
        tracing::error!(
            target: "lars_durable",
            handler, id, key, unsaid, %error, "a run has failed: at most once, so not retried"
        );
    }
}

fn short(error: &str) -> String {
    error.chars().take(WORDS).collect()
}
