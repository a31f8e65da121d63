//! A handler that is at work hears that it need not go on.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Directory, LONG, Note, note, on_each_store};
use lars_durable::query::{Query, State};
use lars_durable::schedule::{Cancel, Placement};
use lars_durable::{
    Builder, CancelReason, CancelToken, Durable, Fired, Handler, OnConflict, Outcome,
};

/// What a run tells the test.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Begun(String),
    Ended(String, CancelReason),
}

/// Handlers that go on until they are told otherwise, and say so: one blocks, one awaits.
fn waiting(outcome: fn(CancelReason) -> Outcome) -> (Handler, Handler, Receiver<Said>) {
    let (sender, said) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let say = move |what: Said| drop(sender.lock().unwrap().send(what));
    let awaiting = say.clone();
    let blocks = Handler::new(move |due: &Fired<Note>| {
        let text = due.payload().0.clone();
        assert!(due.attempt() > 1 || !due.is_cancelled());
        say(Said::Begun(text.clone()));
        while !due.is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let reason = due.cancellation().reason().unwrap();
        say(Said::Ended(text, reason));
        outcome(reason)
    });
    let awaits = Handler::future(move |due: Fired<Note>| {
        let say = awaiting.clone();
        async move {
            let text = due.payload().0.clone();
            say(Said::Begun(text.clone()));
            let reason = due.cancellation().cancelled().await;
            assert!(due.is_cancelled());
            say(Said::Ended(text, reason));
            outcome(reason)
        }
    });
    (blocks, awaits, said)
}

fn done(_: CancelReason) -> Outcome {
    Outcome::Done
}

/// With a handler that blocks, and with one that awaits.
fn on_each(name: &str, outcome: fn(CancelReason) -> Outcome, test: fn(&Durable, &Receiver<Said>)) {
    for awaits in [false, true] {
        on_each_store(name, |builder: Builder| {
            let (blocking, awaiting, said) = waiting(outcome);
            let handler = if awaits { awaiting } else { blocking };
            let durable = builder.handler(handler).start().unwrap();
            test(&durable, &said);
            durable.close().unwrap();
            assert_eq!(said.try_iter().count(), 0);
        });
    }
}

fn begin(durable: &Durable, said: &Receiver<Said>, text: &str) -> u64 {
    let once = durable.timers().schedule_once(Duration::ZERO, note(text)).key(text);
    let id = once.submit().wait().unwrap().id;
    assert_eq!(said.recv_timeout(LONG), Ok(Said::Begun(text.into())));
    id
}

#[track_caller]
fn ends(said: &Receiver<Said>, text: &str, reason: CancelReason) {
    assert_eq!(said.recv_timeout(LONG), Ok(Said::Ended(text.into(), reason)));
}

#[test]
fn a_run_hears_that_its_timer_is_cancelled_or_replaced_by_whatever_call() {
    on_each("cancelled", done, |durable, said| {
        let timers = durable.timers();
        begin(durable, said, "by key");
        assert_eq!(timers.cancel("by key").wait().unwrap(), Cancel::Running);
        ends(said, "by key", CancelReason::Cancelled);
        let id = begin(durable, said, "by identity");
        assert_eq!(timers.cancel(id).wait().unwrap(), Cancel::Running);
        ends(said, "by identity", CancelReason::Cancelled);
        begin(durable, said, "by query");
        let query = Query::new().key_prefix("by query").states([State::Running]);
        assert_eq!(timers.cancel_all(&query).wait().unwrap().running, 1);
        ends(said, "by query", CancelReason::Cancelled);
        begin(durable, said, "replaced");
        let other = timers.schedule_once(LONG, note("other")).key("replaced");
        let other = other.on_conflict(OnConflict::Replace).submit().wait().unwrap();
        assert_eq!(other.placement, Placement::Replaced);
        ends(said, "replaced", CancelReason::Cancelled);
        assert_eq!(timers.cancel("replaced").wait().unwrap(), Cancel::Prevented);
    });
}

#[test]
fn what_a_cancelled_run_returns_decides_as_ever_and_its_retry_knows_from_its_beginning() {
    let again = |_| Outcome::RetryAfter(Duration::ZERO);
    on_each("retried", again, |durable, said| {
        begin(durable, said, "again");
        assert_eq!(durable.timers().cancel("again").wait().unwrap(), Cancel::Running);
        for _ in 0..3 {
            ends(said, "again", CancelReason::Cancelled);
            assert_eq!(said.recv_timeout(LONG), Ok(Said::Begun("again".into())));
        }
        // The last attempts are parked or cut off: nobody waits for them here.
        durable.timers().pause("note").wait().unwrap();
        while durable.metrics().in_flight > 0 {}
        said.try_iter().for_each(drop);
    });
}

#[test]
fn a_run_hears_that_its_node_closes_and_runs_again_at_no_attempts_cost() {
    let directory = Directory::new("closing");
    let later = |_| Outcome::Snooze(Duration::ZERO);
    for awaits in [false, true] {
        let (blocking, awaiting, said) = waiting(later);
        let handler = if awaits { awaiting } else { blocking };
        let durable = Durable::sqlite(directory.file()).handler(handler).start().unwrap();
        begin(&durable, &said, "long");
        durable.close().unwrap();
        ends(&said, "long", CancelReason::Closing);
        assert_eq!(said.try_iter().count(), 0, "the handler was waited for");

        let (sender, attempts) = channel();
        let sender = Mutex::new(sender);
        let tell = move |due: &Fired<Note>| {
            sender.lock().unwrap().send(due.attempt()).unwrap();
        };
        let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
        assert_eq!(attempts.recv_timeout(LONG), Ok(1));
        durable.close().unwrap();
    }
}

/// Clones of a token, given to others.
fn handing_out(sender: Sender<CancelToken>) -> impl Fn(&Fired<Note>) + Send + Sync + 'static {
    let sender = Mutex::new(sender);
    move |due| sender.lock().unwrap().send(due.cancellation().clone()).unwrap()
}

#[test]
fn a_token_outlives_its_run_and_is_told_nothing_more() {
    on_each_store("outlives", |builder| {
        let (sender, tokens) = channel();
        let durable = builder.handle(handing_out(sender)).start().unwrap();
        let timers = durable.timers();
        timers.schedule_once(Duration::ZERO, note("short")).key("short").submit().wait().unwrap();
        let token = tokens.recv_timeout(LONG).unwrap();
        while timers.get("short").wait().unwrap().is_some() {}
        assert_eq!(timers.cancel("short").wait().unwrap(), Cancel::NotFound);
        durable.close().unwrap();
        assert_eq!(token.reason(), None);
        assert_eq!(format!("{token:?}"), "CancelToken { reason: None }");
    });
}

#[test]
fn a_waker_that_panics_is_its_owners_problem() {
    struct Panics;
    impl futures::task::ArcWake for Panics {
        fn wake_by_ref(_: &Arc<Self>) {
            panic!("a waker");
        }
    }
    let (sender, tokens) = channel();
    let sender = Mutex::new(sender);
    let handler = Handler::new(move |due: &Fired<Note>| {
        sender.lock().unwrap().send(due.cancellation().clone()).unwrap();
        while !due.is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let durable = Durable::in_memory().handler(handler).start().unwrap();
    let timers = durable.timers();
    timers.schedule_once(Duration::ZERO, note("one")).key("one").submit().wait().unwrap();
    let token = tokens.recv_timeout(LONG).unwrap();
    let mut cancelled = Box::pin(token.cancelled());
    let waker = futures::task::waker(Arc::new(Panics));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(cancelled.as_mut().poll(&mut context).is_pending());
    assert_eq!(timers.cancel("one").wait().unwrap(), Cancel::Running);
    while timers.get("one").wait().unwrap().is_some() {}
    assert_eq!(
        cancelled.as_mut().poll(&mut context),
        std::task::Poll::Ready(CancelReason::Cancelled)
    );
    durable.close().unwrap();
}

#[test]
fn a_run_hears_of_a_cancel_that_another_program_has_committed_in_the_file() {
    let directory = Directory::new("elsewhere");
    let (blocking, _, said) = waiting(done);
    let durable = Durable::sqlite(directory.file()).handler(blocking).start().unwrap();
    let mut other = rusqlite::Connection::open(directory.file()).unwrap();
    other.busy_timeout(LONG).unwrap();
    begin(&durable, &said, "by SQL");
    other.execute("DELETE FROM lars_schedule WHERE key = 'by SQL'", []).unwrap();
    ends(&said, "by SQL", CancelReason::Cancelled);
    begin(&durable, &said, "by call");
    let immediate = rusqlite::TransactionBehavior::Immediate;
    let transaction = other.transaction_with_behavior(immediate).unwrap();
    let cancelled = durable.timers().cancel_in_file("by call", &transaction).unwrap();
    assert_eq!(cancelled, Cancel::Running);
    transaction.commit().unwrap();
    ends(&said, "by call", CancelReason::Cancelled);
    durable.close().unwrap();
}
