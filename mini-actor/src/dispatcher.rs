//! The threads that actors run on.

pub(crate) mod watch;

pub(crate) mod workers;
