//! Tables for tasks whose storage has no room for the place, and for those that have names.
//!
//! Such a table is a copy of the one of the body type, with the label in it. There is one for each
//! combination of type, place and name, made at the first task and kept to the end of the process.
//! A program has few of them, because a place is a place in its source. A thread remembers those
//! that it used last, so it rarely takes the lock.
//!
//! (Not through `crate::sync`: what a thread finds here does not depend on when it looks, so the
//! model checkers have nothing to explore, and their primitives do not outlive a model.)

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::ptr;
use std::sync::PoisonError;

use crate::base::identity::Label;
use crate::sync::GlobalMutex;

use super::Table;

/// How many tables there may be at most: names that a program makes up at run time, and leaks, must
/// not fill the memory here as well. Tasks beyond that have no label.
const MAX_TABLES: usize = 1 << 16;

/// How many tables a thread remembers: a power of two.
const REMEMBERED: usize = 32;

/// A table, and what it was made of.
#[derive(Clone, Copy)]
struct Labelled {
    key: Key,
    table: &'static Table,
}

/// The addresses that tell one label from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    base: *const Table,
    place: Option<*const Location<'static>>,
    name: Option<*const str>,
}

// SAFETY: the addresses are of what lives forever and does not change, and may be read by any
// thread.
unsafe impl Send for Key {}

thread_local! {
    static LAST: [Cell<Option<Labelled>>; REMEMBERED] =
        const { [const { Cell::new(None) }; REMEMBERED] };
}

static ALL: GlobalMutex<Option<HashMap<Key, &'static Table>>> = GlobalMutex::new(None);

/// The table for tasks of the type of `base` with this label.
#[inline]
pub(super) fn labelled(base: &'static Table, label: Label) -> &'static Table {
    let place = label.place.map(ptr::from_ref);
    let key = Key { base, place, name: label.name.map(ptr::from_ref) };
    // One place schedules few types, and few names.
    let mixed = place.map_or(0, <*const _>::addr) ^ (ptr::from_ref(base).addr() >> 4);
    LAST.with(|last| {
        let last = &last[(mixed >> 3) % REMEMBERED];
        match last.get() {
            Some(found) if found.key == key => found.table,
            _ => {
                let table = find(base, key, label);
                last.set(Some(Labelled { key, table }));
                table
            }
        }
    })
}

#[cold]
fn find(base: &'static Table, key: Key, label: Label) -> &'static Table {
    // Nothing panics while it is held that would leave the map half changed.
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(table) = all.get(&key) {
        return table;
    }
    if all.len() >= MAX_TABLES {
        return base;
    }
    let table = Box::leak(Box::new(Table { label, keeps_place: false, ..base.clone() }));
    all.insert(key, table);
    table
}
