//! The settings of a system as a value.

use std::time::Duration;

use crate::system::close::ClosePolicy;

/// All settings of a [`Builder`](crate::Builder) that are plain values, for programs that read them
/// from a file. Hooks are set on the builder.
///
/// Each field means what the builder's method of that name says. The values are checked when the
/// system is built.
///
/// With the feature `serde` it can be read and written. Durations are written as `"5ms"` or
/// `"1m 30s"`. A field that is missing has its default, and an unknown field is an error.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{ActorSystem, Settings};
///
/// let mut settings = Settings::default();
/// settings.threads = Some(2);
/// settings.scheduler.max_pending = Some(1_000_000);
/// let system = ActorSystem::builder("server").settings(settings).build()?;
/// # drop(system);
///
/// let mut wrong = Settings::default();
/// wrong.throughput = 0;
/// let error = ActorSystem::builder("server").settings(wrong).build().unwrap_err();
/// assert_eq!(error.to_string(), "throughput is 0, but it must be between 1 and 1048576");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Settings {
    /// [`Builder::threads`](crate::Builder::threads); `None` is the number of cores.
    pub threads: Option<usize>,
    /// [`Builder::throughput`](crate::Builder::throughput); 64.
    pub throughput: usize,
    /// [`Builder::time_slice`](crate::Builder::time_slice); `None` is no limit.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub time_slice: Option<Duration>,
    /// [`Builder::slow_receive`](crate::Builder::slow_receive); 100 ms.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub slow_receive: Duration,
    /// [`Builder::explain_late`](crate::Builder::explain_late); `None` explains nothing. Otherwise
    /// it is also that of the scheduler, unless `scheduler` has its own.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub explain_late: Option<Duration>,
    /// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout); 5 s.
    #[cfg_attr(feature = "serde", serde(with = "humantime_serde"))]
    pub shutdown_timeout: Duration,
    /// [`Builder::close_policy`](crate::Builder::close_policy); `SendPending`.
    pub close_policy: ClosePolicy,
    /// Those of the system's scheduler. If they have no `thread_name`, it is named after the
    /// system.
    pub scheduler: lars_scheduler::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: None,
            throughput: 64,
            time_slice: None,
            slow_receive: Duration::from_millis(100),
            explain_late: None,
            shutdown_timeout: Duration::from_secs(5),
            close_policy: ClosePolicy::default(),
            scheduler: lars_scheduler::Settings::default(),
        }
    }
}
