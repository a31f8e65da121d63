//! What another transaction holds, and two that would wait for each other.

use std::time::{Duration, Instant};

use super::node::Tagged;
use super::server::{Connected, Database, PATIENCE, server};
use crate::model::{
    Act, Fence, Finish, Kept, NewTimer, Old, OnConflict, Ran, RunOutcome, Select, Start, States,
    Then, When, Which,
};
use crate::query::{Query, State};
use crate::schedule::Cancel;
use crate::store::{Keep, PostgresStore, Reply, Request, Store, Terms, Write};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};
use crate::{Durable, Error, Refused, Timers};

/// A node without handlers, so that there is a group, and parked timers: their identities, keys and
/// handlers.
fn parked(database: &Database, rows: &str) -> (Durable, Connected) {
    let durable = database.durable().call_timeout(Duration::from_secs(60)).start().unwrap();
    let client = database.client();
    client.execute(&format!(
        "INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, key, handler,
                                  payload_version, payload, remember, attempt, deaths, run, reason,
                                  parked_at)
         SELECT id, 'default', 0, now(), now(), key, handler, 1, '1', 0, 1, 0, 0, 'away', now()
           FROM (VALUES {rows}) AS them (id, key, handler)"
    ));
    (durable, client)
}

/// Whoever makes a timer waits until two have made one, or somebody waits for a lock.
const MEET: &str = "
    CREATE SEQUENCE public.met;
    CREATE FUNCTION public.meet() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM nextval('public.met');
        WHILE (SELECT last_value FROM public.met) < 2 AND NOT EXISTS (
            SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
             WHERE NOT l.granted AND a.datname = current_database()) LOOP
            PERFORM pg_sleep(0.01);
            PERFORM pg_stat_clear_snapshot();
        END LOOP;
        RETURN NULL;
    END $$;
    CREATE TRIGGER meet AFTER INSERT ON lars.timer FOR EACH ROW EXECUTE FUNCTION public.meet()";

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn two_steps_by_sql_that_retry_timers_with_the_same_keys_both_come_to_their_end() {
    let server = server();
    let database = server.database();
    let rows = "(1, 'x', 'a'), (2, 'y', 'b'), (3, 'y', 'a'), (4, 'x', 'b')";
    let (durable, client) = parked(&database, rows);
    durable.close().unwrap();
    client.execute(MEET);
    let changed: i64 = std::thread::scope(|scope| {
        let steps = ["a", "b"].map(|handler| {
            let step = database.client();
            let sql =
                format!("SELECT changed FROM lars.retry_all('default', handler => '{handler}')");
            scope.spawn(move || step.number(&sql))
        });
        steps.into_iter().map(|step| step.join().unwrap()).sum()
    });
    assert_eq!(changed, 2, "each key has one timer");
    assert_eq!(
        client.text("SELECT string_agg(key, ' ' ORDER BY key) FROM lars.timer").unwrap(),
        "x y"
    );
    assert_eq!(client.number("SELECT count(*) FROM lars.parked"), 2);
}

/// Which keys new timers have, in the order in which they are made.
const WATCH: &str = "
    CREATE TABLE public.made (place serial, key text);
    CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.made (key) VALUES (NEW.key);
        RETURN NEW;
    END $$;
    CREATE TRIGGER watch BEFORE INSERT ON lars.timer FOR EACH ROW EXECUTE FUNCTION public.watch()";

fn timer(id: i64, key: &str) -> NewTimer {
    NewTimer {
        id,
        bucket: 0,
        when: When::After(Micros::DAY),
        offset: Micros::ZERO,
        home: None,
        key: Some(key.into()),
        tag: None,
        conflict: OnConflict::Keep,
        handler: "a".into(),
        payload_version: 1,
        payload: "1".into(),
        series: None,
        remember: Micros::ZERO,
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn whoever_makes_many_timers_makes_them_in_the_order_of_their_keys() {
    let server = server();
    let database = server.database();
    let rows = "(1, 'n', 'node'), (2, 'b', 'node'), (3, 'z', 'sql'), (4, 'c', 'sql')";
    let (durable, client) = parked(&database, rows);
    durable.close().unwrap();
    client.execute(WATCH);
    let made = || {
        let made = client.text("SELECT string_agg(key, ' ' ORDER BY place) FROM public.made");
        client.execute("TRUNCATE public.made");
        made.unwrap()
    };
    let mut store = PostgresStore::new(database.place());
    let timers = [(10, "m"), (11, "a"), (12, "y"), (13, "k")].map(|(id, key)| timer(id, key));
    let schedule =
        |timer: &NewTimer| Request::Write(Write::Schedule(Arc::new(vec![timer.clone()])));
    store.transact(&timers.each_ref().map(schedule)).unwrap();
    assert_eq!(made(), "a k m y");
    let select = Select { handler: Some("node".into()), ..Select::of(States::PARKED, 9, 9) };
    let retry = Write::Select { select: Arc::new(select), act: Act::Retry };
    store.transact(&[Request::Write(retry)]).unwrap();
    assert_eq!(made(), "b n");
    client.execute("SELECT lars.retry_all('default', handler => 'sql')");
    assert_eq!(made(), "c z");
}

/// Which timers a statement changes, in the order in which it takes them.
const WATCH_ROWS: &str = "
    CREATE TABLE public.taken (place serial, id bigint);
    CREATE FUNCTION public.watch_rows() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.taken (id) VALUES (OLD.id);
        RETURN coalesce(NEW, OLD);
    END $$;
    CREATE TRIGGER watch_rows BEFORE UPDATE OR DELETE ON lars.timer FOR EACH ROW
        EXECUTE FUNCTION public.watch_rows()";

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn whatever_the_order_of_a_batch_its_timers_are_taken_in_the_order_of_their_identities() {
    const NODE: u128 = 7;
    const MANY: i64 = 60;
    let server = server();
    let database = server.database();
    PostgresStore::prepare(&database.place()).unwrap();
    let mut store = PostgresStore::new(database.place());
    let join = Keep::Join { node: NODE, serves: true, terms: Terms::default() };
    let claim = Keep::Claim { node: NODE, dead: Vec::new(), buckets: vec![0] };
    store.transact(&[Request::Keep(join), Request::Keep(claim)]).unwrap();
    let client = database.client();
    client.execute(WATCH_ROWS);
    let mut shuffled: Vec<i64> = (1..=MANY).collect();
    // The rows lie in another order than that of their identities.
    for _ in 0..4 {
        fastrand::shuffle(&mut shuffled);
        for id in &shuffled {
            let new = NewTimer { when: When::After(Micros::ZERO), ..timer(*id, &id.to_string()) };
            let new = NewTimer { conflict: OnConflict::Replace, ..new };
            let write = Write::Schedule(Arc::new(vec![new]));
            store.transact(&[Request::Write(write)]).unwrap();
        }
    }
    // More often than it takes until each statement has a plan that stays.
    for round in 0..9 {
        let mut in_any_order = || {
            fastrand::shuffle(&mut shuffled);
            shuffled.clone()
        };
        let mut ordered = |asked: &[Request], what: &str| {
            client.execute("TRUNCATE public.taken");
            store.transact(asked).unwrap();
            let taken = "SELECT string_agg(id::text, ' ' ORDER BY place) FROM public.taken";
            let expected: Vec<String> = (1..=MANY).map(|id| id.to_string()).collect();
            assert_eq!(client.text(taken).unwrap(), expected.join(" "), "{what}");
        };
        let fence = Fence::new(1, 1 + round);
        let start = |id| Start { id, bucket: 0, fence };
        let starts = in_any_order().into_iter().map(start).collect();
        ordered(&[Request::Start { node: NODE, lead: Micros::SECOND, starts }], "start");
        let then = if round < 8 {
            Then::Retry { after: Micros::ZERO, error: "away".into() }
        } else {
            Then::Done
        };
        let moved: Vec<Request> = in_any_order()
            .into_iter()
            .map(|id| Write::Reset { which: Which::Id(id), when: When::After(Micros::ZERO) })
            .map(Request::Write)
            .collect();
        let finish = |id| Finish { id, fence, then: then.clone() };
        let finishes: Vec<Finish> = in_any_order().into_iter().map(finish).collect();
        ordered(&[Request::Finish(finishes)], "finish");
        if round < 8 {
            ordered(&moved, "reset");
        }
    }
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 0);
}

/// Identities that are drawn for no timer of a test.
const FIRST: u64 = 1_000_000;

/// As long as a transaction is open, calls about other timers are answered.
fn others_go_on(timers: &Timers) {
    for round in 0..10 {
        let hour = Duration::from_secs(3_600);
        let others: Vec<_> = (0..5)
            .map(|n| timers.schedule_once(hour, Tagged(n)).key(format!("{round}/{n}")).submit())
            .collect();
        others.into_iter().for_each(|other| assert!(other.wait().is_ok()));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_parked_timer_that_a_transaction_holds_holds_up_no_call_for_another_one() {
    let server = server();
    let database = server.database();
    let rows = (1..8).map(|n| format!("({n}, 'key/{n}', 'a')")).collect::<Vec<_>>().join(", ");
    let (durable, user) = parked(&database, &rows);
    let timers = durable.timers();
    user.execute(
        "BEGIN; SELECT lars.discard_parked('default', 1); SELECT lars.retry_parked('default', 2);
         SELECT lars.schedule('default', 'a', '1', '1 h', key => 'key/3');
         SELECT lars.pause('default', 'a')",
    );
    let (one, two) = (timers.retry_parked(1), timers.discard_parked(2));
    let (taken, paused) = (timers.retry_parked(3), timers.pause("a"));
    others_go_on(&timers);
    assert!(timers.retry_parked(4).wait().unwrap());
    user.execute("COMMIT");
    assert!(!one.wait().unwrap() && !two.wait().unwrap(), "they are gone");
    let refused = taken.wait().unwrap_err();
    assert!(matches!(&refused, Error::Refused(Refused::KeyTaken { .. })), "{refused}");
    paused.wait().unwrap();
    assert_eq!(user.number("SELECT count(*) FROM lars.paused"), 1);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_step_through_what_is_parked_passes_over_what_a_transaction_holds() {
    let server = server();
    let database = server.database();
    let rows = (1..8).map(|n| format!("({n}, 'key/{n}', 'a')")).collect::<Vec<_>>().join(", ");
    let (durable, user) = parked(&database, &rows);
    let timers = durable.timers();
    user.execute("BEGIN; SELECT id FROM lars.parked WHERE id IN (2, 4, 6) FOR UPDATE");
    let query = Query::new().states([State::Parked]).limit(4);
    let retried = timers.retry_all(&query).wait().unwrap();
    assert_eq!((retried.changed, retried.passed_over), (2, 2), "1 and 3");
    let rest = query.after(retried.next.unwrap());
    let discarded = timers.discard_all(&rest).wait().unwrap();
    assert_eq!((discarded.changed, discarded.passed_over), (2, 1), "5 and 7");
    user.execute("COMMIT");
    let left = user.text("SELECT string_agg(id::text, ' ' ORDER BY id) FROM lars.parked").unwrap();
    assert_eq!(left, "2 4 6");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_step_that_retries_passes_over_a_key_with_which_a_transaction_makes_a_timer() {
    let server = server();
    let database = server.database();
    let row = |n| format!("({}, 'key/{n}', 'a')", FIRST + n);
    let rows = (1..6).map(row).collect::<Vec<_>>().join(", ");
    let (durable, user) = parked(&database, &rows);
    let timers = durable.timers();
    user.execute("BEGIN; SELECT lars.schedule('default', 'a', '1', '1 h', key => 'key/3')");
    // As many as a batch has room for: a step that had to wait would keep all others from theirs.
    let query = Query::new().states([State::Parked]).limit(1_000);
    let retried = timers.retry_all(&query).wait().unwrap();
    assert_eq!((retried.changed, retried.passed_over), (4, 1));
    others_go_on(&timers);
    user.execute("COMMIT");
    assert_eq!(user.text("SELECT key FROM lars.parked").unwrap(), "key/3");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn however_many_parked_timers_a_transaction_holds_calls_about_them_hold_up_no_other() {
    const MANY: u64 = 300;
    let server = server();
    let database = server.database();
    let ids = FIRST..FIRST + MANY;
    let row = |n| format!("({n}, 'key/{n}', 'a')");
    let rows = ids.clone().map(row).collect::<Vec<_>>().join(", ");
    let (durable, user) = parked(&database, &rows);
    let timers = durable.timers();
    user.execute("BEGIN; SELECT id FROM lars.parked FOR UPDATE");
    let retried: Vec<_> = ids.clone().skip(1).map(|id| timers.retry_parked(id)).collect();
    let discarded = timers.discard_parked(ids.start);
    others_go_on(&timers);
    user.execute("COMMIT");
    assert!(retried.into_iter().all(|call| call.wait().unwrap()));
    assert!(discarded.wait().unwrap());
    assert_eq!(user.number("SELECT count(*) FROM lars.parked"), 0);
    durable.close().unwrap();
}

/// As long as a transaction makes a timer with this key.
fn while_a_key_is_made(user: &Connected, key: &str, during: impl FnOnce()) {
    user.execute(&format!(
        "BEGIN; SELECT lars.schedule('default', 'a', '1', '1 h', key => '{key}')"
    ));
    during();
    user.execute("ROLLBACK");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn of_two_calls_about_a_parked_timer_whose_key_a_transaction_has_the_first_comes_first() {
    let server = server();
    let database = server.database();
    let (durable, user) = parked(&database, "(1, 'key/1', 'a')");
    let timers = durable.timers();
    let mut calls = None;
    while_a_key_is_made(&user, "key/1", || {
        calls = Some((timers.retry_parked(1), timers.discard_parked(1)));
        others_go_on(&timers);
    });
    let (retried, discarded) = calls.unwrap();
    assert!(retried.wait().unwrap(), "it was there when it was to be tried again");
    assert!(!discarded.wait().unwrap(), "it is parked no longer");
    assert!(timers.get("key/1").wait().unwrap().is_some());
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_call_about_one_key_of_a_batch_that_waits_for_another_waits_behind_the_batch() {
    let server = server();
    let database = server.database();
    let (durable, user) = parked(&database, "(1, 'key/1', 'a')");
    let timers = durable.timers();
    let make = |key: &str| timers.schedule_once(Duration::from_secs(3_600), Tagged(0)).key(key);
    let mut calls = None;
    while_a_key_is_made(&user, "held", || {
        calls = Some((timers.schedule_batch(["held", "free"].map(make)), timers.cancel("free")));
        others_go_on(&timers);
    });
    let (made, cancelled) = calls.unwrap();
    assert_eq!(made.wait().unwrap().len(), 2);
    assert_eq!(cancelled.wait().unwrap(), Cancel::Prevented);
    assert!(timers.get("free").wait().unwrap().is_none(), "it was cancelled last");
    assert!(timers.get("held").wait().unwrap().is_some());
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn of_two_calls_about_a_handler_that_a_transaction_pauses_the_last_counts() {
    let server = server();
    let database = server.database();
    let (durable, user) = parked(&database, "(1, 'key/1', 'a')");
    let timers = durable.timers();
    user.execute("BEGIN; SELECT lars.pause('default', 'a')");
    let (pause, resume) = (timers.pause("a"), timers.resume("a"));
    others_go_on(&timers);
    user.execute("COMMIT");
    pause.wait().unwrap();
    resume.wait().unwrap();
    assert_eq!(user.number("SELECT count(*) FROM lars.paused"), 0);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_is_deleted_because_it_is_old_waits_for_nobody_who_holds_it() {
    let server = server();
    let database = server.database();
    let mut store = PostgresStore::new(database.place());
    PostgresStore::prepare(&database.place()).unwrap();
    let long_ago = Timestamp(1_700_000_000_000_000);
    let ran = |timer: i64| Ran {
        timer,
        fence: Fence::new(1, 1),
        key: None,
        handler: "a".into(),
        node: "node".into(),
        run: 0,
        attempt: 1,
        planned: long_ago,
        began: long_ago,
        ended: long_ago,
        outcome: RunOutcome::Done,
        error: None,
    };
    store.transact(&[Request::Record((1..=5).map(ran).collect())]).unwrap();
    let user = database.client();
    user.execute(
        "INSERT INTO lars.used_key
         SELECT 'default', 'key/' || n, now() - interval '1 h' FROM generate_series(1, 5) AS n",
    );
    user.execute(
        "BEGIN;
         UPDATE lars.used_key SET until = now() + interval '1 h' WHERE key = 'key/2';
         SELECT FROM lars.run WHERE timer = 2 FOR UPDATE",
    );
    let kept = Kept { most: None, age: Some(Micros::SECOND) };
    let asked = [Request::Forget { limit: 9 }, Request::Prune { old: Old::Runs, kept, limit: 9 }];
    let replies = store.transact(&asked).unwrap().replies;
    assert!(matches!(replies[..], [Reply::Forgotten(4), Reply::Pruned(4)]), "{replies:?}");
    user.execute("COMMIT");
    let replies = store.transact(&asked).unwrap().replies;
    assert!(matches!(replies[..], [Reply::Forgotten(0), Reply::Pruned(1)]), "{replies:?}");
    assert_eq!(user.number("SELECT count(*) FROM lars.used_key"), 1, "it is remembered again");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_is_old_is_deleted_without_passing_that_again_which_a_snapshot_keeps() {
    let server = server();
    let database = server.database();
    let mut store = PostgresStore::new(database.place());
    PostgresStore::prepare(&database.place()).unwrap();
    let user = database.client();
    user.execute(
        "INSERT INTO lars.used_key SELECT 'default', 'key/' || n, now() - n * interval '1 s'
           FROM generate_series(1, 5000) AS n;
         INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, handler, payload_version,
                                  payload, remember, attempt, deaths, run, reason, parked_at)
         SELECT n, 'default', 0, now(), now(), 'a', 1, '', 0, 1, 0, 0, 'failed',
                now() - n * interval '1 min'
           FROM generate_series(1, 5000) AS n;
         INSERT INTO lars.run (timer, fence, grp, handler, node, run, attempt, planned_at,
                               began_at, ended_at, outcome)
         SELECT n, 1, 'default', 'a', 'node', 0, 1, now(), now(), now() - n * interval '1 min',
                'done'
           FROM generate_series(1, 5000) AS n",
    );
    let holder = database.client();
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM lars.used_key LIMIT 1");
    let kept = Kept { most: None, age: Some(Micros::SECOND) };
    let prune = |old| Request::Prune { old, kept, limit: 500 };
    let asked = [Request::Forget { limit: 500 }, prune(Old::Parked), prune(Old::Runs)];
    for _ in 0..10 {
        let replies = store.transact(&asked).unwrap().replies;
        let all = [Reply::Forgotten(500), Reply::Pruned(500), Reply::Pruned(500)];
        assert_eq!(replies, all);
    }
    drop(store);
    for index in ["used_key_until", "parked_since", "run_ended"] {
        let entries = entries_read(&user, index, 5_000);
        assert!(entries < 10_000, "{index}: {entries} entries were read to delete 5,000 rows");
    }
    holder.execute("COMMIT");
}

/// How many entries of an index were read, once there are so many. (A session sends its statistics
/// when it ends, at the latest.)
fn entries_read(user: &Connected, index: &str, least: i64) -> i64 {
    let read =
        format!("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '{index}'");
    let end = Instant::now() + PATIENCE;
    loop {
        let entries = user.number(&read);
        if entries >= least {
            return entries;
        }
        assert!(Instant::now() < end, "{index}: the statistics never come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_node_joins_without_passing_the_batches_that_a_snapshot_keeps() {
    let server = server();
    let database = server.database();
    let mut store = PostgresStore::new(database.place());
    PostgresStore::prepare(&database.place()).unwrap();
    let user = database.client();
    let batches = |writer: u32, tokens: &str, age: &str| {
        user.execute(&format!(
            "INSERT INTO lars.batch SELECT '{writer:08}-0000-0000-0000-000000000000', n, {age}
               FROM generate_series({tokens}) AS n"
        ));
    };
    // Writers that are silent, between others that are not.
    for writer in [1, 3, 5] {
        batches(writer, "1, 20000", "now()");
        batches(writer + 1, "1, 3", "now() - interval '31 days'");
    }
    let holder = database.client();
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM lars.batch LIMIT 1");
    user.execute("SET enable_indexscan = off; SET enable_bitmapscan = off");
    user.execute("DELETE FROM lars.batch WHERE token BETWEEN 4 AND 19990");
    let second = Micros::SECOND;
    let join = Keep::Join { node: 7, serves: true, terms: Terms { lease: second, window: second } };
    let joined = store.transact(&[Request::Keep(join)]).unwrap().replies;
    assert!(matches!(joined[..], [Reply::Joined { .. }]), "{joined:?}");
    let left = "SELECT count(*) * 100 + count(DISTINCT writer) FROM lars.batch";
    assert_eq!(user.number(left), 3 * 13 * 100 + 3, "those of the three that live");
    drop(store);
    let entries = entries_read(&user, "batch_pkey", 1);
    assert!(entries < 1_000, "{entries} entries were read");
    holder.execute("COMMIT");
}
