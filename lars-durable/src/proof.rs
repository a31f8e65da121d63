//! What holds the promises: one suite for all stores, a simulation of several nodes over a store
//! that fails, real processes that are killed, and a disk that loses what was not synced. What
//! callers and handlers saw goes through one checker.

mod conformance;
mod history;
mod kill;
mod node;
#[cfg(feature = "postgres")]
#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
mod postgres;
mod power;
mod simulation;
mod tempdir;
