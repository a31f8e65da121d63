//! What `lars.schedule` and `lars.cancel` accept and refuse.

use std::time::{Duration, Instant};

use super::node::{node, settle};
use super::server::{PATIENCE, server};

#[test]
fn a_group_that_no_node_has_joined_is_refused_by_name_unless_it_is_said_to_be_new() {
    let Some(server) = server() else { return };
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
    for sql in [schedule, "SELECT lars.cancel('defualt', 'key')"] {
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
fn a_payload_is_text_json_or_jsonb_and_what_is_no_json_is_refused() {
    let Some(server) = server() else { return };
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
fn an_upgrade_works_where_all_tables_are_published() {
    let Some(server) = server() else { return };
    let database = server.database();
    database.durable().start().unwrap().close().unwrap();
    let client = database.client();
    client.execute("CREATE PUBLICATION everything FOR ALL TABLES");
    client.execute("UPDATE lars.meta SET version = 2 WHERE version < 2");
    let keyless = "SELECT string_agg(relname, ' ') FROM pg_class c
                    WHERE relnamespace = 'lars'::regnamespace AND relkind = 'r' AND NOT EXISTS
                          (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND indisprimary)";
    assert_eq!(client.text(keyless), None, "these tables have no primary key");
}

#[test]
fn an_owner_with_the_widest_window_is_told_at_once_of_what_sql_puts_into_it() {
    let Some(server) = server() else { return };
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
