#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The modules stand in the order in which they may use each other: downwards never.

mod sync;

#[cfg(all(test, unix))]
#[path = "../tests/pty/mod.rs"]
mod tests_pty;

pub mod snapshot;

mod threads;

mod probe;

mod wire;

mod serve;

mod source;

mod connect;

mod text;

mod trend;

mod app;

mod view;

mod signals;

mod screen;

mod terminal;

mod svg;

#[cfg(feature = "durable")]
#[cfg_attr(docsrs, doc(cfg(feature = "durable")))]
pub mod durable;

pub use self::app::{App, Flow, Page};
pub use self::probe::{Probe, SlowLog};
pub use self::serve::{ServeError, Server, serve};
pub use self::snapshot::Snapshot;
pub use self::source::News;
pub use self::svg::svg;
pub use self::terminal::{Live, show, show_path};
