//! The memory of the entries: allocated in blocks, reused, and freed at the very end.
//!
//! # Lifetime
//!
//! Handles, the owner and the driver share the scheduler by reference counts. A cancellable does
//! not: it would cost two counted references on a shared cache line per timer. Instead its entry's
//! handle bit keeps the whole scheduler's memory alive, and nothing is counted until the end:
//!
//! - While the scheduler lives, dropping a handle clears its bit. If the engine has left the entry
//!   to the handle, it gives the entry back instead (`entry::state`).
//! - When the last counted reference goes, all gates are shut and the stacks that handles push to
//!   are closed; what is in them is freed ([`Lanes::close`]). Then [`Arena::orphan`] sets the
//!   orphan bit in every entry and counts the handle bits that it finds. From then on a handle that
//!   clears its bit sees the orphan bit and reports here; the last to report frees everything.
//!
//! A handle releases its entry in one of three ways:
//!
//! - With a read-modify-write of the entry's word. Either it happens before the orphan bit is set,
//!   or the handle is counted and learns of it: never both, never neither.
//! - With a push. Either it happens before the stack is closed, or the handle finds the stack
//!   closed and clears its bit instead.
//! - Behind the gate of its lane. Either it has left before the gate is shut, or it finds the gate
//!   shut and pushes.

use std::ptr::NonNull;

use crate::engine::block::Block;
use crate::engine::entry::Entry;
use crate::engine::lane::{For, OpenSupply, OwnLane};
use crate::engine::lanes::{LaneSettings, Lanes};
use crate::sync::{AtomicIsize, CHECKED, Mutex, Ordering, relax};

/// How often a guest tries the guests' supply before it makes an entry of its own. From a few dozen
/// on each try gives the processor away, perhaps to the very thread that keeps it busy.
const PATIENCE: u32 = if CHECKED { 1 } else { 80 };

/// More entries than the address space can hold.
const BIAS: isize = isize::MAX / 2;

#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) lanes: Lanes,
    blocks: Mutex<Vec<NonNull<Block>>>,
    /// Handles that have not reported yet, plus `BIAS` until all of them are counted.
    waiting: AtomicIsize,
}

// SAFETY: blocks may be sent to another thread, and only the arena frees them.
unsafe impl Send for Arena {}
// SAFETY: blocks may be shared between threads, and a lock guards their list.
unsafe impl Sync for Arena {}

impl Drop for Arena {
    fn drop(&mut self) {
        for block in self.blocks.lock().drain(..) {
            // SAFETY: `Block::boxed` made it, and nothing refers to it or to its entries any more.
            drop(unsafe { Box::from_raw(block.as_ptr()) });
        }
    }
}

impl Arena {
    /// Each lane begins with this credit.
    pub(crate) fn new(settings: LaneSettings, credit: u64) -> Self {
        Self {
            lanes: Lanes::new(settings, credit),
            blocks: Mutex::new(Vec::new()),
            waiting: AtomicIsize::new(BIAS),
        }
    }

    /// Finds a free entry: in the caller's lane, else among those returned to another lane, else a
    /// new one.
    #[inline]
    pub(crate) fn find(&self, own: OwnLane<'_>, what: For) -> *mut Entry {
        match own.open() {
            Some(mut supply) => self.take(&mut supply, what),
            None => self.find_patiently(own, what),
        }
    }

    /// Takes an entry out of an open supply, which is filled first if it is empty.
    #[inline]
    fn take(&self, supply: &mut OpenSupply<'_>, what: For) -> *mut Entry {
        let entry = supply.take(what, &self.lanes.in_hand);
        if entry.is_null() { self.refill(supply, what) } else { entry }
    }

    #[cold]
    fn refill(&self, supply: &mut OpenSupply<'_>, what: For) -> *mut Entry {
        let in_hand = &self.lanes.in_hand;
        supply.refill(what, self.lanes.iter(), in_hand, |block| self.blocks.lock().push(block));
        supply.take(what, in_hand)
    }

    /// The caller is a guest, and another guest has the supply open.
    #[cold]
    fn find_patiently(&self, own: OwnLane<'_>, what: For) -> *mut Entry {
        for patience in 0..PATIENCE {
            if let Some(mut supply) = own.open() {
                return self.take(&mut supply, what);
            }
            relax(patience);
        }
        // The guest that has it open was interrupted. Make just one entry: the next call may find
        // the supply free.
        let block = Block::boxed(1);
        // SAFETY: no other thread knows the block yet.
        let entry = unsafe { block.as_ref().write_next(own.lane.number()) };
        self.blocks.lock().push(block);
        entry
    }

    /// The blocks that there are now. They live as long as the arena.
    pub(crate) fn blocks(&self) -> Vec<NonNull<Block>> {
        self.blocks.lock().clone()
    }

    /// How many entries there are, in use or free.
    pub(crate) fn capacity(&self) -> usize {
        // SAFETY: blocks live as long as the arena.
        self.blocks.lock().iter().map(|block| unsafe { block.as_ref() }.size()).sum()
    }

    /// Marks all entries: the scheduler is gone. True if handles are left that will report.
    ///
    /// Called once, by the thread that dropped the last counted reference and closed the lanes.
    /// Nobody schedules any more. A thread may still be moving a deadline nearer, and take a free
    /// entry for a carrier, or a whole block: those have no handles and need no mark.
    ///
    /// # Safety
    ///
    /// The arena exists. If this returns true, the arena may be gone by then. That is why it takes
    /// a pointer: a reference would claim that the arena outlives the call.
    pub(crate) unsafe fn orphan(this: *const Self) -> bool {
        debug_assert!(!this.is_null() && this.is_aligned(), "{this:p} is no arena's address");
        let mut held = 0;
        // SAFETY: until the subtraction below no handle can be the last to report, so all is alive.
        let blocks = unsafe { (*this).blocks.lock() };
        for block in &*blocks {
            // SAFETY: blocks live as long as the arena.
            for entry in unsafe { block.as_ref() }.entries() {
                held += isize::from(entry.state.orphan());
            }
        }
        drop(blocks);
        // AcqRel: the thread that brings the count to zero frees, and sees all that the others did.
        // SAFETY: no handle can be the last to report before this subtraction.
        let before = unsafe { (*this).waiting.fetch_sub(BIAS - held, Ordering::AcqRel) };
        debug_assert!(before >= BIAS - held, "the arena is orphaned twice");
        before != BIAS - held
    }

    /// A handle that was told it is an orphan reports. True if it was the last.
    ///
    /// # Safety
    ///
    /// The arena exists. Unless this returns true, the arena may be gone by then; hence the
    /// pointer.
    pub(crate) unsafe fn report(this: *const Self) -> bool {
        debug_assert!(!this.is_null() && this.is_aligned(), "{this:p} is no arena's address");
        // AcqRel: the thread that brings the count to zero frees, and sees all that the others did.
        // SAFETY: the arena exists until the last handle has reported.
        let before = unsafe { (*this).waiting.fetch_sub(1, Ordering::AcqRel) };
        debug_assert!(before > 0, "more handles report than were counted");
        before == 1
    }
}
