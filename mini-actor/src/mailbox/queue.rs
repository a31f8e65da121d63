//! The mailbox: a queue, and the word that says whether a thread has to run the actor.
//!
//! # The run word
//!
//! ```text
//!  63                         6        5       4         3           2         1        0
//! +----------------------------+----------+------+-----------+-----------+--------+--------+
//! | position: next free slot   | trimming | bare | suspended | scheduled | signal | closed |
//! +----------------------------+----------+------+-----------+-----------+--------+--------+
//! ```
//!
//! - *Closed*: every send from then on is refused. The activation sets it; nobody clears it.
//! - *Signal*: a signal lies in the system lane. A thread that has put one in sets it; the
//!   activation clears it before it takes the signals.
//! - *Scheduled*: an activation waits or runs. A thread that finds it clear and has a message or a
//!   signal sets it, and must schedule the actor. The activation clears it when it finds nothing
//!   left to do.
//! - *Suspended*: messages are accepted and wake nobody. The activation sets it while the actor
//!   waits to be restarted, and clears it.
//! - *Bare*: there is no block yet. A new mailbox has it; the sender that appends the first block
//!   clears it, in the step that gives it the right to.
//! - *Trimming*: the activation has the spare blocks. It sets this when it is about to end and
//!   there are too many of them, and clears it in the step in which it ends or finds more to do.
//!
//! One compare-and-swap takes a slot, or a run of slots, and sets *scheduled*. So "is there more"
//! and "is a thread looking" are one word and cannot disagree: no message can be left in a mailbox
//! that no thread looks into. While *scheduled* is set there is exactly one activation, waiting or
//! running. Because closing is in the same word, the position at closing is final: what was
//! accepted lies before it, and everything else was refused and given back.
//!
//! # The queue
//!
//! A list of blocks of slots, as in crossbeam's `SegQueue`. The sender that takes the last slot of
//! a block, alone or with others before it, appends the next block. Until that is done the position
//! is one that is no slot's, and others wait for the few instructions that it takes. A slot is
//! written after it was taken: in between, the activation finds it empty although the position is
//! beyond it, ends, and is scheduled again.
//!
//! The reader's side belongs to the one activation; only a mailbox that drops its oldest message
//! lets senders read as well, and has a lock for it.
//!
//! # The first block
//!
//! A new mailbox has none, because many actors are spawned and get no message for a long time. Its
//! position is the one behind the last slot of an imaginary block, so it is no slot's, and *bare*
//! says that no thread is appending a block. The sender that clears *bare* gains the right to
//! append one, as the taker of a last slot does. So at most one thread has that right at any time:
//!
//! > The position is no slot's exactly while *bare* is set or one thread is appending a block.
//!
//! The first block has only the last few slots of a block ([`Block::FEW`]), and the position moves
//! on to the first of these. When it has been read it is freed, since all others are whole. It is
//! told from them by the position.
//!
//! # Where it is
//!
//! Here are the run word and the parts of a mailbox; `send` has the senders' side, `receive` the
//! reader's, `spare` the blocks that have been read, and [`bound`](crate::mailbox::bound) the
//! senders that wait for room.
//!
//! # Spans
//!
//! If the system captures spans, they lie beside the queue, by the addresses of their messages: see
//! [`asides`](crate::mailbox::asides).

mod spare;

mod receive;
mod send;

use std::any::Any;
use std::mem::MaybeUninit;
use std::ptr;
use std::task::{Poll, Waker};

use crate::base::panics::guard;
use crate::mailbox::asides::Asides;
use crate::mailbox::block::Block;
use crate::mailbox::bound::Bound;
use crate::mailbox::overflow::{Capacity, Overflow};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, CHECKED, Ordering, UnsafeCell, relax};
use lars_base::time::Instant;

const CLOSED: u64 = 1;
const SIGNAL: u64 = 2;
const SCHEDULED: u64 = 4;
const SUSPENDED: u64 = 8;
const BARE: u64 = 16;
const TRIMMING: u64 = 32;
/// One position.
const ONE: u64 = 64;

/// Why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Closed,
    Full,
}

/// What became of what was to be sent.
pub(crate) enum Unsent<P> {
    Refused(Refused, P),
    /// Making the message panicked, in a slot that is counted.
    Panicked(Sent, Box<dyn Any + Send>),
}

/// What a sender has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Sent {
    /// Nothing: the actor is scheduled, running or suspended.
    Counted,
    /// Schedule the actor.
    Schedule,
}

/// The senders' side.
#[repr(C)]
struct Tail<T> {
    word: AtomicU64,
    /// The block of the word's position, unless that is no slot's.
    block: AtomicPtr<Block<T>>,
    /// Spare blocks. For the thread that appends a block, or trims.
    free: AtomicPtr<Block<T>>,
}

/// The reader's side.
#[repr(C)]
struct Head<T> {
    next: UnsafeCell<Next<T>>,
    /// How many messages have been taken out. Exact in a bounded mailbox, up to date after each
    /// activation in others.
    taken: AtomicU64,
}

/// What is read next.
struct Next<T> {
    position: u64,
    /// Null until the first block has been found.
    block: *mut Block<T>,
}

/// The parts begin [`LINE`] bytes after each other. So the first two words of each part, which are
/// in constant use, never share a cache line with those of another part, wherever the mailbox
/// begins. The mailbox is not aligned to a line: an allocator takes much longer for memory with
/// that alignment.
#[repr(C, align(16))]
pub(crate) struct Mailbox<T> {
    tail: Tail<T>,
    _apart: Gap<{ LINE.saturating_sub(size_of::<Tail<()>>()) }>,
    middle: Middle<T>,
    _and: Gap<{ LINE.saturating_sub(size_of::<Middle<()>>()) }>,
    head: Head<T>,
}

const LINE: usize = 64;

struct Gap<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Gap<BYTES> {
    const NEW: Self = Self([MaybeUninit::uninit(); BYTES]);
}

/// What is rarely written. It lies between the senders' side and the reader's, so that these are
/// not on neighbouring cache lines, which some processors fetch together.
#[repr(C)]
struct Middle<T> {
    bound: Option<Box<Bound>>,
    /// Blocks that have been read, for the next thread that appends a block and finds `free`
    /// empty: it takes all.
    spare: AtomicPtr<Block<T>>,
    /// The first block, once there is one.
    first: AtomicPtr<Block<T>>,
    /// How many blocks there are, in use or not.
    blocks: AtomicUsize,
    /// What is kept beside the messages that wait, if anything may be.
    asides: Option<Box<Asides>>,
}

// SAFETY: a slot's value is written by the one sender that took the slot, and passes to the reader
// by the slot's state. The head belongs to the reader, of which there is one at a time (see `pop`).
// A block is freed or used again only when all its slots have been read, which nobody who took one
// of them touches afterwards.
unsafe impl<T: Send> Send for Mailbox<T> {}
// SAFETY: all fields but the head are atomics or locks. The head belongs to the one reader, the
// values in slots to the one sender that took the slot and then to the reader; so shared references
// give access to each value by one thread at a time, which is allowed to have it because `T: Send`.
unsafe impl<T: Send> Sync for Mailbox<T> {}

impl<T> Mailbox<T> {
    /// The position of the first message: the first slot of the first block, which is short.
    const FIRST: u64 = Block::<T>::LAP + Block::<T>::SLOTS - Block::<T>::FEW;

    /// How many slots there are before a position, counted as if the blocks in front were whole.
    const fn slots(position: u64) -> u64 {
        position / Block::<T>::LAP * Block::<T>::SLOTS + position % Block::<T>::LAP
    }

    /// How many messages lie before a position. A new mailbox has one before the first.
    const fn count(position: u64) -> u64 {
        Self::slots(position).saturating_sub(Self::slots(Self::FIRST))
    }

    /// Whether the block of this position is the first, and not as long as others.
    const fn is_short(position: u64) -> bool {
        Block::<T>::FEW < Block::<T>::SLOTS && position < 2 * Block::<T>::LAP
    }

    /// Frees the block of this position.
    ///
    /// # Safety
    ///
    /// The block has not been freed, and nobody else will touch it.
    unsafe fn free_block(block: *mut Block<T>, position: u64) {
        if Self::is_short(position) {
            // SAFETY: nobody else has the block, and the first block of a mailbox is a short one.
            unsafe { Block::free_short(block) };
        } else {
            // SAFETY: nobody else has the block, and all but the first are whole. (That one may
            // be as well.)
            unsafe { Block::free(block) };
        }
    }

    /// Whether the word's position is no slot's: a block is being appended, or there is none yet.
    const fn is_between_blocks(word: u64) -> bool {
        word / ONE % Block::<T>::LAP == Block::<T>::SLOTS
    }

    /// How many blocks there are, in use or not.
    #[cfg(test)]
    pub(crate) fn blocks(&self) -> usize {
        self.middle.blocks.load(Ordering::Relaxed)
    }

    /// How many senders wait for room.
    #[cfg(all(test, not(lars_loom)))]
    pub(crate) fn waiting(&self) -> usize {
        self.middle.bound.as_ref().map_or(0, |bound| bound.waiting())
    }

    /// A mailbox whose actor counts as scheduled: its maker schedules it.
    #[inline]
    pub(crate) fn new(capacity: Capacity) -> Self {
        let bound = match capacity {
            Capacity::Unbounded => None,
            Capacity::Bounded(limit, policy) => Some(Box::new(Bound::new(limit as u64, policy))),
        };
        let position = Block::<T>::SLOTS;
        Self {
            tail: Tail {
                word: AtomicU64::new((position * ONE) | SCHEDULED | BARE),
                block: AtomicPtr::new(ptr::null_mut()),
                free: AtomicPtr::new(ptr::null_mut()),
            },
            _apart: Gap::NEW,
            middle: Middle {
                bound,
                spare: AtomicPtr::new(ptr::null_mut()),
                first: AtomicPtr::new(ptr::null_mut()),
                blocks: AtomicUsize::new(0),
                asides: None,
            },
            _and: Gap::NEW,
            head: Head {
                next: UnsafeCell::new(Next { position: Self::FIRST, block: ptr::null_mut() }),
                taken: AtomicU64::new(0),
            },
        }
    }

    /// Whether messages keep the spans in which they are told, and those of timers when they were
    /// due.
    #[inline]
    pub(crate) fn with_asides(mut self, spans: bool, due: bool) -> Self {
        self.middle.asides = (spans || due).then(|| Box::new(Asides::new(spans)));
        self
    }

    /// Whether messages keep the spans in which they are told.
    #[inline]
    pub(crate) fn has_spans(&self) -> bool {
        self.middle.asides.as_ref().is_some_and(|asides| asides.spans)
    }

    /// What is kept beside the messages that wait.
    #[inline]
    pub(crate) fn asides(&self) -> Option<&Asides> {
        self.middle.asides.as_deref()
    }

    /// What becomes of a message that finds no room.
    pub(crate) fn overflow(&self) -> Overflow {
        self.middle.bound.as_ref().map_or(Overflow::Fail, |bound| bound.overflow)
    }

    /// An activation runs only while *scheduled* is set. (Not in models, where each look at the
    /// word is one step more.)
    #[inline]
    pub(crate) fn assert_activation(&self) {
        debug_assert!(
            CHECKED || self.tail.word.load(Ordering::Relaxed) & SCHEDULED != 0,
            "there is no activation"
        );
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: what the actor did before closing is seen, as by a sender that is refused.
        self.tail.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Whether an activation waits or runs.
    pub(crate) fn is_scheduled(&self) -> bool {
        // Acquire: if the activation has ended, what it sent is seen.
        self.tail.word.load(Ordering::Acquire) & SCHEDULED != 0
    }

    /// How many messages have been accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        // Relaxed: a number and nothing else. A thread counts what it knows to have been sent.
        Self::count(self.tail.word.load(Ordering::Relaxed) / ONE)
    }

    /// How many messages have been worked off: those of activations that have ended.
    pub(crate) fn received(&self) -> u64 {
        // Relaxed: a statistic.
        self.head.taken.load(Ordering::Relaxed)
    }

    /// How many messages wait, including those that an activation is working off now.
    pub(crate) fn depth(&self) -> u64 {
        // First what has left, so that the difference is never too small.
        let received = self.received();
        self.accepted().saturating_sub(received)
    }

    /// Reads the word again, which another thread is about to change.
    fn look_again(&self, spins: &mut u32) -> u64 {
        relax(spins);
        // Acquire: as the first load in `reserve`.
        self.tail.word.load(Ordering::Acquire)
    }

    /// Waits until there may be room or the mailbox is closed, but not beyond `deadline`. `false`
    /// if that has passed, or if the sender is an actor and actors must not wait. The number in
    /// `place` is the sender's in the line of those that wait, until it has sent or gives up.
    pub(crate) fn wait_for_room(
        &self,
        place: &mut Option<u64>,
        deadline: Option<Instant>,
        actor: bool,
    ) -> bool {
        let bound = self.middle.bound.as_deref();
        bound.is_none_or(|bound| bound.wait(place, deadline, actor, || self.has_room_or_end(bound)))
    }

    /// Like [`wait_for_room`](Self::wait_for_room), for a future. It may be woken although there is
    /// no room.
    pub(crate) fn poll_room(
        &self,
        place: &mut Option<u64>,
        waker: &Waker,
        actor: bool,
    ) -> Poll<bool> {
        match &self.middle.bound {
            Some(bound) => bound.poll(place, waker, actor, || self.has_room_or_end(bound)),
            None => Poll::Ready(true),
        }
    }

    /// A future no longer waits. If it was woken and has not `used` the room, that is there for the
    /// next sender.
    pub(crate) fn leave_room(&self, place: &mut Option<u64>, used: bool) {
        if let Some(bound) = &self.middle.bound {
            bound.leave(place, used);
        }
    }

    /// Allows or forbids actors to wait here for room; forbidding it wakes those that do.
    pub(crate) fn let_actors_wait(&self, wait: bool) {
        if let Some(bound) = &self.middle.bound {
            bound.let_actors_wait(wait);
        }
    }

    /// Whether it is worth trying again to send.
    fn has_room_or_end(&self, bound: &Bound) -> bool {
        // Relaxed: as in `room`; the fence of those who wait comes before it.
        let taken = self.head.taken.load(Ordering::Relaxed);
        self.is_closed() || self.accepted().saturating_sub(taken) < bound.capacity
    }

    /// How many messages have been taken out.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    pub(crate) unsafe fn position(&self) -> u64 {
        self.assert_activation();
        if self.middle.bound.is_some() {
            // Relaxed: a number. What a sender has evicted concerns the activation no more.
            return self.head.taken.load(Ordering::Relaxed);
        }
        // SAFETY: without a bound nobody reads but the one activation, to which this part of the
        // head belongs.
        let position = self.head.next.with_mut(|next| unsafe { (*next).position });
        // The reader's position is never before the first. (In each step of a turn, so no `count`.)
        Self::slots(position) - Self::slots(Self::FIRST)
    }

    /// Announces a signal.
    pub(crate) fn signal(&self) -> Sent {
        // Release: the activation that sees the bit sees the signal. Acquire: as for a message.
        match self.tail.word.fetch_or(SIGNAL | SCHEDULED, Ordering::AcqRel) & SCHEDULED {
            0 => Sent::Schedule,
            _ => Sent::Counted,
        }
    }

    /// Whether there are signals.
    pub(crate) fn is_signalled(&self) -> bool {
        // Relaxed: `signals_seen` acquires. If this misses one, `finish` does not.
        self.tail.word.load(Ordering::Relaxed) & SIGNAL != 0
    }

    /// The activation is about to take the signals.
    pub(crate) fn signals_seen(&self) {
        // Acquire: what was signalled before is seen. A thread that signals after this sets the bit
        // again, since both steps change the same word.
        self.tail.word.fetch_and(!SIGNAL, Ordering::Acquire);
    }

    /// Refuses all messages from now on; returns how many have been accepted in all.
    pub(crate) fn close(&self) -> u64 {
        // Release: see `is_closed`.
        let mut word = self.tail.word.fetch_or(CLOSED, Ordering::Release);
        let mut spins = 0;
        // A sender that appends a block moves the position once more, over the one that is no
        // slot's. In a bare mailbox there is no such sender, and there will be none.
        while Self::is_between_blocks(word) && word & BARE == 0 {
            word = self.look_again(&mut spins);
        }
        if let Some(bound) = &self.middle.bound {
            bound.made_room(usize::MAX);
        }
        Self::count(word / ONE)
    }

    /// Sets or clears *suspended*: whether messages wait without waking the actor. For the
    /// activation.
    pub(crate) fn suspend(&self, suspended: bool) {
        // Relaxed: the step that ends the activation publishes what it did.
        if suspended {
            self.tail.word.fetch_or(SUSPENDED, Ordering::Relaxed);
        } else {
            self.tail.word.fetch_and(!SUSPENDED, Ordering::Relaxed);
        }
    }

    /// Ends an activation. True if there has to be another one; if not, the caller must not touch
    /// the actor any more.
    ///
    /// `seen` is the position up to which the activation has done everything, as it read it before
    /// it looked: it has not looked at a stop or a timer whose turn comes at a later position. The
    /// position may have moved on since then without a message for the actor: past an empty slot,
    /// or because a sender evicted the oldest message. `None` if there is more to do in any case.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    #[must_use]
    #[inline]
    pub(crate) unsafe fn finish(&self, seen: Option<u64>) -> bool {
        self.assert_activation();
        if self.middle.bound.is_none() {
            // SAFETY: the caller is the mailbox's one activation.
            let taken = unsafe { self.position() };
            // Relaxed: a statistic. And not written again when nothing has changed: others may read
            // it.
            self.head.taken.store(taken, Ordering::Relaxed);
        }
        let Some(seen) = seen else {
            return true;
        };
        // Chains of blocks to be freed, when this activation has let go of *trimming*.
        let mut spare = [ptr::null_mut(); 2];
        let mut trimming = 0;
        // Relaxed, and where the exchange fails: what is found belongs to the next activation,
        // which looks at the signals and the slots.
        let mut word = self.tail.word.load(Ordering::Relaxed);
        let again = loop {
            let empty = Self::count(word / ONE) == seen || word & SUSPENDED != 0;
            if word & SIGNAL != 0 || !empty {
                if trimming != 0 {
                    // Release: the next to append a block sees the spare blocks as they are now.
                    self.tail.word.fetch_and(!TRIMMING, Ordering::Release);
                }
                break true;
            }
            let trim =
                trimming == 0 && self.has_too_many_blocks() && !Self::is_between_blocks(word);
            let next = if trim { word | TRIMMING } else { word & !(SCHEDULED | TRIMMING) };
            // Release: the next activation sees what this one did. Acquire: when *trimming* is set,
            // the spare blocks are seen as the last to append a block left them.
            match self.tail.word.compare_exchange_weak(
                word,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if trim => {
                    (trimming, word) = (TRIMMING, next);
                    // SAFETY: this is the one activation, and *trimming* has just been set.
                    spare = unsafe { self.take_spare_blocks() };
                }
                Ok(_) => break false,
                Err(now) => word = now,
            }
        };
        if trimming != 0 {
            for chain in spare {
                // SAFETY: taken out above, so they are nobody else's.
                let freed = unsafe { Block::free_chain(chain) };
                // Relaxed: a number that only says when to look. Nothing of the actor is touched.
                self.middle.blocks.fetch_sub(freed, Ordering::Relaxed);
            }
        }
        again
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        // The destructors of messages are foreign code: if one panics, the others must still run.
        let drop_one = |message: *mut T| {
            // SAFETY: a message is there until it is dropped, once.
            guard("the destructor of a message", || unsafe { message.drop_in_place() });
        };
        // SAFETY: `&mut self`: nobody else uses the mailbox.
        while let Some(()) = unsafe { self.take_with(None, drop_one) } {}
        self.head.next.with_mut(|next| {
            // SAFETY: `&mut self`: nobody else uses the head.
            let &mut Next { position, block: last } = unsafe { &mut *next };
            if !last.is_null() {
                // SAFETY: the last block, without unread slots; nobody else is left.
                unsafe { Self::free_block(last, position) };
            }
        });
        // Relaxed: nobody else is left.
        for chain in [&self.tail.free, &self.middle.spare] {
            // SAFETY: spare blocks are in neither list twice, and nobody else is left.
            unsafe { Block::free_chain(chain.load(Ordering::Relaxed)) };
        }
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests;

#[cfg(all(test, lars_loom))]
mod models;
