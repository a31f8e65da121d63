//! Closing: running or dropping the tasks that `stop` hands back.

use std::fmt;
use std::time::Duration;

use crate::api::pending::{PendingTask, StopFuture};
use crate::base::clock::limit_of_wait;
use crate::engine::shared::Live;

/// What `close` does with pending tasks.
///
/// Repeats end with the scheduler, and without another run, unless they are marked with
/// [`Periodic::run_on_close`](crate::Periodic::run_on_close): these run once more.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler, Task};
/// use std::time::Duration;
///
/// let minute = Duration::from_secs(60);
/// let time = LightArrayRevolverScheduler::builder()
///     .close_policy(ClosePolicy::RunMarked)
///     .build_virtual()?;
/// let _ = time.schedule_once(minute, || println!("a timeout: of no use any more"))?;
/// let _ = time.schedule_once(minute, Task::new(|| println!("flushed")).run_on_close())?;
/// let _ = time.schedule_with_fixed_delay(minute, minute, || println!("heartbeat"))?;
/// let report = time.close()?; // prints "flushed"
/// assert_eq!((report.ran, report.dropped, report.repeats_ended), (1, 1, 1));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ClosePolicy {
    /// Runs all pending one-shots and marked repeats, earliest deadline first.
    #[default]
    RunPending,
    /// Runs those marked with [`Task::run_on_close`](crate::Task::run_on_close) or
    /// [`Periodic::run_on_close`](crate::Periodic::run_on_close), and drops the others. As in Akka
    /// and Pekko.
    RunMarked,
    /// Drops all of them.
    RunNone,
}

/// What `close` did.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let hour = Duration::from_secs(3600);
/// let _ = scheduler.schedule_once(hour, || println!("now, and not in an hour"))?;
/// let _ = scheduler.schedule_with_fixed_delay(hour, hour, || println!("never"))?;
/// let report = scheduler.close()?;
/// assert_eq!((report.ran, report.panicked, report.repeats_ended), (1, 0, 1));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Tasks that were run on the closing thread, before their time.
    pub ran: usize,
    /// Those among them that panicked.
    pub panicked: usize,
    /// One-shots dropped unrun, because of the policy.
    pub dropped: usize,
    /// Repeats ended, those that ran once more included.
    pub repeats_ended: usize,
    /// Tasks that had been fired before, and were still queued or running on the scheduler's own
    /// pool when the time was up. The pool goes on with them. (A task on that pool that closes its
    /// own scheduler counts as one of them. Tasks on an executor of your own do not.)
    pub unfinished: usize,
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run on close: {} (panicked: {}), dropped: {}, repeats ended: {}, unfinished: {}",
            self.ran, self.panicked, self.dropped, self.repeats_ended, self.unfinished
        )
    }
}

/// Why `close` could not do its work.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{CloseError, LightArrayRevolverScheduler, Task};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let limit = Duration::from_millis(10);
/// let scheduler = LightArrayRevolverScheduler::builder().shutdown_timeout(limit).build()?;
/// let (release, hold) = mpsc::channel::<()>();
/// let (begun, inside) = mpsc::channel();
/// let blocks = Task::new(move || {
///     begun.send(()).unwrap();
///     let _ = hold.recv(); // on the timer thread, which must not be
/// });
/// let _ = scheduler.schedule_once(Duration::ZERO, blocks.inline())?;
/// let _ = scheduler.schedule_once(Duration::from_secs(60), || println!("later"))?;
/// inside.recv()?;
///
/// let Err(CloseError::Timeout { pending, .. }) = scheduler.close() else { panic!() };
/// drop(release);
/// assert_eq!(pending.wait().len(), 1); // nothing is lost
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// It was called by a task on the timer thread, which would have waited for itself. Nothing was
    /// done: call it from another thread, or call `stop`, which does not wait.
    #[error("close was called on the timer thread, which it has to wait for")]
    OnTimerThread,
    /// The timer thread did not hand the pending tasks over in time, because an inline task
    /// occupies it. The scheduler is stopped; the tasks come with the future.
    #[error("the timer thread did not stop within the shutdown_timeout of {limit:?}")]
    Timeout {
        /// The scheduler's `shutdown_timeout`.
        limit: Duration,
        /// Resolves with the pending tasks when the timer thread gets to it.
        pending: StopFuture,
    },
}

/// Waits for the pending tasks, and deals with them.
pub(crate) fn close(
    live: &Live,
    stopped: StopFuture,
    policy: ClosePolicy,
    limit: Duration,
) -> Result<CloseReport, CloseError> {
    let deadline = limit_of_wait(limit);
    let pending = stopped
        .wait_timeout(limit)
        .map_err(|pending| CloseError::Timeout { limit, pending: pending.left() })?;
    let mut report = CloseReport::default();
    for task in pending {
        settle(task, policy, &mut report);
    }
    // Tasks that had been fired before get the rest of the time to finish.
    live.pool.wait_until(deadline);
    report.unfinished = live.pool.unfinished();
    Ok(report)
}

fn settle(task: PendingTask, policy: ClosePolicy, report: &mut CloseReport) {
    let run = match policy {
        ClosePolicy::RunPending => true,
        ClosePolicy::RunMarked => task.runs_on_close(),
        ClosePolicy::RunNone => false,
    };
    let repeats = task.is_repeat();
    report.repeats_ended += usize::from(repeats);
    // An ordinary repeat just ends.
    if run && (!repeats || task.runs_on_close()) {
        report.ran += 1;
        report.panicked += usize::from(!task.run());
    } else {
        report.dropped += usize::from(!repeats);
    }
}
