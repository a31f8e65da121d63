//! The only file of this crate that names std, parking_lot or loom primitives, so that
//! one build flag, `--cfg lars_loom`, puts the model checker underneath, and another, `--cfg
//! lars_shuttle`, the primitives of the scheduler's own shuttles.
#![allow(clippy::disallowed_methods)]

#[cfg(not(lars_shuttle))]
use std::time::Instant;

#[cfg(lars_shuttle)]
use lars_scheduler::shuttle_sync as below;
pub(crate) use std::sync::{Arc, Weak};

#[cfg(lars_loom)]
pub(crate) use self::model::*;
#[cfg(not(lars_loom))]
pub(crate) use self::real::*;

#[cfg(lars_shuttle)]
pub(crate) use self::below::{real_now, thread, thread_local};
#[cfg(lars_shuttle)]
pub(crate) use shuttle::thread::LocalKey;
#[cfg(not(lars_shuttle))]
pub(crate) use std::{thread, thread::LocalKey, thread_local};

/// Counts and flags that no loom model looks into.
pub(crate) mod plain {
    /// For what the whole process shares, and models on several threads of the system as well.
    pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;

    #[cfg(lars_shuttle)]
    pub(crate) use super::below::{AtomicBool, AtomicU8, AtomicU64};
    #[cfg(not(lars_shuttle))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
}

#[cfg(not(lars_loom))]
mod real {
    use std::mem::MaybeUninit;
    use std::time::Instant;

    #[cfg(lars_shuttle)]
    use super::below;
    #[cfg(not(lars_shuttle))]
    use parking_lot as below;

    #[cfg(lars_shuttle)]
    pub(crate) use below::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use below::{Mutex, MutexGuard};
    #[cfg(not(lars_shuttle))]
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// A condition variable whose waits take and give back the guard, as the model's do.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(below::Condvar);

    impl Condvar {
        /// Waits to be notified, until `deadline` at most (`None`: forever).
        pub(crate) fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            match deadline {
                None => self.0.wait(&mut guard),
                Some(deadline) => drop(self.0.wait_until(&mut guard, deadline)),
            }
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// `std`'s cell behind the interface of loom's, so that the model sees every access.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    pub(crate) use std::alloc::{alloc, dealloc};

    /// Makes a cell of memory, with nothing in it. There is nothing to write.
    ///
    /// # Safety
    ///
    /// The memory can be written, and nobody else has it.
    pub(crate) unsafe fn write_uninit<T>(cell: *mut UnsafeCell<MaybeUninit<T>>) {
        debug_assert!(!cell.is_null() && cell.is_aligned(), "{cell:p} is no cell's address");
    }

    /// Lets a model fail if another thread may still look at these.
    pub(crate) fn nobody_looks_at<T>(_: &mut AtomicPtr<T>, _: &mut AtomicUsize) {}

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer for writing.
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(lars_loom)]
mod model {
    use std::mem::MaybeUninit;

    pub(crate) use lars_scheduler::loom_sync::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, UnsafeCell, fence,
    };
    pub(crate) use loom::alloc::{alloc, dealloc};
    pub(crate) use loom::sync::atomic::AtomicU8;

    /// Makes a cell of memory, with nothing in it, that the model knows of.
    ///
    /// # Safety
    ///
    /// The memory can be written, and nobody else has it.
    pub(crate) unsafe fn write_uninit<T>(cell: *mut UnsafeCell<MaybeUninit<T>>) {
        debug_assert!(!cell.is_null() && cell.is_aligned(), "{cell:p} is no cell's address");
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

/// Whether a model checker looks at every step, so that sizes should be small.
pub(crate) const CHECKED: bool = cfg!(any(lars_loom, lars_shuttle));

/// The monotonic time, for waits with a limit.
#[cfg(not(lars_shuttle))]
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// Lets another thread run, which is in the middle of something that this one waits for.
pub(crate) fn yield_now() {
    #[cfg(lars_loom)]
    loom::thread::yield_now();
    #[cfg(not(lars_loom))]
    thread::yield_now();
}

/// To be called when a worker goes round once more, perhaps because of a sender that is halfway. A
/// checker that schedules by strict priority might never let that sender run. An operating system
/// does so by itself.
#[inline(always)]
pub(crate) fn round_again() {
    #[cfg(lars_shuttle)]
    yield_now();
}

/// A short wait in a loop that another thread, which is probably running, will end.
pub(crate) fn relax(spins: &mut u32) {
    *spins += 1;
    if CHECKED || *spins > 32 { yield_now() } else { std::hint::spin_loop() }
}
