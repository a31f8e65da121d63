//! Values, one answer, and guarding against panics.

pub(crate) mod panics;
pub(crate) mod stop_reason;

pub(crate) mod supervision;

pub(crate) mod error;
pub(crate) mod oneshot;
