#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! - A node: [`Durable`], its [`Builder`] and [`Handler`]s, and [`close`](Durable::close).
//! - To look inside: [`Durable::inspect`], [`Timers::parked`].
//! - To schedule: [`Timers`], with the options of [`Schedule`]; every call returns a [`Submitted`].
//! - What a timer carries: [`Payload`]. What a handler sees: [`Fired`]; what it says: [`Outcome`].
//! - Errors: [`Error`], whose variants say what is known of the outcome; [`StartError`].
// In dependency order: a module uses only those above it.

mod sync;

mod time;

#[cfg(test)]
mod failpoint;

mod error;
mod model;

mod store;

mod engine;

mod runtime;

mod api;

pub use self::api::{
    Accepted, Builder, Cancel, Count, Cron, DatabaseInspection, Durable, Fired, Handler,
    HandlerInspection, Inspection, IntoOutcome, Metrics, NodeInspection, OldestSnapshot, Once,
    Outcome, Parked, ParkedPage, ParkedQuery, Payload, Percentiles, Placement, Rate, Repeated,
    Schedule, TimerInfo, Timers, UpgradeError,
};
#[cfg(feature = "postgres")]
pub use self::error::CompleteError;
pub use self::error::{CloseError, Error, Refused, StartError};
pub use self::model::OnConflict;
pub use self::runtime::Submitted;
pub use self::store::Synchronous;

#[cfg(test)]
mod proof;
