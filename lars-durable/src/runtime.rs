//! The engine on a thread: the store behind it, the wheel and the executor in front of it.

mod future_task;
mod gate;
mod inbox;
#[cfg(feature = "postgres")]
mod lanes;
mod lateness;
mod submitted;

mod ending;
mod report;

mod driver;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use lars_scheduler::{BuildError, Executor, Handle, LightArrayRevolverScheduler};

use self::driver::Driver;
pub(crate) use self::ending::Ending;
pub(crate) use self::future_task::spawn;
use self::gate::Gate;
use self::inbox::{Inbox, Input};
use self::lateness::Lateness;
pub(crate) use self::report::Report;
pub use self::submitted::Submitted;
pub(crate) use self::submitted::promise;
use crate::engine::{Answer, Counts, Launch, Node, NodeSettings};
use crate::error::{Error, Refused, StartError};
use crate::model::Look;
use crate::store::{Backend, StoreError, Write};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::time::{MonoClock, Timestamp};

/// How many calls may wait for their answers.
const MAX_CALLS: usize = 65_536;

/// Runs due timers. Made by the public API; knows the payload's type.
pub(crate) trait RunHandler: Send + Sync {
    fn run(&self, run: Run);
}

/// A run that may begin.
pub(crate) struct Run {
    pub(crate) launch: Launch,
    pub(crate) ending: Ending,
    pub(crate) shared: Arc<Shared>,
}

/// What the threads of one node share.
pub(crate) struct Shared {
    inbox: Inbox,
    pub(crate) gate: Gate,
    pub(crate) timers: Handle,
    pub(crate) executor: Arc<dyn Executor>,
    /// Calls that wait for their answers.
    calls: AtomicUsize,
    counts: Mutex<Counts>,
    /// What the node is called, for people.
    name: String,
    /// Of each handler.
    lateness: Vec<Lateness>,
}

/// A running node. Dropping it closes it, without waiting for what runs.
pub(crate) struct Runtime {
    pub(crate) shared: Arc<Shared>,
    scheduler: LightArrayRevolverScheduler,
    thread: Option<JoinHandle<usize>>,
}

impl Runtime {
    pub(crate) fn start(
        name: String,
        settings: NodeSettings,
        backend: Backend,
        handlers: Vec<Box<dyn RunHandler>>,
        executor: Arc<dyn Executor>,
    ) -> Result<Self, StartError> {
        let scheduler = LightArrayRevolverScheduler::builder()
            .thread_name("lars-durable-wheel")
            .executor(Arc::clone(&executor))
            .build()
            .map_err(|error| match error {
                BuildError::Thread(error) => StartError::Thread(error),
                other => StartError::Thread(std::io::Error::other(other.to_string())),
            })?;
        let clock = MonoClock::start();
        let shared = Arc::new(Shared {
            inbox: Inbox::default(),
            gate: Gate::new(clock, backend.local_clock()),
            timers: scheduler.handle(),
            executor,
            calls: AtomicUsize::new(0),
            counts: Mutex::new(Counts::default()),
            name,
            lateness: handlers.iter().map(|_| Lateness::new(clock.now())).collect(),
        });
        let node = Node::new(settings, fastrand::Rng::new(), clock.now());
        let driver = Driver::new(node, backend, handlers, Arc::clone(&shared), clock)?;
        let here = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lars-durable".into()).spawn(move || {
            contain(|| driver.run()).unwrap_or_else(|panic| {
                // A defect. What is in the store is safe there; callers must not wait for answers.
                tracing::error!(target: "lars_durable", %panic, "the node has ended");
                here.gate.close();
                drop(here.inbox.end());
                0
            })
        })?;
        Ok(Self { shared, scheduler, thread: Some(thread) })
    }

    /// Nothing starts any more; waits up to `limit` for what runs. Returns how many runs were given
    /// up.
    pub(crate) fn close(&mut self, limit: Duration) -> usize {
        let Some(thread) = self.thread.take() else { return 0 };
        self.shared.gate.close();
        self.shared.inbox.push(Input::Close { limit });
        if thread.thread().id() == std::thread::current().id() {
            // Dropped by a waker that an answer woke: the node ends when that returns.
            return 0;
        }
        let abandoned = thread.join().unwrap_or(0);
        drop(self.scheduler.stop());
        abandoned
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

impl Shared {
    /// Sends a call to the engine; `then` gets its answer, on the engine's thread.
    pub(crate) fn call(
        &self,
        write: Write,
        then: impl FnOnce(Result<Answer, Error>) + Send + 'static,
    ) {
        // Relaxed: a count, nothing is read because of it.
        let before = self.calls.fetch_add(1, Ordering::Relaxed);
        if before >= MAX_CALLS {
            self.calls.fetch_sub(1, Ordering::Relaxed);
            return then(Err(Refused::PendingCalls { max: MAX_CALLS }.into()));
        }
        if let Some(Input::Call { then, .. }) =
            self.inbox.push(Input::Call { write, then: Box::new(then) })
        {
            self.calls.fetch_sub(1, Ordering::Relaxed);
            then(Err(Refused::Closed.into()));
        }
    }

    /// Looks into the store; `then` gets what there is to see, on a thread of the engine.
    pub(crate) fn look(&self, then: impl FnOnce(Result<Look, StoreError>) + Send + 'static) {
        if let Some(Input::Look { then }) = self.inbox.push(Input::Look { then: Box::new(then) }) {
            let reason = "the node is closed".into();
            then(Err(StoreError { reason, unknown: false }));
        }
    }

    /// A run begins.
    fn began(&self, handler: usize, deadline: Timestamp) {
        if let Some(now) = self.gate.store_now() {
            let late = now.since(deadline).as_micros();
            self.lateness[handler].record(self.gate.now(), u64::try_from(late).unwrap_or(u64::MAX));
        }
    }

    fn answered(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock()
    }
}

/// Runs `work`; a panic comes back as its message.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("panicked: {}", text.unwrap_or_else(|| "with no message".into()))
    })
}
