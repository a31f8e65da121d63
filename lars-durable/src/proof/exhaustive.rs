//! Everything that can happen to two nodes and two timers, but for a number of things that go wrong
//! or come in another order.
//!
//! The simulation meets what chance brings. Here each state has one step that is right: what is
//! sent arrives and is answered, runs begin and end, time passes when nothing else is left. Any
//! other step is a *deviation*: a batch or its answer is lost, or takes longer than a lease; a
//! process dies, and what it had sent arrives afterwards; it is frozen; a run begins late, or
//! fails; or another step than that one comes first. With at most so many deviations, at whichever
//! moments, each history is followed to its end, from just before the timers are due, each in a
//! bucket of another node, over whatever take-overs it needs.
//!
//! A state that was met before, with as many deviations left, is not followed again. States are the
//! same if their texts are, which have all that nodes, store and network know.
//!
//! `LARS_SEARCH=3 cargo test --release -p lars-durable --lib exhaustive -- --nocapture` allows
//! three deviations.

mod world;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use self::world::{Step, World};
use super::in_short;

/// Deviations of `cargo test`.
const DEVIATIONS: u8 = 1;

/// A history with more steps than this never ends.
const LONGEST: usize = 2_000;

#[derive(Default)]
struct Search {
    /// States, and how many deviations were left in them, and one.
    seen: HashMap<u64, u8>,
    /// Histories that came to their ends.
    ends: u64,
    /// The steps from the beginning.
    path: Vec<Step>,
}

impl Search {
    /// Follows all histories from here.
    fn follow(&mut self, mut world: World, left: u8) {
        let before = self.path.len();
        while self.is_new(&world, left) {
            if world.is_over() {
                self.ends += 1;
                break;
            }
            let steps = world.steps();
            for step in steps.iter().skip(1).filter(|_| left > 0) {
                let mut other = world.copy();
                self.take(&mut other, *step);
                self.follow(other, left - 1);
                self.path.pop();
            }
            self.take(&mut world, steps[0]);
            assert!(self.path.len() < LONGEST, "it never ends: {}", self.words());
        }
        self.path.truncate(before);
    }

    fn is_new(&mut self, world: &World, left: u8) -> bool {
        let mut hasher = DefaultHasher::new();
        world.words().hash(&mut hasher);
        let seen = self.seen.entry(hasher.finish()).or_insert(0);
        let new = *seen <= left;
        *seen = (left + 1).max(*seen);
        new
    }

    fn take(&mut self, world: &mut World, step: Step) {
        self.path.push(step);
        if let Err(wrong) = world.take(step) {
            panic!("{wrong}, after {}", self.words());
        }
    }

    fn words(&self) -> String {
        let steps: Vec<String> = self.path.iter().map(|step| format!("{step:?}")).collect();
        in_short("exhaustive", &steps.join("\n"))
    }
}

#[test]
fn whatever_goes_wrong_at_whichever_moment_no_timer_is_lost_or_run_twice_under_one_owner() {
    let deviations = std::env::var("LARS_SEARCH").map_or(DEVIATIONS, |it| it.parse().unwrap());
    let mut search = Search::default();
    search.follow(World::new(), deviations);
    let (states, ends) = (search.seen.len(), search.ends);
    println!("{deviations} deviations: {states} states, {ends} ends");
    assert!(states > 1_000, "{states} states are too few");
}
