//! Opening a file.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Synchronous;
use crate::error::StartError;

/// How long a transaction waits for another connection, such as that of the `sqlite3` shell, at
/// most.
pub(super) const BUSY: Duration = Duration::from_secs(5);

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
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
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
    connection.pragma_update(None, "synchronous", synchronous)?;
    // On macOS a plain flush leaves what it flushed in the drive's cache.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
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

#[cfg(test)]
mod tests {
    use super::super::SqliteStore;
    use super::*;

    #[test]
    fn a_commit_is_flushed_to_the_disk_itself_and_a_call_waits_no_longer_than_it_may() {
        let directory =
            std::env::temp_dir().join(format!("lars-durable-open-{}", fastrand::u64(..)));
        std::fs::create_dir_all(&directory).unwrap();
        for (limit, waits) in [(1, 1_000), (3_600, 5_000)] {
            let path = directory.join(format!("{limit}.db"));
            let limit = Duration::from_secs(limit);
            let store = SqliteStore::open(&path, "default", Synchronous::Full, limit).unwrap();
            let asked = |name: &str| -> i64 {
                let pragma = format!("PRAGMA {name}");
                store.connection.query_row(&pragma, [], |row| row.get(0)).unwrap()
            };
            assert_eq!(asked("busy_timeout"), waits);
            let flushes = ["fullfsync", "checkpoint_fullfsync", "synchronous"].map(asked);
            assert_eq!(flushes, [1, 1, 2], "2 is FULL");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
