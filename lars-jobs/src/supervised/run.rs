//! One run, from the hand-over to its end, and runs that are closures.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::report::{Completion, Outcome};
use super::settings::GivenUp;
use super::token::CancelToken;
use lars_base::in_span::CapturedSpan;
use lars_base::panics::{message_of, quietly};
use lars_base::sync::Arc;
use lars_scheduler::executor::Runnable;
use lars_scheduler::{Executor, TaskIdentity};

/// The side that handed the run over, and learns of its end.
pub(super) trait Owner: Send + Sync {
    /// Whether a run may begin. It may not if it was given up while it waited in its executor.
    fn begin(&self, number: u64) -> bool;

    /// A run has come to its end, whether it is awaited or not.
    fn ended(self: Arc<Self>, number: u64, begun: bool, ending: Ending);

    /// Where runs run.
    fn executor(&self) -> &dyn Executor;

    /// What becomes of a future that is given up.
    fn given_up(&self) -> GivenUp;

    /// Whose its runs are.
    fn whose(&self) -> TaskIdentity;

    /// Reports a panic.
    fn raise(&self, payload: Box<dyn Any + Send>);
}

impl dyn Owner {
    /// Hands work to the executor. What that does not take is dropped, and learns of it.
    pub(super) fn execute(&self, work: Runnable, what: &'static str) {
        self.contain(|| {
            if let Err(rejected) = self.executor().execute(work) {
                let (task, reason) = (self.whose(), rejected.reason());
                quietly(|| {
                    tracing::warn!(
                        target: "lars_scheduler",
                        %task,
                        what,
                        reason,
                        "an executor rejected a part of a supervised task"
                    );
                });
                drop(rejected);
            }
        });
    }

    /// Runs foreign code. A panic in it is reported like those of the scheduler's tasks.
    pub(super) fn contain(&self, code: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
            self.raise(payload);
        }
    }
}

/// How a run came to its end.
pub(super) enum Ending {
    /// It has an outcome.
    Settled(Outcome),
    /// It has succeeded, and is to be the last.
    Last,
    /// It was dropped, before it began or as a future.
    Dropped,
}

/// What is run again and again.
pub(super) trait Runner: Send + Sync {
    /// Called on the executor, once for each run. The run ends when `run` is ended or dropped.
    fn execute(&self, run: Run);
}

/// Runs in the span in which the supervision was started.
pub(super) struct SpanRunner {
    pub(super) span: CapturedSpan,
    pub(super) runner: Arc<dyn Runner>,
}

impl Runner for SpanRunner {
    fn execute(&self, run: Run) {
        self.span.run(|| self.runner.execute(run));
    }
}

/// The duty to report how a run ended. If it is dropped before that, it reports that.
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

    /// Calls foreign code. An error is the end of a run that panicked.
    pub(super) fn call<R>(&self, code: impl FnOnce() -> R) -> Result<R, Ending> {
        catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
            let message = message_of(&*payload).to_owned();
            self.owner.raise(payload);
            Ending::Settled(Outcome::Panic(message))
        })
    }

    /// Ends the run.
    pub(super) fn end(mut self, ending: Ending) {
        self.ending = Some(ending);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.take() {
            Arc::clone(&self.owner).ended(self.number, self.begun, ending);
        }
    }
}

/// The end of a run that returned `completion`. Called where panics are contained, because
/// displaying an error and dropping a result are foreign code.
pub(super) fn ending_of(completion: impl Completion) -> Ending {
    if completion.is_last() {
        return Ending::Last;
    }
    Ending::Settled(match completion.failure() {
        None => Outcome::Success,
        Some(failure) => Outcome::Failure(failure),
    })
}

/// A runner that is a closure.
pub(super) struct ClosureRunner<F>(pub(super) F);

impl<F, R> Runner for ClosureRunner<F>
where
    F: Fn(&CancelToken) -> R + Send + Sync,
    R: Completion,
{
    fn execute(&self, run: Run) {
        if let Some(run) = run.begin() {
            let ending = run.call(|| ending_of((self.0)(run.token())));
            run.end(ending.unwrap_or_else(|panic| panic));
        }
    }
}
