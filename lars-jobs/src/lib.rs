#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! (The text above is the crate's README, which has no links to items.)
//!
//! - For a result: [`call`], [`scheduled_executor`].
//! - One after the other, on any executor: [`worker`].
//! - Again and again: [`supervised`], [`repeated_timer`], [`wall_clock`].
//! - Less often: [`debounce`]. Until it succeeds: [`retry`].
//! - For consumers that wait: [`delay_queue`].
//! - [`Jobs`] adds the methods of [`call`] and [`retry`] to a scheduler's handle.
#![cfg_attr(docsrs, feature(doc_cfg))]
// What is for a thread is not built there.
#![cfg_attr(all(target_family = "wasm", target_os = "unknown"), allow(dead_code, unused_imports))]
// In dependency order: a module uses only those above it.

mod contained;
mod label;
mod when_due;

pub mod call;
pub mod debounce;
pub mod delay_queue;
pub mod repeated_timer;
pub mod retry;
pub mod supervised;
pub mod wall_clock;
pub mod worker;

mod jobs;

pub mod scheduled_executor;

#[cfg(all(test, lars_shuttle))]
mod tests;

/// The examples of the page beside the crate.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/systems.md")]
    struct Systems;
}

pub use self::jobs::Jobs;
pub use lars_base::backoff;
