//! Looks at a file from outside, whether its owner runs or does not. Writes nothing.
//!
//! A connection lives as long as one look. So an owner that ends is the last one to close the file,
//! but for a moment: what closes last takes the log over into the file, which a reader cannot.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::owner::{self, Holder};
use super::schema::{self, Meta};
use super::verbs::{self, Verbs};
use super::{BUCKET, looks, open};
use crate::error::StartError;
use crate::model::{Look, LookedNode};
use crate::store::{Looker, Outside, Reply, Request, StoreError, Write, Written};
use crate::sync::Arc;
use crate::time::{Clock, Micros, system_clock};

/// The owner has the file as long as it lives: what is left of its lease is always this.
const LEASE: Micros = Micros::SECOND.times(10);

/// The group is the one whose node opened the file last, or has left something in it.
const GROUP: &str = "SELECT 1 FROM lars_meta WHERE grp = ?1
     UNION ALL SELECT 1 WHERE EXISTS (SELECT 1 FROM lars_timer WHERE grp = ?1)
                           OR EXISTS (SELECT 1 FROM lars_parked WHERE grp = ?1)";

const LAST_GROUP: &str = "SELECT grp FROM lars_meta";

/// See the module's documentation.
pub(crate) struct OutsideFile {
    /// As it was given: what it names may be replaced between two looks.
    path: PathBuf,
    group: Arc<str>,
    clock: Clock,
}

impl OutsideFile {
    /// There must be a file with the schema and the group.
    pub(crate) fn open(path: &Path, group: &str) -> Result<Self, StartError> {
        owner::check_name(path)?;
        let file = Self { path: path.to_owned(), group: group.into(), clock: system_clock() };
        let there = |connection: &Connection| connection.prepare(GROUP)?.exists([group]);
        let last = |connection: &Connection| {
            connection.query_row(LAST_GROUP, [], |row| row.get::<_, Option<String>>(0))
        };
        let (there, last) =
            file.read(|_, connection| Ok((there(connection)?, last(connection)?)))?;
        if there {
            return Ok(file);
        }
        Err(StartError::NoGroup { group: group.to_owned(), known: last.into_iter().collect() })
    }

    /// Opens the file, and lets `ask` read; once more if somebody has begun to write meanwhile.
    fn read<T>(
        &self,
        ask: impl Fn(&Path, &Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StartError> {
        let found = std::fs::canonicalize(&self.path);
        let path = found.map_err(|error| open::io_error(&self.path, &error))?;
        let log = owner::log_of(&path);
        let unused = !log.exists();
        let once = |unused| {
            let failed = |error| open::sqlite_error(&self.path, &error);
            let connection = connect(&path, unused).map_err(failed)?;
            schema::check(&connection, &self.path)?;
            ask(&path, &connection).map_err(failed)
        };
        let answer = once(unused);
        if unused && log.exists() { once(false) } else { answer }
    }

    fn see(&self, path: &Path, connection: &Connection, limit: usize) -> rusqlite::Result<Look> {
        let (group, now) = (&*self.group, (self.clock)());
        let Meta { epoch, .. } = schema::meta(connection)?;
        let owner = owner::holder(path).map(|Holder { name, since }| LookedNode {
            // One for each life.
            id: u128::from(epoch),
            serves: true,
            joined: since.unwrap_or(now),
            renewed: now,
            // As a node reports it.
            report: Some(json!({ "name": name, "lease": LEASE.0 }).to_string().into()),
        });
        Ok(Look {
            clock: now,
            counted: now,
            buckets: vec![(BUCKET, owner.as_ref().map(|owner| owner.id), epoch)],
            nodes: owner.into_iter().collect(),
            paused: verbs::paused(connection, group)?,
            timers: Some(looks::timers(connection, group, now, limit)?),
            parked: Some(looks::parked(connection, group, limit)?),
            database: None,
        })
    }
}

impl Looker for OutsideFile {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        self.read(|path, connection| self.see(path, connection, limit)).map_err(unanswered)
    }
}

impl Outside for OutsideFile {
    fn answer(&mut self, question: &Write) -> Result<Written, StoreError> {
        let request = Request::Write(question.clone());
        let reply = self.read(|_, connection| {
            let verbs = Verbs {
                connection,
                group: &self.group,
                by_owner: false,
                owned: None,
                repeats: false,
                now: (self.clock)(),
            };
            verbs.carry_out(&request)
        });
        match reply.map_err(unanswered)? {
            Reply::Written(written) => Ok(written),
            other => crate::store::mismatched(question, &other),
        }
    }
}

fn unanswered(error: StartError) -> StoreError {
    StoreError::nothing_done(error.to_string())
}

/// Without a log nobody has the file open. Then SQLite is told that nothing changes it: it would
/// make a log, which might be another user's than the next owner.
fn connect(path: &Path, unused: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if unused {
        Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI)?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    connection.busy_timeout(open::BUSY)?;
    Ok(connection)
}

/// The file as a URI.
fn unchanging(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}
