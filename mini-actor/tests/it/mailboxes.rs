//! Bounded mailboxes and their policies; references and recipients; threads.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{Call, Event, LONG, Script, all, close, ms, probe};
use mini_actor::hooks::Undelivered;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Overflow, Props, StopReason, Unsendable};

/// An actor that holds still at 0, until the test lets it go.
fn holding(gate: &Arc<Barrier>, told: mpsc::Sender<u32>) -> Props<Script<u32>> {
    let gate = Arc::clone(gate);
    Props::once(move || {
        Script::new(move |call: Call<u32>, _| {
            if let Call::Message(number) = call {
                told.send(number).unwrap();
                if number == 0 {
                    gate.wait();
                }
            }
        })
    })
}

#[test]
fn a_full_mailbox_that_fails_gives_the_message_back_and_says_why() {
    let kit = TestKit::new("test").unwrap();
    let (sender, receiver) = mpsc::channel();
    let props = holding(&Arc::new(Barrier::new(1)), sender).bounded(2, Overflow::Fail);
    let actor = kit.spawn_with("a", props).unwrap();
    for number in [1, 2] {
        actor.tell(number).unwrap();
    }
    let error = actor.tell(3).unwrap_err();
    assert_eq!(error.reason(), Unsendable::Full);
    assert_eq!(error.to_string(), "the actor \"/a\" has a full mailbox; the message is given back");
    assert_eq!(error.into_message(), 3);
    kit.settle();
    actor.tell(4).unwrap();
    kit.settle();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(kit.dead_letters(), []);
}

#[test]
fn a_full_mailbox_drops_the_newest_or_the_oldest_into_the_dead_letters() {
    for (overflow, left) in [(Overflow::DropNewest, [1, 2]), (Overflow::DropOldest, [3, 4])] {
        let kit = TestKit::new("test").unwrap();
        let (sender, receiver) = mpsc::channel();
        let props = holding(&Arc::new(Barrier::new(1)), sender).bounded(2, overflow);
        let actor = kit.spawn_with("a", props).unwrap();
        for number in 1..=4 {
            actor.tell(number).unwrap();
        }
        kit.settle();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), left);
        let letters = kit.dead_letters();
        assert_eq!(letters.len(), 2);
        assert!(letters.iter().all(|letter| letter.reason == Undelivered::Full));
    }
}

#[test]
fn a_sender_to_a_full_mailbox_that_blocks_waits_for_room() {
    let system = ActorSystem::new("test").unwrap();
    let (sender, receiver) = mpsc::channel();
    let gate = Arc::new(Barrier::new(2));
    let props = holding(&gate, sender).bounded(1, Overflow::Block(LONG));
    let actor = system.spawn_with("a", props).unwrap();
    actor.tell(0).unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), 0); // it holds
    actor.tell(1).unwrap(); // fills the mailbox
    let blocked = actor.clone();
    let waiting = std::thread::spawn(move || blocked.tell(2).is_ok());
    gate.wait();
    assert!(waiting.join().unwrap());
    for number in [1, 2] {
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), number);
    }
}

#[test]
fn a_sender_waits_for_room_no_longer_than_the_limit_and_not_for_an_actor_that_stops() {
    let system = ActorSystem::new("test").unwrap();
    for (limit, kill) in [(ms(5), false), (LONG, true)] {
        let (sender, receiver) = mpsc::channel();
        let gate = Arc::new(Barrier::new(2));
        let props = holding(&gate, sender).bounded(1, Overflow::Block(limit));
        let actor = system.spawn_with("a", props).unwrap();
        actor.tell(0).unwrap();
        receiver.recv_timeout(LONG).unwrap();
        actor.tell(1).unwrap();
        let before = Instant::now();
        if kill {
            let blocked = actor.clone();
            let waiting = std::thread::spawn(move || blocked.tell(2).unwrap_err().reason());
            actor.kill();
            gate.wait();
            assert_eq!(waiting.join().unwrap(), Unsendable::Stopped);
        } else {
            assert_eq!(actor.tell(2).unwrap_err().reason(), Unsendable::Full);
            assert!(before.elapsed() >= limit);
            gate.wait();
            actor.stop();
        }
        assert!(actor.termination().wait_timeout(LONG).is_some());
    }
}

/// What an actor hears that tells itself more than its mailbox takes.
fn fills_its_own_mailbox(limit: Duration, pin: fn(Props<Script<u32>>) -> Props<Script<u32>>) {
    let system = ActorSystem::new("test").unwrap();
    let (sender, receiver) = mpsc::channel();
    let props = Props::once(move || {
        Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
            if call == Call::Message(0) {
                ctx.myself().tell(1).unwrap();
                sender.send(ctx.myself().tell(2).unwrap_err().reason()).unwrap();
            }
        })
    });
    let props = pin(props.bounded(1, Overflow::Block(limit)));
    system.spawn_with("a", props).unwrap().tell(0).unwrap();
    assert_eq!(receiver.recv_timeout(LONG), Ok(Unsendable::Full));
}

#[test]
fn an_actor_that_fills_its_own_mailbox_is_not_made_to_wait_for_itself() {
    fills_its_own_mailbox(Duration::MAX, |props| props);
}

#[test]
fn a_pinned_actor_that_fills_its_own_mailbox_is_not_made_to_wait_for_itself() {
    fills_its_own_mailbox(2 * LONG, Props::pinned);
}

#[test]
fn a_sender_in_virtual_time_is_not_made_to_wait_for_room_that_only_it_could_make() {
    let (sender, told) = mpsc::channel();
    thread::spawn(move || {
        let kit = TestKit::new("test").unwrap();
        let props = Props::once(|| Script::new(|_: Call<u32>, _| ()));
        let props = props.bounded(1, Overflow::Block(2 * LONG));
        let actor = kit.spawn_with("actor", props).unwrap();
        actor.tell(1).unwrap();
        sender.send(actor.tell(2).unwrap_err().reason()).unwrap();
    });
    assert_eq!(told.recv_timeout(LONG), Ok(Unsendable::Full));
}

#[test]
fn a_closure_on_the_timer_thread_is_not_made_to_wait_for_room() {
    let system = ActorSystem::new("test").unwrap();
    let (gate, (sender, _receiver)) = (Arc::new(Barrier::new(2)), mpsc::channel());
    let props = holding(&gate, sender).bounded(1, Overflow::Block(2 * LONG));
    let actor = system.spawn_with("actor", props).unwrap();
    let (told, result) = mpsc::channel();
    // The actor holds the first, and the second waits: the next finds no room.
    actor.tell(0).unwrap();
    actor.tell(1).unwrap();
    let again = actor.clone();
    let tell = move || told.send(again.tell(2).unwrap_err().reason()).unwrap();
    let task = lars_scheduler::Task::new(tell).inline();
    let _ = system.scheduler().timers().schedule_once(Duration::ZERO, task).unwrap();
    assert_eq!(result.recv_timeout(LONG), Ok(Unsendable::Full));
    gate.wait();
}

#[test]
fn a_scheduled_message_that_finds_no_room_is_a_dead_letter_and_holds_nobody_up() {
    let kit = TestKit::new("test").unwrap();
    let (sender, _receiver) = mpsc::channel();
    let props =
        holding(&Arc::new(Barrier::new(1)), sender).bounded(1, Overflow::Block(Duration::MAX));
    let actor = kit.spawn_with("a", props).unwrap();
    kit.settle();
    actor.tell(1).unwrap();
    let _ = kit.scheduler().schedule_once(ms(1), &actor, 2).unwrap();
    kit.advance_while_busy(ms(1));
    let letters = kit.dead_letters();
    assert_eq!((letters.len(), letters[0].reason), (1, Undelivered::Full));
}

#[test]
fn senders_that_race_for_a_bounded_mailbox_lose_nothing_whatever_the_policy() {
    const SENDERS: u64 = 3;
    let each = if cfg!(miri) { 20 } else { 3_000 };
    for overflow in
        [Overflow::Fail, Overflow::Block(LONG), Overflow::DropNewest, Overflow::DropOldest]
    {
        let system = ActorSystem::builder("test").threads(2).throughput(3).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let props = Props::once(move || {
            Script::new(move |call: Call<(u64, u64)>, _| {
                if let Call::Message(message) = call {
                    sender.send(message).unwrap();
                }
            })
        });
        let actor = system.spawn_with("a", props.bounded(4, overflow)).unwrap();
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let actor = actor.clone();
                std::thread::spawn(move || {
                    (0..each).filter(|&n| actor.tell((number, n)).is_err()).count() as u64
                })
            })
            .collect();
        let given_back: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        let report = close(&system);
        let mut last = [None; SENDERS as usize];
        let mut received = 0;
        for (number, n) in receiver {
            assert!(last[number as usize] < Some(n), "in order");
            last[number as usize] = Some(n);
            received += 1;
        }
        assert_eq!(received + given_back + report.dead_letters, SENDERS * each, "{overflow:?}");
        if let Overflow::Block(_) = overflow {
            assert_eq!(received, SENDERS * each);
        }
    }
}

#[test]
fn a_mailbox_for_no_message_is_refused() {
    let kit = TestKit::new("test").unwrap();
    let (sender, _receiver) = mpsc::channel();
    let props = holding(&Arc::new(Barrier::new(1)), sender).bounded(0, Overflow::Fail);
    let error = kit.spawn_with("a", props).unwrap_err();
    assert_eq!(error.to_string(), "the mailbox's capacity is 0, but it must be at least 1");
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Protocol {
    Text(String),
    Number(u32),
}

impl From<u32> for Protocol {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

#[test]
fn a_recipient_sends_a_part_of_a_protocol_and_gives_back_what_it_was_handed() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<Protocol>("probe");
    let numbers = probe.actor().recipient::<u32>();
    let words = probe.actor().map(|word: &'static str| {
        assert_ne!(word, "bad", "expected by this test");
        Protocol::Text(word.to_owned())
    });
    numbers.tell(7).unwrap();
    let bad = words.clone();
    let panicked = std::thread::spawn(move || drop(bad.tell("bad"))).join();
    assert!(panicked.is_err(), "the sender's own panic is the sender's");
    words.tell("good").unwrap();
    assert_eq!(probe.expect_message(), Protocol::Number(7));
    assert_eq!(probe.expect_message(), Protocol::Text("good".to_owned()));
    assert_eq!(words.path(), "/probe");
    probe.actor().kill();
    kit.settle();
    assert!(words.is_stopped());
    assert_eq!(words.tell("late").unwrap_err().into_message(), "late");
}

#[test]
fn references_are_equal_if_they_refer_to_the_same_actor_and_weak_ones_keep_nothing() {
    let kit = TestKit::new("test").unwrap();
    let first = kit.probe::<u32>("a").actor().clone();
    let same = kit.find::<u32>("/a").unwrap();
    let other = kit.probe::<u32>("b").actor().clone();
    assert_eq!(first, same);
    assert_ne!(first, other);
    assert_eq!(HashSet::from([first.clone(), same, other]).len(), 2);
    let weak = first.downgrade();
    assert_eq!(weak.upgrade(), Some(first.clone()));
    first.kill();
    kit.settle();
    let id = first.id();
    drop(first);
    assert!(weak.upgrade().is_none());
    assert_ne!(kit.probe::<u32>("a").actor().id(), id, "a successor is another actor");
}

#[test]
fn the_end_of_an_actor_can_be_waited_for_and_awaited_also_afterwards() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, _told) = probe(|_: &(), _| ());
    let actor = system.spawn("a", factory).unwrap();
    assert_eq!(actor.termination().wait_timeout(ms(1)), None);
    let awaited = actor.termination();
    actor.kill();
    assert_eq!(actor.termination().wait_timeout(LONG), Some(StopReason::Killed));
    assert_eq!(futures::executor::block_on(awaited), StopReason::Killed);
    let (factory, _told) = probe(|_: &(), _| ());
    assert!(system.spawn("a", factory).is_ok(), "the name is free");
}

#[test]
fn a_pinned_actor_blocks_nobody_but_itself_and_its_thread_ends_with_it() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let (hold, held) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let (on_exit, exited) = mpsc::channel::<()>();
    let props = Props::once(move || {
        thread_local! {
            static ON_EXIT: std::cell::RefCell<Option<mpsc::Sender<()>>> =
                const { std::cell::RefCell::new(None) };
        }
        ON_EXIT.with(|it| *it.borrow_mut() = Some(on_exit));
        Script::new(move |call: Call<()>, _| {
            if call == Call::Message(()) {
                sender.send(std::thread::current().name().unwrap().to_owned()).unwrap();
                let _ = held.recv();
            }
        })
    });
    let blocks = system.spawn_with("blocks", props.pinned()).unwrap();
    blocks.tell(()).unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "test/blocks-0");
    let (factory, told) = probe(|_, ctx| ctx.stop());
    let other = system.spawn("other", factory).unwrap();
    other.tell(1).unwrap();
    assert!(all(&told).contains(&Event::Received(1)));
    drop(hold);
    blocks.stop();
    assert_eq!(
        exited.recv_timeout(LONG),
        Err(mpsc::RecvTimeoutError::Disconnected),
        "the thread has ended"
    );
    close(&system);
}

#[test]
fn what_waits_for_a_thread_that_is_about_to_block_goes_to_another() {
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let other = system
        .spawn("other", move || {
            Script::new(move |call: Call<()>, _| {
                if call == Call::Message(()) {
                    sender.send(()).unwrap();
                }
            })
        })
        .unwrap();
    let (done, wait) = mpsc::channel();
    let blocks = system
        .spawn("blocks", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
                if call == Call::Message(()) {
                    other.tell(()).unwrap(); // would run next on this thread
                    done.send(ctx.blocking(|| receiver.recv_timeout(LONG))).unwrap();
                }
            })
        })
        .unwrap();
    blocks.tell(()).unwrap();
    assert_eq!(wait.recv_timeout(LONG).unwrap(), Ok(()));
}

#[test]
fn an_actor_whose_time_slice_is_over_lets_others_have_their_turn() {
    let system = ActorSystem::builder("test")
        .threads(1)
        .throughput(1 << 20)
        .time_slice(Duration::from_nanos(1))
        .build()
        .unwrap();
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
    busy.kill();
}

#[test]
fn two_actors_that_keep_each_other_busy_let_others_have_their_turn() {
    // One thread: the two hand its slot for what is next to each other, and the third waits in its
    // queue.
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    #[derive(Clone)]
    enum Play {
        Begin(mini_actor::ActorRef<u32>, mini_actor::ActorRef<Play>),
        Ball(mini_actor::ActorRef<Play>),
    }
    struct Player;
    impl Actor for Player {
        type Message = Play;
        fn receive(&mut self, play: Play, ctx: &mut Context<Self>) {
            let other = match play {
                Play::Begin(third, other) => {
                    third.tell(7).unwrap();
                    other
                }
                Play::Ball(from) => from,
            };
            let _ = other.tell(Play::Ball(ctx.myself().clone()));
        }
    }
    let ping = system.spawn("ping", || Player).unwrap();
    let pong = system.spawn("pong", || Player).unwrap();
    let (factory, told) = probe(|_, ctx| ctx.stop());
    let third = system.spawn("third", factory).unwrap();
    // It has started, and sleeps.
    assert_eq!(told.recv_timeout(LONG).unwrap(), Event::Started);
    ping.tell(Play::Begin(third, pong.clone())).unwrap();
    assert!(all(&told).contains(&Event::Received(7)));
    ping.kill();
    pong.kill();
    close(&system);
}

#[test]
fn in_the_mailbox_of_an_actor_that_has_stopped_nothing_waits() {
    let kit = TestKit::new("test").unwrap();
    for bound in [None, Some(Overflow::Fail), Some(Overflow::DropOldest)] {
        for end in [ActorRef::stop, ActorRef::kill] {
            let props = Props::new(|| Script::new(|_: Call<u32>, _| ()));
            let props = match bound {
                Some(overflow) => props.bounded(100, overflow),
                None => props,
            };
            let actor = kit.spawn_with("a", props).unwrap();
            for number in 0..100 {
                actor.tell(number).unwrap();
            }
            assert_eq!(actor.metrics().mailbox_depth, 100);
            end(&actor);
            kit.settle();
            assert!(actor.is_stopped());
            assert_eq!(actor.metrics().mailbox_depth, 0, "{bound:?}");
        }
    }
}

#[test]
fn counts_say_how_many_messages_wait_and_were_received() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    for number in 0..100 {
        probe.actor().tell(number).unwrap();
    }
    assert_eq!(probe.actor().metrics().mailbox_depth, 100);
    kit.settle();
    let metrics = probe.actor().metrics();
    assert_eq!((metrics.mailbox_depth, metrics.processed, metrics.restarts), (0, 100, 0));
    let (alive, processed) = (kit.metrics().alive, kit.metrics().processed);
    assert_eq!((alive, processed), (1, 100));
    probe.actor().kill();
    kit.settle();
    let metrics = kit.metrics();
    assert_eq!((metrics.alive, metrics.stopped, metrics.processed), (0, 1, 100));
}

#[test]
fn a_subscriber_sees_dead_letters_with_their_content_until_it_goes() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let (sender, receiver) = mpsc::channel();
    let subscription = kit.on_dead_letter(move |letter| {
        sender.send(letter.message.downcast_ref::<u32>().copied()).unwrap();
    });
    let more = kit.on_dead_letter(|_| panic!("a hook that panics harms nobody"));
    for number in [1, 2] {
        probe.actor().tell(number).unwrap();
    }
    probe.actor().kill();
    kit.settle();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [Some(1), Some(2)]);
    drop(subscription);
    drop(more);
    assert!(receiver.recv().is_err(), "the hook is gone");
    assert_eq!(kit.metrics().dead_letters, 2);
}

#[test]
fn a_thread_that_is_called_like_the_timer_thread_waits_for_room_as_others_do() {
    struct Stuck(std::sync::mpsc::Receiver<()>);
    impl mini_actor::Actor for Stuck {
        type Message = u32;
        fn receive(&mut self, _: u32, _: &mut mini_actor::Context<Self>) {
            let _ = self.0.recv();
        }
    }
    let system = mini_actor::ActorSystem::builder("test").build().unwrap();
    let (release, held) = std::sync::mpsc::channel();
    let limit = Duration::from_millis(50);
    let props =
        mini_actor::Props::once(move || Stuck(held)).bounded(1, mini_actor::Overflow::Block(limit));
    let actor = system.spawn_with("stuck", props).unwrap();
    let namesake = std::thread::Builder::new().name("test-scheduler".to_owned());
    let sending = namesake.spawn(move || {
        // The first may be received, and then the second fills the mailbox, or the first does.
        loop {
            let begun = std::time::Instant::now();
            if actor.tell(1).is_err() {
                return begun.elapsed();
            }
        }
    });
    assert!(sending.unwrap().join().unwrap() >= limit, "it did not wait");
    drop(release);
    close(&system);
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_a_mapping_panics() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let props = Props::new(|| Script::new(|_: Call<()>, _| ()));
    let sink = system.spawn_with("sink", props.bounded(1, Overflow::Block(2 * LONG))).unwrap();
    let ((entered, has_entered), (release, hold)) = (mpsc::channel(), mpsc::channel::<()>());
    let (entered, hold) = (Mutex::new(entered), Mutex::new(hold));
    let breaks = sink.map(move |_: u8| {
        entered.lock().unwrap().send(()).unwrap();
        let _ = hold.lock().unwrap().recv();
        panic!("expected by this test")
    });
    let broken = thread::spawn(move || catch_unwind(AssertUnwindSafe(|| breaks.tell(1))).is_err());
    has_entered.recv().unwrap();
    let ((begun, has_begun), (sent, was_sent)) = (mpsc::channel(), mpsc::channel());
    thread::spawn(move || {
        begun.send(()).unwrap();
        sent.send(sink.tell(()).is_ok()).unwrap();
    });
    has_begun.recv().unwrap();
    // It can only fail if the other waits by now, which nobody can see.
    thread::sleep(ms(100));
    drop(release);
    assert!(broken.join().unwrap());
    assert_eq!(was_sent.recv_timeout(LONG), Ok(true));
}

/// Sends through a mapping that sends to the same actor, whose one place is taken by the message
/// that is just being made. Returns what became of the inner message, and of the outer one.
fn send_twice(overflow: Overflow) -> (Option<Unsendable>, bool) {
    let (sender, results) = mpsc::channel();
    thread::spawn(move || {
        let system = ActorSystem::builder("test").threads(1).build().unwrap();
        let props = Props::new(|| Script::new(|_: Call<u8>, _| ())).bounded(1, overflow);
        let sink = system.spawn_with("sink", props).unwrap();
        let (again, (inner, inside)) = (sink.clone(), mpsc::channel());
        let inner = Mutex::new(inner);
        let mapped = sink.map(move |number: u8| {
            let refused = again.tell(number).err().map(|error| error.reason());
            inner.lock().unwrap().send(refused).unwrap();
            number
        });
        let outer = mapped.tell(1).is_ok();
        sender.send((inside.recv().unwrap(), outer)).unwrap();
    });
    results.recv_timeout(LONG).unwrap()
}

#[test]
fn a_mapping_that_sends_to_the_same_actor_does_not_wait_for_itself() {
    assert_eq!(send_twice(Overflow::DropOldest), (Some(Unsendable::Full), true));
    assert_eq!(send_twice(Overflow::Block(Duration::MAX)), (Some(Unsendable::Full), true));
}

#[test]
fn a_subscriber_that_panics_hides_no_dead_letter_from_the_others() {
    let kit = TestKit::new("test").unwrap();
    let _first = kit.on_dead_letter(|_| panic!("expected by this test"));
    let (sender, seen) = mpsc::channel();
    let _second = kit.on_dead_letter(move |letter| sender.send(letter.reason).unwrap());
    let probe = kit.probe::<u8>("probe");
    probe.actor().tell(1).unwrap();
    probe.actor().kill();
    kit.settle();
    assert_eq!(kit.metrics().dead_letters, 1);
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [Undelivered::Stopped]);
}

#[test]
fn the_end_of_an_actor_is_told_each_time_and_to_each_that_waits() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let actor: ActorRef<()> = system.spawn("a", || Script::new(|_: Call<()>, _| ())).unwrap();
    let mut end = actor.termination();
    assert_eq!(end.wait_timeout(Duration::ZERO), None);
    thread::scope(|scope| {
        let waits: Vec<_> = (0..2).map(|_| scope.spawn(|| end.wait_timeout(LONG))).collect();
        actor.stop();
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Some(StopReason::Asked));
        }
    });
    for _ in 0..2 {
        assert_eq!(futures::executor::block_on(&mut end), StopReason::Asked);
        assert_eq!(end.wait_timeout(Duration::ZERO), Some(StopReason::Asked));
    }
}

const SENT: u32 = 100;

/// Actors that send so many messages each to one whose mailbox holds one and blocks, and say how
/// often it was full.
fn flood(system: &ActorSystem, producers: u32, pinned: bool) -> Vec<u32> {
    let (received, is_received) = mpsc::channel();
    let sink = system
        .spawn_with(
            "sink",
            Props::once(move || {
                Script::new(move |call: Call<()>, _| {
                    if call == Call::Message(()) {
                        received.send(()).unwrap();
                    }
                })
            })
            .bounded(1, Overflow::Block(Duration::MAX)),
        )
        .unwrap();
    let (done, all_done) = mpsc::channel();
    for number in 0..producers {
        let (sink, done) = (sink.clone(), done.clone());
        let (mut left, mut full) = (SENT, 0);
        let props = Props::once(move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
                if call != Call::Message(()) {
                    return;
                }
                match sink.tell(()) {
                    Ok(()) => left -= 1,
                    Err(_) => full += 1,
                }
                if left == 0 {
                    done.send(full).unwrap();
                } else {
                    ctx.myself().tell(()).unwrap();
                }
            })
        });
        let props = if pinned { props.pinned() } else { props };
        let producer = system.spawn_with(&format!("producer-{number}"), props).unwrap();
        producer.tell(()).unwrap();
    }
    let full = (0..producers).map(|_| all_done.recv_timeout(LONG).unwrap()).collect();
    for _ in 0..producers * SENT {
        is_received.recv_timeout(LONG).unwrap();
    }
    full
}

#[test]
fn actors_that_find_no_room_leave_a_thread_to_the_one_that_makes_it() {
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    flood(&system, 4, false);
    close(&system);
}

#[test]
fn a_pinned_actor_waits_for_room() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    assert_eq!(flood(&system, 2, true), [0, 0]);
    close(&system);
}

#[test]
fn a_restart_is_not_held_up_by_a_child_that_waits_for_room_in_its_parent() {
    type Told = Result<(), Unsendable>;
    struct Child(ActorRef<u64>, mpsc::Sender<()>, mpsc::Sender<(&'static str, Told)>);
    impl Actor for Child {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            let _ = self.0.tell(1);
            let _ = self.1.send(());
            let tell = |parent: &ActorRef<u64>| parent.tell(2).map_err(|error| error.reason());
            let (parent, told) = (self.0.clone(), self.2.clone());
            thread::spawn(move || told.send(("a thread", tell(&parent))));
            let _ = self.2.send(("the child", tell(&self.0)));
        }
    }
    let system = ActorSystem::builder("t").threads(3).build().unwrap();
    let ((started, has_started), (full, is_full)) = (mpsc::channel(), mpsc::channel());
    let is_full = Arc::new(Mutex::new(is_full));
    let (tell, child_told) = mpsc::channel();
    let props = Props::new(move || {
        let (started, full, is_full) = (started.clone(), full.clone(), Arc::clone(&is_full));
        let tell = tell.clone();
        let mut child = None;
        Script::new(move |call: Call<u64>, ctx: &mut Context<Script<u64>>| match call {
            Call::Started => {
                let (me, full, tell) = (ctx.myself().clone(), full.clone(), tell.clone());
                // On a thread of its own, or it would not wait in any case.
                let props = Props::once(move || Child(me, full, tell)).pinned();
                child = ctx.spawn_with("child", props).ok();
                started.send(()).unwrap();
            }
            Call::Message(0) => {
                child.as_ref().unwrap().tell(()).unwrap();
                ctx.blocking(|| is_full.lock().unwrap().recv().unwrap());
                // So that they wait already, as a rule; what comes of it must be the same.
                thread::sleep(ms(100));
                panic!("expected by this test");
            }
            _ => {}
        })
    });
    let props = props
        .bounded(1, Overflow::Block(Duration::MAX))
        .supervision(SupervisionStrategy::restart());
    let parent = system.spawn_with("parent", props).unwrap();
    has_started.recv_timeout(LONG).unwrap();
    parent.tell(0).unwrap();
    let again = has_started.recv_timeout(LONG);
    let report = if again.is_err() { Some(system.close_within(ms(500))) } else { None };
    assert!(again.is_ok(), "not restarted; closing: {report:?}");
    let mut told: Vec<_> = (0..2).map(|_| child_told.recv_timeout(LONG).unwrap()).collect();
    told.sort_unstable_by_key(|told| told.0);
    // Who is no actor waits until there is room.
    assert_eq!(told, [("a thread", Ok(())), ("the child", Err(Unsendable::Full))]);
}

#[test]
fn counts_of_a_system_never_exceed_what_was_sent() {
    let system = ActorSystem::builder("t").threads(1).build().unwrap();
    for number in 0..300 {
        let idle: Result<ActorRef<()>, _> =
            system.spawn(&format!("idle-{number}"), || Script::new(|_: Call<()>, _| ()));
        assert!(idle.is_ok());
    }
    let sent = Arc::new(AtomicU64::new(0));
    let (watched, observes) = (system.system(), Arc::clone(&sent));
    let over = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&over);
    let observer = thread::spawn(move || {
        let mut most = 0;
        while !end.load(Ordering::Relaxed) {
            let processed = watched.metrics().processed;
            most = most.max(processed.saturating_sub(observes.load(Ordering::SeqCst)));
        }
        most
    });
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        let actor: ActorRef<()> = system.spawn("a", || Script::new(|_: Call<()>, _| ())).unwrap();
        for _ in 0..100 {
            sent.fetch_add(1, Ordering::SeqCst);
            actor.tell(()).unwrap();
        }
        let end = actor.termination();
        actor.stop();
        end.wait_timeout(LONG).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    assert_eq!(observer.join().unwrap(), 0, "messages received that nobody has sent");
}

#[test]
fn a_tick_that_is_not_wanted_any_more_is_not_counted_as_a_message() {
    let kit = TestKit::new("test").unwrap();
    let actor: ActorRef<bool> = kit
        .spawn("a", || {
            Script::new(|call: Call<bool>, ctx: &mut Context<Script<bool>>| match call {
                Call::Started => ctx.timers().start_single("T", ms(10), false).unwrap(),
                Call::Message(true) => assert!(ctx.timers().cancel("T")),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    actor.tell(true).unwrap();
    kit.advance_while_busy(ms(10)); // due, behind the message that cancels it
    kit.settle();
    assert_eq!((actor.metrics().processed, kit.metrics().panicked), (1, 0));
}

/// Tells the actor another one when it is dropped.
struct Nag(Arc<Mutex<Option<ActorRef<Nag>>>>);

impl Drop for Nag {
    fn drop(&mut self) {
        let to = self.0.lock().unwrap().clone();
        if let Some(to) = to {
            let _ = to.tell(Nag(Arc::clone(&self.0)));
        }
    }
}

/// Keeps what it received, in the order.
struct Keeps(Vec<Nag>);

impl Actor for Keeps {
    type Message = Nag;

    fn receive(&mut self, nag: Nag, _: &mut Context<Self>) {
        self.0.push(nag);
    }
}

#[test]
fn what_a_full_mailbox_drops_may_cause_another_message_to_it_and_that_ends() {
    for overflow in [Overflow::DropNewest, Overflow::DropOldest] {
        let kit = TestKit::new("test").unwrap();
        let props = Props::new(|| Script::new(|_: Call<u32>, _| ()));
        let actor = kit.spawn_with("hook", props.bounded(4, overflow)).unwrap();
        let told = actor.clone();
        let subscription = kit.on_dead_letter(move |_| told.tell(99).unwrap());
        (0..10).for_each(|number| actor.tell(number).unwrap());
        // Six that found it full, and the six that the hook sent for them.
        assert_eq!(kit.metrics().dead_letters, 12, "{overflow:?}");
        drop(subscription);
        let props = Props::new(|| Keeps(Vec::new())).bounded(4, overflow);
        let keeps = kit.spawn_with("destructor", props).unwrap();
        let to = Arc::new(Mutex::new(Some(keeps.clone())));
        for _ in 0..10 {
            assert!(keeps.tell(Nag(Arc::clone(&to))).is_ok());
        }
        assert_eq!(keeps.metrics().mailbox_depth, 4, "{overflow:?}");
        // Each of the six that found it full caused eight more, of which the last was leaked.
        assert_eq!(kit.metrics().dead_letters, 12 + 6 * 9, "{overflow:?}");
        *to.lock().unwrap() = None;
    }
}
