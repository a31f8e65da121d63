//! What a look shows on a real server, and that it stays bounded.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use super::node::SHORT_LEASE;
use super::server::{Database, PATIENCE, durable, server};
use crate::inspection::Inspection;
use crate::query::{Query, State};
use crate::{Durable, Fired, Handler, Outcome, Payload, StartError};

#[derive(serde::Serialize, serde::Deserialize)]
struct Note;

impl Payload for Note {
    const NAME: &'static str = "note";
}

/// Looks until it finds what it waits for.
fn until(durable: &Durable, enough: impl Fn(&Inspection) -> bool) -> Inspection {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = durable.inspect().wait().unwrap();
        if enough(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "{seen:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_observer_sees_what_a_node_sees_and_is_none() {
    let server = server();
    let database = server.database();
    let node = database.durable().name("one").handle(|_: &Fired<Note>| ()).start().unwrap();
    let hour = Duration::from_secs(3_600);
    node.timers().schedule_once(hour, Note).submit().wait().unwrap();
    let mut observer = database.durable().observe().unwrap();
    assert!(observer.inspect().is_ok());
    // Its connection is made again when it was lost.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query = 'ROLLBACK'";
    database.client().execute(end);
    while observer.inspect().is_err() {}
    // On a thread of a runtime, too.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = runtime.block_on(async { observer.inspect().unwrap() });
    assert_eq!((seen.nodes.len(), &*seen.nodes[0].name), (1, "one"));
    assert_eq!(seen.handler("note").unwrap().pending.value, 1);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_observer_answers_as_a_node_does_and_the_server_lets_it_write_nothing() {
    let server = server();
    let database = server.database();
    let park = Handler::new(|_: &Fired<Note>| Outcome::Park("no money".into()));
    let node = database.durable().handler(park).start().unwrap();
    let timers = node.timers();
    let hour = Duration::from_secs(3_600);
    timers.schedule_once(hour, Note).key("order/1").submit().wait().unwrap();
    timers.schedule_once(Duration::ZERO, Note).submit().wait().unwrap();
    until(&node, |seen| seen.handler("note").is_some_and(|note| note.parked.value == 1));
    // Roles are of all databases.
    let role = format!("looks_{}", database.name);
    database.client().execute(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA lars TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA lars TO {role}",
    ));
    let parameters = database.parameters().replace("user=postgres", &format!("user={role}"));
    let mut observer = durable(parameters).observe().unwrap();
    for query in [Query::new(), Query::new().key_prefix("order/"), Query::new().failed_with("mon")]
    {
        assert_eq!(observer.list(&query).unwrap(), timers.list(&query).wait().unwrap());
        assert_eq!(observer.count(&query).unwrap(), timers.count(&query).wait().unwrap());
    }
    let page = timers.list(&Query::new().states([State::Parked])).wait().unwrap();
    let id = page.timers[0].timer().id;
    let parked = timers.get_parked(id).wait().unwrap();
    assert!(page.timers.len() == 1 && parked.is_some(), "{page:?}");
    assert_eq!(observer.get_parked(id).unwrap(), parked);
    assert_eq!(observer.get_parked(id - 1).unwrap(), None);
    let found = observer.get("order/1").unwrap().unwrap();
    assert_eq!(Some(&found), timers.get("order/1").wait().unwrap().as_ref());
    assert_eq!(observer.get(found.id).unwrap().as_ref(), Some(&found));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_observer_neither_makes_a_schema_nor_upgrades_one_nor_joins_a_group() {
    let server = server();
    let database = server.database();
    let refused = |group: &str| database.durable().group(group).observe().unwrap_err();
    let client = database.client();
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'lars'";
    assert!(refused("default").to_string().contains("there is no schema `lars`"));
    assert_eq!(client.number(schemas), 0);

    drop(database.durable().group("shop").start().unwrap());
    let error = refused("shpo");
    assert_eq!(error.to_string(), "there is no group \"shpo\"; there are [\"shop\"]");
    assert!(matches!(error, StartError::NoGroup { .. }), "{error:?}");
    assert_eq!(client.number("SELECT count(*) FROM lars.bucket WHERE grp <> 'shop'"), 0);
    client.execute("UPDATE lars.meta SET version = 999");
    let error = refused("shop");
    assert!(matches!(error, StartError::NewerDatabase { found: 999, .. }), "{error:?}");
    assert_eq!(client.number("SELECT version FROM lars.meta"), 999);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_node_without_handlers_sees_the_others_and_their_leases() {
    let server = server();
    let database = server.database();
    let node = |name: &str| database.durable().lease(SHORT_LEASE).name(name);
    let (one, two) = (
        node("one").handle(|_: &Fired<Note>| ()).start().unwrap(),
        node("two").handle(|_: &Fired<Note>| ()).start().unwrap(),
    );
    let looker = node("looker").start().unwrap();
    for _ in 0..10 {
        looker.timers().schedule_once(Duration::ZERO, Note).submit().wait().unwrap();
    }
    let seen = until(&looker, |seen| {
        seen.free_buckets == 0
            && seen.nodes.iter().filter(|node| node.serves && node.buckets > 0).count() == 2
            && seen.handler("note").is_some_and(|handler| handler.done == 10)
    });
    let mut names: Vec<&str> = seen.nodes.iter().map(|node| &*node.name).collect();
    names.sort_unstable();
    assert_eq!((names, seen.buckets), (vec!["looker", "one", "two"], 64));
    assert!(seen.nodes.iter().all(|node| node.lease_left <= SHORT_LEASE));
    let handler = seen.handler("note").unwrap();
    assert_eq!((handler.nodes, handler.pending.value), (2, 0));
    assert!(handler.lateness.is_some());
    one.close().unwrap();
    two.close().unwrap();
    let seen = until(&looker, |seen| seen.nodes.len() == 1);
    assert_eq!(seen.free_buckets, 64);
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn the_transaction_that_keeps_dead_rows_is_named_with_its_process() {
    let server = server();
    let database = server.database();
    let looker = database.durable().start().unwrap();
    let other = database.client();
    other.execute(
        "SET application_name = 'report';
         BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM lars.timer",
    );
    let pid = other.number("SELECT pg_backend_pid()::bigint");
    let seen = until(&looker, |seen| {
        let oldest = seen.database.as_ref().and_then(|it| it.oldest_snapshot.as_ref());
        oldest.is_some_and(|oldest| i64::from(oldest.pid) == pid)
    });
    let oldest = seen.database.unwrap().oldest_snapshot.unwrap();
    assert_eq!((&*oldest.application, &*oldest.state), ("report", "idle in transaction"));
    assert!(oldest.age > Duration::ZERO);
    let health = database.client().number("SELECT oldest_pid::bigint FROM lars.health");
    assert_eq!(health, pid);
    other.execute("COMMIT");
}

/// Timers that wait for hours, as many in each bucket.
fn fill(database: &Database, timers: u64) {
    database.client().execute(&format!(
        "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, handler,
                                 payload_version, payload)
         SELECT n, 'default', n % 64, now() + n * interval '1 s', now() + n * interval '1 s', now(),
                'note', 1, '{{}}' FROM generate_series(1, {timers}) AS n;
         ANALYZE lars.timer",
    ));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn looks_again_and_again_read_little_and_all_that_may_be_once_in_ten_seconds() {
    let server = server();
    let database = server.database();
    drop(database.durable().start().unwrap());
    fill(&database, 100_000);
    let client = database.client();
    // A session has sent what it has read when it has ended.
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                     AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let read = || {
        while client.number(others) > 0 {}
        client.number(
            "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
              WHERE relid = 'lars.timer'::regclass",
        )
    };
    let (before, looks, mut whole, mut counted) = (read(), 50, 0, BTreeSet::new());
    let mut observer = database.durable().observe().unwrap();
    for _ in 0..looks {
        let seen = observer.inspect().unwrap();
        // Where the machine stands still, nothing is counted.
        if !seen.counts_took_too_long {
            whole += 1;
            counted.insert(seen.clock.checked_sub(seen.counted_ago).unwrap());
            let pending = seen.handler("note").unwrap().pending;
            assert!(pending.at_least && pending.value <= 50_000 / 64 * 64, "{pending:?}");
        }
        assert!(seen.counted_ago < Duration::from_secs(10), "{seen:?}");
    }
    drop(observer);
    let rows = read() - before;
    // It looks also whether there are more.
    let (glance, all) = (2 * (2_048 + 64), 2 * (50_000 + 64));
    assert!(rows >= whole * 2_048, "{rows} rows are not all that was read");
    assert!(rows <= looks * glance + counted.len() as i64 * all, "{rows} rows: {counted:?}");
    let counted: Vec<_> = counted.into_iter().collect();
    let far = |pair: &[SystemTime]| pair[1] >= pair[0] + Duration::from_secs(10);
    assert!(counted.windows(2).all(far), "{counted:?}");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn views_and_looks_read_a_bounded_number_of_rows() {
    let server = server();
    let database = server.database();
    let looker = database.durable().start().unwrap();
    // The client-only node has made the buckets; nobody owns them.
    until(&looker, |seen| seen.buckets == 64);
    let client = database.client();
    fill(&database, 100_000);
    assert_eq!(client.number("SELECT count(*) FROM lars.overview"), 6_400);
    let sql = "SELECT pending FROM lars.by_handler WHERE more";
    assert_eq!(client.number(sql), 64_000);
    let seen = until(&looker, |seen| !seen.counts_took_too_long);
    let pending = seen.handler("note").unwrap().pending;
    // Where to count so many took too long, it is what a glance shows.
    assert!(pending.at_least && [2_048, 50_000 / 64 * 64].contains(&pending.value), "{pending:?}");
    // However slow the server is, it goes by the index.
    let plan = client.text("EXPLAIN (FORMAT JSON) SELECT * FROM lars.by_handler").unwrap();
    assert!(plan.contains(r#""Index Name": "timer_due""#), "{plan}");
}
