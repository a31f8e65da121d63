//! Messages that take too long are reported, and others are not.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use common::{Call, LONG, Script, close, ms};
use mini_actor::hooks::SlowReceive;
use mini_actor::{ActorRef, ActorSystem, Builder, Context, Props};

const LIMIT: Duration = ms(20);

/// What was told of a slow message.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    actor: String,
    message_type: &'static str,
    run_time: Duration,
    calls: u64,
    others: Vec<String>,
}

impl Told {
    fn new(slow: &SlowReceive<'_>) -> Self {
        Self {
            actor: slow.actor.to_owned(),
            message_type: slow.message_type,
            run_time: slow.run_time,
            calls: slow.calls,
            others: slow.others.iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether the actor is among those in question.
    fn suspects(&self, path: &str) -> bool {
        self.actor == path || self.others.iter().any(|other| other == path)
    }
}

/// A system of one thread that tells of slow messages.
fn told(builder: Builder) -> (ActorSystem, Receiver<Told>) {
    let (sender, told) = channel();
    let hook = move |slow: &SlowReceive<'_>| drop(sender.send(Told::new(slow)));
    (builder.threads(1).on_slow(hook).build().unwrap(), told)
}

fn watched() -> Builder {
    ActorSystem::builder("test").slow_receive(LIMIT)
}

/// Sleeps as long as it is told.
fn sleeper(system: &ActorSystem, name: &str) -> ActorRef<Duration> {
    let act = |call: Call<Duration>, _: &mut Context<Script<Duration>>| {
        if let Call::Message(time) = call {
            sleep(time);
        }
    };
    system.spawn(name, move || Script::new(act)).unwrap()
}

/// Waits for a report of this kind about a message that slept for three limits. (On a busy machine
/// others are slow, too.)
fn expect(told: &Receiver<Told>, kind: impl Fn(&Told) -> bool) -> Told {
    loop {
        let slow = told.recv_timeout(LONG).unwrap();
        assert!(slow.run_time > LIMIT, "{slow:?}");
        if slow.run_time >= 3 * LIMIT && kind(&slow) {
            return slow;
        }
    }
}

/// Whether `run` lets no message of a system be slow for this long, at least if the machine has
/// time for it.
fn never_slow(long: Duration, run: impl Fn(&ActorSystem)) -> bool {
    (0..20).any(|_| {
        let (system, told) = told(watched());
        run(&system);
        close(&system);
        told.try_iter().all(|slow| slow.run_time < long)
    })
}

#[test]
fn a_message_that_takes_longer_than_the_limit_is_reported_with_its_actor_its_type_and_its_time() {
    let (system, told) = told(watched());
    sleeper(&system, "sleeper").tell(3 * LIMIT).unwrap();
    let slow = expect(&told, |_| true);
    assert_eq!((&*slow.actor, slow.message_type), ("/sleeper", "core::time::Duration"));
    assert!(slow.calls >= 1 && slow.others.is_empty(), "{slow:?}");
    assert!(system.metrics().slow_receives >= 1);
}

#[test]
fn a_slow_message_among_fast_ones_of_many_actors_is_never_missed() {
    let (system, told) = told(watched());
    let actors: Vec<_> = (0..40).map(|i| sleeper(&system, &format!("a{i}"))).collect();
    for _ in 0..50 {
        for actor in &actors {
            actor.tell(Duration::ZERO).unwrap();
        }
    }
    actors[17].tell(3 * LIMIT).unwrap();
    for actor in &actors {
        actor.tell(Duration::ZERO).unwrap();
    }
    let slow = expect(&told, |slow| slow.suspects("/a17"));
    assert!(slow.calls <= 32 && slow.others.len() < 32, "{slow:?}");
}

#[test]
fn a_message_that_is_slow_again_is_named_alone() {
    let (system, told) = told(watched());
    let (first, second) = (sleeper(&system, "first"), sleeper(&system, "second"));
    first.tell(3 * LIMIT).unwrap();
    expect(&told, |_| true);
    for _ in 0..2 {
        second.tell(Duration::ZERO).unwrap();
        first.tell(3 * LIMIT).unwrap();
        let slow = expect(&told, |slow| slow.actor == "/first" && slow.calls == 1);
        assert!(slow.others.is_empty(), "{slow:?}");
    }
}

#[test]
fn with_a_time_slice_a_slow_message_is_named_alone_from_the_first() {
    let (system, told) = told(watched().time_slice(LONG));
    let actor = sleeper(&system, "sleeper");
    for _ in 0..40 {
        actor.tell(Duration::ZERO).unwrap();
    }
    actor.tell(3 * LIMIT).unwrap();
    let slow = expect(&told, |_| true);
    assert_eq!((&*slow.actor, slow.calls), ("/sleeper", 1));
}

#[test]
fn a_limit_without_end_makes_nothing_slow() {
    let (system, told) = told(watched().slow_receive(Duration::MAX));
    sleeper(&system, "sleeper").tell(3 * LIMIT).unwrap();
    close(&system);
    assert_eq!(system.metrics().slow_receives, 0);
    assert!(told.try_recv().is_err());
}

#[test]
fn nothing_is_slow_in_virtual_time() {
    let (sender, told) = channel();
    let kit =
        watched().on_slow(move |slow| drop(sender.send(Told::new(slow)))).build_virtual().unwrap();
    sleeper(&kit, "sleeper").tell(3 * LIMIT).unwrap();
    kit.settle();
    kit.advance(LONG);
    assert_eq!(kit.metrics().slow_receives, 0);
    assert!(told.try_recv().is_err());
}

#[test]
fn an_actor_may_block_on_a_thread_of_its_own() {
    let (system, told) = told(watched());
    let (sender, slept) = channel();
    let pinned = Props::once(|| {
        Script::new(move |call: Call<()>, _| {
            if call == Call::Message(()) {
                sleep(3 * LIMIT);
                sender.send(()).unwrap();
            }
        })
    });
    system.spawn_with("pinned", pinned.pinned()).unwrap().tell(()).unwrap();
    slept.recv_timeout(LONG).unwrap();
    close(&system);
    assert!(told.try_iter().all(|slow| !slow.suspects("/pinned")));
}

#[test]
fn time_in_blocking_is_not_that_of_the_message() {
    let long = 5 * LIMIT;
    let act = move |call: Call<()>, ctx: &mut Context<Script<()>>| {
        if call == Call::Message(()) {
            ctx.blocking(|| sleep(long));
        }
    };
    assert!(never_slow(long, |system| {
        system.spawn("blocks", move || Script::new(act)).unwrap().tell(()).unwrap();
    }));
}

#[test]
fn closures_of_the_scheduler_are_no_messages() {
    let long = 5 * LIMIT;
    assert!(never_slow(long, |system| {
        let (sender, over) = channel();
        let closure = move || {
            sleep(long);
            sender.send(()).unwrap();
        };
        sleeper(system, "sleeper").tell(Duration::ZERO).unwrap();
        let _ = system.scheduler().timers().schedule_once(Duration::ZERO, closure).unwrap();
        over.recv_timeout(LONG).unwrap();
    }));
}

#[test]
fn a_hook_that_panics_changes_nothing() {
    let (sender, called) = channel();
    let hook = move |_: &SlowReceive<'_>| {
        sender.send(()).unwrap();
        panic!("expected by this test");
    };
    let system = watched().threads(1).on_slow(hook).build().unwrap();
    let actor = sleeper(&system, "sleeper");
    for _ in 0..3 {
        actor.tell(3 * LIMIT).unwrap();
        called.recv_timeout(LONG).unwrap();
    }
    close(&system);
    assert_eq!((actor.metrics().processed, system.metrics().panicked), (3, 0));
}

#[test]
fn a_hook_may_send_to_actors() {
    let (sender, received) = channel();
    let place: Arc<OnceLock<ActorRef<String>>> = Arc::default();
    let clerk = Arc::clone(&place);
    let hook = move |slow: &SlowReceive<'_>| {
        if let Some(clerk) = clerk.get() {
            let _ = clerk.tell(slow.actor.to_owned());
        }
    };
    let system = watched().threads(1).on_slow(hook).build().unwrap();
    let act = move |call: Call<String>, _: &mut Context<Script<String>>| {
        if let Call::Message(path) = call {
            let _ = sender.send(path);
        }
    };
    place.set(system.spawn("clerk", move || Script::new(act)).unwrap()).unwrap();
    sleeper(&system, "sleeper").tell(3 * LIMIT).unwrap();
    while received.recv_timeout(LONG).unwrap() != "/sleeper" {}
}
