//! The engine on a thread: the store behind it, the wheel and the executor in front of it.

mod future_task;
mod gate;
mod inbox;
mod lanes;
mod lateness;
mod looks;
mod signal;
mod submitted;
mod telling;
mod threads;

mod ending;
mod explain;
mod report;

mod driver;
#[cfg(feature = "test-kit")]
mod turner;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use lars_scheduler::extend::LatenessRecorder;
use lars_scheduler::late::Lateness as LateTable;
use lars_scheduler::{BuildError, Executor, Handle, LightArrayRevolverScheduler};

use self::driver::{Begin, Driver};
pub(crate) use self::ending::Ending;
use self::explain::{Explainer, Noting, Way};
pub(crate) use self::future_task::{Surroundings, spawn};
use self::gate::Gate;
pub(crate) use self::gate::Lease;
use self::inbox::{Inbox, Input};
use self::lateness::Lateness;
use self::looks::Looks;
pub(crate) use self::report::Report;
pub use self::signal::CancelToken;
pub(crate) use self::signal::Signal;
pub use self::submitted::Submitted;
pub(crate) use self::submitted::promise;
use self::telling::Telling;
use self::threads::Threads;
#[cfg(feature = "test-kit")]
pub(crate) use self::turner::OnTime;
use crate::engine::{Answer, Counts, Launch, Node, NodeSettings, Parked};
use crate::error::{Error, Refused, StartError};
#[cfg(feature = "actors")]
use crate::model::Fence;
#[cfg(feature = "actors")]
use crate::model::tenancy::Deliveries;
use crate::model::{BucketNo, Look};
use crate::store::Looker;
use crate::store::Seen;
#[cfg(feature = "sqlite")]
use crate::store::UserFile;
use crate::store::{Backend, StoreError, Write};
#[cfg(feature = "test-kit")]
use crate::sync::Weak;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::time::MonoClock;

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
    fn vacate(&self, bucket: BucketNo, epoch: u32, lost: bool) {
        let _ = (bucket, epoch, lost);
    }

    /// Runs of this epoch may bring somebody into this bucket again.
    fn admit(&self, bucket: BucketNo, epoch: u32) {
        let _ = (bucket, epoch);
    }
}

/// Is told of runs that were given up.
pub(crate) type OnParked = Arc<dyn Fn(&Parked) + Send + Sync>;

/// What a node has beside its store and handlers.
pub(crate) struct Beside {
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) on_parked: Option<OnParked>,
    /// Where it is to be recorded why runs begin late, if it is.
    pub(crate) recorder: Option<LatenessRecorder>,
    /// For inspections of the store.
    pub(crate) looker: Box<dyn Looker>,
    /// If the store is a file: for transactions of users.
    #[cfg(feature = "sqlite")]
    pub(crate) file: Option<UserFile>,
    /// The group that the node is in.
    #[cfg(feature = "postgres")]
    pub(crate) group: String,
    pub(crate) executor: Arc<dyn Executor>,
    /// What polls the futures of handlers, if the executor is the node's own.
    pub(crate) around: Surroundings,
    /// How many of its threads the handlers share; `None` if it is not the node's own.
    pub(crate) threads: Option<usize>,
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
    looks: Looks,
    pub(crate) gate: Gate,
    /// If the store is a file: for transactions of users.
    #[cfg(feature = "sqlite")]
    pub(crate) file: Option<UserFile>,
    /// The group that the node is in: for transactions of users.
    #[cfg(feature = "postgres")]
    pub(crate) group: String,
    pub(crate) timers: Handle,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) around: Surroundings,
    threads: Threads<Begin>,
    /// Calls that wait for their answers.
    calls: AtomicUsize,
    counts: Mutex<Counts>,
    /// Of the log beside the store's file.
    log_bytes: AtomicU64,
    /// What actors have received.
    #[cfg(feature = "actors")]
    deliveries: Mutex<Deliveries>,
    /// The process that has the node's threads. A child that was forked has only a copy of this.
    process: u32,
    /// Another process owns the store.
    store_lost: AtomicBool,
    /// The node's name for people.
    name: String,
    on_parked: Option<OnParked>,
    telling: Arc<Telling>,
    /// The lateness of each handler's runs.
    lateness: Vec<Lateness>,
    /// Why they did, if that is to be known.
    explainer: Option<Explainer>,
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
        beside: Beside,
        settings: NodeSettings,
        backend: Backend,
        handlers: Vec<Box<dyn RunHandler>>,
    ) -> Result<Self, StartError> {
        let clock = MonoClock::start();
        let executor = Arc::clone(&beside.executor);
        // The way through the node's own pool is known.
        let executor = match &beside.recorder {
            Some(_) if beside.threads.is_none() => {
                Arc::new(Noting { executor, clock: clock.clone() })
            }
            _ => executor,
        };
        let scheduler = LightArrayRevolverScheduler::builder()
            .thread_name("lars-durable-wheel")
            .executor(executor)
            .build()
            .map_err(|error| match error {
                BuildError::Thread(error) => StartError::Thread(error),
                other => StartError::Thread(std::io::Error::other(other.to_string())),
            })?;
        let seen = backend.seen();
        let timers = scheduler.handle();
        let shared = Shared::new(beside, timers, &settings, &clock, &seen)?;
        let now = clock.now();
        let mut node = Node::new(settings, fastrand::Rng::new(), now);
        // Calls that need the store's time may come before its first reply.
        if let Seen::There(shown) = seen {
            node.observe(now, now, shown);
        }
        let handlers: Handlers = handlers.into();
        handlers.iter().for_each(|handler| handler.bind(&shared));
        let mut driver = Driver::new(node, backend, handlers, Arc::clone(&shared), clock)?;
        let here = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lars-durable".into()).spawn(move || {
            let abandoned = contain(|| driver.run()).unwrap_or_else(|panic| {
                // A defect. What is in the store is safe there; callers must not wait for answers.
                tracing::error!(target: "lars_durable", %panic, "the node has ended");
                here.gate.close();
                here.looks.end();
                drop(here.inbox.end());
                0
            });
            // With it go handlers, whose destructors are foreign code.
            if let Err(panic) = contain(|| drop(driver)) {
                tracing::error!(target: "lars_durable", %panic, "a handler panicked when it went");
            }
            abandoned
        })?;
        Ok(Self {
            shared,
            scheduler: Some(scheduler),
            thread: Some(thread),
            #[cfg(feature = "test-kit")]
            turner: None,
        })
    }

    /// Whether it lives in virtual time.
    #[cfg(feature = "test-kit")]
    pub(crate) fn is_virtual(&self) -> bool {
        self.turner.is_some()
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
        if self.shared.is_a_copy() {
            // There are no threads here to wait for, and there is nothing that may be closed.
            let shared = Arc::clone(&self.shared);
            std::mem::forget((thread, self.scheduler.take(), shared));
            return 0;
        }
        let until = self.shared.gate.now() + limit.into();
        self.shared.gate.close();
        self.shared.push(Input::Close { limit });
        if thread.thread().id() == std::thread::current().id() {
            // Dropped by a waker that an answer woke: the node ends when that returns.
            return 0;
        }
        let abandoned = thread.join().unwrap_or(0);
        // What is still in the wheel goes with it.
        self.shared.telling.wait((until - self.shared.gate.now()).to_duration());
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
    fn new(
        beside: Beside,
        timers: Handle,
        settings: &NodeSettings,
        clock: &MonoClock,
        seen: &Seen,
    ) -> io::Result<Arc<Self>> {
        let looks = match clock {
            MonoClock::Machine { .. } => Looks::apart(beside.looker)?,
            #[cfg(feature = "test-kit")]
            MonoClock::Virtual(_) => Looks::here(beside.looker),
        };
        let Beside { name, on_parked, recorder, executor, around, threads, .. } = beside;
        let handlers = &settings.handlers;
        let names = || handlers.iter().map(|handler| Arc::clone(&handler.name)).collect();
        let shared_threads = threads;
        let threads = Threads::new(handlers.len(), shared_threads);
        if let (Some(_), Some(_), Some(pool)) = (&recorder, shared_threads, executor.as_pool()) {
            threads.watch(pool.threads(), clock.clone());
        }
        Ok(Arc::new(Self {
            inbox: Inbox::default(),
            looks,
            gate: Gate::new(clock.clone(), seen),
            #[cfg(feature = "sqlite")]
            file: beside.file,
            #[cfg(feature = "postgres")]
            group: beside.group,
            timers,
            executor,
            around,
            threads,
            calls: AtomicUsize::new(0),
            counts: Mutex::new(Counts::default()),
            log_bytes: AtomicU64::new(0),
            #[cfg(feature = "actors")]
            deliveries: Mutex::default(),
            process: std::process::id(),
            store_lost: AtomicBool::new(false),
            name,
            on_parked,
            telling: Arc::default(),
            lateness: handlers.iter().map(|_| Lateness::new(clock.now())).collect(),
            explainer: recorder.map(|recorder| Explainer::new(recorder, names())),
            #[cfg(feature = "test-kit")]
            turner: turner::nobody(),
        }))
    }

    /// Sends a call to the engine; `then` gets its answer, on the engine's thread.
    pub(crate) fn call(
        &self,
        write: Write,
        then: impl FnOnce(Result<Answer, Error>) + Send + 'static,
    ) {
        if self.is_a_copy() {
            return then(Err(Refused::Forked.into()));
        }
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
            then(Err(self.why_ended().into()));
        }
    }

    /// Whether this is a process that was forked from the node's: nobody is behind the inbox here,
    /// and its lock may be held for ever.
    fn is_a_copy(&self) -> bool {
        std::process::id() != self.process
    }

    /// Nothing begins any more, because another process owns the store.
    fn lose_store(&self) {
        // Relaxed, as the load: it only chooses the words of an error.
        self.store_lost.store(true, Ordering::Relaxed);
        self.gate.begin_anew();
        self.gate.close();
    }

    /// Why calls are refused when the node has ended.
    fn why_ended(&self) -> Refused {
        match self.store_lost.load(Ordering::Relaxed) {
            true => Refused::FileTaken,
            false => Refused::Closed,
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
    pub(crate) fn moved_in(&self, bucket: BucketNo, epoch: u32) {
        // A node that has ended needs no answer, here or below.
        let _ = self.push(Input::MovedIn { bucket, epoch });
    }

    pub(crate) fn moved_out(&self, bucket: BucketNo) {
        let _ = self.push(Input::MovedOut { bucket });
    }

    /// Closes the node, even for a caller that does not own it: what runs has at most this long to
    /// end.
    pub(crate) fn leave(&self, limit: Duration) {
        self.gate.close();
        let _ = self.push(Input::Close { limit });
    }

    /// Inspects the store; `then` gets the result, on a thread of its own.
    pub(crate) fn look(&self, then: impl FnOnce(Result<Look, StoreError>) + Send + 'static) {
        if self.is_a_copy() {
            return then(Err(StoreError::nothing_done(Refused::Forked.to_string())));
        }
        if let Some(then) = self.looks.look(Box::new(then)) {
            let reason = self.why_ended().to_string();
            then(Err(StoreError::nothing_done(reason)));
        }
    }

    /// The fence of what an actor in this bucket is about to receive by a run of this epoch. `None`
    /// if something of a later epoch was received there.
    #[cfg(feature = "actors")]
    pub(crate) fn next_delivery(&self, bucket: BucketNo, epoch: u32) -> Option<Fence> {
        self.deliveries.lock().next(bucket, epoch)
    }

    /// A run begins.
    fn began(&self, launch: &Launch, way: Way) {
        let late = self.gate.store_now().since(launch.row.deadline).as_micros();
        let now = self.gate.now();
        self.lateness[launch.handler].record(now, u64::try_from(late).unwrap_or(u64::MAX));
        if let Some(explainer) = &self.explainer {
            explainer.began(launch, way, &self.threads, now);
        }
    }

    /// What began late, and why.
    pub(crate) fn late_runs(&self) -> LateTable {
        let table = |explainer: &Explainer| explainer.recorder().table();
        self.explainer.as_ref().map(table).unwrap_or_default()
    }

    fn answered(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// The node's name for people.
    #[cfg(feature = "metrics")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        // Relaxed, as the store: the number alone says everything.
        self.log_bytes.load(Ordering::Relaxed)
    }

    fn set_log_bytes(&self, bytes: u64) {
        self.log_bytes.store(bytes, Ordering::Relaxed);
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
        let text = text.unwrap_or_else(|| {
            // It is of a foreign type, whose destructor may panic as well.
            std::mem::forget(panic);
            "with no message".into()
        });
        format!("panicked: {text}")
    })
}
