//! The spare blocks of a mailbox.
//!
//! A block that has been read goes onto a stack of spare ones. The next thread that appends a block
//! takes all of them, so a mailbox in use allocates nothing. A burst leaves many. They belong to
//! two sides: the stack to the reader, which alone pushes, and what was taken from it to the thread
//! that has the right to append blocks. When an activation finds nothing left to do and there are
//! more spare blocks than `KEPT`, it takes that right for a moment, by *trimming*: while that is
//! set no sender takes a last slot.
//!
//! > The list of spare blocks that were taken off the stack belongs to the thread that appends
//! > a block, or to the activation while *trimming* is set. *Trimming* is set only on a position
//! > that is a slot's.
//!
//! So no thread can hold a reference to a spare block when the activation frees it.

use std::ptr;

use super::{CLOSED, Mailbox, Next, TRIMMING};
use crate::mailbox::block::Block;
use crate::sync::{CHECKED, Ordering};

/// The most bytes of spare blocks, and the most blocks, while messages are coming.
const SPARE_BYTES: usize = 32 * 1024;
const SPARE_BLOCKS: usize = 32;
/// A block of more bytes is not kept when its actor has nothing to do.
const KEPT_BYTES: usize = 4096;

impl<T> Mailbox<T> {
    /// The most spare blocks on the stack.
    pub(super) const SPARE: usize = {
        let blocks = SPARE_BYTES / Block::<T>::LAYOUT.size();
        if blocks < SPARE_BLOCKS { blocks } else { SPARE_BLOCKS }
    };
    /// How many spare blocks an idle mailbox keeps: enough for an actor that gets few messages at a
    /// time.
    const KEPT: usize = if Block::<T>::LAYOUT.size() <= KEPT_BYTES { 1 } else { 0 };

    /// Whether there seems to be a spare block for a thread that appends one.
    #[inline]
    pub(super) fn may_have_spare_block(&self) -> bool {
        // Relaxed: a guess.
        !self.tail.free.load(Ordering::Relaxed).is_null()
            || !self.middle.spare.load(Ordering::Relaxed).is_null()
    }

    /// A block that has been used before. For the thread that appends it: there is one at a time,
    /// and each comes after the one before by way of the word.
    pub(super) fn spare_block(&self) -> Option<*mut Block<T>> {
        let free = &self.tail.free;
        // Relaxed: the list belongs to the thread that appends a block.
        let mut block = free.load(Ordering::Relaxed);
        if block.is_null() {
            // Acquire: all of them as their readers left them.
            block = self.middle.spare.swap(ptr::null_mut(), Ordering::Acquire);
        }
        if block.is_null() {
            return None;
        }
        // SAFETY: only this thread has a spare block that it has taken off the stack, and it has
        // not been freed.
        let next = unsafe { &(*block).next };
        free.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
        next.store(ptr::null_mut(), Ordering::Relaxed);
        Some(block)
    }

    /// Keeps a block that has been read, or frees it if there are enough or it is a short one.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, has read all slots of the block, and has taken it out of the
    /// queue. The position is one of the block's.
    pub(super) unsafe fn recycle(&self, Next { position, block }: Next<T>) {
        let address = block.cast::<()>();
        debug_assert!(!block.is_null() && block.is_aligned(), "{address:p} is no block's address");
        // Relaxed, here and below: only readers push and write depths, one after the other.
        let mut top = self.middle.spare.load(Ordering::Relaxed);
        loop {
            // SAFETY: only the reader frees blocks, and this is the only reader. If the block has
            // been taken meanwhile, it is in use, and its depth is still what a reader wrote.
            // Relaxed: the reader's own.
            let depth = unsafe { top.as_ref() }.map_or(0, |top| top.depth.load(Ordering::Relaxed));
            if depth >= Self::SPARE || Self::is_short(position) {
                // Relaxed: a number that only says when to look.
                self.middle.blocks.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: it is out of the queue, and senders are done with a block whose slots
                // have been read.
                unsafe { Self::free_block(block, position) };
                return;
            }
            // SAFETY: it is out of the queue and not on the stack yet, so nobody else has it.
            let read = unsafe { &*block };
            read.depth.store(depth + 1, Ordering::Relaxed);
            read.next.store(top, Ordering::Relaxed);
            // Release: a sender that takes it sees it as we leave it. Senders take all or nothing,
            // so a block that is found on top again has the same below it.
            match self.middle.spare.compare_exchange_weak(
                top,
                block,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Whether there are more blocks than an idle mailbox keeps: the one that is in use, and
    /// [`KEPT`](Self::KEPT).
    #[inline]
    pub(super) fn has_too_many_blocks(&self) -> bool {
        // Relaxed: a block that is not counted yet is counted at the end of a later activation.
        self.middle.blocks.load(Ordering::Relaxed) > 1 + Self::KEPT
    }

    /// Takes the spare blocks out, but for those that an idle mailbox keeps. Returns two chains, to
    /// be freed.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and has set *trimming*.
    pub(super) unsafe fn take_spare_blocks(&self) -> [*mut Block<T>; 2] {
        self.assert_activation();
        debug_assert!(
            CHECKED || self.tail.word.load(Ordering::Relaxed) & TRIMMING != 0,
            "the activation does not have the spare blocks"
        );
        // Senders that evict messages push onto the stack as well, and look at its top.
        let _reader =
            self.middle.bound.as_ref().filter(|it| it.evicts()).map(|bound| bound.reader());
        let free = &self.tail.free;
        // Relaxed: ours while *trimming* is set, and seen as it was left through the word.
        let taken = free.swap(ptr::null_mut(), Ordering::Relaxed);
        // Relaxed: readers left them there, and this one comes after those.
        let stack = self.middle.spare.swap(ptr::null_mut(), Ordering::Relaxed);
        let (keep, other) = if taken.is_null() { (stack, taken) } else { (taken, stack) };
        if Self::KEPT == 0 || keep.is_null() {
            return [keep, other];
        }
        // SAFETY: only this thread has the chain that it has taken off, and has not freed it.
        let next = unsafe { &(*keep).next };
        let rest = next.load(Ordering::Relaxed);
        next.store(ptr::null_mut(), Ordering::Relaxed);
        // Relaxed: the next to append a block sees it through the word.
        free.store(keep, Ordering::Relaxed);
        [rest, other]
    }

    /// Frees all blocks, at the end of the last activation. References to an actor that has ended
    /// then keep its home without them.
    ///
    /// > The mailbox is closed, and all that it has accepted has been taken out. So every sender
    /// > that took a slot has filled it, its last access to a block; every one that took a last
    /// > slot has appended the next block; and no sender takes a slot any more. Only those that
    /// > evict messages still look at the head, under their lock, and find that it has no block.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and there is no other after it. It has closed
    /// the mailbox, and its position is the one at closing.
    pub(crate) unsafe fn free_blocks(&self) {
        self.assert_activation();
        // Acquire: the first block and the spare ones are seen as the last to append a block left
        // them, also if that sender then found the mailbox closed.
        let word = self.tail.word.load(Ordering::Acquire);
        debug_assert!(word & CLOSED != 0, "senders may still take slots");
        let reader = self.middle.bound.as_ref().filter(|it| it.evicts()).map(|it| it.reader());
        let (last, position) = self.head.next.with_mut(|next| {
            // SAFETY: the caller is the one activation; and where senders read as well, it holds
            // their lock.
            let next = unsafe { &mut *next };
            (std::mem::replace(&mut next.block, ptr::null_mut()), next.position)
        });
        // Relaxed: a statistic, which `finish` does not write at the end.
        self.head.taken.store(Self::count(position), Ordering::Relaxed);
        // Relaxed, all of them: seen by the load above, by a slot that has been read, or by the
        // lock; and those who look at them from now on find nothing there.
        let first = self.middle.first.swap(ptr::null_mut(), Ordering::Relaxed);
        let stack = self.middle.spare.swap(ptr::null_mut(), Ordering::Relaxed);
        let taken = self.tail.free.swap(ptr::null_mut(), Ordering::Relaxed);
        drop(reader);
        // One that was appended, and in which no slot has been read, is only the first still.
        let in_use = if last.is_null() { first } else { last };
        if !in_use.is_null() {
            // SAFETY: all slots that were taken have been read, and it is in no list. (Before the
            // first is found, the head's position is already that block's.)
            unsafe { Self::free_block(in_use, position) };
        }
        for chain in [stack, taken] {
            // SAFETY: taken out above, so they are nobody else's, and none is in both.
            unsafe { Block::free_chain(chain) };
        }
        // Relaxed: a number that only says when to look.
        self.middle.blocks.store(0, Ordering::Relaxed);
    }
}
