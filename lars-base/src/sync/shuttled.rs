//! The primitives on shuttle: threads of a model take turns on one thread of the system, and each
//! step on one of these may let another go on.
//!
//! shuttle knows no weak memory: all orderings are as strong as `SeqCst` here; loom checks
//! orderings. Types of std and crossbeam stay if no call of theirs has to be interrupted halfway:
//! reference counts and the deques of the pools. A call of those is one step.
#![allow(missing_docs)]

mod check;
mod condvar;
mod ledger;
mod park;
mod time;

use std::cell::Cell;
use std::time::Instant;

pub use std::sync::Arc;

pub use shuttle::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use shuttle::sync::mpsc;
pub use shuttle::thread_local;

/// A data race on one is not noticed here, but its damage is.
pub use super::cell::UnsafeCell;
pub use super::unpoisoned::{Mutex, MutexGuard};
pub use check::check;
pub use condvar::Condvar;
pub use ledger::{Ledger, Token};
pub use park::{Parker, Unparker};
pub use time::advance;

pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, ThreadId, current, spawn, yield_now};

    /// Lets the others go on: time is the model's to move.
    pub fn sleep(_duration: std::time::Duration) {
        yield_now();
    }
}

pub fn real_now() -> Instant {
    time::instant()
}

/// A new run of a model begins, perhaps after one that failed.
fn begin() {
    RUN.set(RUN.get() + 1);
    time::begin();
}

std::thread_local! {
    /// How many runs have begun on this thread of the system.
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// Which run of a model this is, for what has to begin anew with it.
pub fn number_of_run() -> u64 {
    RUN.get()
}
