//! The metrics as the `metrics` facade gets them.
#![allow(missing_docs)]

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lars_bridges::metrics::MetricsReporter;
use lars_scheduler::late::Cause;
use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};
use metrics_util::CompositeKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

const MS: Duration = Duration::from_millis(1);

fn virtual_time() -> VirtualTime {
    LightArrayRevolverScheduler::builder().tick_duration(10 * MS).build_virtual().unwrap()
}

/// What one report publishes, by name, and after a colon the quantile or the cause.
fn published(reporter: &mut MetricsReporter) -> HashMap<String, f64> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || reporter.report());
    let value = |(key, _, _, value): (CompositeKey, _, _, DebugValue)| {
        let (_, key) = key.into_parts();
        let label = |name: &str| {
            key.labels().find(|label| label.key() == name).map(|label| label.value().to_owned())
        };
        assert_eq!(label("scheduler").as_deref(), Some("orders"));
        let name = match label("quantile").or(label("cause")) {
            Some(label) => format!("{}:{label}", key.name()),
            None => key.name().to_owned(),
        };
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(_) => panic!("none is published"),
        };
        (name, value)
    };
    recorder.snapshotter().snapshot().into_vec().into_iter().map(value).collect()
}

#[test]
fn a_report_publishes_what_a_snapshot_has() {
    let time = virtual_time();
    let mut reporter = MetricsReporter::new(&time, "orders");
    for late in [2, 4] {
        let _ = time.schedule_once((10 - late) * MS, || ()).unwrap();
    }
    time.schedule_once(MS, || ()).unwrap().cancel();
    let _ = time.schedule_once(50 * MS, || ()).unwrap();
    time.advance(10 * MS);
    let values = published(&mut reporter);
    for (name, value) in [
        ("timers_scheduled_total", 4.0),
        ("timers_fired_total", 2.0),
        ("timers_cancelled_total", 1.0),
        ("timers_pending", 1.0),
        ("lateness_seconds_count", 2.0),
        ("lateness_seconds_sum", 0.006),
        ("lateness_seconds:1", 0.004),
    ] {
        assert_eq!(values[&format!("lars_scheduler_{name}")], value, "{name}");
    }
    let median = values["lars_scheduler_lateness_seconds:0.5"];
    assert!((median - 0.002).abs() < 0.000_02, "{median}");
}

#[test]
fn quantiles_are_those_since_the_last_report_and_the_rest_is_of_all() {
    let time = virtual_time();
    let mut reporter = MetricsReporter::new(&time, "orders");
    let max = "lars_scheduler_lateness_seconds:1";
    let _ = time.schedule_once(MS, || ()).unwrap();
    time.advance(10 * MS);
    assert_eq!(published(&mut reporter)[max], 0.009);
    let _ = time.schedule_once(8 * MS, || ()).unwrap();
    time.advance(10 * MS);
    let second = published(&mut reporter);
    assert!((second[max] - 0.002).abs() < 0.000_02, "{}", second[max]);
    assert_eq!(second["lars_scheduler_lateness_seconds_count"], 2.0);
    assert!(published(&mut reporter)[max].is_nan(), "nothing has fired");
}

#[test]
fn timers_that_wait_for_room_in_the_queue_of_the_pool_are_published() {
    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1).queue(1));
    let scheduler = builder.build().unwrap();
    let mut reporter = MetricsReporter::new(&scheduler, "orders");
    let held = "lars_scheduler_timers_held_for_pool_total";
    assert_eq!(published(&mut reporter)[held], 0.0);
    let (release, hold) = std::sync::mpsc::channel::<()>();
    scheduler.schedule_once(Duration::ZERO, move || _ = hold.recv()).unwrap();
    for _ in 0..10 {
        scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    }
    // One runs and one is in the queue; or two of those that come first wait for the thread.
    while published(&mut reporter)[held] < 9.0 {
        std::thread::yield_now();
    }
    drop(release);
}

#[test]
fn calls_that_backpressure_made_wait_are_published_with_how_long_they_waited() {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let mut reporter = MetricsReporter::new(&scheduler, "orders");
    let (waits, waited) =
        ("lars_scheduler_backpressure_waits_total", "lars_scheduler_backpressure_waited_seconds");
    let before = published(&mut reporter);
    assert_eq!((before[waits], before[waited]), (0.0, 0.0));
    // A timer thread that is stuck in a task holds back who schedules more than a share.
    let (release, hold) = std::sync::mpsc::channel::<()>();
    scheduler.schedule_once(Duration::ZERO, move || _ = hold.recv()).unwrap();
    while scheduler.metrics().backpressure_waited.is_zero() {
        // (A batch is charged as a whole. Single calls of a slow thread may earn their share.)
        scheduler.schedule_batch((0..8_192).map(|_| (Duration::MAX, || ()))).unwrap();
    }
    drop(release);
    let metrics = scheduler.metrics();
    let after = published(&mut reporter);
    assert_eq!(after[waits], metrics.backpressure_waits as f64);
    assert_eq!(after[waited], metrics.backpressure_waited.as_secs_f64());
}

#[test]
fn late_tasks_and_their_time_are_published_by_cause() {
    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1));
    let scheduler = builder.explain_late(2 * MS).build().unwrap();
    let mut reporter = MetricsReporter::new(&scheduler, "orders");
    let label = |name: &str, cause: Cause| format!("lars_scheduler_late_{name}:{}", cause.label());
    let words: BTreeSet<String> = published(&mut reporter)
        .into_keys()
        .filter_map(|name| name.strip_prefix("lars_scheduler_late_tasks_total:").map(str::to_owned))
        .collect();
    assert_eq!(words.len(), 15, "{words:?}");
    let is_word = |word: &String| word.chars().all(|it| it.is_ascii_lowercase() || it == '_');
    assert!(words.iter().all(is_word), "{words:?}");

    let (release, hold) = std::sync::mpsc::channel::<()>();
    scheduler.schedule_once(Duration::ZERO, move || _ = hold.recv()).unwrap();
    for _ in 0..5 {
        scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    }
    while scheduler.metrics().pool.queued < 5 {
        std::thread::yield_now();
    }
    std::thread::sleep(10 * MS);
    drop(release);
    while scheduler.lateness().count < 5 {
        std::thread::yield_now();
    }
    let handle = scheduler.handle();
    scheduler.close().unwrap();
    let (late, after) = (handle.lateness(), published(&mut reporter));
    let sum = |name: &str| {
        let of = after.iter().filter(|(key, _)| key.starts_with(name));
        of.map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!(sum("lars_scheduler_late_tasks_total"), late.count as f64);
    let seconds = sum("lars_scheduler_late_seconds");
    assert!((seconds - late.total.as_secs_f64()).abs() < 1e-6, "{seconds} {late}");
    let busy = label("seconds", Cause::PoolBusy);
    assert!(after[&busy] > 0.0, "{after:?}");
}

#[test]
fn a_scheduler_that_does_not_explain_lateness_publishes_no_cause() {
    let time = virtual_time();
    let values = published(&mut MetricsReporter::new(&time, "orders"));
    assert!(values.keys().all(|name| !name.starts_with("lars_scheduler_late_")), "{values:?}");
}

#[test]
fn the_table_in_the_docs_names_exactly_what_is_published() {
    let builder = LightArrayRevolverScheduler::builder().explain_late(MS);
    let scheduler = builder.build().unwrap();
    let values = published(&mut MetricsReporter::new(&scheduler, "orders"));
    let published: BTreeSet<&str> =
        values.keys().filter_map(|name| name.split(':').next()).collect();
    let docs = include_str!("../../../docs/observability.md");
    let named: BTreeSet<&str> = docs
        .lines()
        .filter(|line| line.starts_with("| `lars_scheduler_"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(published, named);
}

#[test]
fn without_a_recorder_a_report_does_nothing() {
    let time = virtual_time();
    MetricsReporter::new(&time, "orders").report();
}

#[test]
fn a_recorder_that_is_installed_after_the_first_report_gets_the_descriptions_too() {
    let time = virtual_time();
    let mut reporter = MetricsReporter::new(&time, "orders");
    reporter.report();
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || reporter.report());
    let values = recorder.snapshotter().snapshot().into_vec();
    assert!(!values.is_empty());
    for (key, unit, about, _) in values {
        assert!(unit.is_some() && about.is_some(), "{} is not described", key.key().name());
    }
}
