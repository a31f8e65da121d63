//! Values, one answer, and containing panics.

pub(crate) mod panics;
pub(crate) mod stop_reason;

pub(crate) mod supervision;

pub(crate) mod error;
pub(crate) mod oneshot;
