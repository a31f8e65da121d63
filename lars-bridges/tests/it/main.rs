//! The tests of lars-bridges, a module for each library.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../../../lars-scheduler/tests/common/mod.rs"]
mod common;

mod metrics;
mod rayon;
mod tokio;
