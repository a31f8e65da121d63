//! The tables, and how a file comes to have them.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::open::sqlite_error;
use crate::error::StartError;
use crate::model::TimerId;

/// One script for each version of the schema, each from the version before it. Scripts that were
/// released never change.
const UPGRADES: [&str; 1] = [include_str!("schema_1.sql")];

/// What changes while a file is open, and who changes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meta {
    /// How often the file was opened.
    pub(super) epoch: u32,
    /// Identities below it are taken.
    pub(super) next_id: TimerId,
}

impl Meta {
    fn of(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self { epoch: row.get(0)?, next_id: row.get(1)? })
    }
}

/// Makes or upgrades the schema, and counts this opening. Timers that others make are of this
/// group, if there is one.
pub(super) fn prepare(
    connection: &mut Connection,
    path: &Path,
    group: Option<&str>,
) -> Result<Meta, StartError> {
    prepare_with(connection, path, group, &UPGRADES)
}

fn prepare_with(
    connection: &mut Connection,
    path: &Path,
    group: Option<&str>,
    upgrades: &[&str],
) -> Result<Meta, StartError> {
    let known = i64::try_from(upgrades.len()).unwrap_or(i64::MAX);
    let failed = |error| sqlite_error(path, &error);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = version(&transaction).map_err(failed)?;
    if found > known {
        return Err(StartError::NewerSchema { path: path.into(), found, known });
    }
    for (number, script) in (1..).zip(upgrades) {
        if number > found {
            transaction.execute_batch(script).map_err(failed)?;
        }
    }
    let meta = transaction.query_row(OPEN, params![known, group], Meta::of).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(meta)
}

const OPEN: &str = "UPDATE lars_meta SET version = ?1, epoch = epoch + 1, grp = coalesce(?2, grp)
     RETURNING epoch, next_id";

const META: &str = "SELECT epoch, next_id FROM lars_meta";

pub(super) fn meta(connection: &Connection) -> Result<Meta, rusqlite::Error> {
    connection.prepare_cached(META)?.query_row([], Meta::of)
}

/// More openings than there were since the backup; a file can be restored two thousand times.
const RESTORED: &str = "UPDATE lars_meta SET store = randomblob(16), epoch = epoch + 1048576";

/// See [`SqliteStore::declare_restored`](super::SqliteStore::declare_restored).
pub(super) fn restored(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch(RESTORED)
}

/// The schema's version; zero for a file that has none.
fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let tables = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'lars_meta'";
    match connection.query_row(tables, [], |_| Ok(())).optional()? {
        Some(()) => connection.query_row("SELECT version FROM lars_meta", [], |row| row.get(0)),
        None => Ok(0),
    }
}
