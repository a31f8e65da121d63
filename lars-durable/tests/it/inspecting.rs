//! What a node tells of its group.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::time::{Duration, SystemTime};

use lars_durable::{Durable, Fired, Handler, Outcome};
use rusqlite::Connection;

use crate::common::{Directory, LONG, Note, note};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_node_shows_itself_its_lease_its_buckets_and_its_handlers() {
    let lease = Duration::from_secs(3);
    let builder = Durable::in_memory().name("first").lease(lease);
    let durable = builder.handle(|_: &Fired<Note>| ()).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(HOUR, note("later")).submit().wait().unwrap();
    timers.schedule_once(Duration::ZERO, note("now")).submit().wait().unwrap();
    timers.pause("nobody's").wait().unwrap();
    // What it says of itself goes with the next renewal. (A machine that stands still lets the
    // lease end for a moment.)
    let seen = loop {
        let seen = durable.inspect().wait().unwrap();
        let told = seen.handler("note").is_some_and(|note| note.done == 1);
        if told && seen.nodes.iter().all(|node| node.lease_left > Duration::ZERO) {
            break seen;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let [node] = &seen.nodes[..] else { panic!("{seen:?}") };
    assert_eq!((&*node.name, node.serves, node.buckets), ("first", true, 1));
    assert!(node.lease_left <= lease, "{:?}", node.lease_left);
    assert_eq!((seen.buckets, seen.free_buckets, &seen.database), (1, 0, &None));
    let handler = seen.handler("note").unwrap();
    assert_eq!((handler.nodes, handler.started, handler.retried), (1, 1, 0));
    assert_eq!((handler.pending.value, handler.pending.at_least), (1, false));
    let due = handler.next_due.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(due <= HOUR && due > HOUR / 2, "{due:?}");
    assert_eq!((handler.oldest_overdue, handler.overdue.value), (None, 0));
    assert!(handler.lateness.is_some_and(|late| late.p50 <= late.p99 && late.p99 <= late.max));
    assert!(seen.handler("nobody's").is_some_and(|handler| handler.paused && handler.nodes == 0));
}

#[test]
fn what_is_overdue_and_what_was_given_up_is_counted() {
    let park = Handler::new(|_: &Fired<Note>| Outcome::Park("no".into()));
    let durable = Durable::in_memory().handler(park).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(Duration::ZERO, note("parked")).submit().wait().unwrap();
    while durable.metrics().parked == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    timers.pause("note").wait().unwrap();
    timers.schedule_once(Duration::ZERO, note("held back")).submit().wait().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let seen = durable.inspect().wait().unwrap();
    let handler = seen.handler("note").unwrap();
    assert!(handler.paused);
    assert_eq!((handler.parked.value, handler.overdue.value), (1, 1));
    assert!(handler.oldest_overdue.is_some_and(|late| late >= Duration::from_millis(5)));
}

/// A waker that holds up whoever calls it.
struct Holding {
    held: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Wake for Holding {
    fn wake(self: Arc<Self>) {
        self.held.lock().unwrap().send(()).unwrap();
        let _ = self.go_on.lock().unwrap().recv();
    }
}

#[test]
fn an_inspection_of_a_file_is_answered_while_the_thread_of_the_engine_is_held_up() {
    let directory = Directory::new("apart");
    let durable = Durable::sqlite(directory.file()).call_timeout(LONG).start().unwrap();
    let timers = durable.timers();
    for number in 0..100 {
        let (held, is_held) = channel();
        let (go_on, gate) = channel();
        let holding = Holding { held: Mutex::new(held), go_on: Mutex::new(gate) };
        let waker = Arc::new(holding).into();
        let mut call = pin!(timers.schedule_once(LONG, note("held")).submit());
        if call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            continue;
        }
        is_held.recv_timeout(LONG).unwrap();
        let seen = durable.inspect().wait_timeout(LONG).expect("it waits for the engine").unwrap();
        assert_eq!(seen.handler("note").unwrap().pending.value, number + 1);
        drop(go_on);
        durable.close().unwrap();
        return;
    }
    panic!("every call is answered before anybody waits for it");
}

/// Somebody else is in the middle of a transaction, for as long as he likes.
#[test]
fn what_only_reads_is_answered_while_another_connection_holds_the_file() {
    let directory = Directory::new("reads");
    let limit = Duration::from_millis(100);
    let durable = Durable::sqlite(directory.file()).call_timeout(limit).start().unwrap();
    let timers = durable.timers();
    // (On a busy machine a call may take longer than its limit.)
    let until = |is_so: &dyn Fn() -> bool| assert!((0..600).any(|_| is_so()), "it is not answered");
    until(&|| timers.schedule_once(LONG, note("1")).key("k").submit().wait().is_ok());
    let other = Connection::open(directory.file()).unwrap();
    other.busy_timeout(LONG).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..20 {
        until(&|| timers.get("k").wait().is_ok());
        until(&|| timers.get_parked(1).wait().is_ok());
        assert_eq!(durable.inspect().wait().unwrap().handler("note").unwrap().pending.value, 1);
    }
    assert!(timers.cancel("k").wait().is_err(), "it is held");
    other.execute_batch("COMMIT").unwrap();
    durable.close().unwrap();
}

/// The connection that is closed last takes the log over into the file, which one that only reads
/// cannot.
#[test]
fn a_file_that_was_inspected_is_whole_without_its_log_after_the_close() {
    let directory = Directory::new("whole");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    durable.timers().schedule_once(LONG, note("1")).submit().wait().unwrap();
    assert_eq!(durable.inspect().wait().unwrap().nodes.len(), 1);
    durable.close().unwrap();
    let copy = directory.path().join("copy.db");
    std::fs::copy(directory.file(), &copy).unwrap();
    let copy = Connection::open(copy).unwrap();
    let count = copy.query_row("SELECT count(*) FROM lars_timer", [], |row| row.get::<_, i64>(0));
    assert_eq!(count.unwrap(), 1);
}

/// Somebody reads for long. (Below 64 MiB nobody is told.)
#[test]
fn a_log_that_an_open_transaction_keeps_is_seen_to_grow() {
    let directory = Directory::new("log-bytes");
    let durable = Durable::sqlite(directory.file()).call_timeout(LONG).start().unwrap();
    let reader = Connection::open(directory.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM lars_timer").unwrap();
    let (timers, text) = (durable.timers(), "x".repeat(60_000));
    // SQLite would begin the log anew after four megabytes.
    let seen = (0..600).any(|_| {
        let batch = (0..10).map(|_| timers.schedule_once(LONG, note(&text)));
        timers.schedule_batch(batch).wait().unwrap();
        durable.metrics().log_bytes > 8 << 20
    });
    assert!(seen, "{:?}", durable.metrics());
    reader.execute_batch("COMMIT").unwrap();
    durable.close().unwrap();
}
