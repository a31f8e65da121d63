//! Panics and what is done about them; children, watching, stashing. In virtual time.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::{Call, LONG, SECOND, Script, ms};
use mini_actor::hooks::Undelivered;
use mini_actor::supervision::{Directive, SupervisionStrategy};
use mini_actor::test_kit::{Probe, TestKit};
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props, SpawnError, StashFull, StopReason};

/// Reports everything; panics at "throw".
fn reporting(to: &ActorRef<String>) -> impl FnMut() -> Script<&'static str> + Send + 'static {
    let to = to.clone();
    let mut incarnation = 0;
    move || {
        let to = to.clone();
        incarnation += 1;
        let number = incarnation;
        Script::new(move |call, ctx: &mut Context<Script<&'static str>>| {
            let text = match call {
                Call::Message("throw") => panic!("expected by this test"),
                Call::Message("stop") => return ctx.stop(),
                Call::Message("stash") => return ctx.stash("stashed").unwrap(),
                Call::Message(message) => message.to_owned(),
                Call::Started => "started".to_owned(),
                Call::Restarting(message, failed) => format!("restarting: {message}, {failed:?}"),
                Call::Stopped(reason) => format!("stopped: {reason}"),
                Call::Gone(gone) => format!("gone: {}, {}", gone.path, gone.reason),
                Call::Quiet => "quiet".to_owned(),
            };
            to.tell(format!("{number} {text}")).unwrap();
        })
    }
}

fn all(probe: &Probe<String>) -> Vec<String> {
    std::iter::from_fn(|| probe.try_message()).collect()
}

#[test]
fn an_actor_that_resumes_goes_on_with_its_state() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe("probe");
    let props = Props::new(reporting(probe.actor())).supervision(SupervisionStrategy::resume());
    let actor = kit.spawn_with("a", props).unwrap();
    for message in ["one", "throw", "two"] {
        actor.tell(message).unwrap();
    }
    assert_eq!(all(&probe), ["1 started", "1 one", "1 two"]);
    assert_eq!(kit.metrics().panicked, 1);
    assert_eq!(actor.metrics().restarts, 0);
}

#[test]
fn a_restarted_actor_keeps_its_references_its_mailbox_and_what_it_stashed() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe("probe");
    let props = Props::new(reporting(probe.actor())).supervision(SupervisionStrategy::restart());
    let actor = kit.spawn_with("a", props).unwrap();
    for message in ["stash", "throw", "two"] {
        actor.tell(message).unwrap();
    }
    assert_eq!(
        all(&probe),
        [
            "1 started",
            "1 restarting: expected by this test, Some(\"throw\")",
            "2 started",
            "2 stashed",
            "2 two"
        ]
    );
    assert_eq!((actor.metrics().restarts, kit.metrics().restarts), (1, 1));
}

#[test]
fn restarts_beyond_the_limit_within_the_window_stop_the_actor() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe("probe");
    let supervision = SupervisionStrategy::restart().limit(2, SECOND);
    let props = Props::new(reporting(probe.actor())).supervision(supervision);
    let actor = kit.spawn_with("a", props).unwrap();
    for _ in 0..2 {
        actor.tell("throw").unwrap();
    }
    kit.advance(SECOND);
    // The window has passed.
    actor.tell("throw").unwrap();
    actor.tell("throw").unwrap();
    kit.advance(SECOND - ms(1));
    assert!(!actor.is_stopped());
    actor.tell("throw").unwrap();
    actor.tell("lost").unwrap();
    assert_eq!(probe.expect_terminated(&actor), StopReason::Panicked);
    assert_eq!(actor.metrics().restarts, 4);
    assert_eq!(kit.dead_letters().len(), 1);
}

#[test]
fn an_actor_pauses_before_its_restart_each_time_longer_and_messages_wait() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let supervision = SupervisionStrategy::restart().backoff(ms(100), ms(300));
    let props = Props::new(reporting(probe.actor())).supervision(supervision);
    let actor = kit.spawn_with("a", props).unwrap();
    assert_eq!(probe.expect_message(), "1 started");
    for (number, pause) in [(2, 100), (3, 200), (4, 300), (5, 300)] {
        actor.tell("throw").unwrap();
        actor.tell("waits").unwrap();
        assert!(probe.expect_message().contains("restarting"));
        probe.expect_no_message_for(ms(pause) - Duration::from_nanos(1));
        kit.advance(Duration::from_nanos(1));
        assert_eq!(all(&probe), [format!("{number} started"), format!("{number} waits")]);
    }
    // It has been well for long enough: from the beginning.
    kit.advance(ms(300));
    actor.tell("throw").unwrap();
    kit.advance(ms(100));
    assert_eq!(all(&probe).last().unwrap(), "6 started");
}

#[test]
fn an_actor_that_pauses_can_be_killed_and_when_asked_to_stop_it_receives_what_is_queued_first() {
    for kill in [true, false] {
        let kit = TestKit::new("test").unwrap();
        let probe = kit.probe::<String>("probe");
        let supervision = SupervisionStrategy::restart().backoff(SECOND, SECOND);
        let props = Props::new(reporting(probe.actor())).supervision(supervision);
        let actor = kit.spawn_with("a", props).unwrap();
        actor.tell("throw").unwrap();
        actor.tell("waits").unwrap();
        assert_eq!(all(&probe).len(), 2);
        if kill {
            actor.kill();
            assert_eq!(probe.expect_terminated(&actor), StopReason::Killed);
            assert_eq!(all(&probe), [""; 0]);
            assert_eq!(kit.dead_letters().len(), 1);
        } else {
            actor.stop();
            assert_eq!(probe.expect_terminated(&actor), StopReason::Asked);
            assert_eq!(all(&probe), ["2 started", "2 waits", "2 stopped: asked to stop"]);
        }
        assert_eq!(kit.scheduler().timers().pending(), 0);
    }
}

#[test]
fn an_actor_that_cannot_start_and_is_asked_to_stop_stops() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let props = Props::new(|| -> Script<()> {
        Script::new(|call: Call<()>, _| assert_ne!(call, Call::Started, "expected by this test"))
    });
    let supervision = SupervisionStrategy::restart().backoff(SECOND, SECOND);
    let actor = kit.spawn_with("a", props.supervision(supervision)).unwrap();
    kit.advance(3 * SECOND);
    assert_eq!(actor.metrics().restarts, 4);
    actor.stop();
    assert_eq!(probe.expect_terminated(&actor), StopReason::Panicked);
}

#[test]
fn an_actor_that_escalates_stops_and_fails_its_parent() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let props = Props::new(move || {
        let child_report = report.clone();
        let report = report.clone();
        Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
            Call::Started => {
                let child = Props::new(reporting(&child_report));
                let child = child.supervision(SupervisionStrategy::escalate());
                ctx.spawn_with("child", child).unwrap();
            }
            Call::Restarting(message, failed) => {
                report.tell(format!("parent: {message}, {failed:?}")).unwrap();
            }
            _ => {}
        })
    });
    let parent =
        kit.spawn_with("parent", props.supervision(SupervisionStrategy::restart())).unwrap();
    kit.settle();
    let child = kit.find::<&'static str>("/parent/child").unwrap();
    child.tell("throw").unwrap();
    assert_eq!(
        all(&probe),
        ["1 started", "1 stopped: panicked", "parent: expected by this test, None", "1 started",]
    );
    assert!(!parent.is_stopped());
    assert_ne!(kit.find::<&'static str>("/parent/child").unwrap(), child);
}

#[test]
fn every_panic_is_shown_to_the_hook_with_what_is_done_about_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let kit = ActorSystem::builder("test")
        .on_panic(move |panic, directive| {
            kept.lock().unwrap().push((panic.path.to_string(), panic.message.clone(), directive));
            panic!("a hook that panics harms nobody");
        })
        .build_virtual()
        .unwrap();
    let decide = |panic: &mini_actor::supervision::Panic| {
        if panic.message == "mild" { Directive::Resume } else { panic!("undecided") }
    };
    let props = Props::new(|| {
        Script::new(|call: Call<&'static str>, _| {
            if let Call::Message(message) = call {
                panic!("{message}");
            }
        })
    });
    let actor =
        kit.spawn_with("a", props.supervision(SupervisionStrategy::decide(decide))).unwrap();
    actor.tell("mild").unwrap();
    actor.tell("severe").unwrap();
    kit.settle();
    assert!(actor.is_stopped());
    assert_eq!(
        *seen.lock().unwrap(),
        [
            ("/a".to_owned(), "mild".to_owned(), Directive::Resume),
            ("/a".to_owned(), "severe".to_owned(), Directive::Stop)
        ]
    );
}

#[test]
fn an_actor_whose_factory_always_panics_is_restarted_as_often_as_allowed_and_others_run() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let broken = || -> Script<()> { panic!("expected by this test") };
    let supervision = SupervisionStrategy::restart().limit(1000, SECOND);
    let broken = kit.spawn_with("broken", Props::new(broken).supervision(supervision)).unwrap();
    let _other = kit.spawn_with("other", Props::new(reporting(probe.actor()))).unwrap();
    assert_eq!(probe.expect_message(), "1 started");
    assert_eq!(probe.expect_terminated(&broken), StopReason::Panicked);
    assert_eq!(broken.metrics().restarts, 1000);
}

/// Panics when it is made, this many times; counts how often that is tried.
fn failing_to_start(times: usize, made: &Arc<AtomicUsize>) -> Props<Script<()>> {
    let made = Arc::clone(made);
    let make = move || {
        assert!(made.fetch_add(1, Ordering::Relaxed) >= times, "expected by this test");
        Script::new(|_: Call<()>, _: &mut Context<Script<()>>| ())
    };
    Props::new(make).supervision(SupervisionStrategy::restart())
}

/// Spawns a child that [fails to start](failing_to_start) and escalates that, each time `when` says
/// so.
fn parent_of_failing(
    made: &Arc<AtomicUsize>,
    when: impl Fn(&Call<()>) -> bool + Clone + Send + 'static,
) -> Props<Script<()>> {
    let made = Arc::clone(made);
    let make = move || {
        let (made, when) = (Arc::clone(&made), when.clone());
        Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
            if when(&call) {
                let child = failing_to_start(10, &made);
                let child = child.supervision(SupervisionStrategy::escalate());
                ctx.spawn_anonymous(child).unwrap();
            }
        })
    };
    Props::new(make).supervision(SupervisionStrategy::restart())
}

#[test]
fn an_actor_that_cannot_be_started_pauses_before_the_next_try_even_if_no_pause_is_set() {
    let kit = TestKit::new("test").unwrap();
    let made = Arc::default();
    let actor = kit.spawn_with("broken", failing_to_start(10, &made)).unwrap();
    kit.settle();
    assert_made_ten_times_again_after_pauses(&kit, &made);
    assert!(!actor.is_stopped());
}

fn assert_made_ten_times_again_after_pauses(kit: &TestKit, made: &AtomicUsize) {
    for (number, pause) in [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000].into_iter().enumerate()
    {
        kit.advance(ms(pause) - Duration::from_nanos(1));
        assert_eq!(made.load(Ordering::Relaxed), number + 1);
        kit.advance(Duration::from_nanos(1));
        assert_eq!(made.load(Ordering::Relaxed), number + 2);
    }
    kit.advance(LONG);
    assert_eq!(made.load(Ordering::Relaxed), 11);
}

#[test]
fn an_actor_pauses_too_if_a_child_that_belongs_to_its_start_cannot_be_started() {
    let kit = TestKit::new("test").unwrap();
    let made = Arc::default();
    let parent = parent_of_failing(&made, |call| matches!(call, Call::Started));
    let parent = kit.spawn_with("parent", parent).unwrap();
    kit.settle();
    assert_made_ten_times_again_after_pauses(&kit, &made);
    assert!(!parent.is_stopped());
}

#[test]
fn an_actor_pauses_too_if_a_grandchild_that_belongs_to_its_start_cannot_be_started() {
    let kit = TestKit::new("test").unwrap();
    let made = Arc::default();
    let shared = Arc::clone(&made);
    let props = Props::new(move || {
        let made = Arc::clone(&shared);
        Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
            if let Call::Started = call {
                let between = parent_of_failing(&made, |call| matches!(call, Call::Started));
                let between = between.supervision(SupervisionStrategy::escalate());
                ctx.spawn_with("between", between).unwrap();
            }
        })
    });
    let top = kit.spawn_with("top", props.supervision(SupervisionStrategy::restart())).unwrap();
    kit.settle();
    assert_made_ten_times_again_after_pauses(&kit, &made);
    assert!(!top.is_stopped());
}

#[test]
fn a_child_that_a_message_asked_for_and_that_cannot_be_started_makes_nobody_pause() {
    let kit = TestKit::new("test").unwrap();
    let made = Arc::default();
    let parent = parent_of_failing(&made, |call| matches!(call, Call::Message(())));
    let parent = kit.spawn_with("parent", parent).unwrap();
    for number in 1..=5 {
        parent.tell(()).unwrap();
        kit.settle();
        assert_eq!(parent.metrics().restarts, number);
    }
    assert_eq!((kit.elapsed(), made.load(Ordering::Relaxed)), (Duration::ZERO, 5));
}

#[test]
fn an_actor_that_cannot_be_started_stops_if_the_timer_of_its_pause_is_refused() {
    let builder = ActorSystem::builder("test").scheduler(|timers| timers.max_pending(1));
    let kit = builder.build_virtual().unwrap();
    let _only = kit.scheduler().timers().schedule_once(SECOND, || ()).unwrap();
    let made = Arc::default();
    let actor = kit.spawn_with("broken", failing_to_start(100, &made)).unwrap();
    kit.settle();
    assert!(actor.is_stopped());
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[test]
fn a_restart_that_is_not_made_is_told_and_counted_as_a_stop() {
    let builder = ActorSystem::builder("test").scheduler(|timers| timers.max_pending(1));
    let kit = builder.build_virtual().unwrap();
    let probe = kit.probe::<String>("probe");
    let _only = kit.scheduler().timers().schedule_once(SECOND, || ()).unwrap();
    let report = probe.actor().clone();
    let props = Props::new(move || {
        let report = report.clone();
        Script::new(move |call: Call<()>, _: &mut Context<Script<()>>| match call {
            Call::Started => panic!("expected by this test"),
            other => report.tell(format!("{other:?}")).unwrap(),
        })
    });
    let actor = kit.spawn_with("a", props.supervision(SupervisionStrategy::restart())).unwrap();
    assert_eq!(all(&probe), ["Stopped(Panicked)"]);
    let decided: Vec<_> = kit.panics().iter().map(|failure| failure.directive).collect();
    assert_eq!(decided, [Directive::Stop]);
    assert_eq!((actor.metrics().restarts, kit.metrics().restarts), (0, 0));
}

#[test]
fn the_pause_of_an_actor_finds_the_place_of_one_of_its_timers() {
    let builder = ActorSystem::builder("test").scheduler(|timers| timers.max_pending(1));
    let kit = builder.build_virtual().unwrap();
    let props = Props::new(|| {
        Script::new(|call: Call<()>, ctx: &mut Context<Script<()>>| {
            if let Call::Started = call {
                ctx.timers().start_single("only", SECOND, ()).unwrap();
                panic!("expected by this test");
            }
        })
    });
    let actor = kit.spawn_with("a", props.supervision(SupervisionStrategy::restart())).unwrap();
    kit.advance(ms(70));
    assert_eq!((actor.metrics().restarts, actor.is_stopped()), (4, false));
}

#[test]
fn a_watcher_is_told_once_with_the_reason_also_of_one_that_has_stopped_before() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let silent = kit.probe::<String>("silent");
    let spawn = |name: &str| kit.spawn_with(name, Props::new(reporting(silent.actor()))).unwrap();
    let (first, second, third) = (spawn("first"), spawn("second"), spawn("third"));
    third.kill();
    kit.settle();
    let targets = [first.clone(), second.clone(), third];
    let report = probe.actor().clone();
    let _watcher = kit
        .spawn("watcher", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => {
                    for target in &targets {
                        ctx.watch(target);
                        ctx.watch(target);
                    }
                }
                Call::Gone(gone) => report.tell(format!("{}: {}", gone.path, gone.reason)).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    assert_eq!(all(&probe), ["/third: killed"]);
    first.stop();
    second.tell("stop").unwrap();
    let mut told = all(&probe);
    told.sort_unstable();
    assert_eq!(told, ["/first: asked to stop", "/second: stopped itself"]);
}

#[test]
fn nothing_is_told_after_unwatching_even_if_it_was_on_its_way() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let (one, two) = (kit.probe::<()>("one"), kit.probe::<()>("two"));
    let targets = [one.actor().clone(), two.actor().clone()];
    let report = probe.actor().clone();
    let watcher = kit
        .spawn("watcher", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => targets.iter().for_each(|target| ctx.watch(target)),
                // The end of the other one has been signalled together with this one's.
                Call::Gone(gone) => {
                    let other = targets.iter().find(|target| target.id() != gone.id).unwrap();
                    assert!(ctx.unwatch(other));
                    assert!(!ctx.unwatch(other));
                    report.tell(gone.path.to_string()).unwrap();
                }
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    one.actor().kill();
    two.actor().kill();
    assert_eq!(all(&probe), ["/one"]);
    assert!(!watcher.is_stopped());
}

#[test]
fn what_comes_between_the_call_to_stop_and_the_closing_of_the_mailbox_is_received_too() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let actor = kit
        .spawn("a", move || {
            Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
                if let Call::Message(number) = call {
                    report.tell(number.to_string()).unwrap();
                    if number < 3 {
                        ctx.myself().tell(number + 1).unwrap();
                    } else {
                        assert!(ctx.myself().tell(number + 1).is_err(), "it is closed now");
                    }
                }
            })
        })
        .unwrap();
    actor.tell(2).unwrap();
    actor.stop(); // behind the first message, in front of the second
    assert_eq!(all(&probe), ["2", "3"]);
    assert_eq!(probe.expect_terminated(&actor), StopReason::Asked);
    assert_eq!(kit.dead_letters(), []);
}

#[test]
fn the_end_of_another_is_told_after_a_pause_before_a_restart_if_it_fell_into_it() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let target = kit.probe::<()>("target");
    let (watched, report) = (target.actor().clone(), probe.actor().clone());
    let props = Props::new(move || {
        let (watched, report) = (watched.clone(), report.clone());
        Script::new(move |call: Call<bool>, ctx: &mut Context<Script<bool>>| match call {
            Call::Message(true) => ctx.watch(&watched),
            Call::Message(false) => panic!("expected by this test"),
            Call::Gone(gone) => report.tell(format!("{}", gone.path)).unwrap(),
            _ => {}
        })
    });
    let supervision = SupervisionStrategy::restart().backoff(SECOND, SECOND);
    let watcher = kit.spawn_with("watcher", props.supervision(supervision)).unwrap();
    watcher.tell(true).unwrap();
    watcher.tell(false).unwrap();
    kit.settle();
    target.actor().kill();
    probe.expect_no_message_for(SECOND - ms(1));
    assert_eq!(probe.expect_message_within(ms(1)), "/target");
    assert_eq!(all(&probe), [""; 0]);
}

/// A parent with two children, each with one of its own.
fn family(kit: &TestKit, probe: &Probe<String>) -> ActorRef<&'static str> {
    let report = probe.actor().clone();
    kit.spawn("parent", move || {
        let told = report.clone();
        Script::new(move |call: Call<&'static str>, ctx: &mut Context<_>| match call {
            Call::Started => {
                for name in ["one", "two"] {
                    let report = report.clone();
                    let child = move || {
                        let told = report.clone();
                        Script::new(
                            move |call: Call<&'static str>, ctx: &mut Context<_>| match call {
                                Call::Started => {
                                    let grandchild = Props::new(quiet(&report));
                                    ctx.spawn_with("leaf", grandchild).unwrap();
                                }
                                Call::Message(message) => {
                                    told.tell(format!("{} {message}", ctx.myself().path()))
                                        .unwrap();
                                }
                                Call::Stopped(_) => {
                                    assert_eq!(ctx.children().len(), 0);
                                    told.tell(format!("{} stopped", ctx.myself().path())).unwrap();
                                }
                                _ => {}
                            },
                        )
                    };
                    ctx.spawn(name, child).unwrap();
                }
            }
            Call::Message("spawn") => {
                let error = ctx.spawn_with("late", Props::new(quiet(&told))).unwrap_err();
                told.tell(format!("{error}")).unwrap();
            }
            Call::Message("same name") => {
                assert_eq!(ctx.child::<&'static str>("one").unwrap().path(), "/parent/one");
                assert!(ctx.child::<&'static str>("three").is_none());
                assert!(ctx.children().eq(["one", "two"]), "in the order of their spawning");
                let error = ctx.spawn_with("one", Props::new(quiet(&told))).unwrap_err();
                assert_eq!(error, SpawnError::NameTaken { path: "/parent/one".to_owned() });
            }
            Call::Message(message) => told.tell(format!("parent {message}")).unwrap(),
            Call::Stopped(reason) => told.tell(format!("parent {reason}")).unwrap(),
            _ => {}
        })
    })
    .unwrap()
}

fn quiet(to: &ActorRef<String>) -> impl FnMut() -> Script<&'static str> + Send + 'static {
    let to = to.clone();
    move || {
        let to = to.clone();
        Script::new(move |call: Call<&'static str>, ctx: &mut Context<_>| {
            if let Call::Stopped(reason) = call {
                to.tell(format!("{} {reason}", ctx.myself().path())).unwrap();
            }
        })
    }
}

#[test]
fn actors_stand_in_a_tree_are_found_by_path_and_stop_after_their_children() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let parent = family(&kit, &probe);
    kit.settle();
    let paths: Vec<_> = kit.paths().iter().map(ToString::to_string).collect();
    assert_eq!(
        paths,
        ["/parent", "/parent/one", "/parent/one/leaf", "/parent/two", "/parent/two/leaf", "/probe"]
    );
    let one = kit.find::<&'static str>("/parent/one").unwrap();
    assert_eq!((one.name(), one.path()), ("one", "/parent/one"));
    assert!(kit.find::<u32>("/parent/one").is_none(), "another type of messages");
    assert!(kit.find::<&'static str>("/parent/three").is_none());
    parent.tell("same name").unwrap();
    one.tell("hello").unwrap();
    parent.tell("hello").unwrap();
    parent.stop();
    let told = all(&probe);
    let place = |text: &str| told.iter().position(|it| it == text).expect(text);
    assert!(place("/parent/one hello") < place("/parent/one stopped"));
    assert!(place("parent hello") < place("parent asked to stop"));
    for child in ["one", "two"] {
        let leaf = place(&format!("/parent/{child}/leaf its parent stopped"));
        let child = place(&format!("/parent/{child} stopped"));
        assert!(leaf < child && child < place("parent asked to stop"));
    }
    assert_eq!(told.len(), 7);
    assert_eq!(kit.paths().len(), 1);
}

/// Has a child, and that one as well, until the last.
struct Deep {
    below: usize,
    last: mpsc::Sender<ActorRef<()>>,
}

impl Actor for Deep {
    type Message = ();

    fn started(&mut self, ctx: &mut Context<Self>) {
        let last = self.last.clone();
        match self.below.checked_sub(1) {
            Some(below) => drop(ctx.spawn("a", move || Deep { below, last }).unwrap()),
            None => last.send(ctx.myself().clone()).unwrap(),
        }
    }

    fn receive(&mut self, (): (), _: &mut Context<Self>) {}
}

/// How deep a tree is that is deeper than a stack.
const DEEP: usize = if cfg!(miri) { 100 } else { 100_000 };

#[test]
fn a_tree_deeper_than_a_stack_is_found_stopped_and_killed_from_its_root_to_its_last_child() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    for (number, kills) in [false, true].into_iter().enumerate() {
        let (below, (last, told)) = (DEEP - 1, mpsc::channel());
        let root = system.spawn("a", move || Deep { below, last }).unwrap();
        let last = told.recv_timeout(5 * LONG).unwrap();
        assert_eq!((system.metrics().alive, last.path().len()), (DEEP, 2 * DEEP));
        assert!(system.find(last.path()).as_ref() == Some(&last));
        assert!(system.find::<()>(&format!("{}/a", last.path())).is_none());
        let (first, end) = (root.termination(), last.termination());
        let reasons = if kills {
            root.kill();
            (StopReason::Killed, StopReason::Killed)
        } else {
            root.stop();
            (StopReason::Asked, StopReason::Parent)
        };
        let ended = first.wait_timeout(5 * LONG).zip(end.wait_timeout(5 * LONG));
        assert_eq!(ended, Some(reasons));
        let gone = ((number + 1) * DEEP) as u64;
        assert_eq!((system.metrics().alive, system.metrics().stopped), (0, gone));
        // The reference to the last child keeps the names above it, and frees them at the end.
        drop(root);
        assert_eq!(last.path().len(), 2 * DEEP);
    }
}

#[test]
fn a_parent_that_is_asked_to_stop_receives_what_its_children_have_to_tell_it() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let parent = kit
        .spawn("parent", move || {
            Script::new(move |call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>| {
                match call {
                    Call::Started => {
                        let me = ctx.myself().clone();
                        ctx.spawn("child", move || {
                            Script::new(move |call: Call<()>, _| {
                                if let Call::Stopped(_) = call {
                                    me.tell("a last word").unwrap();
                                }
                            })
                        })
                        .unwrap();
                    }
                    Call::Message(message) => report.tell(message.to_owned()).unwrap(),
                    Call::Stopped(_) => report.tell("stopped".to_owned()).unwrap(),
                    _ => {}
                }
            })
        })
        .unwrap();
    kit.settle();
    parent.tell("queued").unwrap();
    parent.stop();
    assert_eq!(all(&probe), ["queued", "a last word", "stopped"]);
    assert_eq!(parent.tell("late").unwrap_err().into_message(), "late");
    assert_eq!(kit.dead_letters(), []);
}

#[test]
fn a_killed_actor_kills_its_children_and_receives_nothing_more() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let parent = family(&kit, &probe);
    kit.settle();
    parent.tell("never").unwrap();
    parent.kill();
    let told = all(&probe);
    assert_eq!(told.last().unwrap(), "parent killed");
    assert!(told.contains(&"/parent/one/leaf killed".to_owned()));
    let letters = kit.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].recipient, "/parent");
    assert_eq!(letters[0].reason, Undelivered::Stopped);
}

#[test]
fn a_restart_stops_the_children_before_the_new_actor_is_made() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let props = Props::new(move || {
        let report = report.clone();
        Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
            Call::Started => {
                report.tell(format!("started, children {}", ctx.children().len())).unwrap();
                ctx.spawn_with("child", Props::new(quiet(&report))).unwrap();
            }
            Call::Message(()) => panic!("expected by this test"),
            _ => {}
        })
    });
    let parent =
        kit.spawn_with("parent", props.supervision(SupervisionStrategy::restart())).unwrap();
    parent.tell(()).unwrap();
    assert_eq!(
        all(&probe),
        ["started, children 0", "/parent/child its parent stopped", "started, children 0"]
    );
}

#[test]
fn a_watcher_may_give_the_name_to_a_successor_at_once() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let _parent = kit
        .spawn("parent", move || {
            let mut left = 3;
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
                if matches!(call, Call::Started | Call::Gone(_)) && left > 0 {
                    left -= 1;
                    let child = ctx.spawn_with("child", Props::new(quiet(&report))).unwrap();
                    ctx.watch(&child);
                    child.stop();
                }
            })
        })
        .unwrap();
    assert_eq!(all(&probe), ["/parent/child asked to stop"; 3]);
}

#[test]
fn a_stash_has_its_bound_keeps_the_order_and_is_not_lost_with_its_actor() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let props = Props::new(move || {
        let report = report.clone();
        let mut open = false;
        Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
            Call::Message(0) => {
                open = true;
                ctx.unstash_all();
                assert_eq!(ctx.stashed(), 0);
            }
            Call::Message(number) if open => report.tell(number.to_string()).unwrap(),
            Call::Message(number) => {
                if let Err(StashFull { capacity, message }) = ctx.stash(number) {
                    report.tell(format!("{message} is one too many for {capacity}")).unwrap();
                }
            }
            _ => {}
        })
    });
    let actor = kit.spawn_with("a", props.stash(3)).unwrap();
    for number in [1, 2, 3, 4, 0, 5] {
        actor.tell(number).unwrap();
    }
    assert_eq!(all(&probe), ["4 is one too many for 3", "1", "2", "3", "5"]);
    let report = probe.actor().clone();
    let keeps = kit
        .spawn("keeps", move || {
            let _report = report;
            Script::new(|call: Call<u32>, ctx: &mut Context<Script<u32>>| {
                if let Call::Message(number) = call {
                    ctx.stash(number).unwrap();
                }
            })
        })
        .unwrap();
    keeps.tell(1).unwrap();
    keeps.tell(2).unwrap();
    keeps.stop();
    kit.settle();
    assert_eq!(kit.dead_letters().len(), 2);
}

#[test]
fn an_actor_that_stops_instead_of_being_restarted_is_not_made_again() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let props = Props::new(move || {
        let report = report.clone();
        Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
            Call::Started => report.tell("started".to_owned()).unwrap(),
            Call::Message(()) => panic!("expected by this test"),
            Call::Restarting(..) => ctx.stop(),
            Call::Stopped(_) => unreachable!("it was told that it is being replaced"),
            _ => {}
        })
    });
    let actor = kit.spawn_with("a", props.supervision(SupervisionStrategy::restart())).unwrap();
    actor.tell(()).unwrap();
    assert_eq!(probe.expect_terminated(&actor), StopReason::Itself);
    assert_eq!(all(&probe), ["started"]);
}

#[test]
fn an_actor_that_stops_instead_of_being_restarted_is_not_counted_as_restarted() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u64>("probe");
    let report = probe.actor().clone();
    let props = Props::new(move || {
        let report = report.clone();
        Script::new(move |call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>| {
            match call {
                Call::Message("stop") => {
                    ctx.stop();
                    panic!("expected by this test");
                }
                Call::Message(_) => panic!("expected by this test"),
                Call::Restarting(..) => report.tell(ctx.incarnation()).unwrap(),
                _ => {}
            }
        })
    });
    // (An actor that does not wait for its restart has no timer left.)
    let supervision = SupervisionStrategy::restart().backoff(SECOND, SECOND);
    let actor = kit.spawn_with("a", props.supervision(supervision)).unwrap();
    actor.tell("throw").unwrap();
    kit.advance(SECOND);
    actor.tell("stop").unwrap();
    kit.settle();
    // Each is told that it is replaced, by its own number.
    assert_eq!([probe.expect_message(), probe.expect_message()], [0, 1]);
    assert_eq!(probe.expect_terminated(&actor), StopReason::Itself);
    assert_eq!((actor.metrics().restarts, kit.metrics().restarts), (1, 1));
    assert_eq!(kit.scheduler().timers().pending(), 0);
}

/// Panics when it is dropped.
#[derive(Clone)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("expected by this test");
        }
    }
}

#[test]
fn messages_whose_destructors_panic_harm_nobody_wherever_they_end() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    // In a timer that ends with its actor, in the stash, in the mailbox, as a kept copy, and in a
    // dead letter.
    let props = Props::new(|| {
        Script::new(
            |call: Call<Option<Bomb>>, ctx: &mut Context<Script<Option<Bomb>>>| match call {
                Call::Started => {
                    let timers = ctx.timers();
                    timers.start_single("T", SECOND, Some(Bomb)).unwrap();
                }
                Call::Message(Some(bomb)) => {
                    if let Err(full) = ctx.stash(Some(bomb)) {
                        std::mem::forget(full);
                    }
                }
                _ => {}
            },
        )
    });
    let actor =
        kit.spawn_with("a", props.stash(1).supervision(SupervisionStrategy::resume())).unwrap();
    actor.tell(Some(Bomb)).unwrap();
    kit.settle();
    actor.tell(Some(Bomb)).unwrap();
    actor.kill();
    assert_eq!(probe.expect_terminated(&actor), StopReason::Killed);
    assert_eq!(kit.dead_letters().len(), 2);
    let neighbour = kit.spawn_with("b", Props::new(reporting(probe.actor()))).unwrap();
    neighbour.tell("hello").unwrap();
    assert_eq!(all(&probe), ["1 started", "1 hello"]);
}

/// Pauses of an actor that fails again and again, by a policy with jitter.
fn pauses(kit: &TestKit, name: &str, jitter: mini_actor::backoff::Jitter) -> Vec<Duration> {
    use mini_actor::backoff::BackoffPolicy;
    let probe = kit.probe::<String>(&format!("{name}-probe"));
    let policy =
        BackoffPolicy::builder().initial(ms(100)).cap(SECOND).jitter(jitter).build().unwrap();
    let supervision = SupervisionStrategy::restart().backoff_policy(policy);
    let props = Props::new(reporting(probe.actor())).supervision(supervision);
    let actor = kit.spawn_with(name, props).unwrap();
    kit.settle();
    (0..12)
        .map(|_| {
            actor.tell("throw").unwrap();
            all(&probe);
            let before = kit.elapsed();
            let started = probe.expect_message_within(SECOND);
            assert!(started.contains("started"), "not within the cap, but {started}");
            kit.elapsed() - before
        })
        .collect()
}

#[test]
fn jitter_spreads_restarts_and_stays_inside_the_cap() {
    use mini_actor::backoff::Jitter;
    let kit = TestKit::new("test").unwrap();
    let exact = pauses(&kit, "exact", Jitter::None);
    assert_eq!(exact[..5], [100, 200, 400, 800, 1_000].map(ms));
    assert!(exact[5..].iter().all(|&pause| pause == SECOND));
    let spread: Vec<_> = (0..3).map(|n| pauses(&kit, &format!("a-{n}"), Jitter::Equal)).collect();
    for pauses in &spread {
        for (pause, base) in pauses.iter().zip(&exact) {
            assert!((*base / 2..=*base).contains(pause), "{pause:?} of {base:?}");
        }
    }
    assert!(spread[0] != spread[1] && spread[1] != spread[2], "they would come back together");
}

#[test]
fn a_policy_s_attempts_are_starts_in_a_row_and_begin_anew_when_all_was_well() {
    use mini_actor::backoff::BackoffPolicy;
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let policy =
        BackoffPolicy::builder().initial(ms(10)).cap(ms(40)).max_attempts(3).build().unwrap();
    let supervision = SupervisionStrategy::restart().backoff_policy(policy);
    let props = Props::new(reporting(probe.actor())).supervision(supervision);
    let actor = kit.spawn_with("a", props).unwrap();
    for _ in 0..2 {
        actor.tell("throw").unwrap();
        kit.advance(ms(10));
        actor.tell("throw").unwrap();
        kit.advance(ms(20));
        assert!(!actor.is_stopped(), "two restarts are allowed");
        kit.advance(ms(40));
    }
    actor.tell("throw").unwrap();
    kit.advance(ms(10));
    actor.tell("throw").unwrap();
    kit.advance(ms(20));
    actor.tell("throw").unwrap();
    assert_eq!(probe.expect_terminated(&actor), StopReason::Panicked);
}

#[test]
fn a_limit_of_restarts_within_no_time_is_refused() {
    let kit = TestKit::new("test").unwrap();
    let props = || Props::new(|| Script::new(|_: Call<()>, _| ()));
    let supervision = SupervisionStrategy::restart().limit(1, Duration::ZERO);
    let error = kit.spawn_with("a", props().supervision(supervision)).unwrap_err();
    let expected = "the window of the limit of restarts is 0ns, but it must be at least 1ns";
    assert_eq!(error.to_string(), expected);
    let longest = SupervisionStrategy::restart().limit(1, Duration::MAX);
    assert!(kit.spawn_with("a", props().supervision(longest)).is_ok());
}

#[test]
fn a_panic_that_is_escalated_over_three_generations_counts_once() {
    fn generation(left: u32) -> Props<Script<()>> {
        let make = move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started if left > 0 => drop(ctx.spawn_with("c", generation(left - 1))),
                Call::Message(()) => panic!("expected by this test"),
                _ => {}
            })
        };
        Props::new(make).supervision(SupervisionStrategy::escalate())
    }
    let kit = TestKit::new("test").unwrap();
    let _root = kit.spawn_with("a", generation(3)).unwrap();
    kit.settle();
    let youngest: ActorRef<()> = kit.find("/a/c/c/c").unwrap();
    youngest.tell(()).unwrap();
    kit.settle();
    let metrics = kit.metrics();
    assert_eq!((metrics.panicked, metrics.alive, metrics.stopped), (1, 0, 4));
    // Each generation decided on it, and the hook was told of each decision.
    assert_eq!(kit.panics().len(), 4);
}

#[test]
fn a_message_that_was_stashed_counts_once() {
    let kit = TestKit::new("test").unwrap();
    let mut open = false;
    let actor: ActorRef<u32> = kit
        .spawn("a", move || {
            Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
                Call::Message(0) => {
                    open = true;
                    ctx.unstash_all();
                }
                Call::Message(number) if !open => ctx.stash(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    for number in [1, 2, 3, 0, 4] {
        actor.tell(number).unwrap();
    }
    kit.settle();
    assert_eq!((actor.metrics().processed, kit.metrics().processed), (5, 5));
}

/// Parses lines.
struct Parser(Vec<u32>);

impl Parser {
    fn parse(&mut self, line: &str) -> Result<(), std::num::ParseIntError> {
        self.0.push(line.parse()?);
        Ok(())
    }
}

impl mini_actor::Actor for Parser {
    type Message = &'static str;

    fn receive(&mut self, line: &'static str, ctx: &mut Context<Self>) {
        self.parse(line).unwrap_or_else(|error| ctx.fail(error));
    }

    fn keep(line: &&'static str) -> Option<&'static str> {
        Some(line)
    }

    fn restarting(
        &mut self,
        failure: mini_actor::supervision::Failure<&'static str>,
        _: &mut Context<Self>,
    ) {
        assert_eq!(failure.message, Some("a dozen"));
        assert_eq!(self.0, [12]);
    }
}

#[test]
fn an_error_of_a_handler_goes_to_supervision_as_a_panic_does() {
    let kit = TestKit::new("test").unwrap();
    let supervision = SupervisionStrategy::decide(|panic| match panic.message.as_str() {
        "invalid digit found in string" => Directive::Restart,
        _ => Directive::Stop,
    });
    let props = Props::new(|| Parser(Vec::new())).supervision(supervision);
    let parser = kit.spawn_with("parser", props).unwrap();
    for line in ["12", "a dozen", "13", ""] {
        parser.tell(line).unwrap();
    }
    let failures = kit.panics();
    let decided: Vec<_> = failures.iter().map(|failure| failure.directive).collect();
    assert_eq!(decided, [Directive::Restart, Directive::Stop]);
    assert_eq!((parser.metrics().processed, parser.metrics().restarts), (4, 1));
    assert!(parser.is_stopped());
}
