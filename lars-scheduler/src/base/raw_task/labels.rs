//! Tables for tasks whose storage has no room for the place, and for those that have names.
//!
//! Such a table is a copy of the body type's table, with the label in it. There is one for each
//! combination of type, place and name. It is made for the first such task, and kept to the end of
//! the process. A program has few of them, because a place is a place in its source. A thread
//! remembers those that it used last, so it rarely takes the lock.
//!
//! (Not through `crate::sync`: what a thread finds here does not depend on when it looks, so the
//! model checkers have nothing to explore. Nor do their primitives outlive a model.)

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::PoisonError;

use crate::base::identity::Label;
use crate::sync::GlobalMutex;

use super::Table;

/// How many tables there may be at most. A program that makes up names at run time, and leaks them,
/// must not fill the memory here as well. Tasks beyond that have no label.
const MAX_TABLES: usize = 1 << 16;

/// How many tables a thread remembers: a power of two.
const REMEMBERED: usize = 32;

/// A table, and the one that it was made of.
struct Labelled {
    table: Table,
    base: &'static Table,
}

impl Labelled {
    /// Whether it is the table for this label. Compares addresses, not what is there.
    #[inline]
    fn is_for(&self, base: &'static Table, label: Label) -> bool {
        let own = self.table.label;
        ptr::eq(self.base, base)
            && own.place.map(ptr::from_ref) == label.place.map(ptr::from_ref)
            && own.name.map(ptr::from_ref) == label.name.map(ptr::from_ref)
    }
}

/// The addresses that tell one label from another.
type Key = (usize, Option<usize>, Option<(usize, usize)>);

thread_local! {
    static LAST: [Cell<Option<&'static Labelled>>; REMEMBERED] =
        const { [const { Cell::new(None) }; REMEMBERED] };
}

static ALL: GlobalMutex<Option<HashMap<Key, &'static Labelled>>> = GlobalMutex::new(None);

/// The table for tasks of the type of `base` with this label.
#[inline]
pub(super) fn labelled(base: &'static Table, label: Label) -> &'static Table {
    // One place schedules few types, and few names. But a task that is wrapped has the tables of
    // its wrappers as well, with the same place: all of them are to be remembered.
    let address = label.place.map_or(0, |place| ptr::from_ref(place).addr());
    let mixed = (address ^ ptr::from_ref(base).addr().rotate_left(7)) as u64;
    LAST.with(|last| {
        let spread = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let last = &last[spread as usize % REMEMBERED];
        match last.get() {
            Some(found) if found.is_for(base, label) => &found.table,
            _ => find(base, label, last),
        }
    })
}

#[cold]
fn find(
    base: &'static Table,
    label: Label,
    last: &Cell<Option<&'static Labelled>>,
) -> &'static Table {
    let place = label.place.map(|place| ptr::from_ref(place).addr());
    let name = label.name.map(|name| (name.as_ptr().addr(), name.len()));
    let key = (ptr::from_ref(base).addr(), place, name);
    // Nothing panics while it is held that would leave the map half changed.
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if all.len() >= MAX_TABLES && !all.contains_key(&key) {
        return base;
    }
    let found = *all.entry(key).or_insert_with(|| {
        let table = Table { label, ..base.clone() };
        Box::leak(Box::new(Labelled { table, base }))
    });
    last.set(Some(found));
    &found.table
}
