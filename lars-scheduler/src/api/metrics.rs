//! The snapshot of a scheduler's counts.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "histogram")]
use hdrhistogram::Histogram;

use crate::engine::counts::DriverCounts;
use crate::engine::shared::Core;
use crate::sync::Ordering;

/// A snapshot of a scheduler's counts.
///
/// Each count is exact. While other threads schedule and cancel, the counts of one snapshot may be
/// a few operations apart. Once those calls have returned, the counts add up:
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
    /// Timers that expired: their tasks were run, or handed to their executor.
    pub fired: u64,
    /// Timers whose run was prevented by a cancel.
    pub cancelled: u64,
    /// Timers that `stop` handed back.
    pub handed_back: u64,
    /// Timers that wait.
    pub pending: u64,
    /// Schedule calls that were refused: after a stop, over `max_pending`, or with a period of
    /// zero.
    pub refused: u64,
    /// Panics contained, in tasks, their destructors and hooks, and executors.
    pub panicked: u64,
    /// Tasks that their executor rejected, and that ran on the scheduler's own pool instead.
    pub rejected_by_executor: u64,
    /// Tasks that their executor took and dropped without running them.
    pub abandoned_by_executor: u64,
    /// Tasks that ran for longer than the threshold of
    /// [`Builder::slow_inline`](crate::Builder::slow_inline) or
    /// [`Builder::slow_on_pool`](crate::Builder::slow_on_pool). If several ran between two readings
    /// of the clock, they count as one.
    pub slow_tasks: u64,
    /// How often the scheduler's own pool was found to be stalled: each thread had been busy with
    /// one task for more than a second, while other tasks waited. While tasks wait the pool is
    /// looked at once a second; after a stall, which is logged, again ten seconds later.
    pub pool_stalls: u64,
    /// Timers that were due and had to wait for room, because the queue of the pool was full
    /// ([`Builder::pool_queue`](crate::Builder::pool_queue)). Those that wait now are `pending`.
    pub held_for_pool: u64,
    /// How often the timer thread woke up.
    pub wake_ups: u64,
    /// How often the timer thread continued after a panic of its own.
    pub restarts: u64,
    /// Bytes that the scheduler holds for timers, in use or to be reused.
    pub timer_memory: usize,
    /// How late the fired timers were.
    pub lateness: Lateness,
}

/// How long after their deadlines timers were fired: until an inline task began, or until a task
/// was handed to its executor.
///
/// Inline tasks wait for those that are due before them, and this counts as lateness. As long as
/// tasks are fast, the clock is read for every 32nd of them only, so the first slow one may be
/// missing from the lateness of up to 31 tasks behind it.
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

impl Metrics {
    pub(crate) fn of(core: &Core) -> Self {
        let (tally, counts) = (core.tally(), &core.counts);
        // Relaxed, all of them: statistics.
        Self {
            scheduled: tally.scheduled,
            fired: tally.fired,
            cancelled: tally.cancelled,
            handed_back: tally.handed_back,
            pending: tally.pending(),
            refused: tally.refused + core.refused_early.load(Ordering::Relaxed),
            panicked: core.reporter.panics(),
            rejected_by_executor: core.reporter.rejected(),
            abandoned_by_executor: core.reporter.abandoned(),
            slow_tasks: core.reporter.slow.count.load(Ordering::Relaxed),
            pool_stalls: core.reporter.stalls(),
            held_for_pool: counts.held_for_pool.load(Ordering::Relaxed),
            wake_ups: counts.wake_ups.load(Ordering::Relaxed),
            restarts: counts.restarts.load(Ordering::Relaxed),
            timer_memory: core.timer_memory(),
            lateness: Lateness::of(counts),
        }
    }
}

impl Lateness {
    fn of(counts: &DriverCounts) -> Self {
        let fired = counts.fired.load(Ordering::Relaxed);
        let sum = counts.lateness_sum.load(Ordering::Relaxed);
        Self {
            max: Duration::from_nanos(counts.lateness_max.load(Ordering::Relaxed)),
            mean: Duration::from_nanos(sum.checked_div(fired).unwrap_or(0)),
            #[cfg(feature = "histogram")]
            histogram: counts.latenesses.snapshot(),
        }
    }
}
