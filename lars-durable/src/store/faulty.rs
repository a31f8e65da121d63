//! A store that tests make unreachable.

use super::{Committed, Looker, MemoryStore, Request, Store, StoreError};
use crate::model::Look;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::time::Clock;

/// Clones share the tables, and whether these can be reached.
#[derive(Clone)]
pub(crate) struct FaultyStore {
    tables: MemoryStore,
    unreachable: Arc<AtomicBool>,
}

impl FaultyStore {
    pub(crate) fn new(tables: MemoryStore) -> Self {
        Self { tables, unreachable: Arc::default() }
    }

    /// The same tables, reached or not by themselves.
    pub(crate) fn other_path(&self) -> Self {
        Self::new(self.tables.clone())
    }

    pub(crate) fn clock(&self) -> Clock {
        self.tables.clock()
    }

    pub(crate) fn set_reachable(&self, reachable: bool) {
        // Relaxed, as the load: the flag alone says everything.
        self.unreachable.store(!reachable, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.unreachable.load(Ordering::Relaxed) {
            true => Err(StoreError::nothing_done("the store is unreachable")),
            false => Ok(()),
        }
    }
}

impl Store for FaultyStore {
    fn transact(&mut self, requests: &[Request]) -> Result<Committed, StoreError> {
        self.check()?;
        self.tables.transact(requests)
    }
}

impl Looker for FaultyStore {
    fn look(&mut self, limit: usize) -> Result<Look, StoreError> {
        self.check()?;
        self.tables.look(limit)
    }
}
