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
//! # Spare blocks
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
//!
//! # Spans
//!
//! If the system captures spans, they lie beside the queue, by the addresses of their messages: see
//! [`spans`](crate::mailbox::spans).

use std::any::Any;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::base::panics::guard;
use crate::mailbox::block::{Block, Found, Parcel, Slot};
use crate::mailbox::overflow::{Capacity, Overflow};
use crate::mailbox::spans::{Spans, Told};
use crate::sync::{
    AtomicPtr, AtomicU64, AtomicUsize, CHECKED, Condvar, Mutex, Ordering, UnsafeCell, fence,
    real_now, relax,
};

const CLOSED: u64 = 1;
const SIGNAL: u64 = 2;
const SCHEDULED: u64 = 4;
const SUSPENDED: u64 = 8;
const BARE: u64 = 16;
const TRIMMING: u64 = 32;
/// One position.
const ONE: u64 = 64;

/// The most bytes of spare blocks, and the most blocks, while messages are coming.
const SPARE_BYTES: usize = 32 * 1024;
const SPARE_BLOCKS: usize = 32;
/// A block of more bytes is not kept when its actor has nothing to do.
const KEPT_BYTES: usize = 4096;

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

/// A limit, and the senders that wait for room.
struct Bound {
    capacity: u64,
    waiting: AtomicUsize,
    lock: Mutex<Waiting>,
    room: Condvar,
    overflow: Overflow,
}

#[derive(Default)]
struct Waiting {
    /// Whether sending actors must not wait now.
    barred: bool,
    /// The number of the next future that waits.
    next: u64,
    /// Those of futures, by their numbers, so that one that is dropped can be removed.
    wakers: BTreeMap<u64, Waker>,
}

impl Bound {
    /// Wakes the threads that wait, and `most` of the futures. A future that then finds no room
    /// waits again. One that is dropped without having used the room wakes the next.
    fn wake(&self, most: usize) {
        let mut wakers = Vec::new();
        {
            let mut waiting = self.lock.lock();
            while wakers.len() < most
                && let Some((_, waker)) = waiting.wakers.pop_first()
            {
                wakers.push(waker);
            }
        }
        // Relaxed: a number that is too large only costs a look.
        self.waiting.fetch_sub(wakers.len(), Ordering::Relaxed);
        self.room.notify_all();
        // Outside the lock: they are foreign code.
        for waker in wakers {
            guard("a waker", || waker.wake());
        }
    }

    /// Whether senders take messages out, so that the reader's side needs the lock.
    fn evicts(&self) -> bool {
        self.overflow == Overflow::DropOldest
    }
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
    /// Those of the messages that wait, if spans are captured.
    spans: Option<Box<Spans>>,
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
    /// The most spare blocks on the stack.
    const SPARE: usize = {
        let blocks = SPARE_BYTES / Block::<T>::LAYOUT.size();
        if blocks < SPARE_BLOCKS { blocks } else { SPARE_BLOCKS }
    };
    /// How many spare blocks an idle mailbox keeps: enough for an actor that gets few messages at a
    /// time.
    const KEPT: usize = if Block::<T>::LAYOUT.size() <= KEPT_BYTES { 1 } else { 0 };

    /// How many messages lie before a position. The first position is the one behind an imaginary
    /// block.
    const fn count(position: u64) -> u64 {
        position / Block::<T>::LAP * Block::<T>::SLOTS + position % Block::<T>::LAP
            - Block::<T>::SLOTS
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
    #[cfg(all(test, lars_shuttle))]
    pub(crate) fn waiting(&self) -> usize {
        self.middle.bound.as_ref().map_or(0, |bound| bound.waiting.load(Ordering::Relaxed))
    }

    /// A mailbox whose actor counts as scheduled: its maker schedules it.
    pub(crate) fn new(capacity: Capacity) -> Self {
        let bound = match capacity {
            Capacity::Unbounded => None,
            Capacity::Bounded(limit, policy) => Some(Box::new(Bound {
                capacity: limit as u64,
                waiting: AtomicUsize::new(0),
                lock: Mutex::default(),
                room: Condvar::default(),
                overflow: policy,
            })),
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
                spans: None,
            },
            _and: Gap::NEW,
            head: Head {
                next: UnsafeCell::new(Next { position, block: ptr::null_mut() }),
                taken: AtomicU64::new(0),
            },
        }
    }

    /// Whether messages keep the spans in which they are told.
    pub(crate) fn with_spans(mut self, on: bool) -> Self {
        self.middle.spans = on.then(Box::default);
        self
    }

    #[inline]
    pub(crate) fn has_spans(&self) -> bool {
        self.middle.spans.is_some()
    }

    /// The span of the message at this address, which its reader is about to move out.
    fn take_span(&self, message: *const T) -> Option<Told> {
        self.middle.spans.as_deref()?.take(message.addr())
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

    /// How many messages have been accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        // Relaxed: a number and nothing else. A thread counts what it knows to have been sent.
        Self::count(self.tail.word.load(Ordering::Relaxed) / ONE)
    }

    /// How many messages wait, including those that an activation is working off now.
    pub(crate) fn depth(&self) -> u64 {
        // Relaxed: a statistic.
        let taken = self.head.taken.load(Ordering::Relaxed);
        self.accepted().saturating_sub(taken)
    }

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
            // SAFETY: the slots that were taken lie behind each other in one block.
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

    /// Puts in what `make` makes of `given`, or gives `given` back; and with it the span `told`,
    /// unless it is refused.
    pub(crate) fn send_with<P, B: Parcel<T>>(
        &self,
        given: P,
        told: &mut Option<Told>,
        make: impl FnOnce(P) -> B,
    ) -> Result<Sent, Unsent<P>> {
        let (slot, sent) = match self.reserve(1) {
            Ok((slot, _, sent)) => (slot, sent),
            Err(refused) => return Err(Unsent::Refused(refused, given)),
        };
        // The slot must not be left empty, or the actor would wait for it forever.
        match catch_unwind(AssertUnwindSafe(|| make(given))) {
            Ok(message) => {
                if let (Some(spans), Some(span)) = (&self.middle.spans, told.take()) {
                    // SAFETY: the slot was taken above, and nothing has been put in.
                    spans.enter(unsafe { Slot::address(slot) }, span);
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
            if word & CLOSED != 0 {
                break Err(Refused::Closed);
            }
            let position = word / ONE;
            let offset = position % Block::<T>::LAP;
            if offset == Block::<T>::SLOTS {
                word = if word & BARE != 0 {
                    self.append_first(word, &mut made)
                } else {
                    // Another thread appends the next block.
                    self.look_again(&mut spins)
                };
                continue;
            }
            let mut places = (wanted as u64).min(Block::<T>::SLOTS - offset);
            if let Some(bound) = &self.middle.bound {
                // Relaxed: only a number, which orders nothing: a block is used again by way of the
                // spare ones. It only grows, so the bound holds also when this is old.
                let taken = self.head.taken.load(Ordering::Relaxed);
                let room =
                    bound.capacity.saturating_sub(Self::count(position).saturating_sub(taken));
                if room == 0 {
                    break Err(Refused::Full);
                }
                places = places.min(room);
            }
            let last = offset + places == Block::<T>::SLOTS;
            if last {
                if word & TRIMMING != 0 {
                    // The activation has the spare blocks, for a moment.
                    word = self.look_again(&mut spins);
                    continue;
                }
                if made.is_null()
                    // Relaxed: a guess, so that others need not wait for the allocation.
                    && tail.free.load(Ordering::Relaxed).is_null()
                    && self.middle.spare.load(Ordering::Relaxed).is_null()
                {
                    made = Block::new();
                }
            }
            // Relaxed: ordered by the load of the word. If it is a later block, the word has
            // changed and the exchange fails.
            let block = tail.block.load(Ordering::Relaxed);
            let schedule = if word & SUSPENDED == 0 { SCHEDULED } else { 0 };
            // Acquire: if we are to schedule, the activation comes after what the last one did,
            // which may have come and gone since the load, for a signal, and left the same word.
            // Not a release: what we send is published by its slot, and what others have released
            // in the word stays released, since each step of it continues the one before.
            match tail.word.compare_exchange_weak(
                word,
                (word + places * ONE) | schedule,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    if last {
                        let next = self.spare_block().unwrap_or_else(|| self.new_block(&mut made));
                        // SAFETY: our slots in it have not been filled, so the block is there.
                        // Relaxed: published by our slots' states.
                        unsafe { &*block }.next.store(next, Ordering::Relaxed);
                        self.appended(next);
                    }
                    let sent = if word & (SCHEDULED | SUSPENDED) == 0 {
                        Sent::Schedule
                    } else {
                        Sent::Counted
                    };
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

    /// Reads the word again, which another thread is about to change.
    fn look_again(&self, spins: &mut u32) -> u64 {
        relax(spins);
        // Acquire: as the first load in `reserve`.
        self.tail.word.load(Ordering::Acquire)
    }

    /// Appends the first block, unless another thread is faster. Returns the word as it is then.
    /// The block comes from `made`, or is left there if it is not used.
    #[cold]
    fn append_first(&self, word: u64, made: &mut *mut Block<T>) -> u64 {
        debug_assert!(word & BARE != 0, "the mailbox has a block already");
        debug_assert!(Self::is_between_blocks(word), "the position is a slot's");
        if made.is_null() {
            // Before the exchange, so that others need not wait for the allocation.
            *made = Block::new();
        }
        // Relaxed: there is nothing before the first block to be seen, and the block is published
        // when it has been appended. Acquire: the loser goes on with the word that it finds, so it
        // sees the block that belongs to it.
        let claimed = word & !BARE;
        match self.tail.word.compare_exchange(word, claimed, Ordering::Relaxed, Ordering::Acquire) {
            Ok(_) => {
                let first = self.new_block(made);
                // Release: the reader may find it before it sees a message in it.
                self.middle.first.store(first, Ordering::Release);
                self.appended(first)
            }
            Err(now) => now,
        }
    }

    /// The position moves on from the one that is no slot's to the first slot of this block. For
    /// the thread that appends it. Returns the word as it is then.
    fn appended(&self, block: *mut Block<T>) -> u64 {
        // Relaxed: published by the addition below.
        self.tail.block.store(block, Ordering::Relaxed);
        // Release: a sender that sees the new lap sees its block. Acquire: the caller may find the
        // mailbox closed.
        self.tail.word.fetch_add(ONE, Ordering::AcqRel) + ONE
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

    /// A block that has been used before. For the thread that appends it: there is one at a time,
    /// and each comes after the one before by way of the word.
    fn spare_block(&self) -> Option<*mut Block<T>> {
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

    /// Keeps a block that has been read, or frees it if there are enough.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, has read all slots of the block, and has taken it out of the
    /// queue.
    unsafe fn recycle(&self, block: *mut Block<T>) {
        debug_assert!(!block.is_null() && block.is_aligned(), "{block:p} is no block's address");
        // Relaxed, here and below: only readers push and write depths, one after the other.
        let mut top = self.middle.spare.load(Ordering::Relaxed);
        loop {
            // SAFETY: only the reader frees blocks, and this is the only reader. If the block has
            // been taken meanwhile, it is in use, and its depth is still what a reader wrote.
            // Relaxed: the reader's own.
            let depth = unsafe { top.as_ref() }.map_or(0, |top| top.depth.load(Ordering::Relaxed));
            if depth >= Self::SPARE {
                // Relaxed: a number that only says when to look.
                self.middle.blocks.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: it is out of the queue, and senders are done with a block whose slots
                // have been read.
                unsafe { Block::free(block) };
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
    fn has_too_many_blocks(&self) -> bool {
        // Relaxed: a block that is not counted yet is counted at the end of a later activation.
        self.middle.blocks.load(Ordering::Relaxed) > 1 + Self::KEPT
    }

    /// Takes the spare blocks out, but for those that an idle mailbox keeps. Returns two chains, to
    /// be freed.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and has set *trimming*.
    unsafe fn take_spare_blocks(&self) -> [*mut Block<T>; 2] {
        self.assert_activation();
        debug_assert!(
            CHECKED || self.tail.word.load(Ordering::Relaxed) & TRIMMING != 0,
            "the activation does not have the spare blocks"
        );
        // Senders that evict messages push onto the stack as well, and look at its top.
        let _reader =
            self.middle.bound.as_ref().filter(|it| it.evicts()).map(|bound| bound.lock.lock());
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

    /// Waits until there may be room or the mailbox is closed, but not beyond `deadline`. `false`
    /// if that has passed, or if the sender is an actor and actors must not wait.
    pub(crate) fn wait_for_room(&self, deadline: Option<Instant>, actor: bool) -> bool {
        let Some(bound) = &self.middle.bound else {
            return true;
        };
        let mut guard = bound.lock.lock();
        bound.waiting.fetch_add(1, Ordering::Relaxed);
        // SeqCst fence, pairs with the one in `wake_waiting`: either the reader sees us waiting, or
        // we see the room that it made.
        fence(Ordering::SeqCst);
        let mut in_time = true;
        while !self.has_room_or_end(bound) {
            if actor && guard.barred || deadline.is_some_and(|deadline| real_now() >= deadline) {
                in_time = false;
                break;
            }
            guard = bound.room.wait(guard, deadline);
        }
        // Relaxed: as in `Bound::wake`.
        bound.waiting.fetch_sub(1, Ordering::Relaxed);
        in_time
    }

    /// Whether it is worth trying again to send.
    fn has_room_or_end(&self, bound: &Bound) -> bool {
        // Relaxed: as in `reserve`; the fence of those who wait comes before it.
        let taken = self.head.taken.load(Ordering::Relaxed);
        self.is_closed() || self.accepted().saturating_sub(taken) < bound.capacity
    }

    /// Like [`wait_for_room`](Self::wait_for_room), for a future. The number in `place` identifies
    /// it. It may be woken although there is no room.
    pub(crate) fn poll_room(
        &self,
        place: &mut Option<u64>,
        waker: &Waker,
        actor: bool,
    ) -> Poll<bool> {
        let Some(bound) = &self.middle.bound else {
            return Poll::Ready(true);
        };
        // Cloned and dropped outside the lock: it is foreign code.
        let waker = waker.clone();
        let mut waiting = bound.lock.lock();
        if actor && waiting.barred {
            drop(waiting);
            self.leave_room(place, false);
            return Poll::Ready(false);
        }
        let number = *place.get_or_insert(waiting.next);
        waiting.next = waiting.next.max(number + 1);
        let before = waiting.wakers.insert(number, waker);
        if before.is_none() {
            bound.waiting.fetch_add(1, Ordering::Relaxed);
        }
        // SeqCst fence, as in `wait_for_room`.
        fence(Ordering::SeqCst);
        let ready = self.has_room_or_end(bound);
        drop(waiting);
        drop(before);
        if ready {
            self.leave_room(place, false);
            return Poll::Ready(true);
        }
        Poll::Pending
    }

    /// A future no longer waits. If it was woken and has not `used` the room, another future may be
    /// waiting for that room.
    pub(crate) fn leave_room(&self, place: &mut Option<u64>, used: bool) {
        if let Some(bound) = &self.middle.bound
            && let Some(number) = place.take()
        {
            let left = bound.lock.lock().wakers.remove(&number);
            match left {
                Some(_) => drop(bound.waiting.fetch_sub(1, Ordering::Relaxed)),
                None if used => {}
                None => bound.wake(1),
            }
        }
    }

    /// Allows or forbids actors to wait here for room; forbidding it wakes those that do.
    pub(crate) fn let_actors_wait(&self, wait: bool) {
        if let Some(bound) = &self.middle.bound {
            bound.lock.lock().barred = !wait;
            if !wait {
                bound.wake(usize::MAX);
            }
        }
    }

    fn wake_waiting(bound: &Bound, most: usize) {
        // SeqCst fence: see `wait_for_room`.
        fence(Ordering::SeqCst);
        if bound.waiting.load(Ordering::Relaxed) > 0 {
            bound.wake(most);
        }
    }

    /// Takes the oldest message out, as a sender that needs room for a newer one.
    pub(crate) fn evict(&self) -> Option<T> {
        // SAFETY: the message is read once, since its slot is empty then.
        self.evict_with(|message| unsafe { message.read() })
    }

    /// Like [`evict`](Self::evict), for a message that is too large to be passed from frame to
    /// frame.
    pub(crate) fn evict_boxed(&self) -> Option<Box<T>> {
        self.evict_with(|message| {
            let mut evicted = Box::new_uninit();
            // SAFETY: the message is moved into the new box, since its slot is empty then.
            unsafe {
                ptr::copy_nonoverlapping(message, evicted.as_mut_ptr(), 1);
                evicted.assume_init()
            }
        })
    }

    /// `read` moves the message out.
    fn evict_with<R>(&self, mut read: impl FnMut(*mut T) -> R) -> Option<R> {
        let bound = self.middle.bound.as_deref().filter(|bound| bound.evicts())?;
        // Dropped outside the lock: it calls the log subscriber.
        let mut span = None;
        let reader = bound.lock.lock();
        // SAFETY: all readers of a mailbox that evicts hold the lock, as this one does.
        let evicted = unsafe {
            self.take_with(Some(bound), |message| {
                span = self.take_span(message);
                read(message)
            })
        };
        drop(reader);
        evicted
    }

    /// Takes the next message out, if it is there yet. For a mailbox that keeps no spans.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<T> {
        debug_assert!(!self.has_spans(), "a span is left behind");
        // SAFETY: the caller is the one activation. The message is read once, since its slot is
        // empty then.
        unsafe { self.pop_with(|message| message.read()) }
    }

    /// Takes the next message out, if it is there yet, and its span, if it has one.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    pub(crate) unsafe fn pop_told(&self, span: &mut Option<Told>) -> Option<T> {
        // SAFETY: the caller is the one activation. The message is read once, since its slot is
        // empty then.
        unsafe {
            self.pop_with(|message| {
                *span = self.take_span(message);
                message.read()
            })
        }
    }

    /// Gives `read` the next message, if it is there yet.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and `read` moves the message out.
    #[inline]
    unsafe fn pop_with(&self, read: impl FnMut(*mut T) -> T) -> Option<T> {
        self.assert_activation();
        match self.middle.bound.as_deref() {
            // SAFETY: the caller is the one activation, and only that reads this mailbox.
            None => unsafe { self.take_with(None, read) },
            Some(bound) if bound.evicts() => {
                let _reader = bound.lock.lock();
                // SAFETY: all readers of a mailbox that evicts hold the lock, as this one does.
                unsafe { self.take_with(Some(bound), read) }
            }
            Some(bound) => {
                // Relaxed: only the reader writes it.
                let before = self.head.taken.load(Ordering::Relaxed);
                // SAFETY: the caller is the one activation, and only that reads this mailbox.
                let message = unsafe { self.take_with(Some(bound), read) };
                // A slot whose message panicked on its way makes room as well.
                if self.head.taken.load(Ordering::Relaxed) != before {
                    Self::wake_waiting(bound, 1);
                }
                message
            }
        }
    }

    /// Gives `read` the next message, if it is there yet, to be moved out or dropped in place.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, and `read` does not use the message in another way.
    #[inline]
    unsafe fn take_with<R>(
        &self,
        bound: Option<&Bound>,
        mut read: impl FnMut(*mut T) -> R,
    ) -> Option<R> {
        #[cfg(not(any(lars_loom, lars_shuttle)))]
        debug_assert!(
            bound.is_none_or(|bound| !bound.evicts() || bound.lock.is_locked()),
            "readers of a mailbox that evicts hold its lock"
        );
        self.head.next.with_mut(|next| {
            // SAFETY: this part of the head is the reader's.
            let next = unsafe { &mut *next };
            if next.block.is_null() {
                // Acquire: as the sender that made it left it.
                let first = self.middle.first.load(Ordering::Acquire);
                if first.is_null() {
                    return None;
                }
                // From the position behind the imaginary block.
                *next = Next { position: next.position + 1, block: first };
            }
            loop {
                let offset = next.position % Block::<T>::LAP;
                // SAFETY: the block has an unread slot, so it is there; and the offset is a slot's.
                let slot = unsafe { Block::slot(next.block, offset) };
                // SAFETY: the block is there, and the caller is the only reader.
                let message = match unsafe { Slot::take(slot, &mut read) } {
                    Found::Empty => return None,
                    Found::Message(message) => Some(message),
                    Found::Void => None,
                };
                if offset + 1 == Block::<T>::SLOTS {
                    // SAFETY: it is there until it is recycled below.
                    // Relaxed: stored before the slot's state by the same sender.
                    let after = unsafe { &*next.block }.next.load(Ordering::Relaxed);
                    let read = std::mem::replace(&mut next.block, after);
                    next.position += 2;
                    // SAFETY: the only reader, nothing is left in it, and the head has moved on.
                    unsafe { self.recycle(read) };
                } else {
                    next.position += 1;
                }
                if bound.is_some() {
                    // Relaxed: only a number; see `reserve`.
                    self.head.taken.store(Self::count(next.position), Ordering::Relaxed);
                }
                if message.is_some() {
                    return message;
                }
            }
        })
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
        self.head.next.with_mut(|next| Self::count(unsafe { (*next).position }))
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
            Self::wake_waiting(bound, usize::MAX);
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
            let last = unsafe { (*next).block };
            if !last.is_null() {
                // SAFETY: the last block, without unread slots; nobody else is left.
                unsafe { Block::free(last) };
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
