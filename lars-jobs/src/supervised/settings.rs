//! How a task is supervised: settings, their defaults and limits.

use std::time::Duration;

use thiserror::Error;

use super::Supervision;
use super::report::RunReport;
use lars_base::debug_fields;
use lars_base::sync::Arc;

/// Eureka's bound: the interval grows to at most ten times the first one.
const DEFAULT_GROWTH: u32 = 10;

/// The shortest interval and timeout. Zero would run without end, or give up every run at once.
const SHORTEST: Duration = Duration::from_nanos(1);

/// What happens to a future whose run is given up, because its time is over or the supervision has
/// ended.
///
/// (A running closure is always left: nothing can take it off its thread.)
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{GivenUp, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let secs = Duration::from_secs;
/// for (given_up, stragglers) in [(GivenUp::Drop, 0), (GivenUp::Leave, 1)] {
///     let timers = time.handle();
///     let task = Supervision::every(secs(10))
///         .timeout(secs(1))
///         .given_up(given_up)
///         .build()?
///         .start_future(&time, Inline, move |_token| timers.sleep(secs(60)))?;
///     time.advance(secs(11));
///     assert_eq!(task.counts().stragglers, stragglers);
///     task.cancel();
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum GivenUp {
    /// It is polled once more, so that it sees its token cancelled and can end by itself; if it is
    /// still pending then, it is dropped. Both happen on the executor, never on the timer thread.
    #[default]
    Drop,
    /// It goes on until it ends by itself. Until then it counts as running.
    Leave,
}

/// A setting of a [`Supervision`] that is out of its range.
///
/// The message names the setting, the value that was given and the limit that it broke.
///
/// # Examples
///
/// ```
/// use lars_jobs::supervised::{SettingError, Supervision};
/// use std::time::Duration;
///
/// let error = Supervision::every(Duration::from_secs(1)).jitter(1.5).build().unwrap_err();
/// assert_eq!(error, SettingError::Jitter { given: 1.5 });
/// assert_eq!(error.to_string(), "jitter is 1.5, but it must be between 0 and 1");
/// ```
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SettingError {
    /// An interval of zero would run without end.
    #[error("interval is {given:?}, but it must be at least {min:?}")]
    Interval {
        /// What was asked for.
        given: Duration,
        /// The shortest interval.
        min: Duration,
    },
    /// A timeout of zero would give every run up at once.
    #[error("timeout is {given:?}, but it must be at least {min:?}")]
    Timeout {
        /// What was asked for.
        given: Duration,
        /// The shortest timeout.
        min: Duration,
    },
    /// The bound of the interval lies below the interval.
    #[error(
        "max_interval is {given:?}, but it must be at least the interval, which is {interval:?}"
    )]
    MaxInterval {
        /// What was asked for.
        given: Duration,
        /// The interval that it is to bound.
        interval: Duration,
    },
    /// The jitter is not a fraction.
    #[error("jitter is {given}, but it must be between 0 and 1")]
    Jitter {
        /// What was asked for.
        given: f64,
    },
    /// If no run were allowed, none would ever run.
    #[error("max_concurrent is {given}, but it must be at least 1")]
    MaxConcurrent {
        /// What was asked for.
        given: usize,
    },
    /// With a burst of zero every call of `run_now` would be refused.
    #[error("the burst of on_demand_limit is {given}, but it must be at least 1")]
    OnDemandBurst {
        /// What was asked for.
        given: u32,
    },
    /// A limit over zero time would limit nothing.
    #[error(
        "the period of on_demand_limit is {given:?}, but for a burst of {burst} it must be at \
         least {min:?}"
    )]
    OnDemandPeriod {
        /// What was asked for.
        given: Duration,
        /// The burst that it was given with.
        burst: u32,
        /// The shortest period for that burst.
        min: Duration,
    },
}

#[derive(Clone)]
pub(super) struct SettledHook(pub(super) Arc<dyn Fn(&RunReport) + Send + Sync>);

debug_fields!(|_it: SettledHook|);

/// The settings, checked.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) max_interval: Duration,
    pub(super) initial_delay: Duration,
    pub(super) jitter: f64,
    pub(super) seed: Option<u64>,
    pub(super) max_concurrent: usize,
    pub(super) given_up: GivenUp,
    pub(super) on_demand: Option<OnDemand>,
    pub(super) on_settled: Option<SettledHook>,
    pub(super) name: Option<&'static str>,
}

/// A limit to how often `run_now` is accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnDemand {
    /// What each call costs.
    pub(super) spacing: Duration,
    /// How far the calls may run ahead of one each `spacing`.
    pub(super) tolerance: Duration,
}

impl Settings {
    /// For the jitter: different for each task and process, unless the user gave a seed.
    pub(super) fn random(&self) -> fastrand::Rng {
        self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)
    }
}

/// Settings of a [`Supervision`], begun by [`Supervision::every`].
///
/// [`build`](Self::build) checks the settings, so the order of the calls does not matter.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{GivenUp, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, reports) = mpsc::channel();
/// let refresh = Supervision::every(secs(30))
///     .timeout(secs(10))
///     .max_interval(secs(300))
///     .initial_delay(secs(5))
///     .jitter(0.1) // up to a tenth of the interval
///     .jitter_seed(7) // the same in every run of this test
///     .max_concurrent(2)
///     .given_up(GivenUp::default())
///     .on_demand_limit(2, secs(60))
///     .on_settled(move |report| drop(sender.send(report.number)))
///     .build()?
///     .start(&time, Inline, |_token| ())?;
/// time.advance(secs(5));
/// assert_eq!(reports.try_iter().collect::<Vec<_>>(), [1]);
/// refresh.run_now()?;
/// time.advance(Duration::ZERO);
/// assert_eq!(reports.try_iter().collect::<Vec<_>>(), [2]);
/// assert_eq!(refresh.counts().successes, 2);
/// assert!(refresh.cancel() && refresh.is_ended());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct SupervisionBuilder {
    interval: Duration,
    timeout: Option<Duration>,
    max_interval: Option<Duration>,
    initial_delay: Option<Duration>,
    jitter: f64,
    seed: Option<u64>,
    max_concurrent: usize,
    given_up: GivenUp,
    on_demand: Option<(u32, Duration)>,
    on_settled: Option<SettledHook>,
    name: Option<&'static str>,
}

impl SupervisionBuilder {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            timeout: None,
            max_interval: None,
            initial_delay: None,
            jitter: 0.0,
            seed: None,
            max_concurrent: 1,
            given_up: GivenUp::default(),
            on_demand: None,
            on_settled: None,
            name: None,
        }
    }

    /// Gives the timers of the supervision a name. See
    /// [`Task::named`](lars_scheduler::Task::named).
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// How long a run may take from the hand-over to the executor, including the time that it waits
    /// there. At least 1 ns; by default as long as the interval, as in Eureka. `Duration::MAX`
    /// means no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The longest interval that timeouts can lead to. At least the interval, and by default ten
    /// times that, as in Eureka. The interval itself turns the backoff off.
    pub fn max_interval(mut self, max: Duration) -> Self {
        self.max_interval = Some(max);
        self
    }

    /// How long after the start the first run is due; by default the interval. Zero is at once,
    /// through the scheduler.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.initial_delay = Some(delay);
        self
    }

    /// Draws each delay evenly from between `(1 - fraction)` times the interval and the interval,
    /// so that clients that began together do not stay together. From 0, the default, to 1.
    ///
    /// It only makes delays shorter, so they stay inside the bound, and spread at the bound as
    /// well. It does not change the initial delay.
    pub fn jitter(mut self, fraction: f64) -> Self {
        self.jitter = fraction;
        self
    }

    /// Starts the jitter from this number, so that a test sees the same delays each time.
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many runs may be in flight at once: 1 by default.
    ///
    /// A run begins only after the one before was settled. So this limits runs that timed out and
    /// have not ended: with 1, the next run is held back until they have; with 2, it may begin
    /// beside one of them.
    pub fn max_concurrent(mut self, runs: usize) -> Self {
        self.max_concurrent = runs;
        self
    }

    /// What happens to a future that is given up.
    pub fn given_up(mut self, what: GivenUp) -> Self {
        self.given_up = what;
        self
    }

    /// Limits [`run_now`](super::Supervised::run_now) to `burst` calls at once, and to `burst`
    /// calls in every `per` on average. By default there is no limit.
    pub fn on_demand_limit(mut self, burst: u32, per: Duration) -> Self {
        self.on_demand = Some((burst, per));
        self
    }

    /// Calls `hook` with each run when it is settled: with a success or failure on the thread that
    /// ran it, with a timeout or rejection on the timer thread, which it must not block. The next
    /// run begins when the hook has returned, so reports come in order and one at a time.
    ///
    /// It may own the [`Supervised`](super::Supervised), to cancel the task or to call `run_now`:
    /// the task drops the hook when it has ended. A panic in it is contained and reported.
    pub fn on_settled(mut self, hook: impl Fn(&RunReport) + Send + Sync + 'static) -> Self {
        self.on_settled = Some(SettledHook(Arc::new(hook)));
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that is out of its range, the value and the limit.
    pub fn build(self) -> Result<Supervision, SettingError> {
        let interval = self.interval;
        if interval < SHORTEST {
            return Err(SettingError::Interval { given: interval, min: SHORTEST });
        }
        let timeout = self.timeout.unwrap_or(interval);
        if timeout < SHORTEST {
            return Err(SettingError::Timeout { given: timeout, min: SHORTEST });
        }
        let max_interval =
            self.max_interval.unwrap_or_else(|| interval.saturating_mul(DEFAULT_GROWTH));
        if max_interval < interval {
            return Err(SettingError::MaxInterval { given: max_interval, interval });
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(SettingError::Jitter { given: self.jitter });
        }
        if self.max_concurrent == 0 {
            return Err(SettingError::MaxConcurrent { given: self.max_concurrent });
        }
        let on_demand = match self.on_demand {
            None => None,
            Some((burst, per)) => Some(check_on_demand(burst, per)?),
        };
        Ok(Supervision {
            settings: Settings {
                interval,
                timeout,
                max_interval,
                initial_delay: self.initial_delay.unwrap_or(interval),
                jitter: self.jitter,
                seed: self.seed,
                max_concurrent: self.max_concurrent,
                given_up: self.given_up,
                on_demand,
                on_settled: self.on_settled,
                name: self.name,
            },
        })
    }
}

fn check_on_demand(burst: u32, per: Duration) -> Result<OnDemand, SettingError> {
    if burst == 0 {
        return Err(SettingError::OnDemandBurst { given: burst });
    }
    let min = SHORTEST.saturating_mul(burst);
    if per < min {
        return Err(SettingError::OnDemandPeriod { given: per, burst, min });
    }
    let spacing = per / burst;
    Ok(OnDemand { spacing, tolerance: spacing.saturating_mul(burst - 1) })
}
