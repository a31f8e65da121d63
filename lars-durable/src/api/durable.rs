//! A node: made, started, closed.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
#[cfg(feature = "sqlite")]
use std::path::{Path, PathBuf};
use std::time::Duration;

use lars_scheduler::extend::LatenessRecorder;
use lars_scheduler::late::{Late, Lateness};
use lars_scheduler::{Executor, Pool};
#[cfg(feature = "postgres")]
use tokio_postgres::{
    Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use super::fired::Fired;
use super::handler::Handler;
use super::inspection::{Inspection, ParkedRun};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::observer::Observer;
use super::outcome::IntoOutcome;
use super::payload::Payload;
use super::timers::Timers;
use crate::engine::{CALL_TIMEOUT, LEASE, MAX_IN_FLIGHT, MAX_RESIDENT, NodeSettings, WINDOW};
use crate::error::{CloseError, StartError};
use crate::model::Kept;
use crate::runtime::{Beside, OnParked, Runtime, Shared, Submitted, Surroundings};
#[cfg(feature = "test-kit")]
use crate::store::FaultyStore;
use crate::store::{Backend, Looker, MemoryStore};
#[cfg(feature = "postgres")]
use crate::store::{Connect, Place as StorePlace, PostgresStore, Tls, start_bell};
#[cfg(feature = "sqlite")]
use crate::store::{OutsideFile, SqliteStore, Synchronous, UserFile};
use crate::sync::Arc;
use crate::time::{Micros, system_clock};

/// As many parked timers as an inspection counts: that many are looked at to find the first one
/// that is too many.
const MAX_PARKED: usize = 50_000;

/// So many are looked at, once a minute, to find the first one that is too many.
const MAX_HISTORY: usize = 100_000;

/// How long `close` waits.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// Timers that survive the process: a running node.
///
/// Prefer [`close`](Self::close). Dropping it closes it without waiting for running handlers: those
/// timers are given back and run again in the next life.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::{Durable, Fired, Payload};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct PaymentDue { order: u64 }
/// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
///
/// let (sender, due) = mpsc::channel();
/// let durable = Durable::in_memory() // or `sqlite(path)`, or `postgres(parameters)`
///     .handle(move |due: &Fired<PaymentDue>| drop(sender.send(due.payload().order)))
///     .start()?;
/// let soon = Duration::from_millis(5);
/// durable.timers().schedule_once(soon, PaymentDue { order: 17 }).submit().wait()?;
/// assert_eq!(due.recv()?, 17);
/// durable.close()?;
/// # Ok(()) }
/// ```
pub struct Durable {
    pub(super) runtime: Runtime,
}

/// Builds a node: where its timers are kept, its handlers and settings.
#[must_use = "a builder does nothing until it starts a node"]
pub struct Builder {
    place: Place,
    group: String,
    name: Option<String>,
    handlers: Vec<Handler>,
    executor: Option<Arc<dyn Executor>>,
    threads: usize,
    window: Duration,
    lease: Duration,
    max_resident: usize,
    max_in_flight: usize,
    call_timeout: Duration,
    kept: Kept,
    history: Option<Kept>,
    on_parked: Option<OnParked>,
    explain_late: Option<Duration>,
    on_late: Option<OnLate>,
}

/// Is told of runs that begin late.
type OnLate = Box<dyn Fn(&Late<'_>) + Send + Sync>;

#[derive(Debug)]
enum Place {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf, Synchronous),
    #[cfg(feature = "test-kit")]
    Virtual(VirtualPlace),
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
}

impl Place {
    /// Whether the node lives in virtual time.
    fn is_virtual(&self) -> bool {
        match self {
            #[cfg(feature = "test-kit")]
            Self::Virtual(_) => true,
            _ => false,
        }
    }

    /// Whether nobody else can own the store as long as this process lives.
    fn is_sole(&self) -> bool {
        match self {
            Self::Memory => true,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(..) => true,
            #[cfg(feature = "test-kit")]
            Self::Virtual(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => false,
        }
    }
}

/// A store in virtual time.
#[cfg(feature = "test-kit")]
pub(super) struct VirtualPlace {
    pub(super) store: FaultyStore,
    pub(super) time: lars_scheduler::Handle,
    pub(super) seed: u64,
}

#[cfg(feature = "test-kit")]
impl fmt::Debug for VirtualPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualPlace").finish_non_exhaustive()
    }
}

/// A database, as the user names it.
#[cfg(feature = "postgres")]
struct Postgres {
    parameters: String,
    connect: Arc<dyn Connect>,
    notifications: bool,
}

#[cfg(feature = "postgres")]
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the parameters, which may hold a password.
        f.debug_struct("Postgres")
            .field("notifications", &self.notifications)
            .finish_non_exhaustive()
    }
}

impl Durable {
    /// Timers in an SQLite file, which is created if it does not exist. Beside it are SQLite's
    /// `-wal` and `-shm`, and `.lock`, which names the owner. Do not put it on a network file
    /// system.
    ///
    /// It may have tables of your own, too. Then timers can be made, cancelled and ended in your
    /// own transactions: [`submit_in_file`](super::schedule::Schedule::submit_in_file),
    /// [`cancel_in_file`](Timers::cancel_in_file),
    /// [`complete_in_file`](super::Fired::complete_in_file).
    #[cfg(feature = "sqlite")]
    pub fn sqlite(path: impl AsRef<Path>) -> Builder {
        Builder::new(Place::Sqlite(path.as_ref().to_owned(), Synchronous::default()))
    }

    /// Says that this SQLite file was restored from a backup, or is a copy that lives on beside its
    /// original. Call it once, before the next node opens the file. (In PostgreSQL:
    /// `SELECT lars.restored()`, while no node runs.)
    ///
    /// From then on runs have [idempotency keys](Fired::idempotency_key) that no run had before the
    /// restore, and [fences](Fired::fence) that are greater, and timers have other
    /// [numbers](Fired::id). Without it all of these begin again where the backup was made: others
    /// take new payments for old ones, and refuse new writes as stale. (They are greater than all
    /// before if, since an earlier restore of the same backup, the file was opened less often than
    /// once a second on average.)
    ///
    /// # Errors
    ///
    /// [`StartError::Owned`] if a node runs, and what else [`Builder::start`] says about a file.
    /// There must be a file.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// std::fs::copy("backup/timers.db", "timers.db")?; // no timers.db-wal is left beside it
    /// lars_durable::Durable::declare_restored("timers.db")?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn declare_restored(path: impl AsRef<Path>) -> Result<(), StartError> {
        SqliteStore::declare_restored(path.as_ref())
    }

    /// Timers in a PostgreSQL database (14 or newer), which any number of nodes share. `parameters`
    /// are those of libpq, such as `"host=db user=shop dbname=shop"`, or a URL.
    ///
    /// Every node has up to five connections, each on a thread of its own. So calls can be made
    /// anywhere: in workers of a runtime, in actors, in destructors. Without a
    /// [connector](Builder::tls) connections are not encrypted, and `sslmode=require` is refused.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lars_durable::{Durable, Fired, Payload};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct PaymentDue { order: u64 }
    /// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let durable = Durable::postgres("host=db user=shop dbname=shop")
    ///     .group("billing")
    ///     .handle(|due: &Fired<PaymentDue>| println!("order {} is due", due.payload().order))
    ///     .start()?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "postgres")]
    pub fn postgres(parameters: impl Into<String>) -> Builder {
        Builder::new(Place::Postgres(Postgres {
            parameters: parameters.into(),
            connect: Arc::new(Tls(tokio_postgres::NoTls)),
            notifications: true,
        }))
    }

    /// Timers that live as long as the node: for tests.
    pub fn in_memory() -> Builder {
        Builder::new(Place::Memory)
    }

    /// The way to schedule, cancel and look: cheap to clone.
    pub fn timers(&self) -> Timers {
        Timers::new(Arc::clone(&self.runtime.shared))
    }

    /// What the node has done since it was started.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.runtime.shared)
    }

    /// Why runs of this node began late, since it was started, by cause and culprit. Empty unless
    /// [`Builder::explain_late`] is on. For an interval, take the
    /// [difference](Lateness::since) of two.
    pub fn lateness(&self) -> Lateness {
        self.runtime.shared.late_runs()
    }

    /// What its threads share.
    #[cfg(feature = "metrics")]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.runtime.shared
    }

    /// Ends the node as if its process had died: nothing is recorded any more, the lease ends by
    /// itself, and its actors are killed. For [virtual time](crate::test_kit); elsewhere it is a
    /// drop.
    #[cfg(feature = "test-kit")]
    pub fn kill(mut self) {
        self.runtime.kill();
    }

    /// Inspects the whole group: nodes, leases, buckets, and by handler what waits, runs and fails.
    ///
    /// It reads a bounded number of rows, however many timers there are, and changes nothing. It
    /// takes milliseconds; on PostgreSQL up to some seconds, if there are many dead rows (see
    /// [`Inspection::counts_took_too_long`]). It has a connection of its own, which the first call
    /// opens, so it delays neither timers nor calls.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::{Durable, Fired, Payload};
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Remind { order: u64 }
    /// impl Payload for Remind { const NAME: &'static str = "remind"; }
    ///
    /// let durable = Durable::in_memory().handle(|_: &Fired<Remind>| ()).start()?;
    /// let day = Duration::from_secs(86_400);
    /// durable.timers().schedule_once(day, Remind { order: 17 }).submit().wait()?;
    /// let seen = durable.inspect().wait()?;
    /// let remind = seen.handler("remind").ok_or("it is there")?;
    /// assert_eq!((remind.pending.value, remind.pending.at_least), (1, false));
    /// # Ok(()) }
    /// ```
    pub fn inspect(&self) -> Submitted<Inspection> {
        self.timers().inspect()
    }

    /// [`close_within`](Self::close_within) half a minute.
    ///
    /// # Errors
    ///
    /// [`CloseError`] if runs have not ended by then.
    pub fn close(self) -> Result<(), CloseError> {
        self.close_within(CLOSE_LIMIT)
    }

    /// Stops starting timers, waits for running handlers, and releases the file, or in PostgreSQL
    /// its buckets. Nothing runs early: pending timers stay in the store.
    ///
    /// It blocks this thread: where that polls the futures of handlers, or must not block, use
    /// [`close_async`](Self::close_async). So should a handler that closes its own node, and then
    /// return: here it would wait for its own end until the limit.
    ///
    /// # Errors
    ///
    /// [`CloseError`] if runs have not ended within the limit. Their timers are given back and run
    /// again in the next life, with a greater fence, perhaps while the old run goes on.
    pub fn close_within(mut self, limit: Duration) -> Result<(), CloseError> {
        match self.runtime.close(limit) {
            0 => Ok(()),
            running => Err(CloseError { limit, running }),
        }
    }
}

impl Builder {
    fn new(place: Place) -> Self {
        Self {
            place,
            group: "default".into(),
            name: None,
            handlers: Vec::new(),
            executor: None,
            threads: num_cpus::get().max(4),
            window: WINDOW,
            lease: LEASE,
            max_resident: MAX_RESIDENT,
            max_in_flight: MAX_IN_FLIGHT,
            call_timeout: CALL_TIMEOUT,
            kept: Kept::default(),
            history: None,
            on_parked: None,
            explain_late: None,
            on_late: None,
        }
    }

    /// The group whose timers the node makes and runs: `"default"` unless it is set. Keys are
    /// unique in a group.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = name.into();
        self
    }

    /// The node's name for people: `host:pid` unless it is set, at most 64 bytes. Nothing depends
    /// on it, and it need not be unique.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// A node on this store, in virtual time.
    #[cfg(feature = "test-kit")]
    pub(super) fn on(store: FaultyStore, time: lars_scheduler::Handle, seed: u64) -> Self {
        Self::new(Place::Virtual(VirtualPlace { store, time, seed }))
    }

    /// Runs a closure for each timer with this payload, on the executor, with the default settings
    /// of a [`Handler`].
    pub fn handle<P, R, F>(self, run: F) -> Self
    where
        P: Payload,
        R: IntoOutcome,
        F: Fn(&Fired<P>) -> R + Send + Sync + 'static,
    {
        self.handler(Handler::new(run))
    }

    /// Runs a future for each timer with this payload: polled by the tokio runtime in which the
    /// node is started, or else by tasks of the executor ([`Handler::future`]).
    pub fn handle_future<P, R, F, W>(self, run: F) -> Self
    where
        P: Payload,
        R: IntoOutcome,
        F: Fn(Fired<P>) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        self.handler(Handler::future(run))
    }

    /// Adds a handler with settings of its own. A node without handlers creates timers but runs
    /// none.
    pub fn handler(mut self, handler: Handler) -> Self {
        self.handlers.push(handler);
        self
    }

    /// Where handlers run: by default on a pool of the node's own. Any executor of `lars-scheduler`
    /// will do, such as a `SpawnExecutor` over a runtime.
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.executor = Some(Arc::new(executor));
        self
    }

    /// How many threads of the node's own pool the handlers share: by default one per core, but at
    /// least 4. Beside these each handler has one that no other gets, so that one that blocks stops
    /// nobody else. (An [executor](Self::executor) that you set has the threads that it has. There
    /// a handler that blocks needs a [concurrency](Handler::concurrency) that leaves some to the
    /// others.)
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How far ahead timers are held in memory: 30 s unless it is set, from 1 s to 1 h.
    pub fn window(mut self, ahead: Duration) -> Self {
        self.window = ahead;
        self
    }

    /// How long a node may go without renewing its lease before it starts nothing more: 10 s unless
    /// it is set, from 1 s to 1 h.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How many timers are held in memory, however many are pending: 200,000 unless it is set, at
    /// least 1,000. Each handler has a share that no other gets: what is due is not left out of
    /// memory because others have much that waits.
    pub fn max_resident(mut self, timers: usize) -> Self {
        self.max_resident = timers;
        self
    }

    /// How many runs may be in flight: 1,024 unless it is set. After a start it begins with twice
    /// the number of cores, and doubles each second.
    ///
    /// A quarter of the places is kept for handlers that have few runs, so one that is slow does
    /// not stop the others. That needs at least as many places as there are handlers.
    pub fn max_in_flight(mut self, runs: usize) -> Self {
        self.max_in_flight = runs;
        self
    }

    /// How many parked timers the group keeps. Once a minute the oldest beyond that are deleted,
    /// some hundred at a time. From 1 to 50,000; all are kept unless it is set.
    ///
    /// What is parked was accepted and has not had its effect, so nothing deletes it unless you say
    /// so. Say the same on all nodes: on PostgreSQL the one that owns the first bucket deletes, by
    /// its own settings.
    pub fn max_parked(mut self, timers: usize) -> Self {
        self.kept.most = Some(timers);
        self
    }

    /// How long parked timers are kept, at least 1 s: for ever unless it is set. See
    /// [`max_parked`](Self::max_parked).
    pub fn max_parked_age(mut self, age: Duration) -> Self {
        self.kept.age = Some(age.into());
        self
    }

    /// Remembers runs that are over: for so long, at least 1 s, and so many in the group, from 1 to
    /// 100,000. Unless it is set, nothing is remembered, and nothing is written for it.
    ///
    /// The runs of a node are remembered in the transaction that records their ends, or after it if
    /// the handler recorded the end itself or runs at most once. On PostgreSQL this is one row more
    /// for each run, and its deletion. The node that owns the first bucket deletes what is too old
    /// or too much, once a minute; so for a minute there may be more. Say the same on all nodes.
    /// [`Timers::runs`] shows them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::Durable;
    /// use std::time::Duration;
    ///
    /// let week = Duration::from_secs(7 * 86_400);
    /// let durable = Durable::in_memory().history(week, 50_000).start()?;
    /// # durable.close()?;
    /// # Ok(()) }
    /// ```
    pub fn history(mut self, age: Duration, runs: usize) -> Self {
        self.history = Some(Kept { most: Some(runs), age: Some(age.into()) });
        self
    }

    /// How long a call is retried while the store cannot be used: 5 s unless it is set, at least
    /// 1 ms.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = limit;
        self
    }

    /// Is called on the executor for each run that this node has given up, once that is recorded:
    /// to tell people. A node that closes waits for that as it does for handlers, unless it is
    /// dropped. If the process dies just then, nobody is called, so look through
    /// [`Timers::list`] as well, which shows all that are parked. It may close its own node: then
    /// the close waits for everything but this call.
    pub fn on_parked(mut self, tell: impl Fn(&ParkedRun) + Send + Sync + 'static) -> Self {
        self.on_parked = Some(Arc::new(move |parked| tell(&ParkedRun::of(parked))));
        self
    }

    /// Finds out why runs begin late, if they are late by more than `bound`; off by default.
    ///
    /// A run is late by what lies between its due time and its begin. A retry has a due time of its
    /// own. What was due before it was accepted, or while its handler was paused, counts from then
    /// on, as far as this node was told. [`Durable::lateness`] has a table of what all late runs
    /// waited for, the log gets a line a second at most, and [`on_late`](Self::on_late) is told
    /// each time. Who was late is named by its handler.
    ///
    /// | cause | culprit |
    /// |---|---|
    /// | [`HandlerFull`]: the handler had as many runs as it may | the handler |
    /// | [`NodeFull`]: so had the node, or it ramps up after a start | the handler with most runs |
    /// | [`Store`]: the store answered late, or not at all | |
    /// | [`NoOwner`]: no node had its bucket since the last sign of life of the one before. If this node has seen none: since it was due | that node, by its [identity](crate::inspection::NodeInspection::id) |
    /// | [`PoolBusy`]: handlers had all threads of the node's own pool | the handler with most |
    /// | [`OtherExecutor`]: it waited in an [executor](Self::executor) of yours | |
    /// | [`MessagesBefore`]: the actor had as many messages under way as it may | its kind |
    /// | [`Timer`]: a thread of the node woke up late: that of the engine, the wheel or the pool | |
    /// | [`Unknown`]: the rest, such as quarantine, or what came to be known here after it was due | |
    ///
    /// [`HandlerFull`]: lars_scheduler::late::Cause::HandlerFull
    /// [`NodeFull`]: lars_scheduler::late::Cause::NodeFull
    /// [`Store`]: lars_scheduler::late::Cause::Store
    /// [`NoOwner`]: lars_scheduler::late::Cause::NoOwner
    /// [`PoolBusy`]: lars_scheduler::late::Cause::PoolBusy
    /// [`OtherExecutor`]: lars_scheduler::late::Cause::OtherExecutor
    /// [`MessagesBefore`]: lars_scheduler::late::Cause::MessagesBefore
    /// [`Timer`]: lars_scheduler::late::Cause::Timer
    /// [`Unknown`]: lars_scheduler::late::Cause::Unknown
    ///
    /// It works in [virtual time](crate::test_kit) too, where the same test tells the same each
    /// time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::{Durable, Fired, Handler, Payload};
    /// use lars_scheduler::late::Cause;
    /// use std::{sync::mpsc, thread, time::Duration};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Mail(u64);
    /// impl Payload for Mail { const NAME: &'static str = "mail"; }
    ///
    /// let ms = Duration::from_millis;
    /// let (sent, mails) = mpsc::channel();
    /// let slow = move |mail: &Fired<Mail>| {
    ///     thread::sleep(ms(50));
    ///     let _ = sent.send(mail.payload().0);
    /// };
    /// let durable = Durable::in_memory()
    ///     .handler(Handler::new(slow).concurrency(1))
    ///     .explain_late(ms(10))
    ///     .start()?;
    /// let timers = durable.timers();
    /// let all = (0..3).map(|number| timers.schedule_once(ms(20), Mail(number)));
    /// timers.schedule_batch(all).wait()?;
    /// let _ = (mails.recv()?, mails.recv()?, mails.recv()?);
    ///
    /// let late = durable.lateness();
    /// print!("{late}"); // 2 began late, 150 ms in all … 95 % the handler was at its limit: mail
    /// let full = |row: &&lars_scheduler::late::LateRow| row.cause == Cause::HandlerFull;
    /// let full = late.rows.iter().find(full).ok_or("the third waited for the second")?;
    /// assert_eq!(full.culprit.as_ref().map(ToString::to_string), Some("mail".into()));
    /// # durable.close()?;
    /// # Ok(()) }
    /// ```
    pub fn explain_late(mut self, bound: Duration) -> Self {
        self.explain_late = Some(bound);
        self
    }

    /// Calls `hook` with what was late and why, on the thread of the run, just before that. Those
    /// of actors are on the thread of the wheel: there, it holds up all runs of the node. Nothing
    /// calls it without [`explain_late`](Self::explain_late). A hook that panics does no harm.
    pub fn on_late(mut self, hook: impl Fn(&Late<'_>) + Send + Sync + 'static) -> Self {
        self.on_late = Some(Box::new(hook));
        self
    }

    /// When commits to an SQLite file are flushed to the disk: every time unless it is set.
    #[cfg(feature = "sqlite")]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        if let Place::Sqlite(_, how) = &mut self.place {
            *how = synchronous;
        }
        self
    }

    /// What secures the connections to PostgreSQL, such as a connector of `postgres-native-tls` or
    /// `tokio-postgres-rustls`. Other stores have no connections.
    #[cfg(feature = "postgres")]
    pub fn tls<T>(mut self, connector: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        if let Place::Postgres(postgres) = &mut self.place {
            postgres.connect = Arc::new(Tls(connector));
        }
        self
    }

    /// Whether nodes on PostgreSQL notify each other of timers that are due within the window, and
    /// of free buckets: yes unless it is set. Without notifications, a timer that is made for
    /// another node and due within its window may be some three seconds late.
    #[cfg(feature = "postgres")]
    pub fn notifications(mut self, notifications: bool) -> Self {
        if let Place::Postgres(postgres) = &mut self.place {
            postgres.notifications = notifications;
        }
        self
    }

    /// Looks at the group instead of joining it: creates, upgrades and writes nothing. Handlers and
    /// all settings of a node but the lease mean nothing to it. A file may have an owner that runs.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a server that does not answer or refuses, a file that does not exist, a
    /// database without the schema or with one of another version, [a group that does not
    /// exist](StartError::NoGroup), a setting out of range, a store in memory.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::Durable;
    ///
    /// let mut observer = Durable::sqlite("timers.db").observe()?;
    /// println!("{} nodes", observer.inspect()?.nodes.len());
    /// # Ok(()) }
    /// ```
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub fn observe(self) -> Result<Observer, StartError> {
        self.check()?;
        match &self.place {
            #[cfg(feature = "sqlite")]
            Place::Sqlite(path, _) => Ok(Observer::new(OutsideFile::open(path, &self.group)?)),
            #[cfg(feature = "postgres")]
            Place::Postgres(postgres) => {
                let limit = self.lease.max(Duration::from_secs(5));
                let place = self.store_place(postgres, limit)?.for_looks(&postgres.parameters)?;
                PostgresStore::check(&place)?;
                Ok(Observer::new(PostgresStore::new(place)))
            }
            other => {
                let given = format!("{other:?}");
                Err(setting("the store of an observer", given, "a file or PostgreSQL"))
            }
        }
    }

    /// Opens the store, creates or upgrades its schema, and starts the node: one thread for the
    /// engine, one for the wheel, those of the executor, and on PostgreSQL one for each connection.
    /// Timers that became due while no node was running start at once.
    ///
    /// # Errors
    ///
    /// [`StartError`]: another owner, a file that is not a database, a server that does not answer
    /// or refuses the node, a newer schema, a setting out of range.
    pub fn start(self) -> Result<Durable, StartError> {
        self.check()?;
        let opened = self.open()?;
        let around = match self.executor {
            None if !self.place.is_virtual() => Surroundings::here(),
            _ => Surroundings::default(),
        };
        let (executor, threads) = match self.executor {
            Some(executor) => (executor, None),
            None => own_executor(&self.place, self.threads, self.handlers.len())?,
        };
        let (handlers, runners): (Vec<_>, Vec<_>) =
            self.handlers.into_iter().map(Handler::into_parts).unzip();
        let name = self.name.unwrap_or_else(default_name);
        let settings = NodeSettings {
            window: self.window.into(),
            lease: self.lease.into(),
            max_resident: self.max_resident,
            max_in_flight: self.max_in_flight,
            call_timeout: self.call_timeout.into(),
            kept: self.kept,
            history: self.history.map(|kept| (kept, Arc::from(&*name))),
            sole: self.place.is_sole(),
            explains_late: self.explain_late.is_some(),
            ..NodeSettings::new(handlers)
        };
        let recorder = self.explain_late.map(|bound| LatenessRecorder::new(bound, log_late));
        let recorder = match self.on_late {
            Some(hook) => recorder.map(|recorder| recorder.on_late(hook)),
            None => recorder,
        };
        let backend = opened.backend;
        let beside = Beside {
            name,
            on_parked: self.on_parked,
            recorder,
            looker: opened.looker,
            #[cfg(feature = "sqlite")]
            file: opened.file,
            #[cfg(feature = "postgres")]
            group: self.group,
            executor,
            around,
            threads,
        };
        #[cfg(feature = "test-kit")]
        if let Place::Virtual(VirtualPlace { time, seed, .. }) = self.place {
            let rng = fastrand::Rng::with_seed(seed);
            let runtime = Runtime::start_virtual(beside, settings, backend, runners, (time, rng))?;
            return Ok(Durable { runtime });
        }
        let runtime = Runtime::start(beside, settings, backend, runners)?;
        Ok(Durable { runtime })
    }

    fn open(&self) -> Result<Opened, StartError> {
        Ok(match &self.place {
            #[cfg(feature = "test-kit")]
            Place::Virtual(place) => {
                let (store, clock) = (Box::new(place.store.clone()), place.store.clock());
                Opened::of(Backend::One { store, clock }, Box::new(place.store.clone()))
            }
            Place::Memory => {
                let store = MemoryStore::new(1, system_clock());
                let looker = Box::new(store.clone());
                let backend = Backend::One { store: Box::new(store), clock: system_clock() };
                Opened::of(backend, looker)
            }
            #[cfg(feature = "sqlite")]
            Place::Sqlite(path, synchronous) => {
                let limit = self.call_timeout;
                let store = SqliteStore::open(path, &self.group, *synchronous, limit)?;
                let (clock, file) = (store.clock(), Some(store.user_file()));
                let looker = Box::new(store.looker());
                let backend = Backend::One { store: Box::new(store), clock };
                Opened { file, ..Opened::of(backend, looker) }
            }
            #[cfg(feature = "postgres")]
            Place::Postgres(postgres) => self.open_postgres(postgres)?,
        })
    }

    #[cfg(feature = "postgres")]
    fn open_postgres(&self, postgres: &Postgres) -> Result<Opened, StartError> {
        let place = self.store_place(postgres, self.lease / 3)?;
        let seen = PostgresStore::prepare(&place)?;
        let names: Vec<&str> =
            self.handlers.iter().map(|handler| &*handler.settings.name).collect();
        PostgresStore::check_strangers(&place, &names)?;
        let lane = || Box::new(PostgresStore::new(place.clone()));
        let (keeper, writer) = (lane(), lane());
        // A load takes long where many rows are dead and cannot be removed.
        let runner = StorePlace { limit: self.lease, ..place.clone() };
        let runner = Box::new(PostgresStore::new(runner));
        let limit = self.lease.max(Duration::from_secs(5));
        let looker = Box::new(PostgresStore::new(StorePlace { limit, ..place.clone() }));
        let bell = postgres.notifications.then(|| start_bell(place));
        Ok(Opened::of(Backend::Lanes { keeper, writer, runner, bell, seen }, looker))
    }

    #[cfg(feature = "postgres")]
    fn store_place(&self, of: &Postgres, limit: Duration) -> Result<StorePlace, StartError> {
        let connect = Arc::clone(&of.connect);
        StorePlace::new(&of.parameters, connect, &self.group, limit, of.notifications)
    }

    fn check_kept(&self) -> Result<(), StartError> {
        if let Some(most) = self.kept.most.filter(|most| !(1..=MAX_PARKED).contains(most)) {
            return Err(setting("max_parked", most, "from 1 to 50000"));
        }
        let history = self.history.unwrap_or_default();
        if let Some(most) = history.most.filter(|most| !(1..=MAX_HISTORY).contains(most)) {
            return Err(setting("the number of runs of history", most, "from 1 to 100000"));
        }
        for (name, age) in [("max_parked_age", self.kept.age), ("the age of history", history.age)]
        {
            if let Some(age) = age.filter(|age| *age < Micros::SECOND) {
                return Err(setting(name, format!("{:?}", age.to_duration()), "at least 1 s"));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), StartError> {
        let seconds = |from, to| Duration::from_secs(from)..=Duration::from_secs(to);
        if !seconds(1, 3_600).contains(&self.window) {
            return Err(setting("window", format!("{:?}", self.window), "from 1 s to 1 h"));
        }
        if !seconds(1, 3_600).contains(&self.lease) {
            return Err(setting("lease", format!("{:?}", self.lease), "from 1 s to 1 h"));
        }
        if self.call_timeout < Duration::from_millis(1) {
            let given = format!("{:?}", self.call_timeout);
            return Err(setting("call_timeout", given, "at least 1 ms"));
        }
        if self.max_resident < 1_000 {
            return Err(setting("max_resident", self.max_resident, "at least 1000"));
        }
        if self.max_in_flight == 0 {
            return Err(setting("max_in_flight", 0, "at least 1"));
        }
        self.check_kept()?;
        if self.group.is_empty() || self.group.len() > 64 || self.group.contains('\0') {
            let given = format!("{:?}", self.group);
            return Err(setting("group", given, "from 1 to 64 bytes without NUL"));
        }
        if let Some(name) = self.name.as_ref().filter(|name| name.len() > 64) {
            return Err(setting("name", format!("{name:?}"), "at most 64 bytes"));
        }
        let mut names = BTreeSet::new();
        for handler in &self.handlers {
            let settings = &handler.settings;
            if !names.insert(&settings.name) {
                return Err(StartError::HandlerTwice { name: settings.name.to_string() });
            }
            if settings.concurrency == 0 {
                return Err(setting("concurrency", 0, "at least 1"));
            }
            if settings.max_attempts == 0 {
                return Err(setting("max_attempts", 0, "at least 1"));
            }
        }
        Ok(())
    }
}

/// A store that is open.
struct Opened {
    backend: Backend,
    looker: Box<dyn Looker>,
    #[cfg(feature = "sqlite")]
    file: Option<UserFile>,
}

impl Opened {
    fn of(backend: Backend, looker: Box<dyn Looker>) -> Self {
        Self {
            backend,
            looker,
            #[cfg(feature = "sqlite")]
            file: None,
        }
    }
}

/// Where handlers run by default, and how many threads they share there.
fn own_executor(
    place: &Place,
    threads: usize,
    handlers: usize,
) -> Result<(Arc<dyn Executor>, Option<usize>), StartError> {
    match place {
        #[cfg(feature = "test-kit")]
        Place::Virtual(place) => Ok((Arc::new(crate::runtime::OnTime(place.time.clone())), None)),
        _ => {
            // More than a pool may have, and none, it refuses.
            let with_own = match threads {
                1..=Pool::MAX_THREADS => (threads + handlers).min(Pool::MAX_THREADS),
                other => other,
            };
            Pool::new("lars-durable-pool", with_own)
                .map(|pool| {
                    (Arc::new(pool) as Arc<dyn Executor>, Some(with_own.saturating_sub(handlers)))
                })
                .map_err(|_| setting("threads", threads, "from 1 to 1024"))
        }
    }
}

/// A run began late.
fn log_late(late: &Late<'_>) {
    let Late { who, lateness, .. } = late;
    let because = late.because();
    tracing::warn!(target: "lars_durable", %who, ?lateness, %because, "began late");
}

/// `host:pid`, as far as the host's name is known.
fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok());
    let host: String = host.unwrap_or_default().trim().chars().take(40).collect();
    format!("{host}:{}", std::process::id())
}

fn setting(name: &'static str, given: impl fmt::Display, limit: &'static str) -> StartError {
    StartError::Setting { name, given: given.to_string(), limit }
}

/// What a node has done since it was started, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Timers that this node created.
    pub scheduled: u64,
    /// Timers that were cancelled here before they started.
    pub cancelled: u64,
    /// Runs that were recorded as started.
    pub started: u64,
    /// Runs that ended well.
    pub done: u64,
    /// Runs that are retried.
    pub retried: u64,
    /// Timers that were parked.
    pub parked: u64,
    /// Occurrences that were left out, by the rule for missed runs.
    pub skipped: u64,
    /// Runs that ended too late: a newer run had begun.
    pub stale: u64,
    /// Runs that a crash had interrupted, and that were repeated in quarantine.
    pub quarantined: u64,
    /// Parked timers that this node has deleted, because they
    /// [need not be kept](Builder::max_parked).
    pub pruned: u64,
    /// Timers in memory that wait to be due.
    pub resident: usize,
    /// Runs whose start is recorded and whose end is not.
    pub in_flight: usize,
    /// Bytes of the log (`-wal`) beside an SQLite file; zero elsewhere. Some megabytes are usual.
    /// As long as another connection has a transaction open, it grows with each write.
    pub log_bytes: u64,
}

impl Metrics {
    pub(super) fn of(shared: &Shared) -> Self {
        let counts = shared.counts();
        Self {
            scheduled: counts.scheduled,
            cancelled: counts.cancelled,
            started: counts.started,
            done: counts.done,
            retried: counts.retried,
            parked: counts.parked,
            skipped: counts.skipped,
            stale: counts.stale,
            quarantined: counts.quarantined,
            pruned: counts.pruned,
            resident: counts.resident,
            in_flight: counts.in_flight,
            log_bytes: shared.log_bytes(),
        }
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("place", &self.place)
            .field("group", &self.group)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handler_has_a_thread_of_its_own_however_many_threads_they_share() {
        for (threads, handlers) in [(1, 1), (4, 3), (1_000, 100), (Pool::MAX_THREADS, 3)] {
            let (executor, shared) = own_executor(&Place::Memory, threads, handlers).unwrap();
            let all = executor.as_pool().unwrap().threads();
            assert_eq!(all, shared.unwrap() + handlers, "{threads} and {handlers}");
        }
        for threads in [0, Pool::MAX_THREADS + 1, usize::MAX] {
            let Err(error) = own_executor(&Place::Memory, threads, 3) else { panic!() };
            let expected = format!("threads is {threads}, but it must be from 1 to 1024");
            assert_eq!(error.to_string(), expected);
        }
    }
}
