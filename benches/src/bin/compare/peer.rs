//! What is compared: what the plan, the runs and the report know of a peer.

use crate::actors::Actors;
use crate::record::{Case, Outcome, Workload};
use crate::sleeps::Sleeps;
use crate::timers::Timers;
use crate::workload;

/// A timer, its futures, or an actor system.
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

impl Peer {
    /// A timer.
    pub(crate) fn timers<T: Timers>() -> Self {
        Self {
            name: T::NAME,
            about: T::ABOUT,
            tick_us: T::TICK_US,
            workloads: T::WORKLOADS,
            measure: workload::measure::<T>,
        }
    }

    /// Futures that wait for time. The name may be that of a timer as well.
    pub(crate) fn sleeps<S: Sleeps>() -> Self {
        Self {
            name: S::NAME,
            about: S::ABOUT,
            tick_us: S::TICK_US,
            workloads: &Workload::FUTURES,
            measure: workload::measure_sleeps::<S>,
        }
    }

    /// An actor system.
    pub(crate) fn actors<A: Actors>() -> Self {
        Self {
            name: A::NAME,
            about: A::ABOUT,
            tick_us: A::TICK_US,
            workloads: A::WORKLOADS,
            measure: workload::measure_actors::<A>,
        }
    }
}

/// Whether the peer of this name says what an option of ours costs, and nothing else.
pub(crate) fn is_only_if_named(name: &str) -> bool {
    name.ends_with("-explains")
}

/// Whether the peer of this name is of this repository.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with("lars-scheduler") || name.starts_with("mini-actor")
}
