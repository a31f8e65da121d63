//! Series that end by themselves, made by SQL and by calls, and the schema before it knew them.

use std::time::{Duration, SystemTime};

use super::node::{Tagged, node};
use super::opening::SCRIPTS;
use super::server::{PATIENCE, server};
use crate::schedule::Placement;
use crate::{Handler, Outcome, Timers};

const HOUR: Duration = Duration::from_secs(3_600);

/// Waits for the timer to be gone.
fn gone(timers: &Timers, key: &str) {
    while timers.get(key).wait().unwrap().is_some() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_series_ends_in_a_database_after_so_many_runs_at_an_instant_or_when_its_handler_says_so() {
    let server = server();
    for at_most_once in [false, true] {
        let database = server.database();
        let runs = std::sync::Mutex::new(0);
        let handler = Handler::new(move |due: &crate::Fired<Tagged>| {
            let mut runs = runs.lock().unwrap();
            *runs += u32::from(due.payload().0 == 1);
            if *runs == 2 { Outcome::Last } else { Outcome::Done }
        });
        let handler = if at_most_once { handler.at_most_once() } else { handler };
        let durable = database.durable().handler(handler).start().unwrap();
        let timers = durable.timers();
        let soon = Duration::from_millis(20);
        let series = |tag| timers.schedule_at_fixed_rate(soon, soon, Tagged(tag));
        series(1).key("last").submit().wait().unwrap();
        gone(&timers, "last");
        assert_eq!(durable.metrics().started, 2, "at most once: {at_most_once}");
        durable.close().unwrap();
    }
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let timers = durable.timers();
    let soon = Duration::from_millis(20);
    let series = |tag| timers.schedule_at_fixed_rate(soon, soon, Tagged(tag));
    series(3).times(3).key("times").submit().wait().unwrap();
    let end = SystemTime::now() + Duration::from_millis(300);
    series(4).until(end).key("until").submit().wait().unwrap();
    let over = series(5).until(SystemTime::UNIX_EPOCH).key("over").submit().wait().unwrap();
    assert_eq!((over.id, over.placement), (0, Placement::Kept));
    let shown = series(6).times(9).key("shown");
    shown.submit().wait().unwrap();
    while timers.get("shown").wait().unwrap().unwrap().runs == 0 {}
    assert_eq!(timers.get("shown").wait().unwrap().unwrap().times, Some(9));
    for key in ["times", "until", "shown"] {
        gone(&timers, key);
    }
    durable.close().unwrap();
    let seen: Vec<_> = runs.try_iter().collect();
    let count = |tag| seen.iter().filter(|seen| seen.tag == tag).count();
    assert_eq!((count(3), count(5), count(6)), (3, 0, 9));
    assert!(seen.iter().all(|seen| seen.tag != 4 || seen.due <= end));
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_run_that_its_handlers_transaction_has_ended_counts_and_the_last_one_leaves_nothing() {
    let server = server();
    let database = server.database();
    let parameters = database.parameters();
    let handler = move |due: &crate::Fired<Tagged>| {
        let client = super::server::connect(&parameters);
        client.execute("BEGIN");
        due.complete_in(|statement, [id, fence]| client.run(statement, id, fence)).unwrap();
        client.execute("COMMIT");
        if due.payload().0 == 2 { Outcome::Last } else { Outcome::Done }
    };
    let durable = database.durable().handle(handler).start().unwrap();
    let timers = durable.timers();
    let soon = Duration::from_millis(20);
    let series = |tag| timers.schedule_at_fixed_rate(soon, soon, Tagged(tag));
    series(1).times(3).key("times").submit().wait().unwrap();
    gone(&timers, "times");
    assert_eq!(durable.metrics().started, 3);
    timers.schedule_with_fixed_delay(soon, soon, Tagged(2)).key("last").submit().wait().unwrap();
    gone(&timers, "last");
    assert_eq!(durable.metrics().started, 4, "its row had gone on, and nothing more of it starts");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_series_that_sql_makes_ends_as_it_says_and_what_makes_no_sense_is_refused() {
    let server = server();
    let database = server.database();
    let (durable, runs) = node(database.durable());
    let (client, timers) = (database.client(), durable.timers());
    let make = |tag: u64, rest: &str| {
        format!("SELECT lars.schedule('default', 'tagged', '{tag}', '0', 'key {tag}', {rest})")
    };
    client.execute(&make(1, "fixed_rate => '10 ms', times => 3"));
    client.execute(&make(2, "fixed_delay => '1 h', until => now() + '10 minutes'"));
    assert_eq!(client.text(&make(3, "fixed_rate => '1 s', until => '2001-01-01Z'")), None);
    client.execute(&make(4, "fixed_rate => '1 h', until => 'infinity', times => 1"));
    for key in ["key 1", "key 2", "key 3", "key 4"] {
        gone(&timers, key);
    }
    let mut tags: Vec<u64> = (0..5).map(|_| runs.recv_timeout(PATIENCE).unwrap().tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 1, 1, 2, 4]);

    let far = "delay => '1 h', fixed_rate => '1 h'";
    let call = |rest: &str| format!("SELECT lars.schedule('default', 'tagged', '5', {rest})");
    let whole = format!("{far}, key => 'k', until => '2100-01-01 00:00:00.25Z', times => 7");
    let made = client.number(&call(&whole));
    let shown = timers.get("k").wait().unwrap().unwrap();
    let end = SystemTime::UNIX_EPOCH + Duration::from_micros(4_102_444_800_250_000);
    assert_eq!((shown.times, shown.until), (Some(7), Some(end)));
    // The call makes the same rule.
    let same = timers.schedule_at_fixed_rate(HOUR, HOUR, Tagged(5)).until(end).times(7).key("k");
    assert_eq!(same.submit().wait().unwrap().placement, Placement::Kept);
    let over = |conflict: &str| {
        let over = format!("{far}, key => 'k', until => now(), on_conflict => '{conflict}'");
        call(&over)
    };
    assert_eq!(client.number(&over("keep")), made);
    assert!(client.try_execute(&over("fail")).is_err());
    assert_eq!(client.text(&over("replace")), None);
    assert!(timers.get("k").wait().unwrap().is_none());
    for wrong in [
        "'1 h', times => 3",
        "'1 h', until => now()",
        "'1 h', fixed_rate => '1 h', times => 0",
        "'1 h', fixed_rate => '1 h', times => -1",
        "'1 h', key => 'k', remember => '-1 s'",
    ] {
        assert!(client.try_execute(&call(wrong)).is_err(), "{wrong}");
    }
    assert!(client.try_execute("SELECT lars.schedule('default', '', '5', '1 h')").is_err());
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 0);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_database_of_each_earlier_version_is_upgraded_with_all_that_is_in_it() {
    for version in 1..SCRIPTS.len() {
        is_upgraded(version);
    }
}

fn is_upgraded(version: usize) {
    let server = server();
    let database = server.database();
    let client = database.client();
    SCRIPTS[..version].iter().for_each(|script| client.execute(script));
    client.execute(
        "SELECT lars.schedule('default', 'tagged', '1', '0', 'once', new_group => true);
         SELECT lars.schedule('default', 'tagged', '2', '1 h', 'series', fixed_rate => '1 h');
         UPDATE lars.timer SET run = 41 WHERE key = 'series';
         INSERT INTO lars.parked SELECT 7, grp, bucket, deadline, planned_at, NULL, handler, 1, '3',
                NULL, 0, 25, 0, 'no route', 40, id, 'attempt 25 failed', now()
           FROM lars.timer WHERE key = 'series'",
    );
    let (durable, runs) = node(database.durable());
    assert_eq!(client.number("SELECT version FROM lars.meta"), SCRIPTS.len() as i64);
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 1);
    assert_eq!(client.number("SELECT count(*) FROM lars.timer WHERE cancelled"), 0);
    let timers = durable.timers();
    let series = timers.get("series").wait().unwrap().unwrap();
    assert_eq!((series.runs, series.times), (41, None));
    assert!(timers.get_parked(7).wait().unwrap().is_some());
    // What is new works on what is old.
    let ending = timers.schedule_at_fixed_rate(HOUR, HOUR, Tagged(2)).times(42).key("series");
    assert_eq!(ending.submit().wait().unwrap().placement, Placement::Updated);
    assert!(timers.reset("series", Duration::ZERO).wait().unwrap());
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 2);
    gone(&timers, "series");
    client.execute(
        "SELECT lars.schedule('default', 'tagged', '4', '0', fixed_rate => '1 ms', times => 1)",
    );
    assert_eq!(runs.recv_timeout(PATIENCE).unwrap().tag, 4);
    durable.close().unwrap();
}
