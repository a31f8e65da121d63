//! The tests of lars-web, as a browser sees it but for its scripts, a module for each subject.
#![allow(missing_docs, clippy::disallowed_methods)]

mod browser;
#[cfg(unix)]
#[path = "../../../lars-top/tests/postgres/mod.rs"]
mod server;

mod actions;
mod files;
mod guard;
mod live;
mod postgres;
mod program;
mod timers;
