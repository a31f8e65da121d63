//! Every message is received, becomes a dead letter, or is given back: counted.
//!
//! `LARS_STRESS=10 cargo test --release -p mini-actor --test stress -- --nocapture` makes ten times
//! as many rounds, and says how many messages that were.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::close;
use mini_actor::{Actor, ActorSystem, Context};

/// How many rounds: `full`, times what `LARS_STRESS` says.
fn rounds(full: u64) -> u64 {
    if cfg!(miri) { 1 } else { full * factor().unwrap_or(1) }
}

fn factor() -> Option<u64> {
    let factor = std::env::var("LARS_STRESS").ok()?;
    Some(factor.parse().expect("LARS_STRESS is a whole number"))
}

/// Says what was counted, to whoever has asked for more.
fn tell(what: &str, counts: &[(&str, u64)]) {
    if factor().is_some() {
        println!("{what}: {counts:?}");
    }
}

/// A message that counts its end.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Receiver {
    received: Arc<AtomicU64>,
    /// Stops itself after this many.
    patience: u64,
}

impl Actor for Receiver {
    type Message = Counted;

    fn receive(&mut self, _: Counted, ctx: &mut Context<Self>) {
        self.received.fetch_add(1, Ordering::SeqCst);
        self.patience -= 1;
        if self.patience == 0 {
            ctx.stop();
        }
    }
}

#[test]
fn every_message_is_received_buried_or_given_back_when_senders_timers_and_stops_race() {
    let rounds = rounds(30);
    let each: u64 = if cfg!(miri) { 20 } else { 20_000 };
    const SENDERS: u64 = 3;
    for round in 0..rounds {
        let system = ActorSystem::builder("stress")
            .threads(2)
            .throughput(5)
            .tick_duration(Duration::from_micros(50))
            .build()
            .unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let ended = Arc::new(AtomicU64::new(0));
        let inside = Arc::clone(&received);
        let patience = if round % 3 == 0 { u64::MAX } else { each * (round % 30) / 10 + 1 };
        let actor =
            system.spawn("receiver", move || Receiver { received: inside, patience }).unwrap();
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (actor, ended) = (actor.clone(), Arc::clone(&ended));
                let scheduler = system.scheduler().clone();
                thread::spawn(move || {
                    let (mut given_back, mut cancelled) = (0_u64, 0_u64);
                    for number in 0..each {
                        let message = Counted(Arc::clone(&ended));
                        if number % 2 == 0 {
                            given_back += u64::from(actor.tell(message).is_err());
                            continue;
                        }
                        let delay = Duration::from_micros(number * 7 % 900);
                        match scheduler.schedule_once(delay, &actor, message) {
                            Err(refused) => {
                                drop(refused.into_task());
                                given_back += 1;
                            }
                            Ok(send) if number % 5 == 0 => cancelled += u64::from(send.cancel()),
                            Ok(_) => {}
                        }
                        if sender == 0 && number == each / 2 && round % 3 == 1 {
                            actor.stop();
                        }
                    }
                    (given_back, cancelled)
                })
            })
            .collect();
        if round % 2 == 0 {
            thread::sleep(Duration::from_micros(200 * (round % 30)));
            close(&system);
        }
        let (mut given_back, mut cancelled) = (0, 0);
        for sender in senders {
            let (back, not) = sender.join().unwrap();
            given_back += back;
            cancelled += not;
        }
        close(&system);
        // A message that raced with the end is buried by an activation of its own.
        let sum = || {
            received.load(Ordering::SeqCst) + system.metrics().dead_letters + given_back + cancelled
        };
        while sum() < SENDERS * each {
            thread::yield_now();
        }
        assert_eq!(sum(), SENDERS * each);
        while ended.load(Ordering::SeqCst) < SENDERS * each {
            thread::yield_now();
        }
        assert_eq!(ended.load(Ordering::SeqCst), SENDERS * each);
    }
}

/// What a clumsy actor is sent.
enum Work {
    Message(Counted),
    Throw(Counted),
    Question(Counted, mini_actor::Reply<u64>),
}

/// Fails, answers, stashes, has timers, and children that do the same.
struct Clumsy {
    received: Arc<AtomicU64>,
    depth: u32,
}

impl Actor for Clumsy {
    type Message = Work;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let every = Duration::from_micros(300);
        let received = Arc::clone(&self.received);
        let _ = ctx.timers().start_with_fixed_delay("tick", every, every, move || {
            // Not counted by anybody: its end is of no interest.
            Work::Message(Counted(Arc::clone(&received)))
        });
        let _ = ctx.set_receive_timeout(every);
        if self.depth > 0 {
            let (received, depth) = (Arc::clone(&self.received), self.depth - 1);
            let make = move || Clumsy { received: Arc::clone(&received), depth };
            let _ = ctx.spawn_with("child", supervised(make));
        }
    }

    fn receive(&mut self, work: Work, ctx: &mut Context<Self>) {
        match work {
            Work::Throw(message) => {
                drop(message);
                panic!("expected by this test");
            }
            Work::Question(message, reply) => {
                drop(message);
                if reply.is_wanted() {
                    reply.send(1);
                }
            }
            Work::Message(message) => {
                if ctx.stashed() < 3 {
                    let _ = ctx.stash(Work::Message(message));
                } else {
                    ctx.unstash_all();
                }
            }
        }
    }
}

fn supervised(make: impl FnMut() -> Clumsy + Send + 'static) -> mini_actor::Props<Clumsy> {
    use mini_actor::supervision::SupervisionStrategy;
    use mini_actor::{Overflow, Props};
    let pause = Duration::from_micros(50);
    Props::new(make)
        .bounded(64, Overflow::DropOldest)
        .supervision(SupervisionStrategy::restart().backoff(pause, 4 * pause))
}

fn quiet_about_expected_panics() {
    std::panic::set_hook(Box::new(|info| {
        let expected = info.payload().downcast_ref::<&str>() == Some(&"expected by this test");
        if !expected {
            eprintln!("{info}");
        }
    }));
}

/// Everything at once; what is looked at is that every message ends, and that closing does.
#[test]
fn every_message_ends_when_failures_restarts_questions_timers_kills_and_a_close_race() {
    quiet_about_expected_panics();
    let rounds = rounds(25);
    let each: u64 = if cfg!(miri) { 20 } else { 2_000 };
    const SENDERS: u64 = 2;
    for round in 0..rounds {
        let system = ActorSystem::builder("stress")
            .threads(2)
            .throughput(7)
            .tick_duration(Duration::from_micros(50))
            .build()
            .unwrap();
        let (ignored, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let top = Arc::clone(&ignored);
        let make = move || Clumsy { received: Arc::clone(&top), depth: 2 };
        let actor = system.spawn_with("clumsy", supervised(make)).unwrap();
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (actor, ended, system) = (actor.clone(), Arc::clone(&ended), system.system());
                thread::spawn(move || {
                    for number in 0..each {
                        let message = Counted(Arc::clone(&ended));
                        let child = || system.find::<Work>("/clumsy/child/child");
                        let to = if number % 3 == 0 { child() } else { None };
                        let to = to.unwrap_or_else(|| actor.clone());
                        match number % 17 {
                            0 => drop(to.tell(Work::Throw(message))),
                            1 | 2 => {
                                let limit = Duration::from_micros(number % 500);
                                let make = |reply| Work::Question(message, reply);
                                let ask = to.ask(make, limit);
                                if number % 2 == 0 {
                                    drop(ask.wait());
                                }
                            }
                            3 => {
                                let delay = Duration::from_micros(number % 900);
                                let message = Work::Message(message);
                                drop(system.scheduler().schedule_once(delay, &to, message));
                            }
                            _ => drop(to.tell(Work::Message(message))),
                        }
                        if sender == 0 && number == each / 2 {
                            match round % 4 {
                                0 => actor.kill(),
                                1 => actor.stop(),
                                _ => {}
                            }
                        }
                    }
                })
            })
            .collect();
        if round % 2 == 0 {
            thread::sleep(Duration::from_micros(300 * (round % 25)));
            close(&system);
        }
        for sender in senders {
            sender.join().unwrap();
        }
        close(&system);
        drop((system, actor));
        // A reference of a thread that has just ended may be the last.
        while ended.load(Ordering::SeqCst) < SENDERS * each {
            thread::yield_now();
        }
        assert_eq!(ended.load(Ordering::SeqCst), SENDERS * each);
    }
}

/// Fails once in this many messages, and reports each that it has handled.
struct Laborer {
    handled: Arc<AtomicU64>,
    fails_at: u64,
}

impl Actor for Laborer {
    type Message = Counted;

    fn receive(&mut self, _: Counted, _: &mut Context<Self>) {
        let handled = self.handled.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(!handled.is_multiple_of(self.fails_at), "expected by this test");
    }
}

/// Each message has one end and no more, whatever its mailbox and whatever becomes of its actor.
#[test]
fn every_message_has_exactly_one_end_with_each_kind_of_mailbox_and_each_kind_of_end() {
    use mini_actor::supervision::SupervisionStrategy;
    use mini_actor::{Overflow, Props};
    quiet_about_expected_panics();
    let kinds = [
        None,
        Some(Overflow::Fail),
        Some(Overflow::Block(Duration::from_micros(200))),
        Some(Overflow::DropNewest),
        Some(Overflow::DropOldest),
    ];
    let each: u64 = if cfg!(miri) { 12 } else { 10_000 };
    const SENDERS: u64 = 2;
    let (mut all, mut handled_of_all, mut dead, mut back, mut unsent) = (0, 0, 0, 0, 0);
    for round in 0..rounds(20) {
        let system = ActorSystem::builder("stress")
            .threads(2)
            .throughput(16)
            .tick_duration(Duration::from_micros(50))
            .build()
            .unwrap();
        let (handled, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let actors: Vec<_> = kinds
            .into_iter()
            .enumerate()
            .map(|(number, overflow)| {
                let handled = Arc::clone(&handled);
                let make = move || Laborer { handled: Arc::clone(&handled), fails_at: 4_001 };
                let mut props = Props::new(make).supervision(SupervisionStrategy::restart());
                if let Some(overflow) = overflow {
                    props = props.bounded(32, overflow);
                }
                system.spawn_with(&format!("laborer-{number}"), props).unwrap()
            })
            .collect();
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (actors, ended) = (actors.clone(), Arc::clone(&ended));
                let scheduler = system.scheduler().clone();
                thread::spawn(move || {
                    let (mut given_back, mut cancelled) = (0_u64, 0_u64);
                    for number in 0..each {
                        // Ten to one actor, so that bursts have rows.
                        let to = &actors[(number / 10 + sender) as usize % actors.len()];
                        let message = Counted(Arc::clone(&ended));
                        if number % 3 > 0 {
                            given_back += u64::from(to.tell(message).is_err());
                        } else {
                            let delay = Duration::from_micros(number / 64 % 9 * 50);
                            match scheduler.schedule_once(delay, to, message) {
                                Err(_) => given_back += 1,
                                Ok(send) if number % 11 == 0 => {
                                    cancelled += u64::from(send.cancel());
                                }
                                Ok(_) => {}
                            }
                        }
                        if sender == 0 && number == each / 2 {
                            match round % 4 {
                                0 => to.kill(),
                                1 => to.stop(),
                                _ => {}
                            }
                        }
                    }
                    (given_back, cancelled)
                })
            })
            .collect();
        if round % 3 == 0 {
            thread::sleep(Duration::from_micros(500 * (round % 7)));
            close(&system);
        }
        let (mut given_back, mut cancelled) = (0, 0);
        for sender in senders {
            let (refused, not) = sender.join().unwrap();
            given_back += refused;
            cancelled += not;
        }
        close(&system);
        let sent = SENDERS * each;
        let sum = || {
            let letters = system.metrics().dead_letters;
            handled.load(Ordering::SeqCst) + letters + given_back + cancelled
        };
        while sum() < sent || ended.load(Ordering::SeqCst) < sent {
            thread::yield_now();
        }
        assert_eq!((sum(), ended.load(Ordering::SeqCst)), (sent, sent), "round {round}");
        all += sent;
        handled_of_all += handled.load(Ordering::SeqCst);
        dead += system.metrics().dead_letters;
        back += given_back;
        unsent += cancelled;
    }
    assert_eq!(all, handled_of_all + dead + back + unsent);
    let counts = [
        ("sent", all),
        ("accepted", all - back),
        ("handled", handled_of_all),
        ("dead letters", dead),
        ("given back", back),
        ("cancelled", unsent),
    ];
    tell("each kind of mailbox and end", &counts);
}
