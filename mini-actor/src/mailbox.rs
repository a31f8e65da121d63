//! Where messages wait for their actor.

pub(crate) mod asides;
pub(crate) mod overflow;

pub(crate) mod block;
mod bound;

pub(crate) mod queue;
