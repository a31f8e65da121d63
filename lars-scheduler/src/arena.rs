//! The memory of the entries: made in blocks, used again and again, freed at the very end.
//!
//! # Who keeps it alive
//!
//! Handles, the owner and the driver share the scheduler by reference counts. A cancellable does
//! not: it would cost two counted references on a shared cache line per timer. Instead its entry's
//! handle bit keeps the whole scheduler's memory alive, and nothing is counted until the end:
//!
//! - While the scheduler lives, a handle that is dropped clears its bit, and that is all.
//! - When the last counted reference goes, [`Arena::orphan`] sets the orphan bit in every entry and
//!   counts the handle bits that it finds. From then on a handle that clears its bit sees the orphan
//!   bit and reports here; the last to report frees everything.
//!
//! Both are single read-modify-writes of the same word, so each handle is either gone before the
//! orphan bit is set, or counted and told; never both, never neither.

use crate::entry::Entry;
use crate::lane::{Found, Lane};
use crate::stack::{FreeLink, StackLink};
use crate::sync::{AtomicIsize, Mutex, Ordering, relax};

/// Entries per block: 64 KiB of them.
#[cfg(not(lars_loom))]
const BLOCK: usize = 1024;
#[cfg(lars_loom)]
const BLOCK: usize = 2;

/// How often all lanes are looked at before a thread gives up on one that is busy. From a few dozen on
/// each look gives the processor away, perhaps to the very thread that keeps the lane busy.
#[cfg(not(lars_loom))]
const PATIENCE: u32 = 80;
#[cfg(lars_loom)]
const PATIENCE: u32 = 1;

/// More than there can be entries in the address space.
const BIAS: isize = isize::MAX / 2;

#[derive(Debug)]
pub(crate) struct Arena {
    blocks: Mutex<Vec<Block>>,
    /// Handles that have not reported yet, plus `BIAS` until all of them are counted.
    waiting: AtomicIsize,
}

/// Owned, but kept as a pointer: the entries are referred to from everywhere.
#[derive(Debug)]
struct Block(*mut [Entry]);

// SAFETY: a block is a list of entries, which may be shared and sent.
unsafe impl Send for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `grow` made it with `Box::into_raw`. It is dropped with the arena, when nothing
        // refers to entries any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self { blocks: Mutex::new(Vec::new()), waiting: AtomicIsize::new(BIAS) }
    }

    /// Finds a free entry: in the caller's lane, else in another, else a new one. With it comes how
    /// many the lane that had it has given out.
    pub(crate) fn find(&self, lanes: &[Lane], own: usize) -> (*mut Entry, u64) {
        let mut patience = PATIENCE;
        loop {
            let mut busy = false;
            // The own lane first; the others, whose entries are other cores' cache lines, only
            // before memory is asked for.
            for distance in 0..lanes.len() {
                match lanes[(own + distance) & (lanes.len() - 1)].find_free() {
                    Found::Entry(entry, accepted) => return (entry, accepted),
                    Found::Nothing => {}
                    Found::Busy => busy = true,
                }
            }
            if !busy {
                return (self.grow(&lanes[own], own, BLOCK), 1);
            }
            if patience == 0 {
                // Whoever is looking was interrupted at it. Just one entry: the next call may come
                // here again, and what we made more of could not be reached either.
                return (self.grow(&lanes[own], own, 1), 1);
            }
            patience -= 1;
            relax(PATIENCE - patience);
        }
    }

    /// Makes a block of entries, keeps the first for the caller and gives the others to the lane.
    fn grow(&self, lane: &Lane, number: usize, size: usize) -> *mut Entry {
        let block: Box<[Entry]> = (0..size).map(|_| Entry::free()).collect();
        let block = Box::into_raw(block);
        let first = block.cast::<Entry>();
        // SAFETY: the block has `size` entries, which are ours alone until they are given away; the
        // pointers derive from the whole block.
        unsafe {
            for index in 0..size {
                (*first.add(index)).state.set_lane(number);
                if index + 1 < size {
                    FreeLink::set(first.add(index), first.add(index + 1));
                }
            }
            // Recorded before it is used: an entry that is in use is in a block that is known.
            self.blocks.lock().push(Block(block));
            if size > 1 {
                lane.give_back(first.add(1), first.add(size - 1));
            }
        }
        lane.count_new();
        first
    }

    /// How many entries there are, in use or free.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.lock().iter().map(|block| block.0.len()).sum()
    }

    /// Marks all entries: the scheduler is gone. Says whether handles are left that will report.
    ///
    /// Called once, by whoever dropped the last counted reference.
    ///
    /// # Safety
    ///
    /// The arena exists. If this says that handles are left, it may be gone when it returns: that is why it
    /// takes a pointer, and not a reference, which would claim that the arena outlives the call.
    pub(crate) unsafe fn orphan(this: *const Self) -> bool {
        let mut held = 0;
        // SAFETY: until the subtraction below no handle can be the last to report.
        let blocks = unsafe { (*this).blocks.lock() };
        for block in &*blocks {
            // SAFETY: the block is alive until the arena is dropped.
            for entry in unsafe { &*block.0 } {
                held += isize::from(entry.state.orphan());
            }
        }
        drop(blocks);
        // AcqRel: whoever brings the count to zero frees, and sees all that the others did.
        // SAFETY: as above.
        unsafe { (*this).waiting.fetch_sub(BIAS - held, Ordering::AcqRel) != BIAS - held }
    }

    /// A handle that was told it is an orphan reports. Says whether it was the last.
    ///
    /// # Safety
    ///
    /// The arena exists. Unless this says that it was the last, it may be gone when it returns; hence the
    /// pointer.
    pub(crate) unsafe fn report(this: *const Self) -> bool {
        // AcqRel: as in `orphan`.
        // SAFETY: the arena exists until the last handle has reported.
        unsafe { (*this).waiting.fetch_sub(1, Ordering::AcqRel) == 1 }
    }
}
