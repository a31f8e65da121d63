//! Ends that must come: of an activation, an actor, a system, whatever is in a mailbox beside
//! messages.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use common::{Call, LONG, SECOND, Script, ms};
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Overflow, Props, Recipient, StopReason};

/// Takes a slot in the actor's mailbox that no message comes into.
fn leave_a_slot_without_a_message(actor: &ActorRef<u32>) {
    let mapped: Recipient<()> = actor.map(|()| panic!("expected by this test"));
    assert!(catch_unwind(AssertUnwindSafe(|| mapped.tell(()))).is_err());
}

fn idle() -> Script<u32> {
    Script::new(|_, _| {})
}

#[test]
fn a_stop_behind_a_mapping_that_panicked_is_carried_out() {
    let kit = TestKit::new("test").unwrap();
    let actor = kit.spawn("actor", idle).unwrap();
    kit.settle();
    leave_a_slot_without_a_message(&actor);
    actor.stop();
    kit.settle();
    assert!(actor.is_stopped());
    assert_eq!(kit.metrics().alive, 0);
}

#[test]
fn an_actor_whose_mailbox_closes_behind_a_mapping_that_panicked_comes_to_its_end() {
    let kit = TestKit::new("test").unwrap();
    let actor = kit.spawn("actor", idle).unwrap();
    kit.settle();
    actor.stop();
    leave_a_slot_without_a_message(&actor);
    kit.settle();
    assert_eq!(kit.metrics().alive, 0);
    assert!(kit.find::<u32>("/actor").is_none());
}

#[test]
fn a_tick_behind_a_mapping_that_panicked_is_received() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let told = probe.actor().clone();
    let actor = kit
        .spawn("actor", move || {
            Script::new(move |call, ctx| match call {
                Call::Started => ctx.timers().start_single("tick", SECOND, 7).unwrap(),
                Call::Message(number) => told.tell(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    leave_a_slot_without_a_message(&actor);
    kit.advance_while_busy(SECOND);
    kit.settle();
    assert_eq!(probe.try_message(), Some(7));
}

#[test]
fn a_close_behind_a_mapping_that_panics_while_its_actor_is_busy_is_complete() {
    let system = ActorSystem::builder("test").threads(1).shutdown_timeout(LONG).build().unwrap();
    let (go_on, signal) = channel::<()>();
    let (begun, running) = channel();
    let busy = move || {
        Script::new(move |call, _| {
            if let Call::Message(_) = call {
                begun.send(()).unwrap();
                signal.recv().unwrap();
            }
        })
    };
    let actor = system.spawn("busy", busy).unwrap();
    actor.tell(1).unwrap();
    running.recv().unwrap();
    leave_a_slot_without_a_message(&actor);
    // It has no time to wait.
    assert!(!system.close_within(ms(0)).is_complete());
    go_on.send(()).unwrap();
    assert!(system.close().unwrap().is_complete());
}

#[test]
fn an_actor_whose_senders_drop_its_oldest_message_stops_when_it_is_asked_to() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    for round in 0..rounds {
        let props = Props::once(idle).bounded(1, Overflow::DropOldest);
        let actor = system.spawn_with(&format!("actor-{round}"), props).unwrap();
        let sending = Arc::new(AtomicBool::new(true));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let (actor, sending) = (actor.clone(), Arc::clone(&sending));
                std::thread::spawn(move || {
                    while sending.load(Ordering::Relaxed) && actor.tell(1).is_ok() {}
                })
            })
            .collect();
        let end = actor.termination();
        for _ in 0..round % 50 * 20 {
            std::hint::spin_loop();
        }
        actor.stop();
        assert_eq!(end.wait_timeout(LONG), Some(StopReason::Asked));
        sending.store(false, Ordering::Relaxed);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}

#[test]
fn the_last_reference_into_a_deep_tree_is_dropped_on_a_small_stack() {
    /// Has one child, unless it is the last.
    struct Generation(u32, Sender<ActorRef<()>>);

    impl Actor for Generation {
        type Message = ();

        fn started(&mut self, ctx: &mut Context<Self>) {
            let Self(left, last) = self;
            if *left == 0 {
                last.send(ctx.myself().clone()).unwrap();
            } else {
                let child = Self(*left - 1, last.clone());
                ctx.spawn("x", || child).unwrap();
            }
        }

        fn receive(&mut self, (): (), _: &mut Context<Self>) {}
    }
    let kit = TestKit::new("test").unwrap();
    let (sender, last) = channel();
    kit.spawn("x", || Generation(if cfg!(miri) { 20 } else { 2_000 }, sender)).unwrap();
    kit.settle();
    let last = last.recv().unwrap();
    kit.close().unwrap();
    drop(kit);
    let thread = std::thread::Builder::new().stack_size(64 << 10);
    thread.spawn(move || drop(last)).unwrap().join().unwrap();
}
