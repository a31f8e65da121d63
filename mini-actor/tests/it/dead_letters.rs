//! Hooks for dead letters that send messages themselves, and what hooks keep.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use common::{Call, LONG, Script, close};
use mini_actor::{ActorRef, ActorSystem, Overflow, Props, System};

/// Lets a hundred letters die while the hook tells of each of them to an actor whose mailbox is
/// full. Returns how often the hook was called, and how many dead letters there were.
fn letters_about_letters(overflow: Overflow) -> (u64, u64) {
    let audit: Arc<OnceLock<ActorRef<u32>>> = Arc::default();
    let calls = Arc::new(AtomicU64::new(0));
    let (told, counted) = (Arc::clone(&audit), Arc::clone(&calls));
    let kit = ActorSystem::builder("test")
        // All of them in one turn, so that the actor that is told has none in between.
        .throughput(100)
        .on_dead_letter(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            told.get().unwrap().tell(1).unwrap();
        })
        .build_virtual()
        .unwrap();
    let idle = || Props::once(|| Script::new(|_: Call<u32>, _| {}));
    let full = kit.spawn_with("audit", idle().bounded(4, overflow)).unwrap();
    let killed = kit.spawn_with("killed", idle()).unwrap();
    kit.settle();
    audit.set(full).unwrap();
    for number in 0..100 {
        killed.tell(number).unwrap();
    }
    killed.kill();
    kit.settle();
    (calls.load(Ordering::Relaxed), kit.metrics().dead_letters)
}

#[test]
fn a_hook_that_tells_a_full_mailbox_is_not_called_for_what_that_drops() {
    for overflow in [Overflow::DropNewest, Overflow::DropOldest] {
        // Four of those that the hook tells find room.
        assert_eq!(letters_about_letters(overflow), (100, 196), "{overflow:?}");
    }
}

/// Holds what keeps a system, as hooks do.
#[derive(Default)]
struct Held {
    actor: OnceLock<ActorRef<u32>>,
    system: OnceLock<System>,
}

#[test]
fn hooks_that_hold_their_system_or_its_actors_do_not_keep_it() {
    let held = Arc::new(Held::default());
    let (letters, panics, subscribed) = (Arc::clone(&held), Arc::clone(&held), Arc::clone(&held));
    let system = ActorSystem::builder("test")
        .threads(1)
        .on_dead_letter(move |_| assert!(letters.actor.get().is_some()))
        .on_panic(move |_, _| assert!(panics.actor.get().is_some()))
        .build()
        .unwrap();
    system.on_dead_letter(move |_| assert!(subscribed.system.get().is_some())).forever();
    let actor = system.spawn("actor", || Script::new(|_: Call<u32>, _| {})).unwrap();
    held.actor.set(actor.clone()).unwrap();
    held.system.set(system.system()).unwrap();
    // Its last actor ends after the owner has gone.
    let end = actor.termination();
    drop((system, actor));
    assert!(end.wait_timeout(LONG).is_some());
    // The end is told after that; so the rest is a question of moments, but of an unknown number.
    let latest = Instant::now() + LONG;
    while Arc::strong_count(&held) > 1 {
        assert!(Instant::now() < latest, "the system keeps itself");
        std::thread::yield_now();
    }
}

#[test]
fn hooks_of_a_system_that_is_closed_and_dropped_are_dropped_with_it() {
    let held = Arc::new(Held::default());
    let kept = Arc::clone(&held);
    let system = ActorSystem::builder("test")
        .threads(1)
        .on_dead_letter(move |_| assert!(kept.system.get().is_some()))
        .build()
        .unwrap();
    held.system.set(system.system()).unwrap();
    close(&system);
    drop(system);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_hook_that_is_subscribed_for_ever_when_its_system_is_over_is_not_kept() {
    let held = Arc::new(Held::default());
    let kept = Arc::clone(&held);
    let owner = ActorSystem::builder("test").threads(1).build().unwrap();
    let system = owner.system();
    held.system.set(owner.system()).unwrap();
    close(&owner);
    drop(owner);
    system.on_dead_letter(move |_| assert!(kept.system.get().is_some())).forever();
    assert_eq!(Arc::strong_count(&held), 1);
}
