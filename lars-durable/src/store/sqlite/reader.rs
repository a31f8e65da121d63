//! Looks at the file on a connection of their own, which only reads: what they read may be many
//! rows, and delays no transaction of the engine. Nor do the engine's writes delay them.
//!
//! The connection is opened with the first look. It is closed before that of the store, because
//! what closes last has to take the log over into the file, which a reader cannot.

use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};

use super::membership::Membership;
use super::owner::Identity;
use super::{BUCKET, looks, open, reason, verbs};
use crate::model::{Look, LookedNode};
use crate::store::{Looker, StoreError};
use crate::sync::{Arc, Mutex};
use crate::time::Clock;

/// Clones share the connection.
#[derive(Clone)]
pub(crate) struct Reader(Arc<Inner>);

struct Inner {
    place: Place,
    group: Arc<str>,
    epoch: u32,
    clock: Clock,
    /// As of the last transaction that was committed.
    membership: Mutex<Membership>,
    connection: Mutex<State>,
}

/// Which file is read, and how.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) vfs: Option<String>,
    /// What the file is, if that can be known.
    pub(super) identity: Option<Identity>,
}

enum State {
    NotYet,
    Open(Connection),
    Closed,
}

impl Reader {
    pub(super) fn new(
        place: Place,
        group: Arc<str>,
        epoch: u32,
        clock: Clock,
        membership: Membership,
    ) -> Self {
        let (membership, connection) = (Mutex::new(membership), Mutex::new(State::NotYet));
        Self(Arc::new(Inner { place, group, epoch, clock, membership, connection }))
    }

    /// What is shown of the node from now on.
    pub(super) fn show(&self, membership: Membership) {
        *self.0.membership.lock() = membership;
    }

    /// Waits for a look that is under way.
    pub(super) fn close(&self) {
        *self.0.connection.lock() = State::Closed;
    }
}

impl Looker for Reader {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        let Inner { place, group, epoch, clock, membership, connection } = &*self.0;
        let failed = |error: rusqlite::Error| StoreError::nothing_done(reason(&error));
        let mut connection = connection.lock();
        if !place.is_there() {
            return Err(StoreError::nothing_done(super::GONE));
        }
        let connection = connection.opened(place)?;
        let now = clock();
        let timers = looks::timers(connection, group, now, limit).map_err(failed)?;
        let parked = looks::parked(connection, group, limit).map_err(failed)?;
        let paused = verbs::paused(connection, group).map_err(failed)?;
        let Membership { node, owns_bucket, joined, renewed, report } = membership.lock().clone();
        let shown = node.map(|id| LookedNode { id, serves: true, joined, renewed, report });
        Ok(Look {
            clock: now,
            counted: now,
            nodes: shown.into_iter().collect(),
            buckets: vec![(BUCKET, node.filter(|_| owns_bucket), *epoch)],
            paused,
            timers: Some(timers),
            parked: Some(parked),
            database: None,
        })
    }
}

impl State {
    fn opened(&mut self, place: &Place) -> Result<&Connection, StoreError> {
        if let Self::NotYet = self {
            let failed = |error: rusqlite::Error| StoreError::nothing_done(reason(&error));
            *self = Self::Open(place.open().map_err(failed)?);
        }
        match self {
            Self::Open(connection) => Ok(connection),
            Self::NotYet | Self::Closed => Err(StoreError::nothing_done("the file is closed")),
        }
    }
}

impl Place {
    fn open(&self) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str())?,
            None => Connection::open_with_flags(&self.path, flags)?,
        };
        connection.busy_timeout(open::BUSY)?;
        Ok(connection)
    }

    fn is_there(&self) -> bool {
        let Some(identity) = &self.identity else { return true };
        let now = std::fs::metadata(&self.path).ok().and_then(|now| Identity::of(&now));
        now.as_ref() == Some(identity)
    }
}
