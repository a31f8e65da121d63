//! What runs when a timer is due.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use lars_base::backoff::BackoffPolicy;

use super::fired::Fired;
use super::outcome::{IntoOutcome, Outcome};
use super::payload::{Payload, Unreadable, read, unreadable};
use crate::engine::{HandlerSettings, RunEnd};
use crate::runtime::{Ending, Run, RunHandler, Shared, contain, spawn};
use crate::sync::Arc;

/// Runs of a handler at a time, unless it is set.
const CONCURRENCY: usize = 256;

/// A handler with its settings. [`Builder::handle`](super::Builder::handle) takes a closure with
/// the default settings.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::backoff::BackoffPolicy;
/// use lars_durable::{Durable, Fired, Handler, Outcome, Payload};
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Invoice { number: u64 }
/// impl Payload for Invoice { const NAME: &'static str = "invoice"; }
///
/// let backoff = BackoffPolicy::builder().initial(Duration::from_secs(1)).build()?;
/// let invoices = Handler::new(|due: &Fired<Invoice>| {
///     match due.payload().number {
///         0 => Outcome::Park("no invoice has this number".into()),
///         _ => Outcome::Done,
///     }
/// })
/// .concurrency(4)
/// .max_attempts(10)
/// .backoff(backoff);
/// let durable = Durable::in_memory().handler(invoices).start()?;
/// # drop(durable);
/// # Ok(()) }
/// ```
pub struct Handler {
    pub(super) settings: HandlerSettings,
    time_limit: Option<Duration>,
    make: Box<dyn FnOnce(Option<Duration>) -> Box<dyn RunHandler> + Send>,
}

impl Handler {
    /// Runs a closure, on a thread of the node's executor.
    pub fn new<P, R, F>(run: F) -> Self
    where
        P: Payload,
        R: IntoOutcome,
        F: Fn(&Fired<P>) -> R + Send + Sync + 'static,
    {
        let run = move |fired: Fired<P>, mut ending: Ending, _: &Arc<_>| {
            ending.begin();
            let outcome = contain(|| run(&fired).into_outcome());
            // The payload goes before the run counts as ended; a destructor that panics is the
            // handler's.
            let outcome = contain(move || drop(fired)).and(outcome);
            ending.say(outcome.unwrap_or_else(Outcome::Retry).into_end());
        };
        Self::with::<P>(run)
    }

    /// Runs a future, polled by tasks of the node's executor.
    ///
    /// A node that has an executor of its own, and is started inside tokio, lets that runtime make
    /// and poll the future (feature `tokio`, which is on unless default features are off). For
    /// another runtime, or one that is not around [`Builder::start`](super::Builder::start), set
    /// the [executor](super::Builder::executor): a `TokioExecutor` of `lars-bridges`, or a
    /// [`SpawnExecutor`](lars_scheduler::executor::SpawnExecutor).
    pub fn future<P, R, F, W>(run: F) -> Self
    where
        P: Payload,
        R: IntoOutcome,
        F: Fn(Fired<P>) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        let run = Arc::new(run);
        let run = move |fired: Fired<P>, mut ending: Ending, shared: &Arc<Shared>| {
            let (run, timers) = (Arc::clone(&run), shared.timers.clone());
            spawn(Arc::clone(&shared.executor), &shared.around, async move {
                // It may have waited for a thread for long.
                if !fired.may_begin() {
                    return ending.say(RunEnd::NotBegun);
                }
                ending.begin();
                let limit = fired.remaining();
                // What makes the future is foreign code, and so are its destructor and the words of
                // an error.
                let work = AssertUnwindSafe(async {
                    let ended = match limit {
                        None => Some(run(fired).await),
                        Some(limit) => timers.timeout(limit, run(fired)).await.ok(),
                    };
                    match ended {
                        Some(outcome) => outcome.into_outcome(),
                        None => Outcome::Retry(format!("did not end within {limit:?}")),
                    }
                });
                let outcome = work.catch_unwind().await.unwrap_or_else(|panic| {
                    let text = contain(|| std::panic::resume_unwind(panic));
                    Outcome::Retry(text.unwrap_or_else(|text| text))
                });
                ending.say(outcome.into_end());
            });
        };
        Self::with::<P>(run)
    }

    fn with<P: Payload>(
        run: impl Fn(Fired<P>, Ending, &Arc<Shared>) + Send + Sync + 'static,
    ) -> Self {
        let settings = HandlerSettings {
            newest: P::VERSION,
            unreadable: unreadable::<P>,
            ..HandlerSettings::new(P::NAME, CONCURRENCY)
        };
        let make = Box::new(move |limit| {
            Box::new(Typed { run, limit, payload: std::marker::PhantomData::<fn() -> P> })
                as Box<dyn RunHandler>
        });
        Self { settings, time_limit: None, make }
    }

    /// How many runs there may be at a time: 256 unless it is set; at least 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.settings.concurrency = runs;
        self
    }

    /// How many attempts a run has before it is parked: 25 unless it is set; at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// The pauses between attempts: from one second, doubled up to ten minutes, unless it is set.
    /// (The policy's own limit of attempts does not count.)
    pub fn backoff(mut self, policy: BackoffPolicy) -> Self {
        self.settings.backoff = policy;
        self
    }

    /// How long a run may take. A future that takes longer is dropped and retried. A closure is not
    /// interrupted; it can ask [`Fired::remaining`].
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Deletes the timer before it runs instead of after. A crash then loses the run instead of
    /// repeating it, and the handler's result is ignored. For effects that are better lost than
    /// repeated.
    ///
    /// What can never be read is not deleted, but parked. To know that, the node reads the payload
    /// on its own thread first, so [`Payload::upgrade`] must not block.
    pub fn at_most_once(mut self) -> Self {
        self.settings.at_most_once = true;
        self
    }

    /// One whose runs are done by `runner`.
    #[cfg(feature = "actors")]
    pub(super) fn of(settings: HandlerSettings, runner: Box<dyn RunHandler>) -> Self {
        Self { settings, time_limit: None, make: Box::new(|_| runner) }
    }

    pub(super) fn into_parts(self) -> (HandlerSettings, Box<dyn RunHandler>) {
        let Self { settings, time_limit, make } = self;
        (settings, make(time_limit))
    }
}

struct Typed<P, F> {
    run: F,
    limit: Option<Duration>,
    payload: std::marker::PhantomData<fn() -> P>,
}

impl<P, F> RunHandler for Typed<P, F>
where
    P: Payload,
    F: Fn(Fired<P>, Ending, &Arc<Shared>) + Send + Sync,
{
    fn run(&self, Run { launch, ending, lease, shared }: Run) {
        let row = launch.row;
        match read::<P>(row.payload_version, &row.payload) {
            Ok(payload) => {
                let fence = launch.fence.0.unsigned_abs();
                let lease = (lease, launch.deleted);
                let both = (Arc::clone(&shared), ending.signal());
                let fired = Fired::new(payload, row, fence, self.limit, lease, both);
                (self.run)(fired, ending, &shared);
            }
            Err(Unreadable::TooNew) => ending.say(RunEnd::TooNew),
            Err(Unreadable::Broken(reason)) => ending.say(RunEnd::Park { reason }),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("settings", &self.settings)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}
