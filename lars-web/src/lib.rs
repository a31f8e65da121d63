#![doc = include_str!("../README.md")]
//!
//! # Where it is
//!
//! [`Console`] makes the pages, of a [`Probe`] and of groups of durable timers. [`new_token`] is
//! for those who let it change something.
#![cfg_attr(docsrs, feature(doc_cfg))]
// In dependency order: a module uses only those above it.

mod sync;

mod html;

mod filter;

mod source;

mod feed;

mod desk;

mod guard;

mod work;

mod page;

mod shared;

mod routes;

mod console;

pub use self::console::{Console, ConsoleError, new_token};

pub use lars_top::{Probe, SlowLog};
