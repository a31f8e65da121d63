//! What a node reports of itself to people, through the store.

use serde::{Deserialize, Serialize};

use super::Shared;
use super::lateness::Percentiles;
use crate::engine::Node;

/// Stored as JSON with each renewal. An older reader ignores what a newer release adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub(crate) name: String,
    /// In microseconds, as all times.
    pub(crate) lease: i64,
    pub(crate) resident: usize,
    pub(crate) in_flight: usize,
    pub(crate) pruned: u64,
    pub(crate) handlers: Vec<HandlerReport>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HandlerReport {
    pub(crate) name: String,
    pub(crate) started: u64,
    pub(crate) done: u64,
    pub(crate) retried: u64,
    pub(crate) parked: u64,
    /// Due, or nearly, and waiting for a place.
    pub(crate) ready: usize,
    /// Started, and waiting for a thread.
    pub(crate) unthreaded: usize,
    /// More are left in the store, because it has as many in memory as it may.
    pub(crate) leaves: bool,
    /// Median, 99th percentile and maximum, if anything ran.
    pub(crate) late: Option<(u64, u64, u64)>,
}

impl Report {
    pub(super) fn of(shared: &Shared, node: &Node) -> Self {
        let counts = shared.counts();
        let now = shared.gate.now();
        let handlers = node.handler_counts().iter().zip(&shared.lateness).enumerate();
        Self {
            name: shared.name.clone(),
            lease: node.lease().0,
            resident: counts.resident,
            in_flight: counts.in_flight,
            pruned: counts.pruned,
            handlers: handlers
                .map(|(place, (counts, lateness))| HandlerReport {
                    ready: node.waiting(place).0,
                    unthreaded: shared.threads.waiting(place),
                    leaves: node.waiting(place).1,
                    name: counts.name.to_string(),
                    started: counts.started,
                    done: counts.done,
                    retried: counts.retried,
                    parked: counts.parked,
                    late: lateness
                        .percentiles(now)
                        .map(|Percentiles { median, p99, max }| (median, p99, max)),
                })
                .collect(),
        }
    }
}
