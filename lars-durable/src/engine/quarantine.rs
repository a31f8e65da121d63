//! What was started by an owner that died: one of these runs may have killed it.
//!
//! So they come back apart from the others. Those that saw one death are *suspects*: they come back
//! in groups, of each handler the square root of how many there were. If the process dies of one
//! group, only that one has seen a second death, and its members are *accused*: they come back one
//! at a time, with nobody else from here beside them. So the third death names the guilty. Of 256
//! timers that were interrupted, 16 run at a time, and at most 16 are repeated alone.
//!
//! No handler keeps another from running, here neither. A suspect waits for no suspect of another
//! handler. For one that has to be alone all wait, so those take turns with the suspects, and their
//! handlers take turns among themselves:
//!
//! ```text
//!   suspects start │ they are waited for │ one is alone │ suspects start │ …
//!   for PROBATION    PROBATION at most     PROBATION at most
//! ```
//!
//! Where a handler serves many recipients, such as a kind of actors, no timer starts while an
//! earlier one of the same recipient waits here.
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
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Quarantine {
    /// By handler.
    waiting: Vec<Waiting>,
    /// Those that run.
    running: BTreeMap<TimerId, Isolated>,
    /// When the first suspect started, since one was alone.
    turn_of_suspects: Option<Mono>,
    /// Whose timer was alone last.
    last_alone: usize,
}

/// Those of a handler that wait.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Waiting {
    /// They saw one death: it was one of many.
    suspects: BTreeMap<Key, Resident>,
    /// They saw more.
    accused: BTreeMap<Key, Resident>,
    /// How many suspects there were at most, since there were none.
    most: usize,
}

#[derive(Debug, Clone, Copy)]
struct Isolated {
    handler: usize,
    since: Mono,
    alone: bool,
}

/// One that may start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Released {
    pub(super) key: Key,
    pub(super) resident: Resident,
    /// Nothing else from here may run.
    pub(super) alone: bool,
}

impl Quarantine {
    pub(super) fn new(handlers: usize) -> Self {
        let waiting = (0..handlers).map(|_| Waiting::default()).collect();
        Self { waiting, running: BTreeMap::new(), turn_of_suspects: None, last_alone: 0 }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(|it| it.suspects.len() + it.accused.len()).sum()
    }

    /// A timer whose owner died, and `deaths` owners before that.
    pub(super) fn add(&mut self, key: Key, resident: Resident, deaths: u32) {
        let Waiting { suspects, accused, most } = &mut self.waiting[usize::from(resident.name)];
        if deaths > 0 {
            accused.insert(key, resident);
            return;
        }
        if suspects.is_empty() {
            *most = 0;
        }
        suspects.insert(key, resident);
        *most = suspects.len().max(*most);
    }

    /// The next one that may start, of a handler that is `open`.
    pub(super) fn next(&self, now: Mono, open: impl Fn(usize) -> bool) -> Option<Released> {
        let (handler, alone) = self.next_handler(now, open)?;
        let Waiting { suspects, accused, .. } = &self.waiting[handler];
        let waiting = if alone { accused } else { suspects };
        let (key, resident) = waiting.first_key_value()?;
        Some(Released { key: *key, resident: *resident, alone })
    }

    /// Whose it is, and whether it is to be alone.
    fn next_handler(&self, now: Mono, open: impl Fn(usize) -> bool) -> Option<(usize, bool)> {
        let tried: Vec<Isolated> =
            self.running.values().filter(|it| now - it.since < PROBATION).copied().collect();
        if tried.iter().any(|it| it.alone) {
            return None;
        }
        let accused = self.next_accused(&open);
        let is_over = |since: Mono| now - since >= PROBATION;
        if accused.is_none() || !self.turn_of_suspects.is_some_and(is_over) {
            let running = |handler| tried.iter().filter(|it| it.handler == handler).count();
            let suspect = self.next_suspect(|handler| open(handler).then(|| running(handler)));
            if let Some(handler) = suspect {
                return Some((handler, false));
            }
        }
        Some((accused.filter(|_| tried.is_empty())?, true))
    }

    /// The handler of the first suspect that has room in its group. Of each handler that is open,
    /// so many are `running`.
    fn next_suspect(&self, running: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        let first = |(handler, waiting): (usize, &Waiting)| {
            let (key, _) = waiting.suspects.first_key_value()?;
            let group = waiting.most.isqrt().max(1);
            running(handler).filter(|running| *running < group).map(|_| (*key, handler))
        };
        self.waiting.iter().enumerate().filter_map(first).min().map(|(_, handler)| handler)
    }

    /// The handler whose turn it is to have one alone.
    fn next_accused(&self, open: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.waiting.len();
        let mut turns = (1..=count).map(|turn| (self.last_alone + turn) % count);
        turns.find(|handler| !self.waiting[*handler].accused.is_empty() && open(*handler))
    }

    /// When another one may start because of the time alone, at the earliest.
    pub(super) fn again(&self, now: Mono) -> Mono {
        if self.len() == 0 {
            return Mono::NEVER;
        }
        let since = self.running.values().map(|it| it.since).chain(self.turn_of_suspects);
        since.map(|since| since + PROBATION).filter(|at| *at > now).min().unwrap_or(Mono::NEVER)
    }

    /// The first that waits of each handler and recipient in each bucket.
    pub(super) fn first_of_each(&self) -> BTreeMap<Resident, Key> {
        let mut first = BTreeMap::new();
        for (key, resident) in
            self.waiting.iter().flat_map(|it| it.suspects.iter().chain(&it.accused))
        {
            let earliest = first.entry(*resident).or_insert(*key);
            *earliest = (*earliest).min(*key);
        }
        first
    }

    /// It does not wait any more.
    pub(super) fn take(&mut self, Released { key, resident, alone }: Released) {
        let Waiting { suspects, accused, .. } = &mut self.waiting[usize::from(resident.name)];
        let waiting = if alone { accused } else { suspects };
        waiting.remove(&key);
    }

    /// It starts.
    pub(super) fn begin(&mut self, now: Mono, Released { key, resident, alone }: Released) {
        let handler = usize::from(resident.name);
        if alone {
            (self.turn_of_suspects, self.last_alone) = (None, handler);
        } else {
            self.turn_of_suspects.get_or_insert(now);
        }
        self.running.insert(key.1, Isolated { handler, since: now, alone });
    }

    /// It has ended, if it was one of these.
    pub(super) fn end(&mut self, id: TimerId) {
        self.running.remove(&id);
    }
}
