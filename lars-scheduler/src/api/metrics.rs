//! The snapshot of a scheduler's counts.

use std::time::Duration;

use crate::engine::shared::Live;
use crate::sync::Ordering;
use lars_base::durations::Durations;

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
    /// Schedule calls that were refused: after a stop, over `max_pending`, with a period of zero,
    /// with another option that no series can have, or by
    /// [`Backpressure::Refuse`](crate::Backpressure::Refuse).
    pub refused: u64,
    /// How often a call waited, because the timer thread was late and the call's thread had used up
    /// its share ([`Backpressure::Wait`](crate::Backpressure::Wait)). [`Handle::waits`] has whose
    /// calls these were.
    ///
    /// [`Handle::waits`]: crate::Handle::waits
    pub backpressure_waits: u64,
    /// For how long those calls waited, in all.
    pub backpressure_waited: Duration,
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
    /// ([`PoolBuilder::queue`](crate::executor::PoolBuilder::queue)). Those that wait now are
    /// `pending`.
    pub held_for_pool: u64,
    /// How often the timer thread woke up.
    pub wake_ups: u64,
    /// How often the timer thread continued after a panic of its own.
    pub restarts: u64,
    /// Bytes that the scheduler holds for timers, in use or to be reused.
    pub timer_memory: usize,
    /// How long after their deadlines tasks began to run: on the timer thread, on a pool, or on
    /// another executor.
    ///
    /// It is never less than the task itself would have measured, with one exception. As long as
    /// tasks are fast, the clock is read only for every 32nd of them. So the first slow one may be
    /// missing from the lateness of up to 31 tasks behind it on the same thread.
    pub lateness: Durations,
    /// Tasks on a pool.
    pub pool: PoolMetrics,
}

/// The pool to which a scheduler's tasks go: its own, unless it was built with another
/// [`Pool`](crate::Pool).
///
/// Threads, and tasks that wait or run, are those of the whole pool, even if others use it too. The
/// durations are those of this scheduler's tasks.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::{sync::mpsc, time::Duration};
///
/// let scheduler = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build()?;
/// let (sender, started) = mpsc::channel();
/// let (release, held) = mpsc::channel::<()>();
/// scheduler.schedule_once(Duration::ZERO, move || {
///     sender.send(()).unwrap();
///     let _ = held.recv();
/// })?;
/// started.recv()?;
/// let pool = scheduler.metrics().pool;
/// assert_eq!((pool.threads, pool.running, pool.queued), (1, 1, 0));
/// drop(release);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// How many threads the pool has, or will have once it is used.
    pub threads: usize,
    /// Tasks that run: the number of busy threads.
    pub running: usize,
    /// Tasks that wait for a thread.
    pub queued: usize,
    /// From the hand-over to the start of the run: how long tasks waited for a thread. Tasks on
    /// other executors are among them.
    ///
    /// Recorded when the clock is read next, after the run.
    pub queue_time: Durations,
    /// How long tasks ran, on this pool or another executor. The sum of an interval, divided by
    /// its length, is how many threads were busy.
    ///
    /// Recorded after the run. As long as tasks are fast, a thread of a pool reads the clock only
    /// for every 32nd of them, and each counts as having taken an equal part of the time. The sum
    /// is exact.
    pub run_time: Durations,
}

impl Metrics {
    pub(crate) fn of(live: &Live) -> Self {
        let (tally, counts) = (live.tally(), &live.counts);
        let runs = &live.reporter.runs;
        let held_back = live.pace.waits.total();
        let on_executors = runs.all().map(|runs| &runs.lateness);
        // Relaxed, all of them: statistics.
        Self {
            scheduled: tally.scheduled,
            fired: tally.fired,
            cancelled: tally.cancelled,
            handed_back: tally.handed_back,
            pending: tally.pending(),
            refused: tally.refused + live.refused_early.load(Ordering::Relaxed),
            backpressure_waits: held_back.waits,
            backpressure_waited: Duration::from_nanos(held_back.waited),
            panicked: live.reporter.panics(),
            rejected_by_executor: live.reporter.rejected(),
            abandoned_by_executor: live.reporter.abandoned(),
            slow_tasks: live.reporter.slow.count.load(Ordering::Relaxed),
            pool_stalls: live.reporter.stalls(),
            held_for_pool: counts.held_for_pool.load(Ordering::Relaxed),
            wake_ups: counts.wake_ups.load(Ordering::Relaxed),
            restarts: counts.restarts.load(Ordering::Relaxed),
            timer_memory: live.timer_memory(),
            lateness: Durations::of(on_executors.chain([&counts.lateness])),
            pool: PoolMetrics::of(live),
        }
    }
}

impl PoolMetrics {
    fn of(live: &Live) -> Self {
        let (pool, runs) = (live.pool_of_tasks(), &live.reporter.runs);
        // First those that run: a task that ends meanwhile does not count as one that waits.
        let running = pool.running();
        Self {
            threads: pool.threads(),
            running,
            queued: pool.unfinished().saturating_sub(running),
            queue_time: Durations::of(runs.all().map(|runs| &runs.waits)),
            run_time: Durations::of(runs.all().map(|runs| &runs.took)),
        }
    }
}
