//! The plan: what is measured, with which sizes, and in which order.

use std::error::Error;

use crate::options::{Choice, Options};
use crate::peer::{Peer, is_only_if_named, is_ours};
use crate::peers;
use crate::record::{Case, Workload};
use crate::workload::load_curve::LADDER;
use crate::workload::many_threads;
use benches::process;

/// Above this many timers one repetition has to do, for the time it takes.
const REPEATED_UP_TO: u64 = 2_000_000;

/// Whether a case is measured more than once. W5 is a mean over seconds in which nothing happens,
/// and a count of what happens all the same.
fn is_repeated(case: &Case) -> bool {
    case.n <= REPEATED_UP_TO && case.workload != Workload::W5
}

/// One measurement.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) repetition: u32,
    pub(crate) case: Case,
    pub(crate) peer: Peer,
}

/// All measurements. Each repetition goes through everything, so that what disturbs the machine for
/// a minute does not meet all repetitions of a case; and within a case the peers follow each other,
/// so that they run on the same machine, whatever it does.
pub(crate) fn plan(options: &Options) -> Result<Vec<Step>, Box<dyn Error>> {
    let peers = chosen_peers(&options.choice, options.no_ours)?;
    let mut cases = cases(&options.choice.only, options.factor());
    cases.retain(|case| {
        let fits = process::has_room_for(case.timers_at_once());
        if !fits {
            eprintln!("!! {} n={}: left out, there is no memory for it", case.workload, case.n);
        }
        fits
    });
    let mut plan = Vec::new();
    for repetition in 0..options.repetitions() {
        for &case in &cases {
            if repetition > 0 && !is_repeated(&case) {
                continue;
            }
            let mut turn: Vec<_> = peers
                .iter()
                .copied()
                .filter(|peer| peer.workloads.contains(&case.workload))
                .collect();
            // Nobody is always the first, or always behind the same one.
            let by = repetition as usize % turn.len().max(1);
            turn.rotate_left(by);
            plan.extend(turn.into_iter().map(|peer| Step { repetition, case, peer }));
        }
    }
    Ok(plan)
}

/// The chosen peers, ours among them unless that is not wanted.
pub(crate) fn chosen_peers(choice: &Choice, no_ours: bool) -> Result<Vec<Peer>, Box<dyn Error>> {
    let all = peers::all();
    for name in &choice.peers {
        if !all.iter().any(|peer| peer.name == name) {
            return Err(format!("there is no peer {name}; --list says which there are").into());
        }
    }
    let named = |peer: &Peer| choice.peers.iter().any(|name| name == peer.name);
    let is_chosen = |peer: &Peer| match is_ours(peer.name) {
        true => named(peer) || !(no_ours || is_only_if_named(peer.name)),
        false => choice.peers.is_empty() || named(peer),
    };
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn all_workloads() -> impl Iterator<Item = Workload> {
    Workload::TIMERS.into_iter().chain(Workload::FUTURES).chain(Workload::ACTORS)
}

/// The cases of the chosen workloads, or of all.
fn cases(only: &[Workload], factor: f64) -> Vec<Case> {
    let is_chosen = |workload| only.is_empty() || only.contains(&workload);
    let scaled = |n: u64| ((n as f64 * factor) as u64).max(100);
    // Shorter with the sizes, but long enough for something to happen.
    let lasting = |full: u64, least| ((full as f64 * factor) as u64).clamp(least, full * 4);
    let millis = |full: u64| lasting(full, full / 16);
    // Before memory is looked at.
    let rest = millis(1_000).min(1_000);
    let mut cases = Vec::new();
    for workload in all_workloads() {
        if !is_chosen(workload) {
            continue;
        }
        let mut case = |producers, n, millis| {
            cases.push(Case { workload, producers, n, millis });
        };
        match workload {
            Workload::W1 | Workload::W2 | Workload::W17 => {
                for producers in [1, 2, 4] {
                    case(producers, scaled(1_000_000), rest);
                }
            }
            Workload::W2b => case(1, scaled(1_000_000), rest),
            Workload::W3 | Workload::W11 => case(1, scaled(1_000_000), millis(5_000)),
            Workload::W4 => {
                let millis = millis(5_000);
                case(1, 50 * millis, millis);
            }
            Workload::W5 | Workload::W6 => case(1, scaled(10_000), millis(5_000)),
            Workload::W7 => {
                for n in [10_000, 100_000, 1_000_000, 10_000_000] {
                    // The same as W1 with one producer, which is drawn with the others.
                    if n != 1_000_000 || !is_chosen(Workload::W1) {
                        case(1, scaled(n), rest / 5);
                    }
                }
            }
            Workload::W8 => {
                for producers in [2, 4, 8] {
                    for n in [4_000_000, 20_000_000, 60_000_000] {
                        case(producers, scaled(n), millis(200).min(200));
                    }
                }
            }
            Workload::W9 => case(2, scaled(1_000_000), rest),
            Workload::W12 => case(1, scaled(1_000_000), rest),
            Workload::W13 => {
                let millis = lasting(10_000, 100);
                for per_milli in LADDER {
                    case(2, per_milli * millis, millis);
                }
            }
            Workload::W14 => {
                // Fewer would not be many.
                let threads = ((2_000.0 * factor) as u64).max(50);
                case(threads, threads * many_threads::EACH, 0);
            }
            Workload::A1 => case(1, scaled(1_000_000), 0),
            Workload::A2 => case(4, scaled(1_000_000), 0),
            Workload::A3 => case(1, scaled(1_000_000), millis(2_000)),
            Workload::A4 => case(1, scaled(1_000_000), 0),
            // Long enough for a busy machine: no timer is to end before the next message.
            Workload::A5 => case(1, scaled(1_000_000), lasting(5_000, 2_000)),
            Workload::A6 => case(1, scaled(1_000_000), rest),
        }
    }
    // Scaled down, different sizes may become the same.
    cases.dedup();
    cases
}

/// Prints what can be chosen from.
pub(crate) fn list() {
    for peer in peers::all() {
        let workloads: Vec<_> = peer.workloads.iter().map(ToString::to_string).collect();
        println!("{:28} {}\n{:28} {}", peer.name, peer.about, "", workloads.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn plan_of(arguments: &str) -> Vec<Step> {
        let words = ["compare"].into_iter().chain(arguments.split_whitespace());
        plan(&Options::parse_from(words)).expect("the peers exist")
    }

    #[test]
    fn in_each_repetition_every_peer_has_its_turn_in_another_order() {
        let plan = plan_of("--only w2b --reps 2");
        let peers = |repetition| -> Vec<_> {
            plan.iter()
                .filter(|step| step.repetition == repetition)
                .map(|step| step.peer.name)
                .collect()
        };
        let (first, mut second) = (peers(0), peers(1));
        assert_ne!(first, second);
        second.rotate_right(1);
        assert_eq!(first, second);
    }

    #[test]
    fn the_largest_size_and_idleness_are_measured_once() {
        let repeated = |workload, n| {
            let of_size = |case: &&Case| case.workload == workload && case.n == n;
            is_repeated(cases(&[workload], 1.0).iter().find(of_size).expect("there is this size"))
        };
        assert!(!repeated(Workload::W5, 10_000));
        assert!(!repeated(Workload::W7, 10_000_000));
        assert!(repeated(Workload::W7, 1_000_000));
    }

    #[test]
    fn the_loads_of_w13_keep_their_rates_at_every_scale() {
        for factor in [1.0, 0.001] {
            let loads: Vec<_> =
                cases(&[Workload::W13], factor).iter().map(|case| case.rate() / 1e6).collect();
            assert_eq!(loads, [0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        }
    }

    #[test]
    fn w14_has_many_threads_with_as_many_timers_each_at_every_scale() {
        let sizes = [1.0, 0.1, 0.001].map(|factor| {
            let case = cases(&[Workload::W14], factor)[0];
            (case.producers, case.n / case.producers)
        });
        assert_eq!(sizes, [(2_000, 1_000), (200, 1_000), (50, 1_000)]);
    }

    #[test]
    fn what_w1_measures_w7_does_not_measure_again() {
        let cases = cases(&[Workload::W1, Workload::W7], 1.0);
        let twice = |case: &Case| case.workload == Workload::W7 && case.n == 1_000_000;
        assert!(!cases.iter().any(twice));
    }

    #[test]
    fn a_peer_that_does_not_exist_is_an_error_that_names_it() {
        let options = Options::parse_from(["compare", "--peers", "netty"]);
        let error = plan(&options).err().expect("there is no such peer").to_string();
        assert!(error.contains("netty"), "{error}");
    }
}
