//! Rolling deploys: nodes of two releases at once.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::node::{SHORT_LEASE, Tagged, node, settle};
use super::server::{PATIENCE, server};
use crate::{Fired, Payload};

/// What only the newer release knows.
#[derive(serde::Serialize, serde::Deserialize)]
struct Newer(u64);

impl Payload for Newer {
    const NAME: &'static str = "newer";
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn timers_that_only_the_newer_nodes_know_are_left_to_them_uncounted() {
    const TIMERS: u64 = 64;
    let server = server();
    let database = server.database();
    let (older, _runs) = node(database.durable().lease(SHORT_LEASE));
    settle(&database, 1);
    let (sender, runs) = channel();
    let sender = Mutex::new(sender);
    let run = move |due: &Fired<Newer>| {
        sender.lock().unwrap().send((due.payload().0, due.attempt())).unwrap();
    };
    let newer = database.durable().handle(|_: &Fired<Tagged>| ()).handle(run);
    let newer = newer.lease(SHORT_LEASE).start().unwrap();
    settle(&database, 2);
    let timers = newer.timers();
    for tag in 0..TIMERS {
        let timer = timers.schedule_once(Duration::ZERO, Newer(tag)).key(format!("key {tag}"));
        timer.submit().wait().unwrap();
    }
    // Those in the buckets of the older node are put off by it; the others run.
    let client = database.client();
    let put_off = "SELECT count(*) FROM lars.timer WHERE due_at > planned_at AND fence IS NULL";
    let mut seen = BTreeSet::new();
    let end = Instant::now() + PATIENCE;
    let see = |seen: &mut BTreeSet<u64>| {
        for (tag, attempt) in runs.try_iter() {
            assert!(seen.insert(tag), "{tag} runs twice");
            assert_eq!(attempt, 1, "a run that the older node could not make counts");
        }
    };
    while seen.len() as i64 + client.number(put_off) < TIMERS as i64 {
        assert!(Instant::now() < end, "some are neither run nor put off");
        see(&mut seen);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(client.number(put_off) > 0, "the older node had no bucket");
    assert_eq!(older.metrics().parked, 0);
    older.close().unwrap();
    while seen.len() < TIMERS as usize {
        assert!(Instant::now() < end, "some never run");
        see(&mut seen);
        std::thread::sleep(Duration::from_millis(20));
    }
    newer.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_second_service_that_names_no_group_is_refused_with_the_handlers_of_both() {
    let server = server();
    let database = server.database();
    let (first, _runs) = super::node::node(database.durable());
    super::node::settle(&database, 1);
    let client = database.client();
    let reported = "SELECT count(*) FROM lars.node WHERE report IS NOT NULL";
    let end = std::time::Instant::now() + super::server::PATIENCE;
    while client.number(reported) == 0 {
        assert!(std::time::Instant::now() < end, "the node reports nothing");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let other = || database.durable().handle(|_: &crate::Fired<Stranger>| ());
    let refused = other().start().map(drop).unwrap_err().to_string();
    for part in ["default", "tagged", "stranger", "Builder::group"] {
        assert!(refused.contains(part), "{refused}");
    }
    other().group("others").start().unwrap().close().unwrap();
    // Nor is one refused that makes timers only, or has a handler in common.
    database.durable().start().unwrap().close().unwrap();
    let both = other().handle(|_: &crate::Fired<super::node::Tagged>| ());
    both.start().unwrap().close().unwrap();
    // Once it is closed, its place is free.
    first.close().unwrap();
    other().start().unwrap().close().unwrap();
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Stranger;

impl crate::Payload for Stranger {
    const NAME: &'static str = "stranger";
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_a_node_parks_that_does_not_know_tags_keeps_its_tag() {
    let server = server();
    let database = server.database();
    drop(database.durable().start().unwrap());
    let client = database.client();
    let make = |key: &str, rest: &str| {
        let call = "SELECT lars.schedule('default', 'tagged', '1', '1 h'";
        client.number(&format!("{call}, '{key}', {rest})"));
    };
    make("tagged", "tag => 'customer 1'");
    make("plain", "fixed_rate => '1 h'");
    make("series", "tag => 'customer 2', fixed_rate => '1 h'");
    // The statements of version 2 of the schema: one parks timers, one a run of a series.
    let columns = "grp, bucket, deadline, planned_at, key, handler, payload_version, payload";
    let more = "remember, attempt, deaths, run, origin, reason, parked_at";
    client.execute(&format!(
        "WITH gone AS (DELETE FROM lars.timer WHERE key IN ('tagged', 'plain') RETURNING *)
         INSERT INTO lars.parked (id, {columns}, {more})
         SELECT id, {columns}, remember, attempt, deaths, run, origin, 'why', now() FROM gone;
         INSERT INTO lars.parked (id, {columns}, {more})
         SELECT nextval('lars.timer_id'), {columns}, remember, attempt, deaths, run, id, 'why',
                now()
           FROM lars.timer WHERE key = 'series' FOR UPDATE"
    ));
    let tags = "SELECT string_agg(key || ': ' || coalesce(tag, 'none'), ', ' ORDER BY key)
                  FROM lars.parked";
    let expected = "plain: none, series: customer 2, tagged: customer 1";
    assert_eq!(client.text(tags).as_deref(), Some(expected));
}
