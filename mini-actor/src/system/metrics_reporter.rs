//! Publishing the metrics of a system through the `metrics` facade.

use lars_scheduler::late::{Cause, LateCause};
use metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::cell::metrics::SystemMetrics;
use crate::refs::system::System;

/// A name, what it counts, and how to read it.
type Row = (&'static str, &'static str, fn(&SystemMetrics) -> u64);

const ALIVE: (&str, &str) = ("mini_actor_alive", "Actors that have not stopped");

const COUNTERS: [Row; 6] = [
    ("mini_actor_stopped_total", "Actors that have stopped", |m| m.stopped),
    ("mini_actor_messages_total", "Messages received", |m| m.processed),
    ("mini_actor_panics_total", "Panics of actors contained", |m| m.panicked),
    ("mini_actor_restarts_total", "Actors restarted", |m| m.restarts),
    ("mini_actor_dead_letters_total", "Messages that reached nobody", |m| m.dead_letters),
    ("mini_actor_slow_receives_total", "Messages whose handler ran for too long", |m| {
        m.slow_receives
    }),
];

/// By the label `cause`; if the system explains lateness.
const LATE_MESSAGES: &str = "mini_actor_late_messages_total";
const LATE_SECONDS: &str = "mini_actor_late_seconds";

/// What makes timers' messages late: published as zeros from the start, so that a rate misses none.
const CAUSES: [Cause; 5] =
    [Cause::ActorBusy, Cause::MessagesBefore, Cause::DispatcherBusy, Cause::Timer, Cause::Unknown];

/// Publishes a system's [`SystemMetrics`] through the [`metrics`](https://docs.rs/metrics) facade,
/// to whichever recorder the program has installed (feature `metrics`).
///
/// [`report`](Self::report) publishes what is true now. Call it when somebody asks, or at a fixed
/// delay. Each value has the label `system`, with the name of the system.
/// (docs/observability.md in the repository lists the names.) The system's scheduler has a reporter
/// of its own: `lars_bridges::metrics::MetricsReporter`.
///
/// If the system [explains lateness](crate::Builder::explain_late), the label `cause` says why
/// timers' messages were received late, with one of the words of [`Cause::label`]. Who was at fault
/// is no label, because there is no limit to how many that are; [`System::lateness`] names them.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::metrics::MetricsReporter;
/// use mini_actor::ActorSystem;
/// use std::time::Duration;
///
/// let system = ActorSystem::new("shop")?;
/// let mut reporter = MetricsReporter::new(&system);
/// let (timers, each) = (system.scheduler().timers(), Duration::from_secs(10));
/// let reports = timers.schedule_with_fixed_delay(each, each, move || reporter.report())?;
/// # reports.cancel();
/// # Ok(()) }
/// ```
pub struct MetricsReporter {
    system: System,
    name: SharedString,
}

show!([] MetricsReporter, "MetricsReporter", |it| system: it.name);

impl MetricsReporter {
    /// A reporter for this system. It does not keep the system open.
    pub fn new(system: &System) -> Self {
        let name = SharedString::from(system.name().to_owned());
        Self { system: system.clone(), name }
    }

    /// Publishes the current metrics to the current recorder. Without a recorder this does nothing.
    pub fn report(&mut self) {
        let metrics = self.system.metrics();
        // Each time: the recorder may have been installed since the last report.
        describe();
        gauge!(ALIVE.0, "system" => self.name.clone()).set(metrics.alive as f64);
        for (name, _, value) in COUNTERS {
            counter!(name, "system" => self.name.clone()).absolute(value(&metrics));
        }
        for LateCause { cause, mainly, time, .. } in self.system.lateness().by_cause(&CAUSES) {
            let labels = [("system", self.name.clone()), ("cause", cause.label().into())];
            counter!(LATE_MESSAGES, &labels).absolute(mainly);
            gauge!(LATE_SECONDS, &labels).set(time.as_secs_f64());
        }
    }
}

fn describe() {
    describe_gauge!(ALIVE.0, Unit::Count, ALIVE.1);
    for (name, about, _) in COUNTERS {
        describe_counter!(name, Unit::Count, about);
    }
    let about =
        "Timers' messages that were received late, each with the cause of its largest share";
    describe_counter!(LATE_MESSAGES, Unit::Count, about);
    let about = "For how long late messages waited, by cause";
    describe_gauge!(LATE_SECONDS, Unit::Seconds, about);
}
