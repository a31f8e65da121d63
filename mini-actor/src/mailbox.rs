//! Where messages wait for their actor.

pub(crate) mod overflow;

mod block;

pub(crate) mod queue;
