//! Ends of runs that handlers record in transactions of their own: the transaction decides.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use lars_base::backoff::BackoffPolicy;

use super::node::Tagged;
use super::server::{Connected, PATIENCE, connect, server};
use crate::{Fired, Handler};

/// Writes its effect and acknowledges, in a transaction that stays open.
fn acknowledge(due: &Fired<Tagged>, parameters: &str) -> Connected {
    let client = connect(parameters);
    client.execute(&format!("BEGIN; INSERT INTO effect VALUES ({})", due.payload().0));
    due.complete_in(|statement, [id, fence]| client.run(statement, id, fence)).unwrap();
    client
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn whether_a_run_is_done_is_decided_by_the_transaction_that_acknowledges_it() {
    let server = server();
    let database = server.database();
    let parameters = database.parameters();
    database.client().execute("CREATE TABLE effect (tag bigint)");
    let (sender, runs) = channel();
    let (open, opened) = channel();
    let (sender, open) = (Mutex::new(sender), Mutex::new(open));
    let run = move |due: &Fired<Tagged>| -> Result<(), String> {
        let (tag, attempt) = (due.payload().0, due.attempt());
        sender.lock().unwrap().send((tag, attempt)).unwrap();
        match (tag, attempt) {
            // Rolled back, and nobody says so.
            (1, 1) => acknowledge(due, &parameters).execute("ROLLBACK"),
            // Asked for, and never executed.
            (2, 1) => drop(due.completion().unwrap()),
            // Committed, but the answer was lost.
            (3, 1) => {
                acknowledge(due, &parameters).execute("COMMIT");
                return Err("the answer was lost".into());
            }
            // Still open when the handler returns.
            (4 | 5, 1) => open.lock().unwrap().send((tag, acknowledge(due, &parameters))).unwrap(),
            _ => acknowledge(due, &parameters).execute("COMMIT"),
        }
        Ok(())
    };
    let backoff = BackoffPolicy::builder().initial(Duration::from_millis(10)).build().unwrap();
    let handler = Handler::new(run).backoff(backoff);
    let durable = database.durable().handler(handler).start().unwrap();
    let timers = durable.timers();
    for tag in 1..=5 {
        timers.schedule_once(Duration::ZERO, Tagged(tag)).submit().wait().unwrap();
    }
    for _ in 0..2 {
        let (tag, client) = opened.recv_timeout(PATIENCE).unwrap();
        // Longer than a lane waits for a row.
        std::thread::sleep(Duration::from_millis(700));
        client.execute(if tag == 4 { "COMMIT" } else { "ROLLBACK" });
    }
    let end = Instant::now() + PATIENCE;
    let client = database.client();
    while client.number("SELECT count(*) FROM lars.timer") > 0 || durable.metrics().in_flight > 0 {
        assert!(Instant::now() < end, "{:?}", durable.metrics());
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut seen: Vec<(u64, u32)> = runs.try_iter().collect();
    seen.sort_unstable();
    assert_eq!(seen, [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1), (5, 2)]);
    let effects = client.text("SELECT string_agg(tag::text, ' ' ORDER BY tag) FROM effect");
    assert_eq!(effects.unwrap(), "1 2 3 4 5", "each effect once, and none is missing");
    let metrics = durable.metrics();
    assert_eq!((metrics.done, metrics.retried, metrics.stale), (5, 3, 0), "{metrics:?}");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_run_that_is_acknowledged_late_is_the_last_if_the_next_one_would_be_behind_the_end() {
    let server = server();
    let database = server.database();
    let parameters = database.parameters();
    const HOUR: Duration = Duration::from_secs(3_600);
    let ends = [Duration::from_millis(300), HOUR].map(|later| SystemTime::now() + HOUR + later);
    let passed = ends[0] - HOUR;
    let run = move |due: &Fired<Tagged>| {
        let (statement, [id, fence]) = due.completion().unwrap();
        let client = connect(&parameters);
        // From now on an hour later is behind the first end.
        let now = "SELECT (extract(epoch FROM lars.clock()) * 1000000)::bigint";
        let passed = passed.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
        while client.number(now) <= i64::try_from(passed).unwrap() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(client.run(&statement, id, fence).unwrap(), 1);
    };
    let durable = database.durable().handler(Handler::new(run)).start().unwrap();
    let timers = durable.timers();
    for (number, end) in (0..).zip(ends) {
        let series = timers.schedule_with_fixed_delay(Duration::ZERO, HOUR, Tagged(number));
        series.until(end).key(number.to_string()).submit().wait().unwrap();
    }
    let end = Instant::now() + PATIENCE;
    while durable.metrics().done < 2 {
        assert!(Instant::now() < end, "{:?}", durable.metrics());
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = database.client().text("SELECT string_agg(key || ' ' || run, ',') FROM lars.timer");
    assert_eq!(left.unwrap(), "1 1");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_run_is_acknowledged_however_long_its_key_is_remembered_and_however_far_the_next_one_is() {
    let server = server();
    let database = server.database();
    let parameters = database.parameters();
    database.client().execute("CREATE TABLE effect (tag bigint)");
    let run = move |due: &Fired<Tagged>| acknowledge(due, &parameters).execute("COMMIT");
    let durable = database.durable().handler(Handler::new(run)).start().unwrap();
    let timers = durable.timers();
    let ends = SystemTime::now() + Duration::from_secs(3_600);
    let forever = Duration::MAX;
    let once = timers.schedule_once(Duration::ZERO, Tagged(1)).key("once").remember(forever);
    once.submit().wait().unwrap();
    let delayed =
        |key: &str| timers.schedule_with_fixed_delay(Duration::ZERO, forever, Tagged(2)).key(key);
    delayed("delay").submit().wait().unwrap();
    delayed("last").until(ends).remember(forever).submit().wait().unwrap();
    let rate = timers.schedule_at_fixed_rate(Duration::ZERO, forever, Tagged(4)).key("rate");
    rate.submit().wait().unwrap();
    let end = Instant::now() + PATIENCE;
    while durable.metrics().done < 4 {
        assert!(Instant::now() < end, "{:?}", durable.metrics());
        assert_eq!(durable.metrics().retried, 0);
        std::thread::sleep(Duration::from_millis(10));
    }
    let client = database.client();
    let left = "SELECT string_agg(key || ' ' || run || ' ' || deadline, ', ' ORDER BY key)
                  FROM lars.timer";
    assert_eq!(client.text(left).unwrap(), "delay 1 infinity, rate 1 infinity");
    let used = "SELECT string_agg(key || ' ' || until, ', ' ORDER BY key) FROM lars.used_key";
    assert_eq!(client.text(used).unwrap(), "last infinity, once infinity");
    durable.close().unwrap();
}
