//! What a recorder of the `metrics` facade is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lars_durable::{Durable, MetricsReporter, Outcome};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::common::{LONG, Note, note};

/// The values of one report, by name and after a colon the cause, each with the node that a label
/// names.
fn published(reporter: &mut MetricsReporter) -> BTreeMap<String, (String, f64)> {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || reporter.report());
    let value = |value| match value {
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(level) => level.into_inner(),
        DebugValue::Histogram(_) => unreachable!("none is published"),
    };
    let seen = seen.snapshot().into_vec().into_iter().map(|(key, unit, about, it)| {
        let (_, key) = key.into_parts();
        assert!(unit.is_some() && about.is_some(), "{} is not described", key.name());
        let labels: Vec<_> = key.labels().map(|it| (it.key(), it.value())).collect();
        let (name, node) = match labels[..] {
            [("node", node)] => (key.name().to_owned(), node),
            [("node", node), ("cause", cause)] => (format!("{}:{cause}", key.name()), node),
            _ => panic!("{labels:?}"),
        };
        (name, (node.to_owned(), value(it)))
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
    let node = Durable::in_memory().explain_late(Duration::ZERO).start().unwrap();
    let values = published(&mut MetricsReporter::new(&node));
    let published: BTreeSet<&str> =
        values.keys().filter_map(|name| name.split(':').next()).collect();
    let docs = include_str!("../../../docs/observability.md");
    let named: BTreeSet<&str> =
        docs.split('`').filter(|word| word.starts_with("lars_durable_")).collect();
    assert_eq!(named, published);
}

#[test]
fn late_runs_and_their_time_are_published_by_cause() {
    const SECOND: Duration = Duration::from_secs(1);
    let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = lars_durable::test_kit::Store::new(&time.handle());
    let timers = time.handle();
    let handler = lars_durable::Handler::future(move |_: lars_durable::Fired<Note>| {
        let sleep = timers.sleep(10 * SECOND);
        async move { drop(sleep.await) }
    });
    let node = store.node().name("shop-1").handler(handler.concurrency(1));
    let node = node.explain_late(SECOND).start().unwrap();
    let mut reporter = MetricsReporter::new(&node);
    let by_cause = |values: BTreeMap<String, (String, f64)>| -> BTreeMap<String, f64> {
        let late = |(name, (_, value)): (String, (String, f64))| {
            Some((name.strip_prefix("lars_durable_late_")?.to_owned(), value))
        };
        values.into_iter().filter_map(late).collect()
    };
    let before = by_cause(published(&mut reporter));
    let words: Vec<&str> =
        before.keys().filter_map(|name| name.strip_prefix("runs_total:")).collect();
    let causes = [
        "handler_full",
        "messages_before",
        "no_owner",
        "node_full",
        "other_executor",
        "pool_busy",
        "store",
        "timer",
        "unknown",
    ];
    assert_eq!(words, causes);
    assert!(before.len() == 2 * causes.len() && before.values().all(|it| *it == 0.0), "{before:?}");

    for _ in 0..3 {
        node.timers().schedule_once(SECOND, note("x")).submit().wait().unwrap();
    }
    time.advance(60 * SECOND);
    // The second waits for the first, and the third for both.
    let mut expected = before;
    expected.insert("runs_total:handler_full".to_owned(), 2.0);
    expected.insert("seconds:handler_full".to_owned(), 30.0);
    assert_eq!(by_cause(published(&mut reporter)), expected);
}
