//! The only file of this crate that names std, parking_lot, crossbeam or loom primitives.
//!
//! Everything the two sides of the scheduler share goes through these names, so that one build
//! flag, `--cfg lars_loom`, puts the model checker underneath, and another, `--cfg lars_shuttle`, a
//! scheduler that lets threads take turns at random. They are flags of our own and not the usual
//! `loom` because that one is global and changes other crates in the tree as well.
#![allow(clippy::disallowed_methods)]

#[cfg(lars_loom)]
pub(crate) use self::model::*;
#[cfg(not(any(lars_loom, lars_shuttle)))]
pub(crate) use self::real::*;
#[cfg(lars_shuttle)]
pub(crate) use self::shuttled::*;

// Not covered by loom models: the pool's threads, and the clock.
#[cfg(not(lars_shuttle))]
pub(crate) use self::system::*;

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod asymmetric;
#[cfg(all(windows, not(any(lars_loom, lars_shuttle))))]
mod parker;
#[cfg(lars_shuttle)]
pub mod shuttled;
#[cfg(not(any(lars_loom, lars_shuttle)))]
mod thread_slot;

/// For what belongs to the process and not to a scheduler: a model's own could not be static. No
/// other lock is taken, and nothing of a model happens, while it is held.
pub(crate) use std::sync::Mutex as GlobalMutex;

/// Whether a checker looks at every step, so that numbers should be small.
pub(crate) const CHECKED: bool = cfg!(any(lars_loom, lars_shuttle));

/// The number of a thread that has none.
pub(crate) const NO_SLOT: usize = usize::MAX;

#[cfg(not(lars_shuttle))]
mod system {
    use std::time::Instant;

    pub(crate) use std::{thread, thread_local};

    #[inline]
    pub(crate) fn real_now() -> Instant {
        Instant::now()
    }
}

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod real {
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };

    #[cfg(windows)]
    pub(crate) use super::parker::{Parker, Unparker};
    #[cfg(not(windows))]
    pub(crate) use crossbeam_utils::sync::{Parker, Unparker};
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    /// `std`'s cell behind the interface of loom's, so that the model sees every access.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer for reading.
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer for writing.
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// Where the model needs a fence to see what `SeqCst` accesses already give: nothing.
    ///
    /// See `docs/memory-ordering.md`, "Fences that exist only in the model".
    #[inline(always)]
    pub(crate) fn model_fence() {}

    /// Gives the processor away, if anybody else wants it.
    pub(crate) fn give_way() {
        std::thread::yield_now();
    }

    /// Gives the processor away for a moment, whether or not anybody wants it. (Elsewhere a moment
    /// is too long, or cannot be had.)
    #[cold]
    pub(crate) fn back_off() {
        if cfg!(unix) {
            std::thread::sleep(std::time::Duration::from_micros(50));
        } else {
            give_way();
        }
    }

    /// A short wait in a loop that another running thread will end.
    #[inline]
    pub(crate) fn relax(spins: u32) {
        if spins < 64 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

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
    pub(crate) use super::thread_slot::{number_scheduler, remember, remembered, thread_slot};
}

#[cfg(lars_loom)]
#[allow(missing_docs)]
pub mod model {
    pub use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::AtomicIsize;
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
    use std::time::Instant;

    /// loom's mutex with parking_lot's interface.
    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no model panics while it holds a lock")
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    /// loom's condition variable, without timeouts.
    #[derive(Debug)]
    pub struct Condvar(loom::sync::Condvar);

    impl Default for Condvar {
        fn default() -> Self {
            Self(loom::sync::Condvar::new())
        }
    }

    impl Condvar {
        pub fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect("no model panics while it holds a lock")
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A parker that the model can put to sleep and wake; it knows no timeouts.
    #[derive(Debug)]
    pub(crate) struct Parker(Unparker);

    #[derive(Debug, Clone)]
    pub(crate) struct Unparker(std::sync::Arc<loom::sync::Notify>);

    impl Parker {
        pub(crate) fn new() -> Self {
            Self(Unparker(std::sync::Arc::new(loom::sync::Notify::new())))
        }

        pub(crate) fn unparker(&self) -> &Unparker {
            &self.0
        }

        pub(crate) fn park(&self) {
            self.0.0.wait();
        }

        pub(crate) fn park_deadline(&self, _deadline: Instant) {
            self.park();
        }
    }

    impl Unparker {
        pub(crate) fn unpark(&self) {
            self.0.notify();
        }
    }

    /// loom weakens `SeqCst` accesses to acquire and release (loom#180) but models fences, so
    /// the places whose argument is the single order of `SeqCst` accesses ask for a fence here.
    pub(crate) fn model_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    // The model has no kernel to ask: both sides fence.

    pub(crate) fn prepare_fences() {}

    pub(crate) fn light_fence() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy_fence() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    pub(crate) fn relax(_spins: u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn give_way() {
        loom::thread::yield_now();
    }

    pub(crate) fn back_off() {
        loom::thread::yield_now();
    }

    pub(crate) fn count_begun(_many: usize) -> bool {
        false
    }

    pub(crate) fn count_ended() {}

    loom::thread_local! {
        static SLOT: std::cell::Cell<usize> = std::cell::Cell::new(super::NO_SLOT);
    }

    /// Threads of a model have no slot and share one lane, the most contended arrangement, unless
    /// they say otherwise.
    pub(crate) fn thread_slot() -> usize {
        SLOT.with(|slot| slot.get())
    }

    // A thread of a model remembers nothing.

    pub(crate) fn remembered(_scheduler: u64) -> *const () {
        std::ptr::null()
    }

    pub(crate) fn remember(_scheduler: u64, _what: *const ()) {}

    pub(crate) fn number_scheduler() -> u64 {
        1
    }

    /// Gives the calling thread a slot, which no other thread of the model may have at the time.
    #[cfg(test)]
    pub(crate) fn take_slot(number: usize) {
        SLOT.with(|slot| slot.set(number));
    }
}
