//! Containing panics of foreign code, and reporting them: log, counter, hook.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lars_base::debug_fields;
use lars_base::panics::{dispose, message_of, quietly};

use crate::base::clock::Clock;
use crate::base::identity::TaskIdentity;
use crate::base::late::report::Lateness;
use crate::base::raw_task::Whose;
use crate::base::run_times::RunTimes;
use crate::base::runs::RunsByThread;
use crate::base::slow::{RanOn, SlowTask, SlowTasks};
use crate::base::tick::NEVER;
use crate::sync::{AtomicU64, Ordering};

/// What was running when it panicked.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::hooks::PanicIn;
/// use lars_scheduler::{LightArrayRevolverScheduler, Task};
/// use std::{sync::mpsc, time::Duration};
///
/// let (sender, places) = mpsc::channel();
/// let time = LightArrayRevolverScheduler::builder()
///     .on_panic(move |report| drop(sender.send(report.place)))
///     .build_virtual()?;
/// let task = Task::new(|| ()).on_cancel(|| panic!("nobody to tell"));
/// assert!(time.schedule_once(Duration::from_secs(1), task)?.cancel());
/// assert_eq!(places.try_recv()?, PanicIn::Cleanup);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicIn {
    /// The task itself. A repeat's series has ended with it.
    Task,
    /// The destructor of a task that was cancelled or dropped unrun, or its cancelled hook.
    Cleanup,
    /// An [`Executor`](crate::Executor) that was given a task.
    Executor,
    /// The scheduler itself; its thread has gone on with the same state.
    TimerThread,
}

/// A panic that was contained.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::hooks::PanicIn;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let (sender, receiver) = mpsc::channel();
/// let time = LightArrayRevolverScheduler::builder()
///     .on_panic(move |report| drop(sender.send((report.place, report.message.to_owned()))))
///     .build_virtual()?;
/// let _ = time.schedule_once(Duration::ZERO, || panic!("no such file"))?;
/// time.advance(Duration::ZERO);
/// assert_eq!(receiver.try_recv()?, (PanicIn::Task, "no such file".to_owned()));
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct PanicReport<'a> {
    /// What was running.
    pub place: PanicIn,
    /// The panic's message, where it had one.
    pub message: &'a str,
    /// Whose the task is, or the code that a system runs for its user: a worker's task, the trigger
    /// of a repeated timer. `None` if a hook of the scheduler panicked, or the scheduler itself. If
    /// tasks ran together ([`TaskBody::run_due`](crate::executor::TaskBody::run_due)), it is the
    /// first of them.
    pub task: Option<TaskIdentity>,
}

type PanicHook = Box<dyn Fn(&PanicReport<'_>) + Send + Sync>;

/// Counts failures of foreign code, and reports them in the log and to the user's hook. One per
/// scheduler, shared with the tasks that it hands to executors.
///
/// Log subscriber and hook are foreign code too. A panic in one of them ends here, so no method of
/// this type panics, and callers need no precautions of their own.
#[derive(Default)]
pub(crate) struct Reporter {
    panicked: AtomicU64,
    abandoned: AtomicU64,
    rejected: AtomicU64,
    stalls: AtomicU64,
    hook: Option<PanicHook>,
    pub(crate) slow: SlowTasks,
    /// Of the tasks that go to executors.
    pub(crate) runs: RunsByThread,
    /// How long tasks ran, if that is asked for.
    pub(crate) times: Option<Box<RunTimes>>,
    /// The scheduler's; none beside a scheduler.
    pub(crate) clock: Option<Clock>,
    /// Why tasks begin late, if somebody wants to know.
    pub(crate) late: Option<Box<Lateness>>,
}

debug_fields!(|_it: Reporter|);

impl Reporter {
    /// The least difference between a deadline and its task's begin with which that may be late.
    #[inline]
    pub(crate) fn late_limit(&self) -> u64 {
        self.late.as_ref().map_or(NEVER, |late| late.limit())
    }

    pub(crate) fn new(hook: Option<PanicHook>, slow: SlowTasks) -> Self {
        let mut new = Self::default();
        (new.hook, new.slow) = (hook, slow);
        new
    }

    /// Runs `code`, and contains a panic in it. True if there was none.
    pub(crate) fn contain(&self, place: PanicIn, code: impl FnOnce()) -> bool {
        self.contain_of(None, place, code)
    }

    /// Runs `code` of a task.
    #[inline]
    pub(crate) fn contain_task(&self, whose: Whose, place: PanicIn, code: impl FnOnce()) -> bool {
        self.contain_of(Some(whose), place, code)
    }

    /// Runs `code` that belongs to a series or to a system, on behalf of `task`.
    pub(crate) fn contain_as(
        &self,
        task: TaskIdentity,
        place: PanicIn,
        code: impl FnOnce(),
    ) -> bool {
        // Unwind safety: as in `contain_of`.
        let caught = catch_unwind(AssertUnwindSafe(code));
        caught.map_err(|payload| self.panicked(Some(task), place, payload)).is_ok()
    }

    /// Runs `code`, perhaps of a task.
    #[inline]
    pub(crate) fn contain_of(
        &self,
        whose: Option<Whose>,
        place: PanicIn,
        code: impl FnOnce(),
    ) -> bool {
        // Unwind safety: whatever `code` leaves half done belongs to the caller of the scheduler;
        // our own state is not borrowed by it.
        let caught = catch_unwind(AssertUnwindSafe(code));
        caught.map_err(|payload| self.panicked(whose.map(Whose::identity), place, payload)).is_ok()
    }

    pub(crate) fn panicked(
        &self,
        task: Option<TaskIdentity>,
        place: PanicIn,
        payload: Box<dyn Any + Send>,
    ) {
        // Relaxed: a statistic.
        self.panicked.fetch_add(1, Ordering::Relaxed);
        let message = message_of(&*payload);
        quietly(|| {
            let task = task.as_ref().map(tracing::field::display);
            tracing::error!(target: "lars_scheduler", ?place, message, task, "contained a panic");
        });
        if let Some(hook) = &self.hook {
            let report = PanicReport { place, message, task };
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| hook(&report))) {
                let message = message_of(&*second);
                quietly(|| {
                    tracing::error!(target: "lars_scheduler", message, "the panic hook panicked");
                });
                dispose(second);
            }
        }
        dispose(payload);
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }

    /// An executor dropped a task without running it.
    pub(crate) fn task_abandoned(&self, task: TaskIdentity) {
        // Relaxed: a statistic.
        self.abandoned.fetch_add(1, Ordering::Relaxed);
        quietly(|| {
            let message = "an executor dropped a task without running it";
            tracing::warn!(target: "lars_scheduler", %task, "{message}");
        });
    }

    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// `noted` took `took` together, in nanoseconds; one of them most of it. There is at least
    /// one.
    #[cold]
    pub(crate) fn slow_task(&self, on: RanOn, took: u64, noted: &[(Whose, u64)]) {
        let Some(&(first, late)) = noted.first() else { return };
        self.slow.add();
        let task = first.identity();
        let (run_time, lateness) = (Duration::from_nanos(took), Duration::from_nanos(late));
        let mut others = Vec::new();
        for other in noted.iter().map(|(whose, _)| whose.identity()) {
            if other != task && !others.contains(&other) {
                others.push(other);
            }
        }
        quietly(|| {
            let or = (!others.is_empty()).then(|| tracing::field::debug(&others));
            tracing::warn!(
                target: "lars_scheduler",
                ?on, %task, ?run_time, ?lateness, or_one_of = or, "a slow task"
            );
        });
        if let Some(hook) = &self.slow.hook {
            let report = SlowTask { on, task, lateness, run_time, others: &others };
            quietly(|| hook(&report));
        }
    }

    /// Counts that all threads of the scheduler's pool were busy for too long while tasks waited.
    pub(crate) fn pool_stalled(&self) {
        // Relaxed: a statistic.
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// An executor gave a task back.
    pub(crate) fn task_rejected(&self, task: TaskIdentity, reason: &str) {
        // Relaxed: a statistic.
        self.rejected.fetch_add(1, Ordering::Relaxed);
        quietly(|| {
            tracing::warn!(target: "lars_scheduler", %task, reason, "an executor rejected a task");
        });
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // The last reference may be dropped with a task, on a thread that has more to do.
        quietly(|| drop(self.hook.take()));
        quietly(|| drop(self.slow.hook.take()));
        if let Some(late) = &mut self.late {
            late.record.drop_hook();
        }
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn neither_a_hook_nor_its_destructor_nor_a_payload_brings_a_panic_back() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("expected by this test");
            }
        }
        let bomb = Bomb;
        let hook = move |_: &PanicReport<'_>| {
            let _ = &bomb;
            std::panic::panic_any(Bomb);
        };
        let reporter = Reporter::new(Some(Box::new(hook)), SlowTasks::default());
        assert!(!reporter.contain(PanicIn::Task, || std::panic::panic_any(Bomb)));
        assert!(reporter.contain(PanicIn::Task, || ()));
        assert_eq!(reporter.panics(), 1);
        drop(reporter);
    }
}
