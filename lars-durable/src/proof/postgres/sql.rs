//! What `lars.schedule` and the statements of timers accept and refuse.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::node::{Tagged, node, settle};
use super::server::{PATIENCE, server};
use crate::error::TransactionError;
use crate::{Durable, OnConflict, Refused};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_group_that_no_node_has_joined_is_refused_by_name_unless_it_is_said_to_be_new() {
    let server = server();
    let database = server.database();
    database.durable().start().unwrap().close().unwrap();
    let client = database.client();
    while client.number("SELECT count(*) FROM lars.bucket") == 0 {
        drop(database.durable().start().unwrap().timers().get("key").wait());
    }
    let refused = |sql: &str| {
        let error = client.try_execute(sql).unwrap_err();
        error.as_db_error().unwrap().message().to_owned()
    };
    let schedule = "SELECT lars.schedule('defualt', 'tagged', '1', '1 hour')";
    for sql in [
        schedule,
        "SELECT lars.cancel('defualt', 'key')",
        "SELECT lars.cancel('defualt', 17)",
        "SELECT lars.reset('defualt', 'key', '1 s')",
        "SELECT lars.retry_parked('defualt', 17)",
        "SELECT lars.discard_parked('defualt', 17)",
    ] {
        let words = refused(sql);
        assert!(words.contains("'defualt'") && words.contains("'default'"), "{words}");
    }
    let new = "SELECT lars.schedule('later', 'tagged', '1', '1 hour', new_group => true)";
    client.execute(new);
    client.execute(&new.replace(", new_group => true", ""));
    assert_eq!(client.number("SELECT count(*) FROM lars.overview WHERE grp = 'later'"), 2);
    let long = new.replace("later", &"x".repeat(65));
    assert!(refused(&long).contains("65 bytes"), "{}", refused(&long));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_payload_is_text_json_or_jsonb_and_what_is_no_json_is_refused() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    settle(&database, 1);
    let client = database.client();
    for payload in ["'1'", "'2'::text", "to_jsonb(3)", "to_json(4)", "'5'::varchar", "6"] {
        client.execute(&format!("SELECT lars.schedule('default', 'tagged', {payload}, '0 s')"));
    }
    client.execute("PREPARE typeless AS SELECT lars.schedule('default', 'tagged', $1, '0 s')");
    client.execute("EXECUTE typeless ('7')");
    for payload in ["'{'", "'\\x00'::bytea", "NULL"] {
        let sql = format!("SELECT lars.schedule('default', 'tagged', {payload}, '0 s')");
        assert!(client.try_execute(&sql).is_err(), "{payload} was accepted");
    }
    let mut seen: Vec<u64> = (0..7).map(|_| runs.recv_timeout(PATIENCE).unwrap().tag).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
    assert!(runs.recv_timeout(Duration::from_millis(10)).is_err());
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_upgrade_works_where_all_tables_are_published() {
    let server = server();
    let database = server.database();
    database.durable().start().unwrap().close().unwrap();
    let client = database.client();
    client.execute("CREATE PUBLICATION everything FOR ALL TABLES");
    client.execute("UPDATE lars.meta SET version = 3 WHERE version < 3");
    let keyless = "SELECT string_agg(relname, ' ') FROM pg_class c
                    WHERE relnamespace = 'lars'::regnamespace AND relkind = 'r' AND NOT EXISTS
                          (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND indisprimary)";
    assert_eq!(client.text(keyless), None, "these tables have no primary key");
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn an_owner_with_the_widest_window_is_told_at_once_of_what_sql_puts_into_it() {
    let server = server();
    let database = server.database();
    database.durable().start().unwrap().close().unwrap();
    let client = database.client();
    let schedule = |count, minutes| {
        client.execute(&format!(
            "SELECT lars.schedule('default', 'tagged', '1', '{minutes} minutes', new_group => true)
               FROM generate_series(1, {count})"
        ));
    };
    let resident = |durable: &crate::Durable, count| {
        let end = Instant::now() + PATIENCE;
        while durable.metrics().resident != count {
            assert!(Instant::now() < end, "{} instead of {count}", durable.metrics().resident);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // In each of its buckets something is due, so what is in memory has been loaded.
    schedule(2_000, 50);
    let hour = Duration::from_secs(3_600);
    let (owner, runs) = node(database.durable().window(hour));
    let maker = database.durable().window(Duration::from_secs(1)).start().unwrap();
    resident(&owner, 2_000);
    // What was loaded is not loaded again, and no sweep looks at what is not due.
    schedule(10, 40);
    resident(&owner, 2_010);
    assert!(runs.try_recv().is_err(), "nothing is due");
    maker.close().unwrap();
    owner.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_statement_of_a_timer_schedules_it_with_the_transaction_or_not_at_all() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    settle(&database, 1);
    let (client, timers) = (database.client(), durable.timers());
    let soon = |tag| timers.schedule_once(Duration::from_millis(50), Tagged(tag));
    client.execute("BEGIN");
    client.submit(soon(1).submission().unwrap()).unwrap().unwrap();
    client.execute("ROLLBACK; BEGIN");
    let id = client.submit(soon(2).key("two").submission().unwrap()).unwrap().unwrap();
    client.execute("COMMIT");
    let seen = runs.recv_timeout(PATIENCE).unwrap();
    assert_eq!(seen.tag, 2);
    assert!(seen.at >= seen.due && id > 0);
    client.submit(soon(3).submission().unwrap()).unwrap().unwrap();
    let past = timers.schedule_at(UNIX_EPOCH, Tagged(4)).submission().unwrap();
    client.submit(past).unwrap().unwrap();
    let mut seen: Vec<u64> = (0..2).map(|_| runs.recv_timeout(PATIENCE).unwrap().tag).collect();
    seen.sort_unstable();
    assert_eq!(seen, [3, 4]);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_statement_of_a_timer_has_its_time_whatever_the_time_zone_of_the_session() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let (client, timers) = (database.client(), durable.timers());
    client.execute("SET TIME ZONE 'Europe/Berlin'");
    // The database's clock is this machine's, in microseconds.
    let (moment, year) = (Duration::from_millis(1), 365 * 24 * HOUR);
    for days in 1..=12 {
        let (key, delay) = (format!("after/{days}"), days * 30 * 24 * HOUR);
        let before = SystemTime::now() - moment;
        let call = timers.schedule_once(delay, Tagged(1)).key(&key).submission().unwrap();
        client.submit(call).unwrap();
        let due = timers.get(&key).wait().unwrap().unwrap().deadline.unwrap();
        assert!(due >= before + delay && due <= SystemTime::now() + delay, "{key}: {due:?}");
    }
    let at = SystemTime::now() + year / 2;
    let call = timers.schedule_at(at, Tagged(1)).key("at").submission().unwrap();
    client.submit(call).unwrap();
    let due = timers.get("at").wait().unwrap().unwrap().deadline.unwrap();
    assert!(due >= at && due < at + HOUR, "{due:?}");
    let never = timers.schedule_once(Duration::MAX, Tagged(1)).key("never");
    client.submit(never.remember(Duration::MAX).submission().unwrap()).unwrap();
    let due = timers.get("never").wait().unwrap().unwrap().deadline;
    assert!(due.is_none_or(|due| due > UNIX_EPOCH + 90_000 * year), "{due:?}");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_key_that_is_taken_is_kept_replaced_or_refused_by_a_statement_as_by_a_call() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable().group("shop"));
    let (client, timers) = (database.client(), durable.timers());
    while client.number("SELECT count(*) FROM lars.bucket WHERE owner IS NOT NULL") < 64 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let submit = |conflict| {
        let timer = timers.schedule_once(HOUR, Tagged(1)).key("it's {\"a\",NULL}");
        client.submit(timer.on_conflict(conflict).submission().unwrap())
    };
    let first = submit(OnConflict::Keep).unwrap().unwrap();
    assert_eq!(submit(OnConflict::Keep).unwrap(), Some(first));
    let second = submit(OnConflict::Replace).unwrap().unwrap();
    assert!(second > first);
    let code = submit(OnConflict::Fail).unwrap_err();
    assert_eq!(code.code(), Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION));
    let once = || {
        let once = timers.schedule_once(Duration::ZERO, Tagged(2)).key("once").remember(HOUR);
        client.submit(once.submission().unwrap()).unwrap()
    };
    once().unwrap();
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 2);
    while client.number("SELECT count(*) FROM lars.timer WHERE key = 'once'") > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(once(), None);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_no_statement_can_do_is_refused_by_name() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let timers = durable.timers();
    let refused = |error: TransactionError<_>| match error {
        TransactionError::Refused(Refused::NotInSql { what }) => what,
        other => panic!("{other}"),
    };
    let update = timers.schedule_once(HOUR, Tagged(1)).key("1").on_conflict(OnConflict::Update);
    assert_eq!(refused(update.submission().unwrap_err()), "a timer that updates another one");
    {
        let letter = timers.tell("tagged/1", Tagged(1)).submission();
        assert_eq!(refused(letter.unwrap_err()), "a message to an actor");
    }
    let key = timers.schedule_once(HOUR, Tagged(1)).key("").submission();
    assert_eq!(key.unwrap_err(), TransactionError::Refused(Refused::KeyEmpty));
    let elsewhere = Durable::in_memory().start().unwrap();
    let timer = elsewhere.timers().schedule_once(HOUR, Tagged(1));
    assert_eq!(timer.submission().unwrap_err(), TransactionError::OtherStore);
    durable.close().unwrap();
}
