//! The primitives, and the one place that reads the clock.
#![allow(clippy::disallowed_methods)]

use std::time::Instant;

pub(crate) use parking_lot::{Mutex, ReentrantMutex};
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
pub(crate) use std::sync::{Arc, Once};
#[cfg(unix)]
pub(crate) use std::sync::{OnceLock, atomic::AtomicI32};

/// The monotonic time.
pub(crate) fn now() -> Instant {
    Instant::now()
}
