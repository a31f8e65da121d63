#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! (The text above is the crate's README, which is read in places that know no links to items.)
//!
//! - Actors: [`Actor`], [`Context`], [`Props`]; begin and end: [`ActorSystem`], [`Builder`],
//!   [`close`](ActorSystem::close).
//! - To talk: [`tell`](ActorRef::tell), [`ask`](ActorRef::ask), [`Recipient`]; [`stop`](ActorRef::stop) and
//!   [`kill`](ActorRef::kill).
//! - Time: [`Context::timers`], [`Context::set_receive_timeout`], [`Scheduler`].
#![cfg_attr(docsrs, feature(doc_cfg))]
// The modules stand in the order in which they may use each other: downwards never.

mod sync;

mod panics;
mod stop_reason;
mod supervision;

mod error;
mod mailbox;
mod oneshot;
mod signal;

mod dead_letters;
mod idle;

mod dispatcher;

mod registry;

mod cell;

mod address;

mod ask;
mod sends;

mod handle;

mod timers;

mod actor;

mod life;
mod pipe;

mod spawn;

mod shutdown;
mod system;

#[cfg(feature = "test-kit")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-kit")))]
pub mod test_kit;

#[cfg(all(test, lars_shuttle))]
mod shuttles;

pub use self::actor::{Actor, Context};
pub use self::address::{ActorMetrics, ActorRef, Recipient, Termination, WeakActorRef};
pub use self::ask::{Ask, Reply};
pub use self::dead_letters::{DeadLetter, Subscription, Undelivered};
pub use self::error::{AskError, BuildError, SendError, SpawnError, StashFull, Unsendable};
pub use self::handle::System;
pub use self::mailbox::Overflow;
pub use self::registry::SystemMetrics;
pub use self::sends::Scheduler;
pub use self::shutdown::{CloseError, ClosePolicy, CloseReport};
pub use self::spawn::Props;
pub use self::stop_reason::{StopReason, Terminated};
pub use self::supervision::{Directive, Failure, Panic, Supervision};
pub use self::system::{ActorSystem, Builder};
pub use self::timers::{TimerKey, Timers};
pub use lars_scheduler::backoff;
pub use lars_scheduler::{Cancellable, MissedTickBehavior, Refusal, ScheduleError};
