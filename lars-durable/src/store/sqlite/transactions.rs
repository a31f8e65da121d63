//! Transactions of users in the file: by their own connections, and for them the same verbs.
//!
//! The engine finds what they made by its identity (`others`), and what they ended by its fence.
//! What they moved is in a table that it empties. It is not told of anything else. So an update
//! does not change when a timer is due that the engine may have in memory: such a timer gets
//! another identity.

use std::path::PathBuf;

use rusqlite::Transaction;

use super::owner::Identity;
use super::verbs::Verbs;
use crate::error::{Refused, TransactionError};
use crate::model::{Fence, Finish, Finished, NewTimer, Row, When, Which};
use crate::store::{Placed, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

type Result<T> = std::result::Result<T, TransactionError<rusqlite::Error>>;

/// The file of a node, for its users.
#[derive(Debug, Clone)]
pub(crate) struct UserFile {
    pub(super) group: Arc<str>,
    /// Without links, and absolute.
    pub(super) path: PathBuf,
    /// What the file is, if that can be known.
    pub(super) identity: Option<Identity>,
}

impl UserFile {
    pub(crate) fn schedule(
        &self,
        transaction: &Transaction<'_>,
        timer: NewTimer,
        now: Timestamp,
    ) -> Result<Placed> {
        let verbs = self.verbs(transaction, now)?;
        let id = verbs.draw(1)?;
        let timer = NewTimer { id, bucket: super::BUCKET, ..timer };
        match verbs.write(&Write::Schedule(Arc::new(vec![timer])))? {
            Written::Scheduled(mut placed) => {
                Ok(placed.pop().expect("the answer to one timer is one place"))
            }
            Written::KeyTaken(key) => Err(TransactionError::Refused(Refused::KeyTaken { key })),
            other => unreachable!("no answer to a timer: {other:?}"),
        }
    }

    pub(crate) fn cancel(
        &self,
        transaction: &Transaction<'_>,
        which: Which,
        now: Timestamp,
    ) -> Result<Written> {
        Ok(self.verbs(transaction, now)?.write(&Write::Cancel { which })?)
    }

    pub(crate) fn reset(
        &self,
        transaction: &Transaction<'_>,
        which: Which,
        when: When,
        now: Timestamp,
    ) -> Result<Written> {
        Ok(self.verbs(transaction, now)?.write(&Write::Reset { which, when })?)
    }

    /// The successful end of the run of `row` that has this fence.
    pub(crate) fn complete(
        &self,
        transaction: &Transaction<'_>,
        row: &Row,
        fence: Fence,
        now: Timestamp,
    ) -> Result<()> {
        let verbs = self.verbs(transaction, now)?;
        let finish = Finish { id: row.id, fence, then: row.after_success(now) };
        match verbs.finish(&finish)? {
            Finished::Stale => Err(TransactionError::Stale),
            _ => Ok(()),
        }
    }

    fn verbs<'a>(&'a self, transaction: &'a Transaction<'_>, now: Timestamp) -> Result<Verbs<'a>> {
        if !self.is_main_of(transaction) {
            return Err(TransactionError::OtherStore);
        }
        let (owned, repeats) = (None, false);
        Ok(Verbs {
            connection: transaction,
            group: &self.group,
            by_owner: false,
            owned,
            repeats,
            now,
        })
    }

    /// Whether this file is what the connection has opened: two files of one connection are not
    /// committed together if the process dies meanwhile.
    fn is_main_of(&self, transaction: &Transaction<'_>) -> bool {
        let Some(path) = transaction.path().filter(|path| !path.is_empty()) else { return false };
        match &self.identity {
            Some(identity) => {
                let found = std::fs::metadata(path).ok().and_then(|file| Identity::of(&file));
                found.as_ref() == Some(identity)
            }
            None => std::fs::canonicalize(path).is_ok_and(|path| path == self.path),
        }
    }
}
