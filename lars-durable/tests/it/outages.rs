//! What is said of a store that is away.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lars_durable::actors::{DurableActor, DurableContext, Hosted, Kind};
use lars_durable::test_kit::Store;
use lars_durable::{Error, Fired, Timers};
use lars_scheduler::LightArrayRevolverScheduler;
use mini_actor::Context;
use mini_actor::test_kit::TestKit;

use crate::common::{Note, note};

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged meanwhile, in lines.
fn logged(work: impl FnOnce()) -> Vec<String> {
    // Beside a single subscriber, a place that another test's thread is the first to pass asks that
    // thread's, which has none, and is silent from then on.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let text = Text::default();
    let writer = text.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = text.0.lock().unwrap();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

#[test]
fn an_outage_of_the_store_is_said_once_and_so_is_its_end() {
    let lines = logged(|| {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let store = Store::new(&time.handle());
        let node = store.node().handle(|_: &Fired<Note>| ()).start().unwrap();
        time.advance(Duration::from_secs(1));
        for after in 0..100 {
            let due = Duration::from_secs(after);
            node.timers().schedule_once(due, note("x")).submit().wait().unwrap();
        }
        store.set_reachable(false);
        time.advance(Duration::from_secs(30));
        store.set_reachable(true);
        time.advance(Duration::from_secs(300));
        assert_eq!(node.metrics().done, 100);
    });
    let [away, back] = &lines[..] else { panic!("{lines:#?}") };
    assert!(away.contains("WARN") && away.contains("the store is unreachable"), "{away}");
    assert!(back.contains("INFO") && back.contains("the store answers again"), "{back}");
}

#[test]
fn a_run_that_begins_late_is_said_with_the_target_of_this_crate() {
    let lines = logged(|| {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let store = Store::new(&time.handle());
        let second = Duration::from_secs(1);
        let node = store.node().handle(|_: &Fired<Note>| ()).explain_late(second);
        let node = node.start().unwrap();
        time.advance(second);
        node.timers().schedule_once(second, note("x")).submit().wait().unwrap();
        store.set_reachable(false);
        time.advance(30 * second);
        store.set_reachable(true);
        time.advance(60 * second);
        assert_eq!(node.metrics().done, 1);
    });
    let late = lines.iter().find(|line| line.contains("began late"));
    let late = late.unwrap_or_else(|| panic!("{lines:#?}"));
    for part in ["WARN lars_durable: began late who=note lateness=", ": the store answered late"] {
        assert!(late.contains(part), "`{part}`: {late}");
    }
}

#[test]
fn a_call_is_answered_when_its_time_is_up_and_not_before_while_the_store_is_away() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let store = Store::new(&time.handle());
    let (second, before) = (Duration::from_secs(1), Duration::from_millis(999));
    let node = store.node().call_timeout(second).start().unwrap();
    time.advance(second);
    store.set_reachable(false);
    let call = node.timers().schedule_once(second, note("x")).submit();
    time.advance(before);
    let call = call.wait_timeout(Duration::ZERO).unwrap_err();
    time.advance(second - before);
    let answer = call.wait_timeout(Duration::ZERO).unwrap();
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
    // Nothing was done, and nothing comes of it later.
    store.set_reachable(true);
    time.advance(10 * second);
    assert_eq!(node.metrics().scheduled, 0);
}

/// Starts a reminder when it is started.
struct Starts;

impl DurableActor for Starts {
    type Reminder = Note;
    type Message = Note;

    fn started(&mut self, ctx: &mut Context<Hosted<Self>>) {
        ctx.reminders().start_single("later", Duration::from_secs(60), note("later")).unwrap();
    }

    fn receive(&mut self, _: Note, _: &mut Context<Hosted<Self>>) {}
}

/// Makes as many calls as may wait for their answers, while the store is away.
struct Crowd(Store, Timers);

impl std::task::Wake for Crowd {
    fn wake(self: Arc<Self>) {
        self.0.set_reachable(false);
        (0..65_536).for_each(|_| drop(self.1.get("nobody")));
    }
}

#[test]
fn a_reminder_that_fails_before_its_actor_receives_something_is_said_to_have_failed() {
    let lines = logged(|| {
        let kit = TestKit::new("test").unwrap();
        let store = Store::new(kit.scheduler().timers());
        let node = store.node().actors(&kit, Kind::new(|_: &str| Starts)).start().unwrap();
        let (timers, second) = (node.timers(), Duration::from_secs(1));
        kit.advance(second);
        timers.tell_after("note/17", second, note("x")).submit().wait().unwrap();
        // The call is tried again after 50 ms: when the start is recorded, and the actor not made.
        kit.advance(second - Duration::from_millis(53));
        store.set_reachable(false);
        let mut call = timers.get("nobody");
        store.set_reachable(true);
        let waker = Arc::new(Crowd(store, timers)).into();
        let mut context = std::task::Context::from_waker(&waker);
        assert!(
            std::future::Future::poll(std::pin::Pin::new(&mut call), &mut context).is_pending()
        );
        kit.advance(Duration::from_millis(53));
    });
    let failed: Vec<&String> = lines.iter().filter(|it| it.contains("a reminder failed")).collect();
    assert!(matches!(failed[..], [it] if it.contains("the limit is 65536")), "{lines:#?}");
}
