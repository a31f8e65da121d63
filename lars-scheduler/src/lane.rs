//! A lane: what the threads of one group use to schedule and cancel.
//!
//! Threads are spread over a few lanes, so that on a machine with many cores they do not all pull
//! at the same cache lines. A lane has its own intake, its own stack of cancelled entries and its
//! own supply of free ones. The timer thread visits all lanes; equal deadlines of one thread keep
//! their order, because a thread stays in its lane.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::entry::Entry;
use crate::intake::Intake;
use crate::stack::{CancelLink, FreeLink, Stack, StackLink};
use crate::sync::{AtomicBool, AtomicU64, Ordering, UnsafeCell};

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) intake: Intake,
    stash: CachePadded<Stash>,
    /// Free entries on their way back from the driver.
    returned: CachePadded<Stack<FreeLink>>,
    /// Armed entries that were cancelled, on their way to the driver.
    pub(crate) cancelled: CachePadded<Stack<CancelLink>>,
    pub(crate) counts: CachePadded<LaneCounts>,
}

/// What [`Lane::find_free`] found.
#[derive(Debug)]
#[must_use]
pub(crate) enum Found {
    /// An entry, and how many the lane has given out with it.
    Entry(*mut Entry, u64),
    /// The lane has none.
    Nothing,
    /// Another thread is just looking.
    Busy,
}

/// What the lane's threads count, beside `Stash::accepted`.
#[derive(Debug)]
pub(crate) struct LaneCounts {
    /// Entries given out that were new.
    pub(crate) new: AtomicU64,
    /// Tasks cancelled.
    pub(crate) cancelled: AtomicU64,
    /// Entries that were counted as accepted and whose schedule call failed after that.
    pub(crate) refused: AtomicU64,
}

/// Free entries that one thread at a time may take from.
///
/// The lock is only ever tried: a thread that finds it taken goes to the next lane, and in the end makes
/// an entry. So nobody depends on a thread that was interrupted while it held the lock.
#[derive(Debug)]
struct Stash {
    locked: AtomicBool,
    free: UnsafeCell<*mut Entry>,
    /// How many entries were given out. Written under the lock, read by anybody.
    accepted: AtomicU64,
}

// SAFETY: `free` is only touched by the thread that holds `locked`; entries in it are free.
unsafe impl Send for Stash {}
// SAFETY: as above.
unsafe impl Sync for Stash {}

impl Lane {
    pub(crate) fn new() -> Self {
        Self {
            intake: Intake::new(),
            stash: CachePadded::new(Stash {
                locked: AtomicBool::new(false),
                free: UnsafeCell::new(ptr::null_mut()),
                accepted: AtomicU64::new(0),
            }),
            returned: CachePadded::new(Stack::new()),
            cancelled: CachePadded::new(Stack::new()),
            counts: CachePadded::new(LaneCounts {
                new: AtomicU64::new(0),
                cancelled: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            }),
        }
    }

    /// Takes a free entry. With it comes how many the lane has given out.
    pub(crate) fn find_free(&self) -> Found {
        let stash = &*self.stash;
        // Acquire: pairs with the release below; what the last holder did to the list is seen.
        if stash.locked.swap(true, Ordering::Acquire) {
            return Found::Busy;
        }
        let entry = stash.free.with_mut(|free| {
            // SAFETY: we hold the lock, so the list and the links of its entries are ours.
            unsafe {
                if (*free).is_null() {
                    *free = self.returned.take_all();
                }
                let entry = *free;
                if !entry.is_null() {
                    *free = FreeLink::get(entry);
                }
                entry
            }
        });
        // Relaxed, and no read-modify-write: written under the lock only. The release below orders
        // it before the next holder's.
        let accepted = stash.accepted.load(Ordering::Relaxed) + u64::from(!entry.is_null());
        stash.accepted.store(accepted, Ordering::Relaxed);
        stash.locked.store(false, Ordering::Release);
        if entry.is_null() { Found::Nothing } else { Found::Entry(entry, accepted) }
    }

    /// Counts an entry that did not come from the stash.
    pub(crate) fn count_new(&self) {
        // Relaxed: a count; the push of the entry publishes it.
        self.counts.new.fetch_add(1, Ordering::Relaxed);
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

    /// How many entries were given out by this lane.
    pub(crate) fn accepted(&self) -> u64 {
        // Relaxed: a count; see `Metrics` for what is promised of it.
        self.stash.accepted.load(Ordering::Relaxed) + self.counts.new.load(Ordering::Relaxed)
    }
}
