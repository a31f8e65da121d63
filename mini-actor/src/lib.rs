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
//! - Time: [`Context::timers`], [`Context::set_receive_timeout`], [`Scheduler`].
//! - To look inside: [`System::metrics`], [`System::busiest`], [`System::timers_of`],
//!   [`Timers::pending`]; [`Builder::on_slow`], [`Builder::on_panic`], [`Builder::on_dead_letter`],
//!   [`Builder::on_thread_start`], [`Builder::capture_spans`].
#![cfg_attr(docsrs, feature(doc_cfg))]
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

pub use self::actor::context::{Actor, Context};
pub use self::actor::spawn::Props;
pub use self::actor::timers::{PendingTimer, Timers};
pub use self::base::error::{AskError, BuildError, SendError, SpawnError, StashFull, Unsendable};
pub use self::base::slow_receive::SlowReceive;
pub use self::base::stop_reason::{StopReason, Terminated};
pub use self::base::supervision::{Directive, Failure, Panic, Supervision};
pub use self::base::threads::{ThreadKind, ThreadStart};
pub use self::base::timer_key::{ActorTimer, TimerKey};
pub use self::cell::dead_letters::{DeadLetter, Subscription, Undelivered};
pub use self::cell::registry::SystemMetrics;
pub use self::mailbox::overflow::Overflow;
pub use self::refs::address::{
    ActorMetrics, ActorRef, Recipient, Telling, Termination, Watched, WeakActorRef,
};
pub use self::refs::ask::{Ask, Reply};
pub use self::refs::sends::Scheduler;
pub use self::refs::system::{ActorLoad, System};
pub use self::system::close::{CloseError, ClosePolicy, CloseReport};
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use self::system::metrics_reporter::MetricsReporter;
pub use self::system::owner::{ActorSystem, Builder};
pub use self::system::settings::Settings;
pub use lars_scheduler::backoff;
pub use lars_scheduler::{Cancellable, MissedTickBehavior, Refusal, ScheduleError};
