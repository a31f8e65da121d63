//! The metrics of a system as the `metrics` facade gets them.
#![cfg(feature = "metrics")]
#![allow(missing_docs)]

use std::collections::{BTreeSet, HashMap};

use metrics_util::CompositeKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use mini_actor::metrics::MetricsReporter;
use mini_actor::test_kit::TestKit;

/// What one report publishes, by name.
fn published(reporter: &mut MetricsReporter) -> HashMap<String, u64> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || reporter.report());
    let value = |(key, _, _, value): (CompositeKey, _, _, DebugValue)| {
        let (_, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(|it| (it.key(), it.value())).collect();
        assert_eq!(labels, [("system", "shop")]);
        let value = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Gauge(value) => value.into_inner() as u64,
            DebugValue::Histogram(_) => panic!("none is published"),
        };
        (key.name().to_owned(), value)
    };
    recorder.snapshotter().snapshot().into_vec().into_iter().map(value).collect()
}

#[test]
fn a_report_publishes_what_a_snapshot_has() {
    let kit = TestKit::new("shop").unwrap();
    let mut reporter = MetricsReporter::new(&kit);
    let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
    for number in 0..3 {
        first.actor().tell(number).unwrap();
    }
    second.actor().tell(7).unwrap();
    second.actor().kill();
    kit.settle();
    let values = published(&mut reporter);
    for (name, value) in [
        ("alive", 1),
        ("stopped_total", 1),
        ("messages_total", 3),
        ("dead_letters_total", 1),
        ("panics_total", 0),
        ("restarts_total", 0),
        ("slow_receives_total", 0),
    ] {
        assert_eq!(values[&format!("mini_actor_{name}")], value, "{name}");
    }
}

#[test]
fn the_table_in_the_docs_names_exactly_what_is_published() {
    let kit = TestKit::new("shop").unwrap();
    let values = published(&mut MetricsReporter::new(&kit));
    let published: BTreeSet<&str> = values.keys().map(|name| &**name).collect();
    let docs = include_str!("../../../docs/observability.md");
    let named: BTreeSet<&str> = docs
        .lines()
        .filter(|line| line.starts_with("| `mini_actor_"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(published, named);
}
