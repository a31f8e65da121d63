//! What users see.

mod answers;
mod fired;
pub mod inspection;
mod outcome;
mod payload;
mod which;

mod timers;

pub mod query;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod observer;

#[cfg(feature = "actors")]
mod address;

pub mod schedule;

mod handler;

mod durable;

mod closing;

#[cfg(feature = "metrics")]
mod metrics_reporter;

#[cfg(feature = "actors")]
pub mod actors;

#[cfg(feature = "test-kit")]
pub mod test_kit;

pub use self::closing::Closing;
pub use self::durable::{Builder, Durable, Metrics};
pub use self::fired::Fired;
pub use self::handler::Handler;
#[cfg(feature = "metrics")]
pub use self::metrics_reporter::MetricsReporter;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use self::observer::Observer;
pub use self::outcome::{IntoOutcome, Outcome};
pub use self::payload::{Payload, UpgradeError};
pub use self::timers::Timers;
