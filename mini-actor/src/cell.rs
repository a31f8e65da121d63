//! An actor as its system sees it: its home, its signals, and what all actors of a system share.

pub(crate) mod askers;
pub(crate) mod dead_letters;
pub(crate) mod extras;
pub(crate) mod metrics;
pub(crate) mod questions;
pub(crate) mod rules;
pub(crate) mod signal;

pub(crate) mod tree;

pub(crate) mod late_messages;

pub(crate) mod incidents;

pub(crate) mod registry;

pub(crate) mod home;

pub(crate) mod lateness;
