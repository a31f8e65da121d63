//! How far the old rows of a table are deleted.
//!
//! Rows are deleted a portion at a time, in the order in which they became old. As long as
//! somebody's snapshot sees them they stay in the index, and whoever begins at its start passes all
//! of them again. After hours there may be so many that this alone takes longer than a transaction
//! may, so a portion begins where the last one ended.
//!
//! What this node makes old lowers the floor. What another node makes older than the floor, and
//! what a portion left because somebody held it, is found when one begins at the start again.

use crate::time::{Micros, Timestamp};

/// How often a portion begins at the start.
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

    /// A transaction begins: nothing that it parks or remembers is older than its clock.
    pub(super) fn lower(&mut self, clock: Timestamp) {
        for floor in [&mut self.used_key, &mut self.parked] {
            floor.lower(clock);
        }
    }

    /// The transaction has failed, or may have. `before` is what the floors were before it: nothing
    /// that it deleted counts as deleted.
    pub(super) fn undo(&mut self, before: &Self) {
        self.used_key.undo(before.used_key);
        self.parked.undo(before.parked);
        self.run.undo(before.run);
    }
}

/// Where the next portion begins, in one table.
#[derive(Clone, Copy)]
pub(super) struct Floor {
    /// All older rows that this node knows of are deleted. `None` until a portion that began at the
    /// start has succeeded.
    at: Option<Timestamp>,
    /// When one began at the start, also if it failed: the next one need not fail too.
    began: Timestamp,
}

impl Floor {
    const NONE: Self = Self { at: None, began: Timestamp::MIN };

    /// Where a portion begins now. A clock that was set back begins anew.
    pub(super) fn begin(&mut self, now: Timestamp) -> Timestamp {
        if now >= self.began && now - self.began < ANEW {
            return self.at.unwrap_or(self.began - ANEW);
        }
        self.began = now;
        Timestamp::MIN
    }

    /// A portion of what became old before `bound` is deleted, and its last row became old at
    /// `last`. If it had no row, nothing before `bound` is left.
    pub(super) fn raise(&mut self, last: Option<Timestamp>, bound: Timestamp) {
        self.at = Some(last.unwrap_or(bound));
    }

    /// There may be a row that became old then.
    pub(super) fn lower(&mut self, at: Timestamp) {
        self.at = self.at.map(|known| known.min(at));
    }

    /// As [`Floors::undo`].
    fn undo(&mut self, before: Self) {
        self.at = before.at.and_then(|was| self.at.map(|at| at.min(was)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_that_fails_at_the_start_is_not_tried_there_again_for_an_hour() {
        let mut floors = Floors::NONE;
        let at = |second: i64| Timestamp::MIN + Micros::SECOND.times(second);
        let fails = |floors: &mut Floors, now| {
            let before = *floors;
            assert_eq!(floors.run.begin(now), Timestamp::MIN);
            floors.run.raise(Some(at(900)), now);
            floors.undo(&before);
        };
        let start = at(1_000_000);
        fails(&mut floors, start);
        let soon = start + Micros::SECOND;
        assert_eq!(floors.run.begin(soon), start - ANEW, "nothing is known");
        floors.run.raise(Some(at(500)), soon);
        assert_eq!(floors.run.begin(start + ANEW - Micros(1)), at(500));
        fails(&mut floors, start + ANEW);
        assert_eq!(floors.run.begin(start + ANEW + Micros(1)), at(500));
        assert_eq!(floors.run.begin(start), Timestamp::MIN, "the clock was set back");
    }

    #[test]
    fn what_is_made_old_lowers_the_floor_also_if_it_may_have_failed() {
        let mut floors = Floors::NONE;
        let at = |second: i64| Timestamp::MIN + Micros::SECOND.times(second);
        for floor in [&mut floors.used_key, &mut floors.parked, &mut floors.run] {
            floor.begin(at(1_000));
            floor.raise(None, at(900));
        }
        let before = floors;
        floors.lower(at(800));
        floors.run.lower(at(700));
        floors.undo(&before);
        let now = at(1_001);
        let begun = [&mut floors.used_key, &mut floors.parked, &mut floors.run]
            .map(|floor| floor.begin(now));
        assert_eq!(begun, [at(800), at(800), at(700)]);
    }
}
