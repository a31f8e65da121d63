//! What threads do at the same time: the tests that also run under Miri and the sanitizers.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod batch;
mod cancel;
mod close;
mod handover;
mod repeat;
mod reset;
mod stress;
mod together;
