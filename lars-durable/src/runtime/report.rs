//! What a node reports of itself to people, through the store.

use serde::{Deserialize, Serialize};

use super::Shared;
use super::lateness::Percentiles;
use crate::engine::HandlerCounts;
use crate::time::Micros;

/// Stored as JSON with each renewal. An older reader ignores what a newer release adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub(crate) name: String,
    /// In microseconds, as all times.
    pub(crate) lease: i64,
    pub(crate) resident: usize,
    pub(crate) in_flight: usize,
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
    /// Median, 99th percentile and maximum, if anything ran.
    pub(crate) late: Option<(u64, u64, u64)>,
}

impl Report {
    pub(super) fn of(shared: &Shared, handlers: &[HandlerCounts], lease: Micros) -> Self {
        let counts = shared.counts();
        let now = shared.gate.now();
        let handlers = handlers.iter().zip(&shared.lateness);
        Self {
            name: shared.name.clone(),
            lease: lease.0,
            resident: counts.resident,
            in_flight: counts.in_flight,
            handlers: handlers
                .map(|(counts, lateness)| HandlerReport {
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
