//! Instants and the time of day where only the host knows them.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// What a page, or another host, tells of the time.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// The time since an instant of the host's choice. It never goes back.
    pub monotonic: fn() -> Duration,
    /// The time since the beginning of 1970. It may jump, both ways.
    pub since_epoch: fn() -> Duration,
}

static CLOCKS: OnceLock<Clocks> = OnceLock::new();

/// Sets the clocks of this module. The first call wins.
pub fn set_clocks(clocks: Clocks) {
    let _ = CLOCKS.set(clocks);
}

/// The host's time of day.
///
/// # Panics
///
/// If the clocks have not been set.
pub fn time_of_day() -> SystemTime {
    let clocks = CLOCKS.get().expect("no host has told this module the time of day");
    SystemTime::UNIX_EPOCH + (clocks.since_epoch)()
}

/// An instant of the host's monotonic clock, with the methods of std's that are used here.
///
/// Until the clocks have been set, it is always the same instant. Virtual time counts from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// Now, by the host's clock.
    pub fn now() -> Self {
        Self(CLOCKS.get().map_or(Duration::ZERO, |clocks| (clocks.monotonic)()))
    }

    /// The time from this instant to now.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// The time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// The time from `earlier` to this instant, or `None` if `earlier` is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }

    /// The instant that is later by `duration`; `None` if that is beyond a [`Duration`].
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// The instant that is earlier by `duration`; `None` if the host's clock began after that.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

/// Panics if that is beyond a [`Duration`].
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

/// Panics if that is beyond a [`Duration`].
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

/// Panics if the host's clock began after that.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

/// Panics if the host's clock began after that.
impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}
