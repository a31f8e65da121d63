//! What a file has to be, and what is said of one that is something else. Nothing of it is changed
//! then.

use crate::common;

use std::time::Duration;

use common::{Directory, LONG, Note, note, telling};
use lars_durable::schedule::Placement;
use lars_durable::{Durable, Error, Fired, OnConflict, StartError};
use rusqlite::Connection;

#[test]
fn the_second_owner_of_a_file_is_told_who_the_first_is() {
    let directory = Directory::new("owned");
    let first = Durable::sqlite(directory.file()).start().unwrap();
    let error = Durable::sqlite(directory.file()).start().unwrap_err();
    let StartError::Owned { path, owner } = &error else { panic!("{error}") };
    assert_eq!(path, &directory.file());
    assert_eq!(owner, &format!("process {}", std::process::id()));
    assert!(error.to_string().contains("one at a time"), "{error}");
    first.close().unwrap();
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_that_has_an_owner_is_refused_as_well() {
    let directory = Directory::new("link");
    let first = Durable::sqlite(directory.file()).start().unwrap();
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(directory.file(), &link).unwrap();
    let error = Durable::sqlite(link).start().unwrap_err();
    assert!(matches!(&error, StartError::Owned { .. }), "{error}");
    first.close().unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let directory = Directory::new("text");
    let text = "this is no database, but somebody's letter\n".repeat(100);
    std::fs::write(directory.file(), &text).unwrap();
    let error = Durable::sqlite(directory.file()).start().unwrap_err();
    assert!(matches!(&error, StartError::NotADatabase { .. }), "{error}");
    assert!(error.to_string().contains("timers.db"), "{error}");
    assert_eq!(std::fs::read_to_string(directory.file()).unwrap(), text);
}

#[test]
fn a_file_with_another_encoding_than_utf_8_is_refused_and_nothing_is_made_in_it() {
    let directory = Directory::new("encoding");
    for encoding in ["UTF-8", "UTF-16le", "UTF-16be"] {
        let file = directory.path().join(encoding);
        let other = Connection::open(&file).unwrap();
        other.pragma_update(None, "encoding", encoding).unwrap();
        other.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        let durable = match Durable::sqlite(&file).start() {
            Ok(durable) => durable,
            Err(error) => {
                assert!(error.to_string().contains(encoding), "{error}");
                assert_ne!(encoding, "UTF-8");
                let tables = "SELECT count(*) FROM sqlite_schema";
                let tables: i64 = other.query_row(tables, [], |row| row.get(0)).unwrap();
                assert_eq!(tables, 1, "nothing was made");
                continue;
            }
        };
        let insert = "INSERT INTO lars_schedule (handler, payload, delay, key)
                           VALUES ('note', '1', 3600, 'order/17')";
        other.execute(insert, []).unwrap();
        assert!(durable.timers().get("order/17").wait().unwrap().is_some());
        durable.close().unwrap();
    }
}

#[test]
fn a_newer_schema_is_refused_with_both_numbers_and_left_as_it_is() {
    let directory = Directory::new("newer");
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let admin = Connection::open(directory.file()).unwrap();
    admin.execute("UPDATE lars_meta SET version = 99", []).unwrap();
    drop(admin);
    let error = Durable::sqlite(directory.file()).start().unwrap_err();
    let StartError::NewerSchema { found: 99, known: 3, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("99") && error.to_string().contains("up to 3"), "{error}");
    let admin = Connection::open(directory.file()).unwrap();
    let version: i64 =
        admin.query_row("SELECT version FROM lars_meta", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn a_file_of_each_earlier_version_is_upgraded_with_all_that_is_in_it() {
    let second = concat!(
        include_str!("../../src/store/sqlite/schema_2.sql"),
        "UPDATE lars_meta SET version = 2;"
    );
    for since in ["", second] {
        is_upgraded(since);
    }
}

/// The file was made by the first version, whose process died while something ran, and was opened
/// by those that these scripts are of.
fn is_upgraded(since: &str) {
    let directory = Directory::new("upgraded");
    let own = Connection::open(directory.file()).unwrap();
    own.busy_timeout(LONG).unwrap();
    own.execute_batch(include_str!("../data/version_1.sql")).unwrap();
    own.execute_batch(since).unwrap();
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let mut runs: Vec<(String, u32)> = (0..2)
        .map(|_| seen.recv_timeout(LONG).unwrap())
        .map(|seen| (seen.text, seen.attempt))
        .collect();
    runs.sort_unstable();
    assert_eq!(runs, [("died".into(), 2), ("once".into(), 1)]);
    let timers = durable.timers();
    let series = timers.get("series").wait().unwrap().unwrap();
    assert_eq!((series.id, series.runs, series.times), (3, 41, None));
    let parked = common::parked(&timers);
    assert_eq!((parked.len(), parked[0].timer.id), (1, 5));
    let hour = Duration::from_secs(3_600);
    for key in ["used", "series"] {
        let kept = timers.schedule_once(hour, note("x")).key(key).submit().wait().unwrap();
        assert_eq!(kept.placement, Placement::Kept, "{key}");
    }
    // What is new works on what is old.
    let ending = timers.schedule_at_fixed_rate(hour, hour, note("series")).times(50).key("series");
    assert_eq!(ending.submit().wait().unwrap().placement, Placement::Updated);
    let shown = |column: &str| -> i64 {
        let text = format!("SELECT {column} FROM lars_schedule WHERE key = 'series'");
        own.query_row(&text, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((shown("times"), shown("id")), (50, 3));
    own.execute("UPDATE lars_schedule SET delay = 0 WHERE key = 'series'", []).unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "series");
    durable.close().unwrap();
    let version: i64 =
        own.query_row("SELECT version FROM lars_meta", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 3);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let directory = Directory::new("absent");
    let path = directory.path().join("absent").join("timers.db");
    let error = Durable::sqlite(&path).start().unwrap_err();
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_written_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("readonly");
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let all = std::fs::metadata(directory.file()).unwrap().permissions();
    std::fs::set_permissions(directory.file(), PermissionsExt::from_mode(0o444)).unwrap();
    // Nothing keeps root from writing.
    if std::fs::OpenOptions::new().write(true).open(directory.file()).is_ok() {
        eprintln!("SKIPPED: this user may write everything");
        return;
    }
    let error = Durable::sqlite(directory.file()).start().unwrap_err();
    assert!(matches!(&error, StartError::ReadOnly { .. }), "{error}");
    std::fs::set_permissions(directory.file(), all).unwrap();
}

#[test]
fn settings_out_of_range_are_errors_with_the_value_and_the_limit() {
    let message = |builder: lars_durable::Builder| builder.start().unwrap_err().to_string();
    let short = Durable::in_memory().window(Duration::from_millis(1));
    assert_eq!(message(short), "window is 1ms, but it must be from 1 s to 1 h");
    let long = Durable::in_memory().lease(Duration::from_secs(7_200));
    assert_eq!(message(long), "lease is 7200s, but it must be from 1 s to 1 h");
    let none = Durable::in_memory().call_timeout(Duration::ZERO);
    assert_eq!(message(none), "call_timeout is 0ns, but it must be at least 1 ms");
    let few = Durable::in_memory().max_resident(1);
    assert_eq!(message(few), "max_resident is 1, but it must be at least 1000");
    let none = Durable::in_memory().threads(0);
    assert_eq!(message(none), "threads is 0, but it must be from 1 to 1024");
    let many = Durable::in_memory().handle(|_: &Fired<Note>| ()).threads(usize::MAX);
    let given = usize::MAX;
    assert_eq!(message(many), format!("threads is {given}, but it must be from 1 to 1024"));
    let nameless = Durable::in_memory().group("");
    assert_eq!(message(nameless), "group is \"\", but it must be from 1 to 64 bytes without NUL");
    let twice = Durable::in_memory().handle(|_: &Fired<Note>| ()).handle(|_: &Fired<Note>| ());
    assert_eq!(message(twice), "there are two handlers for \"note\"");
}

#[test]
fn the_shell_shows_every_timer_in_plain_columns_while_the_node_runs() {
    let directory = Directory::new("shell");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let hour = Duration::from_secs(3600);
    durable.timers().schedule_once(hour, note("hello")).key("k").submit().wait().unwrap();
    let shell = Connection::open(directory.file()).unwrap();
    let row: (String, String, String, bool) = shell
        .query_row("SELECT handler, key, deadline_utc, started FROM lars_overview", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .unwrap();
    assert_eq!((row.0.as_str(), row.1.as_str(), row.3), ("note", "k", false));
    assert!(row.2.starts_with("20"), "{}", row.2);
    let payload: String =
        shell.query_row("SELECT payload FROM lars_timer", [], |row| row.get(0)).unwrap();
    assert_eq!(payload, "\"hello\"");
    durable.close().unwrap();
}

#[test]
fn the_tables_live_beside_those_of_a_database_that_was_there_before() {
    let directory = Directory::new("beside");
    let shop = Connection::open(directory.file()).unwrap();
    shop.execute_batch("CREATE TABLE customer (name TEXT); INSERT INTO customer VALUES ('Ada')")
        .unwrap();
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    durable.timers().schedule_once(Duration::ZERO, note("x")).submit().wait().unwrap();
    seen.recv_timeout(LONG).unwrap();
    durable.close().unwrap();
    let name: String = shop.query_row("SELECT name FROM customer", [], |row| row.get(0)).unwrap();
    assert_eq!(name, "Ada");
}

#[test]
fn while_another_connection_holds_the_file_nothing_is_done_and_everything_goes_on_afterwards() {
    let directory = Directory::new("held");
    let (tell, seen) = telling();
    let builder = Durable::sqlite(directory.file()).handle(tell);
    let durable = builder.call_timeout(Duration::from_millis(100)).start().unwrap();
    let timers = durable.timers();
    let soon = Duration::from_millis(300);
    // On a busy machine a call may wait for longer than its limit. With its key it is repeated.
    let accept = |text: &str| loop {
        let call = timers.schedule_once(soon, note(text)).key(text);
        match call.on_conflict(OnConflict::Keep).submit().wait() {
            Ok(_) => break,
            Err(Error::Unavailable { .. } | Error::OutcomeUnknown { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let wait_for = |text: &str| while seen.recv_timeout(LONG).unwrap().text != text {};
    let shell = Connection::open(directory.file()).unwrap();
    let waits = "SELECT count(*) FROM lars_overview WHERE NOT started";
    let mut attempt = 0;
    let before = loop {
        let before = format!("before {attempt}");
        accept(&before);
        shell.execute_batch("BEGIN IMMEDIATE").unwrap();
        if shell.query_row(waits, [], |row| row.get::<_, i64>(0)).unwrap() == 1 {
            break before;
        }
        // The machine stood still, and it has started: once more.
        shell.execute_batch("COMMIT").unwrap();
        wait_for(&before);
        attempt += 1;
    };
    let call = timers.schedule_once(soon, note("meanwhile")).submit().wait();
    let (Err(Error::Unavailable { reason }) | Err(Error::OutcomeUnknown { reason })) = &call else {
        panic!("{call:?}")
    };
    assert!(!reason.is_empty());
    std::thread::sleep(2 * soon);
    let started = seen.try_iter().find(|note| note.text == before);
    assert!(started.is_none(), "nothing starts that cannot be recorded: {started:?}");
    shell.execute_batch("COMMIT").unwrap();

    wait_for(&before);
    accept("after");
    let ran: Vec<_> = std::iter::repeat_with(|| seen.recv_timeout(LONG).unwrap().text)
        .take_while(|text| text != "after")
        .collect();
    durable.close().unwrap();
    if matches!(call, Err(Error::Unavailable { .. })) {
        assert!(!ran.iter().any(|text| text == "meanwhile"), "what was not accepted ran: {ran:?}");
    }
}
