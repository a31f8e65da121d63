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
//! - In async code: [`future`], and [`time`] with tokio's names.
//! - To look inside: [`list`](Handle::list), [`metrics`](Handle::metrics), [`TaskIdentity`],
//!   [`Builder::on_slow`], [`Builder::on_panic`].
//! - Without a thread, in an event loop: [`TimerDriver`].
//! - In tests, games and simulations: [`VirtualTime`].
#![cfg_attr(docsrs, feature(doc_cfg))]
// What is for a thread is not built there.
#![cfg_attr(all(target_family = "wasm", target_os = "unknown"), allow(dead_code, unused_imports))]
// In dependency order: a folder uses only those above it.

mod sync;

mod base;

pub mod executor;

mod engine;

mod api;

#[cfg(not(lars_loom))] // no model has futures or systems
pub mod future;

#[cfg(not(lars_loom))]
pub mod time;

pub mod extend;

#[cfg(all(feature = "__bench", not(lars_loom)))]
#[doc(hidden)]
pub mod bench;

#[cfg(test)]
mod tests;

pub use self::api::cancel::{CancelOnDrop, Cancellable};
pub use self::api::close::{CloseError, ClosePolicy, CloseReport};
pub use self::api::config::Builder;
pub use self::api::handle::Handle;
pub use self::api::metrics::Metrics;
pub use self::api::pending::{PendingTask, StopFuture};
pub use self::api::repeat::{IntoPeriodic, Periodic, Repeat, Start, Verdict};
pub use self::api::scheduler::LightArrayRevolverScheduler;
pub use self::api::settings::Settings;
pub use self::api::timer_driver::TimerDriver;
pub use self::api::virtual_time::{NotIdle, VirtualTime};
pub use self::base::backpressure::Backpressure;
pub use self::base::error::{BuildError, ConfigError, Refusal, ScheduleError};
pub use self::base::identity::TaskIdentity;
pub use self::executor::contract::{Executor, Inline};
pub use self::executor::pool::Pool;
pub use self::executor::task::{IntoTask, NoHook, Task};

pub use lars_base::rate::MissedTickBehavior;

/// Timers in a web page, or in another host of `wasm32-unknown-unknown`. Only that target has this.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub mod browser {
    pub use crate::api::browser::{BrowserScheduler, Host, turn};
    pub use lars_base::time::Instant;
}

/// What is pending: what [`Handle::list`] asks for, and what it finds.
pub mod listing {
    pub use crate::api::listing::{
        ListedTimer, Listing, ListingFuture, TimerGroup, TimerKind, TimerQuery, WheelLevel,
    };
}

/// What [`Handle::metrics`], [`Handle::run_times`] and [`Handle::waits`] are made of.
pub mod metrics {
    pub use crate::api::metrics::PoolMetrics;
    pub use crate::api::run_times::RunTime;
    pub use crate::api::waits::ThreadWaits;
    pub use lars_base::durations::Durations;
}

/// Why tasks begin late: what [`Handle::lateness`] and [`Builder::on_late`] tell.
pub mod late {
    pub use crate::api::lateness::{LateCause, LateRow, Lateness};
    pub use crate::base::late::Cause;
    pub use crate::base::late::parts::Who;
    pub use crate::base::late::report::{Late, LateShare};
}

/// What the hooks of a [`Builder`] are told: of panics, of slow tasks, and of threads that start.
pub mod hooks {
    pub use crate::base::panics::{PanicIn, PanicReport};
    pub use crate::base::slow::{RanOn, SlowTask};
    pub use crate::base::threads::{ThreadKind, ThreadStart};
}
