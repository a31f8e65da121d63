//! Building a system of actors, and closing it.

pub(crate) mod close;

pub(crate) mod settings;

pub(crate) mod owner;
