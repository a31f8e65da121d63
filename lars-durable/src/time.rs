//! Two kinds of time, in microseconds, that cannot be mixed up: the store's clock, which decides
//! what is due, and the local monotonic clock, which decides everything that is an interval.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sync::Arc;

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

    /// `micros` later; saturating, and what never comes stays so.
    pub(crate) fn plus(self, micros: i64) -> Self {
        if self == Self::NEVER { self } else { Self(self.0.saturating_add(micros)) }
    }

    /// How long after `earlier` this is; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// An instant by the local monotonic clock: microseconds since an origin of the process's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mono(pub(crate) i64);

impl Mono {
    /// After everything.
    pub(crate) const NEVER: Self = Self(i64::MAX);

    /// `micros` later, saturating.
    pub(crate) fn plus(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// A duration in microseconds, rounded up, saturating.
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
    Arc::new(|| Timestamp::from_system(wall_clock()).plus(-2))
}

/// The only place that reads the machine's wall clock. Nothing on PostgreSQL may use it: there, the
/// database's clock decides.
fn wall_clock() -> SystemTime {
    let now = SystemTime::now();
    #[cfg(test)]
    let now = crate::failpoint::shifted(now);
    now
}
