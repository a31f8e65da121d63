//! Closing beside what other threads do with the system, and actors that end in two ways at once.

use std::sync::Arc;

use lars_base::sync::{AtomicUsize, Ordering, check, thread};

use super::messages::{Clumsy, tellers};
use super::*;
use crate::supervision::SupervisionStrategy;
use crate::{Props, SpawnError, StopReason, Terminated};

/// What a spawn beside a close may come to.
fn unless_closed<T>(spawned: Result<T, SpawnError>) -> Option<T> {
    match spawned {
        Ok(actor) => Some(actor),
        Err(SpawnError::Closed { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// When it starts, it starts a timer, and a child that it tells something. How far a close has come
/// makes neither an error.
struct Family(Ledger);

impl Actor for Family {
    type Message = Letter;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_receive_timeout(TICK).unwrap();
        if let Some(child) = unless_closed(ctx.spawn("child", || Reader)) {
            tell(&self.0, &child);
        }
    }

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
    }
}

#[test]
fn an_actor_that_is_spawned_beside_a_close_is_refused_or_receives_all_and_stops_with_its_child() {
    check(2_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let spawners = ["one", "other"].map(|name| {
            let (system, ledger) = (system.system(), ledger.clone());
            thread::spawn(move || {
                let inside = ledger.clone();
                let actor = unless_closed(system.spawn(name, move || Family(inside)));
                if let Some(actor) = &actor {
                    tell(&ledger, actor);
                }
                actor.is_some()
            })
        });
        let report = system.close().unwrap();
        let spawned = join(spawners.into()).into_iter().filter(|spawned| *spawned).count() as u64;
        assert!(unless_closed(system.spawn("late", || Reader)).is_none());
        let metrics = system.metrics();
        assert_eq!((metrics.alive, metrics.panicked, metrics.dead_letters), (0, 0, 0), "{report}");
        assert!((spawned..=2 * spawned).contains(&metrics.stopped), "{metrics:?}");
        drop(system);
        ledger.settle();
    });
}

#[test]
fn an_actor_that_is_spawned_beside_the_drop_of_its_system_is_refused_or_ends() {
    check(2_000, || {
        let (owner, ledger) = (system(), Ledger::new());
        let (system, inside) = (owner.system(), ledger.clone());
        let spawner = thread::spawn(move || {
            let actor = unless_closed(system.spawn("actor", || Reader))?;
            tell(&inside, &actor);
            Some(actor.termination())
        });
        drop(owner);
        let end = spawner.join().unwrap();
        assert!(end.is_none_or(|end| end.wait() == StopReason::SystemClosed));
        ledger.settle();
    });
}

/// Tells another what it gets.
struct Passes(ActorRef<Letter>);

impl Actor for Passes {
    type Message = Letter;

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        self.0.tell(letter).unwrap();
    }
}

#[test]
fn what_actors_pass_on_to_each_other_while_their_system_closes_is_received() {
    check(2_000, || {
        let (system, ledger) = (system(), Ledger::new());
        // Closing asks the reader to stop before those that have letters for it.
        let reader = system.spawn("reader", || Reader).unwrap();
        let middle = system.spawn("middle", move || Passes(reader)).unwrap();
        let first = system.spawn("first", move || Passes(middle)).unwrap();
        tell(&ledger, &first);
        let scheduled = Letter(ledger.token());
        ledger.accepted(scheduled.0.number);
        drop(system.scheduler().schedule_once(TICK, &first, scheduled).unwrap());
        let report = system.close().unwrap();
        assert_eq!((ledger.total_ran(), report.undelivered), (2, 0), "{report}");
        drop(first);
        drop(system);
        ledger.settle();
    });
}

/// Has a child, which it watches.
struct Nanny {
    children: Arc<AtomicUsize>,
    told: Arc<AtomicUsize>,
}

impl Actor for Nanny {
    type Message = Letter;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(child) = unless_closed(ctx.spawn("child", || Reader)) {
            ctx.watch(&child);
            self.children.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
        letter.0.run();
    }

    fn terminated(&mut self, _: Terminated, ctx: &mut Context<Self>) {
        assert_eq!(ctx.children().len(), 0);
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_end_beside_a_close_is_told_once_to_an_actor_that_watches_and_to_a_thread_that_waits() {
    check(2_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let counts = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let [children, told] = counts.clone();
        let nanny = system.spawn("nanny", || Nanny { children, told }).unwrap();
        let ends = {
            let system = system.system();
            thread::spawn(move || {
                system.find::<Letter>("/nanny/child").iter().for_each(ActorRef::stop);
            })
        };
        let waits = {
            let nanny = nanny.clone();
            thread::spawn(move || nanny.termination().wait())
        };
        tell(&ledger, &nanny);
        system.close().unwrap();
        assert_eq!(waits.join().unwrap(), StopReason::SystemClosed);
        ends.join().unwrap();
        let [children, told] = counts.map(|count| count.load(Ordering::SeqCst));
        assert_eq!((told, system.metrics().panicked), (children, 0));
        drop(system);
        ledger.settle();
    });
}

/// An actor that is restarted, `ends` while two threads tell it something.
fn panics_while_it(ends: fn(&ActorSystem, &ActorRef<Letter>)) {
    check(2_000, move || {
        let (system, ledger) = (system(), Ledger::new());
        let props = Props::new(|| Clumsy(0)).supervision(SupervisionStrategy::restart());
        let actor = system.spawn_with("clumsy", props).unwrap();
        let tellers = tellers(2, &ledger, &actor);
        ends(&system, &actor);
        join(tellers);
        system.close().unwrap();
        let (metrics, ran) = (system.metrics(), ledger.total_ran() as u64);
        assert_eq!((metrics.dead_letters, metrics.processed), (0, ran));
        // At every other message, the end is no excuse.
        assert_eq!(metrics.panicked, ran / 2);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn an_actor_that_panics_while_it_stops_receives_all_that_it_has_accepted() {
    panics_while_it(|_, actor| {
        let end = actor.termination();
        actor.stop();
        assert_eq!(end.wait(), StopReason::Asked);
    });
}

#[test]
fn an_actor_that_panics_while_its_system_closes_receives_all_that_it_has_accepted() {
    panics_while_it(|system, _| drop(system.close().unwrap()));
}

/// Has a child with two letters, and stops when it gets one itself.
struct Quits(Ledger);

impl Actor for Quits {
    type Message = Letter;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(child) = unless_closed(ctx.spawn("child", || Reader)) {
            for _ in 0..2 {
                tell(&self.0, &child);
            }
        }
    }

    fn receive(&mut self, letter: Letter, ctx: &mut Context<Self>) {
        letter.0.run();
        ctx.stop();
    }
}

/// An actor ends by itself, is killed, and `ends` in a third way, all at once.
fn quits_while_it(ends: fn(&ActorSystem, &ActorRef<Letter>)) {
    check(2_000, move || {
        let (system, ledger) = (system(), Ledger::new());
        let inside = ledger.clone();
        let actor = system.spawn("quits", move || Quits(inside)).unwrap();
        let end = actor.termination();
        let kills = {
            let actor = actor.clone();
            thread::spawn(move || actor.kill())
        };
        tell(&ledger, &actor);
        tell(&ledger, &actor);
        ends(&system, &actor);
        let reason = end.wait();
        assert!(!matches!(reason, StopReason::Panicked | StopReason::Parent), "{reason}");
        assert_eq!(system.metrics().alive, 0, "a child lives longer than its parent");
        kills.join().unwrap();
        system.close().unwrap();
        assert_eq!(system.metrics().panicked, 0);
        drop(system);
        ledger.settle();
    });
}

#[test]
fn an_actor_that_ends_by_itself_and_is_stopped_and_killed_has_one_end_after_its_child() {
    quits_while_it(|_, actor| actor.stop());
}

#[test]
fn an_actor_that_ends_by_itself_and_is_killed_while_its_system_closes_has_one_end() {
    quits_while_it(|system, _| drop(system.close().unwrap()));
}
