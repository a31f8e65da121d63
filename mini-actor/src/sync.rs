//! The only file of this crate that names std, parking_lot or loom primitives, so that one build flag,
//! `--cfg lars_loom`, puts the model checker underneath the mailbox.
#![allow(clippy::disallowed_methods)]

use std::time::Instant;

pub(crate) use std::sync::Arc;

pub(crate) use parking_lot::{Condvar, Mutex};

#[cfg(not(lars_loom))]
pub(crate) use self::real::UnsafeCell;
#[cfg(lars_loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};
#[cfg(not(lars_loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Counts and flags that no model looks into.
pub(crate) mod plain {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
}

#[cfg(not(lars_loom))]
mod real {
    /// `std`'s cell behind the interface of loom's, so that the model sees every access.
    #[derive(Debug)]
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
}

/// The monotonic time, for waits with a limit.
pub(crate) fn real_now() -> Instant {
    Instant::now()
}

/// Lets another thread run, which is in the middle of something that this one waits for.
pub(crate) fn yield_now() {
    #[cfg(lars_loom)]
    loom::thread::yield_now();
    #[cfg(not(lars_loom))]
    std::thread::yield_now();
}
