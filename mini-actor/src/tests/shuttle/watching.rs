//! Watching, and families.

use std::sync::Arc;

use lars_base::sync::{AtomicUsize, Ordering, Parker, Unparker, check, thread};

use super::*;
use crate::supervision::SupervisionStrategy;
use crate::{Overflow, Props, Terminated};

/// Watches one actor, and counts how often it is told.
struct Watcher {
    whom: ActorRef<Letter>,
    told: Arc<AtomicUsize>,
    wake: Unparker,
}

impl Actor for Watcher {
    type Message = Letter;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.watch(&self.whom);
        ctx.watch(&self.whom);
    }

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
    }

    fn terminated(&mut self, gone: Terminated, _: &mut Context<Self>) {
        assert_eq!(gone.id, self.whom.id());
        self.told.fetch_add(1, Ordering::SeqCst);
        self.wake.unpark();
    }
}

#[test]
fn every_watcher_is_told_of_an_end_once_whenever_it_began_to_watch() {
    check(4_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let actor = system.spawn("watched", || Reader).unwrap();
        let parkers: Vec<_> = (0..2).map(|_| Parker::new()).collect();
        let counts: Vec<_> = (0..2).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let spawner = {
            let (system, actor) = (system.system(), actor.clone());
            let watchers: Vec<_> = parkers
                .iter()
                .zip(&counts)
                .map(|(parker, told)| (parker.unparker().clone(), Arc::clone(told)))
                .collect();
            thread::spawn(move || {
                for (number, (wake, told)) in watchers.into_iter().enumerate() {
                    let whom = actor.clone();
                    let make = move || Watcher { whom, told, wake };
                    system.spawn(&format!("watcher-{number}"), make).unwrap();
                }
            })
        };
        tell(&ledger, &actor);
        actor.stop();
        spawner.join().unwrap();
        for (parker, told) in parkers.iter().zip(&counts) {
            while told.load(Ordering::SeqCst) == 0 {
                parker.park();
            }
        }
        system.close().unwrap();
        assert!(counts.iter().all(|told| told.load(Ordering::SeqCst) == 1));
        drop(system);
        ledger.settle();
    });
}

/// Has two children, and hands each letter to them in turn.
struct Parent {
    children: Vec<ActorRef<Letter>>,
    next: usize,
}

impl Actor for Parent {
    type Message = Letter;

    fn started(&mut self, ctx: &mut Context<Self>) {
        for name in ["one", "other"] {
            self.children.extend(ctx.spawn(name, || Reader));
        }
    }

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        self.next += 1;
        match self.children.get(self.next % 2) {
            Some(child) => {
                if let Err(refused) = child.tell(letter) {
                    refused.into_message().0.buried();
                }
            }
            None => letter.0.buried(),
        }
    }
}

#[test]
fn a_family_that_is_stopped_ends_as_a_whole_and_loses_no_message() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let parent = system.spawn("parent", || Parent { children: Vec::new(), next: 0 }).unwrap();
        let teller = {
            let (ledger, parent) = (ledger.clone(), parent.clone());
            thread::spawn(move || {
                for _ in 0..4 {
                    tell(&ledger, &parent);
                }
            })
        };
        let end = parent.termination();
        parent.stop();
        end.wait();
        assert_eq!(system.metrics().alive, 0, "a child lives longer than its parent");
        teller.join().unwrap();
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

/// Sends its parent more than the mailbox of that holds.
struct Talker {
    ledger: Ledger,
    parent: ActorRef<Letter>,
}

impl Actor for Talker {
    type Message = Letter;

    fn started(&mut self, _: &mut Context<Self>) {
        for _ in 0..3 {
            tell(&self.ledger, &self.parent);
        }
    }

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
    }
}

/// Has a child that talks, and fails at the first letter; its successor does not.
struct Failing {
    ledger: Ledger,
    first: bool,
}

impl Actor for Failing {
    type Message = Letter;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if self.first {
            let (ledger, parent) = (self.ledger.clone(), ctx.myself().clone());
            ctx.spawn("talker", move || Talker { ledger, parent }).unwrap();
        }
    }

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
        if self.first {
            // Past the panic hook, which would print the schedule.
            std::panic::resume_unwind(Box::new("expected by this test"));
        }
    }
}

#[test]
fn a_restart_ends_although_a_child_waits_for_room_in_its_parent() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let mut first = true;
        let gives = ledger.clone();
        let make = move || {
            let first = std::mem::replace(&mut first, false);
            Failing { ledger: gives.clone(), first }
        };
        let props = Props::new(make).bounded(1, Overflow::Block(Duration::MAX));
        let parent =
            system.spawn_with("parent", props.supervision(SupervisionStrategy::restart())).unwrap();
        tell(&ledger, &parent);
        // Waits, in some schedules, until the restart is over.
        tell(&ledger, &parent);
        let end = parent.termination();
        parent.stop();
        end.wait();
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

#[test]
fn the_name_of_an_actor_is_free_when_its_end_is_known() {
    check(4_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let actor = system.spawn("reader", || Reader).unwrap();
        actor.stop();
        // It is about to end, or has ended.
        while !actor.is_stopped() {
            thread::yield_now();
        }
        actor.termination().wait();
        let successor = system.spawn("reader", || Reader).unwrap();
        assert!(tell(&ledger, &successor));
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}
