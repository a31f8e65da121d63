//! The cell that a running series shares with its cancellable.
//!
//! They share this one atomic cell and nothing else, so a cancellable does not keep the series or
//! its `Handle` alive. The cell holds the entry of the current timer, with its handle, or a marker:
//!
//! | value | meaning | leaves by |
//! |---|---|---|
//! | `ARMING(n)` | run `n` has begun, no timer is here yet | arming, next run, cancel, end |
//! | an entry | the current timer, waiting or handed over | the start of its run, cancel, end |
//! | `CANCELLED` | cancelled: nothing is armed any more | never |
//! | `ENDED` | the series ended by itself, or with a panic or the scheduler | never |
//!
//! All changes are compare-and-swaps. A thread that swaps an entry out owns its handle: a canceller
//! cancels and drops it, a starting run drops it. A newly armed timer replaces `ARMING(n)`; if that
//! fails because of a cancel, the run cancels what it armed. If it fails because the new timer has
//! already fired and begun run `n + 1`, there is nothing to do. The numbers keep a slow thread from
//! taking a later marker for its own.

use std::panic::Location;
use std::ptr::NonNull;

use crate::api::cancel::Series;
use crate::api::handle::Handle;
use crate::base::clock::Clock;
use crate::base::identity::TaskIdentity;
use crate::engine::entry::Entry;
use crate::engine::entry_handle::EntryHandle;
use crate::engine::shared::Core;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

// The two lowest bits, which are zero in an entry's address, say what a marker is. So a run's
// number cannot make a marker of one kind look like another. It may wrap: for a slow thread to take
// a later marker for its own, a quarter of all numbers would have to pass while it looks.
const KIND: usize = 0b11;
const ARMING: usize = 0b01;
const CANCELLED: usize = 0b10;
const ENDED: usize = 0b11;
const _: () = assert!(align_of::<Entry>() > KIND);

/// The number of the run before the first. Tests begin where the numbers wrap.
pub(super) const FIRST: usize = if cfg!(test) { usize::MAX - 1 } else { 0 };

/// Run `number` has begun, and the timer of the next is not in the cell yet.
fn arming(number: usize) -> *mut Entry {
    std::ptr::without_provenance_mut(number << 2 | ARMING)
}
fn cancelled() -> *mut Entry {
    std::ptr::without_provenance_mut(CANCELLED)
}
fn ended() -> *mut Entry {
    std::ptr::without_provenance_mut(ENDED)
}
fn is_entry(value: *mut Entry) -> bool {
    value.addr() & KIND == 0
}

/// See the module's documentation.
pub(super) struct SeriesCell {
    current: AtomicPtr<Entry>,
    /// Where the entries belong. It exists as long as there is one in the cell, by its handle.
    core: NonNull<Core>,
    identity: TaskIdentity,
    clock: Clock,
    /// When the current timer is due, or the next one if that is about to be armed.
    due: AtomicU64,
}

// SAFETY: the core is shared state, and is only reached through a handle of one of its entries,
// which may be sent and shared.
unsafe impl Send for SeriesCell {}
// SAFETY: all access to the cell is atomic, and the core is shared state.
unsafe impl Sync for SeriesCell {}

impl SeriesCell {
    /// The cell of a series, whose first timer is due at `due` and has not been armed yet.
    pub(super) fn new(handle: &Handle, identity: TaskIdentity, due: u64) -> Self {
        Self {
            current: AtomicPtr::new(arming(FIRST)),
            core: handle.core_address(),
            identity,
            clock: handle.core().clock.clone(),
            due: AtomicU64::new(due),
        }
    }

    /// Whose the series is.
    pub(super) fn whose(&self) -> TaskIdentity {
        self.identity
    }

    /// The name of the series, and the place that scheduled it.
    pub(super) fn label(&self) -> (Option<&'static str>, &'static Location<'static>) {
        (self.identity.name(), self.identity.place().expect("a series has its place"))
    }

    /// The next timer is about to be armed for this deadline.
    pub(super) fn arm_for(&self, due: u64) {
        // Relaxed: `armed` publishes it with the timer.
        self.due.store(due, Ordering::Relaxed);
    }

    /// Run `number` begins. False if the series has been cancelled: then it must not run.
    #[must_use = "a run of a cancelled series must not begin"]
    pub(super) fn begin(&self, number: usize) -> bool {
        self.move_on(arming(number))
    }

    /// The series ends by itself. False if it was over before, because of a cancel.
    pub(super) fn end(&self) -> bool {
        self.move_on(ended())
    }

    /// Moves the cell on, unless the series is over; says whether it did.
    fn move_on(&self, to: *mut Entry) -> bool {
        // Acquire, and AcqRel below: an entry found here was filled before it was swapped in.
        let mut seen = self.current.load(Ordering::Acquire);
        loop {
            if seen == cancelled() || seen == ended() {
                return false;
            }
            match self.current.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if is_entry(seen) {
                        let handle = self.handle_of(seen);
                        // Only a cancel moves the cell while the timer waits; it prevents the run.
                        if to == cancelled() {
                            handle.cancel();
                        }
                    }
                    return true;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// The handle that the cell owned, after the entry was swapped out.
    fn handle_of(&self, entry: *mut Entry) -> EntryHandle {
        // SAFETY: entries come into the cell with their handles (`armed`), of this series' core.
        // The thread that swaps one out owns it, and calls this once. While the handle bit is set,
        // the core exists.
        unsafe { EntryHandle::new(NonNull::new_unchecked(entry), self.core) }
    }

    /// The timer of the run after run `number` has been armed: puts it into the cell.
    pub(super) fn armed(&self, number: usize, handle: EntryHandle) {
        let entry = handle.into_entry();
        // AcqRel: the next to swap sees the entry as it was filled.
        let swapped = self.current.compare_exchange(
            arming(number),
            entry,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if let Err(found) = swapped {
            let handle = self.handle_of(entry);
            if found == cancelled() {
                // The re-arm lost: it cancels what it armed.
                handle.cancel();
            }
            // Otherwise the timer fired already, and a later run has taken over the cell.
        }
    }
}

impl Series for SeriesCell {
    fn cancel(&self) -> bool {
        self.move_on(cancelled())
    }

    fn is_cancelled(&self) -> bool {
        self.current.load(Ordering::Acquire) == cancelled()
    }

    fn is_waiting(&self) -> bool {
        is_entry(self.current.load(Ordering::Acquire))
    }

    fn identity(&self) -> TaskIdentity {
        self.identity
    }

    fn due(&self) -> Option<(u64, &Clock)> {
        // After the look at the cell: whoever sees a timer there sees its deadline, or a later one.
        self.is_waiting().then(|| (self.due.load(Ordering::Relaxed), &self.clock))
    }
}

impl Drop for SeriesCell {
    fn drop(&mut self) {
        let last = self.current.load(Ordering::Acquire);
        if is_entry(last) {
            drop(self.handle_of(last));
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_a_run_looks_like_an_entry_or_the_end_of_its_series() {
        let bits = (0..usize::BITS).map(|bit| 1_usize << bit);
        let near = |number: usize| (0..8).map(move |off| number.wrapping_sub(4).wrapping_add(off));
        for number in bits.chain([0]).flat_map(near) {
            let marker = arming(number);
            assert!(marker != cancelled() && marker != ended() && !is_entry(marker), "{number}");
            assert_ne!(marker, arming(number.wrapping_add(1)), "{number}");
        }
        assert!(!is_entry(cancelled()) && !is_entry(ended()) && cancelled() != ended());
    }
}
