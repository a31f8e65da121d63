#![doc = include_str!("../README.md")]
// The modules stand in the order in which they may use each other. What a user writes (`actor`) and what it
// is passed (`context`) are the one pair that know each other.

mod sync;

mod dead_letters;
mod error;
mod mailbox;

mod registry;

mod cell;

mod address;

mod sends;

mod spawn;

mod actor;
mod context;

mod system;

pub use self::actor::{Actor, StopReason};
pub use self::address::ActorRef;
pub use self::context::Context;
pub use self::dead_letters::DeadLetter;
pub use self::error::{BuildError, CloseError, SendError, SpawnError};
pub use self::sends::Scheduler;
pub use self::spawn::{System, SystemMetrics};
pub use self::system::{ActorSystem, Builder, CloseReport};
pub use lars_scheduler::{Cancellable, MissedTickBehavior, ScheduleError};
