#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! (The text above is the crate's README, which has no links to items.)
//!
//! - Actors: [`Actor`], [`Context`], [`Props`]; begin and end: [`ActorSystem`], [`Builder`],
//!   [`close`](ActorSystem::close).
//! - To talk: [`tell`](ActorRef::tell), [`ask`](ActorRef::ask), [`Recipient`];
//!   [`stop`](ActorRef::stop) and [`kill`](ActorRef::kill).
//! - Time: [`timers`], [`Context::set_receive_timeout`], [`Scheduler`].
//! - Failures: [`supervision`].
//! - To look inside: [`metrics`], [`hooks`], [`System::timers_of`], [`System::lateness`],
//!   [`Builder::on_panic`], [`Builder::capture_spans`].
#![cfg_attr(docsrs, feature(doc_cfg))]
// What is for a thread is not built there.
#![cfg_attr(all(target_family = "wasm", target_os = "unknown"), allow(dead_code, unused_imports))]
// In dependency order: a folder uses only those above it.

mod sync;

#[macro_use]
mod base;

mod dispatcher;
mod mailbox;

mod cell;

mod refs;

mod actor;

mod system;

#[cfg(feature = "test-kit")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-kit")))]
pub mod test_kit;

#[cfg(test)]
mod tests;

/// What a program can have itself told, and what it is told then: [`Builder::on_dead_letter`],
/// [`Builder::on_slow`], [`Builder::on_late`], [`Builder::on_thread_start`].
///
/// ([`Builder::on_panic`] is told what [`supervision`] decides on.)
pub mod hooks {
    pub use crate::base::slow_receive::SlowReceive;
    pub use crate::base::threads::{ThreadKind, ThreadStart};
    pub use crate::cell::dead_letters::{DeadLetter, Subscription, Undelivered};
}

/// Counts: of a system ([`System::metrics`]), of one actor ([`ActorRef::metrics`]), and of the
/// busiest ([`System::busiest`]).
pub mod metrics {
    pub use crate::cell::metrics::SystemMetrics;
    pub use crate::refs::address::ActorMetrics;
    pub use crate::refs::system::ActorLoad;
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub use crate::system::metrics_reporter::MetricsReporter;
}

/// What becomes of an actor that panics or [fails](Context::fail): [`Props::supervision`] takes a
/// [`SupervisionStrategy`](supervision::SupervisionStrategy).
pub mod supervision {
    pub use crate::base::supervision::{Directive, Failure, Panic, SupervisionStrategy};
}

/// An actor's own timers, each with a key: [`Context::timers`], and [`System::timers_of`] for
/// others to look at them.
pub mod timers {
    pub use crate::actor::timers::{FixedRates, PendingTimer, Timers};
    pub use crate::base::timer_key::{ActorTimer, TimerKey};
}

pub use self::actor::context::{Actor, Context};
pub use self::actor::spawn::Props;
pub use self::base::error::{AskError, BuildError, SendError, SpawnError, StashFull, Unsendable};
pub use self::base::stop_reason::{StopReason, Terminated};
pub use self::mailbox::overflow::Overflow;
pub use self::refs::address::{ActorRef, Recipient, Telling, Termination, Watched, WeakActorRef};
pub use self::refs::ask::{Ask, Reply};
pub use self::refs::sends::Scheduler;
pub use self::refs::system::System;
pub use self::system::builder::Builder;
pub use self::system::close::{CloseError, ClosePolicy, CloseReport};
pub use self::system::owner::ActorSystem;
pub use self::system::settings::Settings;
pub use lars_base::backoff;
pub use lars_scheduler::{Cancellable, MissedTickBehavior, Refusal, ScheduleError};
