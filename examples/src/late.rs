//! How late timers were, for a line a second.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use lars_scheduler::Metrics;

/// Knows what had been recorded by the line before.
#[derive(Debug)]
pub struct Late {
    before: Histogram<u64>,
}

/// The lateness of an interval.
#[derive(Debug)]
pub struct Percentiles(Histogram<u64>);

impl Late {
    /// From now on.
    pub fn new(metrics: &Metrics) -> Self {
        Self { before: metrics.lateness.histogram.clone() }
    }

    /// What has come since the last call.
    pub fn since(&mut self, metrics: &Metrics) -> Percentiles {
        let now = metrics.lateness.histogram.clone();
        let mut interval = now.clone();
        // What is counted is never taken back, so there is nothing that could fail.
        let _ = interval.subtract(&self.before);
        self.before = now;
        Percentiles(interval)
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |share| Duration::from_nanos(self.0.value_at_quantile(share));
        let max = Duration::from_nanos(self.0.max());
        write!(f, "late: p50 {:>6.1?} p99 {:>6.1?} max {max:>6.1?}", at(0.5), at(0.99))
    }
}
