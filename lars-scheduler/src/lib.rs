#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! (The text above is the crate's README, which is read in places that know no links to items.)
//!
//! - To schedule: [`schedule_once`](Handle::schedule_once), [`schedule_at`](Handle::schedule_at),
//!   [`schedule_with_fixed_delay`](Handle::schedule_with_fixed_delay),
//!   [`schedule_at_fixed_rate`](Handle::schedule_at_fixed_rate), [`schedule_repeating`](Handle::schedule_repeating),
//!   [`schedule_batch`](Handle::schedule_batch); with the options of [`Task`] and [`Periodic`].
//! - What was scheduled: [`cancel`](Cancellable::cancel), [`reset`](Cancellable::reset),
//!   [`cancel_on_drop`](Cancellable::cancel_on_drop).
//! - A scheduler, begin and end: [`Builder`], [`stop`](LightArrayRevolverScheduler::stop),
//!   [`close`](LightArrayRevolverScheduler::close).
//! - In tests: [`VirtualTime`].
#![cfg_attr(docsrs, feature(doc_cfg))]
// The modules stand in the order in which they may use each other: downwards never.

mod sync;

mod error;
mod tick;

mod body;
mod clock;
mod report;
mod wait;

mod executor;

mod task;

mod entry;
mod stack;

mod block;

mod intake;
mod lane;
mod metrics;
mod sent;
mod shutdown;
mod sleep;
mod wheel;

mod arena;

mod shared;

mod dispatch;

mod cancel;
mod driver;
mod handle;

mod batch;
mod close;
mod repeat;
mod timer_thread;

mod config;
mod scheduler;
mod virtual_time;

#[cfg(all(feature = "__bench", not(lars_loom)))]
#[doc(hidden)]
pub mod bench;

// What stands on the scheduler and uses its public side only; `support` is the exception. No model covers it.
#[cfg(not(lars_loom))]
mod support;

// Pure arithmetic; those who are modelled use it.
pub mod backoff;
#[cfg(not(lars_loom))]
pub mod call;
#[cfg(not(lars_loom))]
pub mod delay_queue;
#[cfg(not(lars_loom))]
pub mod future;
#[cfg(not(lars_loom))]
pub mod repeated_timer;
#[cfg(not(lars_loom))]
pub mod retry;
#[cfg(not(lars_loom))]
pub mod scheduled_executor;
#[cfg(not(lars_loom))]
pub mod supervised;
#[cfg(not(lars_loom))]
pub mod wall_clock;
#[cfg(not(lars_loom))]
pub mod worker;

#[cfg(all(test, lars_loom))]
mod models;
#[cfg(all(test, lars_shuttle))]
mod shuttles;

/// The primitives of the shuttle build, for those of the crates on top.
#[cfg(lars_shuttle)]
#[doc(hidden)]
pub use self::sync::shuttled as shuttle_sync;

pub use self::body::{Due, TaskBody};
pub use self::cancel::{CancelOnDrop, Cancellable};
pub use self::close::{CloseError, ClosePolicy, CloseReport};
pub use self::config::Builder;
pub use self::error::{BuildError, ConfigError, Refusal, ScheduleError};
#[cfg(feature = "rayon")]
pub use self::executor::RayonExecutor;
#[cfg(feature = "tokio")]
pub use self::executor::TokioExecutor;
pub use self::executor::pool::Pool;
pub use self::executor::{Executor, Inline, Rejected, Runnable, SpawnExecutor};
pub use self::handle::Handle;
pub use self::metrics::{Lateness, Metrics};
pub use self::repeat::{IntoPeriodic, MissedTickBehavior, Periodic, Repeat, Verdict};
pub use self::report::{PanicIn, PanicReport};
pub use self::scheduler::LightArrayRevolverScheduler;
pub use self::shutdown::{PendingTask, StopFuture};
pub use self::task::{IntoTask, NoHook, Task};
pub use self::virtual_time::{NotIdle, VirtualTime};
