//! A lane: what one thread uses to schedule and cancel.
//!
//! A lane belongs to one live thread at most: the one that has its number (`sync::thread_slot`), or
//! the number that it was traded for (see [`lanes`](crate::engine::lanes)). It has a supply of free
//! entries, counts, and, once its thread has scheduled often enough, a wheel of its own.
//! The owner uses its parts with plain loads and stores; the wheel lies behind a
//! [gate](crate::engine::gate), because the driver visits it when something in it is due. So a
//! timer that is cancelled by the thread that scheduled it never leaves that thread's core.
//!
//! | what | who may touch it |
//! |---|---|
//! | the supply, the counts' writing side | the owner |
//! | `unfreed` | the owner while it has a share of the scheduler; the thread that ends the scheduler |
//! | the wheel, and the consuming side of its intake | the party behind the gate: the owner, or the driver |
//! | `earliest` | lowered by anybody, raised by the driver behind the gate |
//! | the intake's pushing side, the stacks' | anybody |
//!
//! A thread without a number is a guest: it is ending, or 65,535 others had one already. Guests
//! share the one lane that nobody owns. They use its supply under a lock that is only ever tried,
//! and its counts by atomic additions.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError};

use crossbeam_utils::CachePadded;

use crate::base::tick::NEVER;
use crate::engine::block::Block;
use crate::engine::entry::{Entry, prefetch};
use crate::engine::gate::Gate;
use crate::engine::in_hand::InHand;
use crate::engine::intake::Intake;
use crate::engine::place::{KeptMark, TakenIn, drain};
use crate::engine::stack::{CancelLink, FreeLink, Stack, StackLink};
use crate::engine::wheel::Wheel;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, CHECKED, GlobalMutex, Ordering, UnsafeCell,
    model_fence, with_thread_name,
};

/// How many entries the first block of a lane has: half a kilobyte, because most threads have few
/// timers. Each block after that has twice as many as the one before, up to [`LAST_BLOCK`].
const FIRST_BLOCK: usize = if CHECKED { 2 } else { 8 };
/// 1 MiB.
const LAST_BLOCK: usize = if CHECKED { 2 } else { 1 << 14 };
/// Before a lane allocates a block of this many entries, it looks for idle entries in other lanes.
/// It takes at most this many: surplus entries in its lane would be of no use to the others.
const BORROW: usize = if CHECKED { 2 } else { 1 << 10 };

/// Once in this many calls the owner of a lane looks for entries that other threads cancelled: it
/// takes a line that they write from their caches.
pub(crate) const LOOK: u32 = if CHECKED { 1 } else { 64 };
/// How many timers a thread schedules between two looks for wheels that are not used any more. A
/// look takes a lock that threads take when they begin and when they end.
const SEEK: u64 = if CHECKED || cfg!(miri) { 1 } else { 1 << 10 };
/// How many entries that handles gave back a call sets free at once, at most. Another thread may
/// have dropped millions of handles since the last call.
const SET_FREE: usize = if CHECKED { 1 } else { 64 };
/// How many cancelled entries ahead one is fetched from the cache of the core that cancelled it.
const AHEAD: usize = 8;

#[derive(Debug)]
pub(crate) struct Lane {
    owners: CachePadded<Owners>,
    /// The wheel once more, for other threads: the owner writes the line of its own copy all the
    /// time.
    wheel: CachePadded<AtomicPtr<LaneWheel>>,
    /// The lane that the thread of this lane's number uses instead, if it is not null.
    traded_for: AtomicPtr<Lane>,
    /// The number of the thread that uses this lane, or would use it.
    user: AtomicUsize,
    back: CachePadded<Back>,
    /// Entries on their way back to this lane, to be pushed in one chain. Only the driver uses it.
    going_back: UnsafeCell<Chain>,
}

/// Only the owner writes these, except where a field says otherwise. In this order what a call
/// needs is in one cache line.
#[derive(Debug)]
#[repr(C)]
struct Owners {
    gate: Gate,
    /// Whether no thread owns it.
    for_guests: bool,
    /// Locked by the guest that uses the supply of the lane for guests. Only ever tried.
    locked: AtomicBool,
    number: u32,
    /// A tick: nothing in the wheel or its intake needs a visit of the driver before it.
    earliest: AtomicU64,
    wheel: AtomicPtr<LaneWheel>,
    /// How many entries were given out as timers.
    accepted: AtomicU64,
    /// How many may be, before the lane has to ask for more. What the timer thread has to do for
    /// this lane beside its timers is taken off.
    allowed: AtomicU64,
    /// Timers cancelled.
    cancelled: AtomicU64,
    supply: UnsafeCell<Supply>,
    /// Entries that were counted as accepted and whose schedule call failed after that.
    refused: AtomicU64,
    /// What the driver has to look at: entries pushed, and armed entries cancelled.
    backlog: AtomicU64,
    /// From which count of accepted timers on the owner may seek a wheel.
    seek_at: AtomicU64,
    earns: Earns,
    /// The last entries of other lanes that the owner cancelled, in turn.
    recent: UnsafeCell<[*mut Entry; AHEAD]>,
    /// What handles gave back, and is not set free yet: see [`OpenSupply::take`].
    unfreed: UnsafeCell<*mut Entry>,
}

/// What a lane that asks for credit has to know of the last time.
#[derive(Debug)]
struct Earns {
    /// An instant: what the lane has earned up to then was granted. 0 if it has not begun to.
    since: AtomicU64,
    /// How many timers its thread had cancelled.
    cancelled: AtomicU64,
    /// The period in which it was counted.
    asked_in: AtomicU64,
}

/// Free entries on their way back.
#[derive(Debug)]
struct Back {
    /// From the driver.
    returned: Stack<FreeLink>,
    /// From handles: entries that had been left to them. Closed at the end.
    dropped: Stack<FreeLink>,
}

/// Free entries linked by their free links.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: *mut Entry,
    last: *mut Entry,
}

/// The wheel of a lane, and the ways to it.
#[derive(Debug)]
pub(crate) struct LaneWheel {
    /// Behind the gate.
    wheel: UnsafeCell<Wheel>,
    /// For entries that find the gate shut, and for carriers from other threads.
    pub(crate) intake: Intake,
    /// How far the intake has been drained. Behind the gate.
    kept: UnsafeCell<KeptMark>,
    /// Entries of this lane that were cancelled while they were armed, and not by the owner behind
    /// the gate. For the party behind the gate.
    pub(crate) cancelled: CachePadded<Stack<CancelLink>>,
    /// Whether the owner is placing a batch, piece by piece.
    batch: AtomicBool,
    /// What is left of the chain that was taken from that stack last. Behind the gate; anybody may
    /// ask whether it is null.
    rest: AtomicPtr<Entry>,
    /// How many chains were taken from that stack. Written behind the gate; any thread may read it.
    chains: AtomicU64,
    /// In how many calls the owner looks at that stack next. Behind the gate.
    look_in: UnsafeCell<u32>,
    /// Whether the driver is asked to look, because the owner does not come.
    abandoned: AtomicBool,
    /// How many entries the lane had given out when a canceller looked whether the owner comes.
    accepted_then: AtomicU64,
    /// What the owner found on that stack that was not in the wheel any more, for the driver.
    pub(crate) passed_on: CachePadded<Stack<CancelLink>>,
    lane: NonNull<Lane>,
    /// How many wheels were made before this one.
    pub(crate) number: usize,
    /// The wheel that was made before this one, of another lane.
    pub(crate) older: *const LaneWheel,
    /// The name of the thread that uses it. For what is late because of that thread.
    thread: GlobalMutex<Option<Arc<str>>>,
}

// SAFETY: only the party behind the gate touches the wheel, and the lane that `lane` points to
// outlives its wheel. Both types may be shared and sent.
unsafe impl Send for LaneWheel {}
// SAFETY: shared references reach the wheel only through `with`, which demands that its caller is
// behind the gate.
unsafe impl Sync for LaneWheel {}

// SAFETY: only the owner touches `recent`, whose pointers nobody follows. Only the owner touches
// `supply` and `unfreed`, or a guest that holds `locked`; only the driver touches `going_back`.
// Nobody else refers to the entries in them.
unsafe impl Send for Lane {}
// SAFETY: shared references reach `supply` and `unfreed` only through `OpenSupply`, which one
// thread has at a time, the latter also through `close`, which comes after all shares of the
// scheduler; and `going_back` only through functions that demand to be called by the driver.
unsafe impl Sync for Lane {}

/// Free entries. (The first is in the line that each call needs.)
#[derive(Debug)]
#[repr(C)]
struct Supply {
    /// Entries that were used before, linked.
    used: *mut Entry,
    /// A free entry that the driver had in hand when it came, or null. It is not used again before
    /// it is seen that the driver has it no more.
    aside: *mut Entry,
    /// The newest block, once there is one.
    newest: Option<NonNull<Block>>,
}

impl Supply {
    /// Takes the entry that the driver has in hand out of a chain, and puts it aside. Adds the one
    /// that was aside, if the driver has it no more.
    ///
    /// # Safety
    ///
    /// The chain is empty, or consists of free entries to which nobody else refers, but for the
    /// driver to the one that it has in hand.
    unsafe fn put_aside(&mut self, mut chain: *mut Entry, in_hand: &InHand) -> *mut Entry {
        let busy = in_hand.get();
        let mut aside = ptr::null_mut();
        if !busy.is_null() {
            if busy == self.aside {
                return chain;
            }
            let (mut before, mut here) = (ptr::null_mut(), chain);
            // SAFETY: nobody else uses the links of the chain's entries, the driver included.
            unsafe {
                while !here.is_null() && here != busy {
                    before = here;
                    here = FreeLink::get(here);
                }
                if here == busy {
                    aside = busy;
                    let rest = FreeLink::get(busy);
                    if before.is_null() {
                        chain = rest;
                    } else {
                        FreeLink::set(before, rest);
                    }
                }
            }
        }
        let free = std::mem::replace(&mut self.aside, aside);
        if !free.is_null() {
            // SAFETY: nobody else refers to it: the driver is seen with another entry, or none.
            unsafe { FreeLink::set(free, chain) };
            chain = free;
        }
        chain
    }
}

impl Lane {
    /// It begins with this credit.
    pub(crate) fn new(number: usize, for_guests: bool, credit: u64) -> Self {
        Self {
            owners: CachePadded::new(Owners {
                gate: Gate::new(),
                for_guests,
                locked: AtomicBool::new(false),
                number: u32::try_from(number).expect("a lane's number has 16 bits"),
                earliest: AtomicU64::new(NEVER),
                wheel: AtomicPtr::new(ptr::null_mut()),
                supply: UnsafeCell::new(Supply {
                    used: ptr::null_mut(),
                    aside: ptr::null_mut(),
                    newest: None,
                }),
                accepted: AtomicU64::new(0),
                allowed: AtomicU64::new(credit),
                cancelled: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                backlog: AtomicU64::new(0),
                seek_at: AtomicU64::new(0),
                earns: Earns {
                    since: AtomicU64::new(0),
                    cancelled: AtomicU64::new(0),
                    asked_in: AtomicU64::new(0),
                },
                recent: UnsafeCell::new([ptr::null_mut(); AHEAD]),
                unfreed: UnsafeCell::new(ptr::null_mut()),
            }),
            wheel: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            traded_for: AtomicPtr::new(ptr::null_mut()),
            user: AtomicUsize::new(number),
            back: CachePadded::new(Back { returned: Stack::new(), dropped: Stack::new() }),
            going_back: UnsafeCell::new(Chain { first: ptr::null_mut(), last: ptr::null_mut() }),
        }
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.owners.number as usize
    }

    #[inline]
    pub(crate) fn is_for_guests(&self) -> bool {
        self.owners.for_guests
    }

    /// What [`trade_for`](Self::trade_for) was told last, or null. The caller has the number of
    /// this lane, or nobody has and nobody can get it now.
    #[inline]
    pub(crate) fn traded_for(&self) -> *const Lane {
        // Relaxed: ordered by the lock of the numbers, under which this is written.
        self.traded_for.load(Ordering::Relaxed)
    }

    /// From now on the thread that has the number of this lane uses that one. Said by that thread,
    /// or while nobody has the number; in both cases under the lock of the numbers.
    pub(crate) fn trade_for(&self, other: &Lane) {
        // Relaxed, both: as in `traded_for`.
        self.traded_for.store(ptr::from_ref(other).cast_mut(), Ordering::Relaxed);
        other.user.store(self.number(), Ordering::Relaxed);
    }

    /// The number of the thread that uses this lane, or would use it if there were such a thread.
    /// Asked under the lock of the numbers.
    pub(crate) fn user(&self) -> usize {
        // Relaxed: as in `traded_for`.
        self.user.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn gate(&self) -> &Gate {
        &self.owners.gate
    }

    /// The wheel, if the lane has one.
    #[inline]
    pub(crate) fn wheel(&self) -> Option<&LaneWheel> {
        // Acquire: pairs with `set_wheel`.
        // SAFETY: the pointer is null or the lane's wheel, which lives as long as the lane.
        unsafe { self.wheel.load(Ordering::Acquire).as_ref() }
    }

    /// Gives the lane its wheel, for good.
    pub(crate) fn set_wheel(&self, wheel: *mut LaneWheel) {
        // Relaxed: only the owner, the caller, loads it.
        self.owners.wheel.store(wheel, Ordering::Relaxed);
        // Release: publishes it.
        self.wheel.store(wheel, Ordering::Release);
    }

    /// By which tick the driver has to visit the lane.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        // SeqCst: (4) of `sleep_word`.
        self.owners.earliest.load(Ordering::SeqCst)
    }

    /// Behind the gate: whether a visit by `tick` is planned already. Then the caller need not tell
    /// the driver, because the thread that placed an earlier entry did.
    #[inline]
    pub(crate) fn expects_visit_by(&self, tick: u64) -> bool {
        // Relaxed: only the driver raises it, behind the gate, and so before us.
        self.owners.earliest.load(Ordering::Relaxed) <= tick
    }

    /// Asks the driver for a visit by `tick`. The caller looks at the sleep word after this.
    pub(crate) fn ask_for_visit(&self, tick: u64) {
        // SeqCst: (1) of `sleep_word`. AcqRel in it: a driver that takes this back sees what was
        // pushed before it.
        self.owners.earliest.fetch_min(tick, Ordering::SeqCst);
    }

    /// The driver has come, and will see whatever was pushed before this.
    pub(crate) fn begin_visit(&self) {
        // SeqCst: (4) of `sleep_word`. Whatever is pushed later lowers it again.
        self.owners.earliest.swap(NEVER, Ordering::SeqCst);
    }

    /// Gives a free entry back, to be pushed with the next [`flush`](Self::flush). True if it is
    /// the first.
    ///
    /// # Safety
    ///
    /// The caller is the driver. The entry is free, belongs to this lane, and nobody else refers to
    /// it.
    pub(crate) unsafe fn take_back(&self, entry: *mut Entry) -> bool {
        // SAFETY: only the driver, the caller, touches the chain, and only it refers to the entry.
        self.going_back.with_mut(|chain| unsafe {
            let chain = &mut *chain;
            debug_assert_eq!((*entry).state.lane(), self.number(), "the entry is another lane's");
            debug_assert!(CHECKED || (*entry).state.is_free(), "the entry is in use");
            FreeLink::set(entry, chain.first);
            let first = chain.first.is_null();
            if first {
                chain.last = entry;
            }
            chain.first = entry;
            first
        })
    }

    /// Pushes what was taken back.
    ///
    /// # Safety
    ///
    /// The caller is the driver.
    pub(crate) unsafe fn flush(&self) {
        // SAFETY: only the driver, the caller, touches the chain; its entries are free and linked.
        self.going_back.with_mut(|chain| unsafe {
            let Chain { first, last } = *chain;
            if !first.is_null() {
                self.back.returned.push_chain(first, last);
                *chain = Chain { first: ptr::null_mut(), last: ptr::null_mut() };
            }
        });
    }

    /// Gives a free entry back, from any thread.
    ///
    /// # Safety
    ///
    /// The entry is free, and nobody but the caller refers to it.
    pub(crate) unsafe fn give_back(&self, entry: *mut Entry) {
        // SAFETY: nobody but the caller refers to the free entry, and the caller gives it away.
        unsafe {
            debug_assert!(CHECKED || (*entry).state.is_free(), "the entry is in use");
            self.back.returned.push_chain(entry, entry);
        }
    }

    /// The stack to which a handle outside the gate gives back the entry that was left to it. The
    /// push releases the scheduler: the lane may be freed before the push returns. So it must not
    /// happen inside a function that borrows the lane.
    pub(crate) fn dropped(&self) -> &Stack<FreeLink> {
        &self.back.dropped
    }

    /// The end: frees what handles have given back, and closes the stack for it. The caller has
    /// shut the gate before, with its fence, and has seen the owner leave.
    ///
    /// # Safety
    ///
    /// There is no driver any more, and nobody schedules.
    pub(crate) unsafe fn close(&self) {
        debug_assert!(CHECKED || self.gate().has_visitor(), "the gate is open");
        // SAFETY: nobody takes from the stack after this, or touches `unfreed`: who does has a
        // share of the scheduler, and there is none left. The handles that pushed these entries
        // have released them, so nobody else refers to them.
        unsafe {
            self.owners.unfreed.with_mut(|unfreed| set_free(*unfreed, usize::MAX));
            set_free(self.back.dropped.close(), usize::MAX);
        }
    }

    /// How many entries were given out as timers.
    pub(crate) fn accepted(&self) -> u64 {
        // Relaxed: a count; see `Metrics` for what is promised of it.
        self.owners.accepted.load(Ordering::Relaxed)
    }

    /// How many timers were cancelled by the lane's thread.
    pub(crate) fn cancels(&self) -> u64 {
        // Acquire: pairs with the count, so that a snapshot that sees a timer end has seen it
        // begin.
        self.owners.cancelled.load(Ordering::Acquire)
    }

    /// How many schedule calls of the lane's thread failed after an entry had been found.
    pub(crate) fn refused(&self) -> u64 {
        // Acquire: pairs with the count, so that a snapshot that sees a timer end has seen it
        // begin.
        self.owners.refused.load(Ordering::Acquire)
    }
}

/// Sets up to `most` entries of a chain free that handles gave back. Returns the last of them, or
/// null if there is none.
///
/// # Safety
///
/// The chain is empty, or consists of entries that were left to their handles and given back by
/// them. Only the caller refers to them, but for the driver to the one that it has in hand.
unsafe fn set_free(mut entry: *mut Entry, most: usize) -> *mut Entry {
    let mut last = ptr::null_mut();
    for _ in 0..most {
        if entry.is_null() {
            break;
        }
        // SAFETY: only the caller refers to the entry and its link. It was free but for its handle
        // bit.
        unsafe {
            (*entry).state.set_free();
            (last, entry) = (entry, FreeLink::get(entry));
        }
    }
    last
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Relaxed: nobody else is left.
        let wheel = self.owners.wheel.load(Ordering::Relaxed);
        if !wheel.is_null() {
            // SAFETY: `LaneWheel::boxed` made it with `Box::into_raw`, and nobody refers to it any
            // more.
            drop(unsafe { Box::from_raw(wheel) });
        }
    }
}

impl LaneWheel {
    pub(crate) fn boxed(lane: &Lane, wheel: Wheel, older: *const LaneWheel) -> *mut Self {
        Box::into_raw(Box::new(Self {
            wheel: UnsafeCell::new(wheel),
            intake: Intake::new(),
            kept: UnsafeCell::new(KeptMark::new()),
            cancelled: CachePadded::new(Stack::new()),
            batch: AtomicBool::new(false),
            rest: AtomicPtr::new(ptr::null_mut()),
            chains: AtomicU64::new(0),
            look_in: UnsafeCell::new(LOOK),
            abandoned: AtomicBool::new(false),
            accepted_then: AtomicU64::new(u64::MAX),
            passed_on: CachePadded::new(Stack::new()),
            lane: NonNull::from(lane),
            // SAFETY: `older` is null or a wheel, and wheels live until all lanes are dropped
            // together.
            number: unsafe { older.as_ref() }.map_or(0, |older| older.number + 1),
            older,
            thread: GlobalMutex::new(None),
        }))
    }

    /// The calling thread uses it from now on.
    pub(crate) fn is_used_here(&self) {
        let name = with_thread_name(|name| (!name.is_empty()).then(|| Arc::from(name)));
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// The name of the thread that uses it, if it has one.
    pub(crate) fn thread(&self) -> Option<Arc<str>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn lane(&self) -> &Lane {
        // SAFETY: the lane owns this wheel, and drops it at its own end.
        unsafe { self.lane.as_ref() }
    }

    /// In debug builds, panics if nobody is behind the gate. (Not in models, where each look at a
    /// flag is one more step.)
    #[inline]
    fn assert_entered(&self) {
        let gate = self.lane().gate();
        debug_assert!(
            CHECKED || gate.has_owner() || gate.has_visitor(),
            "nobody is behind the gate of lane {}",
            self.lane().number()
        );
    }

    /// Places up to `most` entries of the intake. The clock showed `now` before.
    ///
    /// # Safety
    ///
    /// The caller is behind the gate of the lane, and `inner` is the wheel. `free` does not ask for
    /// either.
    pub(crate) unsafe fn take_in(
        &self,
        inner: &mut Wheel,
        now: u64,
        most: usize,
        free: impl FnMut(*mut Entry),
    ) -> TakenIn {
        self.assert_entered();
        // SAFETY: the caller is behind the gate, where there is one party at a time.
        self.kept
            .with_mut(|kept| unsafe { drain(&self.intake, &mut *kept, inner, (now, most), free) })
    }

    /// Counts calls. True in one of [`LOOK`]: then the owner looks for cancelled entries.
    ///
    /// # Safety
    ///
    /// The caller is behind the gate of the lane.
    #[inline]
    pub(crate) unsafe fn is_time_to_look(&self) -> bool {
        self.assert_entered();
        // SAFETY: the caller is behind the gate, where there is one party at a time.
        self.look_in.with_mut(|left| unsafe {
            *left -= 1;
            let now = *left == 0;
            if now {
                *left = LOOK;
            }
            now
        })
    }

    /// The next entry of this lane that was cancelled while it was armed. The caller has it until
    /// it is retired, or passed on.
    ///
    /// # Safety
    ///
    /// The caller is behind the gate of the lane.
    #[inline]
    pub(crate) unsafe fn next_cancelled(&self) -> Option<*mut Entry> {
        self.assert_entered();
        // Relaxed: only the party behind the gate writes it.
        let mut entry = self.rest.load(Ordering::Relaxed);
        if entry.is_null() {
            entry = self.cancelled.take_all();
            if entry.is_null() {
                return None;
            }
            // Relaxed, both: only the party behind the gate writes it; to others it is a hint.
            self.chains.store(self.chains.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        // SAFETY: the stack gave up the chain, so nobody else touches its links.
        let next = unsafe {
            prefetch((*entry).hint());
            CancelLink::get(entry)
        };
        self.rest.store(next, Ordering::Relaxed);
        Some(entry)
    }

    /// Whether cancelled entries wait for the party behind the gate.
    fn has_cancelled(&self) -> bool {
        // Relaxed, and in `is_empty`: a hint.
        !self.cancelled.is_empty() || !self.rest.load(Ordering::Relaxed).is_null()
    }

    /// Asks the driver to collect what is cancelled, if there is any and the owner has not come
    /// since the last call. (It may have ended.) True if something is left to the owner.
    pub(crate) fn have_collected(&self) -> bool {
        let accepted = self.lane().accepted();
        // Relaxed: a hint.
        let then = self.accepted_then.swap(accepted, Ordering::Relaxed);
        if !self.has_cancelled() {
            return false;
        }
        let comes = accepted.wrapping_sub(then) >= u64::from(LOOK);
        if !comes {
            self.ask_to_collect();
        }
        comes
    }

    /// What the owner has to collect, if there is any: the number of the chain that it is at, or
    /// of the last one.
    pub(crate) fn uncollected(&self) -> Option<u64> {
        // Relaxed: a hint.
        self.has_cancelled().then(|| self.chains.load(Ordering::Relaxed))
    }

    /// Asks the driver to collect what is cancelled.
    pub(crate) fn ask_to_collect(&self) {
        // Relaxed: `ask_for_visit` publishes it.
        self.abandoned.store(true, Ordering::Relaxed);
        self.lane().ask_for_visit(0);
    }

    /// Whether the driver has been asked to collect, and has not been told that it is done.
    pub(crate) fn is_abandoned(&self) -> bool {
        // Relaxed: asked for behind the gate, after the request for the visit was taken back.
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The driver has collected everything.
    pub(crate) fn set_collected(&self) {
        // Relaxed: if this overtakes a canceller that asks again, another will.
        self.abandoned.store(false, Ordering::Relaxed);
    }

    /// The owner begins to place a batch, if it finds after this that the driver has not stopped. A
    /// driver that stops later waits until the end.
    pub(crate) fn begin_batch(&self) -> BatchUnderWay<'_> {
        // Relaxed, the load: only the owner writes it.
        // SeqCst: before the look at the sleep word, as the driver's store of that word is before
        // its look at this. One of them sees the other.
        let outer = self.batch.load(Ordering::Relaxed);
        self.batch.store(true, Ordering::SeqCst);
        BatchUnderWay { batch: &self.batch, outer }
    }

    /// Whether a batch is under way. Asked by a driver that has stopped; if not, what batches have
    /// placed or pushed is there to be found.
    pub(crate) fn has_batch(&self) -> bool {
        model_fence();
        // SeqCst: see `begin_batch`. Acquire in it: pairs with the end of the batch.
        self.batch.load(Ordering::SeqCst)
    }

    /// The wheel itself.
    ///
    /// # Safety
    ///
    /// The caller is behind the gate of the lane until `f` returns, and `f` does not ask for the
    /// wheel again.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, f: impl FnOnce(&mut Wheel) -> R) -> R {
        self.assert_entered();
        // SAFETY: the caller is behind the gate, where there is one party at a time, and `f` does
        // not come here again: this is the only reference.
        self.wheel.with_mut(|wheel| f(unsafe { &mut *wheel }))
    }
}

/// Until this is dropped, a batch is under way.
#[must_use]
pub(crate) struct BatchUnderWay<'a> {
    batch: &'a AtomicBool,
    /// This batch is made in the middle of another one, by what that one calls.
    outer: bool,
}

impl Drop for BatchUnderWay<'_> {
    fn drop(&mut self) {
        // SeqCst: every write is, so that the driver's look cannot see an older one. Release in it:
        // pairs with `LaneWheel::has_batch`.
        self.batch.store(self.outer, Ordering::SeqCst);
    }
}

/// The lane that the calling thread uses.
///
/// Only the one thread that owns the lane has this value of it, which does not leave its thread.
/// That is why plain stores are enough. (The one exception is the lane for guests.)
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnLane<'a> {
    pub(crate) lane: &'a Lane,
    not_send: PhantomData<*const ()>,
}

impl<'a> OwnLane<'a> {
    /// # Safety
    ///
    /// The calling thread owns the lane, or the lane is the one for guests.
    #[inline]
    pub(crate) unsafe fn new(lane: &'a Lane) -> Self {
        Self { lane, not_send: PhantomData }
    }

    /// Whether the calling thread is the owner, and not a guest.
    #[inline]
    pub(crate) fn is_owner(self) -> bool {
        !self.lane.owners.for_guests
    }

    /// Fetches the entry that will be taken next.
    #[inline]
    pub(crate) fn prefetch(self) {
        // (Guests share their supply.)
        if self.is_owner() {
            // SAFETY: only the owner, the calling thread, touches the supply.
            self.lane.owners.supply.with(|supply| prefetch(unsafe { (*supply).used }));
        }
    }

    /// The wheel of the lane, if it has one.
    #[inline]
    pub(crate) fn wheel(self) -> Option<&'a LaneWheel> {
        // Relaxed: the calling thread has set it, or a thread that owned the lane before; or the
        // lane is the guests', and it is null.
        // SAFETY: the pointer is null or the lane's wheel, which lives as long as the lane.
        unsafe { self.lane.owners.wheel.load(Ordering::Relaxed).as_ref() }
    }

    /// Opens the supply of free entries. `None` if the lane is the guests', and another guest has
    /// it open.
    #[inline]
    pub(crate) fn open(self) -> Option<OpenSupply<'a>> {
        // Acquire: pairs with the release of the guest that closed it last; we see what it did.
        if !self.is_owner() && self.lane.owners.locked.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(OpenSupply { own: self })
    }

    /// Puts a free entry into the supply of the lane.
    ///
    /// # Safety
    ///
    /// The calling thread owns the lane. The entry is free, belongs to this lane, and nobody else
    /// refers to it.
    #[inline]
    pub(crate) unsafe fn put_own(self, entry: *mut Entry) {
        debug_assert!(self.is_owner(), "guests own no lane");
        // SAFETY: an owner's supply is always open to it. The entry is free, belongs to this lane,
        // and nobody else refers to it.
        unsafe { OpenSupply { own: self }.put(entry) };
    }

    /// Puts a free entry, which the driver may have in hand, into the supply of the lane.
    ///
    /// # Safety
    ///
    /// Same as [`put_own`](Self::put_own), but for the driver.
    pub(crate) unsafe fn put_own_left(self, entry: *mut Entry, in_hand: &InHand) {
        debug_assert!(self.is_owner(), "guests own no lane");
        if in_hand.get() != entry {
            // SAFETY: the driver does not have it in hand.
            return unsafe { self.put_own(entry) };
        }
        // SAFETY: an owner's supply is always open to it, so nobody else touches it. The driver has
        // just been seen with this entry, so it does not have the one that was put aside.
        self.lane.owners.supply.with_mut(|supply| unsafe {
            let aside = std::mem::replace(&mut (*supply).aside, entry);
            if !aside.is_null() {
                FreeLink::set(aside, (*supply).used);
                (*supply).used = aside;
            }
        });
    }

    /// Counts entries as given out.
    #[inline]
    pub(crate) fn count_accepted(self, count: u64) {
        self.add(&self.lane.owners.accepted, count);
    }

    /// Counts the entries of a batch as given out. Its pieces are charged one by one.
    pub(crate) fn count_batch(self, entries: u64) {
        self.grant(entries);
        self.count_accepted(entries);
    }

    /// What the lane may still use. (Less than nothing if the last piece was larger than that.)
    #[inline]
    pub(crate) fn credit(self) -> i64 {
        let Owners { accepted, allowed, .. } = &*self.lane.owners;
        // Relaxed, here and below: only the owner writes them. Guests that race for the last bit of
        // their credit may all get it.
        allowed.load(Ordering::Relaxed).wrapping_sub(accepted.load(Ordering::Relaxed)) as i64
    }

    /// Whether the lane has used up its credit.
    #[inline]
    pub(crate) fn is_out_of_credit(self) -> bool {
        self.credit() <= 0
    }

    /// Takes credit for entries that are not counted as given out.
    pub(crate) fn charge(self, entries: u64) {
        self.grant(entries.wrapping_neg());
    }

    /// Adds to the credit.
    pub(crate) fn grant(self, entries: u64) {
        let allowed = &self.lane.owners.allowed;
        if self.is_owner() {
            let more = allowed.load(Ordering::Relaxed).wrapping_add(entries);
            allowed.store(more, Ordering::Relaxed);
        } else {
            allowed.fetch_add(entries, Ordering::Relaxed);
        }
    }

    /// Raises the credit to this, whatever is owed.
    pub(crate) fn grant_up_to(self, entries: u64, now: u64) {
        self.lane.owners.earns.since.store(now, Ordering::Relaxed);
        let missing = entries as i64 - self.credit();
        self.grant(missing.max(0) as u64);
    }

    /// The lane earns credit from now on, if it does not already.
    #[inline]
    pub(crate) fn begin_to_earn(self, now: u64) {
        let since = &self.lane.owners.earns.since;
        if since.load(Ordering::Relaxed) == 0 {
            since.store(now, Ordering::Relaxed);
        }
    }

    /// Grants what the lane has earned, an entry for each `price` nanoseconds, and at most `most`
    /// of them. Returns how long it takes to earn what is missing.
    pub(crate) fn earn(self, now: u64, price: u64, most: u64) -> u64 {
        let since = &self.lane.owners.earns.since;
        let then = since.load(Ordering::Relaxed);
        let earned = now.saturating_sub(then) / price;
        let until = if earned < most { then + earned * price } else { now };
        // (Of guests that come together, one has earned it.)
        let own = earned > 0
            && since.compare_exchange(then, until, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if own {
            self.grant(earned.min(most));
        }
        let missing = (1 - self.credit()).max(0) as u64;
        missing.saturating_mul(price).saturating_sub(now.saturating_sub(until))
    }

    /// Gives back the credit for timers that the lane's thread has cancelled since the last call,
    /// up to `most`.
    pub(crate) fn earn_cancelled(self, most: u64) {
        let cancelled = self.lane.owners.cancelled.load(Ordering::Relaxed);
        let then = self.lane.owners.earns.cancelled.swap(cancelled, Ordering::Relaxed);
        self.grant(cancelled.saturating_sub(then).min(most));
    }

    /// In which period the lane was counted as one that asks, for `Pace`.
    pub(crate) fn asked_in(self) -> &'a AtomicU64 {
        &self.lane.owners.earns.asked_in
    }

    /// Whether the owner has scheduled enough since it last sought a wheel.
    pub(crate) fn may_seek(self) -> bool {
        // Relaxed: only the owner writes it.
        self.lane.accepted() >= self.lane.owners.seek_at.load(Ordering::Relaxed)
    }

    /// The owner seeks a wheel now.
    pub(crate) fn seek_later(self) {
        // Relaxed: only the owner uses it.
        self.lane.owners.seek_at.store(self.lane.accepted() + SEEK, Ordering::Relaxed);
    }

    /// Counts a cancel.
    #[inline]
    pub(crate) fn count_cancelled(self) {
        self.add(&self.lane.owners.cancelled, 1);
    }

    /// Counts schedule calls that failed after their entries had been counted.
    pub(crate) fn count_refused(self, count: u64) {
        self.add(&self.lane.owners.refused, count);
    }

    /// Remembers an entry that the calling thread has cancelled, and leaves to others to unlink.
    /// Returns the one that it remembered some calls ago.
    pub(crate) fn remember_cancelled(self, entry: *mut Entry) -> *mut Entry {
        if !self.is_owner() {
            return ptr::null_mut();
        }
        // Relaxed: the owner, the calling thread, is the only writer.
        let number = self.lane.owners.backlog.load(Ordering::Relaxed) as usize;
        // SAFETY: only the owner touches it.
        self.lane.owners.recent.with_mut(|recent| unsafe {
            std::mem::replace(&mut (&mut *recent)[number % AHEAD], entry)
        })
    }

    /// Counts `items` that the driver has to look at. True if that completes another `limit` of
    /// them.
    #[inline]
    pub(crate) fn add_backlog(self, items: u64, limit: u64) -> bool {
        let before = self.add(&self.lane.owners.backlog, items);
        (before + items) / limit != before / limit
    }

    /// Adds to a count of the lane; returns what it was.
    #[inline]
    fn add(self, count: &AtomicU64, more: u64) -> u64 {
        // Release: pairs with the loads of a snapshot, so that the schedule is counted before its
        // end.
        if self.is_owner() {
            // No read-modify-write: nobody else writes.
            let before = count.load(Ordering::Relaxed);
            count.store(before + more, Ordering::Release);
            before
        } else {
            count.fetch_add(more, Ordering::Release)
        }
    }
}

/// What an entry is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// A task. The caller has a share of the scheduler.
    Task,
    /// A carrier. The caller has a handle and perhaps no share, so the scheduler may be ending.
    /// What handles gave back is not for it: the end of the scheduler takes entries that are not
    /// set free yet for some whose handles will report.
    Carrier,
}

/// The supply of a lane, opened by the one thread that may use it now.
#[derive(Debug)]
pub(crate) struct OpenSupply<'a> {
    own: OwnLane<'a>,
}

impl<'a> OpenSupply<'a> {
    /// Takes a free entry: one that was used before, else a new one in the newest block. Null if
    /// there is neither.
    ///
    /// What handles gave back is set free a few at a time, so that a call stays short.
    #[inline]
    pub(crate) fn take(&mut self, what: For, in_hand: &InHand) -> *mut Entry {
        let lane = self.own.lane;
        lane.owners.supply.with_mut(|supply| {
            // SAFETY: `open` made us the only user of the supply, so nobody else touches the list
            // or the links of its entries. Where `take_returned` is called the list is empty.
            unsafe {
                let supply = &mut *supply;
                let entry = supply.used;
                if !entry.is_null() {
                    supply.used = FreeLink::get(entry);
                    return entry;
                }
                Self::take_returned(lane, supply, what, in_hand)
            }
        })
    }

    /// # Safety
    ///
    /// The supply is open, and its list empty.
    #[inline(never)]
    unsafe fn take_returned(
        lane: &Lane,
        supply: &mut Supply,
        what: For,
        in_hand: &InHand,
    ) -> *mut Entry {
        debug_assert!(supply.used.is_null(), "the supply has entries");
        debug_assert!(
            CHECKED || !lane.owners.for_guests || lane.owners.locked.load(Ordering::Relaxed),
            "the supply is not open"
        );
        // SAFETY: a stack gave up the chain, so nobody else refers to its entries or their links.
        // One thread has the supply open, so one thread at a time writes the newest block.
        unsafe {
            let mut chain = lane.back.returned.take_all();
            if chain.is_null() && what == For::Task {
                chain = Self::take_dropped(lane, supply, in_hand);
            }
            if chain.is_null() {
                return match supply.newest {
                    Some(block) => block.as_ref().write_next(lane.number()),
                    None => ptr::null_mut(),
                };
            }
            supply.used = FreeLink::get(chain);
            chain
        }
    }

    /// Sets some of the entries free that handles gave back: a chain. Null if there is none.
    ///
    /// # Safety
    ///
    /// The supply is open, and the caller has a share of the scheduler.
    unsafe fn take_dropped(lane: &Lane, supply: &mut Supply, in_hand: &InHand) -> *mut Entry {
        // SAFETY: the supply is open, so nobody else touches `unfreed`; nor does the end of the
        // scheduler, of which the caller has a share. The stack gave up the entries, so nobody else
        // refers to them or to their links, but for the driver to the one that it has in hand.
        lane.owners.unfreed.with_mut(|unfreed| unsafe {
            loop {
                if (*unfreed).is_null() {
                    *unfreed = lane.back.dropped.take_all();
                }
                let first = *unfreed;
                let last = set_free(first, SET_FREE);
                if last.is_null() {
                    return supply.put_aside(ptr::null_mut(), in_hand);
                }
                *unfreed = FreeLink::get(last);
                FreeLink::set(last, ptr::null_mut());
                let chain = supply.put_aside(first, in_hand);
                if !chain.is_null() {
                    return chain;
                }
            }
        })
    }

    /// Puts a free entry back.
    ///
    /// # Safety
    ///
    /// The entry is free, belongs to this lane, and nobody else refers to it.
    #[inline]
    pub(crate) unsafe fn put(&mut self, entry: *mut Entry) {
        // SAFETY: `open` made us the only user of the supply. The entry is free and nobody else
        // refers to it, so its link may be written.
        self.own.lane.owners.supply.with_mut(|supply| unsafe {
            debug_assert_eq!(
                (*entry).state.lane(),
                self.own.lane.number(),
                "the entry is another lane's"
            );
            debug_assert!(CHECKED || (*entry).state.is_free(), "the entry is in use");
            FreeLink::set(entry, (*supply).used);
            (*supply).used = entry;
        });
    }

    /// Fills the empty supply with entries of another lane, or with a new block, which is passed to
    /// `keep` first.
    #[cold]
    pub(crate) fn refill<'b>(
        &mut self,
        what: For,
        others: impl Iterator<Item = &'b Lane>,
        in_hand: &InHand,
        keep: impl FnOnce(NonNull<Block>),
    ) {
        let lane = self.own.lane;
        // SAFETY: `open` made us the only user of the supply. Nobody else refers to a chain that
        // was lent. For a task, the caller has a share of the scheduler. A block that `keep` got
        // lives as long as the lane.
        lane.owners.supply.with_mut(|supply| unsafe {
            let supply = &mut *supply;
            debug_assert!(supply.used.is_null(), "the supply has entries");
            let newest = supply.newest.map(|block| block.as_ref().size());
            let size = newest.map_or(FIRST_BLOCK, |size| (2 * size).min(LAST_BLOCK));
            // Entries of other lanes lie in other cores' caches. So they are looked at only before
            // much memory is allocated.
            if size >= BORROW {
                for other in others {
                    supply.used = other.back.returned.take_some(BORROW);
                    if supply.used.is_null() && what == For::Task {
                        // (It is empty: the caller has found nothing in it.)
                        lane.owners.unfreed.with_mut(|unfreed| {
                            debug_assert!((*unfreed).is_null(), "entries are waiting");
                            *unfreed = other.back.dropped.take_some(BORROW);
                        });
                        supply.used = Self::take_dropped(lane, supply, in_hand);
                    }
                    if !supply.used.is_null() {
                        return;
                    }
                }
            }
            let block = Block::boxed(size);
            keep(block);
            supply.newest = Some(block);
        });
    }
}

impl Drop for OpenSupply<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.own.is_owner() {
            // Release: pairs with the acquire in `open`.
            self.own.lane.owners.locked.store(false, Ordering::Release);
        }
    }
}
