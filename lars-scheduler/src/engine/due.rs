//! The due list: entries that have left a wheel because their time has come, first in, first out.
//!
//! Only the driver touches it. A thread that cancels one of its entries does not take it out: the
//! driver comes to it, and finds it cancelled.

use std::ptr;

use crate::engine::entry::{Entry, Whereabouts, prefetch};
use crate::sync::CHECKED;

#[derive(Debug)]
pub(crate) struct DueList {
    first: *mut Entry,
    last: *mut Entry,
    len: usize,
}

/// Entries on their way from a wheel into the due list.
#[derive(Debug)]
pub(crate) struct Detached {
    first: *mut Entry,
    last: *mut Entry,
    pub(crate) len: usize,
}

impl Default for Detached {
    fn default() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0 }
    }
}

impl Detached {
    /// Adds an entry. The entry added before it links to it already.
    pub(crate) fn add(&mut self, entry: *mut Entry) {
        if self.first.is_null() {
            self.first = entry;
        }
        self.last = entry;
        self.len += 1;
    }
}

impl DueList {
    pub(crate) fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a chain.
    ///
    /// # Safety
    ///
    /// The chain is not empty. Its entries are armed, in no list, say that they are queued, and are
    /// linked forwards from the first to the last. Nobody but the caller touches their links. They
    /// stay alive while they are in this list.
    pub(crate) unsafe fn append(&mut self, chain: Detached) {
        debug_assert!(chain.len > 0, "the chain is empty");
        Entry::assert_address(chain.first);
        Entry::assert_address(chain.last);
        // (Because of a canceller, the driver may have given an entry up meanwhile.)
        let queued = |entry: *mut Entry| {
            // SAFETY: the entries of the chain are alive.
            let now = unsafe { (*entry).whereabouts() };
            matches!(now, Whereabouts::Queued | Whereabouts::GivenUp)
        };
        debug_assert!(
            CHECKED || queued(chain.first) && queued(chain.last),
            "a due entry does not say that it is queued"
        );
        // SAFETY: the entries of the chain are alive, and only the caller touches their links. What
        // is in the list is alive too, and its links are the list's.
        unsafe {
            (*Entry::links(chain.last)).set_next(ptr::null_mut());
            if self.last.is_null() {
                self.first = chain.first;
            } else {
                (*Entry::links(self.last)).set_next(Entry::links(chain.first));
            }
        }
        self.last = chain.last;
        self.len += chain.len;
    }

    /// Moves the first entries of another list, at most this many, to the front of this one. Says
    /// how many.
    pub(crate) fn put_first(&mut self, others: &mut Self, most: usize) -> usize {
        let mut moved = Detached::default();
        while moved.len < most
            && let Some(entry) = others.pop()
        {
            moved.add(entry);
        }
        let len = moved.len;
        if len > 0 {
            let rest = std::mem::replace(self, Self::new());
            // SAFETY: entries of a list are armed or cancelled, say that they are queued, stay
            // alive, and `pop` leaves the link to the next as it is. Both chains are out of their
            // lists, and neither is empty.
            unsafe {
                self.append(moved);
                if !rest.is_empty() {
                    self.append(Detached { first: rest.first, last: rest.last, len: rest.len });
                }
            }
        }
        len
    }

    /// The first entry, still in the list.
    pub(crate) fn first(&self) -> Option<*mut Entry> {
        (!self.first.is_null()).then_some(self.first)
    }

    /// Removes and returns the first entry, which still says that it is queued.
    pub(crate) fn pop(&mut self) -> Option<*mut Entry> {
        if self.first.is_null() {
            return None;
        }
        let entry = self.first;
        // SAFETY: entries in the list are alive, and their links are the list's.
        self.first = Entry::of_links(unsafe { (*Entry::links(entry)).next() });
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        prefetch(self.first);
        self.len -= 1;
        Some(entry)
    }
}
