//! Small numbers for threads, unique among those that are alive.
//!
//! A thread gets the smallest free number when it first asks, and gives it back when it ends. A
//! thread with a number may therefore use what belongs to it, in every scheduler of the process,
//! without a lock and without an atomic read-modify-write: there is nobody else.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use super::{GlobalMutex, NO_SLOT};

/// Not asked yet.
const UNKNOWN: usize = usize::MAX - 1;

thread_local! {
    /// Without a destructor, so that it can be read at any time in a thread's life, even from the
    /// destructors of other thread-locals.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// What the thread used last that belongs to its number, and in which scheduler. No scheduler
    /// is number 0.
    static LAST: Cell<(u64, *const ())> = const { Cell::new((0, ptr::null())) };
    /// Gives the number back. Touched only when a thread asks for the first time.
    static GUARD: Guard = const { Guard };
}

struct Free {
    /// Numbers that were given back.
    returned: BTreeSet<usize>,
    /// The smallest number that nobody had yet.
    next: usize,
}

// The lock orders what one owner of a number did before what the next one does.
static FREE: GlobalMutex<Free> = GlobalMutex::new(Free { returned: BTreeSet::new(), next: 0 });

fn free() -> MutexGuard<'static, Free> {
    // A panic under the lock leaves the numbers whole.
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        // A destructor that runs later on this thread finds no number, and no lane.
        LAST.set((0, ptr::null()));
        let number = SLOT.replace(NO_SLOT);
        free().returned.insert(number);
    }
}

/// The calling thread's number, which no other live thread has; [`NO_SLOT`] in a thread that is
/// ending.
#[inline]
pub(crate) fn thread_slot() -> usize {
    match SLOT.get() {
        UNKNOWN => ask(),
        known => known,
    }
}

/// Calls `f`, which may ask whether a number was given back. Meanwhile no thread can get one, and
/// none can give one back; so `f` asks a few times only.
///
/// Whoever had such a number did all that it did with it before this, and whoever gets it next
/// comes after this.
pub(crate) fn with_unused<R>(f: impl FnOnce(&dyn Fn(usize) -> bool) -> R) -> R {
    let free = free();
    f(&|number| {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        free.returned.contains(&number)
    })
}

#[cfg(test)]
thread_local! {
    /// How often the calling thread has asked whether a number was given back.
    pub(crate) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// What the last call of [`remember`] stored, if it was for this scheduler; null if not. Saves
/// three dependent loads, which a look-up by the number would need.
#[inline]
pub(crate) fn remembered(scheduler: u64) -> *const () {
    let (of, what) = LAST.get();
    if of == scheduler { what } else { ptr::null() }
}

/// Remembers what belongs to the calling thread's number in a scheduler, for as long as that exists
/// and the thread does not ask for another's.
pub(crate) fn remember(scheduler: u64, what: *const ()) {
    if thread_slot() != NO_SLOT {
        LAST.set((scheduler, what));
    }
}

/// A number for a scheduler, which no other of the process ever has.
pub(crate) fn number_scheduler() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a number and nothing else.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cold]
fn ask() -> usize {
    // In a thread whose thread-locals are being destroyed the guard cannot be registered any more.
    let number = GUARD.try_with(|_guard| {
        let mut free = free();
        match free.returned.pop_first() {
            Some(number) => number,
            None => {
                free.next += 1;
                free.next - 1
            }
        }
    });
    let number = number.unwrap_or(NO_SLOT);
    SLOT.set(number);
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread;

    #[test]
    fn live_threads_have_different_slots_and_a_thread_keeps_its_own() {
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                thread::spawn(move || {
                    let slot = thread_slot();
                    barrier.wait(); // all alive, all with a slot
                    assert_eq!(thread_slot(), slot);
                    barrier.wait();
                    slot
                })
            })
            .collect();
        let mut slots: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), 8);
        assert!(!slots.contains(&NO_SLOT));
    }

    #[test]
    fn a_thread_that_is_ending_has_no_slot_once_its_own_is_given_back() {
        /// What a destructor saw: its slot, whether that was there for others to take, and whether
        /// the thread remembered what belongs to it.
        type Seen = Arc<Mutex<Vec<(usize, bool, bool)>>>;
        const SCHEDULER: u64 = u64::MAX;
        struct Late(Seen);
        impl Drop for Late {
            fn drop(&mut self) {
                let slot = thread_slot();
                let free = free().returned.contains(&slot);
                self.0.lock().unwrap().push((slot, free, !remembered(SCHEDULER).is_null()));
            }
        }
        // One is destroyed before the guard and one after it, in whichever order that is done.
        thread_local! {
            static FIRST: Cell<Option<Late>> = const { Cell::new(None) };
            static SECOND: Cell<Option<Late>> = const { Cell::new(None) };
        }
        let seen = Seen::default();
        let (first, second) = (Late(Arc::clone(&seen)), Late(Arc::clone(&seen)));
        let own = thread::spawn(move || {
            FIRST.set(Some(first));
            let slot = thread_slot();
            SECOND.set(Some(second));
            remember(SCHEDULER, ptr::dangling());
            slot
        })
        .join()
        .unwrap();
        assert!(own < UNKNOWN);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        for &(slot, free, remembers) in seen.iter() {
            assert!(slot == NO_SLOT || slot == own);
            assert_eq!(remembers, slot == own, "what belongs to the slot is another thread's");
            assert!(!free, "a slot that is given back is another thread's");
        }
        // (On Windows both are destroyed before the guard.)
        assert!(cfg!(windows) || seen.iter().any(|&(slot, ..)| slot == NO_SLOT));
    }
}
