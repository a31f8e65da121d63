#![doc = include_str!("../README.md")]
// The modules stand in the order in which they may use each other: downwards never.

mod sync;

mod dead_letters;
mod error;
mod mailbox;
mod stop_reason;

mod registry;

mod cell;

mod address;

mod sends;

mod handle;

mod actor;

mod spawn;

mod system;

pub use self::actor::{Actor, Context};
pub use self::address::ActorRef;
pub use self::dead_letters::DeadLetter;
pub use self::error::{BuildError, CloseError, SendError, SpawnError};
pub use self::handle::{System, SystemMetrics};
pub use self::sends::Scheduler;
pub use self::stop_reason::StopReason;
pub use self::system::{ActorSystem, Builder, CloseReport};
pub use lars_scheduler::{Cancellable, ClosePolicy, MissedTickBehavior, ScheduleError};

// The pages that have code in them, compiled and run like every other example.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/semantics.md")]
    struct Semantics;
}
