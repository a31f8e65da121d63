#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// In dependency order: a module uses only those above it.

mod debug;

pub mod time;

pub mod rate;
pub mod when_due;

pub mod backoff;

pub mod sync;

pub mod durations;
pub mod panics;

pub mod in_span;

pub mod idle;
pub mod waiting;
