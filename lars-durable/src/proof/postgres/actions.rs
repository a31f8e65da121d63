//! What the functions of the schema do to timers that are there.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::node::{Tagged, node, settle};
use super::server::{PATIENCE, server};
use crate::error::TransactionError;
use crate::query::{Query, State};
use crate::{CancelReason, Durable, Fired, Outcome, Refused, Timers};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_cancels_and_moves_a_timer_by_its_key_and_by_its_identity() {
    let server = server();
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
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_lets_what_is_parked_run_again_or_discards_it() {
    let server = server();
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
        let page = timers.list(&Query::new().states([State::Parked])).wait().unwrap();
        if let [one] = &page.timers[..] {
            return one.timer().id;
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
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_run_hears_of_a_cancel_by_sql_or_by_another_node_at_once_or_else_with_a_sweep() {
    let server = server();
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
        for tag in 0..5 {
            let once = timers.schedule_once(Duration::ZERO, Tagged(tag)).key(format!("{tag}"));
            let id = once.submit().wait().unwrap().id;
            assert_eq!(said.recv_timeout(PATIENCE), Ok((tag, None)));
            match tag {
                0 => client.execute("SELECT lars.cancel('default', '0')"),
                1 => client.execute(&format!("SELECT lars.cancel('default', {id})")),
                4 => client.execute(
                    "SELECT lars.schedule('default', 'tagged', '9', '1 h', '4',
                                          on_conflict => 'replace')",
                ),
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
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn groups_of_which_one_has_the_name_of_the_other_and_more_share_nothing() {
    let server = server();
    let database = server.database();
    let groups = ["shop", "shop/eu", "shop%"];
    let nodes = groups.map(|group| database.durable().group(group).start().unwrap());
    let timers = nodes.each_ref().map(Durable::timers);
    for timers in &timers {
        let keyed = |n: u64| timers.schedule_once(HOUR, Tagged(n)).key(format!("key/{n}"));
        timers.schedule_batch((0..20).map(keyed)).wait().unwrap();
    }
    let of = |timers: &Timers, query: Query| {
        let (mut query, mut matched) = (query.limit(7), 0);
        loop {
            let step = timers.cancel_all(&query).wait().unwrap();
            matched += step.matched;
            let Some(next) = step.next else { return matched };
            query = query.after(next.to_string().parse().unwrap());
        }
    };
    assert_eq!(of(&timers[0], Query::new().key_prefix("key/1")), 11);
    assert_eq!(of(&timers[0], Query::new()), 9);
    for (group, other) in groups.iter().zip(&timers).skip(1) {
        let left = format!("SELECT count(*) FROM lars.timer WHERE grp = '{group}'");
        assert_eq!(database.client().number(&left), 20);
        assert!(other.get("key/1").wait().unwrap().is_some());
    }
    assert_eq!(database.client().text("SELECT lars.cancel('shop', 'key/1')").unwrap(), "not found");
    assert_eq!(of(&timers[1], Query::new().key_prefix("key/")), 20);
    assert_eq!(of(&timers[2], Query::new()), 20);
    for node in nodes {
        node.close().unwrap();
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_cancels_what_has_keys_with_one_beginning_a_step_at_a_time() {
    let server = server();
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
    assert_eq!(first, "(14,7,0,0,key:a/14)");
    let second = step("cancel_all('default', 'a/', after => 'key:a/14', most => 7)");
    assert_eq!(second, "(14,7,0,0,key:a/3)");
    client.execute(
        "BEGIN; SELECT id FROM lars.timer WHERE grp = 'default' AND key = 'a/5' FOR UPDATE",
    );
    let other = database.client();
    let sql = "SELECT x::text FROM lars.cancel_all('default', 'a/', after => 'key:a/3') AS x";
    assert_eq!(other.text(sql).unwrap(), "(12,5,0,1,)", "one is held");
    client.execute("COMMIT");
    assert_eq!(step("cancel_all('default', 'a/', handler => 'none')"), "(21,0,0,0,)");
    let before = "cancel_all('default', 'b', after => 'key:a', most => 1000)";
    client.execute(&format!("BEGIN; SELECT lars.{before}"));
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE key LIKE 'a/%'"), 21);
    client.execute("ROLLBACK");
    assert_eq!(step("cancel_all('default', 'a/', handler => 'tagged')"), "(21,1,0,0,)");
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE grp = 'other'"), 21);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE grp = 'default'"), 1);
    for call in [
        "cancel_all('default', NULL)",
        "reset_all('default', '1 h', most => 10)",
        "retry_all('default')",
        "discard_all('default', failed_with => NULL)",
    ] {
        let error = client.try_execute(&format!("SELECT lars.{call}")).unwrap_err();
        let words = error.as_db_error().unwrap().message().to_owned();
        assert_eq!(words, "at least 1 condition is needed that is not NULL");
    }
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
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_retries_and_discards_what_is_parked_a_step_at_a_time() {
    let server = server();
    let database = server.database();
    let handler = |due: &Fired<Tagged>| match due.payload().0 {
        0..10 => Outcome::Park("no such order".into()),
        _ => Outcome::Park("the service is away".into()),
    };
    let durable = database.durable().handle(handler).start().unwrap();
    let (client, timers) = (database.client(), durable.timers());
    let due = |n: u64| timers.schedule_once(Duration::ZERO, Tagged(n)).key(format!("{n}"));
    let due = |n: u64| due(n).tag(if n < 20 { "low" } else { "high" });
    timers.schedule_batch((0..30).map(due)).wait().unwrap();
    let parked = || client.number("SELECT count(*) FROM lars.parked");
    while parked() < 30 {}
    timers.pause("tagged").wait().unwrap();
    timers.schedule_once(HOUR, Tagged(99)).key("29").submit().wait().unwrap();
    let step = |sql: &str| {
        let all = "concat_ws(' ', x.looked_at, x.changed, x.passed_over, x.next IS NULL)";
        client.text(&format!("SELECT {all} FROM lars.{sql} AS x")).unwrap()
    };
    assert_eq!(step("retry_all('default', handler => 'none')"), "30 0 0 t");
    assert_eq!(step("retry_all('default', handler => 'none', after => NULL)"), "30 0 0 t");
    let first = step("discard_all('default', failed_with => 'no such', most => 4)");
    assert!(first.ends_with(" 4 0 f"), "{first}");
    assert!(step("discard_all('default', failed_with => 'no such')").ends_with(" 6 0 t"));
    assert_eq!(step("retry_all('default', tag => 'none')"), "20 0 0 t");
    assert_eq!(step("retry_all('default', tag => 'low')"), "20 10 0 t");
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE tag = 'low'"), 10);
    assert_eq!(
        step("retry_all('default', failed_with => '')"),
        "10 9 1 t",
        "another timer has one of the keys"
    );
    assert_eq!(parked(), 1);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 20);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_makes_finds_and_cancels_timers_with_a_tag_a_step_at_a_time() {
    let server = server();
    let database = server.database();
    let nodes = ["default", "other"].map(|group| database.durable().group(group).start().unwrap());
    let (client, timers) = (database.client(), nodes[0].timers());
    for group in ["default", "other"] {
        client.execute(&format!(
            "SELECT lars.schedule('{group}', 'tagged', '1', '1 h', tag => 'red')
               FROM generate_series(1, 10);
             SELECT lars.schedule('{group}', 'tagged', '1', '1 h', 'key', tag => 'redder');
             SELECT lars.schedule('{group}', 'tagged', '1', '1 h')"
        ));
    }
    client.submit(timers.schedule_once(HOUR, Tagged(1)).tag("red").submission().unwrap()).unwrap();
    assert_eq!(timers.get("key").wait().unwrap().unwrap().tag.as_deref(), Some("redder"));
    assert_eq!(timers.count(&Query::new().tag("red")).wait().unwrap().matched, 11);
    assert_eq!(client.number("SELECT count(*) FROM lars.overview WHERE tag = 'red'"), 21);

    // Where a step begins does not depend on how the session shows times.
    client.execute("SET TIME ZONE 'Asia/Tokyo'; SET datestyle = 'SQL, DMY'");
    let step = |given: &str| {
        let all = "concat_ws(' ', x.looked_at, x.prevented, x.running, x.passed_over, x.next)";
        client.text(&format!("SELECT {all} FROM lars.cancel_all('default', {given}) AS x"))
    };
    assert_eq!(step("tag => 'red', handler => 'none'").unwrap(), "11 0 0 0");
    let first = step("tag => 'red', most => 4").unwrap();
    let next = first.strip_prefix("4 4 0 0 ").unwrap_or_else(|| panic!("{first}"));
    let second = step(&format!("tag => 'red', after => '{next}', most => 4")).unwrap();
    assert!(second.starts_with("4 4 0 0 ") && second != first, "{second}");
    assert_eq!(step("tag => 'red'").unwrap(), "3 3 0 0");
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE grp = 'default'"), 2);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE grp = 'other'"), 12);
    for node in nodes {
        node.close().unwrap();
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_moves_what_has_keys_with_one_beginning_or_a_tag_a_step_at_a_time() {
    let server = server();
    let database = server.database();
    let (sender, runs) = channel();
    let sender = Mutex::new(sender);
    let run = move |due: &Fired<Tagged>| sender.lock().unwrap().send(due.payload().0).unwrap();
    let durable = database.durable().handle(run).start().unwrap();
    let timers = durable.timers();
    let timer = |n: u64| timers.schedule_once(HOUR, Tagged(n)).key(format!("a/{n}"));
    let tag = |n: u64| if n < 5 { "red" } else { "blue" };
    timers.schedule_batch((0..10).map(|n| timer(n).tag(tag(n)))).wait().unwrap();
    timers.schedule_once(HOUR, Tagged(10)).key("b").submit().wait().unwrap();
    let client = database.client();
    // One of them runs: nobody ends it.
    client.execute("UPDATE lars.timer SET fence = 1 WHERE key = 'a/9'");
    let step = |sql: &str| {
        let all = "concat_ws(' ', x.looked_at, x.moved, x.running, x.passed_over, x.next)";
        client.text(&format!("SELECT {all} FROM lars.{sql} AS x")).unwrap()
    };
    assert_eq!(step("reset_all('default', '2 h', 'a/', most => 4)"), "4 4 0 0 key:a/3");
    assert_eq!(step("reset_all('default', '2 h', 'a/', after => 'key:a/3')"), "6 5 1 0");
    assert_eq!(step("reset_all('default', '3 h', 'a/', handler => 'none')"), "10 0 0 0");
    let far = "SELECT count(*) FROM lars.timer WHERE deadline > now() + interval '90 minutes'";
    assert_eq!(client.number(far), 9);
    let first = step("reset_all('default', '0', tag => 'red', most => 2)");
    let next = first.strip_prefix("2 2 0 0 ").unwrap_or_else(|| panic!("{first}"));
    let rest = format!("reset_all('default', '0', tag => 'red', after => '{next}')");
    assert_eq!(step(&rest), "3 3 0 0");
    let mut ran: Vec<u64> = (0..5).map(|_| runs.recv_timeout(PATIENCE).unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, [0, 1, 2, 3, 4]);
    let error = client.try_execute("SELECT lars.reset_all('default', NULL, 'a/')").unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), "delay must not be NULL");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_tag_that_cannot_be_is_refused_by_sql_with_the_limit() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let client = database.client();
    let refused = |sql: &str| {
        let error = client.try_execute(&format!("SELECT lars.{sql}")).unwrap_err();
        error.as_db_error().unwrap().message().to_owned()
    };
    for (tag, length) in [("''", 0), ("repeat('t', 129)", 129)] {
        let words = refused(&format!("schedule('default', 'tagged', '1', '1 h', tag => {tag})"));
        assert_eq!(words, format!("the tag has {length} bytes, but from 1 to 128 are allowed"));
    }
    assert!(refused("cancel_all('defualt', tag => 'red')").contains("'defualt'"));
    let most = refused("cancel_all('default', tag => 'red', most => 1001)");
    assert!(most.contains("from 1 to 1000"));
    let allowed = "bytes, but from 1 to 128 are allowed";
    assert_eq!(refused("count('default', tag => '')"), format!("the tag has 0 {allowed}"));
    let long = refused("list('default', key_prefix => repeat('k', 513))");
    assert_eq!(long, "key_prefix has 513 bytes, but at most 512 are allowed");
    let longest = durable.timers().schedule_once(HOUR, Tagged(1)).tag("t".repeat(129));
    let error = TransactionError::Refused(Refused::Tag { given: 129, max: 128 });
    assert_eq!(longest.submission().unwrap_err(), error);
    durable.close().unwrap();
}
