//! Building a system of actors, and closing it.

pub(crate) mod close;

#[cfg(feature = "metrics")]
pub(crate) mod metrics_reporter;

pub(crate) mod settings;

mod draining;

mod closing;

pub(crate) mod owner;

pub(crate) mod builder;
