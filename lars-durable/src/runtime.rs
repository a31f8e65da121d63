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
#[cfg(feature = "test-kit")]
mod turner;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use lars_scheduler::{BuildError, Executor, Handle, LightArrayRevolverScheduler};

use self::driver::Driver;
pub(crate) use self::ending::Ending;
pub(crate) use self::future_task::spawn;
use self::gate::Gate;
pub(crate) use self::gate::Lease;
use self::inbox::{Inbox, Input};
use self::lateness::Lateness;
pub(crate) use self::report::Report;
pub use self::submitted::Submitted;
pub(crate) use self::submitted::promise;
#[cfg(feature = "test-kit")]
pub(crate) use self::turner::OnTime;
use crate::engine::{Answer, Counts, Launch, Node, NodeSettings};
use crate::error::{Error, Refused, StartError};
#[cfg(feature = "actors")]
use crate::model::BucketNo;
use crate::model::Look;
#[cfg(feature = "postgres")]
use crate::store::Seen;
use crate::store::{Backend, StoreError, Write};
#[cfg(feature = "test-kit")]
use crate::sync::Weak;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
#[cfg(feature = "test-kit")]
use crate::time::{Mono, micros};
use crate::time::{MonoClock, Timestamp};

/// How many calls may wait for their answers.
const MAX_CALLS: usize = 65_536;

/// Runs due timers. Made by the public API; knows the payload's type.
pub(crate) trait RunHandler: Send + Sync {
    fn run(&self, run: Run);

    /// The node is about to start.
    fn bind(&self, shared: &Arc<Shared>) {
        let _ = shared;
    }

    /// Whether `run` is short, so that the thread of the wheel does it: in the order of the
    /// deadlines.
    fn is_short(&self) -> bool {
        false
    }

    /// Whoever lives in this bucket for runs of up to this epoch has to go; at once, if the bucket
    /// is lost.
    #[cfg(feature = "actors")]
    fn vacate(&self, bucket: BucketNo, epoch: u32, lost: bool) {
        let _ = (bucket, epoch, lost);
    }

    /// Runs of this epoch may bring somebody into this bucket again.
    #[cfg(feature = "actors")]
    fn admit(&self, bucket: BucketNo, epoch: u32) {
        let _ = (bucket, epoch);
    }
}

/// All handlers of a node, in the order of its settings.
pub(crate) type Handlers = Arc<[Box<dyn RunHandler>]>;

/// A run that may begin.
pub(crate) struct Run {
    pub(crate) launch: Launch,
    pub(crate) ending: Ending,
    /// The lease under which it was launched.
    pub(crate) lease: Lease,
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
    /// The node's name for people.
    name: String,
    /// The lateness of each handler's runs.
    lateness: Vec<Lateness>,
    /// What turns the engine, if no thread does.
    #[cfg(feature = "test-kit")]
    turner: Mutex<Weak<turner::Turner>>,
}

/// A running node. Dropping it closes it, without waiting for what runs.
pub(crate) struct Runtime {
    pub(crate) shared: Arc<Shared>,
    scheduler: Option<LightArrayRevolverScheduler>,
    thread: Option<JoinHandle<usize>>,
    #[cfg(feature = "test-kit")]
    turner: Option<(Arc<turner::Turner>, Handlers)>,
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
        let seen = backend.seen();
        let shared = Arc::new(Shared {
            inbox: Inbox::default(),
            gate: Gate::new(clock.clone(), &seen),
            timers: scheduler.handle(),
            executor,
            calls: AtomicUsize::new(0),
            counts: Mutex::new(Counts::default()),
            name,
            lateness: handlers.iter().map(|_| Lateness::new(clock.now())).collect(),
            #[cfg(feature = "test-kit")]
            turner: turner::nobody(),
        });
        let now = clock.now();
        #[cfg_attr(not(feature = "postgres"), expect(unused_mut))]
        let mut node = Node::new(settings, fastrand::Rng::new(), now);
        // Calls that need the store's time may come before its first reply.
        #[cfg(feature = "postgres")]
        if let Seen::There(shown) = seen {
            node.observe(now, now, shown);
        }
        let handlers: Handlers = handlers.into();
        handlers.iter().for_each(|handler| handler.bind(&shared));
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
        Ok(Self {
            shared,
            scheduler: Some(scheduler),
            thread: Some(thread),
            #[cfg(feature = "test-kit")]
            turner: None,
        })
    }

    /// Without threads, in the virtual time of `time`.
    #[cfg(feature = "test-kit")]
    pub(crate) fn start_virtual(
        name: String,
        settings: NodeSettings,
        backend: Backend,
        handlers: Vec<Box<dyn RunHandler>>,
        executor: Arc<dyn Executor>,
        (time, rng): (Handle, fastrand::Rng),
    ) -> Result<Self, StartError> {
        let (origin, here) = (time.now(), time.clone());
        let clock = MonoClock::Virtual(Arc::new(move || {
            Mono(micros(here.now().saturating_duration_since(origin)))
        }));
        let shared = Arc::new(Shared {
            inbox: Inbox::default(),
            gate: Gate::new(clock.clone(), &backend.seen()),
            timers: time.clone(),
            executor,
            calls: AtomicUsize::new(0),
            counts: Mutex::new(Counts::default()),
            name,
            lateness: handlers.iter().map(|_| Lateness::new(clock.now())).collect(),
            turner: turner::nobody(),
        });
        let node = Node::new(settings, rng, clock.now());
        let handlers: Handlers = handlers.into();
        handlers.iter().for_each(|handler| handler.bind(&shared));
        let driver = Driver::new(node, backend, Arc::clone(&handlers), Arc::clone(&shared), clock)?;
        let turner = turner::Turner::start(time, driver, &shared);
        Ok(Self { shared, scheduler: None, thread: None, turner: Some((turner, handlers)) })
    }

    /// Ends the node as if the process had died: nothing is recorded any more.
    #[cfg(feature = "test-kit")]
    pub(crate) fn kill(&mut self) {
        let Some((turner, _handlers)) = self.turner.take() else { return };
        self.shared.gate.close();
        self.shared.gate.set_valid_until(Mono(i64::MIN));
        turner.kill();
        drop(self.shared.inbox.end());
        #[cfg(feature = "actors")]
        for handler in &*_handlers {
            for bucket in 0..=BucketNo::from(u8::MAX) {
                handler.vacate(bucket, u32::MAX, true);
            }
        }
    }

    /// Nothing starts any more; waits up to `limit` for what runs. Returns how many runs were given
    /// up.
    pub(crate) fn close(&mut self, limit: Duration) -> usize {
        #[cfg(feature = "test-kit")]
        if let Some(turning) = self.turner.take() {
            self.shared.gate.close();
            // It goes on while time is moved.
            self.shared.push(Input::Close { limit });
            drop(turning);
            return 0;
        }
        let Some(thread) = self.thread.take() else { return 0 };
        self.shared.gate.close();
        self.shared.push(Input::Close { limit });
        if thread.thread().id() == std::thread::current().id() {
            // Dropped by a waker that an answer woke: the node ends when that returns.
            return 0;
        }
        let abandoned = thread.join().unwrap_or(0);
        drop(self.scheduler.as_ref().map(LightArrayRevolverScheduler::stop));
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
            self.push(Input::Call { write, then: Box::new(then) })
        {
            self.calls.fetch_sub(1, Ordering::Relaxed);
            then(Err(Refused::Closed.into()));
        }
    }

    /// Gives the input back if nobody will see it.
    fn push(&self, input: Input) -> Option<Input> {
        let back = self.inbox.push(input);
        #[cfg(feature = "test-kit")]
        if let Some(turner) = self.turner() {
            turner.turn();
        }
        back
    }

    /// An actor lives in `bucket` from now on, because of a run of this epoch.
    #[cfg(feature = "actors")]
    pub(crate) fn moved_in(&self, bucket: BucketNo, epoch: u32) {
        // A node that has ended needs no answer, here or below.
        let _ = self.push(Input::MovedIn { bucket, epoch });
    }

    #[cfg(feature = "actors")]
    pub(crate) fn moved_out(&self, bucket: BucketNo) {
        let _ = self.push(Input::MovedOut { bucket });
    }

    /// Closes the node, even for a caller that does not own it: what runs has at most this long to
    /// end.
    #[cfg(feature = "actors")]
    pub(crate) fn leave(&self, limit: Duration) {
        self.gate.close();
        let _ = self.push(Input::Close { limit });
    }

    /// Inspects the store; `then` gets the result, on a thread of the engine.
    pub(crate) fn look(&self, then: impl FnOnce(Result<Look, StoreError>) + Send + 'static) {
        if let Some(Input::Look { then }) = self.push(Input::Look { then: Box::new(then) }) {
            let reason = "the node is closed".into();
            then(Err(StoreError { reason, unknown: false }));
        }
    }

    /// A run begins.
    fn began(&self, handler: usize, deadline: Timestamp) {
        let late = self.gate.store_now().since(deadline).as_micros();
        self.lateness[handler].record(self.gate.now(), u64::try_from(late).unwrap_or(u64::MAX));
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
