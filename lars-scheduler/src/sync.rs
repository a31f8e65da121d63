//! The primitives of `lars-base`, and what only this crate has: a pair of fences, and numbers for
//! threads. With `sync/`, it is the only file of this crate that names others.
//!
//! `--cfg lars_loom` and `--cfg lars_shuttle` put model checkers underneath.
#![allow(clippy::disallowed_methods)]

#[cfg(not(any(lars_loom, lars_shuttle)))]
pub(crate) use self::real::*;
#[cfg(any(lars_loom, lars_shuttle))]
pub(crate) use self::{fences::*, slots::*};
pub(crate) use lars_base::sync::*;

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod asymmetric;
#[cfg(lars_shuttle)]
#[path = "sync/shuttle_slots.rs"]
mod slots;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod thread_slot;

/// For what belongs to the process and not to a scheduler: a model's own could not be static. No
/// other lock is taken, and nothing of a model happens, while it is held.
pub(crate) use std::sync::Mutex as GlobalMutex;

/// The number of a thread that has none.
pub(crate) const NO_SLOT: usize = usize::MAX;

/// loom weakens `SeqCst` accesses to acquire and release (loom#180) but models fences, so the
/// places whose argument is the single order of `SeqCst` accesses ask for a fence here. Elsewhere
/// this is nothing.
///
/// See `docs/memory-ordering.md`, "Fences that exist only in the model".
#[inline(always)]
pub(crate) fn model_fence() {
    #[cfg(lars_loom)]
    fence(Ordering::SeqCst);
}

/// Gives the processor away for some nanoseconds, whether or not anybody wants it. (Elsewhere than
/// on Unix so short a sleep takes too long, or cannot be had.)
#[cold]
pub(crate) fn nap(nanos: u64) {
    if cfg!(unix) && !CHECKED {
        std::thread::sleep(std::time::Duration::from_nanos(nanos));
    } else {
        yield_now();
    }
}

/// Calls `f` with the name of the calling thread; empty if it has none. (In a model none has.)
pub(crate) fn with_thread_name<R>(f: impl FnOnce(&str) -> R) -> R {
    if CHECKED {
        return f("");
    }
    f(std::thread::current().name().unwrap_or_default())
}

/// How often [`relax`] spins, and up to which wait it yields after that.
const SPINS: u32 = 64;
const YIELDS: u32 = 128;

/// A short wait in a loop that another running thread will end.
///
/// If it takes longer, the other thread was interrupted and may need this very processor. It does
/// not get that by a yield of a thread with a real-time policy, so in the end this sleeps. (In a
/// model it is no step but a yield: where turns go by priorities, the other thread must have one.)
#[inline]
pub(crate) fn relax(spins: u32) {
    if CHECKED || (SPINS..YIELDS).contains(&spins) {
        yield_now();
    } else if spins < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod real {
    use super::{AtomicBool, AtomicUsize, Ordering};

    /// The schedulers alive in this process.
    static ALIVE: AtomicUsize = AtomicUsize::new(0);

    /// Counts a scheduler that begins. Says whether there are more than `many`, for the first time.
    pub(crate) fn count_begun(many: usize) -> bool {
        static TOLD: AtomicBool = AtomicBool::new(false);
        // Relaxed: a statistic.
        ALIVE.fetch_add(1, Ordering::Relaxed) >= many && !TOLD.swap(true, Ordering::Relaxed)
    }

    /// Counts a scheduler that ends.
    pub(crate) fn count_ended() {
        // Relaxed: a statistic.
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) use super::asymmetric::FAILURES;
    pub(crate) use super::asymmetric::{heavy_fence, light_fence, prepare_fences};
    #[cfg(test)]
    pub(crate) use super::thread_slot::LOOKS;
    pub(crate) use super::thread_slot::{
        number_scheduler, remember, remembered, thread_slot, with_unused,
    };
}

/// A model has no kernel to ask: both sides fence, where fences count.
#[cfg(any(lars_loom, lars_shuttle))]
mod fences {
    pub(crate) fn prepare_fences() {}

    pub(crate) fn light_fence() {
        super::model_fence();
    }

    pub(crate) fn heavy_fence() -> bool {
        super::model_fence();
        true
    }

    pub(crate) fn count_begun(_many: usize) -> bool {
        false
    }

    pub(crate) fn count_ended() {}

    // A thread of a model remembers nothing.

    pub(crate) fn remembered(_scheduler: u64) -> *const () {
        std::ptr::null()
    }

    pub(crate) fn remember(_scheduler: u64, _what: *const ()) {}

    pub(crate) fn number_scheduler() -> u64 {
        1
    }
}

#[cfg(lars_loom)]
mod slots {
    loom::thread_local! {
        static SLOT: std::cell::Cell<usize> = std::cell::Cell::new(super::NO_SLOT);
    }

    /// Threads of a model have no slot and share one lane, the most contended arrangement, unless
    /// they say otherwise.
    pub(crate) fn thread_slot() -> usize {
        SLOT.with(|slot| slot.get())
    }

    loom::lazy_static! {
        /// The slots that were given back.
        static ref UNUSED: super::Mutex<Vec<usize>> = super::Mutex::new(Vec::new());
    }

    pub(crate) fn with_unused<R>(f: impl FnOnce(&dyn Fn(usize) -> bool) -> R) -> R {
        let unused = UNUSED.lock();
        f(&|number| unused.contains(&number))
    }

    /// Gives the calling thread a slot, which no other thread of the model may have at the time.
    #[cfg(test)]
    pub(crate) fn take_slot(number: usize) {
        UNUSED.lock().retain(|&unused| unused != number);
        SLOT.with(|slot| slot.set(number));
    }

    /// The calling thread has no slot any more.
    #[cfg(test)]
    pub(crate) fn give_back_slot() {
        UNUSED.lock().push(SLOT.with(|slot| slot.replace(super::NO_SLOT)));
    }
}
