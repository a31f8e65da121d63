//! How long things took: recorded by one thread, or by many, and read without a lock.

#[cfg(feature = "histogram")]
mod buckets;

#[cfg(feature = "histogram")]
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(feature = "histogram")]
use hdrhistogram::Histogram;

#[cfg(feature = "histogram")]
use self::buckets::Buckets;
use crate::sync::{AtomicU64, Ordering};

/// How long something took: in all, or, with [`since`](Self::since), in an interval.
///
/// # Examples
///
/// ```
/// use lars_base::durations::{Durations, Recorder};
/// use std::time::Duration;
///
/// let waits = Recorder::new();
/// waits.record(6_000, 1);
/// let first = Durations::of([&waits]);
/// assert_eq!((first.count, first.max), (1, Duration::from_micros(6)));
///
/// waits.record(2_000, 1);
/// waits.record(4_000, 1);
/// let second = Durations::of([&waits]).since(&first);
/// assert_eq!((second.count, second.mean), (2, Duration::from_micros(3)));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// The sum of all.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
    /// The mean.
    pub mean: Duration,
    /// All of them in nanoseconds, to within 1 %.
    #[cfg(feature = "histogram")]
    histogram: Histogram<u64>,
}

impl Durations {
    /// Those recorded since an `earlier` snapshot of the same durations. So each reader has
    /// intervals of its own, and nothing is ever reset.
    ///
    /// The maximum of an interval is known to within 1 % with the feature `histogram`. Without it,
    /// it is that of all durations so far, unless the interval has none.
    ///
    /// With a snapshot that is not an earlier one of the same durations, the result has no meaning.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let count = self.count.saturating_sub(earlier.count);
        let sum = self.sum.saturating_sub(earlier.sum);
        #[cfg(feature = "histogram")]
        let histogram = {
            let mut histogram = self.histogram.clone();
            if histogram.subtract(&earlier.histogram).is_err() {
                histogram.reset(); // it is not earlier
            }
            histogram
        };
        let max = match () {
            () if count == 0 => Duration::ZERO,
            // A new maximum is exact.
            () if self.max > earlier.max => self.max,
            #[cfg(feature = "histogram")]
            () => self.max.min(Duration::from_nanos(histogram.max())),
            #[cfg(not(feature = "histogram"))]
            () => self.max,
        };
        Self {
            count,
            sum,
            max,
            mean: mean(sum, count),
            #[cfg(feature = "histogram")]
            histogram,
        }
    }

    /// The duration that a share `quantile` of them does not exceed, from 0 to 1: 0.99 for the 99th
    /// percentile. To within 1 %; zero if there are none.
    #[cfg(feature = "histogram")]
    #[cfg_attr(docsrs, doc(cfg(feature = "histogram")))]
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(quantile)).min(self.max)
    }

    /// What was recorded, shortest first: a duration to within 1 %, and how many of them there are.
    /// For those who compute more than quantiles, or pass them on.
    #[cfg(feature = "histogram")]
    #[cfg_attr(docsrs, doc(cfg(feature = "histogram")))]
    pub fn recorded(&self) -> impl Iterator<Item = (Duration, u64)> {
        let values = self.histogram.iter_recorded();
        values.map(|it| (Duration::from_nanos(it.value_iterated_to()), it.count_at_value()))
    }

    /// What these recorders have, all together.
    pub fn of<'a>(recorders: impl IntoIterator<Item = &'a Recorder>) -> Self {
        let (mut count, mut sum, mut max) = (0, 0_u64, 0);
        #[cfg(feature = "histogram")]
        let mut histogram = Buckets::empty();
        for recorder in recorders {
            // Relaxed, all of them: statistics.
            count += recorder.count.load(Ordering::Relaxed);
            sum = sum.saturating_add(recorder.sum.load(Ordering::Relaxed));
            max = max.max(recorder.max.load(Ordering::Relaxed));
            #[cfg(feature = "histogram")]
            if let Some(buckets) = recorder.buckets.get() {
                buckets.add_to(&mut histogram);
            }
        }
        let sum = Duration::from_nanos(sum);
        Self {
            count,
            sum,
            max: Duration::from_nanos(max),
            mean: mean(sum, count),
            #[cfg(feature = "histogram")]
            histogram,
        }
    }
}

fn mean(sum: Duration, count: u64) -> Duration {
    // (In nanoseconds both fit: the sum was recorded as such.)
    Duration::from_nanos((sum.as_nanos() as u64).checked_div(count).unwrap_or(0))
}

// Without the histogram, which would print its seven thousand counts.
crate::debug_fields!(|it: Durations| count: it.count, max: it.max, mean: it.mean);

/// Where durations are recorded, in nanoseconds.
#[derive(Debug)]
pub struct Recorder {
    count: AtomicU64,
    sum: AtomicU64,
    max: AtomicU64,
    /// Made for the first value: 60 KB, which most threads of most pools never need.
    #[cfg(feature = "histogram")]
    buckets: OnceLock<Buckets>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Nothing has been recorded.
    pub fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
            #[cfg(feature = "histogram")]
            buckets: OnceLock::new(),
        }
    }

    /// Records `times` values of `nanos`. If several threads call this, or one of them
    /// [`record_shared`](Self::record_shared), values are lost.
    #[inline]
    pub fn record(&self, nanos: u64, times: u64) {
        // No read-modify-write: there is one writer. Relaxed, all of them: statistics.
        let add = |count: &AtomicU64, more: u64| {
            count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.count, times);
        add(&self.sum, nanos.wrapping_mul(times));
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.store(nanos, Ordering::Relaxed);
        }
        #[cfg(feature = "histogram")]
        add(self.buckets.get_or_init(Buckets::new).of(nanos), times);
    }

    /// Records `times` values of `nanos`, from any thread.
    pub fn record_shared(&self, nanos: u64, times: u64) {
        // Relaxed, all of them: statistics.
        self.count.fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(nanos.wrapping_mul(times), Ordering::Relaxed);
        self.max.fetch_max(nanos, Ordering::Relaxed);
        #[cfg(feature = "histogram")]
        self.buckets.get_or_init(Buckets::new).of(nanos).fetch_add(times, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    fn of(recorders: &[Recorder]) -> Durations {
        Durations::of(recorders)
    }

    #[test]
    fn what_several_recorders_have_adds_up() {
        let recorders = [Recorder::new(), Recorder::new(), Recorder::new()];
        recorders[0].record(10, 3);
        recorders[1].record_shared(70, 1);
        let all = of(&recorders);
        assert_eq!((all.count, all.sum, all.max), (4, ns(100), ns(70)));
        assert_eq!(all.mean, ns(25));
    }

    #[test]
    fn an_interval_has_what_was_recorded_in_it_and_nothing_else() {
        let recorders = [Recorder::new()];
        recorders[0].record(900, 10);
        let earlier = of(&recorders);
        recorders[0].record(20, 3);
        recorders[0].record(40, 1);
        let interval = of(&recorders).since(&earlier);
        assert_eq!((interval.count, interval.sum, interval.mean), (4, ns(100), ns(25)));
        #[cfg(feature = "histogram")]
        {
            assert_eq!(interval.max, ns(40));
            assert_eq!(interval.recorded().collect::<Vec<_>>(), [(ns(20), 3), (ns(40), 1)]);
            assert_eq!((interval.quantile(0.5), interval.quantile(1.0)), (ns(20), ns(40)));
        }
        let later = of(&recorders);
        let nothing = later.since(&later);
        assert_eq!((nothing.count, nothing.max, nothing.mean), (0, ns(0), ns(0)));
        recorders[0].record(1_000, 1);
        assert_eq!(of(&recorders).since(&later).max, ns(1_000));
    }

    fn ns(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }
}
