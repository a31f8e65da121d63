//! Latenesses by size: as many as there are fit into a fixed space.
//!
//! Buckets are linear within a power of two, after Gil Tene's HdrHistogram. Its Rust crate keeps
//! counts that one thread writes; here whichever thread runs a callback writes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Each power of two has this many buckets, as a power of two: a value is known to 3 %.
const FINE: u32 = 5;

/// Values of at most this many bits are told apart, in nanoseconds a little over an hour.
const BITS: u32 = 42;

/// Buckets of either sign.
const BUCKETS: usize = ((BITS - FINE + 1) << FINE) as usize;

/// Counts of nanoseconds, early ones below zero. Every access is relaxed: a count guards nothing,
/// and it is read when everything has been counted.
#[derive(Debug)]
pub(crate) struct Histogram {
    late: Box<[AtomicU64]>,
    early: Box<[AtomicU64]>,
    least: AtomicI64,
    most: AtomicI64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        let buckets = || (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self {
            late: buckets(),
            early: buckets(),
            least: AtomicI64::new(i64::MAX),
            most: AtomicI64::new(i64::MIN),
        }
    }

    /// Counts one value.
    #[inline]
    pub(crate) fn record(&self, nanos: i64) {
        let side = if nanos < 0 { &self.early } else { &self.late };
        side[bucket(nanos.unsigned_abs())].fetch_add(1, Ordering::Relaxed);
        // Extremes are rare: a load, and mostly no exchange.
        if nanos > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(nanos, Ordering::Relaxed);
        }
        if nanos < self.least.load(Ordering::Relaxed) {
            self.least.fetch_min(nanos, Ordering::Relaxed);
        }
    }

    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        sum(&self.early) + sum(&self.late)
    }

    /// How many were below zero.
    pub(crate) fn early(&self) -> u64 {
        sum(&self.early)
    }

    /// The least value.
    pub(crate) fn least(&self) -> i64 {
        self.least.load(Ordering::Relaxed)
    }

    /// The value that `percentile` percent do not exceed; the greatest is exact. `None` if there
    /// is none.
    pub(crate) fn percentile(&self, percentile: f64) -> Option<i64> {
        let (count, most) = (self.count(), self.most.load(Ordering::Relaxed));
        let rank = (((percentile / 100.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        if count == 0 || rank == count {
            return (count > 0).then_some(most);
        }
        let early = self.early.iter().enumerate().rev().map(|(at, n)| (-(value(at) as i64), n));
        let late = self.late.iter().enumerate().map(|(at, n)| (value(at) as i64, n));
        let mut seen = 0;
        early.chain(late).find_map(|(value, n)| {
            seen += n.load(Ordering::Relaxed);
            (seen >= rank).then_some(value.clamp(self.least(), most))
        })
    }
}

fn sum(side: &[AtomicU64]) -> u64 {
    side.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

/// Where a value is counted.
#[inline]
fn bucket(value: u64) -> usize {
    let value = value.min((1 << BITS) - 1);
    // Below 2 to the FINE each value has a bucket of its own.
    let shift = (u64::BITS - FINE - 1).saturating_sub(value.leading_zeros());
    ((u64::from(shift) << FINE) + (value >> shift)) as usize
}

/// The middle of what a bucket counts.
fn value(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> FINE).saturating_sub(1);
    let low = (bucket - (shift << FINE)) << shift;
    low + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_in_a_bucket_that_is_within_three_percent_of_it() {
        let powers = (0..BITS).map(|bits| 1_u64 << bits);
        for exact in powers.flat_map(|power| [power - 1, power, power + 1, power + power / 3]) {
            let exact = exact.min((1 << BITS) - 1);
            assert!(bucket(exact) < BUCKETS, "{exact}");
            let told = value(bucket(exact));
            assert!(told.abs_diff(exact) * 32 <= exact, "{exact} is told as {told}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_count_early_values_before_late_ones() {
        let histogram = Histogram::new();
        assert_eq!(histogram.percentile(50.0), None);
        for nanos in [-20, 10, -3, 30] {
            histogram.record(nanos);
        }
        assert_eq!((histogram.count(), histogram.early(), histogram.least()), (4, 2, -20));
        let told = [1.0, 25.0, 50.0, 75.0, 100.0].map(|at| histogram.percentile(at));
        assert_eq!(told, [-20, -20, -3, 10, 30].map(Some));
    }

    #[test]
    fn the_greatest_value_is_exact() {
        let histogram = Histogram::new();
        histogram.record(1_000_003);
        histogram.record(5);
        assert_eq!(histogram.percentile(100.0), Some(1_000_003));
    }
}
