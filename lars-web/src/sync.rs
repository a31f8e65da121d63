//! The primitives, and the one place that reads the clocks.
#![allow(clippy::disallowed_methods)]

use std::time::{Instant, SystemTime};

pub(crate) use parking_lot::{Condvar, Mutex};
pub(crate) use std::sync::Arc;
pub(crate) use tokio::sync::watch;

/// The monotonic time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of day.
pub(crate) fn wall_now() -> SystemTime {
    SystemTime::now()
}
