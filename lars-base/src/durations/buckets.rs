//! The counts of a histogram that threads write and any thread may read, without a lock.
//!
//! The buckets are those of an [`Histogram`] with two significant digits (Gil Tene's HdrHistogram):
//! values below 256 have a bucket each, and each further power of two has 128. So a snapshot counts
//! every value in the bucket that it would be in if it had been recorded there.

use hdrhistogram::Histogram;

use crate::sync::{AtomicU64, Ordering};

/// Two digits need 200 buckets for each power of ten: 256, of which a power of two has the upper
/// half.
const HALF: usize = 128;
/// How far the largest value is shifted to lie in that half.
const LAST_SHIFT: usize = 56;

#[derive(Debug)]
pub(super) struct Buckets {
    counts: Box<[AtomicU64]>,
}

#[inline]
fn shift_of(value: u64) -> u32 {
    (LAST_SHIFT as u32).saturating_sub(value.leading_zeros())
}

#[inline]
fn bucket_of(value: u64) -> usize {
    let shift = shift_of(value);
    shift as usize * HALF + (value >> shift) as usize
}

/// The least value of a bucket.
fn least_of(bucket: usize) -> u64 {
    let shift = (bucket / HALF).saturating_sub(1);
    ((bucket - shift * HALF) as u64) << shift
}

impl Buckets {
    pub(super) fn new() -> Self {
        Self { counts: (0..=bucket_of(u64::MAX)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The count of a value's bucket.
    #[inline]
    pub(super) fn of(&self, value: u64) -> &AtomicU64 {
        &self.counts[bucket_of(value)]
    }

    /// A histogram that has room for all buckets.
    pub(super) fn empty() -> Histogram<u64> {
        Histogram::new_with_max(u64::MAX, 2).expect("two significant digits are in range")
    }

    /// Adds what has been recorded, and perhaps some of what is being recorded now.
    pub(super) fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (bucket, count) in self.counts.iter().enumerate() {
            // Relaxed: a statistic.
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                histogram.saturating_record_n(least_of(bucket), count);
            }
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;
    use hdrhistogram::iterators::IterationValue;

    #[test]
    fn a_snapshot_is_what_a_histogram_would_have_recorded_itself() {
        let (ours, mut theirs) = (Buckets::new(), Histogram::new_with_max(u64::MAX, 2).unwrap());
        let powers = (0..64).map(|bit| 1_u64 << bit);
        let near = |power: u64| [power - 1, power, power + 1, power / 3 * 4, power / 7 * 11];
        for value in powers.flat_map(near).chain([0, 255, 256, 257, 511, 512, u64::MAX - 2]) {
            // Relaxed: there is one thread.
            ours.of(value).fetch_add(1, Ordering::Relaxed);
            theirs.saturating_record(value);
        }
        let counts = ours;
        let mut ours = Buckets::empty();
        counts.add_to(&mut ours);
        let all = |of: &Histogram<u64>| {
            let bucket = |bucket: IterationValue<u64>| {
                (bucket.value_iterated_to(), bucket.count_since_last_iteration())
            };
            of.iter_recorded().map(bucket).collect::<Vec<_>>()
        };
        assert_eq!(all(&ours), all(&theirs));
        assert_eq!(
            (ours.len(), ours.min(), ours.max()),
            (theirs.len(), theirs.min(), theirs.max())
        );
    }

    #[test]
    fn the_buckets_follow_each_other_without_a_gap() {
        for bucket in 1..=bucket_of(u64::MAX) {
            let least = least_of(bucket);
            assert_eq!((bucket_of(least - 1), bucket_of(least)), (bucket - 1, bucket));
        }
    }
}
