//! What others make in the file: users in transactions of their own, other programs, the shell.
//!
//! Whoever makes a timer draws its identity from the one number in the file, in the same
//! transaction. So what was drawn since this node has looked last, and not by itself, names all
//! timers that others have made, and nobody has to search for them.

use std::collections::VecDeque;
use std::ops::Range;

use crate::model::TimerId;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Others {
    /// Identities below it are this node's own, or were found.
    seen: TimerId,
    /// Found, and not yet taken.
    found: VecDeque<Range<TimerId>>,
}

impl Others {
    /// Below `next_id` nothing is new.
    pub(super) fn since(next_id: TimerId) -> Self {
        Self { seen: next_id, found: VecDeque::new() }
    }

    /// The next identity that is free, before this node draws any.
    pub(super) fn look(&mut self, next_id: TimerId) {
        if self.seen < next_id {
            self.found.push_back(self.seen..next_id);
            self.seen = next_id;
        }
    }

    /// The same after this node has drawn some, in one transaction that is committed.
    pub(super) fn drew(&mut self, next_id: TimerId) {
        self.seen = next_id;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// At most `limit`, each once.
    pub(super) fn take(&mut self, limit: usize) -> Vec<TimerId> {
        let mut taken = Vec::new();
        while let Some(range) = self.found.front_mut() {
            taken.extend(range.by_ref().take(limit - taken.len()));
            if taken.len() == limit {
                break;
            }
            self.found.pop_front();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::Connection;

    use super::super::{SqliteStore, Store, Synchronous};
    use super::*;

    #[test]
    fn what_others_made_is_found_while_somebody_holds_the_file_and_nobody_is_waited_for() {
        let unique = format!("lars-durable-others-{}", fastrand::u64(..));
        let directory = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&directory).unwrap();
        let (path, hour) = (directory.join("timers.db"), Duration::from_secs(3_600));
        let mut store = SqliteStore::open(&path, "default", Synchronous::Full, hour).unwrap();
        store.waits = hour;
        store.connection.busy_timeout(hour).unwrap();
        let other = Connection::open(&path).unwrap();
        let insert = "INSERT INTO lars_schedule (handler, payload, delay, key)
                           VALUES ('note', '1', 3600, 'key')";
        other.execute_batch(&format!("{insert}; BEGIN IMMEDIATE")).unwrap();
        assert_eq!(store.made_by_others(9), [1]);
        let moved = "UPDATE lars_schedule SET delay = 1 WHERE key = 'key'";
        other.execute_batch(&format!("COMMIT; {moved}; BEGIN IMMEDIATE")).unwrap();
        assert!(store.made_by_others(9).is_empty());
        other.execute_batch("COMMIT").unwrap();
        assert!(store.made_by_others(9).contains(&1));
        let waits: i64 =
            store.connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
        assert_eq!(waits, 3_600_000);
        drop(store);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_others_drew_is_found_once_and_what_the_node_drew_is_not() {
        let mut others = Others::since(10);
        others.look(10);
        others.drew(20);
        others.look(20);
        assert!(others.is_empty() && others.take(9).is_empty());
        others.look(23);
        others.drew(30);
        others.look(31);
        assert_eq!(others.take(2), [20, 21]);
        assert_eq!(others.take(2), [22, 30]);
        assert!(others.take(2).is_empty() && others.is_empty());
    }
}
