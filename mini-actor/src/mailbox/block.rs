//! A block of slots: how many it has, how it is laid out, and what a slot goes through.
//!
//! # Sizes
//!
//! | message, with its state | slots |
//! |---|---|
//! | up to 32 bytes | 31 |
//! | 67 | 15 |
//! | 144 | 7 |
//! | 336 | 3 |
//! | more | 1 |
//!
//! A block has at most a kibibyte, unless a single message is larger. An idle mailbox keeps two
//! blocks at most, so very many actors with large messages cost little more than as many with small
//! ones.
//!
//! The first block of a mailbox is a short one: very many actors get few messages in all. It has
//! only the [last slots](Block::FEW) of a block. The slots lie in front of the head, in the order
//! in which they are used, so those of a short block are where they are in any other.
//!
//! A block is built on the heap, slot by slot, and never on a stack, which a message of some
//! mebibytes would overflow.

use std::alloc::{Layout, handle_alloc_error};
use std::borrow::Borrow;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr;

use crate::sync::{
    AtomicPtr, AtomicU8, AtomicUsize, CHECKED, Ordering, UnsafeCell, alloc, dealloc,
    nobody_looks_at, write_uninit,
};

/// The initial state: empty.
const EMPTY: u8 = 0;
/// The message is there.
const FULL: u8 = 1;
/// No message comes: making it panicked.
const VOID: u8 = 2;

/// A message on its way into a slot: as it is, or in a box. A large one is not passed from frame to
/// frame: without optimization that would overflow the stack of an ordinary thread.
pub(crate) trait Parcel<T>: Borrow<T> {
    /// Moves the message to where it stays.
    ///
    /// # Safety
    ///
    /// The place can be written, and holds nothing that has to be dropped.
    unsafe fn unpack(self, place: *mut T);
}

impl<T> Parcel<T> for T {
    #[inline]
    unsafe fn unpack(self, place: *mut T) {
        assert_place(place);
        // SAFETY: the place can be written, and holds nothing that has to be dropped.
        unsafe { place.write(self) };
    }
}

impl<T> Parcel<T> for Box<T> {
    unsafe fn unpack(self, place: *mut T) {
        assert_place(place);
        let message = Box::into_raw(self);
        // SAFETY: the message is moved, and the box is then treated as memory without a value, and
        // freed. The place can be written, and is not in the box.
        unsafe {
            ptr::copy_nonoverlapping(message, place, 1);
            drop(Box::from_raw(message.cast::<MaybeUninit<T>>()));
        }
    }
}

/// In debug builds, panics if no value of this type can be at this address.
#[inline]
#[track_caller]
fn assert_place<T>(place: *const T) {
    let address = place.cast::<()>();
    debug_assert!(!place.is_null() && place.is_aligned(), "{address:p} is no place for a value");
}

/// Room for one message.
pub(super) struct Slot<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// What a reader finds in a slot.
pub(super) enum Found<T> {
    /// Nothing yet.
    Empty,
    Message(T),
    /// A slot without a message.
    Void,
}

impl<T> Slot<T> {
    /// Puts a message in.
    ///
    /// # Safety
    ///
    /// The slot is in a block that has not been freed. The caller has taken the slot, and has put
    /// nothing in since. The reader may free the block as soon as this has put the message in.
    #[inline]
    pub(super) unsafe fn fill(slot: *const Self, message: impl Parcel<T>) {
        assert_place(slot);
        // SAFETY: the block is there, because its reader waits for this slot.
        let slot = unsafe { &*slot };
        debug_assert_eq!(slot.state.load(Ordering::Relaxed), EMPTY, "the slot is filled already");
        // SAFETY: the one sender that has taken the slot writes; the reader does not read before
        // the state says so.
        slot.value.with_mut(|value| unsafe { message.unpack(value.cast()) });
        // Release: the value goes with it. The last access to the block.
        slot.state.store(FULL, Ordering::Release);
    }

    /// Says that no message comes.
    ///
    /// # Safety
    ///
    /// The slot is in a block that has not been freed. The caller has taken the slot, and has put
    /// nothing in since. The reader may free the block as soon as this has returned, or sooner.
    pub(super) unsafe fn leave_void(slot: *const Self) {
        assert_place(slot);
        // SAFETY: the block is there, because its reader waits for this slot.
        let slot = unsafe { &*slot };
        debug_assert_eq!(slot.state.load(Ordering::Relaxed), EMPTY, "the slot is filled already");
        // Release: what the reader does with the block comes after this, the last access to it.
        slot.state.store(VOID, Ordering::Release);
    }

    /// Where its message lies, or will.
    ///
    /// # Safety
    ///
    /// The slot is in a block that has not been freed. The caller has taken the slot, and has put
    /// nothing in since.
    pub(super) unsafe fn address(slot: *const Self) -> usize {
        assert_place(slot);
        // SAFETY: the block is there, because its reader waits for this slot.
        let slot = unsafe { &*slot };
        // (Not in models, where each look at the state is one more step.)
        debug_assert!(
            CHECKED || slot.state.load(Ordering::Relaxed) == EMPTY,
            "the slot is filled already"
        );
        slot.value.with_mut(|value| value.addr())
    }

    /// Gives `read` the message, if there is one, and leaves the slot empty. `read` moves the
    /// message out or drops it in place, which a large one needs no stack for.
    ///
    /// # Safety
    ///
    /// The slot is in a block that has not been freed, and the caller is its only reader.
    #[inline]
    pub(super) unsafe fn take<R>(slot: *const Self, read: impl FnOnce(*mut T) -> R) -> Found<R> {
        assert_place(slot);
        // SAFETY: the slot is in a block that has not been freed, and its only reader frees it.
        let slot = unsafe { &*slot };
        // Acquire: the value comes with it.
        let found = match slot.state.load(Ordering::Acquire) {
            EMPTY => return Found::Empty,
            FULL => Found::Message(slot.value.with_mut(|value| read(value.cast()))),
            _ => Found::Void,
        };
        // Relaxed: published with the block, when that is used again.
        slot.state.store(EMPTY, Ordering::Relaxed);
        found
    }
}

/// How large a block is at most, unless a single slot is larger.
const BYTES: usize = 1024;

/// The head of a block; its slots lie in front of it, in one allocation.
#[repr(C)]
pub(super) struct Block<T> {
    /// The block behind this one, in the queue or among the spare ones.
    pub(super) next: AtomicPtr<Block<T>>,
    /// Among the spare ones: how many there are from here on. The reader's.
    pub(super) depth: AtomicUsize,
    /// A head is aligned as slots are.
    _alignment: [Slot<T>; 0],
}

impl<T> Block<T> {
    /// How many messages a block holds.
    pub(super) const SLOTS: u64 = {
        let size = size_of::<Slot<T>>();
        if CHECKED {
            // Few enough that a model reaches the end of a block, and in one case the extreme. (A
            // checker's slots are larger.)
            if size_of::<T>() <= 8 { 3 } else { 1 }
        } else {
            let mut slots = 31;
            // A message that is larger by itself may be too large for the layout of many.
            while slots > 1 && (size > BYTES || Self::layout(slots).size() > BYTES) {
                slots /= 2;
            }
            slots
        }
    };

    /// How many of them a short one has.
    pub(super) const FEW: u64 = match Self::SLOTS {
        31 => 7,
        15 => 3,
        // With a single one, the first message would append the next block already.
        3 | 7 => 2,
        all => all,
    };

    /// Positions in a block, the last of which is no slot.
    pub(super) const LAP: u64 = Self::SLOTS + 1;

    pub(super) const LAYOUT: Layout = Self::layout(Self::SLOTS);

    const fn layout(slots: u64) -> Layout {
        let size = Self::room(slots) + size_of::<Self>();
        match Layout::from_size_align(size, align_of::<Self>()) {
            Ok(layout) => layout,
            Err(_) => panic!("a message is larger than the address space"),
        }
    }

    /// How far from the beginning of its memory the head of a block with so many slots lies.
    const fn room(slots: u64) -> usize {
        (size_of::<Slot<T>>() * slots as usize).next_multiple_of(align_of::<Self>())
    }

    /// A block of empty slots.
    pub(super) fn new() -> *mut Self {
        Self::with_slots(Self::SLOTS)
    }

    /// A block of the last empty slots only.
    pub(super) fn new_short() -> *mut Self {
        Self::with_slots(Self::FEW)
    }

    /// A block of the last `slots` empty slots.
    fn with_slots(slots: u64) -> *mut Self {
        let layout = Self::layout(slots);
        // SAFETY: the layout has a size: two words at least.
        let memory = unsafe { alloc(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the layout has this much room in front of a head.
        let block = unsafe { memory.add(Self::room(slots)) }.cast::<Self>();
        // SAFETY: just allocated, and nobody else has it.
        unsafe {
            (&raw mut (*block).next).write(AtomicPtr::new(ptr::null_mut()));
            (&raw mut (*block).depth).write(AtomicUsize::new(0));
        }
        for number in Self::SLOTS - slots..Self::SLOTS {
            // SAFETY: there are these slots, in memory that was just allocated. Only their states
            // are written: the messages come later, and may be large.
            unsafe {
                let slot = Self::slot(block, number).cast_mut();
                (&raw mut (*slot).state).write(AtomicU8::new(EMPTY));
                write_uninit(&raw mut (*slot).value);
            }
        }
        block
    }

    /// The slot of this number.
    ///
    /// # Safety
    ///
    /// The block has not been freed, `block` is as [`new`](Self::new) returned it, and `number` is
    /// less than [`SLOTS`](Self::SLOTS); or it is as [`new_short`](Self::new_short) returned it,
    /// and the number is also one of the last [`FEW`](Self::FEW).
    #[inline]
    pub(super) unsafe fn slot(block: *const Self, number: u64) -> *const Slot<T> {
        assert_place(block);
        debug_assert!(number < Self::SLOTS, "there is no slot {number}");
        // SAFETY: the slots lie in front of the head, in the same allocation, and the number is one
        // of theirs.
        unsafe { block.cast::<Slot<T>>().sub((Self::SLOTS - number) as usize) }
    }

    /// Frees a block. Messages in it are not dropped.
    ///
    /// # Safety
    ///
    /// `block` is as [`new`](Self::new) returned it, has not been freed, and nobody else will touch
    /// it.
    pub(super) unsafe fn free(block: *mut Self) {
        // SAFETY: it has all slots, and nobody else has it.
        unsafe { Self::free_slots(block, Self::SLOTS) };
    }

    /// Frees a short block. Messages in it are not dropped.
    ///
    /// # Safety
    ///
    /// `block` is as [`new_short`](Self::new_short) returned it, has not been freed, and nobody
    /// else will touch it.
    pub(super) unsafe fn free_short(block: *mut Self) {
        // SAFETY: it has these slots, and nobody else has it.
        unsafe { Self::free_slots(block, Self::FEW) };
    }

    /// Frees a block of the last `slots` slots.
    ///
    /// # Safety
    ///
    /// `block` is as [`with_slots`](Self::with_slots) returned it for as many, has not been freed,
    /// and nobody else will touch it.
    unsafe fn free_slots(block: *mut Self, slots: u64) {
        assert_place(block);
        // SAFETY: nobody else has the block.
        unsafe { nobody_looks_at(&mut (*block).next, &mut (*block).depth) };
        // What stands for an atomic in a model has something to drop.
        if needs_drop::<Slot<T>>() || needs_drop::<Self>() {
            for number in Self::SLOTS - slots..Self::SLOTS {
                // SAFETY: there are these slots, and nobody else has the block.
                unsafe { ptr::drop_in_place(Self::slot(block, number).cast_mut()) };
            }
            // SAFETY: nobody else has the block. Its head has no slots of its own.
            unsafe { ptr::drop_in_place(block) };
        }
        // SAFETY: it was allocated with this layout, and the head lies this far from its beginning.
        unsafe { dealloc(block.cast::<u8>().sub(Self::room(slots)), Self::layout(slots)) };
    }

    /// Frees a chain of blocks, and returns how many there were.
    ///
    /// # Safety
    ///
    /// Nobody but the caller has the blocks of the chain, and each is as [`free`](Self::free)
    /// demands.
    pub(super) unsafe fn free_chain(mut block: *mut Self) -> usize {
        let mut freed = 0;
        while !block.is_null() {
            // SAFETY: nobody but the caller has the blocks of the chain.
            // Relaxed: it was handed over with the block.
            let next = unsafe { &(*block).next }.load(Ordering::Relaxed);
            // SAFETY: nobody but the caller has the block, and its link has been read.
            unsafe { Self::free(block) };
            freed += 1;
            block = next;
        }
        freed
    }
}
