//! Every message is received, becomes a dead letter, or is given back: counted.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use mini_actor::{Actor, ActorSystem, Context};

/// A message that counts its end.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Receiver {
    received: Arc<AtomicU64>,
    /// Stops itself after so many.
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
    let rounds = if cfg!(miri) { 1 } else { 30 };
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
        let patience = if round % 3 == 0 { u64::MAX } else { each * round / 10 + 1 };
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
            thread::sleep(Duration::from_micros(200 * round));
            system.close().unwrap();
        }
        let (mut given_back, mut cancelled) = (0, 0);
        for sender in senders {
            let (back, not) = sender.join().unwrap();
            given_back += back;
            cancelled += not;
        }
        system.close().unwrap();
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
        ctx.set_receive_timeout(every);
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
    use mini_actor::{Overflow, Props, Supervision};
    let pause = Duration::from_micros(50);
    Props::new(make)
        .bounded(64, Overflow::DropOldest)
        .supervision(Supervision::restart().backoff(pause, 4 * pause))
}

/// Everything at once; what is looked at is that every message ends, and that closing does.
#[test]
fn every_message_ends_when_failures_restarts_questions_timers_kills_and_a_close_race() {
    std::panic::set_hook(Box::new(|info| {
        let expected = info.payload().downcast_ref::<&str>() == Some(&"expected by this test");
        if !expected {
            eprintln!("{info}");
        }
    }));
    let rounds = if cfg!(miri) { 1 } else { 25 };
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
            thread::sleep(Duration::from_micros(300 * round));
            assert!(system.close_within(Duration::from_secs(60)).is_complete());
        }
        for sender in senders {
            sender.join().unwrap();
        }
        let report = system.close_within(Duration::from_secs(60));
        assert!(report.is_complete(), "{report}");
        drop((system, actor));
        // A reference of a thread that has just ended may be the last.
        while ended.load(Ordering::SeqCst) < SENDERS * each {
            thread::yield_now();
        }
        assert_eq!(ended.load(Ordering::SeqCst), SENDERS * each);
    }
}
