//! Why runs begin late. Faults in virtual time are told to the microsecond; in real time each lasts
//! for at least as long as the test makes it last.

use crate::common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use lars_durable::test_kit::Store;
use lars_durable::{Builder, Durable, Fired, Handler, Outcome, Payload};
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::late::{Cause, LateShare, Lateness, Who};
use lars_scheduler::{Executor, LightArrayRevolverScheduler, VirtualTime};
use serde::{Deserialize, Serialize};

use self::common::{LONG, Note, note, on_each_store};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_millis(50);

#[derive(Serialize, Deserialize)]
struct Other;

impl Payload for Other {
    const NAME: &'static str = "other";
}

/// One late run: how late, and why.
type Told = (Duration, Vec<LateShare>);

fn telling(builder: Builder, bound: Duration) -> (Builder, Receiver<Told>) {
    let (sender, told) = channel();
    let sender = Mutex::new(sender);
    let tell = move |late: &lars_scheduler::late::Late<'_>| {
        assert_eq!((late.count, late.who.task()), (1, None));
        let told = (late.lateness, late.shares.to_vec());
        let _ = sender.lock().unwrap().send(told);
    };
    (builder.explain_late(bound).on_late(tell), told)
}

fn share(cause: Cause, culprit: Option<&str>, time: Duration) -> LateShare {
    LateShare { cause, culprit: culprit.map(|name| Who::Named(name.into())), time }
}

/// In the table, what it says adds up.
#[track_caller]
fn check(table: &Lateness, count: u64, total: Duration) {
    assert_eq!((table.count, table.total), (count, total), "{table}");
    assert_eq!(table.rows.iter().map(|row| row.time).sum::<Duration>(), total, "{table}");
}

/// A node in virtual time, whose runs take that long.
struct Bench {
    time: VirtualTime,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let store = Store::new(&time.handle());
        Self { time, store }
    }

    fn taking<P: Payload>(&self, span: Duration) -> Handler {
        let time = self.time.handle();
        Handler::future(move |_: Fired<P>| {
            let sleep = time.sleep(span);
            async move { drop(sleep.await) }
        })
    }
}

fn once(durable: &Durable, after: Duration) {
    durable.timers().schedule_once(after, note("x")).submit().wait().unwrap();
}

#[test]
fn a_run_that_waits_for_others_of_its_handler_says_so_to_the_microsecond() {
    let bench = Bench::new();
    let handler = bench.taking::<Note>(10 * SECOND).concurrency(1);
    let (node, told) = telling(bench.store.node().handler(handler), SECOND);
    let node = node.start().unwrap();
    (0..3).for_each(|_| once(&node, SECOND));
    bench.time.advance(60 * SECOND);
    let full = |seconds| share(Cause::HandlerFull, Some("note"), seconds * SECOND);
    let expected = [10, 20].map(|seconds| (seconds * SECOND, vec![full(seconds)]));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), expected);
    check(&node.lateness(), 2, 30 * SECOND);
    assert_eq!(node.lateness().longest, 20 * SECOND);
    let line = "100.0 %  the handler was at its limit: note";
    assert!(node.lateness().to_string().contains(line), "{}", node.lateness());
    let timers = node.timers();
    node.close().unwrap();
    bench.time.advance(60 * SECOND);
    check(&timers.lateness(), 2, 30 * SECOND);
}

#[test]
fn a_run_that_waits_for_a_place_of_the_node_names_the_handler_that_has_most() {
    let bench = Bench::new();
    let node = bench.store.node().handler(bench.taking::<Note>(10 * SECOND));
    let node = node.handler(bench.taking::<Other>(10 * SECOND)).max_in_flight(2);
    let (node, told) = telling(node, SECOND);
    let node = node.start().unwrap();
    bench.time.advance(60 * SECOND);
    (0..2).for_each(|_| once(&node, SECOND));
    node.timers().schedule_once(2 * SECOND, Other).submit().wait().unwrap();
    bench.time.advance(60 * SECOND);
    // The second place is kept for the other handler, whose run is punctual.
    let full = share(Cause::NodeFull, Some("note"), 10 * SECOND);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(10 * SECOND, vec![full])]);
    check(&node.lateness(), 1, 10 * SECOND);
}

#[test]
fn a_run_that_waits_for_the_store_says_so_even_if_the_lease_ends_meanwhile() {
    for outage in [3 * SECOND, 40 * SECOND] {
        let bench = Bench::new();
        let (node, told) = telling(bench.store.node().handle(|_: &Fired<Note>| ()), SECOND);
        let node = node.start().unwrap();
        bench.time.advance(SECOND);
        (1..3).for_each(|number| once(&node, number * SECOND));
        bench.store.set_reachable(false);
        bench.time.advance(outage);
        bench.store.set_reachable(true);
        bench.time.advance(60 * SECOND);
        let told: Vec<Told> = told.try_iter().collect();
        assert_eq!(told.len(), 2, "{told:?}");
        for (late, shares) in &told {
            assert!(*late >= outage - 2 * SECOND, "{told:?}");
            assert_eq!(shares[..], [share(Cause::Store, None, *late)]);
        }
        check(&node.lateness(), 2, told.iter().map(|(late, _)| *late).sum());
    }
}

#[test]
fn a_run_whose_node_has_died_says_so_and_names_it() {
    let bench = Bench::new();
    let (alive, told) = telling(bench.store.node().handle(|_: &Fired<Note>| ()), SECOND);
    let alive = alive.start().unwrap();
    let dies = bench.store.node().handle(|_: &Fired<Note>| ()).start().unwrap();
    bench.time.advance(60 * SECOND);
    let nodes = alive.inspect().wait().unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.buckets).collect::<Vec<_>>(), [32, 32]);
    for number in 0..64 {
        let timer = alive.timers().schedule_once(3 * SECOND, note("x")).key(number.to_string());
        timer.submit().wait().unwrap();
    }
    bench.time.advance(SECOND);
    dies.kill();
    bench.time.advance(SECOND);
    let owns = alive.metrics().resident as u64;
    assert!((1..64).contains(&owns), "{owns}");
    bench.time.advance(60 * SECOND);
    assert_eq!(alive.metrics().done, 64);

    let left = alive.inspect().wait().unwrap().nodes;
    let [dead] = &nodes.iter().filter(|node| node.id != left[0].id).collect::<Vec<_>>()[..] else {
        panic!("{left:?}")
    };
    let dead = format!("node {}", dead.id);
    for (late, shares) in told.try_iter() {
        assert_eq!(shares, [share(Cause::NoOwner, Some(&dead), late)]);
        assert!(late < LEASE + 4 * SECOND, "{late:?}");
    }
    let table = alive.lateness();
    check(&table, 64 - owns, table.total);
}

#[test]
fn what_was_due_while_no_node_was_there_had_no_owner() {
    let bench = Bench::new();
    let node = || bench.store.node().handle(|_: &Fired<Note>| ());
    let first = node().start().unwrap();
    once(&first, 60 * SECOND);
    first.close().unwrap();
    bench.time.advance(3_600 * SECOND);
    let (second, told) = telling(node(), SECOND);
    let second = second.start().unwrap();
    bench.time.advance(SECOND);
    let late = 3_540 * SECOND;
    let expected = (late, vec![share(Cause::NoOwner, None, late)]);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [expected]);
    check(&second.lateness(), 1, late);
}

#[test]
fn what_could_not_begin_earlier_is_not_late() {
    let bench = Bench::new();
    let attempts = Handler::new(|due: &Fired<Note>| match due.attempt() {
        1 => Outcome::RetryAfter(5 * SECOND),
        _ => Outcome::Done,
    });
    let (node, told) = telling(bench.store.node().handler(attempts), Duration::ZERO);
    let node = node.start().unwrap();
    let timers = node.timers();
    // It was due ten minutes before it was accepted.
    let ten = 600 * SECOND;
    bench.time.advance(2 * ten);
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + ten;
    timers.schedule_at(past, note("past")).submit().wait().unwrap();
    // Its handler is paused.
    timers.pause("note").wait().unwrap();
    once(&node, SECOND);
    bench.time.advance(ten);
    timers.resume("note").wait().unwrap();
    // A retry has a due time of its own.
    bench.time.advance(ten);
    assert_eq!((node.metrics().done, node.metrics().retried), (2, 2));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), []);
    check(&node.lateness(), 0, Duration::ZERO);
}

#[test]
fn a_run_that_is_late_by_no_more_than_the_bound_is_not_told_and_none_is_without_one() {
    let bench = Bench::new();
    let handler = || bench.taking::<Note>(10 * SECOND).concurrency(1);
    for (bound, count) in [
        (Some(10 * SECOND), 0),
        (Some(10 * SECOND - Duration::from_micros(1)), 1),
        (Some(Duration::MAX), 0),
        (None, 0),
    ] {
        let node = bench.store.node().handler(handler()).on_late(|_| panic!("it does no harm"));
        let node = bound.map_or_else(
            || bench.store.node().handler(handler()),
            |bound| node.explain_late(bound),
        );
        let node = node.start().unwrap();
        (0..2).for_each(|_| once(&node, SECOND));
        bench.time.advance(60 * SECOND);
        assert_eq!(node.metrics().done, 2);
        check(&node.lateness(), count, u32::try_from(count).unwrap() * 10 * SECOND);
        node.close().unwrap();
        bench.time.advance(60 * SECOND);
    }
}

/// A handler that says that it began, and waits until it is let go.
fn waiting() -> (Handler, Receiver<()>, Sender<()>) {
    let ((begun, began), (go, gone)) = (channel(), channel());
    let (begun, gone) = (Mutex::new(begun), Mutex::new(gone));
    let handler = Handler::new(move |_: &Fired<Note>| {
        begun.lock().unwrap().send(()).unwrap();
        let _ = gone.lock().unwrap().recv_timeout(LONG);
    });
    (handler, began, go)
}

/// Until the node is in this state.
#[track_caller]
fn until(what: impl Fn() -> bool) {
    let pause = Duration::from_millis(5);
    let mut left = LONG;
    while !what() {
        sleep(pause);
        left = left.checked_sub(pause).expect("it does not come");
    }
}

/// The share that must be there, of a lateness that adds up; it took at least that long.
#[track_caller]
fn has((late, shares): &Told, cause: Cause, culprit: Option<&str>, least: Duration) {
    assert_eq!(shares.iter().map(|share| share.time).sum::<Duration>(), *late);
    let share = shares.iter().find(|share| share.cause == cause);
    let share = share.unwrap_or_else(|| panic!("{cause:?} in {shares:?}"));
    let found = share.culprit.as_ref().map(ToString::to_string);
    assert_eq!(found.as_deref(), culprit);
    assert!(share.time >= least, "{shares:?}");
}

#[test]
fn on_each_store_a_run_waits_for_its_handler_at_least_as_long_as_that_is_full() {
    on_each_store("full", |builder| {
        let (handler, began, go) = waiting();
        let (node, told) = telling(builder.handler(handler.concurrency(1)), HOLD / 5);
        let node = node.lease(SECOND).start().unwrap();
        once(&node, Duration::ZERO);
        began.recv_timeout(LONG).unwrap();
        told.try_iter().for_each(drop);
        once(&node, Duration::ZERO);
        let waits = || node.inspect().wait().unwrap().handler("note").unwrap().waiting;
        until(|| waits().for_a_place == 1);
        sleep(HOLD);
        (0..2).for_each(|_| go.send(()).unwrap());
        began.recv_timeout(LONG).unwrap();
        has(&told.recv_timeout(LONG).unwrap(), Cause::HandlerFull, Some("note"), HOLD);
        let table = node.lateness();
        check(&table, table.count, table.total);
        node.close().unwrap();
    });
}

#[test]
fn a_run_that_waits_for_a_thread_of_the_nodes_pool_names_the_handler_that_has_most() {
    waits_for_a_thread(Durable::in_memory(), false);
}

#[test]
fn so_does_one_that_may_not_have_the_thread_that_another_handler_needs() {
    waits_for_a_thread(Durable::in_memory().handle(|_: &Fired<Other>| ()), true);
}

fn waits_for_a_thread(builder: Builder, one_is_kept: bool) {
    let (handler, began, go) = waiting();
    let (node, told) = telling(builder.handler(handler), HOLD / 5);
    let node = node.threads(1).lease(SECOND).start().unwrap();
    // One thread is shared, and one is the handler's own.
    for _ in 0..2 {
        once(&node, Duration::ZERO);
        began.recv_timeout(LONG).unwrap();
    }
    told.try_iter().for_each(drop);
    once(&node, Duration::ZERO);
    let for_a_thread =
        || node.inspect().wait().unwrap().handler("note").unwrap().waiting.for_a_thread;
    // Where no thread is left for another one, it is in the queue of the pool.
    until(|| if one_is_kept { for_a_thread() == 1 } else { node.metrics().started == 3 });
    sleep(HOLD);
    (0..3).for_each(|_| go.send(()).unwrap());
    began.recv_timeout(LONG).unwrap();
    has(&told.recv_timeout(LONG).unwrap(), Cause::PoolBusy, Some("note"), HOLD);
    node.close().unwrap();
}

/// Hands its tasks to whoever receives them.
struct Handing(Mutex<Sender<Runnable>>);

impl Executor for Handing {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        let sender = self.0.lock().unwrap();
        sender.send(task).map_err(|gone| Rejected::new(gone.0, "nobody receives"))
    }
}

#[test]
fn a_run_that_waits_in_an_executor_of_the_program_says_so() {
    let (sender, tasks) = channel();
    let (begun, began) = channel();
    let begun = Mutex::new(begun);
    let node = Durable::in_memory().executor(Handing(Mutex::new(sender)));
    let node = node.handle(move |_: &Fired<Note>| begun.lock().unwrap().send(()).unwrap());
    let (node, told) = telling(node, HOLD / 5);
    let node = Arc::new(node.start().unwrap());
    once(&node, Duration::ZERO);
    let task = tasks.recv_timeout(LONG).unwrap();
    sleep(HOLD);
    task.run();
    began.recv_timeout(LONG).unwrap();
    has(&told.recv_timeout(LONG).unwrap(), Cause::OtherExecutor, None, HOLD);
    until(|| node.metrics().done == 1);
    check(&node.lateness(), 1, node.lateness().total);
}
