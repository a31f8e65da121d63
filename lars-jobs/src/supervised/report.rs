//! Reports of runs: one by one, and in sum.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::time::Duration;

use lars_base::time::Instant;

/// How a run ended, as its supervision sees it.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{Outcome, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, outcomes) = mpsc::channel();
/// let task = Supervision::every(Duration::from_secs(1))
///     .on_settled(move |report| drop(sender.send(report.outcome.clone())))
///     .build()?
///     .start_future(&time, Inline, |_token| async { Err::<(), _>("connection refused") })?;
/// time.advance(Duration::from_secs(1));
/// assert_eq!(outcomes.try_recv()?, Outcome::Failure("connection refused".to_owned()));
/// assert!(task.cancel());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It succeeded in time. The interval returns to the first one.
    Success,
    /// It was still going when its time was over. Its token was cancelled, and the interval
    /// doubled, up to its bound.
    Timeout,
    /// The executor refused or dropped it. The interval stays.
    Rejected,
    /// It returned this error. The interval stays.
    Failure(String),
    /// It panicked with this message. The interval stays.
    Panic(String),
}

/// One run, when it was settled. For the hook of
/// [`on_settled`](super::SupervisionBuilder::on_settled).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{Outcome, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::{future, sync::mpsc, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let secs = Duration::from_secs;
/// let (sender, reports) = mpsc::channel();
/// let _task = Supervision::every(secs(10))
///     .timeout(secs(1))
///     .on_settled(move |report| drop(sender.send(report.clone())))
///     .build()?
///     .start_future(&time, Inline, |_token| future::pending::<()>())?;
/// time.advance(secs(11));
/// let report = reports.try_recv()?;
/// assert_eq!((report.number, report.outcome), (1, Outcome::Timeout));
/// assert_eq!((report.took, report.next_in), (secs(1), Some(secs(20))));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunReport {
    /// The number of the run; the first one is 1.
    pub number: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// From the hand-over to the executor until it was settled: waiting there is included.
    pub took: Duration,
    /// How long after this the next run is due, jitter included; `None` if the supervision has
    /// ended.
    pub next_in: Option<Duration>,
}

/// The counters and gauges of a supervised task, at one moment.
///
/// `runs` is the sum of `successes`, `timeouts`, `rejections`, `failures` and `withdrawn`, plus one
/// while a run is awaited.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::Supervision;
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::{future, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let secs = Duration::from_secs;
/// let task = Supervision::every(secs(10))
///     .timeout(secs(1))
///     .build()?
///     .start_future(&time, Inline, |_token| future::pending::<()>())?;
/// time.advance(secs(10));
/// assert_eq!((task.counts().runs, task.counts().running), (1, 1));
/// time.advance(secs(1)); // and now it has timed out
/// let counts = task.counts();
/// assert_eq!((counts.timeouts, counts.running, counts.interval), (1, 0, secs(20)));
/// assert_eq!(counts.next_run, Some(time.now() + secs(20)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that were handed to the executor.
    pub runs: u64,
    /// Runs that succeeded in time.
    pub successes: u64,
    /// Runs whose time was over before they had ended.
    pub timeouts: u64,
    /// Runs that the executor refused or dropped.
    pub rejections: u64,
    /// Runs that returned an error or panicked, in time.
    pub failures: u64,
    /// Runs that had not begun, or were dropped as futures, when the supervision ended.
    pub withdrawn: u64,
    /// Timed-out runs that have ended since; their results were ignored.
    pub late_ends: u64,
    /// How often a due run had to wait because no more runs were allowed at once.
    pub held_back: u64,
    /// Gauge: runs that have begun and not ended.
    pub running: usize,
    /// Gauge: running ones that were given up. A run that stays here does not check its token.
    pub stragglers: usize,
    /// Gauge: the interval, without jitter. A backoff shows here.
    pub interval: Duration,
    /// Gauge: when the next run is due. `None` while a run is awaited or held back, if no run will
    /// be due, and after the end.
    pub next_run: Option<Instant>,
}

/// What a run may return: nothing, a `Result` whose error can be displayed, or a
/// [`ControlFlow`].
///
/// `Err` counts as a failure. What `Ok` holds is dropped. `Break` ends the task: the run has
/// succeeded, and is the last, unless it was given up before.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{Completion, Supervised, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler, VirtualTime};
/// use std::{error::Error, time::Duration};
///
/// fn every_second<R: Completion + 'static>(
///     time: &VirtualTime,
///     work: fn() -> R,
/// ) -> Result<Supervised, Box<dyn Error>> {
///     let supervision = Supervision::every(Duration::from_secs(1)).build()?;
///     Ok(supervision.start(time, Inline, move |_token| work())?)
/// }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let log = every_second(&time, || println!("alive"))?;
/// let parse = every_second(&time, || "no number".parse::<u32>())?;
/// time.advance(Duration::from_secs(1));
/// assert_eq!((log.counts().successes, parse.counts().failures), (1, 1));
/// # Ok(()) }
/// ```
pub trait Completion: sealed::Completion {}

impl<T: sealed::Completion> Completion for T {}

pub(super) mod sealed {
    pub trait Completion {
        /// What went wrong, if something did.
        fn failure(self) -> Option<String>;

        /// Whether no run is to follow.
        fn is_last(&self) -> bool {
            false
        }
    }
}

impl sealed::Completion for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T, E: Display> sealed::Completion for Result<T, E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl sealed::Completion for ControlFlow<()> {
    fn failure(self) -> Option<String> {
        None
    }

    fn is_last(&self) -> bool {
        self.is_break()
    }
}
