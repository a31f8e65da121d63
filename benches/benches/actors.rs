//! Messages and scheduled messages. Each measurement checks that all arrived.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use benches::{Xorshift, together};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mini_actor::{Actor, ActorRef, ActorSystem, Context};

/// Says when it has received as many messages as it was told to expect.
struct Counter {
    left: u64,
    done: Sender<()>,
}

impl Actor for Counter {
    type Message = u64;

    fn receive(&mut self, _: u64, ctx: &mut Context<Self>) {
        self.left -= 1;
        if self.left == 0 {
            self.done.send(()).expect("the bench waits for it");
            ctx.stop();
        }
    }
}

/// A system with an actor that counts down from `left`, and the channel that says it is done.
fn counter(left: u64) -> (ActorSystem, ActorRef<u64>, Receiver<()>) {
    let system = ActorSystem::new("bench").expect("the defaults are in range");
    let (done, wait) = channel();
    let counter = system.spawn("counter", move || Counter { left, done });
    let counter = counter.expect("the system is open");
    (system, counter, wait)
}

/// What a send costs the sender, while the actor receives on another thread.
fn tell(c: &mut Criterion) {
    c.bench_function("tell", |b| {
        b.iter_custom(|count| {
            let (_system, counter, wait) = counter(count);
            let start = Instant::now();
            for number in 0..count {
                counter.tell(number).expect("it counts them all before it stops");
            }
            let time = start.elapsed();
            wait.recv().expect("the counter tells");
            time
        });
    });
}

/// Several threads send to one actor: the time until the last message is received.
fn many_to_one(c: &mut Criterion) {
    let mut group = c.benchmark_group("many_to_one");
    for senders in [1, 4] {
        group.bench_function(BenchmarkId::from_parameter(senders), |b| {
            b.iter_custom(|count| {
                let each = count.div_ceil(senders);
                let (_system, counter, wait) = counter(each * senders);
                let start = Instant::now();
                together(senders, |_| {
                    for number in 0..each {
                        counter.tell(number).expect("it counts them all before it stops");
                    }
                });
                wait.recv().expect("the counter tells");
                start.elapsed()
            });
        });
    }
    group.finish();
}

/// Two actors send one message to and fro: the time of a round trip.
fn ping_pong(c: &mut Criterion) {
    struct Pong;
    impl Actor for Pong {
        type Message = ActorRef<()>;
        fn receive(&mut self, from: ActorRef<()>, _: &mut Context<Self>) {
            from.tell(()).expect("ping waits for it");
        }
    }
    struct Ping {
        left: u64,
        done: Sender<()>,
        other: ActorRef<ActorRef<()>>,
    }
    impl Actor for Ping {
        type Message = ();
        fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
            if self.left == 0 {
                self.done.send(()).expect("the bench waits for it");
                ctx.stop();
                return;
            }
            self.left -= 1;
            self.other.tell(ctx.myself().clone()).expect("pong does not stop");
        }
    }
    c.bench_function("ping_pong", |b| {
        b.iter_custom(|count| {
            let system = ActorSystem::new("bench").expect("the defaults are in range");
            let pong = system.spawn("pong", || Pong).expect("the system is open");
            let (done, wait) = channel();
            let ping = system
                .spawn("ping", move || Ping { left: count, done, other: pong })
                .expect("the system is open");
            let start = Instant::now();
            ping.tell(()).expect("ping has just been made");
            wait.recv().expect("ping tells");
            start.elapsed()
        });
    });
}

/// Ten thousand actors get messages from one thread, each in turn: the time until the last is
/// received.
fn fan(c: &mut Criterion) {
    const ACTORS: u64 = 10_000;
    c.bench_function("fan_of_10000", |b| {
        b.iter_custom(|count| {
            let system = ActorSystem::new("bench").expect("the defaults are in range");
            let each = count.div_ceil(ACTORS);
            let (done, wait) = channel();
            let actors: Vec<_> = (0..ACTORS)
                .map(|number| {
                    let done = done.clone();
                    system
                        .spawn(&format!("a{number}"), move || Counter { left: each, done })
                        .expect("the system is open")
                })
                .collect();
            let start = Instant::now();
            for number in 0..each {
                for actor in &actors {
                    actor.tell(number).expect("it counts them all before it stops");
                }
            }
            assert_eq!(wait.iter().take(ACTORS as usize).count(), ACTORS as usize);
            // Criterion wants the time for `count`, and there were some more.
            start.elapsed().mul_f64(count as f64 / (each * ACTORS) as f64)
        });
    });
}

/// Questions, one after the other, from outside: each waits for its answer.
fn ask(c: &mut Criterion) {
    struct Echo;
    impl Actor for Echo {
        type Message = mini_actor::Reply<u64>;
        fn receive(&mut self, reply: Self::Message, _: &mut Context<Self>) {
            reply.send(7);
        }
    }
    c.bench_function("ask", |b| {
        let system = ActorSystem::new("bench").expect("the defaults are in range");
        let echo = system.spawn("echo", || Echo).expect("the system is open");
        b.iter(|| {
            let answer = echo.ask(|reply| reply, Duration::from_secs(60)).wait();
            assert_eq!(answer, Ok(7));
        });
    });
}

/// The cost of a scheduled send to its caller.
fn scheduled_send(c: &mut Criterion) {
    c.bench_function("scheduled_send", |b| {
        b.iter_custom(|count| {
            let (system, counter, wait) = counter(count);
            let mut random = Xorshift::new(0);
            let start = Instant::now();
            for number in 0..count {
                let delay = Duration::from_micros(random.number() % 50_000);
                let _ = system
                    .scheduler()
                    .schedule_once(delay, &counter, number)
                    .expect("the system is open");
            }
            let time = start.elapsed();
            wait.recv().expect("all are delivered");
            time
        });
    });
}

criterion_group!(benches, tell, many_to_one, ping_pong, fan, ask, scheduled_send);
criterion_main!(benches);
