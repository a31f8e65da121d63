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
