//! A block of memory for entries. They are written one by one, when they are needed, so unused
//! memory is never touched.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use crate::engine::entry::Entry;
use crate::sync::{AtomicUsize, CHECKED, Ordering};

/// Memory for entries. The lane that uses it and the arena both point to it.
///
/// Aligned so that two lanes never write the same cache line when they write `written`.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Block {
    first: *mut Entry,
    size: usize,
    /// How many entries the lane that has the block has written, from the first on.
    written: AtomicUsize,
}

// SAFETY: a block owns its entries, which may be sent to another thread.
unsafe impl Send for Block {}
// SAFETY: entries may be shared between threads. Memory that is not written yet is touched only by
// the one thread that may call `write_next`.
unsafe impl Sync for Block {}

impl Block {
    pub(crate) fn boxed(size: usize) -> NonNull<Self> {
        let layout = Self::layout(size);
        // SAFETY: the size of the layout is not zero: a block has at least one entry.
        let first = unsafe { alloc(layout) }.cast::<Entry>();
        if first.is_null() {
            handle_alloc_error(layout);
        }
        let block = Box::new(Self { first, size, written: AtomicUsize::new(0) });
        NonNull::from(Box::leak(block))
    }

    fn layout(size: usize) -> Layout {
        Layout::array::<Entry>(size).expect("a block is at most a megabyte")
    }

    /// How many entries it has room for.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Writes the next entry. Null if the block is full.
    ///
    /// # Safety
    ///
    /// One thread at a time calls this, each after the one before.
    #[inline]
    pub(crate) unsafe fn write_next(&self, lane: usize) -> *mut Entry {
        // Relaxed: only the caller writes it.
        let written = self.written.load(Ordering::Relaxed);
        if written == self.size {
            return ptr::null_mut();
        }
        debug_assert!(written < self.size, "more entries are written than there is room for");
        // SAFETY: `written` is less than `size`, so this is inside the allocation. Nobody refers to
        // an entry that is not written yet, and one thread at a time writes.
        let entry = unsafe {
            let entry = self.first.add(written);
            entry.write(Entry::free(lane));
            entry
        };
        debug_assert!(
            CHECKED || self.written.load(Ordering::Relaxed) == written,
            "two threads write entries at once"
        );
        // Release: pairs with the load in `entries`.
        self.written.store(written + 1, Ordering::Release);
        entry
    }

    /// The entries that have been written. The lane may be writing more.
    pub(crate) fn entries(&self) -> &[Entry] {
        // Acquire: pairs with the store in `write_next`.
        let written = self.written.load(Ordering::Acquire);
        // SAFETY: the first `written` entries are written, and stay until the block is dropped.
        unsafe { std::slice::from_raw_parts(self.first, written) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let written = self.written.load(Ordering::Acquire);
        // SAFETY: `boxed` allocated the memory with this layout, and the first `written` entries
        // are written. The arena drops its blocks when nothing refers to entries any more.
        unsafe {
            ptr::slice_from_raw_parts_mut(self.first, written).drop_in_place();
            dealloc(self.first.cast(), Self::layout(self.size));
        }
    }
}
