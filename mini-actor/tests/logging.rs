//! What is logged: the turns of an actor's life with its path, dead letters, slow messages, and
//! nothing per message.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{Call, LONG, Script, close, ms};
use mini_actor::hooks::SlowReceive;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorRef, ActorSystem, Context, Overflow, Props};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

thread_local! {
    /// What this thread has logged. (The systems here have no threads of their own.)
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// An actor that this thread tells each line.
    static AUDIT: RefCell<Option<ActorRef<String>>> = const { RefCell::new(None) };
}

/// Keeps every event as a line: level, message, and the fields in the order of their names.
///
/// One for the process: while there is only one subscriber, and in one thread, tracing asks
/// whichever thread comes first to a place that logs, and remembers the answer for all.
struct Log;

#[derive(Default)]
struct Fields(String, Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" && self.0.is_empty() {
            write!(self.0, "{value:?}").unwrap();
        } else {
            self.1.push(format!("{}={value:?}", field.name()));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mini_actor")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.1.push(fields.0);
        fields.1.sort();
        let line = format!("{} {}", event.metadata().level(), fields.1.join(" "));
        LINES.with_borrow_mut(|lines| lines.push(line.clone()));
        if let Some(audit) = AUDIT.with_borrow(Clone::clone) {
            audit.tell(line).unwrap();
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Every test begins with this, before anything is logged.
fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
}

/// What this thread logs while `act` runs.
fn logged(act: impl FnOnce()) -> Vec<String> {
    LINES.take();
    act();
    LINES.take()
}

fn line_with(lines: &[String], parts: &[&str]) -> bool {
    lines.iter().any(|line| parts.iter().all(|part| line.contains(part)))
}

fn act(call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>) {
    match call {
        Call::Message("throw") => panic!("expected by this test"),
        Call::Message("stop") => ctx.stop(),
        _ => {}
    }
}

#[test]
fn the_turns_of_a_life_are_logged_with_the_actor_s_path() {
    install();
    let kit = TestKit::new("test").unwrap();
    let supervision = SupervisionStrategy::restart().backoff(ms(20), ms(20));
    let props = Props::new(|| Script::new(act)).supervision(supervision);
    let actor = kit.spawn_with("clerk", props).unwrap();
    let started = logged(|| _ = kit.settle());
    assert_eq!(started.len(), 1, "{started:?}");
    assert!(line_with(&started, &["DEBUG", "an actor started", "/clerk"]), "{started:?}");

    actor.tell("throw").unwrap();
    let restarted = logged(|| kit.advance(ms(20)));
    assert_eq!(restarted.len(), 3, "{restarted:?}");
    let panicked = ["ERROR", "an actor panicked", "/clerk", "directive=Restart"];
    assert!(line_with(&restarted, &panicked), "{restarted:?}");
    assert!(line_with(&restarted, &["INFO", "an actor restarts", "/clerk", "20ms"]));
    assert!(line_with(&restarted, &["DEBUG", "an actor started", "/clerk"]));

    actor.tell("stop").unwrap();
    actor.tell("too late").unwrap();
    let stopped = logged(|| _ = kit.settle());
    assert_eq!(stopped.len(), 2, "{stopped:?}");
    assert!(line_with(&stopped, &["DEBUG", "an actor stopped", "/clerk", "reason="]));
    let letter = ["DEBUG", "dead letter", "/clerk", "str", "reason=Stopped"];
    assert!(line_with(&stopped, &letter), "{stopped:?}");
}

#[test]
fn a_late_message_is_logged_as_that_by_this_crate() {
    install();
    // Nothing is received before its time, so everything is late by something.
    let builder = ActorSystem::builder("test").threads(1).explain_late(Duration::ZERO);
    let (sender, lines) = channel();
    // It is logged on the same thread, just before.
    let builder = builder.on_late(move |_| drop(sender.send(LINES.take())));
    let system = builder.tick_duration(Duration::from_nanos(1)).build().unwrap();
    let idle = |_: Call<u32>, _: &mut Context<Script<u32>>| ();
    let clerk = system.spawn("clerk", move || Script::new(idle)).unwrap();
    let _ = system.scheduler().schedule_once(Duration::ZERO, &clerk, 7).unwrap();
    let lines = lines.recv_timeout(LONG).unwrap();
    let late = ["WARN", "received late", "who=/clerk in u32", "lateness=", "because="];
    assert!(line_with(&lines, &late), "{lines:?}");
    close(&system);
}

#[test]
fn the_pause_of_a_restart_is_logged_as_it_is() {
    install();
    // None finds a place.
    let builder = ActorSystem::builder("test").scheduler(|timers| timers.max_pending(1));
    let kit = builder.build_virtual().unwrap();
    let _only = kit.scheduler().timers().schedule_once(LONG, || ()).unwrap();
    let supervision = SupervisionStrategy::restart().backoff(ms(20), ms(20));
    let props = Props::new(|| Script::new(act)).supervision(supervision);
    let actor = kit.spawn_with("clerk", props).unwrap();
    actor.tell("throw").unwrap();
    let lines = logged(|| _ = kit.settle());
    assert!(line_with(&lines, &["an actor restarts", "/clerk", "pause=0ns"]), "{lines:?}");

    // One that cannot be started is not restarted without a pause.
    let broken = Props::new(|| -> Script<()> { panic!("expected by this test") });
    let broken = broken.supervision(SupervisionStrategy::restart());
    let broken = kit.spawn_with("broken", broken).unwrap();
    let lines = logged(|| _ = kit.settle());
    assert!(line_with(&lines, &["an actor panicked", "/broken", "directive=Stop"]), "{lines:?}");
    assert!(!line_with(&lines, &["an actor restarts"]), "{lines:?}");
    assert!(broken.is_stopped());
}

#[test]
fn an_escalation_is_logged_as_that_with_the_path_of_the_child() {
    install();
    let kit = TestKit::new("test").unwrap();
    let parent = |call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>| {
        if call == Call::Started {
            let child =
                Props::new(|| Script::new(act)).supervision(SupervisionStrategy::escalate());
            let child = ctx.spawn_with("child", child).unwrap();
            child.tell("throw").unwrap();
        }
    };
    kit.spawn("parent", move || Script::new(parent)).unwrap();
    let lines = logged(|| _ = kit.settle());
    let escalated = ["ERROR", "an actor panicked", "/parent/child", "directive=Escalate"];
    assert!(line_with(&lines, &escalated), "{lines:?}");
    assert!(line_with(&lines, &["DEBUG", "an actor stopped", "\"/parent/child\""]), "{lines:?}");
    assert!(line_with(&lines, &["DEBUG", "an actor stopped", "\"/parent\""]), "{lines:?}");
}

#[test]
fn nothing_is_logged_for_a_message_whichever_way_it_comes() {
    install();
    let kit = ActorSystem::builder("test").throughput(7).build_virtual().unwrap();
    let actor = kit.spawn("clerk", || Script::new(act)).unwrap();
    kit.settle();
    let lines = logged(|| {
        for _ in 0..100 {
            actor.tell("hello").unwrap();
            let _ = kit.scheduler().schedule_once(ms(5), &actor, "later").unwrap();
        }
        let _ = kit.scheduler().schedule_at_fixed_rate(ms(1), ms(1), &actor, "again").unwrap();
        kit.advance(ms(50));
    });
    assert_eq!(actor.metrics().processed, 250);
    assert_eq!((lines.len(), lines.first()), (0, None));
}

#[test]
fn a_slow_message_is_logged_with_the_path_of_its_actor_its_type_and_its_time() {
    install();
    let (sender, lines) = channel();
    // On the thread that has just logged.
    let hook = move |_: &SlowReceive<'_>| drop(sender.send(LINES.take()));
    let system =
        ActorSystem::builder("test").threads(1).slow_receive(ms(20)).on_slow(hook).build().unwrap();
    let act = |call: Call<u8>, _: &mut Context<Script<u8>>| {
        if let Call::Message(_) = call {
            std::thread::sleep(ms(60));
        }
    };
    system.spawn("clerk", move || Script::new(act)).unwrap().tell(7).unwrap();
    let lines = lines.recv_timeout(LONG).unwrap();
    let slow = ["WARN", "a slow message", "\"/clerk\"", "message_type=\"u8\"", "run_time="];
    assert!(line_with(&lines, &slow), "{lines:?}");
}

#[test]
fn a_subscriber_that_tells_an_actor_whose_mailbox_is_full_is_not_called_for_that() {
    install();
    let kit = TestKit::new("test").unwrap();
    let props = Props::once(|| Script::new(|_: Call<String>, _| {}));
    let audit = kit.spawn_with("audit", props.bounded(1, Overflow::DropNewest)).unwrap();
    kit.settle();
    audit.tell("full".to_owned()).unwrap();
    let lines = logged(|| {
        AUDIT.set(Some(audit.clone()));
        audit.tell("one more".to_owned()).unwrap();
        AUDIT.set(None);
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(kit.metrics().dead_letters, 2);
}
