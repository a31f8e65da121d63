//! What users see.

mod fired;
mod inspect;
mod outcome;
mod payload;
mod timers;

#[cfg(feature = "actors")]
mod address;

mod schedule;

mod handler;

mod durable;

#[cfg(feature = "actors")]
mod actors;

#[cfg(feature = "test-kit")]
pub mod test_kit;

#[cfg(feature = "actors")]
pub use self::actors::{Delivery, DurableActor, DurableContext, Envelope, Hosted, Kind, Reminders};
pub use self::durable::{Builder, Durable, Metrics};
pub use self::fired::Fired;
pub use self::handler::Handler;
pub use self::inspect::{
    Count, DatabaseInspection, HandlerInspection, Inspection, NodeInspection, OldestSnapshot,
    Percentiles,
};
pub use self::outcome::{IntoOutcome, Outcome};
pub use self::payload::{Payload, UpgradeError};
pub use self::schedule::{Cron, Once, Rate, Repeated, Schedule};
pub use self::timers::{
    Accepted, Cancel, Parked, ParkedPage, ParkedQuery, Placement, TimerInfo, Timers,
};
