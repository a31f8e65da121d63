//! Watching other actors: their last messages, names and children, and a restart of the watcher.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use common::{Call, LONG, SECOND, Script};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorRef, ActorSystem, Context, Props, StopReason};

/// Watches `x` when it starts, or unwatches it when it starts again. Returns how often it was told
/// of its end.
fn told_of_an_end_in_the_pause(unwatch: bool) -> usize {
    let kit = TestKit::new("t").unwrap();
    let x: ActorRef<()> = kit.spawn("x", || Script::new(|_: Call<()>, _| ())).unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let (seen, target) = (Arc::clone(&told), x.clone());
    let mut incarnation = 0;
    let props = Props::new(move || {
        let (seen, target) = (Arc::clone(&seen), target.clone());
        incarnation += 1;
        let first = incarnation == 1;
        Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
            Call::Started if first || !unwatch => ctx.watch(&target),
            Call::Started => drop(ctx.unwatch(&target)),
            Call::Message(()) => panic!("expected by this test"),
            Call::Gone(_) => drop(seen.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        })
    });
    let props = props.supervision(SupervisionStrategy::restart().backoff(SECOND, SECOND));
    let watcher = kit.spawn_with("watcher", props).unwrap();
    kit.settle();
    watcher.tell(()).unwrap();
    kit.settle();
    x.stop();
    kit.advance(5 * SECOND);
    assert_eq!(watcher.metrics().restarts, 1);
    told.load(Ordering::Relaxed)
}

#[test]
fn a_watcher_that_watches_again_after_its_restart_is_told_once() {
    assert_eq!(told_of_an_end_in_the_pause(false), 1);
}

#[test]
fn nothing_is_told_after_unwatching_also_of_what_fell_into_a_pause() {
    assert_eq!(told_of_an_end_in_the_pause(true), 0);
}

/// Sends its parent a result, and stops.
fn child(parent: ActorRef<&'static str>) -> Script<()> {
    Script::new(move |call, ctx: &mut Context<Script<()>>| {
        if let Call::Message(()) = call {
            parent.tell("result").unwrap();
            ctx.stop();
        }
    })
}

/// Lets a child send and stop, and tells what it hears of that.
fn parent(told: impl Fn(String) + Send + 'static) -> Script<&'static str> {
    Script::new(move |call, ctx: &mut Context<Script<&'static str>>| match call {
        Call::Message("go") => {
            let me = ctx.myself().clone();
            let child = ctx.spawn("child", move || child(me)).unwrap();
            ctx.watch(&child);
            child.tell(()).unwrap();
        }
        Call::Message(message) => told(message.to_owned()),
        Call::Gone(gone) => {
            told(gone.path.to_string());
            assert_eq!(ctx.children().len(), 0, "it is not a living child any more");
            ctx.stop();
        }
        _ => {}
    })
}

#[test]
fn the_end_of_an_actor_comes_after_its_last_messages() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let told = probe.actor().clone();
    let parent = kit.spawn("parent", || parent(move |what| told.tell(what).unwrap())).unwrap();
    parent.tell("go").unwrap();
    assert_eq!(probe.expect_message(), "result");
    assert_eq!(probe.expect_message(), "/parent/child");
    kit.settle();
    assert!(parent.is_stopped(), "its last child has gone");
}

#[test]
fn the_end_of_an_actor_comes_after_its_last_messages_also_on_another_thread() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    for round in 0..rounds {
        let (log, told) = channel();
        let make = move || parent(move |what| drop(log.send(what)));
        let parent = system.spawn(&format!("parent-{round}"), make).unwrap();
        parent.tell("go").unwrap();
        assert_eq!(told.recv().unwrap(), "result");
        assert_eq!(told.recv().unwrap(), format!("/parent-{round}/child"));
        assert_eq!(parent.termination().wait_timeout(LONG), Some(StopReason::Itself));
    }
}

#[test]
fn an_actor_that_is_asked_to_stop_is_told_of_the_ends_of_its_children_before() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let told = probe.actor().clone();
    let parent = kit
        .spawn("parent", || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => {
                    for name in ["first", "second"] {
                        let child = ctx.spawn(name, || Script::new(|_: Call<()>, _| {})).unwrap();
                        ctx.watch(&child);
                    }
                }
                Call::Gone(gone) => told.tell(gone.path.to_string()).unwrap(),
                Call::Stopped(reason) => told.tell(reason.to_string()).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    parent.stop();
    let all: Vec<_> = (0..3).map(|_| probe.expect_message()).collect();
    assert_eq!(all, ["/parent/first", "/parent/second", "asked to stop"]);
}

#[test]
fn an_actor_that_watches_one_that_has_gone_each_time_it_is_told_stops_when_it_is_asked_to() {
    let kit = TestKit::new("test").unwrap();
    let gone: ActorRef<()> = kit.spawn("gone", || Script::new(|_: Call<()>, _| {})).unwrap();
    gone.kill();
    kit.settle();
    let watcher = kit
        .spawn("watcher", || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
                if let Call::Started | Call::Gone(_) = call {
                    ctx.watch(&gone);
                }
            })
        })
        .unwrap();
    watcher.stop();
    kit.settle();
    assert!(watcher.is_stopped());
}

#[test]
fn a_recipient_can_be_watched_and_unwatched() {
    let kit = TestKit::new("test").unwrap();
    let (first, second) = (kit.probe::<u64>("first"), kit.probe::<u64>("second"));
    let office = kit.probe::<(u64, StopReason)>("office");
    let report = office.actor().clone();
    let watched = [first.actor().map(u64::from), second.actor().map(|number: u8| number.into())];
    let (ids, expected) = (watched.clone().map(|it| it.id()), [first.actor(), second.actor()]);
    assert_eq!(ids, expected.map(ActorRef::id));
    let script = move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
        Call::Started => watched.iter().for_each(|recipient| ctx.watch(recipient)),
        Call::Message(()) => assert!(ctx.unwatch(&watched[1]) && !ctx.unwatch(&watched[1])),
        Call::Gone(gone) => report.tell((gone.id, gone.reason)).unwrap(),
        _ => {}
    };
    let guard = kit.spawn("guard", move || Script::new(script)).unwrap();
    guard.tell(()).unwrap();
    kit.settle();
    second.actor().stop();
    first.actor().kill();
    assert_eq!(office.expect_message(), (ids[0], StopReason::Killed));
    assert_eq!(office.try_message(), None);
}
