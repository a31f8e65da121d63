//! The memory of the entries: made in blocks, used again and again, freed at the very end.
//!
//! # Who keeps it alive
//!
//! Handles, the owner and the driver share the scheduler by reference counts. A cancellable does
//! not: it would cost two counted references on a shared cache line per timer. Instead its entry's
//! handle bit keeps the whole scheduler's memory alive, and nothing is counted until the end:
//!
//! - While the scheduler lives, a handle that is dropped clears its bit, or, if the driver has left the entry to it,
//!   pushes the entry onto a stack (`entry::state`), and that is all.
//! - When the last counted reference goes, those stacks are closed, and what is in them is freed ([`Lane::close`]).
//!   Then [`Arena::orphan`] sets the orphan bit in every entry and counts the handle bits that it finds. From then on a
//!   handle that clears its bit sees the orphan bit and reports here; the last to report frees everything.
//!
//! A handle lets go with one read-modify-write, of the entry's word or of the stack's head. If of the word, it is either
//! gone before the orphan bit is set, or counted and told; never both, never neither. If of the stack, it is either
//! gone before the stack is closed, or finds it closed and clears its bit instead.
//!
//! [`Lane::close`]: crate::lane::Lane::close

use std::ptr::NonNull;

use crate::block::Block;
use crate::entry::Entry;
use crate::lane::{Lanes, OpenSupply, Place};
use crate::sync::{AtomicIsize, CHECKED, Mutex, Ordering, relax};

/// How often the shared lanes are looked at before a thread gives up on those that are busy. From a few dozen on
/// each look gives the processor away, perhaps to the very thread that keeps a lane busy.
const PATIENCE: u32 = if CHECKED { 1 } else { 80 };

/// More than there can be entries in the address space.
const BIAS: isize = isize::MAX / 2;

#[derive(Debug)]
pub(crate) struct Arena {
    blocks: Mutex<Vec<NonNull<Block>>>,
    /// Handles that have not reported yet, plus `BIAS` until all of them are counted.
    waiting: AtomicIsize,
}

// SAFETY: the blocks may be shared and sent.
unsafe impl Send for Arena {}
// SAFETY: as above.
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
    pub(crate) fn new() -> Self {
        Self { blocks: Mutex::new(Vec::new()), waiting: AtomicIsize::new(BIAS) }
    }

    /// Finds a free entry, and counts it as given out: in the caller's lane, else in what the driver gave
    /// back to another, else a new one.
    #[inline]
    pub(crate) fn find(&self, lanes: &Lanes, place: Place<'_>) -> *mut Entry {
        match place.open() {
            Some(mut supply) => {
                supply.accept(1);
                self.take(lanes, &mut supply)
            }
            None => {
                let (entry, supply) = self.find_elsewhere(lanes, place);
                match supply {
                    Some(mut supply) => supply.accept(1),
                    None => place.lane.count_unlocked(),
                }
                entry
            }
        }
    }

    /// Finds so many free entries, counts them as given out, and calls `f` with each.
    pub(crate) fn find_all(
        &self,
        lanes: &Lanes,
        place: Place<'_>,
        entries: usize,
        mut f: impl FnMut(*mut Entry),
    ) {
        match place.open() {
            Some(mut supply) => {
                supply.accept(entries as u64);
                (0..entries).for_each(|_| f(self.take(lanes, &mut supply)));
            }
            None => (0..entries).for_each(|_| f(self.find(lanes, place))),
        }
    }

    /// Finds a free entry for a carrier, which is no timer and is not counted.
    pub(crate) fn find_carrier(&self, lanes: &Lanes, place: Place<'_>) -> *mut Entry {
        match place.open() {
            Some(mut supply) => self.take(lanes, &mut supply),
            None => self.find_elsewhere(lanes, place).0,
        }
    }

    /// Takes an entry out of an open supply, which is filled first if it is empty.
    #[inline]
    pub(crate) fn take(&self, lanes: &Lanes, supply: &mut OpenSupply<'_>) -> *mut Entry {
        let entry = supply.take();
        if entry.is_null() { self.refill(lanes, supply) } else { entry }
    }

    #[cold]
    fn refill(&self, lanes: &Lanes, supply: &mut OpenSupply<'_>) -> *mut Entry {
        // The entries of others are other cores' cache lines; only before memory is asked for.
        let chain =
            lanes.iter().map(|lane| lane.take_some_returned()).find(|chain| !chain.is_null());
        // SAFETY: a chain that was taken is ours, and a block is recorded before it is used, and lives as long
        // as the arena. In both cases the supply was found empty.
        unsafe {
            match chain {
                Some(chain) => supply.put(chain),
                None => {
                    let block = Block::boxed(supply.next_block());
                    self.blocks.lock().push(block);
                    supply.put_fresh(block);
                }
            }
        }
        supply.take()
    }

    /// The caller's lane is shared, and busy. With the entry comes the supply that it was taken from.
    #[cold]
    fn find_elsewhere<'a>(
        &self,
        lanes: &'a Lanes,
        place: Place<'_>,
    ) -> (*mut Entry, Option<OpenSupply<'a>>) {
        for patience in 0..PATIENCE {
            for other in lanes.shared() {
                if let Some(mut supply) = other.open() {
                    let entry = self.take(lanes, &mut supply);
                    return (entry, Some(supply));
                }
            }
            relax(patience);
        }
        // Whoever holds them was interrupted at it. Just one entry: the next call may come here again, and
        // what we made more of could not be reached either.
        let block = Block::boxed(1);
        // SAFETY: it is ours alone.
        let entry = unsafe { block.as_ref().write_next(place.number) };
        self.blocks.lock().push(block);
        (entry, None)
    }

    /// How many entries there is room for, in use or free.
    pub(crate) fn capacity(&self) -> usize {
        // SAFETY: blocks live as long as the arena.
        self.blocks.lock().iter().map(|block| unsafe { block.as_ref() }.size()).sum()
    }

    /// Marks all entries: the scheduler is gone. Says whether handles are left that will report.
    ///
    /// Called once, by whoever dropped the last counted reference and closed the lanes. Nobody schedules any more, but
    /// somebody may be in the middle of moving a deadline nearer, and take an entry for a carrier, or a whole block:
    /// those have no handles and need no mark.
    ///
    /// # Safety
    ///
    /// The arena exists. If this says that handles are left, it may be gone when it returns: that is why it
    /// takes a pointer, and not a reference, which would claim that the arena outlives the call.
    pub(crate) unsafe fn orphan(this: *const Self) -> bool {
        let mut held = 0;
        // SAFETY: until the subtraction below no handle can be the last to report, so all is alive.
        let blocks = unsafe { (*this).blocks.lock() };
        for block in &*blocks {
            // SAFETY: as above.
            for entry in unsafe { block.as_ref() }.entries() {
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
