//! Tasks that run for too long: what is too long, and what is reported.

use std::time::Duration;

use crate::base::identity::TaskIdentity;
use crate::base::tick::NEVER;
use crate::sync::{AtomicU64, Ordering};
use lars_base::debug_fields;

/// Where a task ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RanOn {
    /// On the timer thread, where it held up all other timers.
    TimerThread,
    /// On a [`Pool`](crate::Pool), where it occupied a thread.
    Pool,
}

/// A task that ran for longer than the threshold: 10 ms on the timer thread and 1 s on a pool,
/// unless [`Builder::slow_inline`](crate::Builder::slow_inline) and
/// [`Builder::slow_on_pool`](crate::Builder::slow_on_pool) say otherwise.
///
/// # How exact it is
///
/// As long as tasks are fast, the clock is read only for every 32nd of them. So the first slow task
/// may share its report with others that ran between the same two readings. Those are in
/// [`others`](Self::others), and the run time is that of all together. For the next thousand tasks
/// the clock is read for each. If the task is slow again, it is named alone.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::hooks::RanOn;
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::{sync::mpsc, thread, time::Duration};
///
/// let (sender, slow) = mpsc::channel();
/// let scheduler = LightArrayRevolverScheduler::builder()
///     .slow_inline(Duration::from_millis(2))
///     .on_slow(move |task| drop(sender.send((task.on, task.task.name(), task.run_time))))
///     .build()?;
/// let blocks = Task::new(|| thread::sleep(Duration::from_millis(3))).named("blocks").inline();
/// scheduler.schedule_once(Duration::ZERO, blocks)?;
/// let (on, name, run_time) = slow.recv()?;
/// assert_eq!((on, name), (RanOn::TimerThread, Some("blocks")));
/// assert!(run_time >= Duration::from_millis(3));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SlowTask<'a> {
    /// Where it ran.
    pub on: RanOn,
    /// Whose it is. If tasks ran together
    /// ([`TaskBody::run_due`](crate::executor::TaskBody::run_due)), it is one of them.
    pub task: TaskIdentity,
    /// How long after its deadline it began.
    pub lateness: Duration,
    /// How long it ran, in real time. On a busy machine that includes the time in which its thread
    /// had no processor.
    pub run_time: Duration,
    /// Tasks with other identities that ran between the same two readings of the clock. One of them
    /// may have been the slow one. Mostly empty.
    pub others: &'a [TaskIdentity],
}

pub(crate) type SlowHook = Box<dyn Fn(&SlowTask<'_>) + Send + Sync>;

/// What is too long, in nanoseconds, and the hook that is told.
pub(crate) struct SlowTasks {
    pub(crate) inline: u64,
    pub(crate) pool: u64,
    pub(crate) hook: Option<SlowHook>,
    pub(crate) count: AtomicU64,
}

impl Default for SlowTasks {
    fn default() -> Self {
        Self { inline: NEVER, pool: NEVER, hook: None, count: AtomicU64::new(0) }
    }
}

impl SlowTasks {
    /// What is too long there.
    #[inline]
    pub(crate) fn limit(&self, on: RanOn) -> u64 {
        match on {
            RanOn::TimerThread => self.inline,
            RanOn::Pool => self.pool,
        }
    }

    /// Counts one.
    pub(crate) fn add(&self) {
        // Relaxed: a statistic.
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

debug_fields!(|_it: SlowTasks|);
