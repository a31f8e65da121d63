//! Ticks: the grid that deadlines are rounded up to. Pure arithmetic on nanoseconds.

use std::time::Duration;

use crate::base::error::ConfigError;

/// The largest instant a clock of this crate shows, in nanoseconds since its origin (584 years).
pub(crate) const LAST_INSTANT: u64 = u64::MAX - 2;

pub(crate) use lars_base::rate::{NEVER, nanos};

/// The tick: a length in nanoseconds, and the rounding between instants and tick numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick {
    nanos: u64,
    /// 2^(64 + `shift`) divided by that, rounded up.
    reciprocal: u64,
    shift: u32,
    /// The multiplication serves only instants before this one.
    limit: u64,
}

impl Tick {
    /// The shortest tick; virtual time uses it to fire at exact deadlines.
    pub(crate) const MIN: Duration = Duration::from_nanos(1);
    /// The longest tick. Longer ones would only hide a unit mistaken by the caller.
    pub(crate) const MAX: Duration = Duration::from_secs(3600);

    pub(crate) fn new(length: Duration) -> Result<Self, ConfigError> {
        if length < Self::MIN || length > Self::MAX {
            return Err(ConfigError::TickDuration {
                given: length,
                min: Self::MIN,
                max: Self::MAX,
            });
        }
        let nanos = nanos(length);
        if nanos == 1 {
            return Ok(Self { nanos, reciprocal: 0, shift: 0, limit: 0 });
        }
        let shift = (nanos - 1).ilog2();
        let reciprocal = (1_u128 << (64 + shift)).div_ceil(u128::from(nanos));
        let reciprocal = u64::try_from(reciprocal).expect("nanos is more than 2^shift");
        Ok(Self { nanos, reciprocal, shift, limit: (1 << 63) - nanos })
    }

    pub(crate) fn nanos(self) -> u64 {
        self.nanos
    }

    /// The first tick that is not before `deadline`: a task fires here, so it is never early.
    #[inline]
    pub(crate) fn at_or_after(self, deadline: u64) -> u64 {
        if deadline < self.limit {
            self.divide(deadline + (self.nanos - 1))
        } else {
            self.divide_far(deadline, u64::div_ceil)
        }
    }

    /// The last tick that `now` has reached.
    #[inline]
    pub(crate) fn reached_by(self, now: u64) -> u64 {
        if now < self.limit {
            self.divide(now)
        } else {
            self.divide_far(now, |now, nanos| now / nanos)
        }
    }

    /// The quotient of a value below 2^63, by a multiplication: a division takes several
    /// nanoseconds of each call that schedules something.
    ///
    /// T. Granlund and P. L. Montgomery, *Division by Invariant Integers using Multiplication*
    /// (PLDI 1994), theorem 4.2: with 2^s < n <= 2^(s + 1) and r = 2^(64 + s) / n rounded up, r * n
    /// is more than 2^(64 + s) by less than n, and so by at most 2^(s + 1). Then v * r / 2^(64 + s)
    /// rounded down is v / n rounded down for all v up to 2^63.
    #[inline]
    fn divide(self, value: u64) -> u64 {
        let product = u128::from(value) * u128::from(self.reciprocal);
        (product >> 64) as u64 >> self.shift
    }

    #[cold]
    fn divide_far(self, value: u64, divide: fn(u64, u64) -> u64) -> u64 {
        if self.nanos == 1 { value } else { divide(value, self.nanos) }
    }

    /// The instant at which tick number `tick` begins.
    #[inline]
    pub(crate) fn start_of(self, tick: u64) -> u64 {
        tick.saturating_mul(self.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_rounded_up_and_an_instant_down() {
        let tick = Tick::new(Duration::from_nanos(10)).unwrap();
        assert_eq!(tick.at_or_after(0), 0);
        assert_eq!(tick.at_or_after(1), 1);
        assert_eq!(tick.at_or_after(10), 1);
        assert_eq!(tick.at_or_after(11), 2);
        assert_eq!(tick.reached_by(9), 0);
        assert_eq!(tick.reached_by(10), 1);
    }

    #[test]
    fn rounding_never_overflows_at_the_end_of_the_range() {
        for length in [1, 3, 1_000_000, 3_600_000_000_000] {
            let tick = Tick::new(Duration::from_nanos(length)).unwrap();
            let last = tick.at_or_after(NEVER);
            assert!(tick.start_of(last) == NEVER);
            assert!(tick.reached_by(LAST_INSTANT) < last || length == 1 && last == NEVER);
        }
    }

    #[test]
    fn dividing_by_multiplication_is_exact() {
        let lengths = [1, 2, 3, 7, 10, 999, 1_000, 1_000_000, 999_999_999, 3_600_000_000_000];
        for nanos in lengths.into_iter().chain((0..41).map(|bit| 1 << bit)) {
            let tick = Tick::new(Duration::from_nanos(nanos)).unwrap();
            let (last, half) = (u64::MAX / nanos * nanos, 1 << 63);
            let near =
                [0, nanos, 7 * nanos, half / nanos * nanos, half - nanos, half, last, u64::MAX];
            let mut random = fastrand::Rng::with_seed(nanos);
            let values = near
                .into_iter()
                .flat_map(|at| [at.saturating_sub(1), at, at.saturating_add(1), random.u64(..=at)]);
            for value in values {
                assert_eq!(tick.reached_by(value), value / nanos, "{value}, {nanos}");
                assert_eq!(tick.at_or_after(value), value.div_ceil(nanos), "{value}, {nanos}");
            }
        }
    }

    #[test]
    fn delays_beyond_the_range_saturate() {
        assert_eq!(nanos(Duration::MAX), NEVER);
        assert_eq!(nanos(Duration::from_nanos(7)), 7);
        assert_eq!(
            nanos(Duration::from_secs(u64::MAX / 1_000_000_000)),
            u64::MAX / 1_000_000_000 * 1_000_000_000
        );
    }

    #[test]
    fn a_tick_out_of_range_names_the_value_and_the_limits() {
        let zero = Tick::new(Duration::ZERO).unwrap_err().to_string();
        assert_eq!(zero, "tick_duration is 0ns, but it must be between 1ns and 3600s");
        assert!(Tick::new(Duration::from_secs(3601)).is_err());
    }
}
