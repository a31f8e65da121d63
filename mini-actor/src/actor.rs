//! What a user writes and is passed, and what an activation does with it.

pub(crate) mod timers;

pub(crate) mod context;

pub(crate) mod life;
pub(crate) mod pipe;

pub(crate) mod spawn;
