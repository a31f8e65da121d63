//! One run, from the hand-over to its end; and runs that are closures.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::report::{Completion, Outcome};
use super::supervisor::{Ending, Supervisor};
use super::token::CancelToken;
use crate::report::message_of;
use crate::sync::Arc;

/// What is run again and again.
pub(super) trait Job: Send + Sync {
    /// Called on the executor, once for each run. The run ends when `run` is ended or dropped.
    fn execute(&self, run: Run);
}

/// The duty to say how a run ended. Dropped without that, it says that it was dropped.
pub(super) struct Run {
    supervisor: Arc<Supervisor>,
    number: u64,
    token: CancelToken,
    begun: bool,
    ending: Option<Ending>,
}

impl Run {
    pub(super) fn new(supervisor: Arc<Supervisor>, number: u64, token: CancelToken) -> Self {
        Self { supervisor, number, token, begun: false, ending: Some(Ending::Dropped) }
    }

    pub(super) fn supervisor(&self) -> &Arc<Supervisor> {
        &self.supervisor
    }

    pub(super) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// The run, if it may still begin.
    pub(super) fn begin(mut self) -> Option<Self> {
        self.begun = self.supervisor.begin(self.number);
        self.begun.then_some(self)
    }

    /// Calls foreign code. Says how that ended the run, if it panicked.
    pub(super) fn call<R>(&self, code: impl FnOnce() -> R) -> Result<R, Outcome> {
        catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
            let message = message_of(&*payload).to_owned();
            self.supervisor.raise(payload);
            Outcome::Panic(message)
        })
    }

    /// Ends the run.
    pub(super) fn end(mut self, outcome: Outcome) {
        self.ending = Some(Ending::Settled(outcome));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.take() {
            self.supervisor.ended(self.number, self.begun, ending);
        }
    }
}

/// How a run ended that returned `completion`. Called where panics are contained: displaying an error and
/// dropping a result are foreign code.
pub(super) fn outcome_of(completion: impl Completion) -> Outcome {
    match completion.failure() {
        None => Outcome::Success,
        Some(failure) => Outcome::Failure(failure),
    }
}

/// A job that is a closure.
pub(super) struct ClosureJob<F>(pub(super) F);

impl<F, R> Job for ClosureJob<F>
where
    F: Fn(&CancelToken) -> R + Send + Sync,
    R: Completion,
{
    fn execute(&self, run: Run) {
        if let Some(run) = run.begin() {
            let outcome = run.call(|| outcome_of((self.0)(run.token())));
            run.end(outcome.unwrap_or_else(|panic| panic));
        }
    }
}
