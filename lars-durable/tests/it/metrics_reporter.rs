//! What a recorder of the `metrics` facade is told.

use std::collections::BTreeMap;
use std::time::Duration;

use lars_durable::{Durable, MetricsReporter, Outcome};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::common::{LONG, Note, note};

/// The values of one report, by name, each with the node that its label names.
fn published(reporter: &mut MetricsReporter) -> BTreeMap<String, (String, f64)> {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || reporter.report());
    let value = |value| match value {
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(level) => level.into_inner(),
        DebugValue::Histogram(_) => unreachable!("none is published"),
    };
    let of = |key: metrics::Key| key.labels().next().unwrap().value().to_owned();
    let seen = seen.snapshot().into_vec().into_iter().map(|(key, _, _, it)| {
        let (_, key) = key.into_parts();
        (key.name().to_owned(), (of(key), value(it)))
    });
    seen.collect()
}

#[test]
fn a_reporter_publishes_what_its_node_has_done_under_its_name() {
    let (sender, ran) = std::sync::mpsc::channel();
    let handler = move |_: &lars_durable::Fired<Note>| {
        sender.send(()).unwrap();
        Outcome::Park("enough".into())
    };
    let node = Durable::in_memory().name("shop-1").handle(handler).start().unwrap();
    let mut reporter = MetricsReporter::new(&node);
    let timers = node.timers();
    timers.schedule_once(Duration::ZERO, note("now")).submit().wait().unwrap();
    timers.schedule_once(LONG * 100, note("later")).submit().wait().unwrap();
    ran.recv_timeout(LONG).unwrap();
    while node.metrics().parked == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let values = published(&mut reporter);
    assert_eq!(values.len(), 13);
    assert!(values.values().all(|(node, _)| node == "shop-1"), "{values:?}");
    let of = |name: &str| values[&format!("lars_durable_{name}")].1;
    assert_eq!((of("timers_scheduled_total"), of("runs_started_total")), (2.0, 1.0));
    assert_eq!((of("runs_parked_total"), of("runs_done_total")), (1.0, 0.0));
    node.close().unwrap();
    assert_eq!(published(&mut reporter).len(), 13, "it outlives the node");
}

#[test]
fn the_table_in_the_docs_names_exactly_what_is_published_of_a_node() {
    let node = Durable::in_memory().start().unwrap();
    let values = published(&mut MetricsReporter::new(&node));
    let docs = include_str!("../../../docs/observability.md");
    let names = docs.split('`').filter(|word| word.starts_with("lars_durable_"));
    let mut named: Vec<&str> = names.collect();
    named.sort_unstable();
    assert_eq!(named, values.keys().collect::<Vec<_>>());
}
