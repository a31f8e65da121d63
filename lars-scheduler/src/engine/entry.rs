//! The entry: one timer, in 64 bytes, from the call that schedules it to the run.
//!
//! # The journey of an entry
//!
//! ```text
//!            ┌──────────────── behind the gate of the owner's lane ────────────────┐
//!            │                                                                     ▼
//!   supply ──┴─▶ scheduling thread ──push──▶ intake ──drain──▶ wheel ──due──▶ due list
//!     ▲                                        │                 │               │
//!     │                                    cancelled         cancelled         fired
//!     │                                        ▼                 ▼               ▼
//!   returned, dropped ◀──────────────── freed, or left to a handle that lives, which gives it back
//! ```
//!
//! # Ground rules
//!
//! The *holder* of a lane's wheel is the party behind the lane's gate: its owner, or the driver as
//! a visitor. The holder of the driver's own wheel is the driver.
//!
//! | field | who may touch it |
//! |---|---|
//! | `links.next` | the finder of a free entry until it is placed or pushed; the intake until the pop; then the holder of the wheel; in the due list the driver; at last the party that frees the entry or gives it back |
//! | `links.prev` | the holder of the wheel, and the driver while it has the entry in the due list or [`in_hand`](crate::engine::in_hand). It also says where the entry is: [`Whereabouts`] |
//! | `state` | everybody, see [`state`] |
//! | `deadline` | written by the finder before the entry is placed or pushed, and by a handle that has locked it; read by the holder of the wheel and the driver |
//! | `slot.task` | the finder until the entry is placed or pushed; then the party that moves the state out of `QUEUED` or `ARMED`. If that is the driver, it may have the entry [`in_hand`](crate::engine::in_hand) when that is free already |
//! | the last two words of `slot` | as the rest of it; but between two fills anybody may read them who knows that the entry does not become free meanwhile ([`Entry::identity`]) |
//! | `slot.link` | the canceller after it took the task, until the cancel stack has the entry; then the driver. In a carrier, the entry that it is about |
//!
//! Entries live in blocks that are freed only after the scheduler, all its handles and all
//! its cancellables are gone (see `arena`), so no pointer between them dangles while in use.

pub(crate) mod state;

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use self::state::State;
use crate::base::identity::TaskIdentity;
use crate::base::raw_task::RawTask;
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

    // By the ground rules one party at a time has the links, with one exception: the owner of a
    // lane may ask whether an entry is linked while the driver takes it out of the due list.
    // Relaxed: the answer is no, both before and after that.

    #[inline]
    pub(crate) fn next(&self) -> *mut Links {
        self.next.load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn set_next(&self, next: *mut Links) {
        self.next.store(next, Ordering::Relaxed);
    }
    #[inline]
    pub(crate) fn prev(&self) -> *mut Links {
        self.prev.load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn set_prev(&self, prev: *mut Links) {
        self.prev.store(prev, Ordering::Relaxed);
    }
}

/// Where an entry is, as its `prev` link tells, unless it is in an intake for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// In no list, and in no intake but for the first time.
    Nowhere,
    /// In a list of a wheel, by whose holder it may be unlinked.
    Linked,
    /// In the due list, or in an intake on its way back from there: it will be popped.
    Queued,
    /// Queued, and already found on a cancel stack: the party that pops it has to retire it.
    GivenUp,
}

// Addresses that are not those of any links.
const QUEUED: *mut Links = ptr::without_provenance_mut(1);
const GIVEN_UP: *mut Links = ptr::without_provenance_mut(2);

/// The task, or, once a canceller has taken it, the link of the cancel stack, which lies in the
/// first two words.
#[repr(C)]
union Slot {
    task: ManuallyDrop<RawTask>,
    link: Link,
}

#[derive(Clone, Copy)]
struct Link {
    next: *mut Entry,
    /// An entry that is a few places further on in the cancel stack, or was: to be fetched ahead,
    /// and not to be followed.
    hint: *mut Entry,
}

impl Link {
    fn to(next: *mut Entry) -> Self {
        Self { next, hint: ptr::null_mut() }
    }
}

/// One timer, in a cache line of its own: a thread that works on it fetches one line, and disturbs
/// no other thread.
#[repr(C, align(64))]
pub(crate) struct Entry {
    /// First, so that a pointer to the links is a pointer to the entry.
    links: Links,
    pub(crate) state: State,
    deadline: AtomicU64,
    slot: UnsafeCell<Slot>,
    /// For the model checker, which sees accesses to a cell and not to its bytes: what
    /// [`identity`](Self::identity) reads, apart from the rest of the slot.
    #[cfg(lars_loom)]
    whose: UnsafeCell<Option<TaskIdentity>>,
}

// Four words of task, two of links, state and deadline: one cache line.
const _: () = assert!(CHECKED || size_of::<Entry>() <= 64);

// SAFETY: the task inside is `Send`. A raw pointer is followed only by the party that may touch its
// field by the ground rules in the module's documentation.
unsafe impl Send for Entry {}
// SAFETY: shared references reach only the atomics and, by the ground rules, the one party that may
// use the slot.
unsafe impl Sync for Entry {}

impl Entry {
    /// A free entry of the given lane.
    pub(crate) fn free(lane: usize) -> Self {
        Self {
            links: Links::new(),
            state: State::free(lane),
            deadline: AtomicU64::new(0),
            slot: UnsafeCell::new(Slot { link: Link::to(ptr::null_mut()) }),
            #[cfg(lars_loom)]
            whose: UnsafeCell::new(None),
        }
    }

    /// The entry whose links these are.
    ///
    /// The pointer must come from [`links`](Entry::links), so that it may reach the whole entry.
    #[inline]
    pub(crate) fn of_links(links: *mut Links) -> *mut Entry {
        links.cast()
    }

    /// The links of an entry, as a pointer that may reach the whole entry.
    #[inline]
    pub(crate) fn links(entry: *mut Entry) -> *mut Links {
        entry.cast()
    }

    /// In debug builds, panics if this cannot be the address of an entry: if it is null, or what
    /// stands for the head of a closed stack.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_address(entry: *mut Entry) {
        debug_assert!(!entry.is_null() && entry.is_aligned(), "{entry:p} is no entry's address");
    }

    /// Writes deadline and task into a free entry. `write` is given the place of the task, and has
    /// to write one there.
    ///
    /// # Safety
    ///
    /// The caller found the entry free, and no other thread has seen it since.
    #[inline]
    pub(crate) unsafe fn fill(&self, deadline: u64, write: impl FnOnce(*mut RawTask)) {
        debug_assert!(CHECKED || self.state.is_free(), "an entry that is in use is filled");
        self.set_deadline(deadline);
        // SAFETY: no other thread has seen the entry. A free one holds no task, so none is
        // overwritten.
        self.slot.with_mut(|slot| write(unsafe { &raw mut (*slot).task }.cast()));
        #[cfg(lars_loom)]
        // SAFETY: no other thread has seen the entry, and a task has just been written.
        self.whose.with_mut(|whose| unsafe {
            *whose = Some(self.slot.with(|slot| (*slot).task.identity()));
        });
    }

    /// Makes a free entry the carrier that brings the consumer of the intake to `about`.
    ///
    /// # Safety
    ///
    /// The caller found the entry free, and no other thread has seen it since.
    pub(crate) unsafe fn fill_carrier(&self, about: *mut Entry) {
        Entry::assert_address(about);
        debug_assert!(CHECKED || self.state.is_free(), "an entry that is in use is made a carrier");
        // SAFETY: no other thread has seen the entry, and a free one holds no task.
        self.slot.with_mut(|slot| unsafe { slot.write(Slot { link: Link::to(about) }) });
    }

    /// Where the entry is. Only the holder of its wheel and the driver ask.
    #[inline]
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        match self.links.prev() {
            prev if prev.is_null() => Whereabouts::Nowhere,
            QUEUED => Whereabouts::Queued,
            GIVEN_UP => Whereabouts::GivenUp,
            _ => Whereabouts::Linked,
        }
    }

    /// Notes where the entry is, if not in a list of a wheel.
    #[inline]
    pub(crate) fn set_whereabouts(&self, now: Whereabouts) {
        self.links.set_prev(match now {
            Whereabouts::Nowhere => ptr::null_mut(),
            Whereabouts::Queued => QUEUED,
            Whereabouts::GivenUp => GIVEN_UP,
            Whereabouts::Linked => unreachable!("the list links it"),
        });
    }

    /// The deadline, in nanoseconds since the scheduler's origin. A handle may be changing it right
    /// now.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        // Relaxed: the state word orders it.
        self.deadline.load(Ordering::Relaxed)
    }

    /// Sets the deadline. Only the finder of a free entry calls this, or a handle that has locked
    /// the deadline.
    #[inline]
    pub(crate) fn set_deadline(&self, deadline: u64) {
        // Relaxed: the push publishes it, or the state word.
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Whose the task is that the entry was filled with last, even if it was moved out since.
    ///
    /// # Safety
    ///
    /// The entry was filled with a task, and is not filled anew while this runs: the caller has the
    /// handle, or knows by other means that the entry cannot become free meanwhile.
    pub(crate) unsafe fn identity(&self) -> TaskIdentity {
        debug_assert!(CHECKED || !self.state.is_free(), "a free entry has no identity");
        #[cfg(lars_loom)]
        // SAFETY: nobody fills the entry meanwhile.
        return self.whose.with(|whose| unsafe { (*whose).expect("it was filled with a task") });
        // SAFETY: the slot was written whole when the entry was filled. Until it is filled anew,
        // others only read it, or write the link, which lies in the first two words: apart from the
        // last two, which are all that is read here.
        #[cfg(not(lars_loom))]
        self.slot
            .with(|slot| unsafe { RawTask::whose_at((&raw const (*slot).task).cast()).identity() })
    }

    /// Moves the task out.
    ///
    /// # Safety
    ///
    /// The caller moved the state out of `QUEUED` or `ARMED`, and does this once.
    #[inline]
    pub(crate) unsafe fn take_task(&self) -> RawTask {
        self.assert_won();
        // SAFETY: one party moves the state out of `QUEUED` or `ARMED`, and by the state table the
        // task is there and belongs to it. The caller takes it once.
        // By the pointer: a `&mut` would claim the last words too, which others may be reading.
        self.slot.with_mut(|slot| unsafe { (&raw const (*slot).task).cast::<RawTask>().read() })
    }

    /// Moves the task out to a given place, without a copy on the way.
    ///
    /// # Safety
    ///
    /// Same as [`take_task`](Self::take_task). What is at `to` is overwritten.
    #[inline]
    pub(crate) unsafe fn take_task_to(&self, to: &mut MaybeUninit<RawTask>) {
        self.assert_won();
        // SAFETY: the caller won the task and takes it once, so it is there, and nobody else's. So
        // `to` does not overlap it.
        self.slot.with_mut(|slot| unsafe {
            let task = (&raw const (*slot).task).cast::<RawTask>();
            ptr::copy_nonoverlapping(task, to.as_mut_ptr(), 1);
        });
    }

    /// Whether the task may be forgotten instead of being taken out and dropped.
    ///
    /// # Safety
    ///
    /// The caller moved the state out of `QUEUED` or `ARMED`, and has not taken the task out.
    #[inline]
    pub(crate) unsafe fn has_plain_task(&self) -> bool {
        self.assert_won();
        // SAFETY: by the state table the task is there, and belongs to the caller.
        self.slot.with(|slot| unsafe { (*slot).task.is_plain() })
    }

    /// In debug builds, panics if the entry still waits: its task belongs to the party that moved
    /// the state out of `QUEUED` or `ARMED`. (Not in models, where each look at the word is one
    /// more step.)
    #[inline]
    fn assert_won(&self) {
        debug_assert!(CHECKED || !self.state.is_waiting(), "the task of a waiting entry is taken");
    }

    /// Sets the cancel stack's link.
    ///
    /// # Safety
    ///
    /// The caller cancelled the armed entry, took the task and has not pushed the entry yet.
    pub(crate) unsafe fn set_cancel_link(&self, next: *mut Entry) {
        debug_assert!(CHECKED || self.state.is_cancelled(), "the slot still has its task");
        // SAFETY: the canceller has the slot until it pushes the entry, and has taken the task out.
        self.slot.with_mut(|slot| unsafe { (*slot).link.next = next });
    }

    /// Makes the slot of an entry a link of the cancel stack.
    ///
    /// # Safety
    ///
    /// The caller cancelled the armed entry, took the task and has not pushed the entry yet.
    pub(crate) unsafe fn make_link(&self, hint: *mut Entry) {
        debug_assert!(CHECKED || self.state.is_cancelled(), "the slot still has its task");
        // SAFETY: the canceller has the slot until it pushes the entry, and has taken the task out.
        // (Only the link: whose the task was stays to be seen.)
        self.slot.with_mut(|slot| unsafe {
            (&raw mut (*slot).link).write(Link { next: ptr::null_mut(), hint });
        });
    }

    /// An entry that may come up soon; not to be followed.
    ///
    /// # Safety
    ///
    /// The caller took the entry from the cancel stack.
    pub(crate) unsafe fn hint(&self) -> *mut Entry {
        debug_assert!(CHECKED || self.state.is_cancelled(), "the slot has no link");
        // SAFETY: the slot holds a link, which the push published, and nobody writes it after that.
        self.slot.with(|slot| unsafe { (*slot).link.hint })
    }

    /// The cancel stack's link; in a carrier, the entry that it is about.
    ///
    /// # Safety
    ///
    /// The caller took the entry from the cancel stack, or the carrier from the intake.
    pub(crate) unsafe fn link(&self) -> *mut Entry {
        debug_assert!(
            CHECKED || self.state.is_cancelled() || self.state.flags().is_carrier(),
            "the slot has no link"
        );
        // SAFETY: the slot holds a link, which the push published, and nobody writes it after that.
        self.slot.with(|slot| unsafe { (*slot).link.next })
    }
}

/// Fetches an entry that will perhaps be needed soon. Every address is allowed.
#[inline(always)]
pub(crate) fn prefetch(_entry: *mut Entry) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it does not access the memory, so every address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(_entry.cast());
    }
}

/// Like [`prefetch`], for an entry that will be written: other cores give up the line at once.
#[inline(always)]
pub(crate) fn prefetch_to_write(_entry: *mut Entry) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it does not access the memory, so every address is allowed.
    // Processors that do not know the instruction do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) _entry, options(nostack, preserves_flags));
    }
}
