//! The mailbox: a queue, and the word that says whether somebody has to run the actor.
//!
//! # The run word
//!
//! ```text
//!  63                              4       3           2         1        0
//! +---------------------------------+-----------+-----------+--------+--------+
//! | position: the next free slot    | suspended | scheduled | signal | closed |
//! +---------------------------------+-----------+-----------+--------+--------+
//! ```
//!
//! | bit | set by | cleared by |
//! |---|---|---|
//! | closed | the activation; every send from then on is refused | never |
//! | signal | whoever put a signal into the system lane | the activation, before it takes the signals |
//! | scheduled | whoever finds it clear and has a message or a signal: it must schedule the actor | the activation, when it finds nothing left to do |
//! | suspended | the activation, while it waits to restart: messages are accepted and wake nobody | the activation |
//!
//! One compare-and-swap takes a slot, or a run of slots, and sets *scheduled*, so "is there more" and "does somebody look" are
//! one word and cannot disagree: no message can be left in a mailbox that nobody looks into. While
//! *scheduled* is set there is exactly one activation, waiting or running. Because closing is in the same
//! word, the position at closing is final: what was accepted lies before it, and everything else was
//! refused and given back.
//!
//! # The queue
//!
//! A list of blocks of slots, as in crossbeam's `SegQueue`. Whoever takes the last slot of a block, alone or with others before it, hangs the
//! next one on; until that is done the position stands on a place that is no slot, and others wait for the
//! few instructions that it takes. A block that has been read is put on a stack of spare ones, of which those who
//! hang on blocks take; so a mailbox in use allocates nothing. A slot is written after it was taken:
//! in between, the activation finds it empty although the position is beyond it, ends, and is scheduled
//! again.
//!
//! The reader's side belongs to the one activation; only a mailbox that drops its oldest message lets senders
//! read as well, and has a lock for it.

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::sync::{
    AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, CHECKED, Condvar, Mutex, Ordering, UnsafeCell,
    fence, real_now, relax,
};

const CLOSED: u64 = 1;
const SIGNAL: u64 = 2;
const SCHEDULED: u64 = 4;
const SUSPENDED: u64 = 8;
/// One position.
const ONE: u64 = 16;

/// Positions per block, of which the last is no slot.
const LAP: u64 = if CHECKED { 4 } else { 32 };
const SLOTS: u64 = LAP - 1;
/// The most spare blocks on the stack.
const SPARE: usize = 32;

/// What a full mailbox does with a message.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mini_actor::{Actor, Context};
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Overflow, Props, Undelivered, Unsendable};
/// # struct Worker;
/// # impl Actor for Worker {
/// #     type Message = u32;
/// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
/// # }
///
/// let kit = TestKit::new("test")?;
/// let props = Props::new(|| Worker).bounded(1, Overflow::Fail);
/// let worker = kit.spawn_with("fails", props)?;
/// worker.tell(1)?;
/// let refused = worker.tell(2).unwrap_err();
/// assert_eq!((refused.reason(), refused.into_message()), (Unsendable::Full, 2));
///
/// let props = Props::new(|| Worker).bounded(1, Overflow::DropOldest);
/// let worker = kit.spawn_with("drops", props)?;
/// worker.tell(1)?;
/// worker.tell(2)?; // instead of 1
/// let letters = kit.dead_letters();
/// assert_eq!((letters.len(), letters[0].reason), (1, Undelivered::Full));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Gives it back to the sender in the error.
    Fail,
    /// Lets the sending thread wait for room, so long at the most; then gives the message back. (`Duration::MAX`
    /// waits for ever.) For whoever could keep the receiver from making room it is [`Fail`](Self::Fail): an actor, a
    /// closure or a piped future on a thread that actors share, the timer thread, the actor itself, and a sender in virtual
    /// time never wait. An actor that is to wait has a thread of its own
    /// ([`Props::pinned`](crate::Props::pinned)); it does not wait either while the receiver is restarted and its
    /// children have not all stopped: it may be one of these, whose end the restart waits for.
    Block(Duration),
    /// Makes the message a dead letter.
    DropNewest,
    /// Accepts it, and makes the oldest message in the mailbox a dead letter.
    DropOldest,
}

/// How many messages a mailbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Capacity {
    /// As many as the memory holds.
    #[default]
    Unbounded,
    /// So many, at least 1, with a policy for more. Signals and timers of the actor itself do not count.
    Bounded(usize, Overflow),
}

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

const EMPTY: u8 = 0;
const FULL: u8 = 1;
/// The message that was to come panicked on its way.
const VOID: u8 = 2;

struct Slot<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

struct Block<T> {
    /// The block behind this one, in the queue or among the spare ones.
    next: AtomicPtr<Block<T>>,
    /// Among the spare ones: how many there are from here on. The reader's.
    depth: AtomicUsize,
    slots: [Slot<T>; SLOTS as usize],
}

impl<T> Block<T> {
    fn boxed() -> *mut Self {
        Box::into_raw(Box::new(Self {
            next: AtomicPtr::new(ptr::null_mut()),
            depth: AtomicUsize::new(0),
            slots: std::array::from_fn(|_| Slot {
                state: AtomicU8::new(EMPTY),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }),
        }))
    }
}

/// The senders' side.
struct Tail<T> {
    word: AtomicU64,
    /// The block of the word's position, unless that is no slot.
    block: AtomicPtr<Block<T>>,
    /// Spare blocks, for whoever hangs on the next one.
    free: AtomicPtr<Block<T>>,
}

/// The reader's side.
struct Head<T> {
    position: u64,
    block: *mut Block<T>,
}

/// A limit, and those who wait for room.
struct Bound {
    capacity: u64,
    waiting: AtomicUsize,
    /// Whether actors that send must not wait, now.
    lock: Mutex<bool>,
    room: Condvar,
    /// Whether senders take messages out, so that the reader's side needs the lock.
    evicts: bool,
}

pub(crate) struct Mailbox<T> {
    tail: CachePadded<Tail<T>>,
    head: CachePadded<UnsafeCell<Head<T>>>,
    /// How many messages have been taken out. Exact in a bounded mailbox, up to date after each activation in
    /// others.
    taken: CachePadded<AtomicU64>,
    /// Blocks that have been read, for whoever finds `free` empty, and takes all.
    spare: AtomicPtr<Block<T>>,
    bound: Option<Box<Bound>>,
}

// SAFETY: a slot's value is written by the one sender that took the slot, and passes to the reader by the
// slot's state. The head belongs to the reader, of which there is one at a time (see `pop`). A block is freed
// or used again only when all its slots have been read, which nobody who took one of them touches afterwards.
unsafe impl<T: Send> Send for Mailbox<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mailbox<T> {}

/// How many messages lie before a position.
fn count(position: u64) -> u64 {
    position / LAP * SLOTS + position % LAP
}

impl<T> Mailbox<T> {
    /// A mailbox whose actor is scheduled already, by whoever makes it.
    pub(crate) fn new(capacity: Capacity) -> Self {
        let bound = match capacity {
            Capacity::Unbounded => None,
            Capacity::Bounded(limit, policy) => Some(Box::new(Bound {
                capacity: limit as u64,
                waiting: AtomicUsize::new(0),
                lock: Mutex::new(false),
                room: Condvar::default(),
                evicts: policy == Overflow::DropOldest,
            })),
        };
        let block = Block::boxed();
        Self {
            tail: CachePadded::new(Tail {
                word: AtomicU64::new(SCHEDULED),
                block: AtomicPtr::new(block),
                free: AtomicPtr::new(ptr::null_mut()),
            }),
            head: CachePadded::new(UnsafeCell::new(Head { position: 0, block })),
            taken: CachePadded::new(AtomicU64::new(0)),
            spare: AtomicPtr::new(ptr::null_mut()),
            bound,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: what was done before closing is seen.
        self.tail.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// How many messages have been accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        count(self.tail.word.load(Ordering::Acquire) / ONE)
    }

    /// How many messages wait, including those that an activation is working off just now.
    pub(crate) fn depth(&self) -> u64 {
        // Relaxed: a statistic. Read in this order it can only be too large.
        let taken = self.taken.load(Ordering::Relaxed);
        self.accepted().saturating_sub(taken)
    }

    /// Puts a message in, or gives it back. Lock-free; never waits for the actor.
    #[inline]
    pub(crate) fn send(&self, message: T) -> Result<Sent, (Refused, T)> {
        match self.reserve(1) {
            Ok((slot, _, sent)) => {
                // SAFETY: the slot is ours until its state says otherwise, and its block is there as long.
                let slot = unsafe { &*slot };
                // SAFETY: ours, see above.
                slot.value.with_mut(|value| unsafe { (*value).write(message) });
                // Release: the value goes with it. Our last access to the block.
                slot.state.store(FULL, Ordering::Release);
                Ok(sent)
            }
            Err(refused) => Err((refused, message)),
        }
    }

    /// Puts in the next messages, as many as go into one block of slots and are wanted, at least one. Their
    /// slots are taken at once: nothing of other senders comes in between. Returns how many they were; takes none if it
    /// refuses.
    ///
    /// `messages` has as many as are wanted, and does not panic.
    pub(crate) fn send_some(
        &self,
        wanted: usize,
        messages: &mut impl Iterator<Item = T>,
    ) -> Result<(usize, Sent), Refused> {
        let (first, taken, sent) = self.reserve(wanted)?;
        for number in 0..taken {
            // SAFETY: the slots lie behind each other, and are ours until their states say otherwise. The block is
            // there until its last slot has been read, and so until we have written our last.
            let slot = unsafe { &*first.add(number) };
            let state = match messages.next() {
                Some(message) => {
                    // SAFETY: ours, see above.
                    slot.value.with_mut(|value| unsafe { (*value).write(message) });
                    FULL
                }
                // The slot must not be left empty, or the actor would wait for it for ever.
                None => VOID,
            };
            // Release: as in `send`.
            slot.state.store(state, Ordering::Release);
        }
        Ok((taken, sent))
    }

    /// Puts in what `make` makes of `given`, or gives that back.
    pub(crate) fn send_with<P>(
        &self,
        given: P,
        make: impl FnOnce(P) -> T,
    ) -> Result<Sent, Unsent<P>> {
        let (slot, sent) = match self.reserve(1) {
            Ok((slot, _, sent)) => (slot, sent),
            Err(refused) => return Err(Unsent::Refused(refused, given)),
        };
        // The slot must not be left empty, or the actor would wait for it for ever.
        let made = catch_unwind(AssertUnwindSafe(|| make(given)));
        // SAFETY: the slot is ours until its state says otherwise, and its block is there as long.
        let slot = unsafe { &*slot };
        match made {
            Ok(message) => {
                // SAFETY: ours, see above.
                slot.value.with_mut(|value| unsafe { (*value).write(message) });
                // Release, here and below: as in `send`.
                slot.state.store(FULL, Ordering::Release);
                Ok(sent)
            }
            Err(payload) => {
                slot.state.store(VOID, Ordering::Release);
                Err(Unsent::Panicked(sent, payload))
            }
        }
    }

    /// Takes slots that lie behind each other in a block: as many as are wanted, or as there is room for. Returns the
    /// first, and how many they are, at least one.
    #[inline]
    fn reserve(&self, wanted: usize) -> Result<(*const Slot<T>, usize, Sent), Refused> {
        let tail = &*self.tail;
        let mut next: *mut Block<T> = ptr::null_mut();
        let mut spins = 0;
        // Acquire, here and below: the block of this position is seen as whoever hung it on left it.
        let mut word = tail.word.load(Ordering::Acquire);
        let result = loop {
            if word & CLOSED != 0 {
                break Err(Refused::Closed);
            }
            let position = word / ONE;
            let offset = position % LAP;
            if offset == SLOTS {
                // Somebody hangs the next block on.
                relax(&mut spins);
                word = tail.word.load(Ordering::Acquire);
                continue;
            }
            let mut places = (wanted as u64).min(SLOTS - offset);
            if let Some(bound) = &self.bound {
                // Acquire: a slot that counts as free has been read. It only grows, so the bound holds also
                // when this is old.
                let taken = self.taken.load(Ordering::Acquire);
                let room = bound.capacity.saturating_sub(count(position).saturating_sub(taken));
                if room == 0 {
                    break Err(Refused::Full);
                }
                places = places.min(room);
            }
            let last = offset + places == SLOTS;
            if last
                && next.is_null()
                // Relaxed: a guess, so that others need not wait for the allocation.
                && tail.free.load(Ordering::Relaxed).is_null()
                && self.spare.load(Ordering::Relaxed).is_null()
            {
                next = Block::boxed();
            }
            // Relaxed: ordered by the load of the word. If it is a later block, the word has changed and the
            // exchange fails.
            let block = tail.block.load(Ordering::Relaxed);
            let schedule = if word & SUSPENDED == 0 { SCHEDULED } else { 0 };
            // AcqRel: if we are to schedule, the activation comes after what the last one did, and before
            // it; if not, the activation that is there sees our position before it may end.
            match tail.word.compare_exchange_weak(
                word,
                (word + places * ONE) | schedule,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    if last {
                        let hung = self.spare_block().unwrap_or_else(|| {
                            match std::mem::replace(&mut next, ptr::null_mut()) {
                                made if made.is_null() => Block::boxed(),
                                made => made,
                            }
                        });
                        // Relaxed: published by the addition below, and by our slots' states.
                        tail.block.store(hung, Ordering::Relaxed);
                        // SAFETY: our slots in it have not been written, so the block is there.
                        unsafe { &*block }.next.store(hung, Ordering::Relaxed);
                        // Release: whoever sees the new lap sees its block.
                        tail.word.fetch_add(ONE, Ordering::Release);
                    }
                    let sent = if word & (SCHEDULED | SUSPENDED) == 0 {
                        Sent::Schedule
                    } else {
                        Sent::Counted
                    };
                    // SAFETY: as above; the offset is a slot's, and so are those of the `places` from there on.
                    let first = unsafe {
                        (&raw const (*block).slots).cast::<Slot<T>>().add(offset as usize)
                    };
                    break Ok((first, places as usize, sent));
                }
                Err(now) => word = now,
            }
        };
        if !next.is_null() {
            // SAFETY: made above and used by nobody.
            drop(unsafe { Box::from_raw(next) });
        }
        result
    }

    /// A block that has been used before. For whoever is hanging on a block: there is one at a time, and each comes
    /// after the one before by way of the word.
    fn spare_block(&self) -> Option<*mut Block<T>> {
        let free = &self.tail.free;
        // Relaxed: ours, see above.
        let mut block = free.load(Ordering::Relaxed);
        if block.is_null() {
            // Acquire: all of them as their readers left them.
            block = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        }
        if block.is_null() {
            return None;
        }
        // SAFETY: spare blocks are there, and those that have been taken are ours.
        let next = unsafe { &(*block).next };
        free.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
        next.store(ptr::null_mut(), Ordering::Relaxed);
        Some(block)
    }

    /// Keeps a block that has been read, or frees it if there are enough.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, and has taken the block out of the queue.
    unsafe fn recycle(&self, block: *mut Block<T>) {
        // Acquire: its depth as an earlier reader left it.
        let mut top = self.spare.load(Ordering::Acquire);
        loop {
            // SAFETY: only the reader frees blocks. If this one has been taken meanwhile, it is in use, and its depth
            // still what a reader wrote.
            let depth = unsafe { top.as_ref() }.map_or(0, |top| top.depth.load(Ordering::Relaxed));
            if depth >= SPARE {
                // SAFETY: the caller's promise; senders are done with a block whose slots have been read.
                drop(unsafe { Box::from_raw(block) });
                return;
            }
            // SAFETY: as above.
            let read = unsafe { &*block };
            read.depth.store(depth + 1, Ordering::Relaxed);
            read.next.store(top, Ordering::Relaxed);
            // Release: whoever takes it sees it as we leave it. Senders take all or nothing, so a block that is
            // found on top again has the same below it.
            match self.spare.compare_exchange_weak(top, block, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Waits until there may be room, or the mailbox is closed; until `deadline` at the most. `false` when
    /// that is over, or the sender is an actor and these must not wait.
    pub(crate) fn wait_for_room(&self, deadline: Option<Instant>, actor: bool) -> bool {
        let Some(bound) = &self.bound else {
            return true;
        };
        let mut guard = bound.lock.lock();
        // SeqCst fence, pairs with the one in `make_room`: either the reader sees us waiting, or we see the
        // room that it made.
        bound.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut in_time = true;
        while !self.is_closed()
            && self.accepted().saturating_sub(self.taken.load(Ordering::Acquire)) >= bound.capacity
        {
            if actor && *guard || deadline.is_some_and(|deadline| real_now() >= deadline) {
                in_time = false;
                break;
            }
            guard = bound.room.wait(guard, deadline);
        }
        bound.waiting.fetch_sub(1, Ordering::SeqCst);
        in_time
    }

    /// Lets actors that send wait for room, or no longer, those included that do.
    pub(crate) fn let_actors_wait(&self, wait: bool) {
        if let Some(bound) = &self.bound {
            *bound.lock.lock() = !wait;
            if !wait {
                bound.room.notify_all();
            }
        }
    }

    fn wake_waiting(bound: &Bound) {
        // SeqCst fence: see `wait_for_room`.
        fence(Ordering::SeqCst);
        if bound.waiting.load(Ordering::Relaxed) > 0 {
            drop(bound.lock.lock());
            bound.room.notify_all();
        }
    }

    /// Takes the oldest message out, as a sender that needs room for a newer one.
    pub(crate) fn evict(&self) -> Option<T> {
        let bound = self.bound.as_deref().filter(|bound| bound.evicts)?;
        let _reader = bound.lock.lock();
        // SAFETY: whoever reads such a mailbox holds the lock.
        unsafe { self.take(Some(bound)) }
    }

    /// Takes the next message out, if it is there yet.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<T> {
        match self.bound.as_deref() {
            // SAFETY: the one activation.
            None => unsafe { self.take(None) },
            Some(bound) if bound.evicts => {
                let _reader = bound.lock.lock();
                // SAFETY: whoever reads such a mailbox holds the lock.
                unsafe { self.take(Some(bound)) }
            }
            Some(bound) => {
                // Relaxed: only the reader writes it.
                let before = self.taken.load(Ordering::Relaxed);
                // SAFETY: the one activation.
                let message = unsafe { self.take(Some(bound)) };
                // A slot whose message panicked on its way makes room as well.
                if self.taken.load(Ordering::Relaxed) != before {
                    Self::wake_waiting(bound);
                }
                message
            }
        }
    }

    /// # Safety
    ///
    /// The caller is the only reader.
    #[inline]
    unsafe fn take(&self, bound: Option<&Bound>) -> Option<T> {
        self.head.with_mut(|head| {
            // SAFETY: the head is the reader's.
            let head = unsafe { &mut *head };
            loop {
                let offset = head.position % LAP;
                // SAFETY: the head's block has an unread slot, so it is there.
                let block = unsafe { &*head.block };
                let slot = &block.slots[offset as usize];
                // Acquire: the value comes with it.
                let state = slot.state.load(Ordering::Acquire);
                let message = match state {
                    EMPTY => return None,
                    FULL => {
                        // SAFETY: written, and read once.
                        let read =
                            |value: *mut MaybeUninit<T>| unsafe { (*value).assume_init_read() };
                        Some(slot.value.with_mut(read))
                    }
                    _ => None,
                };
                // Relaxed: published with the block, when that is used again.
                slot.state.store(EMPTY, Ordering::Relaxed);
                if offset + 1 == SLOTS {
                    // Relaxed: stored before the slot's state by the same sender.
                    let next = block.next.load(Ordering::Relaxed);
                    let read = std::mem::replace(&mut head.block, next);
                    head.position += 2;
                    // SAFETY: the only reader, and nothing is left in it.
                    unsafe { self.recycle(read) };
                } else {
                    head.position += 1;
                }
                if bound.is_some() {
                    // Release: who sees the room sees that the slot has been read.
                    self.taken.store(count(head.position), Ordering::Release);
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
        if self.bound.is_some() {
            return self.taken.load(Ordering::Acquire);
        }
        // SAFETY: the head is the activation's.
        self.head.with_mut(|head| count(unsafe { (*head).position }))
    }

    /// Announces a signal.
    pub(crate) fn signal(&self) -> Sent {
        // AcqRel: as for a message.
        match self.tail.word.fetch_or(SIGNAL | SCHEDULED, Ordering::AcqRel) & SCHEDULED {
            0 => Sent::Schedule,
            _ => Sent::Counted,
        }
    }

    /// Whether there are signals.
    pub(crate) fn is_signalled(&self) -> bool {
        // Acquire: the signal is seen.
        self.tail.word.load(Ordering::Acquire) & SIGNAL != 0
    }

    /// The activation is about to take the signals.
    pub(crate) fn signals_seen(&self) {
        // AcqRel: whoever signals after this sees the bit clear and sets it again; what was signalled before
        // is seen.
        self.tail.word.fetch_and(!SIGNAL, Ordering::AcqRel);
    }

    /// Refuses all messages from now on; returns how many have been accepted in all.
    pub(crate) fn close(&self) -> u64 {
        // AcqRel: see `is_closed`.
        let mut word = self.tail.word.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0;
        // Whoever hangs on a block moves the position once more, over the place that is no slot.
        while word / ONE % LAP == SLOTS {
            relax(&mut spins);
            word = self.tail.word.load(Ordering::Acquire);
        }
        if let Some(bound) = &self.bound {
            Self::wake_waiting(bound);
        }
        count(word / ONE)
    }

    /// Lets messages wait without waking the actor, or no longer. The activation's.
    pub(crate) fn suspend(&self, suspended: bool) {
        if suspended {
            self.tail.word.fetch_or(SUSPENDED, Ordering::AcqRel);
        } else {
            self.tail.word.fetch_and(!SUSPENDED, Ordering::AcqRel);
        }
    }

    /// Ends an activation. Says whether there has to be another one, because of what is in the mailbox or
    /// because of `more`; if not, the caller must not touch the actor any more.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    #[must_use]
    #[inline]
    pub(crate) unsafe fn finish(&self, more: bool) -> bool {
        // SAFETY: the caller's promise.
        let taken = unsafe { self.position() };
        if self.bound.is_none() {
            // Relaxed: a statistic. And not written again when nothing has changed: others may read it.
            self.taken.store(taken, Ordering::Relaxed);
        }
        if more {
            return true;
        }
        // Acquire: what is found here belongs to the next activation, which this thread may run.
        let mut word = self.tail.word.load(Ordering::Acquire);
        loop {
            let empty = count(word / ONE) == taken || word & SUSPENDED != 0;
            if word & SIGNAL != 0 || !empty {
                return true;
            }
            // Release: the next activation sees what this one did.
            match self.tail.word.compare_exchange_weak(
                word,
                word & !SCHEDULED,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else is left.
        while let Some(message) = unsafe { self.take(None) } {
            drop(message);
        }
        self.head.with_mut(|head| {
            // SAFETY: the last block, without unread slots; nobody else is left.
            drop(unsafe { Box::from_raw((*head).block) });
        });
        // Relaxed: nobody else is left.
        for chain in [&self.tail.free, &self.spare] {
            let mut next = chain.load(Ordering::Relaxed);
            while !next.is_null() {
                // SAFETY: spare blocks, and nobody else is left.
                let block = unsafe { Box::from_raw(next) };
                next = block.next.load(Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests;

#[cfg(all(test, lars_loom))]
mod models;
