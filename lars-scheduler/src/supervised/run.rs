//! One run, from the hand-over to its end; and runs that are closures.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::report::{Completion, Outcome};
use super::settings::GivenUp;
use super::token::CancelToken;
use crate::executor::Executor;
use crate::report::message_of;
use crate::sync::Arc;

/// Who handed the run over, and is told of its end.
pub(super) trait Owner: Send + Sync {
    /// A run wants to begin: may it? Not when it was given up while it waited in its executor.
    fn begin(&self, number: u64) -> bool;

    /// A run has come to its end, whether it is awaited or not.
    fn ended(self: Arc<Self>, number: u64, begun: bool, ending: Ending);

    /// Where runs run.
    fn executor(&self) -> &dyn Executor;

    /// What becomes of a future that is given up.
    fn given_up(&self) -> GivenUp;

    /// Reports a panic.
    fn raise(&self, payload: Box<dyn Any + Send>);
}

impl dyn Owner {
    /// Runs foreign code; a panic in it goes where the scheduler's panics go.
    pub(super) fn contain(&self, code: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
            self.raise(payload);
        }
    }
}

/// How a run came to its end.
pub(super) enum Ending {
    /// It says so itself.
    Settled(Outcome),
    /// It was dropped, before it began or as a future.
    Dropped,
}

/// What is run again and again.
pub(super) trait Job: Send + Sync {
    /// Called on the executor, once for each run. The run ends when `run` is ended or dropped.
    fn execute(&self, run: Run);
}

/// The duty to say how a run ended. Dropped without that, it says that it was dropped.
pub(super) struct Run {
    owner: Arc<dyn Owner>,
    number: u64,
    token: CancelToken,
    begun: bool,
    ending: Option<Ending>,
}

impl Run {
    pub(super) fn new(owner: Arc<dyn Owner>, number: u64, token: CancelToken) -> Self {
        Self { owner, number, token, begun: false, ending: Some(Ending::Dropped) }
    }

    pub(super) fn owner(&self) -> &Arc<dyn Owner> {
        &self.owner
    }

    pub(super) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// The run, if it may still begin.
    pub(super) fn begin(mut self) -> Option<Self> {
        self.begun = self.owner.begin(self.number);
        self.begun.then_some(self)
    }

    /// Calls foreign code. Says how that ended the run, if it panicked.
    pub(super) fn call<R>(&self, code: impl FnOnce() -> R) -> Result<R, Outcome> {
        catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
            let message = message_of(&*payload).to_owned();
            self.owner.raise(payload);
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
            Arc::clone(&self.owner).ended(self.number, self.begun, ending);
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
