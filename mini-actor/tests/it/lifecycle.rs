//! Starting, receiving, stopping, panicking.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context as TaskContext, Wake, Waker};

use common::{Call, Event, LONG, SECOND, Script, all, assert_same, close, probe};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props, Reply, SpawnError, StopReason};

#[test]
fn an_actor_is_started_receives_in_order_and_is_stopped_and_dropped_after_what_was_queued() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    for number in 0..100 {
        actor.tell(number).unwrap();
    }
    actor.stop();
    let events = all(&told);
    let mut expected = vec![Event::Started];
    expected.extend((0..100).map(Event::Received));
    expected.extend([Event::Stopped(StopReason::Asked), Event::Dropped]);
    assert_same(&events, &expected);
}

#[test]
fn an_actor_that_stops_itself_leaves_the_rest_as_dead_letters() {
    let (sender, dead) = mpsc::channel();
    let system = ActorSystem::builder("test")
        .on_dead_letter(move |letter| {
            sender.send((letter.recipient.to_owned(), letter.message_type)).unwrap();
        })
        .build()
        .unwrap();
    let hold = Arc::new(Barrier::new(2));
    let held = Arc::clone(&hold);
    struct Holding(Arc<Barrier>);
    impl Actor for Holding {
        type Message = u8;
        fn receive(&mut self, _: u8, ctx: &mut Context<Self>) {
            self.0.wait(); // until more is queued
            ctx.stop();
        }
    }
    let actor = system.spawn("a", move || Holding(held)).unwrap();
    for number in 0..3 {
        actor.tell(number).unwrap();
    }
    hold.wait();
    for _ in 0..2 {
        assert_eq!(dead.recv_timeout(LONG).unwrap(), ("/a".to_owned(), "u8"));
    }
    assert!(actor.is_stopped());
    assert_eq!(system.metrics().dead_letters, 2);
}

#[test]
fn a_message_to_a_stopped_actor_comes_back_with_the_reason() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_: &String, _| ());
    let actor = system.spawn("greeter", factory).unwrap();
    actor.stop();
    all(&told);
    let error = actor.tell("hello".to_owned()).unwrap_err();
    assert_eq!(error.to_string(), "the actor \"/greeter\" has stopped; the message is given back");
    assert_eq!(error.into_message(), "hello");
    actor.stop(); // once more does nothing
}

#[test]
fn a_panic_stops_the_actor_and_nobody_else() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let (factory, told) =
        probe(|message: &u32, _| assert_ne!(*message, 13, "expected by this test"));
    let clumsy = system.spawn("clumsy", factory).unwrap();
    let (factory, neighbour_told) = probe(|_, _| ());
    let neighbour = system.spawn("neighbour", factory).unwrap();
    clumsy.tell(13).unwrap();
    assert_eq!(
        all(&told),
        [Event::Started, Event::Received(13), Event::Stopped(StopReason::Panicked), Event::Dropped]
    );
    neighbour.tell(1).unwrap();
    neighbour.stop();
    assert!(all(&neighbour_told).contains(&Event::Received(1)));
    let metrics = system.metrics();
    assert_eq!(metrics.panicked, 1);
    assert!(clumsy.is_stopped());
}

#[test]
fn a_factory_a_hook_and_a_destructor_that_panic_are_contained() {
    struct Bad;
    impl Actor for Bad {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {}
        fn stopped(&mut self, _: StopReason, _: &mut Context<Self>) {
            panic!("expected by this test");
        }
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }
    let system = ActorSystem::new("test").unwrap();
    let unborn = system.spawn("unborn", || -> Bad { panic!("expected by this test") }).unwrap();
    let bad = system.spawn("bad", || Bad).unwrap();
    bad.stop();
    close(&system);
    assert!(unborn.is_stopped() && bad.is_stopped());
    assert_eq!(system.metrics().panicked, 3);
}

#[test]
fn names_are_unique_among_the_living_and_free_again_afterwards() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_: &(), _| ());
    let first = system.spawn("a", factory).unwrap();
    let (factory, _) = probe(|_: &(), _| ());
    assert_eq!(
        system.spawn("a", factory).unwrap_err(),
        SpawnError::NameTaken { path: "/a".to_owned() }
    );
    first.stop();
    all(&told);
    // It leaves the list right after it was dropped.
    loop {
        let (factory, told) = probe(|_: &(), _| ());
        match system.spawn("a", factory) {
            Ok(second) => {
                assert_ne!(first, second);
                assert_eq!(second.name(), "a");
                second.stop();
                all(&told);
                break;
            }
            Err(SpawnError::NameTaken { .. }) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
    for bad in ["", "a/b", "a\nb"] {
        let (factory, _) = probe(|_: &(), _| ());
        let error = system.spawn(bad, factory).unwrap_err();
        assert!(matches!(error, SpawnError::Name { .. }), "{error}");
    }
}

#[test]
fn an_actor_that_is_flooded_lets_others_have_their_turn() {
    // One thread: the flooding actor sends itself the next message before each return, forever.
    let system = ActorSystem::builder("test").threads(1).throughput(3).build().unwrap();
    struct Busy;
    impl Actor for Busy {
        type Message = ();
        fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
            let _ = ctx.myself().tell(());
        }
    }
    let busy = system.spawn("busy", || Busy).unwrap();
    busy.tell(()).unwrap();
    let (factory, told) = probe(|_, ctx| ctx.stop());
    let other = system.spawn("other", factory).unwrap();
    other.tell(7).unwrap();
    assert!(all(&told).contains(&Event::Received(7)));
    busy.stop();
}

#[test]
fn an_actor_spawns_others_and_schedules_from_its_context() {
    let system = ActorSystem::new("test").unwrap();
    let (sender, receiver) = mpsc::channel();
    struct Child(mpsc::Sender<&'static str>);
    impl Actor for Child {
        type Message = &'static str;
        fn receive(&mut self, message: &'static str, _: &mut Context<Self>) {
            self.0.send(message).unwrap();
        }
    }
    struct Parent(mpsc::Sender<&'static str>);
    impl Actor for Parent {
        type Message = ();
        fn started(&mut self, ctx: &mut Context<Self>) {
            let sender = self.0.clone();
            let child = ctx.system().spawn("child", || Child(sender)).unwrap();
            let _ = ctx
                .scheduler()
                .schedule_once(std::time::Duration::from_millis(1), &child, "later")
                .unwrap();
        }
        fn receive(&mut self, (): (), _: &mut Context<Self>) {}
    }
    let _parent = system.spawn("parent", || Parent(sender)).unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "later");
}

#[test]
fn settings_out_of_range_are_refused_with_the_value_and_the_limit() {
    let message = |builder: mini_actor::Builder| builder.build().unwrap_err().to_string();
    assert_eq!(
        message(ActorSystem::builder("test").throughput(0)),
        "throughput is 0, but it must be between 1 and 1048576"
    );
    assert_eq!(
        message(ActorSystem::builder("test").threads(0)),
        "threads is 0, but it must be between 1 and 1024"
    );
    assert!(message(ActorSystem::builder("")).starts_with("the system's name is \"\", but"));
    assert!(
        message(ActorSystem::builder("test").tick_duration(std::time::Duration::ZERO))
            .starts_with("tick_duration is 0ns")
    );
}

#[test]
fn a_send_error_passes_into_the_usual_boxed_errors_whatever_the_message() {
    struct Runner;
    impl Actor for Runner {
        // `Send`, and not `Sync`.
        type Message = Box<dyn FnOnce() + Send>;
        fn receive(&mut self, message: Self::Message, _: &mut Context<Self>) {
            message();
        }
    }
    fn send(
        runner: &mini_actor::ActorRef<Box<dyn FnOnce() + Send>>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        runner.tell(Box::new(|| ()))?;
        Ok(())
    }
    let system = ActorSystem::new("test").unwrap();
    let runner = system.spawn("runner", || Runner).unwrap();
    send(&runner).unwrap();
    close(&system);
    assert!(send(&runner).unwrap_err().to_string().contains("\"/runner\" has stopped"));
}

#[test]
fn actors_without_a_name_have_one_each_that_nobody_else_can_take() {
    let kit = TestKit::new("test").unwrap();
    let idle = || Props::once(|| Script::new(|_: Call<()>, _| ()));
    let first = kit.spawn_anonymous(idle()).unwrap();
    let second = kit.spawn_anonymous(idle().pinned()).unwrap();
    assert_eq!((first.path(), second.path()), ("/$1", "/$2"));
    assert_eq!(kit.find::<()>("/$2"), Some(second));
    let parent = kit.probe::<String>("parent");
    let report = parent.actor().clone();
    let script = move |call: Call<()>, ctx: &mut Context<Script<()>>| {
        if call == Call::Started {
            let props = Props::once(|| Script::new(|_: Call<()>, _| ()));
            let child = ctx.spawn_anonymous(props).unwrap();
            report.tell(child.path().to_owned()).unwrap();
            assert_eq!(ctx.children().len(), 1);
        }
    };
    kit.spawn("family", move || Script::new(script)).unwrap();
    assert_eq!(parent.expect_message(), "/family/$3");
    let refused = kit.spawn("$4", || Script::new(|_: Call<()>, _| ())).unwrap_err();
    assert!(refused.to_string().contains("\"$4\"") && refused.to_string().contains("no '$'"));
}

#[test]
fn what_an_earlier_incarnation_has_piped_can_be_told_from_what_this_one_has() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<(u64, u64)>("probe");
    let report = probe.actor().clone();
    let script = move || {
        let report = report.clone();
        Script::new(move |call: Call<Option<u64>>, ctx: &mut Context<Script<Option<u64>>>| {
            match call {
                Call::Message(Some(piped_by)) => {
                    report.tell((piped_by, ctx.incarnation())).unwrap();
                }
                Call::Message(None) => {
                    let (by, timers) = (ctx.incarnation(), ctx.scheduler().timers().clone());
                    ctx.pipe_to_self(timers.sleep(SECOND), move |_| Some(by));
                    if by == 0 {
                        panic!("expected by this test");
                    }
                }
                _ => {}
            }
        })
    };
    let props = Props::new(script).supervision(SupervisionStrategy::restart());
    let actor = kit.spawn_with("actor", props).unwrap();
    actor.tell(None).unwrap();
    actor.tell(None).unwrap();
    kit.advance(SECOND);
    assert_eq!([probe.expect_message(), probe.expect_message()], [(0, 1), (1, 1)]);
}

#[test]
fn an_actor_that_waits_for_its_children_to_end_can_still_be_killed_with_them() {
    let kit = ActorSystem::builder("test").throughput(1).build_virtual().unwrap();
    let parent = kit
        .spawn("parent", || {
            Script::new(|call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
                Call::Started => {
                    let parent = ctx.myself().clone();
                    let child = move || {
                        Script::new(move |call: Call<u32>, _: &mut Context<Script<u32>>| {
                            if let Call::Message(100) = call {
                                parent.kill();
                            }
                        })
                    };
                    let child = ctx.spawn("child", child).unwrap();
                    (0..300).for_each(|number| child.tell(number).unwrap());
                }
                Call::Message(_) => ctx.stop(),
                _ => {}
            })
        })
        .unwrap();
    parent.tell(0).unwrap();
    kit.settle();
    assert!(parent.is_stopped() && kit.metrics().alive == 0);
    let received = kit.metrics().processed - 1;
    assert!((101..110).contains(&received), "{received} of 300");
}

#[test]
fn a_parent_does_not_list_a_child_whose_end_is_known() {
    /// Asks the parent for its children as soon as it learns of the end.
    struct Asks(ActorRef<Reply<Vec<String>>>, Mutex<mpsc::Sender<Vec<String>>>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let children = self.0.ask(|reply| reply, LONG).wait().unwrap();
            self.1.lock().unwrap().send(children).unwrap();
        }
    }
    struct Parent(mpsc::Sender<ActorRef<()>>);
    impl Actor for Parent {
        type Message = Reply<Vec<String>>;
        fn started(&mut self, ctx: &mut Context<Self>) {
            let child = ctx.spawn("child", || Script::new(|_: Call<()>, _| ())).unwrap();
            self.0.send(child).unwrap();
        }
        fn receive(&mut self, reply: Self::Message, ctx: &mut Context<Self>) {
            reply.send(ctx.children().map(str::to_owned).collect());
        }
    }
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (sender, children) = mpsc::channel();
    let parent = system.spawn("parent", || Parent(sender)).unwrap();
    let child = children.recv_timeout(LONG).unwrap();
    let mut end = child.termination();
    let (sender, listed) = mpsc::channel();
    let waker = Waker::from(Arc::new(Asks(parent, Mutex::new(sender))));
    assert!(Pin::new(&mut end).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    child.stop();
    assert!(listed.recv_timeout(LONG).unwrap().is_empty());
    close(&system);
}
