//! Small numbers for threads, unique among those that are alive.
//!
//! A thread gets the smallest free number when it first asks, and gives it back when it ends. Whoever has a
//! number may therefore use what belongs to it, in every scheduler of the process, without a lock and
//! without an atomic read-modify-write: there is nobody else.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use parking_lot::Mutex;

use super::NO_SLOT;

/// Not asked yet.
const UNKNOWN: usize = usize::MAX - 1;

thread_local! {
    /// Without a destructor, so that it can be read at any time in a thread's life, also from the
    /// destructors of other thread-locals.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Gives the number back. Touched only when a thread asks for the first time.
    static GUARD: Guard = const { Guard };
}

struct Free {
    /// Numbers that were given back.
    returned: BinaryHeap<Reverse<usize>>,
    /// The smallest number that nobody had yet.
    next: usize,
}

// The lock orders what one owner of a number did before what the next one does.
static FREE: Mutex<Free> = Mutex::new(Free { returned: BinaryHeap::new(), next: 0 });

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        // Whoever asks from here on, in a destructor that runs later, has none.
        let number = SLOT.replace(NO_SLOT);
        FREE.lock().returned.push(Reverse(number));
    }
}

/// The calling thread's number, which no other live thread has; [`NO_SLOT`] in a thread that is ending.
#[inline]
pub(crate) fn thread_slot() -> usize {
    match SLOT.get() {
        UNKNOWN => ask(),
        known => known,
    }
}

#[cold]
fn ask() -> usize {
    // In a thread whose thread-locals are being destroyed the guard cannot be registered any more.
    let number = GUARD.try_with(|_guard| {
        let mut free = FREE.lock();
        match free.returned.pop() {
            Some(Reverse(number)) => number,
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
    use std::sync::{Arc, Barrier};
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
    fn a_thread_that_is_ending_has_no_slot_and_gives_its_own_back() {
        struct Late(Arc<Mutex<Vec<usize>>>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.lock().push(thread_slot());
            }
        }
        thread_local! {
            static LATE: Cell<Option<Late>> = const { Cell::new(None) };
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let late = Late(Arc::clone(&seen));
        thread::spawn(move || {
            // Registered first, so it is destroyed after the guard on most platforms, before it on others.
            LATE.set(Some(late));
            thread_slot()
        })
        .join()
        .map(|slot| {
            assert!(slot < UNKNOWN);
            let late = seen.lock()[0];
            assert!(late == NO_SLOT || late == slot);
        })
        .unwrap();
    }
}
