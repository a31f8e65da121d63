//! Timers that are made, cancelled and ended in transactions of the user's own, in the file of the
//! node.

use crate::common;

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{Directory, LONG, Note, note, telling};
use lars_durable::backoff::BackoffPolicy;
use lars_durable::schedule::{Cancel, Placement};
use lars_durable::{Durable, Fired, Handler, OnConflict, Refused, TransactionError};
use rusqlite::{Connection, Transaction, TransactionBehavior};

const DAY: Duration = Duration::from_secs(86_400);

/// A connection of the user's own.
fn open(file: &Path) -> Connection {
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(LONG).unwrap();
    connection
}

fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

fn number(connection: &Connection, text: &str) -> i64 {
    connection.query_row(text, [], |row| row.get(0)).unwrap()
}

fn soon_again() -> BackoffPolicy {
    BackoffPolicy::builder().initial(Duration::from_millis(5)).build().unwrap()
}

#[test]
fn what_is_scheduled_in_a_transaction_runs_once_if_that_commits_and_never_if_it_is_rolled_back() {
    let directory = Directory::new("own-schedule");
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let timers = durable.timers();
    let mut own = open(&directory.file());
    own.execute_batch("CREATE TABLE orders (id TEXT)").unwrap();
    for (text, commits) in [("a", true), ("b", false), ("c", true)] {
        let transaction = begin(&mut own);
        transaction.execute("INSERT INTO orders VALUES (?1)", [text]).unwrap();
        let timer = timers.schedule_once(Duration::ZERO, note(text)).key(text);
        let accepted = timer.submit_in_file(&transaction).unwrap();
        assert_eq!(accepted.placement, Placement::New);
        if commits {
            transaction.commit().unwrap();
            assert_eq!(seen.recv_timeout(LONG).unwrap().text, text);
        }
    }
    durable.close().unwrap();
    assert_eq!(seen.try_iter().count(), 0);
    assert_eq!(number(&own, "SELECT count(*) FROM orders"), 2);
    assert_eq!(number(&own, "SELECT count(*) FROM lars_timer"), 0);
}

#[test]
fn a_key_that_is_taken_is_kept_replaced_updated_or_refused_in_a_transaction_as_by_a_call() {
    let directory = Directory::new("own-keys");
    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let timers = durable.timers();
    let first = timers.schedule_once(DAY, note("1")).key("k").submit().wait().unwrap();
    let mut own = open(&directory.file());
    let transaction = begin(&mut own);
    let again = |text, conflict| {
        let timer = timers.schedule_once(DAY, note(text)).key("k").on_conflict(conflict);
        timer.submit_in_file(&transaction)
    };
    let kept = again("2", OnConflict::Keep).unwrap();
    assert_eq!((kept.id, kept.placement), (first.id, Placement::Kept));
    let error = again("3", OnConflict::Fail).unwrap_err();
    let taken = Refused::KeyTaken { key: "k".into() };
    assert_eq!(error, TransactionError::Refused(taken));
    let replaced = again("4", OnConflict::Replace).unwrap();
    assert_eq!(replaced.placement, Placement::Replaced);
    let updated = again("5", OnConflict::Update).unwrap();
    assert_eq!((updated.id, updated.placement), (replaced.id, Placement::Updated));
    let long = timers.schedule_once(DAY, note("6")).key("x".repeat(513));
    let error = long.submit_in_file(&transaction).unwrap_err();
    let refused = Refused::KeySize { given: 513, max: 512 };
    assert_eq!(error, TransactionError::Refused(refused));
    let empty = timers.cancel_in_file("", &transaction).unwrap_err();
    assert_eq!(empty, TransactionError::Refused(Refused::KeyEmpty));

    // The node has the time of this one in memory. With another rule it is another timer, and is
    // found as one.
    let series = |every| timers.schedule_at_fixed_rate(every, every, note("series")).key("series");
    let before = series(DAY).submit_in_file(&transaction).unwrap();
    let same = series(DAY).submit_in_file(&transaction).unwrap();
    assert_eq!((same.id, same.placement), (before.id, Placement::Kept));
    let after = series(Duration::from_millis(1)).submit_in_file(&transaction).unwrap();
    assert_eq!(after.placement, Placement::Replaced);
    assert!(after.id > before.id);
    transaction.commit().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "series");
    assert_eq!(timers.get("k").wait().unwrap().unwrap().payload, "\"5\"");
    durable.close().unwrap();
}

#[test]
fn a_cancel_in_a_transaction_holds_once_that_commits() {
    let directory = Directory::new("own-cancel");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(DAY, note("1")).key("k").submit().wait().unwrap();
    let mut own = open(&directory.file());
    for commits in [false, true] {
        let transaction = begin(&mut own);
        assert_eq!(timers.cancel_in_file("k", &transaction).unwrap(), Cancel::Prevented);
        assert_eq!(timers.cancel_in_file("k", &transaction).unwrap(), Cancel::NotFound);
        if commits {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        assert_eq!(timers.get("k").wait().unwrap().is_none(), commits);
    }
    durable.close().unwrap();
}

#[test]
fn a_move_in_a_transaction_holds_once_that_commits_and_the_node_finds_it_long_before_it_is_due() {
    let directory = Directory::new("own-reset");
    let (tell, seen) = telling();
    let builder = Durable::sqlite(directory.file()).window(DAY / 24);
    let durable = builder.handle(tell).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(DAY / 48, note("own")).submit().wait().unwrap();
    while durable.metrics().resident != 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let made = timers.schedule_once(DAY, note("moved")).key("k").submit().wait().unwrap();
    let before = timers.get("k").wait().unwrap().unwrap().deadline;
    let mut own = open(&directory.file());
    for commits in [false, true] {
        let transaction = begin(&mut own);
        // Neither a sweep nor a load finds it at its new time.
        assert!(timers.reset_in_file("k", DAY / 48, &transaction).unwrap());
        assert!(timers.reset_in_file(made.id, DAY / 47, &transaction).unwrap());
        assert!(!timers.reset_in_file("other", DAY, &transaction).unwrap());
        let empty = timers.reset_in_file("", DAY, &transaction).unwrap_err();
        assert_eq!(empty, TransactionError::Refused(Refused::KeyEmpty));
        if commits {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        let after = timers.get("k").wait().unwrap().unwrap();
        assert_eq!((after.deadline == before, after.id), (!commits, made.id));
    }
    while durable.metrics().resident != 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let transaction = begin(&mut own);
    assert!(timers.reset_in_file("k", Duration::ZERO, &transaction).unwrap());
    transaction.commit().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap().text, "moved");
    while timers.get("k").wait().unwrap().is_some() {}
    durable.close().unwrap();
    assert_eq!(seen.try_iter().count(), 0, "once");
}

#[test]
fn a_timer_that_has_started_is_not_moved_in_a_transaction_and_may_be_the_last_of_its_series() {
    let directory = Directory::new("own-last");
    let own = Mutex::new(open(&directory.file()));
    let (told, moved) = channel();
    let (timers_of, timers_in) = channel::<lars_durable::Timers>();
    let (told, timers_in) = (Mutex::new(told), Mutex::new(timers_in));
    let handler = Handler::new(move |due: &Fired<Note>| {
        let timers = timers_in.lock().unwrap().recv().unwrap();
        let mut own = own.lock().unwrap();
        let transaction = begin(&mut own);
        let moved = timers.reset_in_file(due.id(), DAY, &transaction).unwrap();
        assert_eq!(timers.cancel_in_file(due.id(), &transaction).unwrap(), Cancel::Running);
        due.complete_in_file(&transaction).unwrap();
        transaction.commit().unwrap();
        told.lock().unwrap().send(moved).unwrap();
    });
    let durable = Durable::sqlite(directory.file()).handler(handler).start().unwrap();
    let timers = durable.timers();
    let series = timers.schedule_at_fixed_rate(Duration::ZERO, DAY, note("x")).key("x");
    series.submit().wait().unwrap();
    timers_of.send(timers.clone()).unwrap();
    assert!(!moved.recv_timeout(LONG).unwrap());
    assert!(timers.get("x").wait().unwrap().is_none(), "cancelled and ended in one transaction");
    durable.close().unwrap();
}

/// The handler of the tests below writes a row for each attempt, and ends the run in that
/// transaction; `commits` says what becomes of it, and `says` what the handler returns.
fn acknowledging<R: lars_durable::IntoOutcome + 'static>(
    file: &Path,
    commits: impl Fn(&Fired<Note>) -> bool + Send + Sync + 'static,
    says: impl Fn(&Fired<Note>) -> R + Send + Sync + 'static,
) -> Handler {
    let own = Mutex::new(open(file));
    own.lock().unwrap().execute_batch("CREATE TABLE effect (text TEXT, attempt INT)").unwrap();
    Handler::new(move |due: &Fired<Note>| {
        let mut own = own.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let transaction = begin(&mut own);
        let effect = (&due.payload().0, due.attempt());
        transaction.execute("INSERT INTO effect VALUES (?1, ?2)", effect).unwrap();
        due.complete_in_file(&transaction).unwrap();
        if commits(due) {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        drop(own);
        says(due)
    })
    .backoff(soon_again())
}

#[test]
fn an_end_in_the_handlers_transaction_is_committed_with_what_it_wrote_or_not_at_all() {
    let directory = Directory::new("own-complete");
    // So that there is a file.
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let commits = |due: &Fired<Note>| due.attempt() > 2 || due.payload().0 == "series";
    let (sender, runs) = channel();
    let sender = Mutex::new(sender);
    let says = move |due: &Fired<Note>| {
        sender.lock().unwrap().send((due.payload().0.clone(), due.attempt())).unwrap();
    };
    let handler = acknowledging(&directory.file(), commits, says);
    let builder = Durable::sqlite(directory.file()).call_timeout(LONG).handler(handler);
    let durable = builder.start().unwrap();
    let timers = durable.timers();
    let once = timers.schedule_once(Duration::ZERO, note("once")).key("once");
    once.remember(DAY).submit().wait().unwrap();
    for attempt in 1..=3 {
        assert_eq!(runs.recv_timeout(LONG).unwrap(), ("once".into(), attempt));
    }
    let soon = Duration::from_millis(5);
    let series = timers.schedule_with_fixed_delay(Duration::ZERO, soon, note("series"));
    series.key("series").submit().wait().unwrap();
    for _ in 0..5 {
        assert_eq!(runs.recv_timeout(LONG).unwrap(), ("series".into(), 1));
    }
    while timers.cancel("series").wait().unwrap() != Cancel::NotFound {}
    let metrics = durable.metrics();
    durable.close().unwrap();
    assert_eq!((metrics.retried, metrics.stale), (2, 0), "{metrics:?}");
    let own = open(&directory.file());
    assert_eq!(number(&own, "SELECT count(*) FROM effect WHERE text = 'once'"), 1);
    let seen = 5 + runs.try_iter().count();
    let effects = number(&own, "SELECT count(*) FROM effect WHERE text = 'series'");
    assert_eq!(usize::try_from(effects).unwrap(), seen);
    assert_eq!(number(&own, "SELECT count(*) FROM lars_timer"), 0);
    assert_eq!(number(&own, "SELECT count(*) FROM lars_used_key WHERE key = 'once'"), 1);
}

#[test]
fn the_transaction_that_ends_a_run_decides_alone_whatever_the_handler_says() {
    let directory = Directory::new("own-decides");
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let says = |due: &Fired<Note>| -> Result<(), String> {
        match due.payload().0.as_str() {
            "panics" => panic!("after the commit"),
            "fails" => Err("the answer to the commit was lost".into()),
            // And is not believed at the first attempt, which was rolled back.
            _ => Ok(()),
        }
    };
    let commits = |due: &Fired<Note>| due.payload().0 != "lies" || due.attempt() == 2;
    let handler = acknowledging(&directory.file(), commits, says);
    let builder = Durable::sqlite(directory.file()).call_timeout(LONG).handler(handler);
    let durable = builder.start().unwrap();
    let timers = durable.timers();
    for text in ["panics", "fails", "lies"] {
        timers.schedule_once(Duration::ZERO, note(text)).submit().wait().unwrap();
    }
    for _ in 0..60_000 {
        if durable.metrics().done == 3 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let metrics = durable.metrics();
    assert_eq!((metrics.done, metrics.retried, metrics.stale), (3, 1, 0), "{metrics:?}");
    durable.close().unwrap();
    let own = open(&directory.file());
    let effects: String = own
        .query_row(
            "SELECT group_concat(text || attempt) FROM (SELECT * FROM effect ORDER BY text)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(effects, "fails1,lies2,panics1", "each effect once");
}

#[test]
fn a_run_that_is_not_the_current_one_any_more_cannot_be_ended_in_a_transaction() {
    let directory = Directory::new("own-stale");
    let (sender, results) = channel();
    let (sender, file) = (Mutex::new(sender), directory.file());
    let handler = move |due: &Fired<Note>| {
        let mut own = open(&file);
        let transaction = begin(&mut own);
        // Another run has begun, or it was replaced; or the timer is gone.
        let (text, fence) = (&due.payload().0, due.fence().cast_signed());
        let change = match text.as_str() {
            "later" => "UPDATE lars_timer SET fence = fence + 1 WHERE fence = ?1",
            _ => "DELETE FROM lars_timer WHERE fence = ?1",
        };
        assert_eq!(transaction.execute(change, [fence]).unwrap(), 1);
        sender.lock().unwrap().send(due.complete_in_file(&transaction)).unwrap();
        transaction.commit().unwrap();
    };
    let at_most_once = Handler::new(handler);
    let durable = Durable::sqlite(directory.file()).handler(at_most_once).start().unwrap();
    for text in ["later", "gone"] {
        durable.timers().schedule_once(Duration::ZERO, note(text)).submit().wait().unwrap();
        assert_eq!(results.recv_timeout(LONG).unwrap(), Err(TransactionError::Stale));
    }
    durable.close().unwrap();
    assert_eq!(number(&open(&directory.file()), "SELECT count(*) FROM lars_timer"), 1);
}

#[test]
fn a_transaction_of_another_file_or_of_one_that_is_attached_is_refused() {
    let (directory, other) = (Directory::new("own-file"), Directory::new("own-other"));
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    // It has the same tables.
    let second = Durable::sqlite(other.file()).start().unwrap();
    let in_memory = Durable::in_memory().start().unwrap();
    let attach = format!("ATTACH '{}' AS timers", directory.file().display());
    let mut attached = open(&other.path().join("shop.db"));
    attached.execute_batch(&attach).unwrap();
    let mut without_file = Connection::open_in_memory().unwrap();
    without_file.execute_batch(&attach).unwrap();
    let (mut own, mut of_second) = (open(&directory.file()), open(&other.file()));
    let mut again = open(&directory.file());
    for (node, connection) in [
        (&durable, &mut attached),
        (&durable, &mut without_file),
        (&durable, &mut of_second),
        (&second, &mut own),
        (&in_memory, &mut again),
    ] {
        let transaction = begin(connection);
        let timer = node.timers().schedule_once(DAY, note("lost"));
        let error = timer.submit_in_file(&transaction).unwrap_err();
        assert_eq!(error, TransactionError::OtherStore);
        let error = node.timers().cancel_in_file("k", &transaction).unwrap_err();
        assert_eq!(error, TransactionError::OtherStore);
    }
    for connection in [&own, &of_second] {
        assert_eq!(number(connection, "SELECT count(*) FROM lars_timer"), 0);
    }
    // By another name it is the same.
    #[cfg(unix)]
    {
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(directory.file(), &link).unwrap();
        let mut linked = open(&link);
        let transaction = begin(&mut linked);
        durable.timers().schedule_once(DAY, note("kept")).submit_in_file(&transaction).unwrap();
        transaction.commit().unwrap();
        assert_eq!(number(&own, "SELECT count(*) FROM lars_timer"), 1);
    }
}

/// Orders and their timers are made in one transaction, or rolled back; effects are written in the
/// transaction that ends the run, or rolled back. Meanwhile the process is killed.
#[test]
fn each_order_that_is_committed_has_its_effect_once_however_the_process_is_killed() {
    const CHILD: &str = "LARS_DURABLE_TEST_SHOP";
    const ORDERS: i64 = 60;
    if let Some(file) = std::env::var_os(CHILD) {
        return keep_shop(Path::new(&file), ORDERS);
    }
    let name = "own_transactions::each_order_that_is_committed_has_its_effect_once_however_the_\
                process_is_killed";
    for _ in 0..4 {
        let directory = Directory::new("shop");
        Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
        let own = open(&directory.file());
        let tables = "CREATE TABLE orders (id INTEGER PRIMARY KEY);
             CREATE TABLE effect (id INTEGER)";
        own.execute_batch(tables).unwrap();
        // At the third death a timer that was running each time would be parked.
        for life in 0..3 {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args([name, "--exact"])
                .env(CHILD, directory.file())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            if life < 2 {
                let from = number(&own, "SELECT count(*) FROM orders");
                let until = (from + fastrand::i64(1..ORDERS / 3)).min(ORDERS);
                // (If this process stands still, the child may have done everything.)
                while number(&own, "SELECT count(*) FROM orders") < until
                    && child.try_wait().unwrap().is_none()
                {
                    std::thread::sleep(Duration::from_micros(fastrand::u64(0..3_000)));
                }
                let _ = child.kill();
                child.wait().unwrap();
            } else {
                assert!(child.wait().unwrap().success());
            }
        }
        assert_eq!(number(&own, "SELECT count(*) FROM orders WHERE id > 0"), ORDERS);
        assert_eq!(number(&own, "SELECT count(*) FROM orders WHERE id <= 0"), 0);
        let mut effects = own.prepare("SELECT id FROM effect ORDER BY id").unwrap();
        let effects: Vec<i64> =
            effects.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        common::assert_same(&effects, &(1..=ORDERS).collect::<Vec<_>>());
        assert_eq!(number(&own, "SELECT count(*) FROM lars_parked"), 0);
    }
}

fn keep_shop(file: &Path, orders: i64) {
    let path = file.to_owned();
    let pay = move |due: &Fired<Note>| -> Result<(), String> {
        let order: i64 = due.payload().0.parse().unwrap();
        let mut own = open(&path);
        let transaction = begin(&mut own);
        transaction.execute("INSERT INTO effect VALUES (?1)", [order]).unwrap();
        due.complete_in_file(&transaction).unwrap();
        match fastrand::u8(0..4) {
            0 => Err("and it is rolled back".into()),
            1 => transaction.commit().map(|()| panic!("after the commit")).unwrap(),
            _ => transaction.commit().map_err(|error| error.to_string()),
        }
    };
    let handler = Handler::new(pay).backoff(soon_again()).max_attempts(1_000);
    let builder = Durable::sqlite(file).call_timeout(LONG).handler(handler);
    let (durable, mut own) = (builder.start().unwrap(), open(file));
    let first = number(&own, "SELECT coalesce(max(id), 0) + 1 FROM orders");
    let mut order = first;
    while order <= orders {
        let commits = fastrand::bool();
        let id = if commits { order } else { -order };
        let transaction = begin(&mut own);
        transaction.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
        let delay = Duration::from_millis(fastrand::u64(0..20));
        let timer = durable.timers().schedule_once(delay, note(&id.to_string()));
        timer.submit_in_file(&transaction).unwrap();
        if commits {
            transaction.commit().unwrap();
            order += 1;
        }
    }
    while number(&own, "SELECT count(*) FROM lars_timer") > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    durable.close().unwrap();
}
