//! The threads that actors run on.

pub(crate) mod idle;

pub(crate) mod workers;
