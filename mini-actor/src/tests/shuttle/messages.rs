//! Telling: against stops, failures, and mailboxes that are full.

use lars_base::sync::{advance, check, mpsc, thread};

use super::*;
use crate::supervision::SupervisionStrategy;
use crate::{Overflow, Props};

pub(super) fn tellers(
    threads: usize,
    ledger: &Ledger,
    actor: &ActorRef<Letter>,
) -> Vec<thread::JoinHandle<()>> {
    (0..threads)
        .map(|_| {
            let (ledger, actor) = (ledger.clone(), actor.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    tell(&ledger, &actor);
                }
            })
        })
        .collect()
}

#[test]
fn messages_wake_threads_that_fell_asleep() {
    check(2_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let actor = system.spawn("reader", || Reader).unwrap();
        assert!(tell(&ledger, &actor));
        ledger.wait_run(0);
        assert!(tell(&ledger, &actor));
        ledger.wait_run(1);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

#[test]
fn a_message_that_three_threads_tell_while_the_actor_stops_is_received_buried_or_given_back() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let actor = system.spawn("reader", || Reader).unwrap();
        let tellers = tellers(3, &ledger, &actor);
        let end = actor.termination();
        actor.stop();
        end.wait();
        join(tellers);
        assert!(!tell(&ledger, &actor));
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

#[test]
fn a_message_to_an_actor_that_is_killed_is_received_buried_or_given_back() {
    check(2_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let actor = system.spawn("reader", || Reader).unwrap();
        let tellers = tellers(2, &ledger, &actor);
        actor.kill();
        join(tellers);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

/// Fails at every other message.
pub(super) struct Clumsy(pub(super) u32);

impl Actor for Clumsy {
    type Message = Letter;

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
        self.0 += 1;
        if self.0 == 2 {
            // Past the panic hook, which would print the schedule.
            std::panic::resume_unwind(Box::new("expected by this test"));
        }
    }
}

#[test]
fn a_restart_loses_no_message() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let props = Props::new(|| Clumsy(0)).supervision(SupervisionStrategy::restart());
        let actor = system.spawn_with("clumsy", props).unwrap();
        join(tellers(2, &ledger, &actor));
        for number in 0..6 {
            ledger.wait_run(number);
        }
        system.close().unwrap();
        assert_eq!(actor.metrics().restarts, 3);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn a_restart_after_a_while_receives_what_came_meanwhile_also_if_the_system_is_closed() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let supervision = SupervisionStrategy::restart().backoff(TICK, TICK);
        let props = Props::new(|| Clumsy(0)).supervision(supervision);
        let actor = system.spawn_with("clumsy", props).unwrap();
        let tellers = tellers(2, &ledger, &actor);
        for _ in 0..3 {
            advance(TICK);
        }
        system.close().unwrap();
        join(tellers);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn senders_to_a_full_mailbox_wait_until_there_is_room() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let props = Props::once(|| Reader).bounded(1, Overflow::Block(Duration::MAX));
        let actor = system.spawn_with("reader", props).unwrap();
        join(tellers(3, &ledger, &actor));
        system.close().unwrap();
        assert_eq!(ledger.total_ran(), 9);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn senders_that_wait_for_room_go_on_when_time_is_over_or_the_actor_stops() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let props = Props::once(|| Reader).bounded(1, Overflow::Block(TICK));
        let actor = system.spawn_with("reader", props).unwrap();
        let tellers = tellers(2, &ledger, &actor);
        advance(TICK);
        actor.stop();
        join(tellers);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

/// Receives when the model lets it.
struct Gated(mpsc::Receiver<()>);

impl Actor for Gated {
    type Message = Letter;

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        let _ = self.0.recv();
        letter.0.run();
    }
}

#[test]
fn a_sender_that_loses_the_room_to_another_waits_no_longer_than_it_was_told() {
    check(2_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let (open, gate) = mpsc::channel();
        let props = Props::once(|| Gated(gate)).bounded(1, Overflow::Block(2 * TICK));
        let actor = system.spawn_with("gated", props).unwrap();
        // The actor has the first in hand when the second finds room.
        assert!(tell(&ledger, &actor) && tell(&ledger, &actor));
        let tellers: Vec<_> = (0..2)
            .map(|_| {
                let (ledger, actor) = (ledger.clone(), actor.clone());
                thread::spawn(move || tell(&ledger, &actor))
            })
            .collect();
        while actor.cell().mailbox.waiting() < 2 {
            thread::yield_now();
        }
        advance(TICK);
        // Room for one of them. The other waits for the rest of its time.
        open.send(()).unwrap();
        advance(TICK);
        let told = tellers.into_iter().map(|teller| teller.join().unwrap());
        assert!(told.filter(|told| *told).count() <= 1);
        drop(open);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

#[test]
fn senders_that_evict_the_oldest_bury_it_once() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let props = Props::once(|| Reader).bounded(1, Overflow::DropOldest);
        let actor = system.spawn_with("reader", props).unwrap();
        let tellers = tellers(2, &ledger, &actor);
        actor.stop();
        join(tellers);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

/// Waits for the end itself: `close` would ask once more, and so wake an actor that nobody looks
/// at.
#[test]
fn an_actor_whose_oldest_message_is_evicted_while_it_stops_comes_to_its_end() {
    check(5_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let props = Props::once(|| Reader).bounded(1, Overflow::DropOldest);
        let actor = system.spawn_with("reader", props).unwrap();
        let tellers = tellers(2, &ledger, &actor);
        let end = actor.termination();
        actor.stop();
        end.wait();
        join(tellers);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

/// Lets the other go on, and waits for it.
struct Meets(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Actor for Meets {
    type Message = Letter;

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        self.0.send(()).unwrap();
        self.1.recv().unwrap();
        letter.0.run();
    }
}

#[test]
fn actors_that_wait_for_each_other_have_a_thread_each() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let ((to_one, from_two), (to_two, from_one)) = (mpsc::channel(), mpsc::channel());
        let one = system.spawn("one", || Meets(to_two, from_two)).unwrap();
        let two = system.spawn("two", || Meets(to_one, from_one)).unwrap();
        assert!(tell(&ledger, &one) && tell(&ledger, &two));
        ledger.wait_run(0);
        ledger.wait_run(1);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}
