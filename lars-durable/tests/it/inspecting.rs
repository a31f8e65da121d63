//! What a node tells of its group.

use std::time::{Duration, SystemTime};

use lars_durable::{Durable, Fired, Handler, Outcome};

use crate::common::{Note, note};

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
