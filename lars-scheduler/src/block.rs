//! A block of memory for entries, which are written one by one, when they are needed: so no memory is touched that is
//! not.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use crate::entry::Entry;
use crate::sync::{AtomicUsize, Ordering};

/// Memory for entries. It stands in a place of its own, which the lane that uses it and the arena refer to.
///
/// Aligned so that two lanes, which both write how far they have come, never write the same line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Block {
    first: *mut Entry,
    size: usize,
    /// How many entries were written, from the first on: by the lane that the block was given to.
    written: AtomicUsize,
}

// SAFETY: a block is a list of entries, which may be shared and sent.
unsafe impl Send for Block {}
// SAFETY: as above; what is not written yet is only touched by the one thread that may call `write_next`.
unsafe impl Sync for Block {}

impl Block {
    pub(crate) fn boxed(size: usize) -> NonNull<Self> {
        let layout = Self::layout(size);
        // SAFETY: the layout is not empty.
        let first = unsafe { alloc(layout) }.cast::<Entry>();
        if first.is_null() {
            handle_alloc_error(layout);
        }
        let block = Box::new(Self { first, size, written: AtomicUsize::new(0) });
        NonNull::from(Box::leak(block))
    }

    fn layout(size: usize) -> Layout {
        Layout::array::<Entry>(size).expect("a block is a megabyte at most")
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
        // SAFETY: inside the allocation, and by the caller's promise nobody else's.
        let entry = unsafe {
            let entry = self.first.add(written);
            entry.write(Entry::free(lane));
            entry
        };
        // Release: pairs with the load in `entries`.
        self.written.store(written + 1, Ordering::Release);
        entry
    }

    /// The entries that have been written. Others may be added meanwhile.
    pub(crate) fn entries(&self) -> &[Entry] {
        // Acquire: pairs with the store in `write_next`.
        let written = self.written.load(Ordering::Acquire);
        // SAFETY: so many were written, and stay until the block is dropped.
        unsafe { std::slice::from_raw_parts(self.first, written) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let written = self.written.load(Ordering::Acquire);
        // SAFETY: `boxed` allocated it with this layout, and so many entries were written. It is dropped with
        // the arena, when nothing refers to entries any more.
        unsafe {
            ptr::slice_from_raw_parts_mut(self.first, written).drop_in_place();
            dealloc(self.first.cast(), Self::layout(self.size));
        }
    }
}
