//! What each peer has to do.

use std::future::Future;
use std::sync::OnceLock;
use std::time::SystemTime;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::AnyError;

/// A job, by its number.
pub(crate) type Job = u64;

/// A crate that keeps jobs in a database, and runs them when they are due.
pub(crate) trait Peer: Clone + Send + Sync + 'static {
    /// Makes the schema, if it is not there.
    fn open(url: &str) -> impl Future<Output = Result<Self, AnyError>>;

    /// Schedules one job, and waits until it is committed.
    fn schedule(
        &self,
        job: Job,
        due: SystemTime,
    ) -> impl Future<Output = Result<(), AnyError>> + Send;

    /// Schedules jobs that are due together, in one call.
    fn schedule_batch(
        &self,
        jobs: Vec<Job>,
        due: SystemTime,
    ) -> impl Future<Output = Result<(), AnyError>> + Send;

    /// Begins to run jobs that are due; each calls [`began`].
    fn work(&self) -> impl Future<Output = Result<(), AnyError>> + Send;

    /// How many jobs are not recorded as finished.
    fn unfinished(&self) -> impl Future<Output = Result<u64, AnyError>> + Send;
}

static RUNS: OnceLock<UnboundedSender<(Job, SystemTime)>> = OnceLock::new();

/// What every handler does, and all that it does.
pub(crate) fn began(job: Job) {
    let runs = RUNS.get().expect("somebody listens");
    let _ = runs.send((job, SystemTime::now()));
}

/// The runs from now on. Called once.
pub(crate) fn runs() -> UnboundedReceiver<(Job, SystemTime)> {
    let (sender, receiver) = unbounded_channel();
    RUNS.set(sender).expect("called once");
    receiver
}
