//! Foreign code that closes the very system that calls it, and messages that panic when they are
//! dropped while a mailbox closes. In each case everything comes to its end all the same.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use common::{LONG, ms};
use lars_scheduler::Task;
use mini_actor::hooks::ThreadKind;
use mini_actor::test_kit::TestKit;
use mini_actor::timers::TimerKey;
use mini_actor::{
    Actor, ActorRef, ActorSystem, Builder, ClosePolicy, CloseReport, Context, Overflow, Props,
    Recipient, StopReason,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Closes a system from inside one of its hooks, without a limit.
#[derive(Clone, Default)]
struct Closer(Arc<OnceLock<Weak<ActorSystem>>>);

impl Closer {
    /// Builds the system, whose hooks may close it from now on.
    fn build(&self, set: impl FnOnce(Builder) -> Builder) -> Arc<ActorSystem> {
        let system = Arc::new(set(ActorSystem::builder("test").threads(2)).build().unwrap());
        self.0.set(Arc::downgrade(&system)).unwrap();
        system
    }

    fn close(&self) {
        if let Some(system) = self.0.get().and_then(Weak::upgrade) {
            let _ = system.close_within(Duration::MAX);
        }
    }
}

/// Closes the system on a thread of its own, so that a close that waits for itself fails the test.
fn close(system: &Arc<ActorSystem>) -> CloseReport {
    let (done, report) = channel();
    let closing = Arc::clone(system);
    std::thread::spawn(move || done.send(closing.close_within(LONG)).unwrap());
    report.recv_timeout(LONG).expect("closing waits for itself")
}

/// Panics at 13, and closes the system at 7.
struct Simple(Closer);

impl Actor for Simple {
    type Message = u32;

    fn receive(&mut self, number: u32, _: &mut Context<Self>) {
        match number {
            7 => self.0.close(),
            13 => panic!("expected by this test"),
            _ => {}
        }
    }
}

fn simple(system: &ActorSystem, closer: &Closer) -> ActorRef<u32> {
    let closer = closer.clone();
    system.spawn("actor", move || Simple(closer)).unwrap()
}

/// An actor that has stopped.
fn stopped(system: &ActorSystem, closer: &Closer) -> ActorRef<u32> {
    let actor = simple(system, closer);
    actor.stop();
    assert_eq!(actor.termination().wait_timeout(LONG), Some(StopReason::Asked));
    actor
}

#[test]
fn a_hook_for_dead_letters_may_close_the_system_that_is_being_closed_on_its_thread() {
    let (closer, calls) = (Closer::default(), Arc::new(AtomicUsize::new(0)));
    let (inside, counted) = (closer.clone(), Arc::clone(&calls));
    let system = closer.build(|builder| {
        builder.on_dead_letter(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            inside.close();
        })
    });
    let gone = stopped(&system, &closer);
    let other = simple(&system, &closer);
    // Sent by the thread that closes, to an actor that has stopped.
    let _ = system.scheduler().schedule_once(HOUR, &gone, 1).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &other, 2).unwrap();
    let report = close(&system);
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.sent, report.undelivered, report.received), (2, 1, 1));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn a_hook_for_dead_letters_may_close_the_system_on_the_thread_of_an_actor_or_of_the_timers() {
    for killed in [true, false] {
        let closer = Closer::default();
        let inside = closer.clone();
        let system = closer.build(|builder| builder.on_dead_letter(move |_| inside.close()));
        if killed {
            let actor = simple(&system, &closer);
            actor.tell(1).unwrap();
            actor.kill();
        } else {
            let gone = stopped(&system, &closer);
            let _ = system.scheduler().schedule_once(ms(1), &gone, 1).unwrap();
            while system.metrics().dead_letters == 0 {
                std::thread::yield_now();
            }
        }
        let report = close(&system);
        assert!(report.is_complete(), "{report}");
    }
}

#[test]
fn a_hook_for_panics_and_one_for_slow_messages_may_close_the_system() {
    for number in [13, 1] {
        let closer = Closer::default();
        let (on_panic, on_slow) = (closer.clone(), closer.clone());
        let told = Arc::new(OnceLock::new());
        let has_told = Arc::clone(&told);
        let system = closer.build(|builder| {
            builder
                .slow_receive(Duration::from_nanos(1))
                .on_panic(move |_, _| on_panic.close())
                .on_slow(move |_| {
                    // The start of the actor is slow, too.
                    has_told.wait();
                    on_slow.close();
                })
        });
        simple(&system, &closer).tell(number).unwrap();
        told.set(()).unwrap();
        while !system.scheduler().timers().is_stopped() {
            std::thread::yield_now();
        }
        let report = close(&system);
        assert!(report.is_complete(), "{report}");
    }
}

#[test]
fn a_hook_on_the_start_of_a_thread_may_close_the_system() {
    let is_timer: fn(ThreadKind) -> bool = |kind| kind == ThreadKind::Timer;
    let is_actors: fn(ThreadKind) -> bool = |kind| matches!(kind, ThreadKind::Actors { .. });
    let is_pinned: fn(ThreadKind) -> bool = |kind| kind == ThreadKind::Pinned;
    for closes in [is_timer, is_actors, is_pinned] {
        let closer = Closer::default();
        let inside = closer.clone();
        let system = closer.build(|builder| {
            builder.on_thread_start(move |thread| {
                if closes(thread.kind) {
                    // Waits until the system has been built.
                    inside.0.wait();
                    inside.close();
                }
            })
        });
        // This actor may come too late.
        let pinned = closer.clone();
        let _ = system.spawn_with("pinned", Props::once(move || Simple(pinned)).pinned());
        while !system.scheduler().timers().is_stopped() {
            std::thread::yield_now();
        }
        let report = close(&system);
        assert!(report.is_complete(), "{report}");
    }
}

#[test]
fn a_closure_that_is_dropped_by_closing_may_close_the_system() {
    /// Closes the system when it is dropped.
    struct OnDrop(Closer);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    for with_actor in [true, false] {
        let closer = Closer::default();
        let system = closer.build(|builder| builder.close_policy(ClosePolicy::DropPending));
        if with_actor {
            let _ = simple(&system, &closer);
        }
        for marked in [true, false] {
            let held = OnDrop(closer.clone());
            let task = Task::new(move || drop(held));
            let task = if marked { task.run_on_close() } else { task };
            let _ = system.scheduler().timers().schedule_once(HOUR, task).unwrap();
        }
        let report = close(&system);
        assert!(report.is_complete(), "{report}");
        assert_eq!((report.dropped, report.timers_ended), (1, 1));
    }
}

#[test]
fn a_cancelled_hook_may_close_the_system() {
    let closer = Closer::default();
    let system = closer.build(|builder| builder);
    let _ = simple(&system, &closer);
    let hook = closer.clone();
    let task = Task::new(|| ()).on_cancel(move || hook.close());
    let timer = system.scheduler().timers().schedule_once(HOUR, task).unwrap();
    let (done, told) = channel();
    std::thread::spawn(move || done.send(timer.cancel()).unwrap());
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    assert_eq!(system.metrics().alive, 0);
    assert!(close(&system).is_complete());
}

#[test]
fn a_mapping_may_close_the_system_whose_actor_waits_for_its_message() {
    let closer = Closer::default();
    let system = closer.build(|builder| builder);
    let actor = simple(&system, &closer);
    let inside = closer.clone();
    let mapped: Recipient<()> = actor.map(move |()| {
        inside.close();
        1
    });
    let (done, told) = channel();
    std::thread::spawn(move || done.send(mapped.tell(())).unwrap());
    told.recv_timeout(LONG).expect("closing waits for itself").unwrap();
    let report = close(&system);
    assert!(report.is_complete(), "{report}");
    assert_eq!(actor.metrics().processed, 1);
}

#[test]
fn an_actor_may_close_its_system_while_another_thread_closes_it_in_a_hook() {
    let closer = Closer::default();
    let inside = closer.clone();
    let system = closer.build(|builder| builder.on_dead_letter(move |_| inside.close()));
    let gone = stopped(&system, &closer);
    let _ = system.scheduler().schedule_once(HOUR, &gone, 1).unwrap();
    simple(&system, &closer).tell(7).unwrap();
    let report = close(&system);
    assert!(report.is_complete(), "{report}");
}

/// A message that panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert!(std::thread::panicking(), "expected by this test");
    }
}

/// Puts its first two messages aside, and waits at the third.
struct Keeper {
    bombs: Arc<AtomicUsize>,
    received: u32,
    wait: std::sync::mpsc::Receiver<()>,
    entered: std::sync::mpsc::Sender<()>,
}

impl Actor for Keeper {
    type Message = Bomb;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let bomb = Bomb(Arc::clone(&self.bombs));
        ctx.timers().start_single(TimerKey::from("later"), HOUR, bomb).unwrap();
    }

    fn receive(&mut self, bomb: Bomb, ctx: &mut Context<Self>) {
        self.received += 1;
        if self.received < 3 {
            assert!(ctx.stash(bomb).is_ok());
        } else {
            std::mem::forget(bomb);
            self.entered.send(()).unwrap();
            let _ = self.wait.recv();
        }
    }
}

#[test]
fn messages_that_panic_when_they_are_dropped_keep_no_mailbox_from_closing() {
    for overflow in [Overflow::Fail, Overflow::DropOldest] {
        let bombs = Arc::new(AtomicUsize::new(0));
        let system = ActorSystem::builder("test")
            .threads(1)
            .close_policy(ClosePolicy::DropPending)
            .build()
            .unwrap();
        let (release, wait) = channel();
        let (entered, waits) = channel();
        let inside = Arc::clone(&bombs);
        let props = Props::once(move || Keeper { bombs: inside, received: 0, wait, entered })
            .stash(2)
            .bounded(4, overflow);
        let keeper = system.spawn_with("keeper", props).unwrap();
        let bomb = || Bomb(Arc::clone(&bombs));
        for _ in 0..3 {
            assert!(keeper.tell(bomb()).is_ok());
        }
        waits.recv_timeout(LONG).unwrap();
        let mut expected = 3; // two that are put aside, and the one of its timer
        for _ in 0..4 {
            assert!(keeper.tell(bomb()).is_ok());
            expected += 1;
        }
        if overflow == Overflow::DropOldest {
            // One of them becomes a dead letter here.
            assert!(keeper.tell(bomb()).is_ok());
            expected += 1;
        }
        let _ = system.scheduler().schedule_once(HOUR, &keeper, bomb()).map_err(std::mem::forget);
        expected += 1;
        let end = keeper.termination();
        keeper.kill();
        drop(release);
        assert_eq!(end.wait_timeout(LONG), Some(StopReason::Killed));
        let report = system.close_within(LONG);
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.dropped, 1);
        assert_eq!(bombs.load(Ordering::SeqCst), expected);
        // Its name is free, and its mailbox refuses what comes later.
        assert!(system.find::<Bomb>("/keeper").is_none());
        std::mem::forget(keeper.tell(bomb()).unwrap_err());
    }
}

#[test]
fn a_message_that_panics_when_its_sender_gets_it_back_from_a_closing_mailbox_harms_nobody_else() {
    let bombs = Arc::new(AtomicUsize::new(0));
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let (release, wait) = channel();
    let (entered, waits) = channel();
    let inside = Arc::clone(&bombs);
    let props = Props::once(move || Keeper { bombs: inside, received: 2, wait, entered })
        .bounded(1, Overflow::Block(LONG));
    let keeper = system.spawn_with("keeper", props).unwrap();
    let bomb = || Bomb(Arc::clone(&bombs));
    assert!(keeper.tell(bomb()).is_ok());
    waits.recv_timeout(LONG).unwrap();
    assert!(keeper.tell(bomb()).is_ok());
    // These senders wait for room. A message that is refused panics when it is dropped.
    let senders: Vec<_> = (0..2)
        .map(|_| {
            let (keeper, bomb) = (keeper.clone(), bomb());
            std::thread::spawn(move || drop(keeper.tell(bomb)))
        })
        .collect();
    keeper.kill();
    drop(release);
    let refused = senders.into_iter().filter_map(|sender| sender.join().err()).count();
    let report = system.close_within(LONG);
    assert!(report.is_complete(), "{report}");
    assert_eq!(refused, 2);
    // The message in the mailbox, the one of the timer, and the two of the senders.
    assert_eq!(bombs.load(Ordering::SeqCst), 4);
}

#[test]
fn in_virtual_time_a_hook_for_dead_letters_may_close_the_system_while_time_moves_or_it_is_closed() {
    for moves in [true, false] {
        let kit = Arc::new(TestKit::new("test").unwrap());
        let (inside, calls) = (Arc::downgrade(&kit), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&calls);
        let hook = kit.on_dead_letter(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = inside.upgrade().unwrap().close_within(Duration::MAX);
        });
        let gone = kit.probe::<u32>("gone");
        gone.actor().stop();
        kit.settle();
        let other = kit.probe::<u32>("other");
        let _ = kit.scheduler().schedule_once(HOUR, gone.actor(), 1).unwrap();
        let _ = kit.scheduler().schedule_once(HOUR, other.actor(), 2).unwrap();
        if moves {
            kit.advance(HOUR);
        }
        let report = kit.close().unwrap();
        assert!(report.is_complete(), "{report}");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(other.try_message(), Some(2));
        drop(hook);
    }
}
