//! The end of an executor: what it still runs, what it hands back, and how to wait for it.

use std::sync::Arc;
use std::time::Duration;

use super::ScheduledExecutor;
use super::registry::{AnyTask, Registry, Repeat, WaitingTask};
use crate::call::Target;
use lars_base::debug_fields;
use lars_base::sync::real_now;
use lars_base::time::Instant;
use lars_base::waiting::{park_until, with_parker};
use lars_base::when_due::WhenDue;
use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Handle, TaskIdentity};

/// What [`ScheduledExecutor::shutdown`] does with one-shots that are not due yet. Due ones run in
/// any case.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::scheduled_executor::{DelayedTasks, ScheduledExecutor, ShutdownPolicy};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// for (delayed, cancelled) in [(DelayedTasks::Run, 0), (DelayedTasks::Cancel, 1)] {
///     let jobs = ScheduledExecutor::on(&time);
///     let call = jobs.schedule(second, || 7)?;
///     assert_eq!(jobs.shutdown(ShutdownPolicy { delayed, ..Default::default() }), cancelled);
///     time.advance(second);
///     assert_eq!(call.wait().is_ok(), delayed == DelayedTasks::Run);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum DelayedTasks {
    /// They run at their time. The JDK's default too.
    #[default]
    Run,
    /// They are cancelled.
    Cancel,
}

/// What [`ScheduledExecutor::shutdown`] does with series.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::scheduled_executor::{PeriodicTasks, ScheduledExecutor, ShutdownPolicy};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let jobs = ScheduledExecutor::on(&time);
/// let _beat = jobs.schedule_with_fixed_delay(second, second, || println!("alive"))?;
/// jobs.shutdown(ShutdownPolicy { periodic: PeriodicTasks::Continue, ..Default::default() });
/// assert_eq!(time.advance(2 * second), 2); // prints "alive" twice
/// assert!(!jobs.is_terminated());
/// jobs.shutdown(ShutdownPolicy { periodic: PeriodicTasks::Cancel, ..Default::default() });
/// assert!(jobs.is_terminated());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PeriodicTasks {
    /// They are cancelled; a run in flight finishes. The JDK's default too.
    #[default]
    Cancel,
    /// They go on until they are cancelled, or end by themselves.
    Continue,
}

/// How accepted work is treated when an executor is shut down.
///
/// ```
/// use lars_jobs::scheduled_executor::{DelayedTasks, PeriodicTasks, ShutdownPolicy};
/// let at_once = ShutdownPolicy { delayed: DelayedTasks::Cancel, ..ShutdownPolicy::default() };
/// assert_eq!(at_once.periodic, PeriodicTasks::Cancel);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ShutdownPolicy {
    /// One-shots that are not due yet.
    pub delayed: DelayedTasks,
    /// Series.
    pub periodic: PeriodicTasks,
}

impl ScheduledExecutor {
    /// Refuses new work from now on, and lets accepted work run or cancels it, by `policy`. Does
    /// not wait. Returns how many one-shots it cancelled; they have never started.
    ///
    /// It can be called again with a policy that cancels more.
    pub fn shutdown(&self, policy: ShutdownPolicy) -> usize {
        let now = WhenDue::At(self.shared.handle.now());
        let (cancelled, series) = self.shared.change(|registry| {
            registry.is_shut_down = true;
            let cancelled: Vec<WaitingTask> = match policy.delayed {
                DelayedTasks::Run => Vec::new(),
                DelayedTasks::Cancel => {
                    let waiting = &mut registry.waiting;
                    let later: Vec<u64> = waiting
                        .iter()
                        .filter(|(_, task)| task.due > now)
                        .map(|(&number, _)| number)
                        .collect();
                    later.iter().filter_map(|number| waiting.remove(number)).collect()
                }
            };
            let series = match policy.periodic {
                PeriodicTasks::Cancel => registry.doom_repeats(),
                PeriodicTasks::Continue => Vec::new(),
            };
            (cancelled, series)
        });
        let count = cancelled.len();
        for waiting in cancelled {
            self.shared.clean_up(waiting.whose, move || waiting.job.cancel());
        }
        for series in series {
            series.cancel();
        }
        count
    }

    /// Refuses new work from now on, cancels the series, and hands back every one-shot that was
    /// accepted and has not started, the earliest deadline first. Running tasks are not
    /// interrupted.
    ///
    /// (In the JDK, threads that wait for such a task wait forever. Here they learn at once that it
    /// was [handed back](crate::call::CallError::HandedBack). If it is run, handles that are left
    /// get the value; if it is dropped, they get
    /// [`CallError::Dropped`](crate::call::CallError::Dropped).)
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::scheduled_executor::ScheduledExecutor;
    /// use std::time::Duration;
    /// let jobs = ScheduledExecutor::new()?;
    /// let hour = Duration::from_secs(3600);
    /// let (one, other) = (jobs.schedule(hour, || 1)?, jobs.schedule(2 * hour, || 2)?);
    /// let mut unstarted = jobs.shutdown_now().into_iter();
    /// assert!(unstarted.next().unwrap().run());
    /// assert_eq!(one.wait()?, 1);
    /// drop(unstarted);
    /// assert!(other.wait().is_err());
    /// # Ok(()) }
    /// ```
    pub fn shutdown_now(&self) -> Vec<UnstartedTask> {
        let unstarted = self.end_now();
        for task in &unstarted {
            if let Some(job) = &task.job {
                job.awaited().hand_back();
            }
        }
        unstarted
    }

    /// Does the work of `shutdown_now`, without notifying waiting callers.
    fn end_now(&self) -> Vec<UnstartedTask> {
        let (waiting, series) = self.shared.change(|registry| {
            registry.is_shut_down = true;
            (std::mem::take(&mut registry.waiting), registry.doom_repeats())
        });
        for series in series {
            series.cancel();
        }
        let mut unstarted: Vec<_> = waiting
            .into_values()
            .map(|WaitingTask { job, whose, due, .. }| {
                let job = Some(job);
                UnstartedTask { job, whose, due, handle: self.shared.handle.clone() }
            })
            .collect();
        // Stable, and they come in the order of the calls.
        unstarted.sort_by_key(|task| task.due);
        unstarted
    }

    /// Whether it was shut down, so that it accepts nothing any more.
    pub fn is_shutdown(&self) -> bool {
        self.shared.registry.lock().is_shut_down
    }

    /// Whether it was shut down and all of its work is over.
    pub fn is_terminated(&self) -> bool {
        self.shared.registry.lock().is_terminated()
    }

    /// Blocks until it was shut down and all of its work is over, for at most `limit` of real time.
    /// True if its work is over.
    ///
    /// A task of this executor that calls it waits for itself until the limit.
    pub fn await_termination(&self, limit: Duration) -> bool {
        let deadline = real_now().checked_add(limit);
        with_parker(|parker| {
            let number = {
                let mut registry = self.shared.registry.lock();
                let number = registry.number();
                registry.waiters.insert(number, parker.unparker().clone());
                number
            };
            let terminated = loop {
                if self.is_terminated() {
                    break true;
                }
                if !park_until(parker, deadline) {
                    break false;
                }
            };
            self.shared.registry.lock().waiters.remove(&number);
            terminated
        })
    }
}

impl Registry {
    /// Marks all series to be cancelled, and takes out those that can be.
    fn doom_repeats(&mut self) -> Vec<Arc<dyn Target>> {
        let doom = |entry: &mut Repeat| {
            entry.doomed = true;
            entry.series.clone()
        };
        self.repeats.values_mut().filter_map(doom).collect()
    }
}

impl Drop for ScheduledExecutor {
    fn drop(&mut self) {
        if !self.is_shutdown() {
            drop(self.end_now());
        }
    }
}

/// A one-shot that was accepted by an executor and had not started when [`shutdown_now`] took it.
///
/// It belongs to you now: run it, or drop it. Handles of its result learn of either.
///
/// [`shutdown_now`]: ScheduledExecutor::shutdown_now
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::scheduled_executor::ScheduledExecutor;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let hour = Duration::from_secs(3600);
/// let jobs = ScheduledExecutor::on(&time);
/// let call = jobs.schedule(hour, || 7)?;
/// for task in jobs.shutdown_now() {
///     assert_eq!(task.due(), Some(time.now() + hour));
///     assert!(task.run()); // here, an hour too early
/// }
/// assert_eq!(call.wait()?, 7);
/// # Ok(()) }
/// ```
#[must_use = "dropping an unstarted task drops it unrun"]
pub struct UnstartedTask {
    job: Option<Box<dyn AnyTask>>,
    whose: TaskIdentity,
    due: WhenDue,
    /// Reports a panic.
    handle: Handle,
}

impl UnstartedTask {
    /// When it would have been due; `None` for a time that the platform's clock cannot express.
    pub fn due(&self) -> Option<Instant> {
        self.due.instant()
    }

    /// Runs the task on this thread, now. A panic is contained, and reported by the scheduler as
    /// for any of its tasks. True if there was none.
    pub fn run(mut self) -> bool {
        let job = self.job.take();
        job.is_some_and(|job| self.handle.contain(self.whose, PanicIn::Task, move || job.run()))
    }
}

impl Drop for UnstartedTask {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.handle.contain(self.whose, PanicIn::Cleanup, move || drop(job));
        }
    }
}

debug_fields!(|it: UnstartedTask| due: it.due());
