//! Looks from outside.

use std::{fmt, thread};

use super::Inspection;
use crate::error::{Error, StartError};
use crate::model::LOOK;
use crate::store::{Looker, Place, PostgresStore};

/// Looks at a group in a PostgreSQL database from outside, and writes nothing: it is no node, takes
/// no lease, and neither creates nor upgrades the schema. The server holds it to that, because its
/// transactions are read-only. It needs `SELECT` on the tables of the schema `lars`, and sees a
/// standby server, too.
///
/// [`Builder::observe`](crate::Builder::observe) makes one. Its calls block, and may be made on any
/// thread, also on one of an asynchronous runtime that may be blocked.
pub struct Observer {
    /// Taken when this is dropped.
    store: Option<PostgresStore>,
}

impl Observer {
    pub(in crate::api) fn open(place: Place) -> Result<Self, StartError> {
        PostgresStore::check(&place)?;
        Ok(Self { store: Some(PostgresStore::new(place)) })
    }

    /// What [`Durable::inspect`](crate::Durable::inspect) shows. A connection that was lost is made
    /// again.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer within the lease that the builder has
    /// (at least 5 s), or refuses.
    pub fn inspect(&mut self) -> Result<Inspection, Error> {
        let unavailable = |reason| Error::Unavailable { reason };
        let Some(store) = &mut self.store else {
            return Err(unavailable("a defect: the store is gone".to_owned()));
        };
        // The caller's thread may be one of a runtime, which must not turn another.
        let look = thread::scope(|scope| scope.spawn(|| store.look(LOOK)).join());
        match look {
            Ok(look) => look.map(Inspection::of).map_err(|error| unavailable(error.reason)),
            Err(_) => Err(unavailable("a defect: the look panicked".to_owned())),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let store = self.store.take();
        // It says goodbye, by a runtime of its own.
        thread::scope(|scope| _ = scope.spawn(|| drop(store)).join());
    }
}
