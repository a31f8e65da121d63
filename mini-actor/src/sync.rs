//! The primitives of `lars-base`, and what only this crate has. It is the only file of this crate
//! that names others. `--cfg lars_loom` and `--cfg lars_shuttle` put model checkers underneath.
#![allow(clippy::disallowed_methods)]

pub(crate) use lars_base::sync::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, CHECKED, Mutex, MutexGuard, Ordering,
    UnsafeCell, fence, real_now, thread, thread_local, yield_now,
};
pub(crate) use std::sync::{Arc, OnceLock, Weak};

#[cfg(lars_loom)]
pub(crate) use self::model::*;
#[cfg(not(lars_loom))]
pub(crate) use self::real::*;

#[cfg(lars_shuttle)]
pub(crate) use shuttle::thread::LocalKey;
#[cfg(not(lars_shuttle))]
pub(crate) use std::thread::LocalKey;

/// Counts and flags that no loom model looks into.
pub(crate) mod plain {
    /// For what the whole process shares, and models on several threads of the system as well.
    pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;

    #[cfg(lars_shuttle)]
    pub(crate) use lars_base::sync::{AtomicBool, AtomicU64};
    #[cfg(not(lars_shuttle))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
}

#[cfg(not(lars_loom))]
mod real {
    use lars_base::time::Instant;
    use std::mem::MaybeUninit;

    use super::{AtomicPtr, AtomicUsize, MutexGuard, UnsafeCell};

    /// A condition variable whose waits take and give back the guard, as the model's do.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(lars_base::sync::Condvar);

    impl Condvar {
        /// Waits to be notified, until `deadline` at most (`None`: forever).
        pub(crate) fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            match deadline {
                None => self.0.wait(&mut guard),
                // (With one thread, either wait panics; and std's instants cannot be made.)
                #[cfg(all(target_family = "wasm", target_os = "unknown"))]
                Some(_) => self.0.wait(&mut guard),
                #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
                Some(deadline) => drop(self.0.wait_until(&mut guard, deadline)),
            }
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) use std::alloc::{alloc, dealloc};

    /// Makes a cell of memory, with nothing in it. There is nothing to write.
    ///
    /// # Safety
    ///
    /// The memory can be written, and nobody else has it.
    pub(crate) unsafe fn write_uninit<T>(cell: *mut UnsafeCell<MaybeUninit<T>>) {
        let address = cell.cast::<()>();
        debug_assert!(!cell.is_null() && cell.is_aligned(), "{address:p} is no cell's address");
    }

    /// Lets a model fail if another thread may still look at these.
    pub(crate) fn nobody_looks_at<T>(_: &mut AtomicPtr<T>, _: &mut AtomicUsize) {}
}

#[cfg(lars_loom)]
mod model {
    use std::mem::MaybeUninit;

    pub(crate) use lars_base::sync::Condvar;
    pub(crate) use loom::alloc::{alloc, dealloc};

    use super::{AtomicPtr, AtomicUsize, UnsafeCell};

    /// Makes a cell of memory, with nothing in it, that the model knows of.
    ///
    /// # Safety
    ///
    /// The memory can be written, and nobody else has it.
    pub(crate) unsafe fn write_uninit<T>(cell: *mut UnsafeCell<MaybeUninit<T>>) {
        let address = cell.cast::<()>();
        debug_assert!(!cell.is_null() && cell.is_aligned(), "{address:p} is no cell's address");
        // SAFETY: the memory can be written, and nobody but the caller has it.
        unsafe { cell.write(UnsafeCell::new(MaybeUninit::uninit())) };
    }

    /// Fails if another thread may still look at these: for memory that is about to be freed. (The
    /// model's own atomics do not say that they are dropped.)
    pub(crate) fn nobody_looks_at<T>(link: &mut AtomicPtr<T>, number: &mut AtomicUsize) {
        link.with_mut(|_| ());
        number.with_mut(|_| ());
    }
}

/// To be called when a worker goes round once more, perhaps because of a sender that is halfway. A
/// checker that schedules by strict priority might never let that sender run. An operating system
/// does so by itself.
#[inline(always)]
pub(crate) fn round_again() {
    #[cfg(lars_shuttle)]
    yield_now();
}

/// A wait in a loop that looks whether others have got somewhere, which may take long: longer with
/// each turn, up to a millisecond.
pub(crate) fn nap(turns: &mut u32) {
    *turns += 1;
    if CHECKED || *turns < 64 {
        yield_now();
    } else {
        std::thread::sleep(std::time::Duration::from_micros(u64::from(*turns).min(1_000)));
    }
}

/// A short wait in a loop that another thread, which is probably running, will end.
pub(crate) fn relax(spins: &mut u32) {
    *spins += 1;
    if CHECKED || *spins > 32 { yield_now() } else { std::hint::spin_loop() }
}
