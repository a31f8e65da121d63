//! A transaction elsewhere that stays open: dead rows cannot be removed, and timers run on.
//!
//! `LARS_HELD_SECONDS=600 cargo test --release -p lars-durable --lib held:: -- --ignored` holds it
//! for ten minutes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::node::{Tagged, node, schedule, settle};
use super::server::{PATIENCE, server};

const SECONDS: &str = "LARS_HELD_SECONDS";

/// Timers a second. (Lateness is measured by the benches; here it is counted.)
const RATE: u64 = 200;

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn beside_a_snapshot_that_is_held_every_timer_runs_and_starts_stay_hot_updates() {
    let server = server();
    let seconds = std::env::var(SECONDS).map_or(8, |seconds| seconds.parse().unwrap());
    let database = server.database();
    let (durable, runs) = node(database.durable());
    settle(&database, 1);
    let timers = durable.timers();
    schedule(&timers, Duration::from_secs(86_400), u64::MAX);
    let holder = database.client();
    let rows = "SELECT count(*) FROM lars.timer";
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(holder.number(rows), 1);

    let mut epochs = BTreeMap::new();
    let first = SystemTime::now() + Duration::from_secs(1);
    for second in 0..seconds {
        let batch = (0..RATE).map(|n| {
            let due = first + Duration::from_micros((second * RATE + n) * 1_000_000 / RATE);
            timers.schedule_at(due, Tagged(second * RATE + n))
        });
        timers.schedule_batch(batch).wait().unwrap();
        std::thread::sleep(Duration::from_secs(1));
    }
    let end = Instant::now() + PATIENCE;
    while epochs.len() < usize::try_from(seconds * RATE).unwrap() {
        assert!(Instant::now() < end, "{} of {} have run", epochs.len(), seconds * RATE);
        let Ok(seen) = runs.recv_timeout(Duration::from_millis(100)) else { continue };
        assert!(seen.at >= seen.due, "{} is early", seen.tag);
        let before = epochs.insert(seen.tag, seen.fence >> 32);
        assert!(before != Some(seen.fence >> 32), "{} runs twice under one owner", seen.tag);
    }
    assert_eq!(holder.number(rows), 1, "the snapshot was not held");
    durable.close().unwrap();

    // A session sends its statistics when it ends, at the latest.
    let client = database.client();
    let updates = |column: &str| {
        let sql = format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = 'timer'");
        client.number(&sql)
    };
    while updates("n_tup_upd") < i64::try_from(seconds * RATE).unwrap() {
        assert!(Instant::now() < end, "the statistics never come");
        std::thread::sleep(Duration::from_millis(100));
    }
    client.execute("VACUUM lars.timer");
    let (all, hot, dead) = (updates("n_tup_upd"), updates("n_tup_hot_upd"), updates("n_dead_tup"));
    println!("{all} updates, {hot} of them HOT; {dead} dead rows that VACUUM has to leave");
    assert!(hot * 10 >= all * 9, "{hot} of {all} updates are HOT");
    assert!(dead > 0, "nothing was held");
    holder.execute("COMMIT");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_key_that_a_transaction_holds_holds_up_no_call_for_another_key() {
    let server = server();
    let database = server.database();
    let durable = database.durable().call_timeout(Duration::from_secs(60)).start().unwrap();
    let timers = durable.timers();
    let hour = Duration::from_secs(3_600);
    let make = |key: &str| timers.schedule_once(hour, Tagged(0)).key(key).submit();
    make("changed").wait().unwrap();
    let user = database.client();
    user.execute("BEGIN; SELECT * FROM lars.timer WHERE key = 'changed' FOR UPDATE");
    user.execute("SELECT lars.schedule('default', 'tagged', '1', '2 hours', key => 'made')");
    let reset = timers.reset("changed", 2 * hour);
    let made = make("made");
    for round in 0..20 {
        let others: Vec<_> = (0..10).map(|n| make(&format!("{round}/{n}"))).collect();
        others.into_iter().for_each(|other| assert!(other.wait().is_ok()));
    }
    let rows = "SELECT count(*) FROM lars.timer WHERE key IN ('changed', 'made')";
    assert_eq!(database.client().number(rows), 1, "what is not committed is not seen");
    user.execute("COMMIT");
    assert!(reset.wait().unwrap(), "the call that waited is carried out");
    let id = "SELECT id FROM lars.timer WHERE key = 'made'";
    let made = made.wait().unwrap().id;
    assert_eq!(i64::try_from(made).unwrap(), user.number(id), "the timer that was made stays");
    let due = "SELECT (deadline - now() > interval '90 minutes')::int FROM lars.timer
                WHERE key = 'changed'";
    assert_eq!(user.number(due), 1, "the deadline has moved");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn hundreds_of_keys_that_a_transaction_holds_hold_up_no_call_for_another_key() {
    let server = server();
    let database = server.database();
    let durable = database.durable().call_timeout(Duration::from_secs(5)).start().unwrap();
    let timers = durable.timers();
    let make =
        |key: &str| timers.schedule_once(Duration::from_secs(3_600), Tagged(0)).key(key).submit();
    let user = database.client();
    user.execute(
        "BEGIN; SELECT lars.schedule('default', 'tagged', '1', '2 hours', key => 'held/' || n)
           FROM generate_series(0, 299) n",
    );
    // A slow machine may need longer than one call may take.
    let end = Instant::now() + PATIENCE;
    let sure = |key: &str, beside: &dyn Fn()| loop {
        beside();
        match make(key).wait() {
            Ok(_) => break,
            Err(error) => assert!(Instant::now() < end, "{key}: {error}"),
        }
    };
    let all_held = || (0..300).for_each(|n| drop(make(&format!("held/{n}"))));
    (0..3).for_each(|n| sure(&format!("other/{n}"), &all_held));
    let rows = "SELECT count(*) FROM lars.timer WHERE key LIKE 'held/%'";
    assert_eq!(database.client().number(rows), 0, "what is not committed is not seen");
    user.execute("COMMIT");
    (0..300).for_each(|n| sure(&format!("held/{n}"), &|| {}));
    assert_eq!(database.client().number(rows), 300);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_batch_of_many_free_keys_does_not_wait_for_hundreds_that_a_transaction_holds() {
    let server = server();
    let database = server.database();
    let durable = database.durable().call_timeout(PATIENCE).start().unwrap();
    let timers = durable.timers();
    let make = |key: String| timers.schedule_once(Duration::from_secs(3_600), Tagged(0)).key(key);
    let user = database.client();
    user.execute(
        "BEGIN; SELECT lars.schedule('default', 'tagged', '1', '2 hours', key => 'held/' || n)
           FROM generate_series(0, 299) n",
    );
    let held: Vec<_> = (0..300).map(|n| make(format!("held/{n}")).submit()).collect();
    let free = timers.schedule_batch((0..600).map(|n| make(format!("free/{n}"))));
    assert_eq!(free.wait().unwrap().len(), 600);
    let rows = "SELECT count(*) FROM lars.timer WHERE key LIKE 'held/%'";
    assert_eq!(database.client().number(rows), 0, "what is not committed is not seen");
    user.execute("ROLLBACK");
    assert!(held.into_iter().all(|call| call.wait().is_ok()));
    assert_eq!(user.number(rows), 300);
    durable.close().unwrap();
}
