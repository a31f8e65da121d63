//! Timers in an SQLite file.
//!
//! One process owns the file, and its group is one bucket. So there are no rows for nodes and
//! buckets: the process that has the file open is the owner, and each opening adds one to the
//! epoch. A row with a fence of an older epoch was running when its process died.
//!
//! Membership is in memory, and timers are in tables. A transaction may change both, so what it did
//! to the membership is undone when it does not commit.

mod rows;

mod log;
mod looks;
mod membership;
mod open;
mod others;
mod owner;
mod schema;
mod verbs;
mod writes;

mod history;
mod selects;

mod reader;
mod transactions;

mod outside;

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use self::log::Log;
use self::membership::Membership;
use self::others::Others;
pub(crate) use self::outside::OutsideFile;
use self::owner::OwnedFile;
use self::reader::Place;
pub(crate) use self::reader::Reader;
use self::schema::Meta;
pub(crate) use self::transactions::UserFile;
use super::{Committed, Looker, Reply, Request, Store, StoreError, Write};
use crate::error::StartError;
use crate::model::{BucketNo, Look, TimerId};
use crate::sync::Arc;
use crate::time::{Clock, system_clock};

/// How often a commit reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// With every transaction: nothing that was accepted is lost when the power fails.
    #[default]
    Full,
    /// With every checkpoint: a crash of the process loses nothing, but a power cut may lose the
    /// last transactions. The file stays sound.
    Normal,
}

/// An open file.
pub(crate) struct SqliteStore {
    connection: Connection,
    group: Arc<str>,
    epoch: u32,
    membership: Membership,
    /// On a connection of its own.
    reader: Reader,
    clock: Clock,
    /// Another process has opened the file since, and owns it.
    lost: bool,
    others: Others,
    log: Log,
    /// How long a transaction waits for another connection at most.
    waits: Duration,
    /// Behind the connection, so that it is closed first.
    file: OwnedFile,
}

/// Why nothing is done any more.
const GONE: &str = "the file, or its -wal, was deleted, moved or replaced";

/// The one bucket.
const BUCKET: BucketNo = 0;

impl SqliteStore {
    /// Opens the file, makes or upgrades its schema, and becomes its owner. From then on no
    /// transaction waits for another connection for longer than `call_timeout`.
    pub(crate) fn open(
        path: &Path,
        group: &str,
        synchronous: Synchronous,
        call_timeout: Duration,
    ) -> Result<Self, StartError> {
        let mut store = Self::open_with(path, None, group, synchronous, system_clock())?;
        store.waits = open::BUSY.min(call_timeout);
        store
            .connection
            .busy_timeout(store.waits)
            .map_err(|error| open::sqlite_error(path, &error))?;
        Ok(store)
    }

    /// The file is a restored backup: it gets another identity, and fences and identities of timers
    /// that are greater than those of any life since the backup.
    pub(crate) fn declare_restored(path: &Path) -> Result<(), StartError> {
        let file = OwnedFile::take_existing(path)?;
        let mut connection = open::connect(file.path(), None, Synchronous::Full)?;
        schema::prepare(&mut connection, path, None)?;
        schema::restored(&connection, path, system_clock()())
    }

    /// For transactions of users.
    pub(crate) fn user_file(&self) -> UserFile {
        let (group, path) = (Arc::clone(&self.group), self.file.path().to_owned());
        UserFile { group, path, identity: self.file.identity() }
    }

    /// For looks on another thread.
    pub(crate) fn looker(&self) -> Reader {
        self.reader.clone()
    }

    pub(crate) fn clock(&self) -> Clock {
        Arc::clone(&self.clock)
    }

    /// With another clock, and another VFS of SQLite.
    pub(crate) fn open_with(
        path: &Path,
        vfs: Option<&str>,
        group: &str,
        synchronous: Synchronous,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let mut file = OwnedFile::take(path)?;
        let mut connection = open::connect(file.path(), vfs, synchronous)?;
        let Meta { epoch, next_id } = schema::prepare(&mut connection, path, Some(group))?;
        file.keep_log();
        let (group, membership) = (Arc::from(group), Membership::none());
        let place = Place {
            path: file.path().to_owned(),
            vfs: vfs.map(str::to_owned),
            identity: file.identity(),
        };
        let (here, shown) = (Arc::clone(&clock), membership.clone());
        let reader = Reader::new(place, Arc::clone(&group), epoch, here, shown);
        Ok(Self {
            connection,
            group,
            epoch,
            membership,
            reader,
            clock,
            lost: false,
            others: Others::since(next_id),
            log: Log::new(file.log()),
            waits: open::BUSY,
            file,
        })
    }

    /// What is written now must be read by whoever opens the file next. Asked in each transaction.
    fn check_owner(&mut self) -> Result<(), String> {
        if !self.file.is_there() {
            return Err(GONE.into());
        }
        let Meta { epoch, next_id } =
            schema::meta(&self.connection).map_err(|error| reason(&error))?;
        self.others.look(next_id);
        if epoch != self.epoch {
            self.lost = true;
            return Err("another process has opened the file since, and owns it now".into());
        }
        Ok(())
    }

    /// At most `limit` of those that others have moved, each once. Waits for nobody: what only
    /// reads is to be answered while another connection holds the file.
    fn take_moved(&self, limit: usize) -> Result<Vec<TimerId>, rusqlite::Error> {
        if !verbs::were_moved(&self.connection)? {
            return Ok(Vec::new());
        }
        self.connection.busy_timeout(Duration::ZERO)?;
        let moved = verbs::take_moved(&self.connection, self.epoch, limit);
        self.connection.busy_timeout(self.waits)?;
        moved
    }

    fn commit(&self) -> Result<(), rusqlite::Error> {
        #[cfg(test)]
        crate::failpoint::may_die("before-commit");
        self.connection.execute_batch("COMMIT")?;
        #[cfg(test)]
        crate::failpoint::may_die("after-commit");
        Ok(())
    }

    /// What was done, and the next identity that is free after it.
    fn carry_out(&mut self, requests: &[Request]) -> Result<(Committed, TimerId), rusqlite::Error> {
        let clock = (self.clock)();
        let mut replies = Vec::with_capacity(requests.len());
        let mut repeats = false;
        for request in requests {
            replies.push(match request {
                Request::Keep(keep) => {
                    let paused = || verbs::paused(&self.connection, &self.group);
                    self.membership.keep(keep, self.epoch, clock, paused)?
                }
                // Reads can be carried out again, and without a write nothing is flushed.
                Request::Batch { .. } if !changes_something(requests) => Reply::Batched,
                Request::Batch { token, .. } => {
                    repeats = verbs::is_last_batch(&self.connection, *token)?;
                    Reply::Batched
                }
                request => {
                    let owned = self.membership.owns_bucket.then_some(self.epoch);
                    let verbs = verbs::Verbs {
                        connection: &self.connection,
                        group: &self.group,
                        by_owner: true,
                        owned,
                        repeats,
                        now: clock,
                    };
                    verbs.carry_out(request)?
                }
            });
        }
        Ok((Committed { clock, replies }, schema::meta(&self.connection)?.next_id))
    }
}

impl Store for SqliteStore {
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError> {
        // What is about the node alone touches no table.
        let before = self.membership.clone();
        let nothing_done = |error| StoreError::nothing_done(reason(&error));
        // What only reads waits for nobody who writes.
        let begin = if requests.iter().any(writes) { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.connection.execute_batch(begin).map_err(nothing_done)?;
        if let Err(reason) = self.check_owner() {
            let _ = self.connection.execute_batch("ROLLBACK");
            return Err(StoreError::nothing_done(reason));
        }
        let result = self.carry_out(requests);
        match result {
            Ok((committed, next_id)) => match self.commit() {
                Ok(()) => {
                    self.others.drew(next_id);
                    if requests.iter().any(|request| matches!(request, Request::Keep(_))) {
                        self.reader.show(self.membership.clone());
                    }
                    Ok(committed)
                }
                Err(error) => {
                    self.membership = before;
                    // Still inside: it was not committed, and is now rolled back. A full disk takes
                    // no commit record either. After anything else, one may be in the file.
                    let inside = !self.connection.is_autocommit();
                    let rolled_back = inside && self.connection.execute_batch("ROLLBACK").is_ok();
                    let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
                    let unknown = !(rolled_back || full);
                    Err(StoreError { unknown, ..nothing_done(error) })
                }
            },
            Err(error) => {
                self.membership = before;
                // SQLite itself rolls back after some errors; then this one says that there is
                // nothing to do.
                let _ = self.connection.execute_batch("ROLLBACK");
                Err(nothing_done(error))
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.lost
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn log_bytes(&mut self) -> u64 {
        self.log.tend(&self.connection, self.waits)
    }

    fn made_by_others(&mut self, limit: usize) -> Vec<TimerId> {
        // If the file cannot be read now, the next transaction finds them, or the next look.
        if self.others.is_empty()
            && let Ok(Meta { next_id, .. }) = schema::meta(&self.connection)
        {
            self.others.look(next_id);
        }
        if self.others.is_empty() {
            return Vec::new();
        }
        match self.take_moved(limit) {
            Ok(moved) if moved.is_empty() => self.others.take(limit),
            // With the next look, those that they have made.
            Ok(moved) => moved,
            // With the next look, these too.
            Err(_) => Vec::new(),
        }
    }
}

impl Looker for SqliteStore {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        self.reader.look(limit)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.reader.close();
    }
}

/// Whether callers ask for more than to be shown something.
fn changes_something(requests: &[Request]) -> bool {
    requests.iter().any(|request| matches!(request, Request::Write(_)) && writes(request))
}

/// Whether it may change a row.
fn writes(request: &Request) -> bool {
    match request {
        Request::Write(Write::Select { act, .. }) => act.changes(),
        Request::Write(write) => !matches!(write, Write::Get { .. } | Write::Runs { .. }),
        // With a write that follows.
        Request::Batch { .. } => false,
        Request::Keep(_) | Request::Load { .. } | Request::Read { .. } => false,
        Request::Ids { .. }
        | Request::Start { .. }
        | Request::Finish(_)
        | Request::PutOff { .. }
        | Request::Park { .. }
        | Request::Forget { .. }
        | Request::Record(_)
        | Request::Prune { .. } => true,
    }
}

/// SQLite's message, with advice where people can help.
fn reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => format!("the disk is full ({error})"),
        Some(ErrorCode::ReadOnly) => format!("the file cannot be written ({error})"),
        Some(ErrorCode::DatabaseBusy) => {
            format!("another connection holds the file for too long ({error})")
        }
        _ => error.to_string(),
    }
}
