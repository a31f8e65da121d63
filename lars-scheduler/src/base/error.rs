//! Errors; those that refuse a task give it back.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::base::exclusive::Exclusive;
use lars_base::debug_fields;

/// A setting or an argument out of its range.
///
/// The message names the setting, the value that was given and the limit that it broke.
///
/// # Examples
///
/// ```
/// use lars_scheduler::LightArrayRevolverScheduler;
/// let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(0));
/// let error = builder.build_virtual().unwrap_err();
/// assert!(error.to_string().starts_with("pool_threads is 0, but "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The tick is shorter or longer than a tick can be.
    #[error("tick_duration is {given:?}, but it must be between {min:?} and {max:?}")]
    TickDuration {
        /// What was asked for.
        given: Duration,
        /// The shortest tick.
        min: Duration,
        /// The longest tick.
        max: Duration,
    },
    /// The wheel's size is not a power of two, or out of range.
    #[error("ticks_per_wheel is {given}, but it must be a power of two between {min} and {max}")]
    TicksPerWheel {
        /// What was asked for.
        given: usize,
        /// The smallest wheel.
        min: usize,
        /// The largest wheel.
        max: usize,
    },
    /// Wake-ups may not be delayed for that long.
    #[error("coalesce is {given:?}, but it must be at most {max:?}")]
    Coalesce {
        /// What was asked for.
        given: Duration,
        /// The longest window.
        max: Duration,
    },
    /// This system has no clock that goes on while the machine is suspended.
    #[error("count_suspend is true, but only Linux has a clock that counts a suspend")]
    CountSuspend,
    /// A limit of zero pending timers would refuse everything.
    #[error("max_pending is {given}, but it must be at least 1 (leave it unset for no limit)")]
    MaxPending {
        /// What was asked for.
        given: usize,
    },
    /// The stack of the timer thread is too small or too large.
    #[error("stack_size is {given} bytes, but it must be between {min} and {max}")]
    StackSize {
        /// What was asked for.
        given: usize,
        /// The smallest stack.
        min: usize,
        /// The largest stack.
        max: usize,
    },
    /// The number of pool threads is out of range.
    #[error("pool_threads is {given}, but it must be between 1 and {max}")]
    PoolThreads {
        /// What was asked for.
        given: usize,
        /// The most threads of a pool.
        max: usize,
    },
    /// A queue without room would take no task.
    #[error("pool_queue is {given}, but it must be at least {min} (leave it unset for no limit)")]
    PoolQueue {
        /// What was asked for.
        given: usize,
        /// The shortest queue.
        min: usize,
    },
    /// The stack of the pool's threads is too small or too large.
    #[error("pool_stack_size is {given} bytes, but it must be between {min} and {max}")]
    PoolStackSize {
        /// What was asked for.
        given: usize,
        /// The smallest stack.
        min: usize,
        /// The largest stack.
        max: usize,
    },
    /// A thread's name contains a NUL byte, which no operating system accepts.
    #[error("thread_name is {given:?}, but a thread's name must not contain a NUL byte")]
    ThreadName {
        /// What was asked for.
        given: String,
    },
}

/// A scheduler could not be started.
///
/// # Examples
///
/// ```
/// use lars_scheduler::{BuildError, LightArrayRevolverScheduler};
/// match LightArrayRevolverScheduler::builder().ticks_per_wheel(100).build() {
///     Ok(_scheduler) => unreachable!("100 is not a power of two"),
///     Err(BuildError::Config(wrong)) => eprintln!("a setting is wrong: {wrong}"),
///     Err(error) => eprintln!("no thread could be had: {error}"),
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operating system refused the timer thread.
    #[error("the timer thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a task was not accepted.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Refusal};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let refused = time.schedule_at_fixed_rate(Duration::ZERO, Duration::ZERO, || ()).unwrap_err();
/// assert!(matches!(refused.into_refusal(), Refusal::Period { .. }));
/// time.close()?;
/// let refused = time.schedule_once(Duration::ZERO, || ()).unwrap_err();
/// let (refusal, task) = refused.into_parts();
/// assert_eq!((refusal, task()), (Refusal::Stopped, ()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The scheduler was stopped, closed or dropped.
    #[error("the scheduler has been stopped; nothing can be scheduled on it any more")]
    Stopped,
    /// The executor that was asked has been shut down; its scheduler may go on.
    #[error("the executor has been shut down; nothing can be scheduled on it any more")]
    ShutDown,
    /// The worker was disposed; its scheduler may go on.
    #[error("the worker has been disposed; nothing can be scheduled on it any more")]
    Disposed,
    /// The call would have made the timer thread wait for a timer, and so for itself.
    #[error(
        "a call that waits for its time was made on the timer thread, which it would have to wait \
         for"
    )]
    OnTimerThread,
    /// The repeated timer was destroyed; its scheduler may go on.
    #[error("the repeated timer has been destroyed; it cannot be started any more")]
    Destroyed,
    /// More timers would be pending than the scheduler was built to hold.
    #[error("max_pending is {limit}, and this call would exceed it")]
    Full {
        /// The scheduler's `max_pending`.
        limit: usize,
    },
    /// The timer thread is late, and the calling thread has used up its share of what that gets
    /// done; see [`Backpressure::Refuse`](crate::Backpressure::Refuse). Mostly a later call is
    /// accepted.
    #[error("the timer thread is late, and this thread schedules more than its share: try later")]
    Overloaded,
    /// A period of zero would run without end, and one that is shorter than its
    /// [`spread`](crate::Periodic::spread) would mix up the runs.
    #[error("the period is {given:?}, but it must be at least {min:?}")]
    Period {
        /// What was asked for.
        given: Duration,
        /// The shortest period.
        min: Duration,
    },
    /// A series of no runs. (For [`Periodic::times`](crate::Periodic::times).)
    #[error("times is {given}, but a series has at least 1 run")]
    Times {
        /// What was asked for.
        given: u64,
    },
    /// The first run would be due after the end of its series. (For
    /// [`Periodic::until`](crate::Periodic::until).)
    #[error("the series would end {by:?} before its first run is due")]
    EndsBefore {
        /// How much earlier the end is.
        by: Duration,
    },
}

/// The shortest period. Zero would run without end.
const MIN_PERIOD: Duration = Duration::from_nanos(1);

/// Refuses a period that is too short.
///
/// # Errors
///
/// [`Refusal::Period`] for a period of zero.
#[cfg_attr(lars_loom, allow(unreachable_pub))] // no model has `extend`
pub fn check_period(given: Duration) -> Result<(), Refusal> {
    if given < MIN_PERIOD { Err(Refusal::Period { given, min: MIN_PERIOD }) } else { Ok(()) }
}

/// A task that was not accepted, given back with the reason.
///
/// A call that returned this error never runs its task. The error is `Send` and `Sync` whenever
/// the task is `Send`, so it passes through `?` into the usual boxed errors.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Refusal};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual()?;
/// let second = Duration::from_secs(1);
/// let _ = time.schedule_once(second, || ())?;
///
/// let refused = time.schedule_once(second, || println!("run nevertheless")).unwrap_err();
/// assert_eq!(refused.refusal(), &Refusal::Full { limit: 1 });
/// assert_eq!(refused.to_string(), refused.refusal().to_string());
/// let task = refused.into_task();
/// task(); // or try again later
/// # Ok(()) }
/// ```
pub struct ScheduleError<T> {
    refusal: Refusal,
    task: Exclusive<T>,
}

impl<T> ScheduleError<T> {
    /// For those who refuse a task of their users themselves.
    pub fn new(refusal: Refusal, task: T) -> Self {
        Self { refusal, task: Exclusive::new(task) }
    }

    /// Why the task was not accepted.
    pub fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// The task, as it was handed in.
    pub fn into_task(self) -> T {
        self.task.into_inner()
    }

    /// The reason; the task is dropped.
    pub fn into_refusal(self) -> Refusal {
        self.refusal
    }

    /// The reason and the task.
    pub fn into_parts(self) -> (Refusal, T) {
        (self.refusal, self.task.into_inner())
    }

    /// This error with something else in place of the task.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> ScheduleError<U> {
        ScheduleError::new(self.refusal, f(self.task.into_inner()))
    }
}

debug_fields!(|it: ScheduleError<T>| refusal: it.refusal);

impl<T> fmt::Display for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl<T> std::error::Error for ScheduleError<T> {}

impl<T> From<ScheduleError<T>> for Refusal {
    fn from(error: ScheduleError<T>) -> Self {
        error.into_refusal()
    }
}
