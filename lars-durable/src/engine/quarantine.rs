//! What was started by an owner that died: one of these runs may have killed it.
//!
//! So they come back apart from the others. Those that saw one death come back in groups, each of
//! the square root of how many there were. If the process dies of one group, only that one has seen
//! a second death, and its members come back one at a time: so the third death names the guilty.
//! Of 256 timers that were interrupted, 16 run at a time, and at most 16 are repeated alone.
//!
//! A handler whose timers start in their order, such as a kind of actors, starts none that comes
//! after one which waits here, in the same bucket.
//!
//! A death is recorded when a timer starts once more. Who has run for [`PROBATION`] is no longer
//! waited for: a long run that is innocent must not keep the others.

use std::collections::BTreeMap;

use super::window::{Key, Resident};
use crate::model::TimerId;
use crate::time::{Micros, Mono};

/// What kills its process does it sooner than this, as a rule.
const PROBATION: Micros = Micros::SECOND.times(10);

/// See the module's documentation.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Quarantine {
    /// They saw one death: it was one of many.
    suspects: BTreeMap<Key, Resident>,
    /// They saw more.
    accused: BTreeMap<Key, Resident>,
    /// Those that run.
    running: BTreeMap<TimerId, Isolated>,
    /// How many suspects there were at most, since there were none.
    most: usize,
}

#[derive(Debug, Clone, Copy)]
struct Isolated {
    since: Mono,
    alone: bool,
}

impl Quarantine {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.suspects.len() + self.accused.len()
    }

    /// A timer whose owner died, and `deaths` owners before that.
    pub(super) fn add(&mut self, key: Key, resident: Resident, deaths: u32) {
        if deaths > 0 {
            self.accused.insert(key, resident);
            return;
        }
        if self.suspects.is_empty() {
            self.most = 0;
        }
        self.suspects.insert(key, resident);
        self.most = self.most.max(self.suspects.len());
    }

    /// The next one of those that may start, and whether it has to be alone.
    pub(super) fn next(
        &self,
        now: Mono,
        may_start: impl Fn(Resident) -> bool,
    ) -> Option<(Key, bool)> {
        let tried = || self.running.values().filter(|it| now - it.since < PROBATION);
        let first = |of: &BTreeMap<Key, Resident>| {
            of.iter().find(|(_, resident)| may_start(**resident)).map(|(key, _)| *key)
        };
        if tried().any(|it| it.alone) {
            return None;
        }
        let running = tried().count();
        match first(&self.accused) {
            Some(key) => (running == 0).then_some((key, true)),
            None if running < self.most.isqrt().max(1) => Some((first(&self.suspects)?, false)),
            None => None,
        }
    }

    /// The first that waits of each handler in each bucket.
    pub(super) fn first_of_each(&self) -> BTreeMap<Resident, Key> {
        let mut first = BTreeMap::new();
        for (key, resident) in self.suspects.iter().chain(&self.accused) {
            let earliest = first.entry(*resident).or_insert(*key);
            *earliest = (*earliest).min(*key);
        }
        first
    }

    /// Takes one that is about to start.
    pub(super) fn take(&mut self, key: Key) -> Option<Resident> {
        self.accused.remove(&key).or_else(|| self.suspects.remove(&key))
    }

    /// It starts.
    pub(super) fn begin(&mut self, id: TimerId, now: Mono, alone: bool) {
        self.running.insert(id, Isolated { since: now, alone });
    }

    /// It has ended, if it was one of these.
    pub(super) fn end(&mut self, id: TimerId) {
        self.running.remove(&id);
    }
}
