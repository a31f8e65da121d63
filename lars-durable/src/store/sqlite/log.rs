//! The log beside the file: how long it is, and that it does not stay long.
//!
//! SQLite takes what is in the log over into the file after some writes, but for what an open
//! transaction of another connection may still read, and begins the log anew when nobody reads it.
//! As long as somebody keeps a transaction open, the log grows with each write. So it is said, and
//! once that one is gone the log is taken over and cut off, even if nobody writes any more.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

/// Longer than any transaction of the engine, and than what SQLite itself leaves.
const LONG: u64 = 64 << 20;

/// Of so many looks at a log that is long, one tries to make it short.
const TRY_EACH: u32 = 10;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    long: u64,
    /// How long it was when that was said last; zero if it is not long.
    said: u64,
    /// How many looks there are until the next attempt to make it short.
    until_try: u32,
}

impl Log {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, long: LONG, said: 0, until_try: 0 }
    }

    /// How many bytes it has, after an attempt to make it short if it is long. `waits` is how long
    /// the connection waits for others, unless it is here.
    pub(super) fn tend(&mut self, connection: &Connection, waits: Duration) -> u64 {
        let mut bytes = self.bytes();
        if bytes > self.long && self.until_try == 0 {
            cut_off(connection, waits);
            self.until_try = TRY_EACH;
            bytes = self.bytes();
        }
        if bytes <= self.long {
            if self.said > 0 {
                tracing::info!(target: "lars_durable", bytes, "the file's log is short again");
            }
            (self.said, self.until_try) = (0, 0);
            return bytes;
        }
        self.until_try -= 1;
        if bytes / 2 >= self.said {
            self.said = bytes;
            tracing::warn!(
                target: "lars_durable",
                bytes,
                "the file's log grows, because another connection has a transaction open"
            );
        }
        bytes
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |log| log.len())
    }
}

/// Takes over what can be, and cuts the log off if that was all. Waits for nobody.
fn cut_off(connection: &Connection, waits: Duration) {
    let checkpoint = || {
        connection.busy_timeout(Duration::ZERO)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    let tried = checkpoint();
    if let Err(error) = tried.and_then(|()| connection.busy_timeout(waits)) {
        let _ = connection.busy_timeout(waits);
        tracing::debug!(target: "lars_durable", %error, "the file's log was not taken over");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file, and a log that is long after a hundred kilobytes.
    fn file(name: &str) -> (PathBuf, Connection, Log) {
        let unique = format!("lars-durable-{name}-{}-{}", std::process::id(), fastrand::u64(..));
        let directory = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("timers.db");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let log = Log { long: 100_000, ..Log::new(directory.join("timers.db-wal")) };
        (directory, connection, log)
    }

    fn write(connection: &Connection, bytes: u64) {
        connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [bytes.cast_signed()]).unwrap();
    }

    fn look(log: &mut Log, connection: &Connection) -> u64 {
        (0..TRY_EACH).map(|_| log.tend(connection, Duration::ZERO)).last().unwrap()
    }

    #[test]
    fn a_log_that_a_reader_keeps_grows_and_is_cut_off_when_the_reader_has_gone() {
        let (directory, connection, mut log) = file("log");
        assert_eq!((look(&mut log, &connection), log.said), (log.bytes(), 0), "it is short");
        let reader = Connection::open(directory.join("timers.db")).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        let mut said = Vec::new();
        for _ in 0..30 {
            write(&connection, 50_000);
            let bytes = look(&mut log, &connection);
            assert_eq!(bytes, log.bytes());
            said.push(log.said);
        }
        assert!(log.bytes() > 1_500_000, "{} bytes", log.bytes());
        said.dedup();
        let first = said.iter().position(|said| *said > 0).unwrap();
        assert!(first > 0, "it was short at first");
        assert!(said[first..].windows(2).all(|two| two[1] / 2 >= two[0]), "{said:?}");

        reader.execute_batch("COMMIT").unwrap();
        assert_eq!((look(&mut log, &connection), log.said), (0, 0));
        let count: i64 =
            connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 30);
        drop((reader, connection));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_log_that_somebody_writes_to_is_left_alone_and_nobody_is_waited_for() {
        let (directory, connection, mut log) = file("log-writer");
        let writer = Connection::open(directory.join("timers.db")).unwrap();
        write(&connection, 200_000);
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        let hour = Duration::from_secs(3_600);
        assert!(log.tend(&connection, hour) > log.long);
        let waits: i64 = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
        assert_eq!(waits, 3_600_000, "and otherwise as before");
        writer.execute_batch("COMMIT").unwrap();
        assert_eq!(look(&mut log, &connection), 0);
        drop((writer, connection));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
