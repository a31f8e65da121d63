//! What is given up on a real server: kept, and told.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::node::{Tagged, settle};
use super::server::{PATIENCE, server};
use crate::inspection::ParkedRun;
use crate::{Builder, Fired, Handler};

/// What `on_parked` is told.
fn telling(builder: Builder) -> (Builder, Receiver<ParkedRun>) {
    let (sender, told) = channel();
    let sender = Mutex::new(sender);
    (builder.on_parked(move |run| drop(sender.lock().unwrap().send(run.clone()))), told)
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_can_never_be_read_is_parked_on_a_server_too_before_it_would_run_at_most_once() {
    let server = server();
    let database = server.database();
    let (sender, seen) = channel();
    let sender = Mutex::new(sender);
    let handler = Handler::new(move |due: &Fired<Tagged>| {
        sender.lock().unwrap().send(due.payload().0).unwrap();
    });
    let (builder, told) = telling(database.durable().handler(handler.at_most_once()));
    let durable = builder.start().unwrap();
    settle(&database, 1);
    let client = database.client();
    let mistyped = r#"{"tag":1}"#;
    client.execute(&format!(
        "SELECT lars.schedule('default', 'tagged', '{mistyped}', '0 s', key => 'pay');
         SELECT lars.schedule('default', 'tagged', '2', '0 s')"
    ));
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), 2);
    let run = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((run.key.as_deref(), run.attempt), (Some("pay"), 1));
    assert!(run.reason.contains("cannot be read"), "{run:?}");
    let kept = client.text("SELECT payload FROM lars.parked WHERE key = 'pay'");
    assert_eq!(kept.as_deref(), Some(mistyped));
    durable.close().unwrap();
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 0);
    assert!(seen.try_recv().is_err() && told.try_recv().is_err());
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn whoever_wants_to_know_is_told_of_timers_that_no_node_of_a_group_handles() {
    let server = server();
    let database = server.database();
    let (builder, told) = telling(database.durable().handle(|_: &Fired<Tagged>| ()));
    let durable = builder.start().unwrap();
    settle(&database, 1);
    let client = database.client();
    client.execute("SELECT lars.schedule('default', 'gone', '1', '0 s', key => 'pay')");
    let found = "SELECT count(*) FROM lars.timer WHERE unknown_since IS NOT NULL";
    let end = Instant::now() + PATIENCE;
    while client.number(found) == 0 {
        assert!(Instant::now() < end, "nobody has found it");
        std::thread::sleep(Duration::from_millis(20));
    }
    client.execute(
        "UPDATE lars.timer SET unknown_since = unknown_since - interval '15 days',
                               due_at = lars.clock(), deadline = lars.clock()",
    );
    let run = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((run.key.as_deref(), &*run.handler, run.attempt), (Some("pay"), "gone", 0));
    assert_eq!(run.reason, "no handler for fourteen days");
    assert_eq!(durable.metrics().parked, 1);
    durable.close().unwrap();
    assert!(told.try_recv().is_err(), "once");
}
