//! How far the old rows of a table are deleted.
//!
//! Rows are deleted a portion at a time, in the order in which they became old. As long as
//! somebody's snapshot sees them they stay in the index, and whoever begins at its start passes all
//! of them again with each portion. So the next one begins where the last one ended.

use crate::time::{Micros, Timestamp};

/// After so long, a portion begins at the start again: somebody may have held a row then, or made
/// an old one since.
const ANEW: Micros = Micros::SECOND.times(3_600);

/// Of the tables whose old rows are deleted.
#[derive(Clone, Copy)]
pub(super) struct Floors {
    pub(super) used_key: Floor,
    pub(super) parked: Floor,
    pub(super) run: Floor,
}

impl Floors {
    pub(super) const NONE: Self =
        Self { used_key: Floor::NONE, parked: Floor::NONE, run: Floor::NONE };
}

/// Where the next portion begins, in one table.
#[derive(Clone, Copy)]
pub(super) struct Floor {
    at: Timestamp,
    /// When one began at the start.
    began: Timestamp,
}

impl Floor {
    const NONE: Self = Self { at: Timestamp::MIN, began: Timestamp::MIN };

    /// Where a portion begins now. A clock that was set back begins anew.
    pub(super) fn begin(&mut self, now: Timestamp) -> Timestamp {
        if now < self.began || now - self.began >= ANEW {
            *self = Self { at: Timestamp::MIN, began: now };
        }
        self.at
    }

    /// The last row of a portion became old then.
    pub(super) fn raise(&mut self, last: Option<Timestamp>) {
        self.at = last.unwrap_or(self.at);
    }
}
