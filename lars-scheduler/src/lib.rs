#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! (The text above is the crate's README, which has no links to items.)
//!
//! - To schedule: [`schedule_once`](Handle::schedule_once), [`schedule_at`](Handle::schedule_at),
//!   [`schedule_with_fixed_delay`](Handle::schedule_with_fixed_delay),
//!   [`schedule_at_fixed_rate`](Handle::schedule_at_fixed_rate),
//!   [`schedule_repeating`](Handle::schedule_repeating),
//!   [`schedule_batch`](Handle::schedule_batch); with the options of [`Task`] and [`Periodic`].
//! - What was scheduled: [`cancel`](Cancellable::cancel), [`reset`](Cancellable::reset),
//!   [`cancel_on_drop`](Cancellable::cancel_on_drop).
//! - Starting and stopping: [`Builder`], [`stop`](LightArrayRevolverScheduler::stop),
//!   [`close`](LightArrayRevolverScheduler::close).
//! - To look inside: [`list`](Handle::list), [`metrics`](Handle::metrics), [`TaskIdentity`],
//!   [`Builder::on_slow`], [`Builder::on_panic`].
//! - Without a thread, in an event loop: [`TimerDriver`].
//! - In tests, games and simulations: [`VirtualTime`].
#![cfg_attr(docsrs, feature(doc_cfg))]
// In dependency order: a folder uses only those above it.

mod sync;

mod base;

mod executor;

mod engine;

mod api;

mod systems;

#[cfg(all(feature = "__bench", not(lars_loom)))]
#[doc(hidden)]
pub mod bench;

#[cfg(test)]
mod tests;

/// The examples of the pages beside the crate.
#[cfg(all(doctest, feature = "cron", feature = "serde"))]
mod pages {
    #[doc = include_str!("../../docs/semantics.md")]
    struct Semantics;

    #[doc = include_str!("../../docs/systems.md")]
    struct Systems;
}

/// How the workers of a pool sleep and are woken, for the pools of the crates on top. Not part of
/// the public interface: it may change in any release.
#[doc(hidden)]
pub mod idle {
    pub use crate::executor::idle::{Idle, Sleeper};
}

/// Containing the panics of foreign code, for the crates on top. Not part of the public
/// interface: it may change in any release.
#[doc(hidden)]
pub mod panics {
    pub use crate::base::panics::{contain, quietly};
}

/// Running something in the span of another thread, for the crates on top. Not part of the public
/// interface: it may change in any release.
#[doc(hidden)]
pub mod in_span {
    pub use crate::base::in_span::{CapturedSpan, InsideSpan};
}

/// The primitives of the shuttle build, for those of the crates on top.
#[cfg(lars_shuttle)]
#[doc(hidden)]
pub use self::sync::shuttled as shuttle_sync;

/// Those of the loom build.
#[cfg(lars_loom)]
#[doc(hidden)]
pub use self::sync::model as loom_sync;

pub use self::api::cancel::{CancelOnDrop, Cancellable};
pub use self::api::close::{CloseError, ClosePolicy, CloseReport};
pub use self::api::config::Builder;
pub use self::api::handle::Handle;
pub use self::api::listing::{
    Listing, ListingFuture, PendingTimer, TimerGroup, TimerKind, TimerQuery, WheelLevel,
};
pub use self::api::metrics::{Metrics, PoolMetrics};
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use self::api::metrics_reporter::MetricsReporter;
pub use self::api::pending::{PendingTask, StopFuture};
pub use self::api::rate::MissedTickBehavior;
pub use self::api::repeat::{IntoPeriodic, Periodic, Repeat, Start, Verdict};
pub use self::api::run_times::RunTime;
pub use self::api::scheduler::LightArrayRevolverScheduler;
pub use self::api::settings::Settings;
pub use self::api::timer_driver::TimerDriver;
pub use self::api::virtual_time::{NotIdle, VirtualTime};
pub use self::base::durations::Durations;
pub use self::base::error::{BuildError, ConfigError, Refusal, ScheduleError};
pub use self::base::identity::TaskIdentity;
pub use self::base::panics::{PanicIn, PanicReport};
pub use self::base::raw_task::{Due, TaskBody};
pub use self::base::slow::{RanOn, SlowTask};
pub use self::base::threads::{ThreadKind, ThreadStart};
#[cfg(feature = "rayon")]
pub use self::executor::RayonExecutor;
#[cfg(feature = "tokio")]
pub use self::executor::TokioExecutor;
pub use self::executor::pool::{Pool, PoolBuilder};
pub use self::executor::task::{IntoTask, NoHook, Task};
pub use self::executor::{Executor, Inline, Rejected, Runnable, SpawnExecutor};

// Each system is a module of its own. No model covers those that loom does not see.
pub use self::systems::backoff;
#[cfg(not(lars_loom))]
pub use self::systems::{
    call, debounce, delay_queue, future, repeated_timer, retry, scheduled_executor, supervised,
    wall_clock, worker,
};
