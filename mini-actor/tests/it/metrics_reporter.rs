//! The metrics of a system as the `metrics` facade gets them.
#![allow(missing_docs)]

use crate::common;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use common::{Call, LONG, Script, close};
use metrics::{SharedString, Unit};
use metrics_util::CompositeKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use mini_actor::metrics::MetricsReporter;
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorSystem, Context};

/// What one report publishes, by name, and after a colon the cause.
fn published(reporter: &mut MetricsReporter) -> HashMap<String, f64> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || reporter.report());
    type Seen = (CompositeKey, Option<Unit>, Option<SharedString>, DebugValue);
    let value = |(key, unit, about, value): Seen| {
        let (_, key) = key.into_parts();
        assert!(unit.is_some() && about.is_some(), "{} is not described", key.name());
        let labels: Vec<_> = key.labels().map(|it| (it.key(), it.value())).collect();
        let name = match labels[..] {
            [("system", "shop")] => key.name().to_owned(),
            [("system", "shop"), ("cause", cause)] => format!("{}:{cause}", key.name()),
            _ => panic!("{labels:?}"),
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
    let kit = TestKit::new("shop").unwrap();
    let mut reporter = MetricsReporter::new(&kit);
    reporter.report(); // without a recorder
    let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
    for number in 0..3 {
        first.actor().tell(number).unwrap();
    }
    second.actor().tell(7).unwrap();
    second.actor().kill();
    kit.settle();
    let values = published(&mut reporter);
    for (name, value) in [
        ("alive", 1.0),
        ("stopped_total", 1.0),
        ("messages_total", 3.0),
        ("dead_letters_total", 1.0),
        ("panics_total", 0.0),
        ("restarts_total", 0.0),
        ("slow_receives_total", 0.0),
    ] {
        assert_eq!(values[&format!("mini_actor_{name}")], value, "{name}");
    }
}

#[test]
fn late_messages_and_their_time_are_published_by_cause() {
    // Nothing is received before its time, so everything is late by something.
    let (zero, tick) = (Duration::ZERO, Duration::from_nanos(1));
    let builder = ActorSystem::builder("shop").explain_late(zero).tick_duration(tick);
    let system = builder.threads(1).build().unwrap();
    let mut reporter = MetricsReporter::new(&system);
    let before = published(&mut reporter);
    for cause in ["actor_busy", "messages_before", "dispatcher_busy", "timer", "unknown"] {
        assert_eq!(before[&format!("mini_actor_late_messages_total:{cause}")], 0.0);
        assert_eq!(before[&format!("mini_actor_late_seconds:{cause}")], 0.0);
    }
    assert_eq!(before.keys().filter(|name| name.contains(':')).count(), 2 * 5);

    let (sender, received) = std::sync::mpsc::channel();
    let act = move |call: Call<u32>, _: &mut Context<Script<u32>>| {
        if let Call::Message(number) = call {
            let _ = sender.send(number);
        }
    };
    let actor = system.spawn("actor", move || Script::new(act)).unwrap();
    for number in 0..5 {
        let _ = system.scheduler().schedule_once(zero, &actor, number).unwrap();
    }
    for _ in 0..5 {
        received.recv_timeout(LONG).unwrap();
    }
    close(&system);
    let (late, after) = (system.lateness(), published(&mut reporter));
    assert_eq!(late.count, 5);
    for sum in late.by_cause(&[]) {
        let of = |name: &str| after[&format!("mini_actor_late_{name}:{}", sum.cause.label())];
        assert_eq!(of("messages_total"), sum.mainly as f64);
        assert_eq!(of("seconds"), sum.time.as_secs_f64());
    }
}

#[test]
fn a_system_that_does_not_explain_lateness_publishes_no_cause() {
    let kit = TestKit::new("shop").unwrap();
    let values = published(&mut MetricsReporter::new(&kit));
    assert!(values.keys().all(|name| !name.starts_with("mini_actor_late_")), "{values:?}");
}

#[test]
fn the_table_in_the_docs_names_exactly_what_is_published() {
    let builder = ActorSystem::builder("shop").explain_late(Duration::ZERO);
    let system = builder.build().unwrap();
    let values = published(&mut MetricsReporter::new(&system));
    let published: BTreeSet<&str> =
        values.keys().filter_map(|name| name.split(':').next()).collect();
    let docs = include_str!("../../../docs/observability.md");
    let named: BTreeSet<&str> = docs
        .lines()
        .filter(|line| line.starts_with("| `mini_actor_"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(published, named);
}
