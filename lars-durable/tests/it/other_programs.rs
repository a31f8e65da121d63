//! Timers that other programs make and cancel in the file, in any language: by the view
//! `lars_schedule`.

use crate::common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Directory, LONG, note, telling};
use lars_durable::query::Query;
use lars_durable::schedule::Cancel;
use lars_durable::{Durable, MissedTickBehavior, OnConflict};
use rusqlite::Connection;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Runs a script on a file.
type Program = fn(&Path, &str);

fn connection(file: &Path, script: &str) {
    let other = Connection::open(file).unwrap();
    other.busy_timeout(LONG).unwrap();
    other.execute_batch(script).unwrap();
}

fn shell(file: &Path, script: &str) {
    run(Command::new("sqlite3").args(["-bail", "-cmd", ".timeout 60000"]).arg(file).arg(script));
}

fn python(file: &Path, script: &str) {
    const RUN: &str = "import sqlite3, sys
sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None).executescript(sys.argv[2])";
    run(Command::new("python3").args(["-c", RUN]).arg(file).arg(script));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// This one, and those that are installed with an SQLite which reads the schema.
fn programs() -> Vec<Program> {
    let reads = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().ok();
        let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let parts = version.as_deref().unwrap_or("").split(['.', ' ']);
        let parts: Vec<u32> = parts.map_while(|part| part.trim().parse().ok()).collect();
        parts.as_slice() >= &[3, 37][..]
    };
    let mut programs: Vec<Program> = vec![connection];
    let version = "import sqlite3; print(sqlite3.sqlite_version)";
    for (name, there, program) in [
        ("sqlite3", reads(Command::new("sqlite3").arg("-version")), shell as Program),
        ("python3", reads(Command::new("python3").args(["-c", version])), python),
    ] {
        if there {
            programs.push(program);
        } else {
            eprintln!("SKIPPED: {name} is not there, or too old");
        }
    }
    programs
}

/// Waits for what has to come about.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not come about");
}

/// A file that no node has open, and one that has opened it.
fn prepared(name: &str) -> (Directory, Connection) {
    let directory = Directory::new(name);
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let other = Connection::open(directory.file()).unwrap();
    (directory, other)
}

fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM lars_timer", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_timer_that_another_program_commits_runs_once_and_one_that_it_rolls_back_does_not() {
    let directory = Directory::new("programs");
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    for program in programs() {
        let script = "BEGIN IMMEDIATE;
             INSERT INTO lars_schedule (handler, payload, delay) VALUES ('note', '\"never\"', 0);
             ROLLBACK;
             BEGIN IMMEDIATE;
             CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY);
             INSERT INTO orders DEFAULT VALUES;
             INSERT INTO lars_schedule (handler, payload, delay) VALUES ('note', '\"once\"', 0.02);
             COMMIT;";
        program(&directory.file(), script);
        assert_eq!(seen.recv_timeout(LONG).unwrap().text, "once");
    }
    durable.close().unwrap();
    assert_eq!(seen.try_iter().count(), 0);
    assert_eq!(count(&Connection::open(directory.file()).unwrap()), 0);
}

/// A sweep finds what is overdue, and a load what is due behind what was loaded before. So these
/// are found by neither.
#[test]
fn the_node_has_in_memory_what_another_program_made_long_before_it_is_due() {
    let directory = Directory::new("found");
    let (tell, _seen) = telling();
    let durable = Durable::sqlite(directory.file()).window(HOUR).handle(tell).start().unwrap();
    let timers = durable.timers();
    // Once this is there, the window is loaded.
    timers.schedule_once(HOUR / 2, note("own")).submit().wait().unwrap();
    let mut expected = 1;
    until(|| durable.metrics().resident == expected);
    for program in programs() {
        // One is due behind the window.
        let script = "INSERT INTO lars_schedule (handler, payload, delay)
             VALUES ('note', '1', 1000), ('note', '2', 100000), ('note', '3', 2000)";
        program(&directory.file(), script);
        expected += 2;
        until(|| durable.metrics().resident >= expected);
    }
    assert_eq!(durable.metrics().resident, expected);
    durable.close().unwrap();
}

#[test]
fn what_another_program_makes_while_no_node_runs_is_there_for_the_next() {
    let (directory, other) = prepared("no-node");
    let many = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
         INSERT INTO lars_schedule (handler, payload, delay) SELECT 'note', '\"' || n || '\"', 0
           FROM n";
    other.execute_batch(many).unwrap();
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    // And as many at once while it runs.
    other.busy_timeout(LONG).unwrap();
    other.execute_batch(many).unwrap();
    let mut runs = vec![0; 3_000];
    for _ in 0..6_000 {
        let number: usize = seen.recv_timeout(LONG).unwrap().text.parse().unwrap();
        runs[number - 1] += 1;
    }
    assert!(runs.iter().all(|runs| *runs == 2));
    durable.close().unwrap();
    assert_eq!(seen.try_iter().count(), 0);
}

#[test]
fn the_view_makes_the_same_timer_as_the_call() {
    let directory = Directory::new("same");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let timers = durable.timers();
    let once = timers.schedule_once(DAY, note("ä")).key("once").remember(HOUR).tag("rosé");
    once.submit().wait().unwrap();
    let series = timers.schedule_with_fixed_delay(DAY, HOUR, note("ä")).key("delay");
    series.submit().wait().unwrap();
    let period = Duration::from_micros(290_001);
    let series = timers.schedule_at_fixed_rate(DAY, period, note("ä")).key("rate");
    series.submit().wait().unwrap();
    let series = timers.schedule_at_fixed_rate(DAY, HOUR, note("ä")).key("skip");
    series.missed_ticks(MissedTickBehavior::Skip).submit().wait().unwrap();
    timers.schedule_once(Duration::MAX, note("ä")).key("never").submit().wait().unwrap();
    let end = UNIX_EPOCH + Duration::from_micros(4_102_444_800_250_000);
    let series = timers.schedule_with_fixed_delay(DAY, HOUR, note("ä")).key("ending");
    series.times(7).until(end).submit().wait().unwrap();
    durable.close().unwrap();

    let other = Connection::open(directory.file()).unwrap();
    let rows = |from: &str| {
        let text = format!(
            "SELECT json_array(bucket, grp, key, handler, payload_version, payload, remember,
                    attempt, deaths, fence, last_error, run, origin, tag, due_at = deadline,
                    deadline = planned_at, (deadline - {from}) / 3600000000),
                    (SELECT group_concat(key || value) FROM (
                     SELECT key, value FROM json_each(repeat) ORDER BY key))
               FROM lars_timer ORDER BY key"
        );
        let mut statement = other.prepare(&text).unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let rows: Vec<(String, Option<String>)> =
            statement.query_map([], row).unwrap().map(Result::unwrap).collect();
        rows
    };
    let now = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_micros().to_string();
    let expected = rows(&now(SystemTime::now() - Duration::from_secs(60)));
    other.execute_batch("DELETE FROM lars_timer").unwrap();
    let script = "INSERT INTO lars_schedule (handler, payload, delay, key, remember, tag)
         VALUES ('note', '\"ä\"', 86400, 'once', 3600, 'rosé');
         INSERT INTO lars_schedule (handler, payload, delay, key, fixed_delay)
         VALUES ('note', '\"ä\"', 86400.0, 'delay', 3600);
         INSERT INTO lars_schedule (handler, payload, delay, key, fixed_rate, missed)
         VALUES ('note', '\"ä\"', 86400, 'rate', 0.290001, NULL),
                ('note', '\"ä\"', 86400, 'skip', 3600, 'skip');
         INSERT INTO lars_schedule (handler, payload, delay, key, fixed_delay, until, times)
         VALUES ('note', '\"ä\"', 86400, 'ending', 3600, 4102444800.25, 7);
         INSERT INTO lars_schedule (handler, payload, delay, key, payload_version, on_conflict)
         VALUES ('note', '\"ä\"', 1e999, 'never', 1, 'fail')";
    other.execute_batch(script).unwrap();
    let found = rows(&now(SystemTime::now() - Duration::from_secs(60)));
    common::assert_same(&found, &expected);
}

#[test]
fn a_delay_that_sql_counts_is_never_shorter_than_it_is_asked_for() {
    let (_directory, other) = prepared("not-early");
    other.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let insert = "INSERT INTO lars_schedule (handler, payload, delay, key, on_conflict)
         VALUES ('note', '1', ?1, 'k', 'replace')";
    for number in 0..2_000_u64 {
        let delay = Duration::from_micros(number * 1_237 + number % 7);
        let asked = SystemTime::now();
        other.execute(insert, [delay.as_secs_f64()]).unwrap();
        let due: i64 =
            other.query_row("SELECT due_at FROM lars_timer", [], |row| row.get(0)).unwrap();
        let due = UNIX_EPOCH + Duration::from_micros(due.unsigned_abs());
        assert!(due >= asked + delay, "{:?} early", (asked + delay).duration_since(due));
    }
    other.execute(insert, [-5.0]).unwrap();
    assert_eq!(count(&other), 1, "what has passed is now");
}

#[test]
fn a_key_that_is_taken_is_kept_replaced_or_refused_by_sql_as_by_the_call() {
    let (directory, other) = prepared("conflict");
    let insert = |payload: &str, conflict: Option<&str>| {
        let text = "INSERT INTO lars_schedule (handler, payload, delay, key, on_conflict)
             VALUES ('note', ?1, 1000, 'k', ?2)";
        other.execute(text, [Some(payload), conflict]).map(drop)
    };
    let payload = || {
        let text = "SELECT payload FROM lars_schedule WHERE key = 'k'";
        other.query_row(text, [], |row| row.get::<_, String>(0)).unwrap()
    };
    insert("1", None).unwrap();
    insert("2", None).unwrap();
    insert("3", Some("keep")).unwrap();
    assert_eq!(payload(), "1");
    let error = insert("4", Some("fail")).unwrap_err();
    assert!(error.to_string().contains("a timer with this key exists"), "{error}");
    insert("5", Some("replace")).unwrap();
    assert_eq!((payload().as_str(), count(&other)), ("5", 1));
    // Rows of the same statement are not concerned.
    let several = "INSERT INTO lars_schedule (handler, payload, delay, key)
         VALUES ('note', '6', 1, 'j'), ('note', '7', 1, 'k'), ('note', '8', 1, 'l')";
    other.execute(several, []).unwrap();
    assert_eq!((payload().as_str(), count(&other)), ("5", 3));
    let ids: (i64, i64) = other
        .query_row("SELECT max(id) + 1, next_id FROM lars_timer, lars_meta", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(ids.0, ids.1, "an identity is drawn for what is made, and for nothing else");

    // Keys that are remembered.
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let timer = durable.timers().schedule_once(Duration::ZERO, note("run")).key("r");
    timer.remember(HOUR).submit().wait().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "run");
    durable.close().unwrap();
    let again = |conflict: &str| {
        let text = "INSERT INTO lars_schedule (handler, payload, delay, key, on_conflict)
             VALUES ('note', '1', 1000, 'r', ?1)";
        other.execute(text, [conflict]).map(|_| count(&other))
    };
    let before = count(&other);
    assert_eq!(again("keep").unwrap(), before);
    let error = again("fail").unwrap_err();
    assert!(error.to_string().contains("is remembered"), "{error}");
    assert_eq!(again("replace").unwrap(), before + 1);
}

#[test]
fn a_value_that_sql_may_not_give_is_refused_with_the_limit_and_nothing_is_made() {
    let (_directory, other) = prepared("refused");
    let long = "'\"' || printf('%.*c', 65535, 'x') || '\"'";
    let cases = [
        ("payload, delay", "'1', 1", "handler must be"),
        ("handler, payload, delay", "'', '1', 1", "handler must be"),
        ("handler, delay", "'note', 1", "payload must be JSON"),
        ("handler, payload, delay", "'note', '{', 1", "payload must be JSON"),
        ("handler, payload, delay", "'note', x'31', 1", "payload must be JSON"),
        ("handler, payload, delay", &format!("'note', {long}, 1"), "at most 65536 bytes"),
        ("handler, payload", "'note', '1'", "delay must be"),
        ("handler, payload, delay", "'note', '1', 'soon'", "delay must be"),
        ("handler, payload, delay, key", "'note', '1', 1, ''", "1 to 512 bytes"),
        ("handler, payload, delay, key", "'note', '1', 1, 5", "1 to 512 bytes"),
        ("handler, payload, delay, key", "'note', '1', 1, 'a' || char(0)", "without NUL"),
        ("handler, payload, delay, key", "'note', '1', 1, printf('%.*c', 513, 'x')", "512 bytes"),
        ("handler, payload, delay, tag", "'note', '1', 1, ''", "1 to 128 bytes"),
        ("handler, payload, delay, tag", "'note', '1', 1, 5", "1 to 128 bytes"),
        ("handler, payload, delay, tag", "'note', '1', 1, 'a' || char(0)", "without NUL"),
        ("handler, payload, delay, tag", "'note', '1', 1, printf('%.*c', 129, 'x')", "128 bytes"),
        ("handler, payload, delay, payload_version", "'note', '1', 1, 65536", "from 0 to 65535"),
        ("handler, payload, delay, payload_version", "'note', '1', 1, 'x'", "from 0 to 65535"),
        ("handler, payload, delay, remember", "'note', '1', 1, 1", "remember needs a key"),
        ("handler, payload, delay, key, remember", "'note', '1', 1, 'k', -1", "remember must be"),
        ("handler, payload, delay, on_conflict", "'note', '1', 1, 'update'", "keep, replace or"),
        ("handler, payload, delay, fixed_delay", "'note', '1', 1, 0", "at least a microsecond"),
        ("handler, payload, delay, fixed_rate", "'note', '1', 1, 'x'", "at least a microsecond"),
        ("handler, payload, delay, fixed_rate, fixed_delay", "'note', '1', 1, 1, 1", "exclude"),
        ("handler, payload, delay, missed", "'note', '1', 1, 'skip'", "missed needs"),
        ("handler, payload, delay, fixed_rate, missed", "'note', '1', 1, 1, 'x'", "missed must"),
        ("handler, payload, delay, id", "'note', '1', 1, 5", "id and started"),
        ("handler, payload, delay, until", "'note', '1', 1, 5", "until and times need"),
        ("handler, payload, delay, times", "'note', '1', 1, 5", "until and times need"),
        ("handler, payload, delay, fixed_rate, until", "'note', '1', 1, 1, 'x'", "until must be"),
        ("handler, payload, delay, fixed_rate, times", "'note', '1', 1, 1, 0", "at least 1"),
        ("handler, payload, delay, fixed_rate, times", "'note', '1', 1, 1, 1.5", "at least 1"),
    ];
    for (columns, values, reason) in cases {
        let text = format!("INSERT INTO lars_schedule ({columns}) VALUES ({values})");
        let error = other.execute(&text, []).expect_err(&text).to_string();
        assert!(error.contains("lars_schedule: ") && error.contains(reason), "{text}: {error}");
    }
    assert_eq!(count(&other), 0);
    let most = format!(
        "INSERT INTO lars_schedule (handler, payload, delay, key, payload_version)
         VALUES ('note', substr({long}, 1, 65535) || '\"', 1, printf('%.*c', 512, 'x'), 65535)"
    );
    other.execute(&most, []).unwrap();
    assert_eq!(count(&other), 1);
}

#[test]
fn a_timer_that_another_program_deletes_from_the_view_does_not_run_and_a_series_ends() {
    let directory = Directory::new("delete");
    let (tell, seen) = telling();
    let (begun, began) = std::sync::mpsc::channel::<()>();
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let (begun, gate) = (std::sync::Mutex::new(begun), std::sync::Mutex::new(gate));
    let durable = Durable::sqlite(directory.file())
        .handle(move |due: &lars_durable::Fired<common::Note>| {
            tell(due);
            if due.payload().0 == "series" {
                begun.lock().unwrap().send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
            }
        })
        .start()
        .unwrap();
    let timers = durable.timers();
    let delete = |key: &str| {
        let text =
            format!("BEGIN IMMEDIATE; DELETE FROM lars_schedule WHERE key = '{key}'; COMMIT");
        connection(&directory.file(), &text);
    };
    timers.schedule_once(DAY, note("waits")).key("waits").submit().wait().unwrap();
    delete("waits");
    assert_eq!(timers.cancel("waits").wait().unwrap(), Cancel::NotFound);

    let series = timers.schedule_with_fixed_delay(Duration::ZERO, Duration::ZERO, note("x"));
    assert!(series.submit().wait().is_err(), "a period of zero is refused");
    let soon = Duration::from_micros(1);
    let series = timers.schedule_with_fixed_delay(Duration::ZERO, soon, note("series"));
    series.key("series").on_conflict(OnConflict::Fail).submit().wait().unwrap();
    began.recv_timeout(LONG).unwrap();
    delete("series");
    go_on.send(()).unwrap();
    until(|| timers.get("series").wait().unwrap().is_none());
    drop(go_on);
    durable.close().unwrap();
    let runs: Vec<String> = seen.try_iter().map(|seen| seen.text).collect();
    assert_eq!(runs, ["series"]);
}

/// Timers of the file belong to the group of its node, so that nobody can mistype it.
#[test]
fn a_timer_that_another_program_makes_is_of_the_group_that_opened_the_file_last() {
    let directory = Directory::new("group");
    let (tell, seen) = telling();
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let builder = Durable::sqlite(directory.file()).group("billing");
    let durable = builder.handle(tell).start().unwrap();
    connection(
        &directory.file(),
        "INSERT INTO lars_schedule (handler, payload, delay) VALUES ('note', '\"billed\"', 0)",
    );
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "billed");
    durable.close().unwrap();
}

#[test]
fn a_series_that_another_program_makes_ends_as_it_says_and_shows_its_end() {
    let directory = Directory::new("ending");
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let timers = durable.timers();
    let other = Connection::open(directory.file()).unwrap();
    other.busy_timeout(LONG).unwrap();
    let script = "INSERT INTO lars_schedule (handler, payload, delay, key, fixed_rate, times)
         VALUES ('note', '\"times\"', 0, 'times', 0.001, 3);
         INSERT INTO lars_schedule (handler, payload, delay, key, fixed_delay, until)
         VALUES ('note', '\"until\"', 0, 'until', 3600,
                 (julianday('now') - 2440587.5) * 86400 + 600);
         INSERT INTO lars_schedule (handler, payload, delay, key, fixed_delay, until)
         VALUES ('note', '\"over\"', 5, 'over', 3600, 1000000000.5);
         INSERT INTO lars_schedule (handler, payload, delay, key, fixed_rate, until, times)
         VALUES ('note', '\"shown\"', 900, 'shown', 3600, 4102444800.5, 4)";
    other.execute_batch(script).unwrap();
    for key in ["times", "until", "over"] {
        until(|| timers.get(key).wait().unwrap().is_none());
    }
    let shown = "SELECT fixed_rate, missed, until, times FROM lars_schedule WHERE key = 'shown'";
    let shown: (f64, String, f64, i64) = other
        .query_row(shown, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap();
    assert_eq!(shown, (3600.0, "burst".into(), 4_102_444_800.5, 4));
    // One that is over takes the place of another, and leaves it empty.
    let over = "INSERT INTO lars_schedule (handler, payload, delay, key, fixed_rate, until,
                                           on_conflict)
         VALUES ('note', '1', 5, 'shown', 1, 0, 'replace')";
    other.execute_batch(over).unwrap();
    assert_eq!(count(&other), 0);
    durable.close().unwrap();
    let mut texts: Vec<String> = seen.try_iter().map(|seen| seen.text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["times", "times", "times", "until"]);
}

#[test]
fn a_timer_that_another_program_moves_is_in_memory_long_before_it_is_due_and_runs_then() {
    let directory = Directory::new("moved");
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).window(HOUR).handle(tell).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(DAY, note("moved")).key("moved").submit().wait().unwrap();
    timers.schedule_once(HOUR / 2, note("own")).key("own").submit().wait().unwrap();
    until(|| durable.metrics().resident == 1);
    for (number, program) in programs().into_iter().enumerate() {
        // Neither a sweep nor a load finds it at its new time.
        let delay = 2_000 - number * 100;
        let script = format!(
            "BEGIN IMMEDIATE; UPDATE lars_schedule SET delay = 1 WHERE key = 'moved'; ROLLBACK;
             UPDATE lars_schedule SET delay = {delay} WHERE key = 'moved'"
        );
        program(&directory.file(), &script);
        until(|| durable.metrics().resident >= 2 + number);
    }
    let other = Connection::open(directory.file()).unwrap();
    other.busy_timeout(LONG).unwrap();
    other.execute_batch("UPDATE lars_schedule SET delay = 90000 WHERE key = 'own'").unwrap();
    let own = timers.get("own").wait().unwrap().unwrap();
    assert!(own.deadline.unwrap() > SystemTime::now() + DAY);
    for (set, reason) in [
        ("delay = 'soon'", "delay must be a number"),
        ("delay = 1, key = 'x'", "only delay"),
        ("delay = 1, times = 3", "only delay"),
        ("key = 'x'", "view"),
    ] {
        let text = format!("UPDATE lars_schedule SET {set} WHERE key = 'own'");
        let error = other.execute(&text, []).expect_err(&text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    other.execute_batch("UPDATE lars_schedule SET delay = -1 WHERE key = 'moved'").unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "moved");
    durable.close().unwrap();
    assert_eq!(seen.try_iter().count(), 0, "once, although it was in memory under other times");
}

/// SQLite takes any bytes for text.
#[test]
fn a_text_that_is_not_utf_8_holds_up_no_other_timer_and_a_payload_that_is_not_is_parked() {
    let directory = Directory::new("bytes");
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let timers = durable.timers();
    connection(
        &directory.file(),
        "INSERT INTO lars_schedule (handler, payload, delay, key, tag, remember)
              VALUES ('note', CAST(x'224dfc6c6c657222' AS TEXT), 0, NULL, NULL, NULL),
                     (CAST(x'fc' AS TEXT), '\"handler\"', 0, 'handler', NULL, NULL),
                     ('note', '\"key\"', 0, CAST(x'e4' AS TEXT), NULL, 60),
                     ('note', '\"tag\"', 0, NULL, CAST(x'c3' AS TEXT), NULL),
                     ('note', '\"last\"', 0, 'last', NULL, NULL)",
    );
    let mut texts: Vec<String> = (0..3).map(|_| seen.recv_timeout(LONG).unwrap().text).collect();
    texts.sort();
    assert_eq!(texts, ["key", "last", "tag"]);
    until(|| !common::parked(&timers).is_empty());
    let [parked] = &common::parked(&timers)[..] else { panic!("one is parked") };
    assert!(parked.timer.payload.contains("M\u{fffd}ller"), "{parked:?}");
    assert!(parked.reason.contains("cannot be read"), "{parked:?}");
    until(|| durable.metrics().in_flight == 0);
    let left = timers.list(&Query::new()).wait().unwrap().timers;
    let handlers: Vec<&str> = left.iter().map(|found| &*found.timer().handler).collect();
    assert_eq!(handlers, ["\u{fffd}"]);
    assert!(timers.retry_parked(parked.timer.id).wait().unwrap());
    until(|| common::parked(&timers).len() == 1);
    assert_eq!(timers.cancel("handler").wait().unwrap(), Cancel::Prevented);
    assert!(durable.inspect().wait().is_ok());
    durable.close().unwrap();
    assert_eq!(seen.try_iter().count(), 0);
}
