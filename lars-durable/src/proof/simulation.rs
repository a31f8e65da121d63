//! Several nodes, one store, and everything between them that can fail; in virtual time, and the
//! same again from the same seed.
//!
//! The nodes are the engine itself, and the store is the reference with a network before it:
//! requests take their time, are lost, are carried out without an answer; notifications are lost or
//! come in another order; nodes are killed, frozen and restarted; the store's clock jumps, and
//! those of the nodes run too fast or too slowly. In the end the faults stop, all series are
//! cancelled, and everything that was accepted has to be over.
//!
//! The nodes of half of the histories host actors too: a name has one copy for which its node has
//! the lease, its fences follow each other, and a node that closes has left when its actors have.
//!
//! `LARS_SIM=1000000 cargo test --release -p lars-durable --lib simulation` runs that many
//! histories, `LARS_SIM_SEED=<n>` one of them. `LARS_SIM_OTHERS=<n>` runs so many of each of the
//! plans in which one thing is looked at more closely.

mod plan;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use self::plan::Plan;
use self::world::World;
use super::history::{self, Summary};
use super::{assert_same, in_short};

/// Histories of `cargo test`: of the plan in which everything may happen, and of each other one.
const HISTORIES: u64 = 400;
const OTHERS: u64 = 40;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Runs one history and checks it.
fn history_of(seed: u64, plan: Plan) -> Result<Summary, String> {
    let checked = World::new(plan).run().and_then(|events| {
        history::check(&events).map_err(|wrong| {
            let lines: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
            format!("{wrong}\n{}", lines.join("\n"))
        })
    });
    checked.map_err(|wrong| in_short(&format!("simulation-{seed}"), &wrong))
}

#[test]
fn nothing_accepted_is_lost_early_or_twice_under_one_owner_whatever_fails() {
    if let Some(seed) = setting("LARS_SIM_SEED") {
        let summary =
            history_of(seed, Plan::of(seed)).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        println!("seed {seed}: {summary:?}");
        return;
    }
    let (first, count) = (setting("LARS_SIM_FIRST").unwrap_or(0), setting("LARS_SIM"));
    let last = first + count.unwrap_or(HISTORIES);
    let (next, checked) = (AtomicU64::new(first), AtomicU64::new(0));
    let totals = [const { AtomicU64::new(0) }; 4];
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= last {
            return;
        }
        match history_of(seed, Plan::of(seed)) {
            Ok(summary) => {
                let Summary { accepted, runs, repeated, prevented, .. } = summary;
                for (total, more) in totals.iter().zip([accepted, runs, repeated, prevented]) {
                    total.fetch_add(more as u64, Ordering::Relaxed);
                }
            }
            Err(wrong) => {
                next.store(u64::MAX / 2, Ordering::Relaxed);
                panic!("{wrong}\nrerun it with LARS_SIM_SEED={seed}");
            }
        }
        if checked.fetch_add(1, Ordering::Relaxed) % 20_000 == 19_999 {
            println!("{} histories", checked.load(Ordering::Relaxed));
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let [accepted, runs, repeated, prevented] = totals.map(AtomicU64::into_inner);
    println!(
        "{} histories: {accepted} timers accepted, {runs} runs, {repeated} of them repeated \
         after a fault, {prevented} prevented",
        checked.into_inner()
    );
    assert!(repeated > 0 && prevented > 0 && runs > accepted / 2, "the histories are too tame");
}

/// Runs and checks histories of one kind. Returns how many, and what happened in all of them.
fn all_of(plan: fn(u64) -> Plan) -> (usize, Summary) {
    let count = setting("LARS_SIM_OTHERS").unwrap_or(OTHERS);
    let mut all = Summary::default();
    for seed in 0..count {
        let one =
            history_of(seed, plan(seed)).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        all.runs += one.runs;
        all.repeated += one.repeated;
        all.parked += one.parked;
    }
    println!("{count} histories: {all:?}");
    (count as usize, all)
}

#[test]
fn leases_hold_between_nodes_whose_clocks_run_a_twenty_fifth_apart() {
    let (_, all) = all_of(Plan::of_clocks_apart);
    assert!(all.repeated > 0, "no bucket changed its owner while it was busy");
}

#[test]
fn a_node_that_closes_leaves_when_its_actors_have_gone_and_waits_for_nothing_else() {
    let (count, all) = all_of(Plan::of_closes);
    assert!(all.runs > 5 * count, "too few runs: {all:?}");
}

#[test]
fn a_handler_whose_runs_do_not_end_makes_no_timer_of_another_handler_late() {
    let (count, all) = all_of(Plan::of_a_stuck_handler);
    assert!(all.runs > 30 * count, "too few runs: {all:?}");
}

#[test]
fn a_stuck_handler_on_nodes_that_die_makes_no_timer_of_another_handler_later_than_quarantine_may() {
    let (count, all) = all_of(Plan::of_a_stuck_handler_and_kills);
    assert!(all.runs > 80 * count && all.repeated > 8 * count, "too few runs: {all:?}");
}

#[test]
fn after_a_restore_nothing_of_the_backup_is_lost_and_keys_and_fences_are_new_whatever_fails() {
    let (count, all) = all_of(Plan::of_restores);
    assert!(6 * all.repeated > count, "too few runs that come again: {all:?}");
}

#[test]
fn a_series_over_failures_and_deaths_has_each_run_done_or_parked_once() {
    let (count, all) = all_of(Plan::of_failing_series);
    assert!(all.parked > 3 * count, "too few runs are parked: {all:?}");
}

#[test]
fn nobody_is_taken_for_dead_because_the_store_was_away_for_everybody() {
    let (count, all) = all_of(Plan::of_outages);
    assert!(all.runs > 6 * count, "too few runs: {all:?}");
}

#[test]
fn nobody_is_taken_for_dead_because_others_have_shorter_leases() {
    let (count, all) = all_of(Plan::of_unlike_leases);
    assert!(all.runs > 5 * count, "too few runs: {all:?}");
}

#[test]
fn a_history_is_the_same_again_from_the_same_seed() {
    for seed in 0..50 {
        let run = || World::new(Plan::of(seed)).run().unwrap();
        assert_same(&run(), &run(), &format!("seed {seed}"));
    }
}
