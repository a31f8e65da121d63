//! What users hold: the scheduler, handles to it, and what they have scheduled.
//!
//! The modules are in dependency order: each uses only those above it.

pub(crate) mod cancel;
pub(crate) mod metrics;
pub(crate) mod pending;

pub(crate) mod handle;

pub(crate) mod batch;
pub(crate) mod close;
pub(crate) mod lateness;
pub(crate) mod listing;
pub(crate) mod run_times;
pub(crate) mod waits;

pub(crate) mod repeat;

pub(crate) mod settings;

pub(crate) mod config;

pub(crate) mod scheduler;

pub(crate) mod turned;

pub(crate) mod timer_driver;
pub(crate) mod virtual_time;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) mod browser;
