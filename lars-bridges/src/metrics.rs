//! Publishing a scheduler's metrics through the `metrics` facade.

use std::sync::Arc;

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, gauge};

use lars_base::debug_fields;
use lars_scheduler::late::{Cause, LateCause};
use lars_scheduler::metrics::Durations;
use lars_scheduler::{Handle, Metrics};

/// A name, what it counts, and how to read it.
type Row<V> = (&'static str, Unit, &'static str, fn(&Metrics) -> V);

const COUNTERS: [Row<u64>; 14] = [
    ("lars_scheduler_timers_scheduled_total", Unit::Count, "Timers accepted", |m| m.scheduled),
    ("lars_scheduler_timers_fired_total", Unit::Count, "Timers that expired", |m| m.fired),
    ("lars_scheduler_timers_cancelled_total", Unit::Count, "Timers cancelled in time", |m| {
        m.cancelled
    }),
    ("lars_scheduler_timers_handed_back_total", Unit::Count, "Timers handed back by stop", |m| {
        m.handed_back
    }),
    ("lars_scheduler_timers_refused_total", Unit::Count, "Schedule calls refused", |m| m.refused),
    (
        "lars_scheduler_backpressure_waits_total",
        Unit::Count,
        "Calls that waited because the timer thread was late",
        |m| m.backpressure_waits,
    ),
    ("lars_scheduler_panics_total", Unit::Count, "Panics contained", |m| m.panicked),
    ("lars_scheduler_tasks_rejected_total", Unit::Count, "Tasks their executor rejected", |m| {
        m.rejected_by_executor
    }),
    ("lars_scheduler_tasks_abandoned_total", Unit::Count, "Tasks their executor dropped", |m| {
        m.abandoned_by_executor
    }),
    ("lars_scheduler_slow_tasks_total", Unit::Count, "Tasks that ran for too long", |m| {
        m.slow_tasks
    }),
    ("lars_scheduler_pool_stalls_total", Unit::Count, "Stalls of the pool", |m| m.pool_stalls),
    (
        "lars_scheduler_timers_held_for_pool_total",
        Unit::Count,
        "Timers that were due and waited for room in the queue of the pool",
        |m| m.held_for_pool,
    ),
    ("lars_scheduler_wake_ups_total", Unit::Count, "Wake-ups of the timer thread", |m| m.wake_ups),
    ("lars_scheduler_restarts_total", Unit::Count, "Restarts of the timer thread", |m| m.restarts),
];

const GAUGES: [Row<f64>; 6] = [
    ("lars_scheduler_timers_pending", Unit::Count, "Timers that wait", |m| m.pending as f64),
    // (A counter of the facade has no fractions.)
    (
        "lars_scheduler_backpressure_waited_seconds",
        Unit::Seconds,
        "How long those calls waited, in all",
        |m| m.backpressure_waited.as_secs_f64(),
    ),
    ("lars_scheduler_timer_memory_bytes", Unit::Bytes, "Memory held for timers", |m| {
        m.timer_memory as f64
    }),
    ("lars_scheduler_pool_threads", Unit::Count, "Threads of the pool", |m| m.pool.threads as f64),
    ("lars_scheduler_pool_running", Unit::Count, "Threads of the pool that are busy", |m| {
        m.pool.running as f64
    }),
    ("lars_scheduler_pool_queued", Unit::Count, "Tasks that wait for a thread", |m| {
        m.pool.queued as f64
    }),
];

/// By the label `cause`; if the scheduler explains lateness.
const LATE_TASKS: &str = "lars_scheduler_late_tasks_total";
const LATE_SECONDS: &str = "lars_scheduler_late_seconds";

/// What makes tasks late: published as zeros from the start, so that a rate misses none.
const CAUSES: [Cause; 15] = [
    Cause::InlineTask,
    Cause::TasksBefore,
    Cause::PoolBusy,
    Cause::PoolFull,
    Cause::OtherExecutor,
    Cause::Gate,
    Cause::Housekeeping,
    Cause::Hook,
    Cause::EventLoop,
    Cause::Processor,
    Cause::Throttled,
    Cause::Stolen,
    Cause::Suspended,
    Cause::Overslept,
    Cause::Unknown,
];

/// The names under which durations are published.
struct Summary {
    /// With the label `quantile`.
    name: &'static str,
    sum: &'static str,
    count: &'static str,
    about: &'static str,
    of: fn(&Metrics) -> &Durations,
}

const SUMMARIES: [Summary; 3] = [
    Summary {
        name: "lars_scheduler_lateness_seconds",
        sum: "lars_scheduler_lateness_seconds_sum",
        count: "lars_scheduler_lateness_seconds_count",
        about: "From the deadline to the start of the run",
        of: |m| &m.lateness,
    },
    Summary {
        name: "lars_scheduler_pool_queue_time_seconds",
        sum: "lars_scheduler_pool_queue_time_seconds_sum",
        count: "lars_scheduler_pool_queue_time_seconds_count",
        about: "From the hand-over to the start of the run",
        of: |m| &m.pool.queue_time,
    },
    Summary {
        name: "lars_scheduler_pool_run_time_seconds",
        sum: "lars_scheduler_pool_run_time_seconds_sum",
        count: "lars_scheduler_pool_run_time_seconds_count",
        about: "From the start of the run to its end",
        of: |m| &m.pool.run_time,
    },
];

/// The quantiles, as numbers and as values of the label.
const QUANTILES: [(f64, &str); 5] =
    [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999"), (1.0, "1")];

/// Publishes a scheduler's [`Metrics`] through the [`metrics`](https://docs.rs/metrics) facade, to
/// whichever recorder the program has installed: Prometheus, StatsD, OpenTelemetry.
///
/// [`report`](Self::report) publishes what is true now. Call it when somebody asks, or at a fixed
/// delay on the scheduler itself, as below. Each value has the label `scheduler`, with the name
/// given to [`new`](Self::new). (docs/observability.md in the repository lists the names.)
///
/// Durations are published like a summary of Prometheus: quantiles of those between two reports,
/// with the label `quantile`, and the sum and count of all. So the work of a report does not depend
/// on how many timers have fired.
///
/// If the scheduler [explains lateness](lars_scheduler::Builder::explain_late), the label `cause`
/// says why tasks began late, with one of the words of [`Cause::label`]. Who was at fault is no
/// label, because there is no limit to how many that are; [`Handle::lateness`] names them.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_bridges::metrics::MetricsReporter;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let mut reporter = MetricsReporter::new(&scheduler, "orders");
/// let each = Duration::from_secs(10);
/// let reports = scheduler.schedule_with_fixed_delay(each, each, move || reporter.report())?;
/// # reports.cancel();
/// # Ok(()) }
/// ```
pub struct MetricsReporter {
    handle: Handle,
    scheduler: SharedString,
    last: Option<Metrics>,
}

debug_fields!(|it: MetricsReporter| scheduler: it.scheduler);

impl MetricsReporter {
    /// A reporter for this scheduler. The name distinguishes it from others. The reporter does not
    /// keep the scheduler running.
    pub fn new(handle: &Handle, name: impl Into<String>) -> Self {
        let name: Arc<str> = name.into().into();
        Self { handle: handle.clone(), scheduler: SharedString::from_shared(name), last: None }
    }

    /// Publishes the current metrics to the current recorder. Without a recorder this does nothing.
    ///
    /// The quantiles are those of the durations since the last report; NaN if there are none.
    ///
    /// It takes some 0.1 ms, and no lock that a thread takes when it fires timers.
    pub fn report(&mut self) {
        let metrics = self.handle.metrics();
        // Each time: the recorder may have been installed since the last report.
        describe();
        for (name, _, _, value) in COUNTERS {
            counter!(name, "scheduler" => self.scheduler.clone()).absolute(value(&metrics));
        }
        for (name, _, _, value) in GAUGES {
            gauge!(name, "scheduler" => self.scheduler.clone()).set(value(&metrics));
        }
        for summary in &SUMMARIES {
            let all = (summary.of)(&metrics);
            self.publish(summary, all, self.last.as_ref().map(summary.of));
        }
        for LateCause { cause, mainly, time, .. } in self.handle.lateness().by_cause(&CAUSES) {
            let labels = [("scheduler", self.scheduler.clone()), ("cause", cause.label().into())];
            counter!(LATE_TASKS, &labels).absolute(mainly);
            gauge!(LATE_SECONDS, &labels).set(time.as_secs_f64());
        }
        self.last = Some(metrics);
    }

    fn publish(&self, summary: &Summary, all: &Durations, last: Option<&Durations>) {
        let recent = last.map(|last| all.since(last));
        let recent = recent.as_ref().unwrap_or(all);
        for (quantile, label) in QUANTILES {
            let value = match recent.count {
                0 => f64::NAN,
                _ => recent.quantile(quantile).as_secs_f64(),
            };
            let scheduler = self.scheduler.clone();
            gauge!(summary.name, "scheduler" => scheduler, "quantile" => label).set(value);
        }
        let sum = all.sum.as_secs_f64();
        gauge!(summary.sum, "scheduler" => self.scheduler.clone()).set(sum);
        counter!(summary.count, "scheduler" => self.scheduler.clone()).absolute(all.count);
    }
}

fn describe() {
    for (name, unit, about, _) in COUNTERS {
        describe_counter!(name, unit, about);
    }
    for (name, unit, about, _) in GAUGES {
        describe_gauge!(name, unit, about);
    }
    let about = "Tasks that began late, each with the cause of the largest share of its lateness";
    describe_counter!(LATE_TASKS, Unit::Count, about);
    let about = "For how long tasks that began late waited, by cause";
    describe_gauge!(LATE_SECONDS, Unit::Seconds, about);
    for Summary { name, sum, count, about, .. } in SUMMARIES {
        describe_gauge!(name, Unit::Seconds, about);
        describe_gauge!(sum, Unit::Seconds, about);
        describe_counter!(count, Unit::Count, about);
    }
}
