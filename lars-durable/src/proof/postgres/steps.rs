//! What the functions of the schema show, a step at a time, and what a step reads.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::node::{SHORT_LEASE, node, schedule};
use super::server::{Connected, Database, PATIENCE, server};
use crate::model::{Act, Select, States};
use crate::store::{PostgresStore, Reply, Request, Store, Write, Written};
use crate::sync::Arc;
use crate::{Durable, Fired, Payload};

/// A node without handlers, and a table of timers in four buckets and of some that are parked.
fn filled(database: &Database, timers: u64, parked: u64) -> (Durable, Connected) {
    let durable = database.durable().start().unwrap();
    let client = database.client();
    client.execute(&format!(
        "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, tag, handler,
                                 payload_version, payload)
         SELECT n, 'default', n % 4, due, due, due, 'k/' || n, 'red', 'a', 1, n::text
           FROM generate_series(1, {timers}) AS n,
                LATERAL (SELECT now() + n * interval '1 h') AS d (due);
         INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, key, tag, handler,
                                  payload_version, payload, remember, attempt, deaths, run, reason,
                                  parked_at)
         SELECT 1000000 + n, 'default', 0, now(), now(), 'k/' || n, 'red', 'a', 1, n::text, 0, 1, 0,
                0, 'no such order', now()
           FROM generate_series(1, {parked}) AS n;
         ANALYZE lars.timer, lars.parked"
    ));
    (durable, client)
}

/// The three ways through the timers.
const WAYS: [&str; 3] = ["handler => 'a'", "key_prefix => 'k/'", "tag => 'red'"];

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_list_and_a_count_in_steps_show_each_timer_once_and_then_each_that_is_parked() {
    let server = server();
    let database = server.database();
    let (durable, client) = filled(&database, 20, 5);
    // However the session shows times, and reads texts.
    client.execute("SET TIME ZONE 'Asia/Tokyo'; SET datestyle = 'SQL, DMY'");
    client.execute("SET standard_conforming_strings = off");
    for way in WAYS {
        let all = format!("SELECT string_agg(x.id::text, ' ') FROM lars.list('default', {way}) x");
        let all = client.text(&all).unwrap();
        for most in [1, 3, 7, 25, 26] {
            let (ids, counted) = all_steps(&client, &format!("'default', {way}, most => {most}"));
            let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
            assert_eq!(ids.join(" "), all, "{way}, {most} in a step");
            assert_eq!((ids.len(), counted), (25, 25), "{way}, {most} in a step");
        }
    }
    let shown = client.text(
        "SELECT concat_ws(' ', x.key, x.tag, x.handler, x.state, x.attempt, x.payload, x.reason)
           FROM lars.list('default', states => '{parked}', most => 1) AS x WHERE x.id IS NOT NULL",
    );
    assert_eq!(shown.unwrap(), "k/1 red a parked 1 1 no such order");
    durable.close().unwrap();
}

/// What all steps of a list show, and of a count.
fn all_steps(client: &Connected, given: &str) -> (Vec<i64>, i64) {
    let (mut after, mut ids, mut counted) = ("NULL".to_owned(), Vec::new(), 0);
    loop {
        let given = format!("{given}, after => {after}");
        let step = format!(
            "SELECT coalesce(string_agg(x.id::text, ' '), '') || '|'
                    || coalesce(max(x.place) FILTER (WHERE x.id IS NULL), '')
               FROM lars.list({given}) AS x"
        );
        let step = client.text(&step).unwrap();
        let (found, next) = step.split_once('|').unwrap();
        ids.extend(found.split_whitespace().map(|id| id.parse::<i64>().unwrap()));
        let count =
            format!("SELECT concat_ws('|', x.matched, x.next) FROM lars.count({given}) AS x");
        let count = client.text(&count).unwrap();
        let (matched, same) = count.split_once('|').unwrap_or((&count, ""));
        assert_eq!(same, next, "{given}");
        counted += matched.parse::<i64>().unwrap();
        if next.is_empty() {
            return (ids, counted);
        }
        after = format!("'{next}'");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn keys_that_other_groups_have_too_are_walked_through_to_the_end_and_each_once() {
    let server = server();
    let database = server.database();
    let durable = database.durable().group("own").start().unwrap();
    let client = database.client();
    let insert = |from: &str| {
        client.execute(&format!(
            "TRUNCATE lars.timer;
             INSERT INTO lars.timer (id, grp, key, handler, bucket, due_at, deadline, planned_at,
                                     payload_version, payload)
             SELECT *, 0, now(), now(), now(), 1, '1' FROM ({from}) AS them"
        ));
    };
    // The own timer is behind all others with its key.
    insert(
        "SELECT n, 'g' || n, 'nightly', 'a' FROM generate_series(1, 6000) AS n
         UNION ALL VALUES (9001, 'own', 'nightly', 'a'), (9002, 'own', 'nightly/2', 'a')",
    );
    assert_eq!(all_steps(&client, "'own', 'night'"), (vec![9001, 9002], 2));
    // The step ends between two that have one key.
    insert(
        "SELECT 0, 'own', 'k/0', 'b'
          UNION ALL
         SELECT 2 * n + (grp = 'own')::int, grp, 'k/' || lpad(n::text, 6, '0'),
                CASE WHEN n BETWEEN 2490 AND 2510 THEN 'a' ELSE 'b' END
           FROM generate_series(1, 6000) AS n, (VALUES ('own'), ('other')) AS them (grp)",
    );
    let few: Vec<i64> = (2490..=2510).map(|n| 2 * n + 1).collect();
    assert_eq!(all_steps(&client, "'own', 'k/', handler => 'a'"), (few, 21));
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_place_that_the_same_conditions_do_not_lead_to_is_refused_by_sql() {
    let server = server();
    let database = server.database();
    let (durable, client) = filled(&database, 1, 0);
    let [by_time, by_key, by_tag] = WAYS;
    for (given, after) in [
        (by_time, "key:k/1"),
        (by_time, "due:1:1"),
        (by_time, "due:1:1:now"),
        (by_time, "due:99999:1:infinity"),
        (by_time, "due:1:99999999999999999999:infinity"),
        (by_time, "k/1"),
        (by_time, ""),
        (by_key, "due:1:1:infinity"),
        (by_key, "parked:"),
        (by_tag, "key:k/1"),
        (by_tag, "parked:-1"),
        (by_tag, "parked:99999999999999999999"),
        ("states => '{due}'", "parked:1"),
        ("states => '{parked}'", "due:1:1:infinity"),
    ] {
        for call in ["list", "count"] {
            let sql = format!("SELECT lars.{call}('default', {given}, after => '{after}')");
            let error = client.try_execute(&sql).unwrap_err();
            let words = error.as_db_error().unwrap().message().to_owned();
            let expected = "but it must be the next of a step with the same conditions";
            assert_eq!(words, format!("after is '{after}', {expected}"), "{given}");
        }
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_step_reads_no_more_timers_than_it_may_look_at_however_many_there_are() {
    let server = server();
    let database = server.database();
    let (durable, client) = filled(&database, 20_000, 0);
    let read = || {
        client.number(
            "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
              WHERE schemaname = 'lars' AND relname = 'timer'",
        )
    };
    for way in WAYS {
        // None is in this state, so that the step looks for as long as it may.
        let given = format!("{way}, states => '{{retrying}}'");
        for call in [
            format!("count('default', {given})"),
            format!("list('default', {given})"),
            format!("cancel_all('default', {given})"),
            format!("reset_all('default', '1 h', {given})"),
        ] {
            client.execute("BEGIN");
            let before = read();
            client.execute(&format!("SELECT lars.{call}"));
            let read = read() - before;
            client.execute("ROLLBACK");
            assert!((5_000..=5_001).contains(&read), "{call} has read {read}");
        }
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_step_by_sql_reads_hardly_more_timers_than_it_is_to_find() {
    let server = server();
    let database = server.database();
    let (durable, client) = filled(&database, 20_000, 20_000);
    let read = || {
        client.number(
            "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
              WHERE schemaname = 'lars' AND relname IN ('timer', 'parked')",
        )
    };
    for way in WAYS {
        let mut calls = vec![
            format!("count('default', {way}, most => 3)"),
            format!("list('default', {way}, most => 3)"),
            format!("cancel_all('default', {way}, most => 3)"),
            format!("reset_all('default', '1 h', {way}, most => 3)"),
        ];
        calls.extend(
            ["retry_all", "discard_all"].map(|it| format!("{it}('default', {way}, most => 3)")),
        );
        for call in calls {
            client.execute("BEGIN");
            let before = read();
            client.execute(&format!("SELECT lars.{call}"));
            let read = read() - before;
            client.execute("ROLLBACK");
            assert!((4..=60).contains(&read), "{call} has read {read}");
        }
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_step_of_a_node_reads_hardly_more_timers_than_it_is_to_find() {
    let server = server();
    let database = server.database();
    let (durable, client) = filled(&database, 3_000, 3_000);
    durable.close().unwrap();
    // When all other sessions have ended, which say at the latest then what they have read.
    let read = || {
        let others = "SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND pid <> pg_backend_pid()
                AND backend_type = 'client backend'";
        let end = Instant::now() + PATIENCE;
        while client.number(others) > 0 {
            assert!(Instant::now() < end, "sessions do not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        client.execute("SELECT pg_stat_clear_snapshot()");
        client.number(
            "SELECT sum(idx_tup_fetch)::bigint FROM pg_stat_user_tables
              WHERE schemaname = 'lars' AND relname IN ('timer', 'parked')",
        )
    };
    let all = Select::of(States::ALL, 10, 5_000);
    let mut before = read();
    for select in [
        all.clone(),
        Select { prefix: Some("k/".into()), ..all.clone() },
        Select { tag: Some("red".into()), ..all.clone() },
        Select { states: States::PARKED, ..all },
    ] {
        let mut store = PostgresStore::new(database.place());
        let count = Write::Select { select: Arc::new(select.clone()), act: Act::Count };
        let replies = store.transact(&[Request::Write(count)]).unwrap().replies;
        let Reply::Written(Written::Selected(selected)) = &replies[0] else { panic!() };
        assert_eq!((selected.matched, selected.next.is_some()), (10, true), "{select:?}");
        drop(store);
        let after = read();
        let number = after - before;
        assert!((11..=30).contains(&number), "{number} were read: {select:?}");
        before = after;
    }
}

/// Of a handler that is not paused.
#[derive(serde::Serialize, serde::Deserialize)]
struct Other;

impl Payload for Other {
    const NAME: &'static str = "other";
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_handler_that_sql_pauses_starts_nothing_until_sql_resumes_it() {
    let server = server();
    let database = server.database();
    // So that there is a group.
    database.durable().start().unwrap().close().unwrap();
    let client = database.client();
    let answer = |sql: &str| client.text(&format!("SELECT lars.{sql}")).unwrap();
    assert_eq!(answer("pause('default', 'tagged')"), "t");
    assert_eq!(answer("pause('default', 'tagged')"), "f");
    for call in ["pause", "resume"] {
        let sql = format!("SELECT lars.{call}('defualt', 'tagged')");
        let error = client.try_execute(&sql).unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("'defualt'"));
    }
    let (sender, others) = channel();
    let sender = Mutex::new(sender);
    let other = move |_: &Fired<Other>| sender.lock().unwrap().send(()).unwrap();
    let (durable, runs) = node(database.durable().lease(SHORT_LEASE).handle(other));
    let timers = durable.timers();
    schedule(&timers, Duration::ZERO, 1);
    timers.schedule_once(Duration::from_millis(100), Other).submit().wait().unwrap();
    others.recv_timeout(PATIENCE).unwrap();
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE fence IS NULL"), 1);
    assert_eq!(answer("resume('default', 'tagged')"), "t");
    assert_eq!(answer("resume('default', 'tagged')"), "f");
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
    durable.close().unwrap();
}
