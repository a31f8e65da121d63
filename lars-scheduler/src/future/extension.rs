//! Timeouts and delays as methods of futures.

use std::future::Future;
use std::time::Duration;

use super::after::After;
use super::timeout::Timeout;
use crate::Handle;
use lars_base::time::Instant;

/// Timeouts and delays as methods of futures.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::future::{FutureExt, TimeoutError};
/// use std::future::{pending, ready};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// time.block_on(async {
///     assert_eq!(ready(42).timeout(&time, second).await, Ok(42));
///     assert_eq!(pending::<u32>().timeout(&time, second).await, Err(TimeoutError::Elapsed));
///     assert_eq!(ready(7).after(&time, second).await, Ok(7)); // a second later
/// })?;
/// assert_eq!(time.elapsed(), 2 * second);
/// # Ok(()) }
/// ```
pub trait FutureExt: Future + Sized {
    /// Limits this future to `limit`, counted from this call. See [`Handle::timeout`].
    #[track_caller]
    fn timeout(self, timers: &Handle, limit: Duration) -> Timeout<Self> {
        timers.timeout(limit, self)
    }

    /// Limits this future to the time until `deadline`. See [`Handle::timeout_at`].
    #[track_caller]
    fn timeout_at(self, timers: &Handle, deadline: Instant) -> Timeout<Self> {
        timers.timeout_at(deadline, self)
    }

    /// Starts this future when `delay` has passed, counted from this call. See [`Handle::after`].
    #[track_caller]
    fn after(self, timers: &Handle, delay: Duration) -> After<Self> {
        timers.after(delay, self)
    }
}

impl<F: Future> FutureExt for F {}
