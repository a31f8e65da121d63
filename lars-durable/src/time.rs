//! Two kinds of instants that cannot be mixed up: of the store's clock, which decides what is due,
//! and of the local monotonic clock, which decides everything that is an interval. Between two of a
//! kind is a span. All count microseconds, because that is what PostgreSQL keeps.
//!
//! Nothing here overflows: what is beyond the range stays at its end.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sync::Arc;

/// A span of time in microseconds. Less than zero means backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Micros(pub(crate) i64);

impl Micros {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const MILLISECOND: Self = Self(1_000);
    pub(crate) const SECOND: Self = Self(1_000_000);
    pub(crate) const DAY: Self = Self(86_400 * 1_000_000);

    /// So many of it, where a constant is written.
    pub(crate) const fn times(self, count: i64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// Zero for what is backwards.
    pub(crate) fn to_duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<Duration> for Micros {
    /// Rounded up, so that nothing is early.
    fn from(duration: Duration) -> Self {
        Self(micros(duration))
    }
}

impl Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Micros {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Micros {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Mul<i64> for Micros {
    type Output = Self;

    fn mul(self, count: i64) -> Self {
        self.times(count)
    }
}

impl Div<i64> for Micros {
    type Output = Self;

    fn div(self, parts: i64) -> Self {
        Self(self.0 / parts)
    }
}

/// An instant by the store's clock: microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Timestamp(pub(crate) i64);

impl Timestamp {
    /// Before everything.
    pub(crate) const MIN: Self = Self(i64::MIN);
    /// What is beyond the store's range. It never comes.
    pub(crate) const NEVER: Self = Self(i64::MAX);

    /// `system`, rounded up to the microsecond so that nothing is early.
    pub(crate) fn from_system(system: SystemTime) -> Self {
        match system.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            // Rounded towards the epoch, which is up.
            Err(before) => Self(-i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX)),
        }
    }

    /// `None` for what lies beyond what a [`SystemTime`] can express.
    pub(crate) fn to_system(self) -> Option<SystemTime> {
        let distance = Duration::from_micros(self.0.unsigned_abs());
        if self == Self::NEVER {
            None
        } else if self.0 >= 0 {
            UNIX_EPOCH.checked_add(distance)
        } else {
            UNIX_EPOCH.checked_sub(distance)
        }
    }

    /// How long after `earlier` this is; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Micros> for Timestamp {
    type Output = Self;

    /// What never comes stays so.
    fn add(self, span: Micros) -> Self {
        if self == Self::NEVER { self } else { Self(self.0.saturating_add(span.0)) }
    }
}

impl Sub<Micros> for Timestamp {
    type Output = Self;

    fn sub(self, span: Micros) -> Self {
        self + -span
    }
}

impl Sub for Timestamp {
    type Output = Micros;

    fn sub(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

/// An instant by the local monotonic clock: microseconds since an origin of the process's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mono(pub(crate) i64);

impl Mono {
    /// Before everything.
    pub(crate) const MIN: Self = Self(i64::MIN);
    /// After everything.
    pub(crate) const NEVER: Self = Self(i64::MAX);
}

impl Add<Micros> for Mono {
    type Output = Self;

    fn add(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Micros> for Mono {
    type Output = Self;

    fn sub(self, span: Micros) -> Self {
        self + -span
    }
}

impl Sub for Mono {
    type Output = Micros;

    fn sub(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

/// The number of microseconds, rounded up, as rules are stored with it.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}

/// The local monotonic clock.
#[derive(Clone)]
pub(crate) enum MonoClock {
    Machine {
        origin: Duration,
    },
    /// Time that a test moves.
    #[cfg(feature = "test-kit")]
    Virtual(Arc<dyn Fn() -> Mono + Send + Sync>),
}

impl MonoClock {
    pub(crate) fn start() -> Self {
        Self::Machine { origin: monotonic() }
    }

    pub(crate) fn now(&self) -> Mono {
        match self {
            Self::Machine { origin } => Mono(micros(monotonic().saturating_sub(*origin))),
            #[cfg(feature = "test-kit")]
            Self::Virtual(clock) => clock(),
        }
    }
}

/// Counts while the machine sleeps as well: a lease must not outlive that.
#[cfg(all(feature = "postgres", target_os = "linux"))]
fn monotonic() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock since 2.6.39");
    time.into()
}

#[cfg(not(all(feature = "postgres", target_os = "linux")))]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
fn monotonic() -> Duration {
    use std::time::Instant;
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let now = Instant::now();
    now.duration_since(*ORIGIN.get_or_init(|| now))
}

/// Where a store in this process takes its time from.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The machine's clock.
pub(crate) fn system_clock() -> Clock {
    // Two microseconds behind: one for the rounding up here, and one for that of the local clock,
    // with which it is compared. Without them a timer was early by half a microsecond, once in a
    // thousand.
    Arc::new(|| Timestamp::from_system(wall_clock()) - Micros(2))
}

/// The only place that reads the machine's wall clock. Nothing on PostgreSQL may use it: there, the
/// database's clock decides.
fn wall_clock() -> SystemTime {
    let now = SystemTime::now();
    #[cfg(test)]
    let now = crate::failpoint::shifted(now);
    now
}
