//! Calls about what another transaction holds, and later ones about the same.
//!
//! They are asked for a few at a time, and take turns; but none before an earlier one about the
//! same. With many of them that must not cost what it takes to look at them all: a call is *first*
//! if no earlier one is about any of its subjects, and only first calls, and those that follow them
//! in the same batch, are looked at.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::call::Call;
use crate::store::{Subject, Write};
use crate::time::Mono;

/// How many timers of such calls are asked for at a time, unless one call has more. The store finds
/// out about each of so many which of them is held.
const AT_A_TIME: usize = 64;

/// See the module's documentation.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct HeldCalls {
    /// By their numbers: in the order in which they came.
    calls: BTreeMap<u64, Call>,
    /// Which of them are about what.
    about: BTreeMap<Subject, BTreeSet<u64>>,
    /// Those that are first.
    first: BTreeSet<u64>,
    /// When the next of them are asked for.
    again: Mono,
    /// The number of the last one that was asked for: the turn of those behind it is next.
    after: u64,
    /// The last batch was one of them: it is the others' turn.
    had_turn: bool,
}

impl HeldCalls {
    pub(super) fn new() -> Self {
        Self {
            calls: BTreeMap::new(),
            about: BTreeMap::new(),
            first: BTreeSet::new(),
            again: Mono::MIN,
            after: 0,
            had_turn: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// In the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.calls.values()
    }

    /// Whether one of them is about the same.
    pub(super) fn has_subject_of(&self, write: &Write) -> bool {
        let subjects = if self.about.is_empty() { Vec::new() } else { write.subjects() };
        subjects.iter().any(|subject| self.about.contains_key(subject))
    }

    /// When the next of them are asked for.
    pub(super) fn again(&self) -> Mono {
        self.again
    }

    /// Takes in a call about what is held; it is asked for again at that time.
    pub(super) fn wait(&mut self, call: Call, again: Mono) {
        self.put(call);
        self.again = again;
    }

    /// Takes in a call that stays behind others: it is about the same.
    pub(super) fn put(&mut self, mut call: Call) {
        let number = call.number;
        for subject in call.write.subjects() {
            let numbers = self.about.entry(subject).or_default();
            numbers.insert(number);
            if let Some(behind) = numbers.range(number + 1..).next() {
                self.first.remove(behind);
            }
        }
        call.reason = Some("another transaction holds what it is about".into());
        self.calls.insert(number, call);
        if self.is_behind_only(&BTreeSet::new(), number) {
            self.first.insert(number);
        }
    }

    fn take(&mut self, number: u64) -> Option<Call> {
        let call = self.calls.remove(&number)?;
        self.first.remove(&number);
        let mut behind = BTreeSet::new();
        for subject in call.write.subjects() {
            if let Entry::Occupied(mut numbers) = self.about.entry(subject) {
                numbers.get_mut().remove(&number);
                match numbers.get().first() {
                    Some(next) => _ = behind.insert(*next),
                    None => _ = numbers.remove(),
                }
            }
        }
        behind.retain(|next| self.is_behind_only(&BTreeSet::new(), *next));
        self.first.extend(behind);
        Some(call)
    }

    /// Whether these are the only earlier calls that are about one of its subjects.
    fn is_behind_only(&self, these: &BTreeSet<u64>, number: u64) -> bool {
        let subjects = self.calls[&number].write.subjects();
        let mut numbers = subjects.iter().map(|subject| &self.about[subject]);
        numbers.all(|numbers| numbers.range(..number).all(|earlier| these.contains(earlier)))
    }

    pub(super) fn take_all(&mut self) -> Vec<Call> {
        self.about.clear();
        self.first.clear();
        std::mem::take(&mut self.calls).into_values().collect()
    }

    /// Those that are the next batch, if it is their turn and not that of the others. If that needs
    /// more identities than are left, there are none, and so many are wanted.
    pub(super) fn turn(&mut self, now: Mono, others: bool, ids: usize) -> (Vec<Call>, usize) {
        let is_due = now >= self.again && !(others && self.had_turn);
        self.had_turn = false;
        if !is_due {
            return (Vec::new(), 0);
        }
        let mut next = self.next_behind(self.after);
        if next.is_empty() {
            next = self.next_behind(0);
        }
        let calls = next.iter().map(|number| &self.calls[number]);
        let wanted = calls.filter(|call| call.needs_ids()).map(Call::weight).sum();
        if wanted > ids {
            return (Vec::new(), wanted);
        }
        self.after = next.last().copied().unwrap_or(0);
        self.had_turn = !next.is_empty();
        (next.into_iter().filter_map(|number| self.take(number)).collect(), 0)
    }

    /// Whether the last batch was one of them.
    pub(super) fn had_turn(&self) -> bool {
        self.had_turn
    }

    /// The next ones behind this one, in their order.
    fn next_behind(&self, mut after: u64) -> BTreeSet<u64> {
        let (mut next, mut taken) = (BTreeSet::new(), 0);
        // Not first, but behind none that is not taken.
        let mut following = BTreeSet::new();
        loop {
            let first = self.first.range(after + 1..).next();
            let Some(number) = first.into_iter().chain(following.first()).min().copied() else {
                return next;
            };
            let call = &self.calls[&number];
            taken += call.weight();
            if taken > AT_A_TIME && !next.is_empty() {
                return next;
            }
            after = number;
            following.remove(&number);
            next.insert(number);
            for subject in call.write.subjects() {
                let behind = self.about[&subject].range(number + 1..).next();
                following.extend(behind.filter(|behind| self.is_behind_only(&next, **behind)));
            }
        }
    }

    /// Takes out those whose patience is over.
    pub(super) fn take_impatient(&mut self, now: Mono) -> Vec<Call> {
        let over = self.calls.values().take_while(|call| call.patience <= now);
        let over: Vec<u64> = over.map(|call| call.number).collect();
        over.into_iter().filter_map(|number| self.take(number)).collect()
    }
}
