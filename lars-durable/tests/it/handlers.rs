//! What handlers say, and what becomes of their timers.

use crate::common;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Directory, LONG, Note, note, telling};
use futures::StreamExt;
use lars_base::backoff::BackoffPolicy;
use lars_durable::inspection::{Parked, ParkedRun};
use lars_durable::{Durable, Fired, Handler, Outcome, Payload, Timers, UpgradeError};
use serde::{Deserialize, Serialize};

fn quick() -> BackoffPolicy {
    let millisecond = Duration::from_millis(1);
    BackoffPolicy::builder().initial(millisecond).cap(millisecond).build().unwrap()
}

/// Waits until a timer is parked, and says why.
fn parked(timers: &Timers) -> Parked {
    loop {
        if let Some(parked) = common::parked(timers).pop() {
            return parked;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn now(timers: &Timers, text: &str) {
    timers.schedule_once(Duration::ZERO, note(text)).submit().wait().unwrap();
}

#[test]
fn an_error_is_tried_again_by_the_backoff_and_then_parked_with_its_words() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let handler = Handler::new(move |_: &Fired<Note>| -> Result<(), String> {
        counted.fetch_add(1, Ordering::Relaxed);
        Err("no route".into())
    });
    let handler = handler.backoff(quick()).max_attempts(3);
    let durable = Durable::in_memory().handler(handler).start().unwrap();
    let timers = durable.timers();
    now(&timers, "x");
    let parked = parked(&timers);
    assert_eq!(parked.reason, "attempt 3 failed: no route");
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert_eq!(parked.timer.last_error.as_deref(), Some("no route"));
}

#[test]
fn a_panic_is_tried_again_and_harms_nobody() {
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&attempts);
    let (sender, done) = channel();
    let sender = Mutex::new(sender);
    let handler = Handler::new(move |due: &Fired<Note>| {
        seen.lock().unwrap().push((due.attempt(), due.fence()));
        assert!(due.attempt() > 2, "not yet");
        sender.lock().unwrap().send(()).unwrap();
    });
    let durable = Durable::in_memory().handler(handler.backoff(quick())).start().unwrap();
    now(&durable.timers(), "x");
    done.recv_timeout(LONG).unwrap();
    let attempts = attempts.lock().unwrap();
    assert_eq!(attempts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(attempts.is_sorted_by(|one, next| one.1 < next.1), "fences grow: {attempts:?}");
}

#[test]
fn what_is_parked_can_run_again_or_be_discarded() {
    let (tell, seen) = telling();
    let handler = move |due: &Fired<Note>| {
        tell(due);
        if due.payload().0 == "bad" { Outcome::Park("bad".into()) } else { Outcome::Done }
    };
    let durable = Durable::in_memory().handle(handler).start().unwrap();
    let timers = durable.timers();
    now(&timers, "bad");
    let first = parked(&timers);
    assert_eq!((first.reason.as_str(), first.timer.payload.as_str()), ("bad", "\"bad\""));
    assert!(timers.retry_parked(first.timer.id).wait().unwrap());
    for _ in 0..2 {
        seen.recv_timeout(LONG).unwrap();
    }
    let again = parked(&timers);
    assert_eq!(again.timer.id, first.timer.id);
    assert!(timers.discard_parked(again.timer.id).wait().unwrap());
    assert!(!timers.discard_parked(again.timer.id).wait().unwrap());
    assert!(!timers.retry_parked(again.timer.id).wait().unwrap());
}

#[test]
fn a_run_that_is_put_off_costs_no_attempt_and_is_no_failure() {
    let (sender, seen) = channel();
    let (sender, left) = (Mutex::new(sender), AtomicUsize::new(30));
    let handler = Handler::new(move |due: &Fired<Note>| {
        let told = (due.attempt(), due.idempotency_key(), due.fence());
        sender.lock().unwrap().send(told).unwrap();
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Outcome::Snooze(Duration::from_millis(1)),
            Err(_) => Outcome::Done,
        }
    });
    let durable = Durable::in_memory().handler(handler.max_attempts(1)).start().unwrap();
    now(&durable.timers(), "x");
    let runs: Vec<_> = (0..31).map(|_| seen.recv_timeout(LONG).unwrap()).collect();
    assert!(runs.iter().all(|(attempt, key, _)| (*attempt, key) == (1, &runs[0].1)), "{runs:?}");
    assert!(runs.is_sorted_by(|one, next| one.2 < next.2), "fences grow: {runs:?}");
    durable.close().unwrap();
    assert!(seen.try_recv().is_err(), "done");
}

#[test]
fn a_handler_never_has_more_runs_than_its_concurrency() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (here, top) = (Arc::clone(&running), Arc::clone(&most));
    let (sender, done) = channel();
    let sender = Mutex::new(sender);
    let handler = Handler::new(move |_: &Fired<Note>| {
        top.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        here.fetch_sub(1, Ordering::SeqCst);
        sender.lock().unwrap().send(()).unwrap();
    });
    let durable = Durable::in_memory().handler(handler.concurrency(2)).threads(8).start().unwrap();
    for _ in 0..20 {
        now(&durable.timers(), "x");
    }
    for _ in 0..20 {
        done.recv_timeout(LONG).unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_future_runs_without_a_runtime_and_is_dropped_after_its_time_limit() {
    let (sender, seen) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let handler = Handler::future(move |due: Fired<Note>| {
        let sender = Arc::clone(&sender);
        async move {
            sender.lock().unwrap().send(due.attempt()).unwrap();
            if due.attempt() == 1 {
                std::future::pending::<()>().await;
            }
        }
    });
    let handler = handler.backoff(quick()).time_limit(Duration::from_millis(30));
    let durable = Durable::in_memory().handler(handler).start().unwrap();
    now(&durable.timers(), "x");
    assert_eq!(seen.recv_timeout(LONG).unwrap(), 1);
    assert_eq!(seen.recv_timeout(LONG).unwrap(), 2);
    durable.close().unwrap();
}

#[test]
fn a_future_runs_inside_of_a_runtime_that_the_executor_spawns_on() {
    struct Spawner(tokio::runtime::Handle);
    impl futures::task::Spawn for Spawner {
        fn spawn_obj(
            &self,
            future: futures::task::FutureObj<'static, ()>,
        ) -> Result<(), futures::task::SpawnError> {
            drop(self.0.spawn(future));
            Ok(())
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let spawner = lars_scheduler::executor::SpawnExecutor::new(Spawner(runtime.handle().clone()));
    let (sender, seen) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let durable = Durable::in_memory()
        .executor(spawner)
        .handle_future(move |due: Fired<Note>| {
            let sender = Arc::clone(&sender);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                sender.lock().unwrap().send(due.payload().0.clone()).unwrap();
                Outcome::Done
            }
        })
        .start()
        .unwrap();
    now(&durable.timers(), "inside");
    assert_eq!(seen.recv_timeout(LONG).unwrap(), "inside");
    durable.close().unwrap();
}

#[test]
fn a_handler_that_runs_at_most_once_is_not_tried_again() {
    let (tell, seen) = telling();
    let handler = Handler::new(move |due: &Fired<Note>| -> Result<(), String> {
        tell(due);
        Err("lost".into())
    });
    let handler = handler.backoff(quick()).at_most_once();
    let durable = Durable::in_memory().handler(handler).start().unwrap();
    let timers = durable.timers();
    let timer = timers.schedule_once(Duration::ZERO, note("x")).key("x");
    timer.submit().wait().unwrap();
    seen.recv_timeout(LONG).unwrap();
    assert_eq!(timers.get("x").wait().unwrap(), None, "it was deleted before it ran");
    durable.close().unwrap();
    assert!(seen.try_recv().is_err());
}

#[derive(Serialize, Deserialize)]
struct First {
    order: u64,
}

impl Payload for First {
    const NAME: &'static str = "payment-due";
}

#[derive(Serialize, Deserialize)]
struct Second {
    order: u64,
    currency: String,
}

impl Payload for Second {
    const NAME: &'static str = "payment-due";
    const VERSION: u16 = 2;

    fn upgrade(from: u16, json: &str) -> Result<Self, UpgradeError> {
        match from {
            1 => {
                let First { order } = serde_json::from_str(json)?;
                assert_ne!(order, 4929, "that is a card");
                if order == 0 {
                    return Err(UpgradeError::new("there is no order 0"));
                }
                Ok(Self { order, currency: "EUR".into() })
            }
            other => Err(UpgradeError::unknown_version(other)),
        }
    }
}

#[test]
fn what_an_older_release_stored_is_upgraded_or_parked_with_the_reason() {
    let directory = Directory::new("upgrade");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    for order in [17, 0] {
        let timer = durable.timers().schedule_once(Duration::ZERO, First { order });
        timer.submit().wait().unwrap();
    }
    durable.close().unwrap();

    let (sender, seen) = channel();
    let sender = Mutex::new(sender);
    let handler = move |due: &Fired<Second>| {
        let Second { order, currency } = due.payload();
        sender.lock().unwrap().send((*order, currency.clone())).unwrap();
    };
    let durable = Durable::sqlite(directory.file()).handle(handler).start().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap(), (17, "EUR".into()));
    let parked = parked(&durable.timers());
    assert!(parked.reason.contains("there is no order 0"), "{}", parked.reason);
    durable.close().unwrap();
}

#[test]
fn what_a_newer_release_stored_waits_for_it_uncounted() {
    let directory = Directory::new("newer");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let payload = Second { order: 17, currency: "USD".into() };
    let timer = durable.timers().schedule_once(Duration::ZERO, payload).key("pay");
    timer.submit().wait().unwrap();
    durable.close().unwrap();

    let handler = |_: &Fired<First>| -> () { panic!("it cannot read this") };
    let durable = Durable::sqlite(directory.file()).handle(handler).start().unwrap();
    let timers = durable.timers();
    loop {
        let timer = timers.get("pay").wait().unwrap().unwrap();
        let put_off = timer.deadline.unwrap() > std::time::SystemTime::now();
        if put_off && !timer.running {
            assert_eq!(timer.attempt, 0);
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    durable.close().unwrap();
}

/// Such a handler deletes its timers before they run.
#[test]
fn what_a_newer_release_stored_is_not_deleted_by_a_handler_that_runs_at_most_once() {
    let directory = Directory::new("newer-once");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let payload = Second { order: 17, currency: "USD".into() };
    durable.timers().schedule_once(Duration::ZERO, payload).key("pay").submit().wait().unwrap();
    durable.close().unwrap();

    let (sender, seen) = channel();
    let handler = Handler::new(|_: &Fired<First>| -> () { panic!("it cannot read this") });
    let builder = Durable::sqlite(directory.file()).handler(handler.at_most_once());
    let durable = builder.start().unwrap();
    // Once it is put off.
    loop {
        let timer = durable.timers().get("pay").wait().unwrap().expect("it is lost");
        if timer.deadline.unwrap() > std::time::SystemTime::now() && !timer.running {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    durable.close().unwrap();
    let own = rusqlite::Connection::open(directory.file()).unwrap();
    own.execute("UPDATE lars_timer SET deadline = 0, due_at = 0", []).unwrap();
    let handler = move |due: &Fired<Second>| sender.send(due.payload().currency.clone()).unwrap();
    let handler = Handler::new(handler).at_most_once();
    let durable = Durable::sqlite(directory.file()).handler(handler).start().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap(), "USD");
    durable.close().unwrap();
}

/// What cannot be read is kept, also by a handler that deletes its timers before they run.
#[test]
fn what_can_never_be_read_is_parked_by_a_handler_that_runs_at_most_once_and_not_lost() {
    let directory = Directory::new("unreadable-once");
    Durable::sqlite(directory.file()).start().unwrap().close().unwrap();
    let shell = rusqlite::Connection::open(directory.file()).unwrap();
    let make =
        "INSERT INTO lars_schedule (handler, payload, delay, key, payload_version, fixed_rate)
                VALUES ('payment-due', ?1, 0, ?2, ?3, ?4)";
    let (none, hour) = (None::<f64>, Some(3_600.0));
    for (payload, key, version, rate) in [
        (r#"{"oder":17}"#, "mistyped", 2, none),
        (r#"{"order":0}"#, "no order", 1, none),
        (r#"{"order":4929}"#, "panics", 1, none),
        ("[]", "series", 2, hour),
        (r#"{"order":17,"currency":"USD"}"#, "good", 2, none),
    ] {
        shell.execute(make, rusqlite::params![payload, key, version, rate]).unwrap();
    }
    let (sender, seen) = channel();
    let (tell, told) = channel();
    let handler = Handler::new(move |due: &Fired<Second>| {
        sender.send(due.key().unwrap().to_owned()).unwrap();
    });
    let builder = Durable::sqlite(directory.file()).handler(handler.at_most_once());
    let builder = builder.on_parked(move |run| tell.send(run.clone()).unwrap());
    let durable = builder.start().unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap(), "good");
    let mut told: Vec<_> = (0..4).map(|_| told.recv_timeout(LONG).unwrap()).collect();
    told.sort_by_key(|run| run.key.clone());
    let keys: Vec<&str> = told.iter().map(|run| run.key.as_deref().unwrap()).collect();
    assert_eq!(keys, ["mistyped", "no order", "panics", "series"]);
    for (run, words) in told.iter().zip(["missing field", "no order 0", "panicked", "invalid"]) {
        assert!(run.reason.contains("cannot be read") && run.reason.contains(words), "{run:?}");
        assert!(!run.series_goes_on, "{run:?}");
    }
    let parked = common::parked(&durable.timers());
    assert_eq!(parked.len(), 4);
    assert!(parked.iter().any(|it| it.timer.payload == r#"{"oder":17}"#), "{parked:?}");
    durable.close().unwrap();
    assert!(seen.try_recv().is_err(), "none of them ran");
}

#[test]
fn whoever_wants_to_know_what_is_given_up_is_told_of_timers_that_nobody_handles() {
    let directory = Directory::new("unhandled");
    let durable = Durable::sqlite(directory.file()).start().unwrap();
    let timer = durable.timers().schedule_once(Duration::ZERO, note("secret")).key("pay");
    let id = timer.submit().wait().unwrap().id;
    durable.close().unwrap();
    // It was found fifteen days ago that nobody runs it.
    let shell = rusqlite::Connection::open(directory.file()).unwrap();
    let fifteen_days = "UPDATE lars_timer SET unknown_since = due_at - 15 * 86400000000";
    assert_eq!(shell.execute(fifteen_days, []).unwrap(), 1);
    let (tell, told) = channel();
    let durable = Durable::sqlite(directory.file())
        .handle(|_: &Fired<First>| ())
        .on_parked(move |run| tell.send(run.clone()).unwrap())
        .start()
        .unwrap();
    let run = told.recv_timeout(LONG).unwrap();
    assert_eq!((run.id, run.key.as_deref(), &*run.handler), (id, Some("pay"), "note"));
    assert_eq!((run.reason.as_str(), run.attempt), ("no handler for fourteen days", 0));
    assert!(!run.series_goes_on && run.idempotency_key.ends_with(&format!("-{id}-0")), "{run:?}");
    assert_eq!(parked(&durable.timers()).timer.id, id);
    assert_eq!(durable.metrics().parked, 1);
    durable.close().unwrap();
    assert!(told.try_recv().is_err(), "once");
}

/// In virtual time: a series of an hour that fails in its second hour, until each attempt of that
/// run is used up; when it ran well, in hours.
#[test]
fn a_series_goes_on_after_a_run_that_used_up_its_attempts_and_that_run_is_parked() {
    let period = Duration::from_secs(600);
    let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = lars_durable::test_kit::Store::new(&time.handle());
    let down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (sender, ran) = channel();
    let here = Arc::clone(&down);
    let handler = Handler::new(move |due: &Fired<Note>| match here.load(Ordering::Relaxed) {
        true => Err("the warehouse is down"),
        false => sender.send(due.idempotency_key()).map_err(|_| "nobody listens"),
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let node = store.node().on_parked(move |run| tell.lock().unwrap().push(run.clone()));
    let node = node.handler(handler.max_attempts(3)).start().unwrap();
    let timers = node.timers();
    let series = timers.schedule_at_fixed_rate(period, period, note("report")).key("report");
    series.submit().wait().unwrap();
    time.advance(period * 3 / 2);
    down.store(true, Ordering::Relaxed);
    time.advance(period);
    down.store(false, Ordering::Relaxed);
    time.advance(period * 3);
    let keys: Vec<String> = ran.try_iter().collect();
    assert_eq!(keys.len(), 4, "the first run and the last three: {keys:?}");
    assert!(timers.get("report").wait().unwrap().unwrap().rule.is_some());
    let parked = parked(&timers);
    assert_eq!(parked.reason, "attempt 3 failed: the warehouse is down");
    assert_eq!((parked.timer.key.as_deref(), parked.timer.rule), (Some("report"), None));
    assert_eq!(node.metrics().parked, 1);
    let [told] = &told.lock().unwrap()[..] else { panic!("once") };
    assert_eq!((told.key.as_deref(), told.attempt), (Some("report"), 3));
    assert!(told.series_goes_on && told.reason == parked.reason, "{told:?}");
    // It can still be made up for, beside its series, as the run that it is.
    assert!(timers.retry_parked(parked.timer.id).wait().unwrap());
    time.advance(period / 4);
    let made_up: Vec<String> = ran.try_iter().collect();
    assert!(made_up.len() == 1 && !keys.contains(&made_up[0]), "{made_up:?} beside {keys:?}");
}

#[test]
fn a_close_waits_for_what_runs_and_gives_up_what_does_not_end() {
    let directory = Directory::new("close");
    let ((sender, began), (release, gate)) = (channel(), channel::<()>());
    let (sender, gate) = (Mutex::new(sender), Mutex::new(gate));
    let handler = move |_: &Fired<Note>| {
        sender.lock().unwrap().send(()).unwrap();
        let _ = gate.lock().unwrap().recv_timeout(LONG);
    };
    let builder = Durable::sqlite(directory.file());
    let durable = builder.handle(handler).start().unwrap();
    let timer = durable.timers().schedule_once(Duration::ZERO, note("stuck")).key("stuck");
    timer.submit().wait().unwrap();
    began.recv_timeout(LONG).unwrap();
    let error = durable.close_within(Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.running, 1);

    let (tell, seen) = telling();
    let durable = Durable::sqlite(directory.file()).handle(tell).start().unwrap();
    let again = seen.recv_timeout(LONG).unwrap();
    assert_eq!(again.text, "stuck");
    durable.close().unwrap();
    drop(release);
}

#[test]
fn handlers_that_never_return_stop_no_other_and_what_waits_for_a_thread_is_shown() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Stuck;
    impl lars_durable::Payload for Stuck {
        const NAME: &'static str = "stuck";
    }
    let ((release, hold), (sender, seen)) = (channel::<()>(), channel());
    let hold = Mutex::new(hold);
    let stuck = Handler::new(move |_: &Fired<Stuck>| {
        let _ = hold.lock().unwrap().recv_timeout(LONG);
    });
    let tell = move |due: &Fired<Note>| drop(sender.send(due.payload().0.clone()));
    let builder = Durable::in_memory().threads(2).lease(Duration::from_secs(1));
    let durable = builder.handler(stuck).handle(tell).start().unwrap();
    let timers = durable.timers();
    let backlog = (0..100).map(|_| timers.schedule_once(Duration::ZERO, Stuck));
    timers.schedule_batch(backlog).wait().unwrap();
    loop {
        let seen = durable.inspect().wait().unwrap();
        if seen.handler("stuck").is_some_and(|stuck| stuck.waiting.for_a_thread > 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    for number in 0..10 {
        let text = number.to_string();
        timers.schedule_once(Duration::ZERO, note(&text)).submit().wait().unwrap();
        assert_eq!(seen.recv_timeout(LONG).unwrap(), text);
    }
    drop(release);
    durable.close().unwrap();
}

/// What a handler says of its runs.
type Says = futures::channel::mpsc::UnboundedSender<&'static str>;

/// A future that needs tokio from its making on.
fn sleeping(says: Says) -> impl Fn(Fired<Note>) -> futures::future::BoxFuture<'static, ()> {
    move |_| {
        let (says, sleep) = (says.clone(), tokio::time::sleep(Duration::from_millis(20)));
        let _ = says.unbounded_send("begun");
        Box::pin(async move {
            sleep.await;
            let _ = says.unbounded_send("ended");
        })
    }
}

fn here() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_node_that_is_started_in_tokio_has_its_futures_polled_there() {
    let (says, mut said) = futures::channel::mpsc::unbounded();
    here().block_on(async {
        let durable = Durable::in_memory().handle_future(sleeping(says)).start().unwrap();
        let timers = durable.timers();
        timers.schedule_once(Duration::ZERO, note("x")).submit().await.unwrap();
        assert_eq!(said.next().await, Some("begun"));
        assert_eq!(said.next().await, Some("ended"));
        assert_eq!(durable.metrics().retried, 0);
    });
}

#[test]
fn an_async_close_waits_for_runs_that_need_its_own_thread() {
    let (says, mut said) = futures::channel::mpsc::unbounded();
    here().block_on(async {
        let durable = Durable::in_memory().handle_future(sleeping(says)).start().unwrap();
        let timers = durable.timers();
        timers.schedule_once(Duration::ZERO, note("x")).submit().await.unwrap();
        assert_eq!(said.next().await, Some("begun"));
        durable.close_async_within(LONG).await.unwrap();
        assert_eq!(said.try_recv(), Ok("ended"));
    });
}

#[test]
fn an_async_close_says_what_has_not_ended_within_the_limit() {
    let (says, mut said): (Says, _) = futures::channel::mpsc::unbounded();
    here().block_on(async {
        let stuck = move |_: Fired<Note>| {
            let _ = says.unbounded_send("begun");
            std::future::pending::<()>()
        };
        let durable = Durable::in_memory().handle_future(stuck).start().unwrap();
        let timers = durable.timers();
        timers.schedule_once(Duration::ZERO, note("x")).submit().await.unwrap();
        assert_eq!(said.next().await, Some("begun"));
        let limit = Duration::from_millis(1);
        let error = durable.close_async_within(limit).await.unwrap_err();
        assert_eq!((error.running, error.limit), (1, limit));
    });
}

#[test]
fn whatever_is_given_up_before_a_node_has_closed_is_told() {
    for _ in 0..20 {
        let (began, begun) = channel();
        let began = Mutex::new(began);
        let handler = move |due: &Fired<Note>| {
            began.lock().unwrap().send(()).unwrap();
            while !due.is_cancelled() {
                std::thread::sleep(Duration::from_micros(100));
            }
            Outcome::Park("it is closing".into())
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let here = Arc::clone(&told);
        let durable = Durable::in_memory()
            .on_parked(move |parked| here.lock().unwrap().push(parked.reason.clone()))
            .handle(handler);
        let durable = durable.start().unwrap();
        for text in ["one", "two", "three"] {
            now(&durable.timers(), text);
            begun.recv_timeout(LONG).unwrap();
        }
        durable.close_within(60 * LONG).unwrap();
        assert_eq!(*told.lock().unwrap(), ["it is closing"; 3]);
    }
}

#[test]
fn a_hook_that_closes_its_own_node_does_not_wait_for_itself_but_for_the_others() {
    let own = Arc::new(Mutex::new(None::<Durable>));
    let (entered, hooks) = channel();
    let (leave, left) = channel::<()>();
    let (closed, closes) = channel();
    let (left, here) = (Mutex::new(left), Arc::clone(&own));
    let others_told = Arc::new(AtomicUsize::new(0));
    let others = Arc::clone(&others_told);
    let hook = move |parked: &ParkedRun| {
        entered.send(()).unwrap();
        if parked.reason == "other" {
            left.lock().unwrap().recv().unwrap();
            others.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let durable = here.lock().unwrap().take().unwrap();
        let outcome = durable.close_within(60 * LONG);
        closed.send((outcome, others.load(Ordering::SeqCst))).unwrap();
    };
    let handler = |due: &Fired<Note>| Outcome::Park(due.payload().0.clone());
    let durable = Durable::in_memory().on_parked(hook).handle(handler).start().unwrap();
    let timers = durable.timers();
    *own.lock().unwrap() = Some(durable);
    now(&timers, "other");
    hooks.recv_timeout(LONG).unwrap();
    now(&timers, "closes");
    hooks.recv_timeout(LONG).unwrap();
    // The node is closed to calls while the other hook is still under way.
    while timers.get("nobody").wait().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(closes.try_recv().is_err(), "it waits for the other");
    leave.send(()).unwrap();
    let (outcome, told) = closes.recv_timeout(LONG).expect("it waits for itself");
    assert!(outcome.is_ok());
    assert_eq!(told, 1);
}
