//! Parked timers that need not be kept.

use std::time::Duration;

use crate::common::{self, Directory, Note, note};
use lars_durable::test_kit::Store;
use lars_durable::{Durable, Fired, Outcome, StartError, Timers};
use lars_scheduler::LightArrayRevolverScheduler;

const MINUTE: Duration = Duration::from_secs(60);

fn park(_: &Fired<Note>) -> Outcome {
    Outcome::Park("no such order".into())
}

/// The payloads of those that are parked, in the order of their identities.
fn parked(timers: &Timers) -> Vec<String> {
    common::parked(timers).into_iter().map(|parked| parked.timer.payload).collect()
}

#[test]
fn a_node_that_keeps_fewer_than_there_are_deletes_the_oldest_when_it_begins() {
    let directory = Directory::new("pruned");
    let durable = Durable::sqlite(directory.file()).handle(park).start().unwrap();
    let timers = durable.timers();
    for n in 0..600 {
        timers.schedule_once(Duration::ZERO, note(&n.to_string())).submit().wait().unwrap();
    }
    while durable.metrics().parked < 600 {}
    assert_eq!(parked(&timers).len(), 600, "nobody has said otherwise");
    durable.close().unwrap();

    // A node tells of itself with each renewal of its lease.
    let builder = Durable::sqlite(directory.file()).lease(Duration::from_secs(3));
    let durable = builder.max_parked(20).handle(park).start().unwrap();
    let timers = durable.timers();
    while durable.metrics().pruned < 580 {}
    assert_eq!((parked(&timers).len(), durable.metrics().pruned), (20, 580));
    while durable.inspect().wait().unwrap().nodes[0].pruned < 580 {}
    durable.close().unwrap();
}

#[test]
fn what_is_too_old_or_too_many_is_deleted_within_a_minute_and_the_rest_stays() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = Store::new(&time.handle());
    let node = || store.node().max_parked(500).max_parked_age(10 * MINUTE).handle(park);
    let nodes = [node().start().unwrap(), node().start().unwrap()];
    let timers = nodes[0].timers();
    time.advance(MINUTE);
    let park_at = |texts: std::ops::Range<u32>| {
        let each = texts.map(|n| timers.schedule_once(Duration::ZERO, note(&n.to_string())));
        timers.schedule_batch(each).wait().unwrap();
    };
    park_at(0..100);
    time.advance(6 * MINUTE);
    park_at(100..200);
    time.advance(3 * MINUTE);
    assert_eq!(parked(&timers).len(), 200, "none is ten minutes old");
    time.advance(3 * MINUTE);
    let left = parked(&timers);
    assert_eq!(left.len(), 100, "the first hundred are");
    assert!(left.iter().all(|text| text.len() == 5 && text.starts_with("\"1")), "{left:?}");
    // More than one transaction deletes.
    park_at(1_000..2_200);
    time.advance(2 * MINUTE);
    assert_eq!(parked(&timers).len(), 500);
    time.advance(12 * MINUTE);
    assert!(parked(&timers).is_empty());
    for node in nodes {
        node.close().unwrap();
    }
}

#[test]
fn a_number_or_an_age_out_of_range_is_refused_with_the_limit() {
    let words = |builder: lars_durable::Builder| match builder.start() {
        Err(error @ StartError::Setting { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for number in [0, 50_001, usize::MAX] {
        let error = words(Durable::in_memory().max_parked(number));
        assert_eq!(error, format!("max_parked is {number}, but it must be from 1 to 50000"));
    }
    let short = Duration::from_millis(999);
    let error = words(Durable::in_memory().max_parked_age(short));
    assert_eq!(error, "max_parked_age is 999ms, but it must be at least 1 s");
    let fits = Durable::in_memory().max_parked(50_000).max_parked_age(Duration::MAX);
    fits.start().unwrap().close().unwrap();
}
