//! A lane: what a thread uses to schedule and cancel.
//!
//! A lane has an intake, stacks of entries that were cancelled or let go, and a supply of free ones. The first
//! lanes belong to one thread each, by the number that no other live thread has (`sync::thread_slot`): what only that
//! thread writes it writes with plain stores. Threads that came later, and those that are ending, share the
//! last few lanes under a lock that is only ever tried. The timer thread visits all lanes; equal deadlines
//! of one thread keep their order, because a thread stays in its lane.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use crate::block::Block;
use crate::entry::Entry;
use crate::intake::Intake;
use crate::stack::{CancelLink, FreeLink, Stack, StackLink};
use crate::sync::{AtomicBool, AtomicU64, CHECKED, NO_SLOT, Ordering, UnsafeCell, thread_slot};

/// How many entries the first block of a lane has: 64 KiB of them. Each block after that has twice as many
/// as the one before, up to [`LAST_BLOCK`].
const FIRST_BLOCK: usize = if CHECKED { 2 } else { 1 << 10 };
/// 1 MiB.
const LAST_BLOCK: usize = if CHECKED { 2 } else { 1 << 14 };

/// All lanes of a scheduler.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    /// The first so many have an owner; the number of those behind them is a power of two.
    owned: usize,
}

impl Lanes {
    pub(crate) fn new(owned: usize, shared: usize) -> Self {
        debug_assert!(shared.is_power_of_two());
        Self { lanes: (0..owned + shared).map(|_| Lane::new()).collect(), owned }
    }

    /// The calling thread's lane.
    #[inline]
    pub(crate) fn of_this_thread(&self) -> Place<'_> {
        let slot = thread_slot();
        let owner = slot < self.owned;
        let number = if owner { slot } else { self.shared_number(slot) };
        Place { lane: &self.lanes[number], number, owner, not_send: PhantomData }
    }

    #[cold]
    fn shared_number(&self, slot: usize) -> usize {
        let shared = self.lanes.len() - self.owned;
        self.owned + if slot == NO_SLOT { 0 } else { slot & (shared - 1) }
    }

    /// The lanes that have no owner.
    pub(crate) fn shared(&self) -> impl Iterator<Item = Place<'_>> {
        self.lanes.iter().enumerate().skip(self.owned).map(|(number, lane)| Place {
            lane,
            number,
            owner: false,
            not_send: PhantomData,
        })
    }
}

impl std::ops::Deref for Lanes {
    type Target = [Lane];

    fn deref(&self) -> &[Lane] {
        &self.lanes
    }
}

/// A lane as the calling thread may use it.
///
/// `owner` is true only in the one thread that has the lane's number, and a place does not leave its
/// thread: that is what makes plain stores enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) number: usize,
    owner: bool,
    not_send: PhantomData<*const ()>,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) intake: Intake,
    ours: CachePadded<Ours>,
    /// Free entries on their way back from the driver.
    returned: CachePadded<Stack<FreeLink>>,
    pub(crate) to_driver: CachePadded<ToDriver>,
    /// Entries that were given out without the lock being had; see [`Lane::count_unlocked`].
    unlocked: AtomicU64,
}

/// Entries on their way to the driver, from the handles that the lane's threads use.
#[derive(Debug)]
pub(crate) struct ToDriver {
    /// Those that were cancelled when they were armed.
    pub(crate) cancelled: Stack<CancelLink>,
    /// Those that the driver had left to a handle, which has gone now. Closed at the end.
    pub(crate) dropped: Stack<FreeLink>,
}

/// What only the lane's own threads write. In an owned lane that is one thread; in a shared one those
/// fields that say so belong to the holder of `locked`.
#[derive(Debug)]
struct Ours {
    /// Only ever tried: a thread that finds it taken goes to the next shared lane, and in the end makes an
    /// entry. So nobody depends on a thread that was interrupted while it held the lock.
    locked: AtomicBool,
    /// The holder's.
    supply: UnsafeCell<Supply>,
    /// How many entries were given out. The holder's to write, anybody's to read.
    accepted: AtomicU64,
    /// Tasks cancelled.
    cancelled: AtomicU64,
    /// Entries that were counted as accepted and whose schedule call failed after that.
    refused: AtomicU64,
    /// What the driver has to look at: entries pushed, armed entries cancelled, and entries let go.
    backlog: AtomicU64,
}

// SAFETY: `supply` is only touched by the owner, or by the thread that holds `locked`; entries in it are
// free.
unsafe impl Send for Ours {}
// SAFETY: as above.
unsafe impl Sync for Ours {}

/// Free entries.
#[derive(Debug)]
struct Supply {
    /// Entries that were used before, linked.
    used: *mut Entry,
    /// The newest block, once there is one.
    newest: Option<NonNull<Block>>,
    /// How large the next block will be.
    next_block: usize,
}

impl Lane {
    fn new() -> Self {
        Self {
            intake: Intake::new(),
            ours: CachePadded::new(Ours {
                locked: AtomicBool::new(false),
                supply: UnsafeCell::new(Supply {
                    used: ptr::null_mut(),
                    newest: None,
                    next_block: FIRST_BLOCK,
                }),
                accepted: AtomicU64::new(0),
                cancelled: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                backlog: AtomicU64::new(0),
            }),
            returned: CachePadded::new(Stack::new()),
            to_driver: CachePadded::new(ToDriver {
                cancelled: Stack::new(),
                dropped: Stack::new(),
            }),
            unlocked: AtomicU64::new(0),
        }
    }

    /// Gives free entries, linked from `first` to `last`, to the threads of this lane.
    ///
    /// # Safety
    ///
    /// The entries are free, and the caller's to give away.
    pub(crate) unsafe fn give_back(&self, first: *mut Entry, last: *mut Entry) {
        // SAFETY: the caller's promise.
        unsafe { self.returned.push_chain(first, last) };
    }

    /// Takes some of the entries that the driver has given back: a chain. For threads of other lanes.
    ///
    /// Not all, because what they take too much of lies in their lane and is of no use to any other.
    pub(crate) fn take_some_returned(&self) -> *mut Entry {
        let chain = self.returned.take_all();
        let mut last = chain;
        // SAFETY: what was taken is ours, links included; what is put back is so whole.
        unsafe {
            for _ in 1..FIRST_BLOCK {
                if last.is_null() {
                    return chain;
                }
                last = FreeLink::get(last);
            }
            if !last.is_null() {
                let rest = FreeLink::get(last);
                // (If the driver gave back more meanwhile, all is taken.)
                if !rest.is_null() && self.returned.put(rest) {
                    FreeLink::set(last, ptr::null_mut());
                }
            }
        }
        chain
    }

    /// Frees what was let go and not taken in, and sees to it that nothing else is sent here.
    ///
    /// # Safety
    ///
    /// There is no driver any more.
    pub(crate) unsafe fn close(&self) {
        // SAFETY: only the driver took from it; and what was pushed was let go, so it is ours.
        unsafe {
            let mut entry = self.to_driver.dropped.close();
            while !entry.is_null() {
                let next = FreeLink::get(entry);
                (*entry).state.set_free();
                entry = next;
            }
        }
    }

    /// Counts an entry that was made although the lock could not be had.
    pub(crate) fn count_unlocked(&self) {
        // Relaxed: a count; the push of the entry publishes it.
        self.unlocked.fetch_add(1, Ordering::Relaxed);
    }

    /// How many entries were given out by this lane.
    pub(crate) fn accepted(&self) -> u64 {
        // Relaxed: a count; see `Metrics` for what is promised of it.
        self.ours.accepted.load(Ordering::Relaxed) + self.unlocked.load(Ordering::Relaxed)
    }

    /// How many timers were cancelled by this lane's threads.
    pub(crate) fn cancels(&self) -> u64 {
        // Acquire: pairs with the count, so that who sees a timer end has seen it begin.
        self.ours.cancelled.load(Ordering::Acquire)
    }

    /// How many schedule calls of this lane's threads failed after an entry had been found.
    pub(crate) fn refused(&self) -> u64 {
        // Acquire: as above.
        self.ours.refused.load(Ordering::Acquire)
    }
}

impl<'a> Place<'a> {
    /// Opens the lane's supply of free entries, unless it is shared and another thread has it open.
    #[inline]
    pub(crate) fn open(self) -> Option<OpenSupply<'a>> {
        // Acquire: pairs with the release when the last holder closed it; what that did is seen.
        if !self.owner && self.lane.ours.locked.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(OpenSupply { place: self })
    }

    /// Counts a cancel.
    #[inline]
    pub(crate) fn count_cancelled(self) {
        self.add(&self.lane.ours.cancelled, 1);
    }

    /// Counts a schedule call that failed after its entry had been counted.
    pub(crate) fn count_refused(self, count: u64) {
        self.add(&self.lane.ours.refused, count);
    }

    /// Counts `items` that the driver has to look at. Says whether that makes another `limit` of them.
    #[inline]
    pub(crate) fn add_backlog(self, items: u64, limit: u64) -> bool {
        let before = self.add(&self.lane.ours.backlog, items);
        (before + items) / limit != before / limit
    }

    /// Adds to a count of the lane; returns what it was.
    #[inline]
    fn add(self, count: &AtomicU64, more: u64) -> u64 {
        // Release: pairs with the loads of a snapshot, so that the schedule is counted before its end.
        if self.owner {
            // No read-modify-write: nobody else writes.
            let before = count.load(Ordering::Relaxed);
            count.store(before + more, Ordering::Release);
            before
        } else {
            count.fetch_add(more, Ordering::Release)
        }
    }
}

/// The supply of a lane, opened by the one thread that may take from it now.
#[derive(Debug)]
pub(crate) struct OpenSupply<'a> {
    place: Place<'a>,
}

impl OpenSupply<'_> {
    /// Takes a free entry: one that was used before, else a new one in the newest block. Null if there is
    /// neither.
    #[inline]
    pub(crate) fn take(&mut self) -> *mut Entry {
        let lane = self.place.lane;
        lane.ours.supply.with_mut(|supply| {
            // SAFETY: `open` made us the only holder, so the lists and the links of their entries are ours.
            unsafe {
                let supply = &mut *supply;
                if supply.used.is_null() {
                    supply.used = lane.returned.take_all();
                }
                let entry = supply.used;
                if !entry.is_null() {
                    supply.used = FreeLink::get(entry);
                    return entry;
                }
                match supply.newest {
                    Some(block) => block.as_ref().write_next(self.place.number),
                    None => ptr::null_mut(),
                }
            }
        })
    }

    /// Counts entries as given out.
    #[inline]
    pub(crate) fn accept(&mut self, entries: u64) {
        let accepted = &self.place.lane.ours.accepted;
        // Relaxed, and no read-modify-write: only the holder writes. Closing orders it before the next holder's.
        accepted.store(accepted.load(Ordering::Relaxed) + entries, Ordering::Relaxed);
    }

    /// Adds a chain of free entries that came from elsewhere. The supply has none of its own.
    ///
    /// # Safety
    ///
    /// The entries are free, linked by their free links, and the caller's to give away.
    pub(crate) unsafe fn put(&mut self, chain: *mut Entry) {
        // SAFETY: as in `take`.
        self.place.lane.ours.supply.with_mut(|supply| unsafe {
            debug_assert!((*supply).used.is_null());
            (*supply).used = chain;
        });
    }

    /// How large a block the lane should have next. The one after that will be twice as large.
    pub(crate) fn next_block(&mut self) -> usize {
        // SAFETY: as in `take`.
        self.place.lane.ours.supply.with_mut(|supply| unsafe {
            let size = (*supply).next_block;
            (*supply).next_block = (2 * size).min(LAST_BLOCK);
            size
        })
    }

    /// Adds a new block. The one before is full.
    ///
    /// # Safety
    ///
    /// It is the caller's to give away, and outlives the lane's use.
    pub(crate) unsafe fn put_fresh(&mut self, block: NonNull<Block>) {
        // SAFETY: as in `take`.
        self.place.lane.ours.supply.with_mut(|supply| unsafe { (*supply).newest = Some(block) });
    }
}

impl Drop for OpenSupply<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.place.owner {
            // Release: pairs with the acquire in `open`.
            self.place.lane.ours.locked.store(false, Ordering::Release);
        }
    }
}
