//! An instant of the default scheduler's time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::future::default;
use lars_base::time::Instant as StdInstant;

/// As tokio, for an instant that cannot be expressed: some thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// An instant of the default scheduler's time: std's [`Instant`](std::time::Instant), whose
/// [`now`](Self::now) follows virtual time where that is the default.
///
/// It converts from and to std's with [`From`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::time::{Duration, Instant, sleep};
///
/// let hour = Duration::from_secs(3600);
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// time.block_on(async {
///     let begin = Instant::now();
///     sleep(hour).await; // takes no time
///     assert_eq!(begin.elapsed(), hour);
///     assert_eq!(Instant::now().into_std(), time.now());
/// })?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(StdInstant);

impl Instant {
    /// Now, by the default scheduler's clock. It does not start the scheduler.
    ///
    /// On `wasm32-unknown-unknown` it is the host's, and stands still without one.
    pub fn now() -> Self {
        Self(default::now())
    }

    /// std's instant as one of these.
    pub fn from_std(std: StdInstant) -> Self {
        Self(std)
    }

    /// This instant as std's.
    pub fn into_std(self) -> StdInstant {
        self.0
    }

    /// In some thirty years.
    pub(super) fn far_future() -> Self {
        Self::now() + FAR
    }

    /// The time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from `earlier` to this instant, or `None` if `earlier` is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// The time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from this instant to now, or zero if this is later.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// The instant that is later by `duration`; `None` if the platform cannot express it.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// The instant that is earlier by `duration`; `None` if the platform cannot express it.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

impl From<StdInstant> for Instant {
    fn from(std: StdInstant) -> Self {
        Self(std)
    }
}

impl From<Instant> for StdInstant {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

/// Panics if the platform cannot express the result, as std's does.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

/// Panics if the platform cannot express the result, as std's does.
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

/// Zero if the other is later.
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Panics if the platform cannot express the result, as std's does.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

/// Panics if the platform cannot express the result, as std's does.
impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
