//! What the functions of the schema accept, refuse and do.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::node::{Tagged, node, settle};
use super::server::{PATIENCE, server};
use crate::error::TransactionError;
use crate::inspection::ParkedQuery;
use crate::{CancelReason, Durable, Fired, OnConflict, Outcome, Refused};

const HOUR: Duration = Duration::from_secs(3_600);

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
    client.execute("UPDATE lars.meta SET version = 3 WHERE version < 3");
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

#[test]
fn a_statement_of_a_timer_schedules_it_with_the_transaction_or_not_at_all() {
    let Some(server) = server() else { return };
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
fn a_statement_of_a_timer_has_its_time_whatever_the_time_zone_of_the_session() {
    let Some(server) = server() else { return };
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
fn a_key_that_is_taken_is_kept_replaced_or_refused_by_a_statement_as_by_a_call() {
    let Some(server) = server() else { return };
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
fn what_no_statement_can_do_is_refused_by_name() {
    let Some(server) = server() else { return };
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let timers = durable.timers();
    let refused = |error: TransactionError<_>| match error {
        TransactionError::Refused(Refused::NotInSql { what }) => what,
        other => panic!("{other}"),
    };
    let update = timers.schedule_once(HOUR, Tagged(1)).key("1").on_conflict(OnConflict::Update);
    assert_eq!(refused(update.submission().unwrap_err()), "a timer that updates another one");
    #[cfg(feature = "actors")]
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

#[test]
fn sql_cancels_and_moves_a_timer_by_its_key_and_by_its_identity() {
    let Some(server) = server() else { return };
    let database = server.database();
    let (durable, runs) = node(database.durable());
    settle(&database, 1);
    let client = database.client();
    let answer = |sql: &str| client.text(&format!("SELECT lars.{sql}")).unwrap();
    let timers = durable.timers();
    let make = |tag: u64| {
        let once = timers.schedule_once(HOUR, Tagged(tag)).key(format!("key/{tag}"));
        once.submit().wait().unwrap().id
    };
    let (_, id) = (make(1), make(2));
    assert_eq!(answer("cancel('default', 'key/1')"), "prevented");
    assert_eq!(answer("cancel('default', 'key/1')"), "not found");
    assert_eq!(answer(&format!("cancel('default', {id})")), "prevented");
    assert_eq!(answer(&format!("cancel('default', {id})")), "not found");
    assert_eq!(answer("cancel('default', NULL::bigint)"), "not found");
    client.execute("PREPARE typeless AS SELECT lars.cancel($1, $2)");
    assert_eq!(client.text("EXECUTE typeless ('default', 'none')").unwrap(), "not found");

    let id = make(3);
    assert_eq!(answer("reset('default', 'key/3', '2 hours')"), "moved");
    let left = timers.get(id).wait().unwrap().unwrap().deadline.unwrap();
    assert!(left > std::time::SystemTime::now() + HOUR);
    assert_eq!(answer(&format!("reset('default', {id}, '0 s')")), "moved");
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 3, "its owner was told");
    while timers.get(id).wait().unwrap().is_some() {}
    assert_eq!(answer(&format!("reset('default', {id}, '0 s')")), "not found");
    assert!(client.try_execute("SELECT lars.reset('default', 'key', NULL)").is_err());
    durable.close().unwrap();
}

#[test]
fn sql_lets_what_is_parked_run_again_or_discards_it() {
    let Some(server) = server() else { return };
    let database = server.database();
    let (sender, runs) = channel();
    let sender = Mutex::new(sender);
    let handler = move |due: &Fired<Tagged>| {
        sender.lock().unwrap().send(due.payload().0).unwrap();
        Outcome::Park("no such order".into())
    };
    let durable = database.durable().handle(handler).start().unwrap();
    settle(&database, 1);
    let (client, timers) = (database.client(), durable.timers());
    let answer = |sql: &str| client.text(&format!("SELECT lars.{sql}")).unwrap();
    let parked = || loop {
        let page = timers.parked(ParkedQuery::new()).wait().unwrap();
        if let [one] = &page.timers[..] {
            return one.timer.id;
        }
    };
    let make = || timers.schedule_once(Duration::ZERO, Tagged(1)).key("key").submit();
    make().wait().unwrap();
    runs.recv_timeout(PATIENCE).unwrap();
    let id = parked();
    assert_eq!(answer(&format!("retry_parked('default', {id})")), "t");
    runs.recv_timeout(PATIENCE).unwrap();
    assert_eq!(parked(), id);
    let other = timers.schedule_once(HOUR, Tagged(2)).key("key").submit().wait().unwrap();
    let retry = format!("SELECT lars.retry_parked('default', {id})");
    let taken = client.try_execute(&retry).unwrap_err();
    assert!(taken.as_db_error().unwrap().message().contains("with this key exists"), "{taken}");
    assert_eq!(timers.get("key").wait().unwrap().unwrap().id, other.id);
    assert_eq!(answer(&format!("discard_parked('default', {id})")), "t");
    assert_eq!(answer(&format!("discard_parked('default', {id})")), "f");
    assert_eq!(answer(&format!("retry_parked('default', {id})")), "f");
    durable.close().unwrap();
}

#[test]
fn a_run_hears_of_a_cancel_by_sql_or_by_another_node_at_once_or_else_with_a_sweep() {
    let Some(server) = server() else { return };
    for notifications in [true, false] {
        let database = server.database();
        let (sender, said) = channel();
        let sender = Mutex::new(sender);
        let handler = move |due: &Fired<Tagged>| {
            let say = |what| sender.lock().unwrap().send((due.payload().0, what)).unwrap();
            say(None);
            while !due.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            say(due.cancellation().reason());
        };
        let builder = database.durable().notifications(notifications);
        let durable = builder.handle(handler).start().unwrap();
        settle(&database, 1);
        let caller = database.durable().notifications(notifications).start().unwrap();
        let (client, timers) = (database.client(), caller.timers());
        for tag in 0..4 {
            let once = timers.schedule_once(Duration::ZERO, Tagged(tag)).key(format!("{tag}"));
            let id = once.submit().wait().unwrap().id;
            assert_eq!(said.recv_timeout(PATIENCE), Ok((tag, None)));
            match tag {
                0 => client.execute("SELECT lars.cancel('default', '0')"),
                1 => client.execute(&format!("SELECT lars.cancel('default', {id})")),
                2 => drop(timers.cancel("2").wait().unwrap()),
                _ => drop(timers.cancel(id).wait().unwrap()),
            }
            let cancelled = Some(CancelReason::Cancelled);
            assert_eq!(said.recv_timeout(PATIENCE), Ok((tag, cancelled)));
        }
        caller.close().unwrap();
        durable.close().unwrap();
    }
}

#[test]
fn groups_of_which_one_has_the_name_of_the_other_and_more_share_nothing() {
    let Some(server) = server() else { return };
    let database = server.database();
    let groups = ["shop", "shop/eu", "shop%"];
    let nodes = groups.map(|group| database.durable().group(group).start().unwrap());
    let timers = nodes.each_ref().map(crate::Durable::timers);
    for timers in &timers {
        let keyed = |n: u64| timers.schedule_once(HOUR, Tagged(n)).key(format!("key/{n}"));
        timers.schedule_batch((0..20).map(keyed)).wait().unwrap();
    }
    let of = |timers: &crate::Timers, query: crate::query::Query| {
        let (mut query, mut matched) = (query.limit(7), 0);
        loop {
            let step = timers.cancel_all(&query).wait().unwrap();
            matched += step.matched;
            let Some(next) = step.next else { return matched };
            query = query.after(next.to_string().parse().unwrap());
        }
    };
    assert_eq!(of(&timers[0], crate::query::Query::new().key_prefix("key/1")), 11);
    assert_eq!(of(&timers[0], crate::query::Query::new()), 9);
    for (group, other) in groups.iter().zip(&timers).skip(1) {
        let left = format!("SELECT count(*) FROM lars.timer WHERE grp = '{group}'");
        assert_eq!(database.client().number(&left), 20);
        assert!(other.get("key/1").wait().unwrap().is_some());
    }
    assert_eq!(database.client().text("SELECT lars.cancel('shop', 'key/1')").unwrap(), "not found");
    assert_eq!(of(&timers[1], crate::query::Query::new().key_prefix("key/")), 20);
    assert_eq!(of(&timers[2], crate::query::Query::new()), 20);
    for node in nodes {
        node.close().unwrap();
    }
}

#[test]
fn sql_cancels_what_has_keys_with_one_beginning_a_step_at_a_time() {
    let Some(server) = server() else { return };
    let database = server.database();
    let nodes = ["default", "other"].map(|group| database.durable().group(group).start().unwrap());
    for node in &nodes {
        let timers = node.timers();
        let keyed = |n: u64| timers.schedule_once(HOUR, Tagged(n)).key(format!("a/{n}"));
        timers.schedule_batch((0..20).map(keyed)).wait().unwrap();
        timers.schedule_once(HOUR, Tagged(0)).key("b").submit().wait().unwrap();
    }
    let client = database.client();
    let step = |sql: &str| client.text(&format!("SELECT x::text FROM lars.{sql} AS x")).unwrap();
    // The timers of other groups are looked at, too.
    let first = step("cancel_all('default', 'a/', most => 7)");
    assert_eq!(first, "(14,7,0,0,a/14)");
    let second = step("cancel_all('default', 'a/', after => 'a/14', most => 7)");
    assert_eq!(second, "(14,7,0,0,a/3)");
    client.execute(
        "BEGIN; SELECT id FROM lars.timer WHERE grp = 'default' AND key = 'a/5' FOR UPDATE",
    );
    let other = database.client();
    let sql = "SELECT x::text FROM lars.cancel_all('default', 'a/', after => 'a/3') AS x";
    assert_eq!(other.text(sql).unwrap(), "(12,5,0,1,)", "one is held");
    client.execute("COMMIT");
    assert_eq!(step("cancel_all('default', 'a/', 'none')"), "(21,0,0,0,)");
    let before = "cancel_all('default', 'b', after => 'a', most => 1000)";
    client.execute(&format!("BEGIN; SELECT lars.{before}"));
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE key LIKE 'a/%'"), 21);
    client.execute("ROLLBACK");
    assert_eq!(step("cancel_all('default', 'a/', 'tagged')"), "(21,1,0,0,)");
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE grp = 'other'"), 21);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE grp = 'default'"), 1);
    assert!(client.try_execute("SELECT lars.cancel_all('default', NULL)").is_err());
    for most in ["0", "1001", "NULL"] {
        let sql = format!("SELECT lars.cancel_all('default', '', most => {most})");
        let error = client.try_execute(&sql).unwrap_err();
        let words = error.as_db_error().unwrap().message().to_owned();
        assert!(words.contains(most) && words.contains("from 1 to 1000"), "{words}");
    }
    for node in nodes {
        node.close().unwrap();
    }
}

#[test]
fn sql_retries_and_discards_what_is_parked_a_step_at_a_time() {
    let Some(server) = server() else { return };
    let database = server.database();
    let handler = |due: &Fired<Tagged>| match due.payload().0 {
        0..10 => Outcome::Park("no such order".into()),
        _ => Outcome::Park("the service is away".into()),
    };
    let durable = database.durable().handle(handler).start().unwrap();
    let (client, timers) = (database.client(), durable.timers());
    let due = |n: u64| timers.schedule_once(Duration::ZERO, Tagged(n)).key(format!("{n}"));
    timers.schedule_batch((0..30).map(due)).wait().unwrap();
    let parked = || client.number("SELECT count(*) FROM lars.parked");
    while parked() < 30 {}
    timers.pause("tagged").wait().unwrap();
    timers.schedule_once(HOUR, Tagged(99)).key("29").submit().wait().unwrap();
    let step = |sql: &str| {
        let all = "concat_ws(' ', x.looked_at, x.changed, x.passed_over, x.next IS NULL)";
        client.text(&format!("SELECT {all} FROM lars.{sql} AS x")).unwrap()
    };
    assert_eq!(step("retry_all('default', 'none')"), "30 0 0 t");
    assert_eq!(step("retry_all('default', 'none', after => NULL)"), "30 0 0 t");
    let first = step("discard_all('default', failed_with => 'no such', most => 4)");
    assert!(first.ends_with(" 4 0 f"), "{first}");
    assert!(step("discard_all('default', failed_with => 'no such')").ends_with(" 6 0 t"));
    assert_eq!(step("retry_all('default')"), "20 19 1 t", "another timer has one of the keys");
    assert_eq!(parked(), 1);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 20);
    durable.close().unwrap();
}
