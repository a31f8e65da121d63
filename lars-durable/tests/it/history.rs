//! Runs that are over, and are remembered.

use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use crate::common::{LONG, Note, note, on_each_store};
use lars_durable::inspection::{RunInfo, RunOutcome, RunsQuery};
use lars_durable::schedule::Placement;
use lars_durable::test_kit::Store;
use lars_durable::{Durable, Fired, Handler, Outcome, StartError, Timers};
use lars_scheduler::LightArrayRevolverScheduler;

const DAY: Duration = Duration::from_secs(86_400);

fn runs(timers: &Timers, query: RunsQuery) -> Vec<RunInfo> {
    let (mut query, mut all) = (Some(query), Vec::new());
    while let Some(asked) = query {
        let page = timers.runs(asked).wait().unwrap();
        all.extend(page.runs);
        query = page.next;
    }
    all
}

/// Until so many are there.
fn until(timers: &Timers, number: usize) -> Vec<RunInfo> {
    loop {
        let all = runs(timers, RunsQuery::new());
        if all.len() >= number {
            assert_eq!(all.len(), number, "{all:?}");
            return all;
        }
    }
}

/// Does what its payload says; a failure is tried again once.
fn obey() -> Handler {
    let obey = |due: &Fired<Note>| match (&*due.payload().0, due.attempt()) {
        ("park", _) => Outcome::Park("no such order".into()),
        ("fail", 1) => Outcome::RetryAfter(Duration::ZERO),
        ("put off", _) => Outcome::Snooze(DAY),
        _ => Outcome::Done,
    };
    Handler::new(obey)
}

#[test]
fn a_run_is_remembered_with_its_outcome_its_node_and_how_long_it_took() {
    on_each_store("history", |builder| {
        let builder = builder.name("shop-1").history(DAY, 1_000);
        let durable = builder.handler(obey()).start().unwrap();
        let timers = durable.timers();
        let begin = SystemTime::now();
        let mut number = 0;
        for (text, expected) in [
            ("good", vec![(RunOutcome::Done, 1, None)]),
            ("park", vec![(RunOutcome::Parked, 1, Some("no such order"))]),
            ("fail", vec![(RunOutcome::Done, 2, None), (RunOutcome::Retried, 1, Some(""))]),
            ("put off", vec![(RunOutcome::PutOff, 1, None)]),
        ] {
            let once = timers.schedule_once(Duration::ZERO, note(text)).key(text);
            let id = once.submit().wait().unwrap().id;
            number += expected.len();
            until(&timers, number);
            let of_timer = runs(&timers, RunsQuery::new().timer(id).limit(1));
            let outcomes: Vec<_> = of_timer
                .iter()
                .map(|run| (run.outcome, run.attempt, run.error.is_some()))
                .collect();
            let expected: Vec<_> =
                expected.into_iter().map(|(how, nth, why)| (how, nth, why.is_some())).collect();
            assert_eq!(outcomes, expected, "{text}");
            for run in of_timer {
                assert_eq!((run.timer, run.key.as_deref(), &*run.node), (id, Some(text), "shop-1"));
                assert!(run.began + LONG > begin && run.took < LONG, "{run:?}");
            }
        }
        assert_eq!(runs(&timers, RunsQuery::new().handler("note")).len(), number);
        assert!(runs(&timers, RunsQuery::new().handler("other")).is_empty());
        durable.close().unwrap();
    });
}

#[test]
fn nothing_is_remembered_unless_it_is_asked_for() {
    on_each_store("no history", |builder| {
        let (sender, done) = channel();
        let sender = std::sync::Mutex::new(sender);
        let tell = move |_: &Fired<Note>| sender.lock().unwrap().send(()).unwrap();
        let durable = builder.handle(tell).start().unwrap();
        let timers = durable.timers();
        timers.schedule_once(Duration::ZERO, note("x")).key("x").submit().wait().unwrap();
        done.recv_timeout(LONG).unwrap();
        while timers.get("x").wait().unwrap().is_some() {}
        assert!(runs(&timers, RunsQuery::new()).is_empty());
        durable.close().unwrap();
    });
}

#[test]
fn the_history_keeps_so_many_runs_and_for_so_long() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = Store::new(&time.handle());
    let minute = Duration::from_secs(60);
    let durable = store.node().history(10 * minute, 500).handler(obey()).start().unwrap();
    let timers = durable.timers();
    time.advance(minute);
    let run = |number: usize| {
        let each = (0..number).map(|_| timers.schedule_once(Duration::ZERO, note("good")));
        let placed = timers.schedule_batch(each).wait().unwrap();
        assert!(placed.iter().all(|it| it.placement == Placement::New));
    };
    run(100);
    time.advance(5 * minute);
    assert_eq!(runs(&timers, RunsQuery::new()).len(), 100);
    // More than one transaction deletes.
    run(3_000);
    time.advance(2 * minute);
    assert_eq!(runs(&timers, RunsQuery::new()).len(), 500);
    time.advance(12 * minute);
    assert!(runs(&timers, RunsQuery::new()).is_empty());
    durable.close().unwrap();
}

#[test]
fn a_history_out_of_range_is_refused_with_the_limit() {
    let words = |age, runs| match Durable::in_memory().history(age, runs).start() {
        Err(error @ StartError::Setting { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for runs in [0, 100_001, usize::MAX] {
        let error =
            format!("the number of runs of history is {runs}, but it must be from 1 to 100000");
        assert_eq!(words(DAY, runs), error);
    }
    let error = words(Duration::from_millis(999), 1);
    assert_eq!(error, "the age of history is 999ms, but it must be at least 1 s");
    Durable::in_memory().history(Duration::MAX, 100_000).start().unwrap().close().unwrap();
}
