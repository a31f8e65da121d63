//! Timers of one handler that are due and wait for a place.
//!
//! They start in the order of (due, identity). Where a handler serves many recipients, such as a
//! kind of actors, each recipient has a *line* of its own, and a line that has to wait holds up no
//! other. Only the heads of the lines are looked at, so a long line costs no more than a short one.

use std::collections::{BTreeMap, BTreeSet};

use super::window::{Key, Resident};

/// See the module's documentation.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Ready {
    timers: BTreeMap<Key, Resident>,
    lines: Option<Lines>,
}

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Lines {
    /// None is empty.
    each: BTreeMap<Resident, BTreeSet<Key>>,
    /// The first of each.
    heads: BTreeSet<(Key, Resident)>,
}

impl Lines {
    fn insert(&mut self, key: Key, resident: Resident) {
        let line = self.each.entry(resident).or_default();
        let head = line.first().copied();
        line.insert(key);
        if head.is_none_or(|head| key < head) {
            if let Some(head) = head {
                self.heads.remove(&(head, resident));
            }
            self.heads.insert((key, resident));
        }
    }

    fn remove(&mut self, key: Key, resident: Resident) {
        let Some(line) = self.each.get_mut(&resident) else { return };
        line.remove(&key);
        let next = line.first().copied();
        if next.is_none() {
            self.each.remove(&resident);
        }
        if self.heads.remove(&(key, resident)) {
            self.heads.extend(next.map(|next| (next, resident)));
        }
    }
}

impl Ready {
    pub(super) fn new(in_lines: bool) -> Self {
        Self { timers: BTreeMap::new(), lines: in_lines.then(Lines::default) }
    }

    pub(super) fn len(&self) -> usize {
        self.timers.len()
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.timers.contains_key(&key)
    }

    pub(super) fn insert(&mut self, key: Key, resident: Resident) {
        let before = self.timers.insert(key, resident);
        if let Some(lines) = &mut self.lines {
            if let Some(before) = before {
                lines.remove(key, before);
            }
            lines.insert(key, resident);
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Resident> {
        let resident = self.timers.remove(&key)?;
        if let Some(lines) = &mut self.lines {
            lines.remove(key, resident);
        }
        Some(resident)
    }

    pub(super) fn last(&self) -> Option<Key> {
        self.timers.keys().next_back().copied()
    }

    /// The first, or of several lines the first head that `goes`: if the head of a line does not,
    /// none behind it does.
    pub(super) fn first(&self, goes: impl Fn(Key, Resident) -> bool) -> Option<Key> {
        let Some(lines) = &self.lines else { return self.timers.keys().next().copied() };
        lines.heads.iter().find(|(key, resident)| goes(*key, *resident)).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Recipient;
    use crate::time::Timestamp;

    fn line(name: &str) -> Resident {
        Resident { bucket: 0, name: 0, recipient: Recipient::of(name) }
    }

    #[test]
    fn the_first_that_goes_is_found_whatever_came_and_went_in_any_order() {
        let mut rng = fastrand::Rng::with_seed(7);
        let lines = ["a", "b", "c", "d"].map(line);
        for in_lines in [true, false] {
            let (mut ready, mut model) = (Ready::new(in_lines), BTreeMap::new());
            for _ in 0..5_000 {
                let key = (Timestamp(rng.i64(0..8)), rng.i64(0..8));
                if rng.bool() {
                    let resident = lines[rng.usize(..4)];
                    ready.insert(key, resident);
                    model.insert(key, resident);
                } else {
                    assert_eq!(ready.remove(key), model.remove(&key));
                }
                let held = lines[rng.usize(..4)];
                let goes = |_: Key, resident: Resident| !in_lines || resident != held;
                let first = model.iter().find(|(key, resident)| goes(**key, **resident));
                assert_eq!(ready.first(goes), first.map(|(key, _)| *key), "{model:?}");
                let last = model.keys().next_back().copied();
                assert_eq!((ready.len(), ready.last()), (model.len(), last));
            }
            model
                .keys()
                .for_each(|key| assert!(ready.contains(*key) && ready.remove(*key).is_some()));
            assert!(ready.lines.is_none_or(|it| it.each.is_empty() && it.heads.is_empty()));
        }
    }
}
