//! Messages that wait for room in a future.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;

use common::{Call, LONG, Script, close};
use futures::executor::block_on;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorRef, ActorSystem, Context, Overflow, Props, SendError, Unsendable};

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut TaskContext::from_waker(&Waker::from(Arc::clone(self))))
    }
}

/// An actor that does nothing, with a mailbox for one message, which is full.
fn full(kit: &TestKit) -> ActorRef<u32> {
    let props = Props::once(|| Script::new(|_: Call<u32>, _| ())).bounded(1, Overflow::Fail);
    let actor = kit.spawn_with("actor", props).unwrap();
    actor.tell(0).unwrap();
    actor
}

#[test]
fn a_message_is_sent_when_there_is_room_and_not_before() {
    let kit = TestKit::new("test").unwrap();
    let (actor, woken) = (full(&kit), Arc::new(Woken::default()));
    let mut telling = pin!(actor.tell_when_room(1));
    assert_eq!(actor.metrics().mailbox_depth, 1);
    assert!(woken.poll(telling.as_mut()).is_pending());
    assert!(woken.poll(telling.as_mut()).is_pending());
    kit.settle();
    assert_eq!((woken.times(), actor.metrics().processed), (1, 1));
    assert!(matches!(woken.poll(telling), Poll::Ready(Ok(()))));
    kit.settle();
    assert_eq!(actor.metrics().processed, 2);
}

#[test]
fn one_sender_is_woken_for_one_place_and_passes_it_on_if_it_goes() {
    let kit = TestKit::new("test").unwrap();
    let actor = full(&kit);
    let woken: [Arc<Woken>; 3] = Default::default();
    let mut waiting: Vec<_> = woken
        .iter()
        .map(|woken| {
            let mut telling = Box::pin(actor.tell_when_room(1));
            assert!(woken.poll(telling.as_mut()).is_pending());
            telling
        })
        .collect();
    let times = || [0, 1, 2].map(|number: usize| woken[number].times());
    kit.settle();
    assert_eq!(times(), [1, 0, 0]);
    drop(waiting.remove(0));
    assert_eq!(times(), [1, 1, 0]);
    assert!(matches!(woken[1].poll(waiting[0].as_mut()), Poll::Ready(Ok(()))));
    drop(waiting.remove(0));
    assert_eq!(times(), [1, 1, 0], "it has used its place");
    kit.settle();
    assert_eq!(times(), [1, 1, 1]);
}

#[test]
fn places_that_become_free_together_wake_a_sender_each() {
    let kit = TestKit::new("test").unwrap();
    let props = Props::once(|| Script::new(|_: Call<u32>, _| ())).bounded(3, Overflow::Fail);
    let actor = kit.spawn_with("actor", props).unwrap();
    let bad = actor.map(|(): ()| -> u32 { panic!("expected by this test") });
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(bad.tell(())))).is_err());
    }
    actor.tell(0).unwrap();
    let woken: [Arc<Woken>; 3] = Default::default();
    let mut waiting: Vec<_> = woken.iter().map(|_| Box::pin(actor.tell_when_room(1))).collect();
    for (woken, telling) in woken.iter().zip(&mut waiting) {
        assert!(woken.poll(telling.as_mut()).is_pending());
    }
    // The places of both panics become free when the message behind them is received.
    kit.settle();
    assert_eq!(woken.each_ref().map(|it| it.times()), [1, 1, 1]);
}

#[test]
fn senders_that_wait_get_their_messages_back_when_the_actor_stops() {
    let kit = TestKit::new("test").unwrap();
    let (actor, woken) = (full(&kit), Arc::new(Woken::default()));
    let mut waiting: Vec<_> = (1..4).map(|number| Box::pin(actor.tell_when_room(number))).collect();
    for telling in &mut waiting {
        assert!(woken.poll(telling.as_mut()).is_pending());
    }
    actor.kill();
    kit.settle();
    assert_eq!(woken.times(), 3);
    for (telling, number) in waiting.iter_mut().zip(1..) {
        let Poll::Ready(Err(refused)) = woken.poll(telling.as_mut()) else { panic!("it waits") };
        assert_eq!((refused.reason(), refused.into_message()), (Unsendable::Stopped, number));
    }
}

#[test]
fn a_mailbox_without_a_limit_has_room() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    block_on(probe.actor().tell_when_room(7)).unwrap();
    assert_eq!(probe.expect_message(), 7);
}

#[test]
fn all_messages_of_senders_that_race_for_room_arrive_once() {
    const SENDERS: u32 = 4;
    let each = if cfg!(miri) { 20 } else { 2_000 };
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (sender, received) = channel();
    let script = move || {
        Script::new(move |call: Call<(u32, u32)>, _| {
            if let Call::Message(message) = call {
                sender.send(message).unwrap();
            }
        })
    };
    let props = Props::once(script).bounded(2, Overflow::Fail);
    let actor = system.spawn_with("actor", props).unwrap();
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let actor = &actor;
            scope.spawn(move || {
                for number in 0..each {
                    block_on(actor.tell_when_room((sender, number))).unwrap();
                }
            });
        }
    });
    let mut next = [0; SENDERS as usize];
    for _ in 0..SENDERS * each {
        let (sender, number) = received.recv_timeout(LONG).unwrap();
        assert_eq!(number, next[sender as usize]);
        next[sender as usize] += 1;
    }
    close(&system);
}

#[test]
fn a_restart_is_not_held_up_by_a_child_that_waits_for_room_with_an_executor_of_its_own() {
    type Told = Result<(), SendError<u32>>;
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (report, told) = channel::<Told>();
    let (started, has_started) = channel();
    let script = move || {
        let (report, started) = (report.clone(), started.clone());
        Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
            Call::Started => started.send(()).unwrap(),
            Call::Message(0) => {
                let (report, parent) = (report.clone(), ctx.myself().clone());
                // Fills the mailbox, and waits for its parent, which waits for it.
                let child = move |call: Call<()>, _: &mut Context<Script<()>>| {
                    if call == Call::Started {
                        while parent.tell(1).is_ok() {}
                        report.send(block_on(parent.tell_when_room(2))).unwrap();
                    }
                };
                ctx.spawn("child", move || Script::new(child)).unwrap();
                panic!("expected by this test");
            }
            _ => {}
        })
    };
    let props =
        Props::new(script).bounded(1, Overflow::Fail).supervision(SupervisionStrategy::restart());
    let parent = system.spawn_with("parent", props).unwrap();
    has_started.recv_timeout(LONG).unwrap();
    parent.tell(0).unwrap();
    has_started.recv_timeout(LONG).expect("it is restarted");
    let told = told.recv_timeout(LONG).unwrap();
    // Unless the child was asked to stop before it had started.
    if let Err(refused) = told {
        assert_eq!((refused.reason(), refused.into_message()), (Unsendable::Full, 2));
    }
}
