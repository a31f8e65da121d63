//! Lists of entries: circular, doubly linked through the entries themselves.
//!
//! All heads of a wheel lie in one array that never moves, so entries may point back to them.

use crate::engine::entry::{Entry, Links, Whereabouts};
use crate::sync::CHECKED;

/// The heads of a fixed number of lists.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Owned, but kept as a pointer: entries point back to the heads.
    heads: *mut [Links],
}

// SAFETY: the owner of the lists owns the heads, and holds the entries that they link. None of them
// is tied to a thread.
unsafe impl Send for Lists {}

impl Lists {
    pub(crate) fn new(count: usize) -> Self {
        let heads = Box::into_raw(Box::<[Links]>::new_uninit_slice(count));
        let first = heads.cast::<Links>();
        for number in 0..count {
            // SAFETY: `number` is in bounds of the allocation, which nobody else knows yet.
            unsafe {
                let head = first.add(number);
                head.write(Links::of(head, head));
            }
        }
        // Every head has been written: the same allocation, as what it is now.
        Self { heads: std::ptr::slice_from_raw_parts_mut(first, count) }
    }

    #[inline]
    fn head(&self, number: usize) -> *mut Links {
        debug_assert!(number < self.heads.len(), "there is no list {number}");
        // SAFETY: all lists are numbered below `heads.len()`, so this is in bounds.
        unsafe { self.heads.cast::<Links>().add(number) }
    }

    #[inline]
    pub(crate) fn is_empty(&self, list: usize) -> bool {
        let head = self.head(list);
        // SAFETY: the heads live as long as `self`.
        unsafe { (*head).next() == head }
    }

    /// Appends an entry to a list.
    ///
    /// # Safety
    ///
    /// The entry is alive and in no list, and nobody but the caller touches its links. It stays
    /// alive while it is in this list.
    #[inline]
    pub(crate) unsafe fn push_back(&mut self, list: usize, entry: *mut Entry) {
        Entry::assert_address(entry);
        let head = self.head(list);
        let links = Entry::links(entry);
        // SAFETY: heads and linked entries are alive, and their links belong to the lists. The new
        // entry is alive, and nobody but the caller touches its links.
        unsafe {
            debug_assert!(
                CHECKED || (*entry).whereabouts() != Whereabouts::Linked,
                "the entry is in a list already"
            );
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
        // SAFETY: the heads live as long as `self`.
        let first = unsafe { (*head).next() };
        (first != head).then(|| Entry::of_links(first))
    }

    /// The entry behind one that is in the list.
    pub(crate) fn behind(&self, list: usize, entry: *mut Entry) -> Option<*mut Entry> {
        // SAFETY: the entry is in the list, so it is alive and its links belong to the list.
        let next = unsafe { (*Entry::links(entry)).next() };
        (next != self.head(list)).then(|| Entry::of_links(next))
    }

    /// Takes an entry out of its list.
    ///
    /// # Safety
    ///
    /// The entry is in one of these lists.
    #[inline]
    pub(crate) unsafe fn unlink(&mut self, entry: *mut Entry) {
        Entry::assert_address(entry);
        let links = Entry::links(entry);
        // SAFETY: the entry is in one of these lists, so it and its neighbours are alive, and their
        // links belong to the lists.
        unsafe {
            debug_assert!(
                CHECKED || (*entry).whereabouts() == Whereabouts::Linked,
                "the entry is in no list"
            );
            let (prev, next) = ((*links).prev(), (*links).next());
            (*prev).set_next(next);
            (*next).set_prev(prev);
            (*entry).set_whereabouts(Whereabouts::Nowhere);
        }
    }

    /// Cuts off all entries before `rest`, or all there are. The caller has them from then on,
    /// still linked forwards to each other.
    pub(crate) fn cut_front(&mut self, list: usize, rest: Option<*mut Entry>) {
        let head = self.head(list);
        let first = rest.map_or(head, Entry::links);
        // SAFETY: the head, and an entry that is in the list, are alive, and their links belong to
        // the list.
        unsafe {
            (*head).set_next(first);
            (*first).set_prev(head);
        }
    }

    /// Moves all entries of one list behind those of another, in order.
    pub(crate) fn append(&mut self, to: usize, from: usize) {
        if self.is_empty(from) {
            return;
        }
        let (to, from) = (self.head(to), self.head(from));
        // SAFETY: heads and linked entries are alive, and their links belong to the lists.
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
            // SAFETY: it is the first of this list.
            unsafe { self.unlink(entry) };
            entries.push(entry);
        }
        // SAFETY: the entries were in the list a moment ago, and nobody frees those.
        entries.sort_by_cached_key(|&entry| unsafe { (*entry).deadline() });
        for entry in entries {
            // SAFETY: it was unlinked above, so it is alive and in no list.
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
