//! The primitives on shuttle: threads of a model take turns on one thread of the system, and each
//! step on one of these may let another go on.
//!
//! shuttle knows no weak memory: all orderings are as strong as `SeqCst` here; loom checks
//! orderings. Types of std and crossbeam stay if no call of theirs has to be interrupted halfway:
//! reference counts and the deques of the pools. A call of those is one step.
#![allow(missing_docs)]

mod check;
mod ledger;
mod lock;
mod park;
mod time;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Instant;

pub use std::sync::Arc;

pub use shuttle::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use shuttle::sync::mpsc;
pub use shuttle::thread_local;

use super::NO_SLOT;
pub use check::check;
pub use ledger::{Ledger, Token};
pub use lock::{Condvar, Mutex, MutexGuard};
pub use park::{Parker, Unparker};
pub use time::advance;

pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, ThreadId, current, spawn, yield_now};

    /// Lets the others go on: time is the model's to move.
    pub fn sleep(_duration: std::time::Duration) {
        yield_now();
    }
}

/// `std`'s cell behind the interface of loom's. A data race is not noticed here, but its damage is.
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

pub fn real_now() -> Instant {
    time::instant()
}

pub(crate) fn model_fence() {}

pub(crate) fn prepare_fences() {}

pub(crate) fn light_fence() {}

pub(crate) fn heavy_fence() -> bool {
    true
}

pub(crate) fn give_way() {
    thread::yield_now();
}

pub(crate) fn back_off() {
    thread::yield_now();
}

/// A yield and not only a step: where turns go by priorities, the other thread must have one.
pub(crate) fn relax(_spins: u32) {
    thread::yield_now();
}

pub(crate) fn count_begun(_many: usize) -> bool {
    false
}

pub(crate) fn count_ended() {}

std::thread_local! {
    /// The numbers that threads of the running model have. One thread of the system runs all of
    /// them.
    static TAKEN: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

shuttle::thread_local! {
    static SLOT: Slot = Slot::take();
}

struct Slot(usize);

impl Slot {
    fn take() -> Self {
        let number = TAKEN.with_borrow_mut(|taken| {
            let number = (0..NO_SLOT).find(|number| !taken.contains(number)).unwrap_or(NO_SLOT);
            taken.insert(number);
            number
        });
        Self(number)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        TAKEN.with_borrow_mut(|taken| taken.remove(&self.0));
    }
}

/// Like the real one: the smallest number that no other thread of the model has, from its first
/// call to the end of the thread.
pub(crate) fn thread_slot() -> usize {
    SLOT.try_with(|slot| slot.0).unwrap_or(NO_SLOT)
}

// A thread of a model remembers nothing.

pub(crate) fn remembered(_scheduler: u64) -> *const () {
    std::ptr::null()
}

pub(crate) fn remember(_scheduler: u64, _what: *const ()) {}

pub(crate) fn number_scheduler() -> u64 {
    1
}

/// A new run of a model begins, perhaps after one that failed.
fn begin() {
    TAKEN.with_borrow_mut(BTreeSet::clear);
    time::begin();
}
