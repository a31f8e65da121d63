//! Numbers for the threads of a shuttle.

use std::cell::RefCell;
use std::collections::BTreeSet;

use lars_base::sync::number_of_run;

use super::NO_SLOT;

std::thread_local! {
    /// The running model, and the numbers that its threads have. One thread of the system runs all
    /// of them.
    static TAKEN: RefCell<(u64, BTreeSet<usize>)> = const { RefCell::new((0, BTreeSet::new())) };
}

shuttle::thread_local! {
    static SLOT: Slot = Slot::take();
}

struct Slot(usize);

impl Slot {
    fn take() -> Self {
        let number = TAKEN.with_borrow_mut(|(run, taken)| {
            // The run before may have failed, and then its threads have not given theirs back.
            if *run != number_of_run() {
                (*run, *taken) = (number_of_run(), BTreeSet::new());
            }
            let number = (0..NO_SLOT).find(|number| !taken.contains(number)).unwrap_or(NO_SLOT);
            taken.insert(number);
            number
        });
        Self(number)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        TAKEN.with_borrow_mut(|(_, taken)| taken.remove(&self.0));
    }
}

/// Like the real one. Meanwhile the numbers count as taken, because the threads of the model take
/// turns inside `f`.
pub(crate) fn with_unused<R>(f: impl FnOnce(&dyn Fn(usize) -> bool) -> R) -> R {
    let unused: Vec<usize> = TAKEN.with_borrow_mut(|(_, taken)| {
        let last = taken.last().copied().unwrap_or(0);
        let unused = (0..last).filter(|number| !taken.contains(number)).collect();
        taken.extend(&unused);
        unused
    });
    let result = f(&|number| unused.contains(&number));
    TAKEN.with_borrow_mut(|(_, taken)| taken.retain(|number| !unused.contains(number)));
    result
}

/// Like the real one: the smallest number that no other thread of the model has, from its first
/// call to the end of the thread.
pub(crate) fn thread_slot() -> usize {
    SLOT.try_with(|slot| slot.0).unwrap_or(NO_SLOT)
}
