//! The tables, and how a file comes to have them.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::open::sqlite_error;
use crate::error::StartError;
use crate::model::TimerId;
use crate::time::{Micros, Timestamp};

/// One script for each version of the schema, each from the version before it. Scripts that were
/// released never change.
const UPGRADES: [&str; 3] =
    [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

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
    check_encoding(&transaction, path)?;
    for (number, script) in (1..).zip(upgrades) {
        if number > found {
            transaction.execute_batch(script).map_err(failed)?;
        }
    }
    check_epoch(&transaction, path, 1)?;
    let meta = transaction.query_row(OPEN, params![known, group], Meta::of).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(meta)
}

/// Whether the schema is there, and the one that this release reads. Changes nothing.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), StartError> {
    let known = i64::try_from(UPGRADES.len()).unwrap_or(i64::MAX);
    let found = version(connection).map_err(|error| sqlite_error(path, &error))?;
    if found > known {
        return Err(StartError::NewerSchema { path: path.into(), found, known });
    }
    let reason = match found {
        0 => "it has no durable timers".to_owned(),
        _ if found < known => format!(
            "its schema has version {found}, but {known} is needed, and who only looks upgrades \
             nothing"
        ),
        _ => return Ok(()),
    };
    Err(StartError::Open { path: path.into(), reason })
}

/// Lengths are counted in bytes of UTF-8, and keys are in their order.
fn check_encoding(connection: &Connection, path: &Path) -> Result<(), StartError> {
    let asked = connection.pragma_query_value(None, "encoding", |row| row.get::<_, String>(0));
    let encoding = asked.map_err(|error| sqlite_error(path, &error))?;
    if encoding == "UTF-8" {
        return Ok(());
    }
    let reason = format!("the file's encoding is {encoding}, but it must be UTF-8");
    Err(StartError::Open { path: path.into(), reason })
}

const OPEN: &str = "UPDATE lars_meta SET version = ?1, epoch = epoch + 1, grp = coalesce(?2, grp)
     RETURNING epoch, next_id";

const META: &str = "SELECT epoch, next_id FROM lars_meta";

pub(super) fn meta(connection: &Connection) -> Result<Meta, rusqlite::Error> {
    connection.prepare_cached(META)?.query_row([], Meta::of)
}

/// The greatest epoch: a fence has so many bits for it that it stays positive.
const MAX_EPOCH: i64 = (1 << 31) - 1;

/// Whether the file has `more` epochs left.
fn check_epoch(connection: &Connection, path: &Path, more: i64) -> Result<(), StartError> {
    let epoch = "SELECT epoch FROM lars_meta";
    let epoch: i64 = connection
        .query_row(epoch, [], |row| row.get(0))
        .map_err(|error| sqlite_error(path, &error))?;
    if (0..=MAX_EPOCH - more).contains(&epoch) {
        return Ok(());
    }
    let reason = format!(
        "it was opened, or restored, too often: its epoch is {epoch}, {more} more are needed, and \
         the greatest is {MAX_EPOCH}; begin with a new file"
    );
    Err(StartError::Open { path: path.into(), reason })
}

/// More openings than there were since the backup.
const MORE_EPOCHS: i64 = 1 << 20;

/// More identities than were drawn since the backup, at a thousand a second in 34 years.
const MORE_IDS: i64 = 1 << 40;

/// The beginning of 2020, in seconds since 1970.
const SINCE: i64 = 1_577_836_800;

const RESTORED: &str = "UPDATE lars_meta SET store = randomblob(16), epoch = max(epoch, ?1) + ?2,
            next_id = max(next_id, ?1 << 20) + ?3";

/// See [`SqliteStore::declare_restored`](super::SqliteStore::declare_restored).
///
/// One backup may be restored again and again, so what is reached by a restore grows with the time:
/// by an epoch a second, and a million identities.
pub(super) fn restored(
    connection: &Connection,
    path: &Path,
    now: Timestamp,
) -> Result<(), StartError> {
    check_epoch(connection, path, MORE_EPOCHS)?;
    let seconds = (now.0 / Micros::SECOND.0 - SINCE).clamp(0, MAX_EPOCH - MORE_EPOCHS);
    let restored = connection.execute(RESTORED, params![seconds, MORE_EPOCHS, MORE_IDS]);
    restored.map(drop).map_err(|error| sqlite_error(path, &error))
}

/// The schema's version; zero for a file that has none.
fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let tables = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'lars_meta'";
    match connection.query_row(tables, [], |_| Ok(())).optional()? {
        Some(()) => connection.query_row("SELECT version FROM lars_meta", [], |row| row.get(0)),
        None => Ok(0),
    }
}
