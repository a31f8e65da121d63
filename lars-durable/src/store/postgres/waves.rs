//! What starts and finishes have in common: waves, and rows that somebody else holds.
//!
//! A statement changes a row once, so a batch in which a timer comes twice goes in waves.
//!
//! A row may be held by a transaction that takes long, such as one of a user. A batch that waited
//! too long for one is tried again *around locks*: it takes those rows first that nobody holds, and
//! leaves the others alone.

use std::collections::BTreeSet;

use super::transaction::{Result, Transaction};
use crate::model::TimerId;

/// Locks them, so that what is not held now is not held later either.
const NOT_HELD: &str = "SELECT id FROM lars.timer WHERE grp = $1 AND id = ANY ($2)
      ORDER BY id + 0 FOR UPDATE SKIP LOCKED";

const THERE_ARE: &str = "SELECT id FROM lars.timer WHERE grp = $1 AND id = ANY ($2)";

impl Transaction<'_> {
    /// Those of these rows that no other transaction holds; from now on this one does.
    pub(super) async fn not_held(&self, ids: &[TimerId]) -> Result<BTreeSet<TimerId>> {
        let found = self.query(NOT_HELD, &[&self.group, &ids]).await?;
        Ok(found.iter().map(|row| row.get(0)).collect())
    }

    /// Those of these rows that exist, whoever holds them.
    pub(super) async fn there_are(&self, ids: &[TimerId]) -> Result<BTreeSet<TimerId>> {
        let found = self.query(THERE_ARE, &[&self.group, &ids]).await?;
        Ok(found.iter().map(|row| row.get(0)).collect())
    }
}

/// Slices in which no timer comes twice.
pub(super) fn waves<T>(all: &[T], id: impl Fn(&T) -> TimerId) -> Vec<&[T]> {
    let (mut waves, mut first, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for (place, one) in all.iter().enumerate() {
        if !seen.insert(id(one)) {
            waves.push(&all[first..place]);
            first = place;
            seen = BTreeSet::from([id(one)]);
        }
    }
    waves.push(&all[first..]);
    waves
}
