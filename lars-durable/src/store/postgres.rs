//! Timers in a PostgreSQL database, shared by many nodes.
//!
//! Each lane of the engine has a store of its own: a session, used by one thread, which turns a
//! runtime of its own. So no thread of a user ever waits inside a client, and every transaction has
//! a deadline that does not depend on the server.
//!
//! A session never runs beside its predecessor. It holds an advisory lock of its lane, which the
//! server releases only when the earlier session is over. So when a batch whose answer was lost is
//! sent again, the first one is committed or never will be.

// In the order in which they may use each other.
mod values;

mod errors;

mod connect;

mod session;

mod rows;

mod floor;

mod transaction;

mod keep;

mod looks;

mod loads;

mod waves;

mod finishes;
mod starts;
mod unknown;

mod keys;

mod history;
mod parked;
mod writes;

mod ids;

mod selects;

mod completion;
mod submission;

mod schema;

mod bell;

use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

pub(crate) use self::bell::start_bell;
pub(crate) use self::completion::completion;
pub(crate) use self::connect::{Connect, Tls};
use self::errors::Failure;
use self::floor::Floors;
use self::session::Session;
pub(crate) use self::submission::{SUBMISSION, submission};
use self::transaction::Transaction;
use super::{Committed, Looker, Outside, Request, Store, StoreError, Write, Written};
use crate::error::StartError;
use crate::model::Look;
use crate::sync::Arc;
use crate::time::{Clock, Micros, Mono, MonoClock, Timestamp, micros};

/// How often a transaction that conflicted with another is tried before the engine hears of it.
const TRIES: u32 = 8;

/// How long a session may take to be opened, at least: that is many round trips, and what is opened
/// then stays.
const OPENING: Duration = Duration::from_secs(10);

/// How long a lane waits for a row that somebody holds, before it leaves that row alone.
///
/// Each statement takes rows in the order of their identities, and new keys in their own order, so
/// that no two statements wait for each other. Two transactions may, because each has several. To
/// take all rows of a batch before its first statement would cost each batch something, and this is
/// rare. So whoever has waited for so long gives up, before the server looks for a deadlock (it
/// does so after a second, unless `deadlock_timeout` says otherwise), and goes around the other.
const LOCK_PATIENCE: Duration = Duration::from_millis(250);

/// How long a lane leaves alone what others hold, after it has waited for a row in vain: it waits
/// only once in so long.
const AROUND: Micros = Micros::SECOND.times(2);

/// Where the database is, and how a node uses it.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) group: Arc<str>,
    /// How long a transaction may take.
    pub(crate) limit: Duration,
    /// How long a transaction may be open while nothing is asked of it. A frozen process holds its
    /// rows no longer than that.
    pub(crate) idle_limit: Duration,
    pub(crate) notifications: bool,
    /// The server refuses every write.
    pub(crate) read_only: bool,
    /// Instead of the database's clock; for tests.
    pub(crate) clock: Option<Clock>,
}

impl Place {
    /// `limit` is how long a transaction may take.
    pub(crate) fn new(
        parameters: &str,
        connect: Arc<dyn Connect>,
        group: &str,
        limit: Duration,
        notifications: bool,
    ) -> Result<Self, StartError> {
        let mut config: Config = parameters.parse().map_err(|error: tokio_postgres::Error| {
            StartError::Database { reason: errors::words(&error) }
        })?;
        // What the user has set stays.
        if config.get_application_name().is_none() {
            config.application_name("lars-durable");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(limit.max(OPENING));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(limit);
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config.keepalives_idle(limit.max(Duration::from_secs(1)));
        let (group, idle_limit, clock) = (group.into(), limit, None);
        let read_only = false;
        Ok(Self { config, connect, group, limit, idle_limit, notifications, read_only, clock })
    }

    /// The same for one who only looks, with `parameters` that say whether a standby will do: it
    /// does unless they say otherwise.
    pub(crate) fn for_looks(mut self, parameters: &str) -> Result<Self, StartError> {
        let given: Config = parameters.parse().map_err(|error: tokio_postgres::Error| {
            StartError::Database { reason: errors::words(&error) }
        })?;
        self.config.target_session_attrs(given.get_target_session_attrs());
        self.read_only = true;
        Ok(self)
    }
}

/// One lane's session.
pub(crate) struct PostgresStore {
    place: Place,
    /// Made by the thread that uses it. Shared, so that a call can drive it while `self` is
    /// borrowed.
    runtime: Option<Arc<Runtime>>,
    session: Option<Session>,
    /// Names the lock of this lane.
    lock: i64,
    /// The last batch of calls that is known to be committed.
    last_batch: Option<(u128, i64)>,
    floors: Floors,
    /// Until then, what others hold is left alone at once.
    around_until: Mono,
    clock: MonoClock,
}

impl PostgresStore {
    pub(crate) fn new(place: Place) -> Self {
        let lock = fastrand::i64(..);
        Self {
            place,
            runtime: None,
            session: None,
            lock,
            last_batch: None,
            floors: Floors::NONE,
            around_until: Mono::MIN,
            clock: MonoClock::start(),
        }
    }

    /// Creates or upgrades the schema, and checks that the server is suitable. Returns what the
    /// database's clock shows.
    pub(crate) fn prepare(place: &Place) -> Result<Timestamp, StartError> {
        Self::prepare_with(place, &schema::UPGRADES)
    }

    /// With other scripts; for tests.
    pub(crate) fn prepare_with(place: &Place, upgrades: &[&str]) -> Result<Timestamp, StartError> {
        Self::begin(place, schema::prepare(place, upgrades))
    }

    /// Whether the group may be shared by a node with these handlers.
    pub(crate) fn check_strangers(place: &Place, handlers: &[&str]) -> Result<(), StartError> {
        Self::begin(place, schema::check_strangers(place, handlers))
    }

    /// Whether there is what can be looked at: a suitable server, the schema, the group. Changes
    /// nothing.
    pub(crate) fn check(place: &Place) -> Result<(), StartError> {
        Self::begin(place, schema::check(place, &schema::UPGRADES))
    }

    fn begin<T: Send>(
        place: &Place,
        work: impl Future<Output = Result<T, StartError>> + Send,
    ) -> Result<T, StartError> {
        let limit = place.limit.max(Duration::from_secs(10)) * 3;
        let work = async {
            tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
                let reason = format!("no answer within {limit:?}");
                Err(StartError::Database { reason })
            })
        };
        // The caller's thread may be one of a runtime, which must not turn another.
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| runtime()?.block_on(work));
            worker.join().unwrap_or_else(|_| {
                let reason = "a defect: the schema could not be prepared".into();
                Err(StartError::Database { reason })
            })
        })
    }

    /// Makes sure that there is a session.
    async fn open(&mut self) -> Result<(), Failure> {
        if self.session.is_none() {
            let limit = self.place.limit.max(OPENING);
            let opened = tokio::time::timeout(limit, Session::open(&self.place, self.lock)).await;
            self.session = Some(opened.unwrap_or_else(|_| Err(Failure::late(limit)))?);
        }
        Ok(())
    }

    /// The runtime of the thread that uses this.
    fn runtime(&mut self) -> Result<Arc<Runtime>, StartError> {
        if let Some(runtime) = &self.runtime {
            return Ok(Arc::clone(runtime));
        }
        Ok(Arc::clone(self.runtime.insert(Arc::new(runtime()?))))
    }

    async fn read_once<T>(
        &self,
        ask: &impl AsyncFn(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(session) = &self.session else { return Err(Failure::unfit("no session")) };
        let mut transaction = Transaction::begin_look(session, &self.place.group).await?;
        if let Some(clock) = &self.place.clock {
            transaction.clock = clock();
        }
        let answer = ask(&transaction).await?;
        session.rollback().await?;
        Ok(answer)
    }

    /// Asks in a transaction in which the server refuses every write.
    fn read<T>(
        &mut self,
        ask: impl AsyncFn(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let failed = |error: StartError| StoreError::nothing_done(error.to_string());
        let runtime = self.runtime().map_err(failed)?;
        // A session that has ended meanwhile is opened again, once.
        for last in [false, true] {
            let patience = self.place.limit;
            let result = runtime.block_on(async {
                if let Err(failure) = self.open().await {
                    return Ok(Err(failure));
                }
                tokio::time::timeout(patience, self.read_once(&ask)).await
            });
            match result.unwrap_or_else(|_| Err(Failure::late(patience))) {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    // Nothing is lost with it, and it need not be rolled back.
                    self.drop_session();
                    if last || !failure.was_idle() {
                        return Err(StoreError::nothing_done(failure.into_reason()));
                    }
                }
            }
        }
        unreachable!("the second try returns")
    }

    async fn attempt(
        &mut self,
        requests: &[Request],
        around_locks: bool,
    ) -> Result<Committed, Failure> {
        let Some(session) = &self.session else { return Err(Failure::unfit("no session")) };
        let (group, channel) = (&*self.place.group, self.place.notifications);
        let mut transaction =
            Transaction::begin(session, group, channel, self.last_batch, around_locks).await?;
        if let Some(clock) = &self.place.clock {
            transaction.clock = clock();
        }
        let replies = transaction.carry_out(requests, &mut self.floors).await?;
        let clock = transaction.clock;
        self.last_batch = transaction.commit().await?;
        Ok(Committed { clock, replies })
    }

    /// The session is not to be used again.
    fn drop_session(&mut self) {
        self.session = None;
    }
}

impl Store for PostgresStore {
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError> {
        let failed = |error: StartError| StoreError::nothing_done(error.to_string());
        let runtime = self.runtime().map_err(failed)?;
        let now = self.clock.now();
        let mut around_locks = now < self.around_until;
        let mut reopened = false;
        let mut tries = 0;
        loop {
            tries += 1;
            let limit = self.place.limit;
            let floors = self.floors;
            let result = runtime.block_on(async {
                if let Err(failure) = self.open().await {
                    return Ok(Err(failure));
                }
                tokio::time::timeout(limit, self.attempt(requests, around_locks)).await
            });
            let committing = self.session.as_ref().is_some_and(Session::is_committing);
            let failure = match result {
                Ok(Ok(committed)) => return Ok(committed),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::late(limit),
            };
            self.floors.undo(&floors);
            if failure.ends_session() {
                self.drop_session();
            } else if let Some(session) = &self.session {
                // Whatever the failure says: a session that cannot roll back is over.
                let rolled_back = runtime
                    .block_on(async { tokio::time::timeout(limit, session.rollback()).await });
                if !matches!(rolled_back, Ok(Ok(()))) {
                    self.drop_session();
                }
            }
            let unknown = committing && failure.leaves_commit_open();
            let redraw = failure.has_foreign_ids();
            if unknown {
                self.last_batch = None;
            } else if redraw {
                // The same again would fail again.
            } else if failure.is_locked() && !around_locks {
                around_locks = true;
                self.around_until = now + AROUND;
                continue;
            } else if failure.is_race() && tries < TRIES {
                continue;
            } else if failure.was_idle() && !reopened {
                // The server ended the session while nothing was asked of it.
                reopened = true;
                continue;
            }
            return Err(StoreError { reason: failure.into_reason(), unknown, redraw });
        }
    }
}

impl Looker for PostgresStore {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        self.read(async |transaction| looks::look(transaction, limit).await)
    }
}

impl Outside for PostgresStore {
    fn answer(&mut self, question: &Write) -> Result<Written, StoreError> {
        self.read(async |transaction| transaction.write(question).await)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Tells the server, so that it releases the lock at once.
        if let (Some(session), Some(runtime)) = (self.session.take(), &self.runtime) {
            let farewell = session.close();
            let limit = Duration::from_millis(500);
            runtime.block_on(async { tokio::time::timeout(limit, farewell).await.ok() });
        }
    }
}

fn runtime() -> Result<Runtime, StartError> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// A time in the unit of the server's settings.
fn milliseconds(limit: Duration) -> i64 {
    (micros(limit) / 1_000).max(1)
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what the user gave: it may hold a password.
        f.debug_struct("Place").field("group", &self.group).finish_non_exhaustive()
    }
}
