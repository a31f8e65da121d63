//! The threads that actors run on.

pub(crate) mod workers;
