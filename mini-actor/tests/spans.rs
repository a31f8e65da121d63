//! Messages are received in the `tracing` spans in which they were told, if that was asked for.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;
#[path = "../../lars-scheduler/tests/common/spans.rs"]
mod spans;

use std::future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use common::{Call, LONG, SECOND, Script, close, ms};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, ActorSystem, Builder, Context, Overflow, Props, Reply};
use spans::{Hostile, here, install};
use tracing::{info_span, span};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{self, Layer, SubscriberExt};

fn builder(on: bool) -> Builder {
    install();
    ActorSystem::builder("test").capture_spans(on)
}

fn kit() -> TestKit {
    builder(true).build_virtual().unwrap()
}

/// What an actor was called with, and in which span.
type Seen = Receiver<(u32, Option<&'static str>)>;

/// An actor that tells its messages, and the spans in which it receives them.
fn noting(
    mut act: impl FnMut(u32, &mut Context<Script<u32>>) + Send + 'static,
) -> (impl FnOnce() -> Script<u32> + Send, Seen) {
    let (sender, seen) = channel();
    let act = move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
        if let Call::Message(number) = call {
            sender.send((number, here())).unwrap();
            act(number, ctx);
        }
    };
    (move || Script::new(act), seen)
}

fn spawned(kit: &TestKit, props: Props<Script<u32>>) -> ActorRef<u32> {
    kit.spawn_with("noting", props).unwrap()
}

fn all(seen: &Seen) -> Vec<(u32, Option<&'static str>)> {
    seen.try_iter().collect()
}

#[test]
fn a_message_is_received_in_the_span_in_which_it_was_told_or_in_none() {
    let (kit, (factory, seen)) = (kit(), noting(|_, _| ()));
    let actor = spawned(&kit, Props::once(factory));
    for (number, span) in [(1, info_span!("first")), (3, info_span!("second"))] {
        span.in_scope(|| actor.tell(number).unwrap());
        actor.tell(number + 1).unwrap();
    }
    info_span!("mapped").in_scope(|| actor.map(|it: u64| it as u32).tell(5).unwrap());
    kit.settle();
    let expected =
        [(1, Some("first")), (2, None), (3, Some("second")), (4, None), (5, Some("mapped"))];
    assert_eq!(all(&seen), expected);
    assert_eq!(here(), None, "it was left");
}

#[test]
fn on_the_threads_of_a_system_too_through_many_blocks_of_a_mailbox() {
    let (factory, seen) = noting(|_, _| ());
    let system = builder(true).threads(2).build().unwrap();
    let actor = system.spawn("noting", factory).unwrap();
    thread::scope(|scope| {
        for sender in 0..3 {
            let actor = &actor;
            scope.spawn(move || {
                for number in 0..1_000 {
                    let tell = || actor.tell(10 * number + sender).unwrap();
                    match sender {
                        0 => tell(),
                        1 => info_span!("one").in_scope(tell),
                        _ => info_span!("two").in_scope(tell),
                    }
                }
            });
        }
    });
    for _ in 0..3_000 {
        let (number, span) = seen.recv_timeout(LONG).unwrap();
        assert_eq!(span, [None, Some("one"), Some("two")][number as usize % 10]);
    }
    close(&system);
}

#[test]
fn questions_scheduled_sends_and_timers_of_actors_have_the_spans_of_their_calls() {
    let (factory, seen) = noting(|number, ctx| {
        if number == 0 {
            let timers = ctx.timers();
            timers.start_single("once", 10 * SECOND, 10).unwrap();
            timers.start_with_fixed_delay("delay", 11 * SECOND, SECOND, || 11).unwrap();
            timers.start_at_fixed_rate("rate", 12 * SECOND, 10 * SECOND, || 12).unwrap();
        }
    });
    let kit = kit();
    let actor = spawned(&kit, Props::once(factory));
    info_span!("start").in_scope(|| actor.tell(0).unwrap());
    let scheduler = kit.scheduler();
    let every = info_span!("send").in_scope(|| {
        let _ = scheduler.schedule_once(SECOND, &actor, 1).unwrap();
        scheduler.schedule_at_fixed_rate(2 * SECOND, SECOND, &actor, 2).unwrap()
    });
    let _ = scheduler.schedule_once(SECOND, &actor, 3).unwrap();
    kit.advance(3 * SECOND);
    every.cancel();
    let (start, send) = (Some("start"), Some("send"));
    assert_eq!(all(&seen), [(0, start), (1, send), (3, None), (2, send), (2, send)]);
    kit.advance(9 * SECOND + ms(1));
    assert_eq!(all(&seen), [(10, start), (11, start), (12, start), (11, start)]);
}

#[test]
fn a_question_is_received_in_the_span_of_who_asks() {
    struct Clerk;
    impl Actor for Clerk {
        type Message = Reply<Option<&'static str>>;
        fn receive(&mut self, reply: Self::Message, _: &mut Context<Self>) {
            reply.send(here());
        }
    }
    let kit = kit();
    let clerk = kit.spawn("clerk", || Clerk).unwrap();
    let ask = || clerk.ask(|reply| reply, SECOND);
    let (asked, without) = (info_span!("asks").in_scope(ask), ask());
    assert_eq!((asked.wait().unwrap(), without.wait().unwrap()), (Some("asks"), None));
}

#[test]
fn a_piped_future_is_polled_and_its_result_received_in_the_span_in_which_it_was_piped() {
    let (sender, polled) = channel();
    let (factory, seen) = noting(move |number, ctx| {
        if number == 0 {
            let sender = sender.clone();
            let future = future::poll_fn(move |_| {
                sender.send(here()).unwrap();
                std::task::Poll::Ready(7)
            });
            ctx.pipe_to_self(future, |result| result);
        }
    });
    let kit = kit();
    let actor = spawned(&kit, Props::once(factory));
    info_span!("request").in_scope(|| actor.tell(0).unwrap());
    kit.settle();
    assert_eq!(polled.try_iter().collect::<Vec<_>>(), [Some("request")]);
    assert_eq!(all(&seen), [(0, Some("request")), (7, Some("request"))]);
}

#[test]
fn stashed_messages_keep_their_spans_and_a_restart_leaves_the_one_that_failed() {
    let (sender, seen) = channel();
    let act = move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
        Call::Message(9) => ctx.unstash_all(),
        Call::Message(8) => panic!("expected by this test"),
        Call::Message(number) if number < 5 && ctx.stashed() < 3 && ctx.incarnation() == 0 => {
            ctx.stash(number).unwrap();
        }
        Call::Message(number) => sender.send((number, here())).unwrap(),
        Call::Started => sender.send((100, here())).unwrap(),
        _ => {}
    };
    let kit = kit();
    let act = std::sync::Mutex::new(Some(act));
    let act = Arc::new(act);
    let make = move || {
        let act = Arc::clone(&act);
        Script::new(move |call, ctx| {
            let mut act = act.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            (act.as_mut().unwrap())(call, ctx);
        })
    };
    let actor =
        spawned(&kit, Props::new(make).supervision(SupervisionStrategy::restart()).stash(3));
    info_span!("one").in_scope(|| actor.tell(1).unwrap());
    actor.tell(2).unwrap();
    info_span!("three").in_scope(|| actor.tell(3).unwrap());
    info_span!("fails").in_scope(|| actor.tell(8).unwrap());
    kit.settle();
    kit.advance(LONG);
    // A restart unstashes.
    let expected = [(100, None), (100, None), (1, Some("one")), (2, None), (3, Some("three"))];
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_not_received_gives_its_span_back() {
    /// Counts the spans that are closed.
    struct Closed(Arc<AtomicUsize>);
    impl<S: tracing::Subscriber> Layer<S> for Closed {
        fn on_close(&self, _: span::Id, _: layer::Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (kit, (factory, seen)) = (kit(), noting(|_, _| ()));
    let actor = spawned(&kit, Props::once(factory).bounded(2, Overflow::DropOldest));
    let closed = Arc::new(AtomicUsize::new(0));
    let subscriber = Registry::default().with(Closed(Arc::clone(&closed)));
    tracing::subscriber::with_default(subscriber, || {
        info_span!("told").in_scope(|| {
            for number in 0..5 {
                actor.tell(number).unwrap();
            }
            actor.kill();
        });
        assert_eq!(closed.load(Ordering::Relaxed), 0);
        kit.settle();
        assert_eq!(closed.load(Ordering::Relaxed), 1, "nobody keeps it");
    });
    assert!(all(&seen).is_empty());
    assert_eq!(kit.dead_letters().len(), 5);
}

#[test]
fn a_subscriber_that_panics_about_spans_loses_no_message() {
    let (kit, (factory, seen)) = (kit(), noting(|_, _| ()));
    let actor = spawned(&kit, Props::once(factory));
    tracing::subscriber::with_default(Registry::default().with(Hostile), || {
        let span = ManuallyDrop::new(info_span!("request"));
        let _ = catch_unwind(AssertUnwindSafe(|| span.enter())); // it is entered all the same
        for number in 0..3 {
            actor.tell(number).unwrap();
        }
    });
    kit.settle();
    let numbers: Vec<_> = all(&seen).into_iter().map(|(number, _)| number).collect();
    assert_eq!((numbers, kit.panics().len()), (vec![0, 1, 2], 0));
}

#[test]
fn unless_asked_for_no_span_is_kept() {
    let kit = builder(false).build_virtual().unwrap();
    let (factory, seen) = noting(|number, ctx| {
        if number == 0 {
            ctx.timers().start_single("once", SECOND, 1).unwrap();
            ctx.pipe_to_self(future::ready(2), |it| it);
        }
    });
    let actor = spawned(&kit, Props::once(factory));
    info_span!("request").in_scope(|| {
        actor.tell(0).unwrap();
        kit.scheduler().schedule_once(SECOND, &actor, 3).map(drop).unwrap();
    });
    kit.advance(SECOND);
    assert!(all(&seen).iter().all(|(_, span)| span.is_none()));
}
