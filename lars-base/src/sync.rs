//! The primitives: std's, parking_lot's and crossbeam's, or a model checker's. Under Miri std's
//! stand for parking_lot's.
//!
//! Everything that threads share in the crates on top goes through these names. So one build flag,
//! `--cfg lars_loom`, puts the model checker underneath, and another, `--cfg lars_shuttle`, a
//! scheduler that lets threads take turns at random. They are flags of our own and not the usual
//! `loom`, because that one is global and changes other crates in the tree as well.
//!
//! What these flags change is for the tests of the crates on top, and no part of the contract.
#![allow(clippy::disallowed_methods)]

#[cfg(lars_loom)]
pub use self::model::*;
#[cfg(not(any(lars_loom, lars_shuttle)))]
pub use self::real::*;
#[cfg(lars_shuttle)]
pub use self::shuttled::*;

// Not covered by loom models: the pool's threads, and the clock.
#[cfg(not(lars_shuttle))]
pub use self::system::*;

#[cfg(not(lars_loom))]
mod cell;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod lonely;
#[cfg(all(windows, not(any(lars_loom, lars_shuttle))))]
mod parker;
#[cfg(lars_shuttle)]
mod shuttled;
#[cfg(miri)]
mod strict;
#[cfg(any(lars_shuttle, miri))]
#[allow(missing_docs)]
mod unpoisoned;

/// Whether a checker looks at every step, so that numbers should be small.
pub const CHECKED: bool = cfg!(any(lars_loom, lars_shuttle));

/// Lets another thread run.
#[inline]
pub fn yield_now() {
    #[cfg(lars_loom)]
    loom::thread::yield_now();
    #[cfg(not(lars_loom))]
    thread::yield_now();
}

#[cfg(not(lars_shuttle))]
mod system {
    use crate::time::Instant;

    pub use std::{thread, thread_local};

    /// The monotonic time now, for waits that have nothing to do with a scheduler's clock.
    #[inline]
    pub fn real_now() -> Instant {
        Instant::now()
    }
}

#[cfg(not(any(lars_loom, lars_shuttle)))]
mod real {
    pub use std::sync::Arc;
    pub use std::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub use super::cell::UnsafeCell;
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub use super::lonely::{Parker, Unparker};
    #[cfg(windows)]
    pub use super::parker::{Parker, Unparker};
    #[cfg(not(any(windows, all(target_family = "wasm", target_os = "unknown"))))]
    pub use crossbeam_utils::sync::{Parker, Unparker};
    #[cfg(not(miri))]
    pub use parking_lot::{Condvar, Mutex, MutexGuard};

    #[cfg(miri)]
    pub use super::strict::Condvar;
    #[cfg(miri)]
    pub use super::unpoisoned::{Mutex, MutexGuard};
}

#[cfg(lars_loom)]
#[allow(missing_docs)]
mod model {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use loom::sync::{Arc, MutexGuard};
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
    pub struct Parker(Unparker);

    #[derive(Debug, Clone)]
    pub struct Unparker(std::sync::Arc<loom::sync::Notify>);

    impl Default for Parker {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Parker {
        pub fn new() -> Self {
            Self(Unparker(std::sync::Arc::new(loom::sync::Notify::new())))
        }

        pub fn unparker(&self) -> &Unparker {
            &self.0
        }

        pub fn park(&self) {
            self.0.0.wait();
        }

        pub fn park_deadline(&self, _deadline: Instant) {
            self.park();
        }
    }

    impl Unparker {
        pub fn unpark(&self) {
            self.0.notify();
        }
    }
}
