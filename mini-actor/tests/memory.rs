//! What actors cost in memory. In a binary of their own, and one after the other, because they
//! count what the whole process allocates.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, Context, Props};

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the layout is the caller's, who gives one that may be allocated.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer was allocated above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Idle;

impl Actor for Idle {
    type Message = [u64; 16];
    fn receive(&mut self, _: [u64; 16], _: &mut Context<Self>) {}
}

const ACTORS: usize = 1_000;

/// How many bytes each actor has more than before.
fn each(before: usize) -> usize {
    ALLOCATED.load(Ordering::Relaxed).saturating_sub(before) / ACTORS
}

#[test]
fn an_idle_actor_has_less_than_a_kibibyte_and_keeps_two_blocks_after_a_burst() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let kit = TestKit::new("test").unwrap();
    let before = ALLOCATED.load(Ordering::Relaxed);
    let actors: Vec<ActorRef<_>> =
        (0..ACTORS).map(|number| kit.spawn(&format!("a{number}"), || Idle).unwrap()).collect();
    kit.settle();
    let idle = each(before);
    assert!(idle <= 1024, "an idle actor has {idle} bytes");

    for count in [1, 3_000, 3_000] {
        for actor in &actors {
            for _ in 0..count {
                actor.tell([7; 16]).unwrap();
            }
            kit.settle();
        }
        let (kept, most) = (each(before), idle + if count == 1 { 1024 } else { 2 * 1024 });
        assert!(kept <= most, "after a burst of {count} messages an actor has {kept} bytes");
    }

    // What waits for an end, and does not wait any more, leaves nothing.
    let before = ALLOCATED.load(Ordering::Relaxed);
    for _ in 0..100 * ACTORS {
        assert_eq!(actors[0].termination().wait_timeout(Duration::ZERO), None);
    }
    assert_eq!(each(before), 0);

    drop(kit);
    drop(actors);
}

/// Has a child, and that one as well, until the last.
struct Deep {
    below: usize,
}

impl Actor for Deep {
    type Message = ();

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(below) = self.below.checked_sub(1) {
            ctx.spawn("child", move || Deep { below }).unwrap();
        }
    }

    fn receive(&mut self, (): (), _: &mut Context<Self>) {}
}

#[test]
fn an_actor_deep_in_a_tree_takes_no_more_than_its_share_of_a_path() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let kit = TestKit::new("test").unwrap();
    let before = ALLOCATED.load(Ordering::Relaxed);
    kit.spawn("child", || Deep { below: ACTORS - 1 }).unwrap();
    kit.settle();
    assert_eq!(kit.metrics().alive, ACTORS);
    // Less than a kibibyte, and its child in a map.
    let with_child = each(before);
    assert!(with_child <= 1280, "an actor has {with_child} bytes");
    // A listing of paths, which is long here, leaves nothing.
    let longest = kit.paths().last().map(|path| path.len());
    assert_eq!(longest, Some("/child".len() * ACTORS));
    let listed = each(before);
    assert!(listed <= 1280, "after a listing an actor has {listed} bytes");
    drop(kit);
}

#[test]
fn an_actor_that_has_ended_keeps_no_room_for_messages() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let kit = TestKit::new("test").unwrap();
    let before = ALLOCATED.load(Ordering::Relaxed);
    let spawn = || kit.spawn_anonymous(Props::once(|| Idle)).unwrap();
    let actors: Vec<ActorRef<_>> = (0..ACTORS).map(|_| spawn()).collect();
    kit.settle();
    let idle = each(before);
    for actor in &actors {
        for _ in 0..100 {
            actor.tell([7; 16]).unwrap();
        }
        actor.stop();
    }
    kit.settle();
    assert_eq!(kit.metrics().alive, 0);
    // What the kit notes of each end, and the home that the reference keeps.
    drop(kit.terminations());
    let ended = each(before);
    assert!(ended < idle, "an actor that has ended has {ended} bytes, one that waits {idle}");
    drop((actors, kit));
}
