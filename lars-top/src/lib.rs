#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! - What is looked at: [`Probe`], with a [`SlowLog`] if slow tasks are to be remembered.
//! - From outside: [`serve()`]. The view itself, with the feature `terminal`: `show`, `Live`.
//! - To log or send what it shows: [`Snapshot`], whose parts are in [`snapshot`]; [`trend`] and
//!   [`text`] make rates and texts of snapshots.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The modules stand in the order in which they may use each other: downwards never. What is for
// the terminal alone is behind its feature; what it uses of the others is not missed without it.

#[cfg_attr(not(feature = "terminal"), allow(unused_imports, reason = "for the terminal"))]
mod sync;

#[cfg(all(test, unix))]
#[path = "../tests/pty/mod.rs"]
mod tests_pty;

pub mod snapshot;

mod threads;

mod probe;

#[cfg_attr(not(feature = "terminal"), allow(dead_code, reason = "for the terminal"))]
mod wire;

mod serve;

#[cfg(feature = "terminal")]
mod source;

#[cfg(feature = "terminal")]
mod connect;

#[cfg_attr(not(feature = "terminal"), allow(dead_code, reason = "for the terminal"))]
pub mod text;

#[cfg_attr(not(feature = "terminal"), allow(dead_code, reason = "for the terminal"))]
pub mod trend;

#[cfg(feature = "terminal")]
mod app;

#[cfg(feature = "terminal")]
mod view;

#[cfg(feature = "terminal")]
mod signals;

#[cfg(feature = "terminal")]
mod screen;

#[cfg(feature = "terminal")]
mod terminal;

#[cfg(feature = "terminal")]
mod svg;

#[cfg(feature = "durable")]
#[cfg_attr(docsrs, doc(cfg(feature = "durable")))]
pub mod libpq;

#[cfg(all(feature = "durable", feature = "terminal"))]
#[cfg_attr(docsrs, doc(cfg(feature = "durable")))]
pub mod durable;

#[cfg(feature = "terminal")]
pub use self::app::{App, Flow, Page};
pub use self::probe::{Probe, SlowLog};
pub use self::serve::{ServeError, Server, serve};
pub use self::snapshot::Snapshot;
#[cfg(feature = "terminal")]
pub use self::source::News;
#[cfg(feature = "terminal")]
pub use self::svg::svg;
#[cfg(feature = "terminal")]
pub use self::terminal::{Live, show, show_path};
