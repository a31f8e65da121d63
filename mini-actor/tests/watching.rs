//! Watching another actor across a restart of the watcher, in virtual time.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Call, SECOND, Script};
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorRef, Context, Props, Supervision};

/// Watches `x` when it starts, or unwatches it when it starts again. Returns how often it was told of its end.
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
    let props = props.supervision(Supervision::restart().backoff(SECOND, SECOND));
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
