//! Nodes of one process on a real server: what users see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use lars_scheduler::late::Cause;

use super::server::{Database, PATIENCE, durable, server};
use crate::query::{Found, Query, State};
use crate::schedule::Cancel;
use crate::{Builder, Durable, Error, Fired, Handler, Outcome, Payload, Timers};

#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Tagged(pub(super) u64);

impl Payload for Tagged {
    const NAME: &'static str = "tagged";
}

/// What a handler saw.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) tag: u64,
    pub(super) at: SystemTime,
    pub(super) due: SystemTime,
    pub(super) fence: u64,
}

/// A lease of nodes that share, or take over, buckets while a test waits for it.
pub(super) const SHORT_LEASE: Duration = Duration::from_secs(6);

pub(super) fn node(builder: Builder) -> (Durable, Receiver<Seen>) {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let run = move |due: &Fired<Tagged>| {
        let (tag, fence) = (due.payload().0, due.fence());
        let seen = Seen { tag, at: SystemTime::now(), due: due.due(), fence };
        let _ = sender.lock().unwrap().send(seen);
    };
    (builder.handle(run).start().unwrap(), receiver)
}

pub(super) fn schedule(timers: &Timers, after: Duration, tag: u64) {
    timers.schedule_once(after, Tagged(tag)).submit().wait().unwrap();
}

/// Until the nodes own all buckets between them.
pub(super) fn settle(database: &Database, nodes: i64) {
    let client = database.client();
    let sql = "SELECT count(*) FROM (SELECT owner FROM lars.bucket WHERE owner IN
                (SELECT id FROM lars.node WHERE serves)
               GROUP BY owner HAVING count(*) >= 64 / (SELECT count(*) FROM lars.node
                WHERE serves)) AS shares";
    let all = "SELECT count(*) FROM lars.bucket WHERE owner IS NOT NULL";
    let end = Instant::now() + PATIENCE;
    while client.number(sql) < nodes || client.number(all) < 64 {
        assert!(Instant::now() < end, "the buckets are not shared");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn timers_of_several_nodes_each_run_once_and_never_before_their_time() {
    let server = server();
    let database = server.database();
    let (one, from_one) = node(database.durable());
    let (two, from_two) = node(database.durable());
    let client_only = database.durable().start().unwrap();
    for (tag, timers) in
        (0..300).zip([&one, &two, &client_only].map(Durable::timers).iter().cycle())
    {
        schedule(timers, Duration::from_millis(tag % 7 * 100), tag);
    }
    let mut epochs = BTreeMap::new();
    let end = Instant::now() + PATIENCE;
    while epochs.len() < 300 && Instant::now() < end {
        for receiver in [&from_one, &from_two] {
            while let Ok(Seen { tag, at, due, fence }) = receiver.try_recv() {
                assert!(at >= due, "{tag} is early by {:?}", due.duration_since(at));
                let before = epochs.insert(tag, fence >> 32);
                // On a machine that stands still for longer than the lease.
                assert!(before != Some(fence >> 32), "{tag} runs twice under one owner");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(epochs.len(), 300);
    for node in [one, two, client_only] {
        node.close().unwrap();
    }
    let client = database.client();
    assert_eq!(client.number("SELECT count(*) FROM lars.node"), 0);
    assert_eq!(client.number("SELECT count(*) FROM lars.bucket WHERE owner IS NOT NULL"), 0);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 0);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn after_a_restore_that_is_declared_keys_and_timers_are_new_and_fences_are_greater() {
    let server = server();
    let database = server.database();
    let run = || {
        let (sender, seen) = channel();
        let sender = Mutex::new(sender);
        let handler = move |due: &Fired<Tagged>| {
            let seen = (due.idempotency_key(), due.fence(), due.id());
            sender.lock().unwrap().send(seen).unwrap();
        };
        let node = database.durable().handle(handler).start().unwrap();
        schedule(&node.timers(), Duration::ZERO, 1);
        let run = seen.recv_timeout(PATIENCE).unwrap();
        node.close().unwrap();
        run
    };
    let before = [run(), run(), run()];
    // The backup was made before the first run: its identities come again.
    let client = database.client();
    client.execute("SELECT setval('lars.timer_id', 1, false); UPDATE lars.bucket SET epoch = 0");
    client.execute("SELECT lars.restored()");
    for (key, fence, id) in [run(), run(), run()] {
        assert!(before.iter().all(|(earlier, ..)| *earlier != key), "{key} of {before:?}");
        assert!(before.iter().all(|(_, earlier, _)| *earlier < fence), "{fence} after {before:?}");
        assert!(before.iter().all(|(.., earlier)| *earlier < id), "{id} after {before:?}");
    }
    client.execute("UPDATE lars.bucket SET epoch = 2145386496");
    let error = client.try_execute("SELECT lars.restored()").unwrap_err();
    let words = error.as_db_error().unwrap().message().to_owned();
    assert!(words.contains("too often") && words.contains("2145386495"), "{words}");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_another_node_has_in_memory_is_cancelled_and_moved_by_its_identity() {
    let server = server();
    let database = server.database();
    let (owner, runs) = node(database.durable());
    settle(&database, 1);
    let other = database.durable().start().unwrap();
    let soon = Duration::from_secs(5);
    let ids: Vec<u64> = (0..20)
        .map(|tag| owner.timers().schedule_once(soon, Tagged(tag)).submit().wait().unwrap().id)
        .collect();
    let timers = other.timers();
    let begin = Instant::now();
    let answers: Vec<_> = ids.iter().map(|id| timers.cancel(*id)).collect();
    let answers: Vec<Cancel> = answers.into_iter().map(|it| it.wait().unwrap()).collect();
    let prevented = answers.iter().filter(|it| **it == Cancel::Prevented).count();
    // On a machine that stands still they may have begun.
    assert!(prevented == 20 || begin.elapsed() > Duration::from_secs(4), "{answers:?}");
    schedule(&owner.timers(), Duration::from_secs(3_600), 20);
    let client = database.client();
    let far = client.number("SELECT id FROM lars.timer ORDER BY due_at DESC LIMIT 1");
    assert!(timers.reset(far.unsigned_abs(), Duration::ZERO).wait().unwrap());
    schedule(&owner.timers(), soon, 21);
    let mut seen = BTreeSet::new();
    while !seen.contains(&20) || !seen.contains(&21) {
        seen.insert(runs.recv_timeout(PATIENCE).unwrap().tag);
    }
    assert_eq!(seen.len(), 22 - prevented, "{seen:?} ran, and {answers:?}");
    owner.close().unwrap();
    other.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn two_nodes_share_the_buckets_and_take_over_what_a_closed_one_leaves() {
    let server = server();
    let database = server.database();
    let (one, runs_of_one) = node(database.durable().lease(SHORT_LEASE));
    settle(&database, 1);
    let (two, runs) = node(database.durable().lease(SHORT_LEASE));
    settle(&database, 2);
    let before = database.client().number("SELECT sum(epoch) FROM lars.bucket");
    for tag in 0..64 {
        let timer = two.timers().schedule_once(Duration::from_secs(1), Tagged(tag));
        timer.key(format!("key {tag}")).submit().wait().unwrap();
    }
    one.close().unwrap();
    // On a slow machine some have run there.
    let mut seen: BTreeSet<u64> = runs_of_one.try_iter().map(|seen| seen.tag).collect();
    while seen.len() < 64 {
        seen.insert(runs.recv_timeout(PATIENCE).unwrap().tag);
    }
    let after = database.client().number("SELECT sum(epoch) FROM lars.bucket");
    assert!(after >= before + 32, "each bucket has another owner");
    two.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_near_timer_for_another_node_runs_before_any_sweep_if_nodes_may_tell_each_other() {
    let server = server();
    let lateness = |notifications: bool| {
        let database = server.database();
        let (owner, runs) = node(database.durable().notifications(notifications));
        settle(&database, 1);
        // Its window is loaded by now.
        std::thread::sleep(Duration::from_millis(300));
        let client = database.durable().notifications(notifications).start().unwrap();
        // At all moments between two sweeps, of which each finds several.
        let mut asked = Vec::new();
        for tag in 0..20 {
            asked.push(SystemTime::now());
            schedule(&client.timers(), Duration::from_millis(50), tag);
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut latest: Vec<Duration> = (0..asked.len())
            .map(|_| runs.recv_timeout(PATIENCE).unwrap())
            .map(|seen| seen.at.duration_since(asked[seen.tag as usize]).unwrap())
            .collect();
        owner.close().unwrap();
        latest.sort_unstable();
        latest[10]
    };
    let (told, swept) = (lateness(true), lateness(false));
    println!("told {told:?}, swept {swept:?}");
    assert!(told < swept, "told {told:?}, swept {swept:?}");
    assert!(swept > Duration::from_millis(500), "nobody told it");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_timer_that_sql_makes_runs_and_one_that_is_rolled_back_does_not() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let client = database.client();
    let ten = "interval '10 milliseconds'";
    client.execute(&format!(
        "BEGIN; SELECT lars.schedule('default', 'tagged', '1', {ten}); ROLLBACK;
         BEGIN; SELECT lars.schedule('default', 'tagged', '2', {ten}, key => 'two'); COMMIT"
    ));
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 2);

    let hour = "interval '1 hour'";
    let make = format!("SELECT lars.schedule('default', 'tagged', '3', {hour}, key => 'three')");
    let first = client.number(&make);
    assert_eq!(client.number(&make), first, "the key is taken");
    client.execute("BEGIN; SELECT lars.cancel('default', 'three'); ROLLBACK");
    assert!(durable.timers().get("three").wait().unwrap().is_some());
    let cancel = |key| client.text(&format!("SELECT lars.cancel('default', '{key}')")).unwrap();
    assert_eq!((cancel("three"), cancel("three")), ("prevented".into(), "not found".into()));
    assert!(durable.timers().get("three").wait().unwrap().is_none());
    for wrong in [
        "SELECT lars.schedule('default', 'tagged', 'no json', interval '1 s')",
        "SELECT lars.schedule('default', 'tagged', '1', NULL)",
        "SELECT lars.schedule('default', 'tagged', '1', interval '1 s', key => '')",
        "SELECT lars.schedule('default', 'tagged', '1', interval '1 s', key => repeat('x', 513))",
        "SELECT lars.schedule('default', 'tagged', '1', interval '1 s', payload_version => -1)",
        "SELECT lars.schedule('default', 'tagged', '1', interval '1 s', remember => '1 s')",
        "SELECT lars.schedule('default', 'tagged', to_json(repeat('x', 65535))::text, '1 s')",
        "SELECT lars.schedule('default', 'tagged', '1', '1 s', on_conflict => 'overwrite')",
        "SELECT lars.schedule('default', 'tagged', '1', '1 s', on_conflict => NULL)",
        "SELECT lars.schedule('default', 'tagged', '1', '1 s', fixed_rate => '0')",
        "SELECT lars.schedule('default', 'tagged', '1', '1 s', fixed_delay => '-1 s')",
        "SELECT lars.schedule('default', 'tagged', '1', '1 s', fixed_rate => '1 s', missed => 'x')",
        "SELECT lars.schedule('g', 'tagged', '1', '1 s', fixed_rate => '1', fixed_delay => '1')",
    ] {
        assert!(client.try_execute(wrong).is_err(), "{wrong}");
    }
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 0);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn repeats_that_sql_makes_run_by_the_same_rules_and_may_replace_or_refuse() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let client = database.client();
    let make = |tag: u64, rest: &str| {
        format!("SELECT lars.schedule('default', 'tagged', '{tag}', '1 hour', 'key', {rest})")
    };
    let first = client.number(&make(1, "fixed_delay => '1 s'"));
    let refused = client.try_execute(&make(2, "on_conflict => 'fail'")).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "23505");
    assert_eq!(client.number(&make(2, "on_conflict => 'keep'")), first);
    let other = client.number(&make(3, "on_conflict => 'replace', fixed_rate => '100 ms'"));
    assert_ne!(other, first);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 1);

    let timers = durable.timers();
    assert!(timers.get("key").wait().unwrap().unwrap().rule.is_some());
    assert!(timers.reset("key", Duration::ZERO).wait().unwrap());
    let dues: Vec<SystemTime> = (0..3).map(|_| runs.recv_timeout(PATIENCE).unwrap().due).collect();
    for pair in dues.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).unwrap(), Duration::from_millis(100));
    }
    while timers.cancel("key").wait().unwrap() != Cancel::NotFound {}

    while runs.recv_timeout(Duration::from_millis(300)).is_ok() {}
    client.execute(
        "SELECT lars.schedule('default', 'tagged', '4', '0', 'key', fixed_delay => '100 ms')",
    );
    let ends: Vec<Seen> = (0..3).map(|_| runs.recv_timeout(PATIENCE).unwrap()).collect();
    for pair in ends.windows(2) {
        assert!(pair[1].at.duration_since(pair[0].at).unwrap() >= Duration::from_millis(100));
    }
    while timers.cancel("key").wait().unwrap() != Cancel::NotFound {}
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_timer_that_is_committed_long_after_its_time_runs_with_the_next_sweep() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable().notifications(false));
    settle(&database, 1);
    let client = database.client();
    client.execute(
        "BEGIN; SELECT lars.schedule('default', 'tagged', '1', interval '0'); SELECT pg_sleep(2);
         COMMIT",
    );
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_transaction_that_holds_a_timer_holds_up_no_other() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let timers = durable.timers();
    let client = database.client();
    let mut soon = Duration::from_millis(500);
    loop {
        timers.schedule_once(soon, Tagged(1)).key("held").submit().wait().unwrap();
        client.execute("BEGIN");
        if client.text("SELECT lars.cancel('default', 'held')").unwrap() == "prevented" {
            break;
        }
        // The machine stood still, and it has started: later then.
        client.execute("COMMIT");
        assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
        while timers.get("held").wait().unwrap().is_some() {}
        soon *= 4;
        assert!(soon < PATIENCE, "it cannot be held");
    }
    for tag in 2..20 {
        schedule(&timers, soon, tag);
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 18 {
        seen.insert(runs.recv_timeout(PATIENCE).unwrap().tag);
    }
    assert!(!seen.contains(&1));
    client.execute("ROLLBACK");
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1, "it was not cancelled after all");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn the_end_of_a_run_waits_for_whoever_holds_its_row() {
    let server = server();
    let database = server.database();
    let (begun, begins) = channel();
    let (go, gate) = channel::<()>();
    let (begun, gate) = (Mutex::new(begun), Mutex::new(gate));
    let run = move |_: &Fired<Tagged>| {
        begun.lock().unwrap().send(()).unwrap();
        let _ = gate.lock().unwrap().recv_timeout(PATIENCE);
    };
    let durable = database.durable().handle(run).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(Duration::ZERO, Tagged(1)).key("key").submit().wait().unwrap();
    begins.recv_timeout(PATIENCE).unwrap();
    let client = database.client();
    client.execute("BEGIN; SELECT lars.cancel('default', 'key')");
    go.send(()).unwrap();
    // Longer than a lane waits for a row.
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(durable.metrics().in_flight, 1);
    client.execute("COMMIT");
    let end = Instant::now() + PATIENCE;
    while durable.metrics().in_flight > 0 {
        assert!(Instant::now() < end, "its end is never recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((durable.metrics().done, durable.metrics().stale), (1, 0));
    assert!(timers.get("key").wait().unwrap().is_none());
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn the_clock_of_the_database_decides_and_may_jump_by_an_hour_either_way() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let timers = durable.timers();
    let client = database.client();
    let shift = |by: &str| {
        client.execute(&format!(
            "CREATE OR REPLACE FUNCTION lars.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
                 AS $$ SELECT pg_catalog.clock_timestamp() + interval '{by}' $$"
        ));
    };
    schedule(&timers, Duration::from_secs(3_600), 1);
    schedule(&timers, Duration::from_secs(7_200), 2);
    assert!(runs.recv_timeout(Duration::from_millis(500)).is_err(), "an hour early");
    shift("1 hour");
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
    schedule(&timers, Duration::from_secs(8), 3);
    shift("-1 hour");
    assert!(runs.recv_timeout(Duration::from_secs(3)).is_err(), "two hours early");
    shift("1 hour");
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 3);
    let owned = client.number("SELECT count(*) FROM lars.bucket WHERE owner IS NOT NULL");
    assert_eq!(owned, 64, "no clock takes part in who owns what");
    assert_eq!(client.number("SELECT max(epoch) FROM lars.bucket"), 1);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sessions_that_the_server_ends_are_opened_again_and_nothing_is_done_twice() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let timers = durable.timers();
    let client = database.client();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'lars-durable'";
    let mut asked = 0;
    for round in 0..10 {
        let calls: Vec<_> = (0..20)
            .map(|n| timers.schedule_once(Duration::ZERO, Tagged(round * 20 + n)).submit())
            .collect();
        client.execute(end);
        for call in calls {
            match call.wait() {
                Ok(_) => asked += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let mut seen = BTreeSet::new();
    while seen.len() < asked {
        assert!(seen.insert(runs.recv_timeout(PATIENCE).unwrap().tag), "it runs twice");
    }
    assert!(runs.recv_timeout(Duration::from_millis(300)).is_err());
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn while_the_database_is_away_callers_are_told_and_what_came_due_runs_afterwards() {
    let server = server();
    let database = server.database();
    let proxy = super::proxy::Proxy::to(server.port());
    let parameters =
        format!("host=127.0.0.1 port={} user=postgres dbname={}", proxy.port, database.name);
    // This one is not behind the proxy, and only makes timers.
    let direct = database.durable().start().unwrap();
    let builder = durable(parameters).call_timeout(Duration::from_millis(500)).lease(SHORT_LEASE);
    let (durable, runs) = node(builder);
    let timers = durable.timers();
    let client = database.client();
    let mut soon = Duration::from_secs(1);
    loop {
        schedule(&direct.timers(), soon, 1);
        proxy.cut();
        std::thread::sleep(Duration::from_millis(100));
        proxy.hold();
        if client.number("SELECT count(*) FROM lars.timer WHERE fence IS NULL") == 1 {
            break;
        }
        // The machine stood still, and it has started: later then.
        proxy.pass();
        assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
        let end = Instant::now() + PATIENCE;
        while client.number("SELECT count(*) FROM lars.timer") > 0 {
            assert!(Instant::now() < end, "its end is never recorded");
            std::thread::sleep(Duration::from_millis(20));
        }
        soon *= 4;
        assert!(soon < PATIENCE, "it is always started");
    }
    let error = timers.schedule_once(Duration::ZERO, Tagged(2)).submit().wait().unwrap_err();
    let known = matches!(error, Error::Unavailable { .. } | Error::OutcomeUnknown { .. });
    assert!(known, "{error}");
    assert!(runs.recv_timeout(SHORT_LEASE).is_err(), "the lease is over");
    proxy.pass();
    let first = runs.recv_timeout(PATIENCE).unwrap();
    assert!(first.tag == 1 || first.tag == 2);
    durable.close().unwrap();
    direct.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn it_is_used_from_a_runtimes_workers_and_in_destructors_without_blocking_them() {
    struct Cancels(Timers);
    impl Drop for Cancels {
        fn drop(&mut self) {
            drop(self.0.cancel("key"));
        }
    }
    let server = server();
    let database = server.database();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let durable = tokio::spawn(async move { database.durable().start() }).await;
        let durable = durable.unwrap().unwrap();
        let timers = durable.timers();
        let cancels = Cancels(timers.clone());
        let timer = timers.schedule_once(Duration::from_secs(60), Tagged(1)).key("key");
        timer.submit().await.unwrap();
        drop(cancels);
        // Calls take effect in their order.
        assert!(timers.get("key").await.unwrap().is_none());
        let again = timers.schedule_once(Duration::from_secs(60), Tagged(1)).key("key");
        again.submit().await.unwrap();
        assert_eq!(timers.cancel("key").await.unwrap(), Cancel::Prevented);
        drop(durable);
    });
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_message_with_a_nul_byte_stops_nothing() {
    let server = server();
    let database = server.database();
    let run = |due: &Fired<Tagged>| match due.payload().0 {
        0 => panic!("a NUL \0 byte"),
        1 => Outcome::Retry("a NUL \0 byte".into()),
        _ => Outcome::Park("a NUL \0 byte".into()),
    };
    let durable = database.durable().handle(run).start().unwrap();
    let timers = durable.timers();
    for tag in 0..3 {
        let timer = timers.schedule_once(Duration::ZERO, Tagged(tag)).key(format!("{tag}"));
        timer.submit().wait().unwrap();
    }
    let end = Instant::now() + PATIENCE;
    while durable.metrics().retried < 2 || durable.metrics().parked < 1 {
        assert!(Instant::now() < end, "{:?}", durable.metrics());
        std::thread::sleep(Duration::from_millis(10));
    }
    let page = timers.list(&Query::new().states([State::Parked])).wait().unwrap();
    let [Found::Parked(parked)] = &page.timers[..] else { panic!("{page:?}") };
    assert_eq!(parked.reason, "a NUL \u{fffd} byte");
    drop(durable);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn groups_share_a_database_and_nothing_else() {
    let server = server();
    let database = server.database();
    let (one, from_one) = node(database.durable().group("one"));
    let (two, from_two) = node(database.durable().group("two"));
    for (group, tag) in [(&one, 1), (&two, 2)] {
        let timer = group.timers().schedule_once(Duration::ZERO, Tagged(tag)).key("key");
        timer.submit().wait().unwrap();
    }
    let (first, second) =
        (from_one.recv_timeout(PATIENCE).unwrap(), from_two.recv_timeout(PATIENCE).unwrap());
    assert_eq!((first.tag, second.tag), (1, 2));
    assert!(first.fence > 0 && second.fence > 0);
    one.close().unwrap();
    two.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_idle_node_asks_for_little_and_writes_only_its_own_row() {
    let server = server();
    let database = server.database();
    // As it is unless it is set.
    let builder = database.durable().lease(Duration::from_secs(10));
    let durable = builder.handle(|_: &Fired<Tagged>| ()).start().unwrap();
    for tag in 0..100 {
        schedule(&durable.timers(), Duration::from_secs(86_400), tag);
    }
    settle(&database, 1);
    let client = database.client();
    // The transactions that wrote what there is.
    let written = "SELECT sum(x::text::bigint) FROM (
                       SELECT xmin AS x FROM lars.timer UNION ALL SELECT xmin FROM lars.bucket
                       UNION ALL SELECT xmin FROM lars.batch UNION ALL SELECT xmin FROM lars.meta
                   ) AS all_rows";
    let transactions = "SELECT xact_commit FROM pg_stat_database
                         WHERE datname = current_database()";
    let rows = client.number(written);
    // A session that has gone quiet sends its statistics within ten seconds. On a machine that
    // stands still it takes longer, and those of what came before are counted, too: once more then.
    let mut counts = Vec::new();
    while counts.len() < 5 && counts.last().is_none_or(|count| *count >= 30) {
        std::thread::sleep(Duration::from_secs(if counts.is_empty() { 11 } else { 0 }));
        let before = client.number(transactions);
        std::thread::sleep(Duration::from_secs(10));
        counts.push(client.number(transactions) - before);
    }
    println!("{counts:?} transactions in 10 s each");
    assert_eq!(client.number(written), rows);
    assert!(counts.last().is_some_and(|count| *count < 30), "{counts:?} transactions in 10 s");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_end_that_is_recorded_in_the_handlers_transaction_is_committed_with_it_or_not_at_all() {
    let server = server();
    let database = server.database();
    let (sender, runs) = channel();
    let sender = Mutex::new(sender);
    let parameters = database.parameters();
    database.client().execute("CREATE TABLE effect (tag bigint, attempt int)");
    let run = move |due: &Fired<Tagged>| -> Result<(), String> {
        let client = super::server::connect(&parameters);
        let (tag, attempt) = (due.payload().0, due.attempt());
        client.execute(&format!("BEGIN; INSERT INTO effect VALUES ({tag}, {attempt})"));
        let mut rows = 0;
        due.complete_in(|statement, [id, fence]| {
            rows = client.run(statement, id, fence)?;
            Ok::<_, tokio_postgres::Error>(rows)
        })
        .unwrap();
        assert_eq!(rows, 1);
        // The first attempt is rolled back, and says so.
        client.execute(if attempt == 1 && tag != 3 { "ROLLBACK" } else { "COMMIT" });
        sender.lock().unwrap().send((tag, attempt)).unwrap();
        if attempt == 1 && tag != 3 { Err("rolled back".into()) } else { Ok(()) }
    };
    let backoff = lars_base::backoff::BackoffPolicy::builder();
    let backoff = backoff.initial(Duration::from_millis(10)).build().unwrap();
    let handler = crate::Handler::new(run).backoff(backoff);
    let durable = database.durable().handler(handler).start().unwrap();
    let timers = durable.timers();
    let once = timers.schedule_once(Duration::ZERO, Tagged(1)).key("once");
    once.remember(Duration::from_secs(60)).submit().wait().unwrap();
    let next = |wanted| assert_eq!(runs.recv_timeout(PATIENCE).unwrap(), wanted);
    next((1, 1));
    next((1, 2));
    let hundred = Duration::from_millis(100);
    let series = timers.schedule_with_fixed_delay(Duration::ZERO, hundred, Tagged(3)).key("series");
    series.submit().wait().unwrap();
    for _ in 0..3 {
        next((3, 1));
    }
    while timers.cancel("series").wait().unwrap() != Cancel::NotFound {}
    let end = Instant::now() + PATIENCE;
    while durable.metrics().in_flight > 0 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
    let metrics = durable.metrics();
    assert_eq!(metrics.stale, 0, "{metrics:?}");
    let client = database.client();
    assert_eq!(client.number("SELECT count(*) FROM effect WHERE tag = 1"), 1);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 0);
    assert_eq!(client.number("SELECT count(*) FROM lars.used_key WHERE key = 'once'"), 1);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_held_timer_that_nobody_handles_stops_no_other() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    settle(&database, 1);
    let client = database.client();
    client.execute("SELECT lars.schedule('default', 'nobody', '1', '0 s', key => 'held')");
    let hold = "BEGIN; SELECT * FROM lars.timer WHERE key = 'held' FOR UPDATE";
    client.execute(hold);
    // It was planned too long ago, so that it is parked as well.
    let other = database.client();
    other.execute("SELECT lars.schedule('default', 'nobody', '1', '0 s', key => 'old')");
    other
        .execute("UPDATE lars.timer SET planned_at = now() - interval '15 days' WHERE key = 'old'");
    other.execute("BEGIN; SELECT * FROM lars.timer WHERE key = 'old' FOR UPDATE");
    let timers = durable.timers();
    // The sweep finds both, again and again.
    for tag in 0..8 {
        schedule(&timers, Duration::from_millis(500), tag);
        assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, tag);
    }
    client.execute("COMMIT");
    other.execute("COMMIT");
    let end = Instant::now() + PATIENCE;
    let looked = "SELECT count(*) FROM lars.timer WHERE handler = 'nobody' AND due_at <= now()";
    while client.number(looked) > 0 {
        assert!(Instant::now() < end, "they are not put off once they are free");
        std::thread::sleep(Duration::from_millis(20));
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn answers_to_commits_that_are_lost_lose_no_run_that_happens_at_most_once() {
    let server = server();
    let database = server.database();
    let proxy = super::proxy::Proxy::to(server.port());
    let through =
        format!("host=127.0.0.1 port={} user=postgres dbname={}", proxy.port, database.name);
    let (sender, runs) = channel();
    let sender = Mutex::new(sender);
    let handler = Handler::new(move |due: &Fired<Tagged>| {
        sender.lock().unwrap().send(due.payload().0).unwrap();
    });
    let durable = durable(through).handler(handler.at_most_once()).start().unwrap();
    settle(&database, 1);
    let timers = durable.timers();
    let mut expected = Vec::new();
    for round in 0..10 {
        let tags: Vec<u64> = (0..20).map(|n| round * 20 + n).collect();
        let batch = tags.iter().map(|tag| {
            timers.schedule_once(Duration::from_millis(200 + 10 * (tag % 20)), Tagged(*tag))
        });
        timers.schedule_batch(batch).wait().unwrap();
        proxy.lose();
        std::thread::sleep(Duration::from_millis(400));
        proxy.pass();
        expected.extend(tags);
    }
    assert!(proxy.lost() > 0, "no answer was lost");
    let end = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while seen.len() < expected.len() && Instant::now() < end {
        seen.extend(runs.recv_timeout(Duration::from_millis(200)));
        let over = database.client().number("SELECT count(*) FROM lars.timer") == 0;
        if over
            && durable.metrics().in_flight == 0
            && runs.try_recv().map(|tag| seen.push(tag)).is_err()
        {
            break;
        }
    }
    seen.sort_unstable();
    let lost: Vec<_> = expected.iter().filter(|tag| !seen.contains(tag)).collect();
    assert!(lost.is_empty(), "{} were lost, such as {:?}", lost.len(), lost.first());
    super::super::assert_same(&seen, &expected, "none runs twice");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_node_far_from_its_database_begins_to_work() {
    let server = server();
    let database = server.database();
    let proxy = super::proxy::Proxy::to(server.port());
    proxy.slow();
    let through =
        format!("host=127.0.0.1 port={} user=postgres dbname={}", proxy.port, database.name);
    // To open a session and to join takes longer than a third of the lease, each of them less.
    let (durable, runs) = node(durable(through).lease(SHORT_LEASE));
    schedule(&durable.timers(), Duration::ZERO, 1);
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn on_postgresql_a_run_waits_for_its_handler_at_least_as_long_as_that_is_full() {
    let server = server();
    let database = server.database();
    let ((begun, began), (go, gone), (tell, told)) = (channel(), channel(), channel());
    let (begun, gone, tell) = (Mutex::new(begun), Mutex::new(gone), Mutex::new(tell));
    let handler = Handler::new(move |due: &Fired<Tagged>| {
        begun.lock().unwrap().send(due.payload().0).unwrap();
        let _ = gone.lock().unwrap().recv_timeout(PATIENCE);
    });
    let hold = Duration::from_millis(50);
    let node = database.durable().handler(handler.concurrency(1)).explain_late(hold / 5);
    let node = node.on_late(move |late| {
        let shares = late.shares.to_vec();
        let _ = tell.lock().unwrap().send((late.lateness, shares));
    });
    let node = node.start().unwrap();
    settle(&database, 1);
    schedule(&node.timers(), Duration::ZERO, 1);
    assert_eq!(began.recv_timeout(PATIENCE), Ok(1));
    told.try_iter().for_each(drop);
    schedule(&node.timers(), Duration::ZERO, 2);
    // It has been accepted, and cannot begin.
    std::thread::sleep(hold);
    (0..2).for_each(|_| go.send(()).unwrap());
    assert_eq!(began.recv_timeout(PATIENCE), Ok(2));
    let (late, shares) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(shares.iter().map(|share| share.time).sum::<Duration>(), late);
    assert!(late >= hold, "{late:?}: {shares:?}");
    let full = shares.iter().find(|share| share.cause == Cause::HandlerFull);
    let full = full.unwrap_or_else(|| panic!("{shares:?}"));
    assert_eq!(full.culprit.as_ref().map(ToString::to_string), Some("tagged".into()));
    assert_eq!(
        node.lateness().rows.iter().map(|row| row.time).sum::<Duration>(),
        node.lateness().total
    );
    node.close().unwrap();
}
