//! Becoming the owner of a file, and opening it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Synchronous;
use crate::error::StartError;

/// How long a transaction waits for another connection, such as that of the `sqlite3` shell, at
/// most.
const BUSY: Duration = Duration::from_secs(5);

/// Locks `<path>.lock`. The system releases the lock when the process ends, however it ends.
pub(super) fn lock(path: &Path) -> Result<File, StartError> {
    let lock_path = lock_path(path);
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&lock_path)
        .map_err(|error| io_error(path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(StartError::Owned { path: path.into(), owner: owner.trim().into() });
        }
        Err(TryLockError::Error(error)) => return Err(io_error(path, &error)),
    }
    // For people, and for the error above; nothing depends on it.
    let _ = file.set_len(0).and_then(|()| file.rewind());
    let _ = write!(file, "process {}", std::process::id());
    Ok(file)
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

pub(super) fn io_error(path: &Path, error: &io::Error) -> StartError {
    let (path, reason) = (path.into(), error.to_string());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StartError::ReadOnly { path, reason }
        }
        _ => StartError::Open { path, reason },
    }
}

pub(super) fn connect(
    path: &Path,
    vfs: Option<&str>,
    synchronous: Synchronous,
) -> Result<Connection, StartError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => Connection::open_with_flags(path, flags),
    };
    let connection = connection.map_err(|error| sqlite_error(path, &error))?;
    let synchronous = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    configure(&connection, synchronous).map_err(|error| sqlite_error(path, &error))?;
    Ok(connection)
}

fn configure(connection: &Connection, synchronous: &str) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)
}

/// Transactions wait for another connection up to this limit, if it is shorter.
pub(super) fn limit_waits(connection: &Connection, limit: Duration) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(BUSY.min(limit))
}

pub(super) fn sqlite_error(path: &Path, error: &rusqlite::Error) -> StartError {
    let (path, reason) = (path.to_owned(), super::reason(error));
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StartError::NotADatabase { path, reason }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StartError::ReadOnly { path, reason }
        }
        _ => StartError::Open { path, reason },
    }
}
