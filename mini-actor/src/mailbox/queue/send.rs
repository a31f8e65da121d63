//! The senders' side: taking slots, filling them, and appending blocks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::{BARE, CLOSED, Mailbox, ONE, Refused, SCHEDULED, SUSPENDED, Sent, TRIMMING, Unsent};
use crate::mailbox::asides::Aside;
use crate::mailbox::block::{Block, Parcel, Slot};
use crate::mailbox::bound::Bound;
use crate::sync::Ordering;

/// What a sender does about the word that it has read.
enum Plan {
    /// Takes so many slots of the block, at least one, from this one on.
    Take {
        offset: u64,
        places: u64,
    },
    /// There is no block yet.
    AppendFirst,
    /// Another thread appends a block, or the activation has the spare ones for a moment.
    LookAgain,
    Refuse(Refused),
}

impl<T> Mailbox<T> {
    /// Puts a message in, without a span, or gives it back. Lock-free; never waits for the actor.
    #[inline]
    pub(crate) fn send(&self, message: T) -> Result<Sent, (Refused, T)> {
        match self.reserve(1) {
            Ok((first, _, sent)) => {
                // SAFETY: just taken, and nothing has been put in.
                unsafe { Slot::fill(first, message) };
                Ok(sent)
            }
            Err(refused) => Err((refused, message)),
        }
    }

    /// Puts in the next messages: as many as fit into one block of slots and are wanted, at least
    /// one. Their slots are taken at once, so no message of another sender comes in between.
    /// Returns how many it took; none if it refuses.
    ///
    /// `messages` yields as many as are wanted, and does not panic.
    pub(crate) fn send_some(
        &self,
        wanted: usize,
        messages: &mut impl Iterator<Item = T>,
    ) -> Result<(usize, Sent), Refused> {
        debug_assert!(wanted > 0, "no slot is wanted");
        let (first, taken, sent) = self.reserve(wanted)?;
        for number in 0..taken {
            // SAFETY: the slots that were taken lie in one block, each behind the one before.
            let slot = unsafe { first.add(number) };
            match messages.next() {
                // SAFETY: the slot was taken above, and nothing has been put in. The block is there
                // until its last slot has been read, and so until this loop has put something into
                // the last one.
                Some(message) => unsafe { Slot::fill(slot, message) },
                // The slot must not be left empty, or the actor would wait for it forever.
                // SAFETY: the slot was taken above, and nothing has been put in.
                None => unsafe { Slot::leave_void(slot) },
            }
        }
        Ok((taken, sent))
    }

    /// Puts in what `make` makes of `given`, or gives `given` back; and with it what is kept beside
    /// it, unless it is refused.
    pub(crate) fn send_with<P, B: Parcel<T>>(
        &self,
        given: P,
        aside: &mut Aside,
        make: impl FnOnce(P) -> B,
    ) -> Result<Sent, Unsent<P>> {
        let (slot, sent) = match self.reserve(1) {
            Ok((slot, _, sent)) => (slot, sent),
            Err(refused) => return Err(Unsent::Refused(refused, given)),
        };
        // The slot must not be left empty, or the actor would wait for it forever.
        match catch_unwind(AssertUnwindSafe(|| make(given))) {
            Ok(message) => {
                if let Some(asides) = self.asides() {
                    // SAFETY: the slot was taken above, and nothing has been put in.
                    asides.enter(unsafe { Slot::address(slot) }, std::mem::take(aside));
                }
                // SAFETY: the slot was taken above, and nothing has been put in.
                unsafe { Slot::fill(slot, message) };
                Ok(sent)
            }
            Err(payload) => {
                // SAFETY: the slot was taken above, and nothing has been put in.
                unsafe { Slot::leave_void(slot) };
                Err(Unsent::Panicked(sent, payload))
            }
        }
    }

    /// Takes consecutive slots of a block: as many as are wanted, or as there is room for. Returns
    /// the first, and their number, at least one.
    #[inline]
    fn reserve(&self, wanted: usize) -> Result<(*const Slot<T>, usize, Sent), Refused> {
        let tail = &self.tail;
        let mut made: *mut Block<T> = ptr::null_mut();
        let mut spins = 0;
        // Acquire, and wherever the word is read again: the block of this position is seen, and as
        // the sender that appended it left it.
        let mut word = tail.word.load(Ordering::Acquire);
        let result = loop {
            let (offset, places) = match self.plan(word, wanted) {
                Plan::Take { offset, places } => (offset, places),
                Plan::AppendFirst => {
                    word = self.append_first(word);
                    continue;
                }
                Plan::LookAgain => {
                    word = self.look_again(&mut spins);
                    continue;
                }
                Plan::Refuse(refused) => break Err(refused),
            };
            let last = offset + places == Block::<T>::SLOTS;
            if last && made.is_null() && !self.may_have_spare_block() {
                // Before the exchange, so that others need not wait for the allocation.
                made = Block::new();
            }
            // Relaxed: ordered by the load of the word. If it is a later block, the word has
            // changed and the exchange fails.
            let block = tail.block.load(Ordering::Relaxed);
            let schedule = if word & SUSPENDED == 0 { SCHEDULED } else { 0 };
            // Acquire: if we are to schedule, the activation comes after what the last one did,
            // which may have come and gone since the load, for a signal, and left the same word.
            // Not a release: what we send is published by its slot, and what others have released
            // in the word stays released, since each step of it continues the one before.
            let next = (word + places * ONE) | schedule;
            match tail.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => {
                    if last {
                        // SAFETY: our slots in it have not been filled, so the block is there, and
                        // the last of them is among ours.
                        unsafe { self.append_behind(block, &mut made) };
                    }
                    let is_to_schedule = word & (SCHEDULED | SUSPENDED) == 0;
                    let sent = if is_to_schedule { Sent::Schedule } else { Sent::Counted };
                    // SAFETY: our slots in it have not been filled, so the block is there; and the
                    // offset is a slot's.
                    let first = unsafe { Block::slot(block, offset) };
                    break Ok((first, places as usize, sent));
                }
                Err(now) => word = now,
            }
        };
        if !made.is_null() {
            // SAFETY: made above, and in nobody else's hands.
            unsafe { Block::free(made) };
        }
        result
    }

    /// What a sender that wants so many slots does about this word.
    #[inline]
    fn plan(&self, word: u64, wanted: usize) -> Plan {
        if word & CLOSED != 0 {
            return Plan::Refuse(Refused::Closed);
        }
        let position = word / ONE;
        let offset = position % Block::<T>::LAP;
        if offset == Block::<T>::SLOTS {
            return if word & BARE != 0 { Plan::AppendFirst } else { Plan::LookAgain };
        }
        let mut places = (wanted as u64).min(Block::<T>::SLOTS - offset);
        if let Some(bound) = &self.middle.bound {
            places = places.min(self.room(bound, position));
            if places == 0 {
                return Plan::Refuse(Refused::Full);
            }
        }
        if offset + places == Block::<T>::SLOTS && word & TRIMMING != 0 {
            return Plan::LookAgain;
        }
        Plan::Take { offset, places }
    }

    /// How many messages a bounded mailbox has room for, at this position.
    #[inline]
    fn room(&self, bound: &Bound, position: u64) -> u64 {
        // Relaxed: only a number, which orders nothing: a block is used again by way of the spare
        // ones. It only grows, so the bound holds also when this is old.
        let taken = self.head.taken.load(Ordering::Relaxed);
        bound.capacity.saturating_sub(Self::count(position).saturating_sub(taken))
    }

    /// Appends a block behind the one whose last slot the caller has taken: a spare one, or a new
    /// one, from `made` if that is there.
    ///
    /// # Safety
    ///
    /// The block has not been freed, and the caller has taken its last slot.
    #[inline]
    unsafe fn append_behind(&self, block: *mut Block<T>, made: &mut *mut Block<T>) {
        let next = self.spare_block().unwrap_or_else(|| self.new_block(made));
        // SAFETY: the block has not been freed.
        // Relaxed: published by the states of the caller's slots.
        unsafe { &*block }.next.store(next, Ordering::Relaxed);
        self.appended(next, 1);
    }

    /// Appends the first block, unless another thread is faster. Returns the word as it is then.
    #[cold]
    fn append_first(&self, word: u64) -> u64 {
        debug_assert!(word & BARE != 0, "the mailbox has a block already");
        debug_assert!(Self::is_between_blocks(word), "the position is a slot's");
        // Before the exchange, so that others need not wait for the allocation.
        let first = Block::new_short();
        // Relaxed: there is nothing before the first block to be seen, and the block is published
        // when it has been appended. Acquire: the loser goes on with the word that it finds, so it
        // sees the block that belongs to it.
        let claimed = word & !BARE;
        match self.tail.word.compare_exchange(word, claimed, Ordering::Relaxed, Ordering::Acquire) {
            Ok(_) => {
                // Relaxed: a number that only says when to look.
                self.middle.blocks.fetch_add(1, Ordering::Relaxed);
                // Release: the reader may find it before it sees a message in it.
                self.middle.first.store(first, Ordering::Release);
                self.appended(first, Self::FIRST - Block::<T>::SLOTS)
            }
            Err(now) => {
                // SAFETY: made above, and in nobody else's hands.
                unsafe { Block::free_short(first) };
                now
            }
        }
    }

    /// The position moves on from the one that is no slot's to the first slot of this block, which
    /// is so many further. For the thread that appends it. Returns the word as it is then.
    fn appended(&self, block: *mut Block<T>, further: u64) -> u64 {
        // Relaxed: published by the addition below.
        self.tail.block.store(block, Ordering::Relaxed);
        // Release: a sender that sees the new lap sees its block. Acquire: the caller may find the
        // mailbox closed.
        self.tail.word.fetch_add(further * ONE, Ordering::AcqRel) + further * ONE
    }

    /// A block that has just been made, here or before. For the thread that appends it.
    fn new_block(&self, made: &mut *mut Block<T>) -> *mut Block<T> {
        // Relaxed: a number that only says when to look.
        self.middle.blocks.fetch_add(1, Ordering::Relaxed);
        match std::mem::replace(made, ptr::null_mut()) {
            made if made.is_null() => Block::new(),
            made => made,
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use crate::mailbox::overflow::{Capacity, Overflow};

    /// What a sender does that wants so many slots and finds these bits, with its place in a block.
    fn planned(bits: u64, offset: u64, wanted: usize) -> String {
        let mailbox = Mailbox::<u64>::new(Capacity::Bounded(5, Overflow::Fail));
        let position = 3 * Block::<u64>::LAP + offset;
        mailbox.head.taken.store(Mailbox::<u64>::count(position), Ordering::Relaxed);
        match mailbox.plan((position * ONE) | bits, wanted) {
            Plan::Take { offset, places } => format!("takes {places} from {offset} on"),
            Plan::AppendFirst => "appends the first block".into(),
            Plan::LookAgain => "looks again".into(),
            Plan::Refuse(refused) => format!("{refused:?}"),
        }
    }

    #[test]
    fn a_sender_waits_while_another_appends_a_block_or_the_spare_ones_are_looked_through() {
        let slots = Block::<u64>::SLOTS;
        for bits in [0, SCHEDULED, SUSPENDED] {
            assert_eq!(planned(bits, 1, 1), "takes 1 from 1 on");
            assert_eq!(planned(bits, 1, 9), "takes 5 from 1 on");
            assert_eq!(planned(bits, slots - 2, 9), format!("takes 2 from {} on", slots - 2));
            assert_eq!(planned(bits, slots, 1), "looks again");
            assert_eq!(planned(bits | BARE, slots, 1), "appends the first block");
            assert_eq!(planned(bits | CLOSED, slots, 1), "Closed");
            // Only who would have to append a block.
            assert_eq!(planned(bits | TRIMMING, 0, 1), "takes 1 from 0 on");
            assert_eq!(planned(bits | TRIMMING, slots - 1, 1), "looks again");
            assert_eq!(planned(bits | TRIMMING, slots - 2, 2), "looks again");
            assert_eq!(planned(bits | TRIMMING | CLOSED, slots - 1, 1), "Closed");
        }
    }

    #[test]
    fn the_block_that_is_appended_is_the_one_made_before_or_else_a_new_one() {
        let mailbox = Mailbox::<u64>::new(Capacity::Unbounded);
        let before = Block::new();
        let mut made = before;
        assert_eq!(mailbox.new_block(&mut made), before);
        assert!(made.is_null());
        let new = mailbox.new_block(&mut made);
        assert!(!new.is_null() && made.is_null());
        // SAFETY: nobody else has them.
        unsafe {
            Block::free(before);
            Block::free(new);
        }
    }
}
