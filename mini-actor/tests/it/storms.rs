//! Storms: very many spawns, ends, watchers and evictions at once, and what must be true of the
//! counts when they are over.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use common::{LONG, close};
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Overflow, Props, Terminated};

fn system() -> ActorSystem {
    ActorSystem::builder("storm").threads(2).throughput(5).build().unwrap()
}

const fn scaled(full: u64) -> u64 {
    if cfg!(miri) { full / 50 + 1 } else { full }
}

/// Runs this on each of so many threads, from a common start, and adds up what they return.
fn sum_of(threads: u64, code: impl Fn(u64) -> u64 + Sync) -> u64 {
    let start = Barrier::new(threads as usize);
    let run = |number| {
        start.wait();
        code(number)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// Counts what it receives. Spawns a child for each message that says so.
struct Counts {
    received: Arc<AtomicU64>,
}

impl Actor for Counts {
    type Message = bool;

    fn receive(&mut self, spawns: bool, ctx: &mut Context<Self>) {
        self.received.fetch_add(1, Ordering::Relaxed);
        if spawns {
            let received = Arc::clone(&self.received);
            // Refused once this actor stops its children: then the message was all.
            if let Ok(child) = ctx.spawn_anonymous(Props::once(move || Counts { received })) {
                child.tell(false).unwrap();
            }
        }
    }
}

#[test]
fn actors_that_threads_spawn_stop_and_kill_at_once_are_all_gone_and_every_message_has_an_end() {
    let system = system();
    let (received, spawned) = (Arc::new(AtomicU64::new(0)), 4 * scaled(1_000));
    let accepted = sum_of(4, |_| {
        let mut accepted = 0;
        for number in 0..spawned / 4 {
            let received = Arc::clone(&received);
            let actor = system.spawn_anonymous(Props::once(move || Counts { received })).unwrap();
            accepted += (0..3).filter(|third| actor.tell(*third == 1).is_ok()).count() as u64;
            if number % 2 == 0 {
                actor.stop()
            } else {
                actor.kill()
            }
            accepted += u64::from(actor.tell(false).is_ok());
        }
        accepted
    });
    close(&system);
    let metrics = system.metrics();
    assert_eq!(metrics.alive, 0);
    // Those beyond are children, each of which was told one message.
    let children = metrics.stopped - spawned;
    let ends = received.load(Ordering::Relaxed) + metrics.dead_letters;
    assert_eq!(ends, accepted + children);
}

#[test]
fn senders_that_evict_and_a_hook_that_tells_the_same_actor_come_to_an_end_and_lose_nothing() {
    let system = Arc::new(system());
    let (received, told) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let inside = Arc::clone(&received);
    let props = Props::once(move || Counts { received: inside }).bounded(8, Overflow::DropOldest);
    let actor = system.spawn_with("counts", props).unwrap();
    let (again, tells) = (actor.clone(), Arc::clone(&told));
    let hook = system.on_dead_letter(move |_| {
        tells.fetch_add(u64::from(again.tell(false).is_ok()), Ordering::Relaxed);
    });
    let accepted =
        sum_of(4, |_| (0..scaled(3_000)).filter(|_| actor.tell(false).is_ok()).count() as u64);
    assert_eq!(accepted, 4 * scaled(3_000), "this policy refuses none");
    close(&system);
    drop(hook);
    let sent = accepted + told.load(Ordering::Relaxed);
    assert_eq!(received.load(Ordering::Relaxed) + system.metrics().dead_letters, sent);
}

/// Watches whom it is told to, and reports each end.
struct Watches {
    number: u64,
    told: mpsc::Sender<(u64, u64)>,
}

impl Actor for Watches {
    type Message = ActorRef<bool>;

    fn receive(&mut self, other: ActorRef<bool>, ctx: &mut Context<Self>) {
        ctx.watch(&other);
    }

    fn terminated(&mut self, gone: Terminated, _: &mut Context<Self>) {
        self.told.send((self.number, gone.id)).unwrap();
    }
}

#[test]
fn each_of_very_many_watchers_learns_of_each_end_once_whenever_it_began_to_watch() {
    let system = system();
    let (told, ends) = mpsc::channel();
    let watchers: Vec<_> = (0..scaled(200))
        .map(|number| {
            let told = told.clone();
            system.spawn_anonymous(Props::once(move || Watches { number, told })).unwrap()
        })
        .collect();
    drop(told);
    let received = Arc::new(AtomicU64::new(0));
    let watched: Vec<_> = (0..20)
        .map(|_| {
            let received = Arc::clone(&received);
            system.spawn_anonymous(Props::once(move || Counts { received })).unwrap()
        })
        .collect();
    // One thread ends them while the others have them watched.
    sum_of(3, |thread| {
        for (number, other) in watched.iter().enumerate() {
            match thread {
                0 if number % 2 == 0 => other.kill(),
                0 => other.stop(),
                _ => {
                    let half = watchers.iter().skip(thread as usize - 1).step_by(2);
                    half.for_each(|watcher| watcher.tell(other.clone()).unwrap());
                }
            }
        }
        0
    });
    let pairs = watchers.len() * watched.len();
    let mut counts = HashMap::new();
    for _ in 0..pairs {
        *counts.entry(ends.recv_timeout(LONG).unwrap()).or_insert(0) += 1;
    }
    assert_eq!((counts.len(), counts.values().max()), (pairs, Some(&1)));
    close(&system);
    assert_eq!(ends.iter().count(), 0, "nobody is told twice");
}

/// Passes each message on.
struct Passes {
    to: Vec<ActorRef<bool>>,
    next: usize,
    passed: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

impl Actor for Passes {
    type Message = bool;

    fn receive(&mut self, message: bool, _: &mut Context<Self>) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.next = (self.next + 1) % self.to.len();
        let passed = self.to[self.next].tell(message).is_ok();
        self.passed.fetch_add(u64::from(passed), Ordering::Relaxed);
    }
}

#[test]
fn what_is_accepted_while_a_system_closes_is_received_or_a_dead_letter_and_counted() {
    for round in 0..if cfg!(miri) { 1 } else { 10 } {
        let system = system();
        let [received, passed] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let received = Arc::clone(&received);
                system.spawn_anonymous(Props::once(move || Counts { received })).unwrap()
            })
            .collect();
        let (received_too, passes) = (Arc::clone(&received), Arc::clone(&passed));
        let front = move || Passes { to: workers, next: 0, passed: passes, received: received_too };
        let front = system.spawn("front", front).unwrap();
        let each = scaled(5_000);
        let accepted = sum_of(3, |thread| {
            let mut accepted = 0;
            for number in 0..each {
                if thread == 0 && number == each / 10 * round {
                    close(&system);
                }
                accepted += u64::from(front.tell(number % 7 == 0).is_ok());
            }
            accepted
        });
        close(&system);
        let metrics = system.metrics();
        assert_eq!(metrics.alive, 0);
        // Each child of a worker was told one message.
        let children = metrics.stopped - 4;
        let sent = accepted + passed.load(Ordering::Relaxed) + children;
        let ends = received.load(Ordering::Relaxed) + metrics.dead_letters;
        assert_eq!(ends, sent, "round {round}");
    }
}

/// Tells itself for ever, and blocks in each message.
struct Blocks;

impl Actor for Blocks {
    type Message = ();

    fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
        ctx.blocking(thread::yield_now);
        let _ = ctx.myself().tell(());
    }
}

/// Tells itself so many times.
struct CountsDown(mpsc::Sender<()>);

impl Actor for CountsDown {
    type Message = u64;

    fn receive(&mut self, left: u64, ctx: &mut Context<Self>) {
        match left.checked_sub(1) {
            Some(less) => ctx.myself().tell(less).unwrap(),
            None => self.0.send(()).unwrap(),
        }
    }
}

#[test]
fn two_actors_that_block_for_ever_on_two_threads_leave_all_others_their_turns() {
    let system = system();
    for name in ["one", "other"] {
        system.spawn(name, || Blocks).unwrap().tell(()).unwrap();
    }
    let (done, all_done) = mpsc::channel();
    let others = scaled(100);
    for _ in 0..others {
        let done = done.clone();
        let other = system.spawn_anonymous(Props::once(move || CountsDown(done))).unwrap();
        other.tell(20).unwrap();
    }
    for _ in 0..others {
        all_done.recv_timeout(LONG).unwrap();
    }
    close(&system);
}
