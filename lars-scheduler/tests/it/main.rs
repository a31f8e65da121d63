//! The tests of lars-scheduler, a module for each subject. One binary, because each one more takes
//! seconds to link. Tests that need a process of their own have one.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod bounded_pool;
mod durations;
mod futures;
mod histogram;
mod identity;
mod idle;
mod late;
mod listing;
mod lost;
mod metrics;
mod once;
mod panics;
mod run_times;
mod serde;
mod series;
mod settings;
mod slow;
mod threads;
mod timer_driver;
mod timer_thread;
mod tokio_names;
mod virtual_time;
