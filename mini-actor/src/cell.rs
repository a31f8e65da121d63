//! An actor as its system sees it: its home, its signals, and what all actors of a system share.

pub(crate) mod askers;
pub(crate) mod dead_letters;
pub(crate) mod signal;

pub(crate) mod registry;

pub(crate) mod home;
