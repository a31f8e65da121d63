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
use crate::store::History;

/// Ends the session that holds the lock of a lane. It may have been cut off without the server's
/// knowing. Behind a pooler, the session that an earlier connection had is another client's by now,
/// without the lock, and is left alone.
const END_HOLDER: &str = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_locks
      WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND classid = (($1::bigint >> 32) & 4294967295)::oid
        AND objid = ($1::bigint & 4294967295)::oid
        AND database = (SELECT oid FROM pg_catalog.pg_database
                         WHERE datname = pg_catalog.current_database())";

/// The lock, the process and the history.
const LOCK: &str = "SELECT pg_catalog.pg_backend_pid(), lars.history()
       FROM pg_catalog.pg_advisory_lock($1)";

/// See the module's documentation.
pub(super) struct Session {
    client: Client,
    /// By their text.
    statements: RefCell<HashMap<&'static str, Statement>>,
    /// Turns the client; ends when that is dropped.
    driver: JoinHandle<()>,
    pid: i32,
    history: History,
    /// The commit of the transaction under way has been sent.
    committing: Cell<bool>,
}

impl Session {
    /// Connects, ends an earlier session of this lane if there is one, and waits until the server
    /// has released its `lock`.
    pub(super) async fn open(place: &Place, lock: i64) -> Result<Self, Failure> {
        let (client, messages) = open_client(place).await?;
        let driver = tokio::spawn(async move {
            let mut messages = messages;
            // Warnings of the server say nothing that an answer does not.
            while let Some(Ok(_)) = messages.next().await {}
        });
        client.query(END_HOLDER, &[&lock]).await?;
        let locked = client.query_one(LOCK, &[&lock]).await.map_err(|error| {
            let failure = Failure::from(&error);
            match failure.is_locked() {
                true => Failure::unfit("an earlier session has not ended yet"),
                false => failure,
            }
        })?;
        let (pid, history) = (locked.get(0), locked.get(1));
        let (statements, committing) = (RefCell::default(), Cell::new(false));
        Ok(Self { client, statements, driver, pid, history, committing })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Of the server: it stays the same while the session lives.
    pub(super) fn history(&self) -> History {
        self.history
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
