//! The entry: one timer, in 64 bytes, from the call that schedules it to the run.
//!
//! # The journey of an entry
//!
//! ```text
//!   stash ──find──▶ scheduling thread ──push──▶ intake ──drain──▶ wheel ──due──▶ due list
//!     ▲                                           │                 │               │
//!     │                                       cancelled         cancelled         fired
//!     │                                           ▼                 ▼               ▼
//!   returned stack ◀────────────────────── freed by the driver, or left to a handle that lives
//!                                                 ▲                                 │
//!                                                 └──drain── dropped stack ◀──push──┘
//! ```
//!
//! # Ground rules
//!
//! | field | who may touch it |
//! |---|---|
//! | `links.next` | the finder of a free entry until the push; the intake until the pop; then the driver, until it gives the entry to the returned stack, or leaves it to its handle: then that, until the dropped stack has it, and the driver again |
//! | `links.prev` | the driver, from the pop until it frees or leaves the entry |
//! | `state` | everybody, see [`state`] |
//! | `deadline` | written by the finder before the push, and by a handle that has locked it; read by the driver after the pop |
//! | `slot.task` | the finder until the push; then whoever moves the state out of `QUEUED` or `ARMED` |
//! | `slot.link` | the canceller after it took the task, until the cancel stack has the entry; then the driver. In a carrier, the entry that it is about |
//!
//! Entries live in blocks that are freed only after the scheduler, all its handles and all
//! its cancellables are gone (see `arena`), so no pointer between them dangles while in use.

pub(crate) mod state;

use std::mem::ManuallyDrop;
use std::ptr;

use self::state::State;
use crate::body::RawTask;
use crate::sync::{AtomicPtr, AtomicU64, CHECKED, Ordering, UnsafeCell};

/// The links of an entry, and of the heads of lists: see `intake` and `wheel::list`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Links {
    pub(crate) next: AtomicPtr<Links>,
    pub(crate) prev: AtomicPtr<Links>,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self::of(ptr::null_mut(), ptr::null_mut())
    }

    pub(crate) fn of(next: *mut Links, prev: *mut Links) -> Self {
        Self { next: AtomicPtr::new(next), prev: AtomicPtr::new(prev) }
    }

    // `prev` is the driver's alone and `next` is too while the entry is in a list; they are
    // atomics because `next` is also the intake's link. Relaxed: one thread at a time.

    pub(crate) fn next(&self) -> *mut Links {
        self.next.load(Ordering::Relaxed)
    }
    pub(crate) fn set_next(&self, next: *mut Links) {
        self.next.store(next, Ordering::Relaxed);
    }
    pub(crate) fn prev(&self) -> *mut Links {
        self.prev.load(Ordering::Relaxed)
    }
    pub(crate) fn set_prev(&self, prev: *mut Links) {
        self.prev.store(prev, Ordering::Relaxed);
    }
}

/// The task, or, once a canceller has taken it, the link of the cancel stack.
union Slot {
    task: ManuallyDrop<RawTask>,
    link: *mut Entry,
}

/// One timer. In a cache line of its own: whoever works on it fetches one line, and disturbs nobody else.
#[repr(C, align(64))]
pub(crate) struct Entry {
    /// First, so that a pointer to the links is a pointer to the entry.
    links: Links,
    pub(crate) state: State,
    deadline: AtomicU64,
    slot: UnsafeCell<Slot>,
}

// Four words of task, two of links, state and deadline: one cache line.
const _: () = assert!(CHECKED || size_of::<Entry>() <= 64);

// SAFETY: entries are shared between threads under the ground rules above; the task inside is
// `Send`, and the raw pointers are only followed by whoever owns them by those rules.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Entry {
    /// A free entry of the given lane.
    pub(crate) fn free(lane: usize) -> Self {
        Self {
            links: Links::new(),
            state: State::free(lane),
            deadline: AtomicU64::new(0),
            slot: UnsafeCell::new(Slot { link: ptr::null_mut() }),
        }
    }

    /// The entry whose links these are.
    ///
    /// The pointer must come from [`links`](Entry::links), so that it may reach the whole entry.
    pub(crate) fn of_links(links: *mut Links) -> *mut Entry {
        links.cast()
    }

    /// The links of an entry, as a pointer that may reach the whole entry.
    pub(crate) fn links(entry: *mut Entry) -> *mut Links {
        entry.cast()
    }

    /// Writes deadline and task into a free entry.
    ///
    /// # Safety
    ///
    /// The caller found the entry free and has not let anybody see it yet.
    #[inline]
    pub(crate) unsafe fn fill(&self, deadline: u64, task: RawTask) {
        self.set_deadline(deadline);
        // SAFETY: the caller is alone with the entry. A free one holds no task, so none is overwritten.
        self.slot.with_mut(|slot| unsafe { slot.write(Slot { task: ManuallyDrop::new(task) }) });
    }

    /// Makes a free entry the carrier that tells the driver to look at `about`.
    ///
    /// # Safety
    ///
    /// As for [`fill`](Self::fill).
    pub(crate) unsafe fn fill_move(&self, about: *mut Entry) {
        // SAFETY: the caller is alone with the entry, which holds no task.
        self.slot.with_mut(|slot| unsafe { slot.write(Slot { link: about }) });
    }

    /// The deadline, in nanoseconds since the scheduler's origin. A handle may be changing it right now.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        // Relaxed: the state word orders it.
        self.deadline.load(Ordering::Relaxed)
    }

    /// Only for the finder of a free entry, and for a handle that has locked the deadline.
    #[inline]
    pub(crate) fn set_deadline(&self, deadline: u64) {
        // Relaxed: the push publishes it, or the state word.
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Moves the task out.
    ///
    /// # Safety
    ///
    /// The caller moved the state out of `QUEUED` or `ARMED`, and does this once.
    #[inline]
    pub(crate) unsafe fn take_task(&self) -> RawTask {
        // SAFETY: by the state table the task is the caller's, and it is there.
        self.slot.with_mut(|slot| unsafe { ManuallyDrop::take(&mut (*slot).task) })
    }

    /// Sets the cancel stack's link.
    ///
    /// # Safety
    ///
    /// The caller cancelled the armed entry, took the task and has not pushed the entry yet.
    pub(crate) unsafe fn set_cancel_link(&self, next: *mut Entry) {
        // SAFETY: the slot is the caller's and holds no task any more.
        self.slot.with_mut(|slot| unsafe { (*slot).link = next });
    }

    /// The cancel stack's link; in a carrier, the entry that it is about.
    ///
    /// # Safety
    ///
    /// The caller is the driver and took the entry from the cancel stack, or the carrier from the intake.
    pub(crate) unsafe fn link(&self) -> *mut Entry {
        // SAFETY: the push published the link, and nobody writes the slot after it.
        self.slot.with(|slot| unsafe { (*slot).link })
    }
}
