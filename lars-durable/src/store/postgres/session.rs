//! One connection, set up for one lane.
//!
//! It belongs to one thread, and carries one transaction at a time. The client is turned by a task
//! of the same thread's runtime, so nothing moves while that thread is elsewhere.
//!
//! Parameters are hidden from the client's logs, and statements are prepared once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use futures::StreamExt;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::connect::Messages;
use super::errors::Failure;
use super::values::Hidden;
use super::{LOCK_PATIENCE, Place, milliseconds};

/// A session, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionId {
    pid: i32,
    /// When it began: process ids come again.
    started: String,
}

/// See the module's documentation.
pub(super) struct Session {
    client: Client,
    /// By their text.
    statements: RefCell<HashMap<&'static str, Statement>>,
    /// Turns the client; ends when that is dropped.
    driver: JoinHandle<()>,
    id: SessionId,
    /// The commit of the transaction under way has been sent.
    committing: Cell<bool>,
}

impl Session {
    /// Connects, ends the `earlier` session of this lane, and waits until the server has released
    /// its lock.
    pub(super) async fn open(
        place: &Place,
        earlier: Option<&SessionId>,
        lock: Option<i64>,
    ) -> Result<Self, Failure> {
        let (client, messages) = open_client(place).await?;
        let driver = tokio::spawn(async move {
            let mut messages = messages;
            // Warnings of the server say nothing that an answer does not.
            while let Some(Ok(_)) = messages.next().await {}
        });
        let id = identify(&client).await?;
        if let Some(SessionId { pid, started }) = earlier {
            let end = "SELECT pg_catalog.pg_terminate_backend(pid)
                         FROM pg_catalog.pg_stat_activity
                        WHERE pid = $1 AND backend_start::text = $2";
            client.query(end, &[pid, started]).await?;
        }
        if let Some(lock) = lock {
            let locked = client.query("SELECT pg_catalog.pg_advisory_lock($1)", &[&lock]).await;
            if let Err(error) = locked {
                let failure = Failure::from(&error);
                if failure.is_locked() {
                    return Err(Failure::unfit("an earlier session has not ended yet"));
                }
                return Err(failure);
            }
        }
        let statements = RefCell::default();
        Ok(Self { client, statements, driver, id, committing: Cell::new(false) })
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(super) fn pid(&self) -> i32 {
        self.id.pid
    }

    /// Whether a commit was sent, and not answered: then only the server knows.
    pub(super) fn is_committing(&self) -> bool {
        self.committing.get()
    }

    pub(super) fn set_committing(&self, committing: bool) {
        self.committing.set(committing);
    }

    /// Runs a statement, which is prepared once.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let known = self.statements.borrow().get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare(sql).await?;
                self.statements.borrow_mut().insert(sql, statement.clone());
                statement
            }
        };
        let hidden: Vec<Hidden<'_>> = parameters.iter().map(|it| Hidden(*it)).collect();
        let hidden: Vec<&(dyn ToSql + Sync)> = hidden.iter().map(|it| it as _).collect();
        self.client.query(&statement, &hidden).await
    }

    /// Statements without parameters, in one round trip.
    pub(super) async fn execute(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }

    pub(super) async fn rollback(&self) -> Result<(), Error> {
        self.set_committing(false);
        self.execute("ROLLBACK").await
    }

    /// Says goodbye, and waits until the connection has ended.
    pub(super) async fn close(self) {
        drop(self.client);
        // It ends by itself; a panic in it is gone with it.
        let _ = self.driver.await;
    }
}

/// A connection with the settings that every session of a node has.
pub(super) async fn open_client(place: &Place) -> Result<(Client, Messages), Failure> {
    let (client, mut messages) = place.connect.connect(&place.config).await?;
    let limit = milliseconds(place.limit);
    let (idle, locks) = (milliseconds(place.idle_limit), milliseconds(LOCK_PATIENCE));
    let looks = if place.read_only { "SET default_transaction_read_only = on;" } else { "" };
    // A frozen process holds no row for longer than its lease. Every commit is flushed. A plan that
    // is made while the tables are empty has to be right when they are full: see `by_id`.
    let settings = format!(
        "SET statement_timeout = {limit};
         SET lock_timeout = {locks};
         SET idle_in_transaction_session_timeout = {idle};
         {looks}
         SET search_path = pg_catalog;
         SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_nestloop = off;
         SET jit = off;
         SELECT pg_catalog.set_config('synchronous_commit', 'on', false)
          WHERE pg_catalog.current_setting('synchronous_commit') = 'off'"
    );
    {
        let configure = client.batch_execute(&settings);
        tokio::pin!(configure);
        loop {
            tokio::select! {
                done = &mut configure => {
                    done?;
                    break;
                }
                message = messages.next() => match message {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(Failure::unfit("the server closed the connection")),
                }
            }
        }
    }
    Ok((client, messages))
}

/// By what the server can be asked to end this session.
async fn identify(client: &Client) -> Result<SessionId, Failure> {
    let sql = "SELECT pid, backend_start::text FROM pg_catalog.pg_stat_activity
                WHERE pid = pg_catalog.pg_backend_pid()";
    let row = client.query_one(sql, &[]).await?;
    Ok(SessionId { pid: row.get(0), started: row.get(1) })
}
