//! Lists of entries: circular, doubly linked through the entries themselves.
//!
//! All heads of a wheel lie in one array that never moves. An entry that is unlinked as the last of
//! its list therefore finds out which list that was: its neighbour is a head, and the head's place
//! in the array is its number. Entries need not remember where they are.

use std::ptr;

use crate::entry::{Entry, Links};

/// The heads of a fixed number of lists.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Owned, but kept as a pointer: entries point back to the heads.
    heads: *mut [Links],
}

// SAFETY: the heads, and the entries that they link, belong to whoever owns the lists; nothing of
// them is tied to a thread.
unsafe impl Send for Lists {}

/// Whether the entry is in a list.
///
/// # Safety
///
/// The entry is alive and the caller's to look at.
pub(crate) unsafe fn is_linked(entry: *mut Entry) -> bool {
    // SAFETY: the caller's promise.
    unsafe { !(*Entry::links(entry)).next().is_null() }
}

impl Lists {
    pub(crate) fn new(count: usize) -> Self {
        let heads = Box::into_raw(Box::<[Links]>::new_uninit_slice(count));
        let first = heads.cast::<Links>();
        for number in 0..count {
            // SAFETY: in bounds of the allocation, which is ours.
            unsafe {
                let head = first.add(number);
                head.write(Links::of(head, head));
            }
        }
        // Every head has been written: the same allocation, as what it is now.
        Self { heads: std::ptr::slice_from_raw_parts_mut(first, count) }
    }

    fn head(&self, number: usize) -> *mut Links {
        debug_assert!(number < self.heads.len());
        // SAFETY: in bounds, as asserted.
        unsafe { self.heads.cast::<Links>().add(number) }
    }

    /// Which list this is the head of, if it is one.
    fn number_of(&self, links: *mut Links) -> Option<usize> {
        let offset = links.addr().wrapping_sub(self.heads.cast::<Links>().addr());
        let number = offset / size_of::<Links>();
        (number < self.heads.len()).then_some(number)
    }

    pub(crate) fn is_empty(&self, list: usize) -> bool {
        let head = self.head(list);
        // SAFETY: the heads live as long as `self`.
        unsafe { (*head).next() == head }
    }

    /// Appends an entry to a list.
    ///
    /// # Safety
    ///
    /// The entry is alive, the caller's, and in no list. It stays alive while it is in this one.
    pub(crate) unsafe fn push_back(&mut self, list: usize, entry: *mut Entry) {
        let head = self.head(list);
        let links = Entry::links(entry);
        // SAFETY: head, last and the new entry are alive, and ours.
        unsafe {
            let last = (*head).prev();
            (*links).set_prev(last);
            (*links).set_next(head);
            (*last).set_next(links);
            (*head).set_prev(links);
        }
    }

    /// The first entry of a list, still in it.
    pub(crate) fn front(&self, list: usize) -> Option<*mut Entry> {
        let head = self.head(list);
        // SAFETY: the head is alive.
        let first = unsafe { (*head).next() };
        (first != head).then(|| Entry::of_links(first))
    }

    /// The entry behind one that is in the list.
    pub(crate) fn behind(&self, list: usize, entry: *mut Entry) -> Option<*mut Entry> {
        // SAFETY: linked entries are alive.
        let next = unsafe { (*Entry::links(entry)).next() };
        (next != self.head(list)).then(|| Entry::of_links(next))
    }

    /// Takes an entry out of its list. If that was its last entry, says which list is empty now.
    ///
    /// # Safety
    ///
    /// The entry is in one of these lists.
    pub(crate) unsafe fn unlink(&mut self, entry: *mut Entry) -> Option<usize> {
        let links = Entry::links(entry);
        // SAFETY: the entry is in a list, so its neighbours are alive, and ours.
        unsafe {
            let (prev, next) = ((*links).prev(), (*links).next());
            (*prev).set_next(next);
            (*next).set_prev(prev);
            (*links).set_next(ptr::null_mut());
            // Only a head can be both neighbours.
            if ptr::eq(prev, next) { self.number_of(prev) } else { None }
        }
    }

    /// Moves all entries of one list behind those of another, in order.
    pub(crate) fn append(&mut self, to: usize, from: usize) {
        if self.is_empty(from) {
            return;
        }
        let (to, from) = (self.head(to), self.head(from));
        // SAFETY: heads and linked entries are alive, and ours.
        unsafe {
            let (first, last) = ((*from).next(), (*from).prev());
            let end = (*to).prev();
            (*end).set_next(first);
            (*first).set_prev(end);
            (*last).set_next(to);
            (*to).set_prev(last);
            (*from).set_next(from);
            (*from).set_prev(from);
        }
    }

    /// Sorts a list by deadline; equal deadlines keep their order.
    pub(crate) fn sort(&mut self, list: usize) {
        let mut entries = Vec::new();
        while let Some(entry) = self.front(list) {
            // SAFETY: it is in the list.
            unsafe { self.unlink(entry) };
            entries.push(entry);
        }
        // SAFETY: entries in lists are the driver's, and not freed.
        entries.sort_by_cached_key(|&entry| unsafe { (*entry).deadline() });
        for entry in entries {
            // SAFETY: unlinked above.
            unsafe { self.push_back(list, entry) };
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: `new` made it with `Box::into_raw`. Entries that are still linked keep pointers
        // to heads, which nobody follows without the lists.
        drop(unsafe { Box::from_raw(self.heads) });
    }
}
