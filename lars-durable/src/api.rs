//! What users see.

mod fired;
mod inspect;
mod outcome;
mod payload;
mod timers;

mod schedule;

mod handler;

mod durable;

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
