//! The tests of lars-jobs, a module for each subject. One binary, because each one more takes
//! seconds to link. Tests that need a process of their own have one.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../../../lars-scheduler/tests/common/mod.rs"]
mod common;

mod call;
mod debounce;
mod delay_queue;
mod durations;
mod held_back;
mod identity;
mod kept_list;
mod repeated_timer;
mod retry;
mod scheduled_executor;
mod serde;
#[cfg(all(target_os = "linux", not(miri)))]
mod stopped;
mod supervised;
mod wall_clock;
mod worker;
