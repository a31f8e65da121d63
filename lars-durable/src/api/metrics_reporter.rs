//! Publishing the metrics of a node through the `metrics` facade.

use std::fmt;

use lars_scheduler::late::{Cause, LateCause};
use metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, gauge};

use super::durable::{Durable, Metrics};
use crate::runtime::Shared;
use crate::sync::Arc;

/// A name, what it counts, and how to read it.
type Row<V> = (&'static str, &'static str, fn(&Metrics) -> V);

const COUNTERS: [Row<u64>; 10] = [
    ("lars_durable_timers_scheduled_total", "Timers created", |m| m.scheduled),
    ("lars_durable_timers_cancelled_total", "Timers cancelled in time", |m| m.cancelled),
    ("lars_durable_runs_started_total", "Runs recorded as started", |m| m.started),
    ("lars_durable_runs_done_total", "Runs that ended well", |m| m.done),
    ("lars_durable_runs_retried_total", "Runs that failed, and are retried", |m| m.retried),
    ("lars_durable_runs_parked_total", "Runs that were given up", |m| m.parked),
    ("lars_durable_runs_skipped_total", "Runs left out by the rule for missed ones", |m| m.skipped),
    ("lars_durable_runs_stale_total", "Runs that ended after a newer one had begun", |m| m.stale),
    ("lars_durable_runs_quarantined_total", "Runs repeated after a crash", |m| m.quarantined),
    ("lars_durable_timers_pruned_total", "Parked timers deleted by number or age", |m| m.pruned),
];

const GAUGES: [Row<f64>; 3] = [
    ("lars_durable_timers_resident", "Timers in memory", |m| m.resident as f64),
    ("lars_durable_runs_in_flight", "Runs started and not ended", |m| m.in_flight as f64),
    ("lars_durable_log_bytes", "Bytes of the log beside the file", |m| m.log_bytes as f64),
];

/// By the label `cause`; if the node explains lateness.
const LATE_RUNS: &str = "lars_durable_late_runs_total";
const LATE_SECONDS: &str = "lars_durable_late_seconds";

/// What makes runs late: published as zeros from the start, so that a rate misses none.
const CAUSES: [Cause; 9] = [
    Cause::PoolBusy,
    Cause::OtherExecutor,
    Cause::MessagesBefore,
    Cause::Store,
    Cause::HandlerFull,
    Cause::NodeFull,
    Cause::NoOwner,
    Cause::Timer,
    Cause::Unknown,
];

/// Publishes a node's [`Metrics`] through the [`metrics`](https://docs.rs/metrics) facade, to
/// whichever recorder the program has installed (feature `metrics`).
///
/// [`report`](Self::report) publishes what is true now. Call it when somebody asks, or at a fixed
/// delay. Each value has the label `node`, with the node's [name](super::Builder::name).
/// (docs/observability.md in the repository lists the names.) What waits in the whole group, by
/// handler, is in an [inspection](Durable::inspect).
///
/// If the node [explains lateness](super::Builder::explain_late), the label `cause` says why runs
/// began late, with one of the words of [`Cause::label`]. Who was at fault is no label, because
/// there is no limit to how many that are; [`Durable::lateness`] names them.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::{Durable, MetricsReporter};
///
/// let durable = Durable::in_memory().name("shop-1").start()?;
/// let mut reporter = MetricsReporter::new(&durable);
/// reporter.report(); // each ten seconds, or when Prometheus asks
/// # Ok(()) }
/// ```
pub struct MetricsReporter {
    shared: Arc<Shared>,
    node: SharedString,
}

impl MetricsReporter {
    /// A reporter for this node. It does not keep the node open.
    pub fn new(durable: &Durable) -> Self {
        let shared = Arc::clone(durable.shared());
        let node = SharedString::from(shared.name().to_owned());
        Self { shared, node }
    }

    /// Publishes the current metrics to the current recorder. Without a recorder this does nothing.
    pub fn report(&mut self) {
        let metrics = Metrics::of(&self.shared);
        // Each time: the recorder may have been installed since the last report.
        describe();
        for (name, _, value) in COUNTERS {
            counter!(name, "node" => self.node.clone()).absolute(value(&metrics));
        }
        for (name, _, value) in GAUGES {
            gauge!(name, "node" => self.node.clone()).set(value(&metrics));
        }
        for LateCause { cause, mainly, time, .. } in self.shared.late_runs().by_cause(&CAUSES) {
            let labels = [("node", self.node.clone()), ("cause", cause.label().into())];
            counter!(LATE_RUNS, &labels).absolute(mainly);
            gauge!(LATE_SECONDS, &labels).set(time.as_secs_f64());
        }
    }
}

fn describe() {
    for (name, about, _) in COUNTERS {
        describe_counter!(name, Unit::Count, about);
    }
    for (name, about, _) in GAUGES {
        let unit = if name.ends_with("_bytes") { Unit::Bytes } else { Unit::Count };
        describe_gauge!(name, unit, about);
    }
    let about = "Runs that began late, each with the cause of its largest share";
    describe_counter!(LATE_RUNS, Unit::Count, about);
    let about = "For how long late runs waited, by cause";
    describe_gauge!(LATE_SECONDS, Unit::Seconds, about);
}

impl fmt::Debug for MetricsReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsReporter").field("node", &self.node).finish_non_exhaustive()
    }
}
