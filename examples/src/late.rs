//! How late timers were, for a line a second.

use std::fmt;

use lars_scheduler::Metrics;
use lars_scheduler::metrics::Durations;

/// Knows what had been recorded by the line before.
#[derive(Debug)]
pub struct Late {
    before: Durations,
}

/// The lateness of an interval.
#[derive(Debug)]
pub struct Percentiles(Durations);

impl Late {
    /// From now on.
    pub fn new(metrics: &Metrics) -> Self {
        Self { before: metrics.lateness.clone() }
    }

    /// What has come since the last call.
    pub fn since(&mut self, metrics: &Metrics) -> Percentiles {
        let interval = metrics.lateness.since(&self.before);
        self.before = metrics.lateness.clone();
        Percentiles(interval)
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (half, most) = (self.0.quantile(0.5), self.0.quantile(0.99));
        write!(f, "late: p50 {half:>6.1?} p99 {most:>6.1?} max {:>6.1?}", self.0.max)
    }
}
