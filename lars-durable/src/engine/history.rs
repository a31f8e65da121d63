//! What is remembered of runs that are over, if anything is. It is recorded with their finishes, in
//! one transaction; of a run that its handler has ended itself, with the next one.

use super::Node;
use super::runs::Run;
use crate::model::{Ran, Row, RunOutcome, Then};
use crate::sync::Arc;
use crate::time::{Micros, Mono};

/// How a run has ended of which this becomes, and why it failed; `None` if there was none.
pub(super) fn outcome_of(then: &Then) -> Option<(RunOutcome, Option<&str>)> {
    match then {
        Then::Done | Then::Next { .. } => Some((RunOutcome::Done, None)),
        Then::Retry { error, .. } => Some((RunOutcome::Retried, Some(error))),
        Then::Park { reason } | Then::ParkRun { reason, .. } => {
            Some((RunOutcome::Parked, Some(reason)))
        }
        Then::GiveBack { ran: true, .. } => Some((RunOutcome::PutOff, None)),
        Then::GiveBack { ran: false, .. } | Then::LeftOut { .. } | Then::PutOff { .. } => None,
    }
}

impl Node {
    /// What is remembered of this run.
    pub(super) fn remembered(
        &self,
        now: Mono,
        run: &Run,
        row: &Row,
        outcome: RunOutcome,
        error: Option<&str>,
    ) -> Option<Ran> {
        let (_, node) = self.settings.history.as_ref()?;
        let ended = self.clock.at_least(now);
        Some(Ran {
            timer: row.id,
            fence: run.fence,
            key: row.key.clone(),
            handler: Arc::clone(&self.settings.handlers[run.handler].name),
            node: Arc::clone(node),
            run: row.run,
            attempt: row.attempt,
            planned: row.planned,
            began: ended - (now - run.launched).max(Micros::ZERO),
            ended,
            outcome,
            error: error.map(str::to_owned),
        })
    }
}
