//! The tests of lars-top, as its users see it, a module for each subject.

#[path = "../common/mod.rs"]
mod common;
#[cfg(unix)]
#[path = "../postgres/mod.rs"]
mod postgres;
#[cfg(unix)]
#[path = "../pty/mod.rs"]
mod pty;

mod durable;
mod live;
mod picture;
mod probe;
mod socket;
mod terminal;
mod views;
