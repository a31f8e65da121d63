//! The entry that the driver has in hand: out of which it is moving a task right now.
//!
//! One exchange of an entry's word takes the task and leaves the entry to its handle. But the task
//! is still in the entry then. So the driver first notes here which entry that is, and takes the
//! note back when the task is out. Whoever wants to use an entry again that was left looks here.
//!
//! ```text
//!   driver                                 thread that has an entry which was left
//!   note := entry               (1)        finds `LEFT` in the word              (3)
//!   word: ARMED -> TAKEN, LEFT  (2)        note = entry? then not yet            (4)
//!   moves the task out
//!   note := none
//! ```
//!
//! (3) reads what (2) wrote or something later, so (1) comes before (4), and (4) reads what (1)
//! wrote or something later. If it is later, the task is out: notes are written with release and
//! read with acquire. Nobody waits: a free entry that is still in hand is put aside, and there is
//! at most one.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::engine::entry::Entry;
use crate::sync::{AtomicPtr, Ordering};

/// See the module's documentation. Only the driver writes it.
#[derive(Debug)]
pub(crate) struct InHand(CachePadded<AtomicPtr<Entry>>);

impl InHand {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(AtomicPtr::new(ptr::null_mut())))
    }

    /// The driver is about to take the task of an entry.
    #[inline]
    pub(crate) fn begin(&self, entry: *mut Entry) {
        // Release: whoever reads this note sees that the one before is no longer in hand.
        self.0.store(entry, Ordering::Release);
    }

    /// The driver has moved the task out, or has not got it.
    #[inline]
    pub(crate) fn end(&self) {
        // Release: pairs with `get`. The entry may be used again.
        self.0.store(ptr::null_mut(), Ordering::Release);
    }

    /// The entry that is in hand, perhaps. All others that were left before this was called are
    /// not.
    #[inline]
    pub(crate) fn get(&self) -> *mut Entry {
        // Acquire: pairs with `begin` and `end`.
        self.0.load(Ordering::Acquire)
    }
}
