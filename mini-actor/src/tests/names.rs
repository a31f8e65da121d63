//! Names of actors that are about to enter the tree.

use std::thread;

use crate::base::lineage::Lineage;
use crate::base::name::Name;
use crate::dispatcher::pool::STARTED_FROM_HERE;
use crate::{Actor, ActorSystem, Context, Props, SpawnError};

struct Idle;

impl Actor for Idle {
    type Message = ();
    fn receive(&mut self, (): (), _: &mut Context<Self>) {}
}

#[test]
fn a_reserved_name_is_taken_until_the_reservation_ends() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let registry = system.registry();
    let lineage = Lineage::new(Name::Given("a"), None);
    registry.tree.reserve(&lineage).unwrap();
    let taken = SpawnError::NameTaken { path: "/a".to_owned() };
    assert_eq!(registry.tree.reserve(&lineage), Err(taken.clone()));
    assert_eq!(system.spawn("a", || Idle).unwrap_err(), taken);
    assert_eq!(system.metrics().alive, 0);
    registry.tree.give_up(&lineage);
    let actor = system.spawn("a", || Idle).unwrap();
    assert_eq!(registry.tree.reserve(&lineage), Err(taken));
    assert_eq!(system.find::<()>("/a"), Some(actor));
}

#[test]
fn a_name_that_is_taken_starts_no_thread() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let _first = system.spawn_with("a", Props::new(|| Idle).pinned()).unwrap();
    let before = STARTED_FROM_HERE.with(std::cell::Cell::get);
    for _ in 0..10 {
        let refused = system.spawn_with("a", Props::new(|| Idle).pinned()).unwrap_err();
        assert_eq!(refused, SpawnError::NameTaken { path: "/a".to_owned() });
    }
    assert_eq!(STARTED_FROM_HERE.with(std::cell::Cell::get), before);
}

#[test]
fn pinned_actors_that_race_for_a_name_get_it_once() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let spawned: usize = thread::scope(|scope| {
        let race = || system.spawn_with("a", Props::new(|| Idle).pinned()).is_ok();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(race)).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(spawned, 1);
    assert_eq!(system.metrics().alive, 1);
}
