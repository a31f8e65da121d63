//! What is compared: timers and actor systems, in one list.

use crate::record::{Case, Outcome, Workload};
use crate::{actors, timers};

/// A timer or an actor system.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    /// What it is called in tables and options.
    pub(crate) name: &'static str,
    /// How it is used here, in a few words.
    pub(crate) about: &'static str,
    /// Its tick in microseconds, if it has one.
    pub(crate) tick_us: Option<u64>,
    pub(crate) workloads: &'static [Workload],
    /// Measures it, in this process.
    pub(crate) measure: fn(&Case) -> Outcome,
}

/// All peers, ours first among their kind.
pub(crate) fn all() -> Vec<Peer> {
    [timers::all(), actors::all()].concat()
}

/// Whether the peer of this name is of this repository.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with("lars-scheduler") || name.starts_with("mini-actor")
}
