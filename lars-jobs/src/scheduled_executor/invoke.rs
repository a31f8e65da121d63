//! Many tasks at once: all of them, or any of them.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thiserror::Error;

use super::ScheduledExecutor;
use crate::call::{CallError, ScheduledCall};
use crate::when_due::DueOn;
use lars_base::waiting::block_until;
use lars_scheduler::ScheduleError;

/// Why one of the tasks of [`ScheduledExecutor::invoke_any`] gave no value.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::scheduled_executor::{InvokeAnyError, ScheduledExecutor, TaskFailure};
///
/// let jobs = ScheduledExecutor::new()?;
/// let refuse = || Err::<u32, _>("connection refused");
/// let Err(InvokeAnyError::AllFailed(failures)) = jobs.invoke_any([refuse, refuse]) else {
///     panic!("no task can succeed");
/// };
/// for failure in failures {
///     assert!(matches!(failure, TaskFailure::Failed("connection refused")));
///     assert_eq!(failure.to_string(), "a task failed: connection refused");
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
pub enum TaskFailure<E> {
    /// It returned an error.
    #[error("a task failed: {0}")]
    Failed(E),
    /// It panicked, was cancelled, timed out, or was refused.
    #[error(transparent)]
    NoResult(CallError),
}

/// Why [`ScheduledExecutor::invoke_any`] has no result.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::scheduled_executor::{InvokeAnyError, ScheduledExecutor};
///
/// let jobs = ScheduledExecutor::new()?;
/// let mut servers = vec![|| Err::<u32, _>("connection refused")];
/// let error = jobs.invoke_any(servers.clone()).unwrap_err();
/// assert_eq!(error.to_string(), "none of the 1 tasks succeeded");
/// servers.clear();
/// assert!(matches!(jobs.invoke_any(servers), Err(InvokeAnyError::NoTasks)));
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
pub enum InvokeAnyError<E> {
    /// It was given no task.
    #[error("invoke_any was given no task")]
    NoTasks,
    /// No task succeeded in time.
    #[error("no task succeeded in time")]
    TimedOut,
    /// No task succeeded.
    #[error("none of the {} tasks succeeded", .0.len())]
    AllFailed(Vec<TaskFailure<E>>),
}

impl ScheduledExecutor {
    /// Runs all tasks, and blocks until all are over. The results are in the order of the tasks; a
    /// task that was refused has [`CallError::Refused`].
    ///
    /// It waits for threads of the pool, so neither a task on that pool nor an inline task may call
    /// it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let jobs = lars_jobs::scheduled_executor::ScheduledExecutor::new()?;
    /// let squares = jobs.invoke_all((1..=3).map(|n| move || n * n));
    /// let squares: Vec<_> = squares.into_iter().flatten().collect();
    /// assert_eq!(squares, [1, 4, 9]);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn invoke_all<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Vec<Result<T, CallError>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        wait_for_all(self.submit_all(tasks))
    }

    /// Runs all tasks, and blocks until all are over or `limit` has passed, by the scheduler's
    /// clock. A task that is not done then has [`CallError::TimedOut`]: either it never starts, or
    /// its value is dropped. Otherwise like [`invoke_all`](Self::invoke_all).
    #[track_caller]
    pub fn invoke_all_timeout<T, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        limit: Duration,
    ) -> Vec<Result<T, CallError>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        wait_for_all(self.submit_all_until(tasks, limit))
    }

    /// Runs all tasks, blocks until one of them succeeds, and returns its value. Tasks that have
    /// not started are cancelled; the values of other running ones are dropped.
    ///
    /// It waits for threads of the pool, so neither a task on that pool nor an inline task may call
    /// it.
    ///
    /// # Errors
    ///
    /// [`InvokeAnyError::AllFailed`] with the error of each, in the order in which they ended;
    /// [`InvokeAnyError::NoTasks`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let jobs = lars_jobs::scheduled_executor::ScheduledExecutor::new()?;
    /// let even = |n: u32| move || if n % 2 == 0 { Ok(n) } else { Err("odd") };
    /// assert_eq!(jobs.invoke_any([1, 3, 4, 5].map(even))?, 4);
    /// assert!(jobs.invoke_any([1, 3].map(even)).is_err());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn invoke_any<T, E, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<T, InvokeAnyError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        wait_for_any(self.submit_all(tasks))
    }

    /// Like [`invoke_any`](Self::invoke_any), for at most `limit` by the scheduler's clock.
    ///
    /// # Errors
    ///
    /// [`InvokeAnyError::TimedOut`] if that has passed and some task has neither succeeded nor
    /// failed; otherwise the same as [`invoke_any`](Self::invoke_any).
    #[track_caller]
    pub fn invoke_any_timeout<T, E, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        limit: Duration,
    ) -> Result<T, InvokeAnyError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        wait_for_any(self.submit_all_until(tasks, limit))
    }

    // Loops, because a closure does not pass the caller's place on.

    #[track_caller]
    fn submit_all<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Vec<Submitted<T, F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let mut calls = Vec::new();
        for task in tasks {
            calls.push(self.submit(task));
        }
        calls
    }

    #[track_caller]
    fn submit_all_until<T, F>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        limit: Duration,
    ) -> Vec<Submitted<T, F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let deadline = self.shared.handle.due_after(limit);
        let mut calls = Vec::new();
        for task in tasks {
            calls.push(self.submit_until(deadline, task));
        }
        calls
    }
}

type Submitted<T, F> = Result<ScheduledCall<T>, ScheduleError<F>>;

fn refused<F>(error: ScheduleError<F>) -> CallError {
    CallError::Refused(error.into_parts().0)
}

fn wait_for_all<T, F>(calls: Vec<Submitted<T, F>>) -> Vec<Result<T, CallError>> {
    let result = |call: Submitted<T, F>| call.map_err(refused)?.wait();
    calls.into_iter().map(result).collect()
}

fn wait_for_any<T, E, F>(calls: Vec<Submitted<Result<T, E>, F>>) -> Result<T, InvokeAnyError<E>> {
    let mut failures = Vec::new();
    let mut pending = FuturesUnordered::new();
    for call in calls {
        match call {
            Ok(call) => pending.push(call.cancel_on_drop()),
            Err(error) => failures.push(TaskFailure::NoResult(refused(error))),
        }
    }
    let mut timed_out = false;
    // Without a deadline the wait ends with a result.
    while let Some(Some(result)) = block_until(pin!(pending.next()), None) {
        match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => failures.push(TaskFailure::Failed(error)),
            Err(error) => {
                timed_out |= matches!(error, CallError::TimedOut);
                failures.push(TaskFailure::NoResult(error));
            }
        }
    }
    Err(match failures.is_empty() {
        true => InvokeAnyError::NoTasks,
        false if timed_out => InvokeAnyError::TimedOut,
        false => InvokeAnyError::AllFailed(failures),
    })
}

impl<E> TaskFailure<E> {
    /// The error that the task returned, if it did.
    pub fn into_error(self) -> Option<E> {
        match self {
            Self::Failed(error) => Some(error),
            Self::NoResult(_) => None,
        }
    }
}
