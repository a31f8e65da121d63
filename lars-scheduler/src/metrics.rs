//! Counts: who keeps which, and the snapshot that a user sees.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "histogram")]
use hdrhistogram::Histogram;

#[cfg(feature = "histogram")]
use crate::sync::Mutex;
use crate::sync::{AtomicU64, Ordering};

/// What the driver counts. It is the only writer, so it stores and never adds atomically.
#[derive(Debug)]
pub(crate) struct DriverCounts {
    pub(crate) fired: AtomicU64,
    pub(crate) handed_back: AtomicU64,
    pub(crate) wake_ups: AtomicU64,
    pub(crate) restarts: AtomicU64,
    lateness_max: AtomicU64,
    lateness_sum: AtomicU64,
    #[cfg(feature = "histogram")]
    lateness: Mutex<Histogram<u64>>,
}

impl DriverCounts {
    pub(crate) fn new() -> Self {
        Self {
            fired: AtomicU64::new(0),
            handed_back: AtomicU64::new(0),
            wake_ups: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            lateness_max: AtomicU64::new(0),
            lateness_sum: AtomicU64::new(0),
            #[cfg(feature = "histogram")]
            lateness: Mutex::new(
                // Two digits: 1 % steps from a nanosecond to the largest value, in 60 KiB. With its full
                // range from the start: recording never resizes it, and clamps what does not fit.
                Histogram::new_with_max(u64::MAX, 2).expect("two significant digits are in range"),
            ),
        }
    }

    /// Adds to a count. Only the driver calls this.
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        // No read-modify-write: there is one writer. Release: pairs with the loads of a snapshot,
        // which then sees that the timer was scheduled as well.
        count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    }

    /// Records that a task was fired `nanos` after its deadline. Only the driver calls this.
    pub(crate) fn record_fired(&self, nanos: u64) {
        Self::add(&self.fired, 1);
        Self::add(&self.lateness_sum, nanos);
        if nanos > self.lateness_max.load(Ordering::Relaxed) {
            self.lateness_max.store(nanos, Ordering::Relaxed);
        }
        #[cfg(feature = "histogram")]
        self.lateness.lock().saturating_record(nanos);
    }

    pub(crate) fn lateness(&self) -> Lateness {
        let fired = self.fired.load(Ordering::Relaxed);
        Lateness {
            max: Duration::from_nanos(self.lateness_max.load(Ordering::Relaxed)),
            mean: Duration::from_nanos(
                self.lateness_sum.load(Ordering::Relaxed).checked_div(fired).unwrap_or(0),
            ),
            #[cfg(feature = "histogram")]
            histogram: self.lateness.lock().clone(),
        }
    }
}

/// A snapshot of a scheduler's counts.
///
/// Each count is exact. Taken while other threads schedule and cancel, the counts of one snapshot
/// may be a few operations apart from each other; once those threads have returned from their
/// calls they add up:
/// `scheduled == fired + cancelled + handed_back + pending`.
///
/// Each run of a repeat counts as one timer scheduled.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let timer = time.schedule_once(second, || ())?;
/// let _ = time.schedule_once(second, || panic!("contained, and counted"))?;
/// let _ = time.schedule_once(2 * second, || ())?;
/// timer.cancel();
/// time.advance(second);
///
/// let m = time.metrics();
/// assert_eq!((m.scheduled, m.fired, m.cancelled, m.pending), (3, 1, 1, 1));
/// assert_eq!(m.panicked, 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Metrics {
    /// Timers accepted.
    pub scheduled: u64,
    /// Timers that came due and were run, or handed to their executor.
    pub fired: u64,
    /// Timers whose run was prevented by a cancel.
    pub cancelled: u64,
    /// Timers that `stop` handed back.
    pub handed_back: u64,
    /// Timers that wait.
    pub pending: u64,
    /// Schedule calls that were refused: after a stop, over `max_pending`, or with a period of zero.
    pub refused: u64,
    /// Panics contained, in tasks, their destructors and hooks, and executors.
    pub panicked: u64,
    /// Tasks that their executor rejected, and that ran on the scheduler's own pool instead.
    pub rejected_by_executor: u64,
    /// Tasks that their executor took and dropped without running them.
    pub abandoned_by_executor: u64,
    /// How often the timer thread woke up.
    pub wake_ups: u64,
    /// How often the timer thread went on after a panic of its own.
    pub restarts: u64,
    /// Bytes that the scheduler holds for timers, in use or to be used again.
    pub timer_memory: usize,
    /// How late the fired timers were.
    pub lateness: Lateness,
}

/// How long after their deadlines timers were fired.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let tick = Duration::from_millis(10);
/// let time = LightArrayRevolverScheduler::builder().tick_duration(tick).build_virtual()?;
/// let _ = time.schedule_once(Duration::from_millis(14), || ())?;
/// time.advance(Duration::from_secs(1));
/// let lateness = time.metrics().lateness;
/// assert_eq!(lateness.max, Duration::from_millis(6)); // rounded up to the tick
/// assert!(lateness.mean <= lateness.max);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Lateness {
    /// The latest of all.
    pub max: Duration,
    /// The mean.
    pub mean: Duration,
    /// All of them in nanoseconds, to within 1 %.
    #[cfg(feature = "histogram")]
    #[cfg_attr(docsrs, doc(cfg(feature = "histogram")))]
    pub histogram: Histogram<u64>,
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the histogram, which would print its fifteen thousand counts.
        let mut text = f.debug_struct("Lateness");
        text.field("max", &self.max).field("mean", &self.mean).finish_non_exhaustive()
    }
}
