#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! - A node: [`Durable`], its [`Builder`] and [`Handler`]s, and [`close`](Durable::close).
//! - To look inside: [`Durable::inspect`], [`Timers::parked`].
//! - To schedule: [`Timers`], with the options of [`Schedule`]; every call returns a [`Submitted`].
//! - Actors by name: `Kind`, `DurableActor`, `Timers::tell` (feature `actors`).
//! - To test in virtual time: `test_kit` (feature `test-kit`).
//! - What a timer carries: [`Payload`]. What a handler sees: [`Fired`]; what it says: [`Outcome`].
//! - Errors: [`Error`], whose variants say what is known of the outcome; [`StartError`].
// In dependency order: a module uses only those above it.

mod sync;

#[cfg(test)]
mod failpoint;

mod time;

mod error;
mod model;

mod store;

mod engine;

mod runtime;

mod api;

#[cfg(feature = "test-kit")]
pub use self::api::test_kit;
pub use self::api::{
    Accepted, Builder, Cancel, Count, Cron, DatabaseInspection, Durable, Fired, Handler,
    HandlerInspection, Inspection, IntoOutcome, Metrics, NodeInspection, OldestSnapshot, Once,
    Outcome, Parked, ParkedPage, ParkedQuery, Payload, Percentiles, Placement, Rate, Repeated,
    Schedule, TimerInfo, Timers, UpgradeError,
};
#[cfg(feature = "actors")]
pub use self::api::{Delivery, DurableActor, DurableContext, Envelope, Hosted, Kind, Reminders};
#[cfg(feature = "postgres")]
pub use self::error::CompleteError;
pub use self::error::{CloseError, Error, Refused, StartError};
pub use self::model::OnConflict;
pub use self::runtime::Submitted;
pub use self::store::Synchronous;

#[cfg(test)]
mod proof;
