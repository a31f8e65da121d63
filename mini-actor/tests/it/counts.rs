//! Counts of a system and of its actors.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc::channel;
use std::thread;

use common::{Call, LONG, Script, close};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::{ActorRef, ActorSystem, Context, Props};

const MESSAGES: u64 = if cfg!(miri) { 10 } else { 2_000 };
const ACTORS: u64 = 6;

/// Whatever ran where: on threads that steal from each other, on a thread of its own, in an actor
/// that was restarted meanwhile, or in one that has stopped.
#[test]
fn counts_are_exact_when_everything_is_at_rest() {
    let system = ActorSystem::builder("test").threads(3).build().unwrap();
    let (done, ends) = channel();
    let actors: Vec<ActorRef<u64>> = (0..ACTORS)
        .map(|number| {
            let done = done.clone();
            let make = move || {
                let done = done.clone();
                let mut left = 2 * MESSAGES;
                Script::new(move |call, ctx: &mut Context<Script<u64>>| match call {
                    Call::Message(0) => panic!("expected by this test"),
                    Call::Message(_) => {
                        left -= 1;
                        if left == 0 {
                            if number % 2 == 0 {
                                ctx.stop();
                            }
                            done.send(()).unwrap();
                        }
                    }
                    _ => {}
                })
            };
            let props = Props::new(make).supervision(SupervisionStrategy::restart());
            let props = if number % 3 == 0 { props.pinned() } else { props };
            system.spawn_with(&format!("a{number}"), props).unwrap()
        })
        .collect();
    for actor in &actors {
        actor.tell(0).unwrap();
    }
    let sent = ACTORS * (2 * MESSAGES + 1);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for number in 1..=MESSAGES {
                    actors.iter().for_each(|actor| actor.tell(number).unwrap());
                    assert!(system.metrics().processed <= sent);
                }
            });
        }
    });
    for _ in &actors {
        ends.recv_timeout(LONG).unwrap();
    }
    for actor in actors.iter().step_by(2) {
        actor.termination().wait_timeout(LONG).unwrap();
    }
    let metrics = system.metrics();
    assert_eq!((metrics.processed, metrics.panicked, metrics.restarts), (sent, ACTORS, ACTORS));
    assert_eq!((metrics.alive as u64, metrics.stopped), (ACTORS / 2, ACTORS / 2));
    let each: u64 = actors.iter().map(|actor| actor.metrics().processed).sum();
    assert_eq!(each, sent);
    let report = close(&system);
    assert_eq!((report.received, report.actors_stopped as u64), (0, ACTORS / 2));
}

/// Pinned actors take their counts with them when they stop.
#[test]
fn messages_of_actors_that_are_gone_stay_counted() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let mut sent = 0;
    for pinned in [true, false, true] {
        let props = Props::once(|| Script::new(|_: Call<u64>, _| ()));
        let props = if pinned { props.pinned() } else { props };
        let actor = system.spawn_with("a", props).unwrap();
        for number in 0..10 {
            actor.tell(number).unwrap();
        }
        sent += 10;
        let end = actor.termination();
        actor.stop();
        end.wait();
        assert_eq!(system.metrics().processed, sent);
    }
}

#[test]
fn the_busiest_actors_are_those_whose_mailboxes_are_deepest() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    // Holds the only thread, so that nobody receives.
    let (entered, inside) = channel();
    let (open, gate) = channel::<()>();
    let blocks = move || {
        Script::new(move |call, _: &mut Context<Script<u64>>| {
            if let Call::Message(_) = call {
                entered.send(()).unwrap();
                gate.recv().unwrap();
            }
        })
    };
    let holder: ActorRef<u64> = system.spawn_with("holder", Props::once(blocks)).unwrap();
    holder.tell(0).unwrap();
    inside.recv_timeout(LONG).unwrap();
    for number in 0..3_000 {
        let actor: ActorRef<u64> =
            system.spawn(&format!("a{number:04}"), || Script::new(|_, _| ())).unwrap();
        (0..number % 10).for_each(|message| actor.tell(message).unwrap());
    }
    assert!(system.busiest(0).is_empty());
    let busiest = system.busiest(301);
    assert!(busiest[..300].iter().all(|actor| actor.metrics.mailbox_depth == 9));
    assert_eq!((&*busiest[0].path, &*busiest[299].path), ("/a0009", "/a2999"));
    assert_eq!((&*busiest[300].path, busiest[300].metrics.mailbox_depth), ("/a0008", 8));
    assert_eq!(system.busiest(usize::MAX).len(), 3_001);
    open.send(()).unwrap();
}

#[test]
fn the_busiest_actors_are_listed_once_while_others_are_spawned() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let spawn = |name: &str| -> ActorRef<u64> {
        system.spawn(name, || Script::new(|_: Call<u64>, _| ())).unwrap()
    };
    let first = spawn("first");
    thread::scope(|scope| {
        let spawning = scope.spawn(|| (0..MESSAGES).for_each(|n| drop(spawn(&format!("a{n}")))));
        while !spawning.is_finished() {
            let mut paths: Vec<_> =
                system.busiest(usize::MAX).into_iter().map(|actor| actor.path).collect();
            let all = paths.len();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), all);
        }
    });
    assert!(system.busiest(usize::MAX).iter().any(|actor| *actor.path == *first.path()));
}
