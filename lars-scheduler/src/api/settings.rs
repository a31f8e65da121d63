//! The settings of a scheduler as a value, with the defaults.

use std::time::Duration;

use crate::api::close::ClosePolicy;
use crate::base::backpressure::Backpressure;
use crate::base::tick::Tick;

/// The tick of a scheduler in real time.
pub(crate) const DEFAULT_TICK: Duration = Duration::from_millis(1);
/// The tick of a scheduler in virtual time: everything fires at its exact deadline.
pub(crate) const VIRTUAL_TICK: Duration = Tick::MIN;
const DEFAULT_WHEEL: usize = 512;
const DEFAULT_NAME: &str = "lars-scheduler";
/// How long a task may run on the timer thread.
const SLOW_INLINE: Duration = Duration::from_millis(10);
/// How long a task may run on the pool.
const SLOW_ON_POOL: Duration = Duration::from_secs(1);
const DEFAULT_SHUTDOWN: Duration = Duration::from_secs(5);

/// All settings of a [`Builder`](crate::Builder) that are plain values, for programs that read them
/// from a file. Executors and hooks are set on the builder.
///
/// Each field means what the builder's method of that name says. The values are checked when the
/// scheduler is built.
///
/// With the feature `serde` it can be read and written. Durations are written as `"5ms"` or
/// `"1m 30s"`. A field that is missing has its default, and an unknown field is an error.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler, Settings};
/// use std::time::Duration;
///
/// let mut settings = Settings::default();
/// settings.tick_duration = Some(Duration::from_millis(5));
/// settings.close_policy = ClosePolicy::RunMarked;
/// let scheduler = LightArrayRevolverScheduler::builder().settings(settings).build()?;
/// assert_eq!(scheduler.tick_duration(), Duration::from_millis(5));
///
/// let mut wrong = Settings::default();
/// wrong.ticks_per_wheel = 100;
/// let error = LightArrayRevolverScheduler::builder().settings(wrong).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "ticks_per_wheel is 100, but it must be a power of two between 2 and 65536",
/// );
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Settings {
    /// [`Builder::tick_duration`](crate::Builder::tick_duration); `None` is 1 ms, and 1 ns in
    /// virtual time.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub tick_duration: Option<Duration>,
    /// [`Builder::ticks_per_wheel`](crate::Builder::ticks_per_wheel); 512.
    pub ticks_per_wheel: usize,
    /// [`Builder::coalesce`](crate::Builder::coalesce); zero.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub coalesce: Duration,
    /// [`Builder::short_slices`](crate::Builder::short_slices); `false`.
    pub short_slices: bool,
    /// [`Builder::count_suspend`](crate::Builder::count_suspend); `false`.
    pub count_suspend: bool,
    /// [`Builder::max_pending`](crate::Builder::max_pending); `None` is no limit.
    pub max_pending: Option<usize>,
    /// [`Builder::backpressure`](crate::Builder::backpressure); `Wait`.
    pub backpressure: Backpressure,
    /// [`Builder::thread_name`](crate::Builder::thread_name); `None` is `lars-scheduler`.
    pub thread_name: Option<String>,
    /// [`Builder::stack_size`](crate::Builder::stack_size), in bytes; `None` is that of std.
    pub stack_size: Option<usize>,
    /// [`PoolBuilder::threads`](crate::executor::PoolBuilder::threads); `None` is the number of
    /// cores.
    pub pool_threads: Option<usize>,
    /// [`PoolBuilder::queue`](crate::executor::PoolBuilder::queue); `None` is no limit.
    pub pool_queue: Option<usize>,
    /// [`PoolBuilder::stack_size`](crate::executor::PoolBuilder::stack_size), in bytes; `None` is
    /// that of std.
    pub pool_stack_size: Option<usize>,
    /// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout); 5 s.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub shutdown_timeout: Duration,
    /// [`Builder::close_policy`](crate::Builder::close_policy); `RunPending`.
    pub close_policy: ClosePolicy,
    /// [`Builder::slow_inline`](crate::Builder::slow_inline); 10 ms.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub slow_inline: Duration,
    /// [`Builder::slow_on_pool`](crate::Builder::slow_on_pool); 1 s.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub slow_on_pool: Duration,
    /// [`Builder::explain_late`](crate::Builder::explain_late); `None` explains nothing.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub explain_late: Option<Duration>,
}

impl Settings {
    /// The name of the timer thread.
    pub(crate) fn name(&self) -> &str {
        self.thread_name.as_deref().unwrap_or(DEFAULT_NAME)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick_duration: None,
            ticks_per_wheel: DEFAULT_WHEEL,
            coalesce: Duration::ZERO,
            short_slices: false,
            count_suspend: false,
            max_pending: None,
            backpressure: Backpressure::default(),
            thread_name: None,
            stack_size: None,
            pool_threads: None,
            pool_queue: None,
            pool_stack_size: None,
            shutdown_timeout: DEFAULT_SHUTDOWN,
            close_policy: ClosePolicy::default(),
            slow_inline: SLOW_INLINE,
            slow_on_pool: SLOW_ON_POOL,
            explain_late: None,
        }
    }
}
