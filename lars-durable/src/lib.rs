#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! - A node: [`Durable`], its [`Builder`] and [`Handler`]s, and [`close`](Durable::close).
//! - To schedule: [`Timers`], with the options in [`schedule`]; every call returns a [`Submitted`].
//! - In a transaction of your own: in a file `submit_in_file`, `cancel_in_file` and
//!   `complete_in_file` (feature `sqlite`), in PostgreSQL [`Fired`]'s `complete_in` (feature
//!   `postgres`); their errors are `TransactionError`.
//! - To look inside: [`Durable::inspect`], [`Timers::get`]; what they show is in [`inspection`].
//!   From outside, without being a node: `Observer` (features `sqlite`, `postgres`).
//! - Many timers at once, by what they have in common: [`query`].
//! - Actors by name: `actors` (feature `actors`).
//! - To test in virtual time: `test_kit` (feature `test-kit`).
//! - What a timer carries: [`Payload`]. What a handler sees: [`Fired`]; what it says: [`Outcome`].
//! - Errors: [`Error`], whose variants say what is known of the outcome; [`StartError`].
#![cfg_attr(docsrs, feature(doc_cfg))]
// In dependency order: a module uses only those above it.

mod sync;

#[cfg(test)]
mod failpoint;

mod time;

mod error;
mod model;

// What a feature adds is behind its doors: a store, parts of the interface. What is below them is
// the same in every build, and the linker leaves out what nobody calls.
#[cfg_attr(
    not(all(feature = "actors", feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "behind a door that this build has not")
)]
mod store;

#[cfg_attr(
    not(all(feature = "actors", feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "behind a door that this build has not")
)]
mod engine;

#[cfg_attr(
    not(all(feature = "actors", feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "behind a door that this build has not")
)]
mod runtime;

mod api;

#[cfg(feature = "metrics")]
pub use self::api::MetricsReporter;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use self::api::Observer;
#[cfg(feature = "actors")]
pub use self::api::actors;
#[cfg(feature = "test-kit")]
pub use self::api::test_kit;
pub use self::api::{
    Builder, Closing, Durable, Fired, Handler, IntoOutcome, Metrics, Outcome, Payload, Timers,
    UpgradeError,
};
pub use self::api::{inspection, query, schedule};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use self::error::TransactionError;
pub use self::error::{CloseError, Error, Refused, StartError};
pub use self::model::{CancelReason, OnConflict};
pub use self::runtime::{CancelToken, Submitted};
#[cfg(feature = "sqlite")]
pub use self::store::Synchronous;

pub use lars_base::backoff;
pub use lars_jobs::wall_clock::MissedRuns;
pub use lars_scheduler::MissedTickBehavior;

#[cfg(test)]
mod proof;
