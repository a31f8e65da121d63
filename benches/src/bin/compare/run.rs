//! Running: the plan, the processes, and what they say.

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::options::{Measure, Options};
use crate::record::{Case, Outcome, Record, Workload};
use crate::timers;

/// Everything that is kept of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) scale: f64,
    pub(crate) records: Vec<Record>,
}

impl Results {
    /// What `--out` has written.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text)
            .map_err(|error| format!("{} is no result of compare: {error}", path.display()))?)
    }

    /// Those of the chosen workloads and peers.
    pub(crate) fn only(mut self, options: &Options) -> Result<Self, Box<dyn Error>> {
        let peers = chosen_peers(options)?;
        self.records.retain(|record| {
            (options.workloads.is_empty() || options.workloads.contains(&record.case.workload))
                && peers.iter().any(|peer| peer.name == record.peer)
        });
        Ok(self)
    }
}

/// Whether there were no failures; those of others count only if `strict`.
pub(crate) fn went_well(results: &Results, strict: bool) -> bool {
    !results
        .records
        .iter()
        .any(|record| !record.outcome.problems.is_empty() && (strict || is_ours(&record.peer)))
}

/// A timer or an actor system.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    tick_us: Option<u64>,
    workloads: &'static [Workload],
    measure: fn(&Case) -> Outcome,
}

/// All peers, ours first.
pub(crate) fn peers() -> Vec<Peer> {
    timers::all()
        .into_iter()
        .map(|entry| Peer {
            name: entry.name,
            about: entry.about,
            tick_us: entry.tick_us,
            workloads: entry.workloads,
            measure: entry.measure,
        })
        .collect()
}

/// Whether the peer of this name is of this repository.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with("lars-scheduler") || name.starts_with("mini-actor")
}

/// Prints what can be chosen from.
pub(crate) fn list() {
    for peer in peers() {
        let workloads: Vec<_> = peer.workloads.iter().map(ToString::to_string).collect();
        println!("{:28} {}\n{:28} {}", peer.name, peer.about, "", workloads.join(" "));
    }
}

fn chosen_peers(options: &Options) -> Result<Vec<Peer>, Box<dyn Error>> {
    let all = peers();
    for name in &options.peers {
        if !all.iter().any(|peer| peer.name == name) {
            return Err(format!("there is no peer {name}; --list says which there are").into());
        }
    }
    let named = |peer: &Peer| options.peers.iter().any(|name| name == peer.name);
    let is_chosen = |peer: &Peer| match is_ours(peer.name) {
        true => !options.no_ours || named(peer),
        false => options.peers.is_empty() || named(peer),
    };
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// The cases of the chosen workloads.
fn cases(options: &Options) -> Vec<Case> {
    let scaled = |n: u64| ((n as f64 * options.scale) as u64).max(100);
    // Shorter with the sizes, but long enough for something to happen.
    let millis = |full: u64| ((full as f64 * options.scale) as u64).clamp(full / 16, full * 4);
    // Before memory is looked at.
    let rest = millis(1_000).min(1_000);
    let mut cases = Vec::new();
    for workload in Workload::TIMERS.into_iter().chain(Workload::ACTORS) {
        if !options.workloads.is_empty() && !options.workloads.contains(&workload) {
            continue;
        }
        let mut case = |producers, n, millis| {
            cases.push(Case { workload, producers, n, millis });
        };
        match workload {
            Workload::W1 | Workload::W2 => {
                for producers in [1, 2, 4] {
                    case(producers, scaled(1_000_000), rest);
                }
            }
            Workload::W2b => case(1, scaled(1_000_000), rest),
            Workload::W3 => case(1, scaled(1_000_000), millis(5_000)),
            Workload::W4 => {
                let millis = millis(5_000);
                case(1, 50 * millis, millis);
            }
            Workload::W5 => case(1, scaled(10_000), millis(5_000)),
            Workload::W6 => case(1, scaled(10_000), millis(5_000)),
            Workload::W7 => {
                for n in [10_000, 100_000, 1_000_000, 10_000_000] {
                    case(1, scaled(n), rest);
                }
            }
            Workload::A1 => case(1, scaled(1_000_000), 0),
            Workload::A2 => case(4, scaled(1_000_000), 0),
            Workload::A3 => case(1, scaled(1_000_000), millis(2_000)),
            Workload::A4 => case(1, scaled(1_000_000), 0),
        }
    }
    // Scaled down, different sizes may become the same.
    cases.dedup();
    cases
}

/// Measures everything that is chosen: in each repetition of a case all peers after each other, so that a
/// disturbance of the machine meets all of them.
pub(crate) fn all(options: &Options) -> Result<Results, Box<dyn Error>> {
    let peers = chosen_peers(options)?;
    let cases = cases(options);
    let plan: Vec<(Case, u32, Peer)> = cases
        .iter()
        .flat_map(|&case| {
            let able: Vec<_> = peers
                .iter()
                .copied()
                .filter(|peer| peer.workloads.contains(&case.workload))
                .collect();
            (0..options.reps).flat_map(move |repetition| {
                let mut turn = able.clone();
                // Nobody is always the first, or always behind the same one.
                let by = repetition as usize % turn.len().max(1);
                turn.rotate_left(by);
                turn.into_iter().map(move |peer| (case, repetition, peer))
            })
        })
        .collect();
    let mut results =
        Results { machine: Machine::look(), scale: options.scale, records: Vec::new() };
    let start = Instant::now();
    for (number, (case, repetition, peer)) in plan.iter().enumerate() {
        progress(&format!(
            "{}/{} {:.0?} {} {} producers={} n={} rep={}",
            number + 1,
            plan.len(),
            start.elapsed(),
            case.workload,
            peer.name,
            case.producers,
            case.n,
            repetition + 1
        ));
        let outcome = in_a_process(peer, case, Duration::from_secs(options.timeout));
        for problem in &outcome.problems {
            complain(&format!("{} {} n={}: {problem}", case.workload, peer.name, case.n));
        }
        results.records.push(Record {
            peer: peer.name.to_owned(),
            case: *case,
            tick_us: peer.tick_us,
            repetition: *repetition,
            outcome,
        });
    }
    progress("");
    Ok(results)
}

/// One line on a terminal, rewritten; lines in a log.
fn progress(text: &str) {
    let mut stderr = io::stderr();
    let _ = if stderr.is_terminal() {
        write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush())
    } else if text.is_empty() {
        Ok(())
    } else {
        writeln!(stderr, "{text}")
    };
}

fn complain(text: &str) {
    progress("");
    eprintln!("!! {text}");
}

/// Starts this program again for one measurement and waits for its line.
fn in_a_process(peer: &Peer, case: &Case, limit: Duration) -> Outcome {
    let failed = |problem: String| Outcome { problems: vec![problem], ..Outcome::default() };
    let myself = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let workload = case.workload.to_string();
    let child = Command::new(myself)
        .args(["measure", "--peer", peer.name, "--workload", &workload])
        .args(["--producers", &case.producers.to_string(), "--n", &case.n.to_string()])
        .args(["--millis", &case.millis.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start a process: {error}")),
    };
    // Read on threads of their own, which sleep until the process closes its ends.
    let (sender, receiver) = mpsc::channel();
    let mut stdout = child.stdout.take().expect("it is piped");
    let mut stderr = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let text = receiver.recv_timeout(limit);
    if text.is_err() {
        // It may have ended in this moment, which is as good.
        let _ = child.kill();
    }
    let status = child.wait();
    let errors = errors.join().unwrap_or_default();
    match (text, status) {
        (Err(_), _) => failed(format!("gave no result within {limit:?}")),
        (Ok(_), Err(error)) => failed(format!("cannot wait for the process: {error}")),
        (Ok(text), Ok(status)) => match serde_json::from_str(text.trim()) {
            Ok(outcome) if status.success() => outcome,
            _ => failed(format!("{status}: {}", errors.lines().next_back().unwrap_or_default())),
        },
    }
}

/// The other side of it: one measurement, one line.
pub(crate) fn measure_here(measure: &Measure) -> ExitCode {
    let Some(peer) = peers().into_iter().find(|peer| peer.name == measure.peer) else {
        eprintln!("there is no peer {}", measure.peer);
        return ExitCode::FAILURE;
    };
    let case = Case {
        workload: measure.workload,
        producers: measure.producers,
        n: measure.n,
        millis: measure.millis,
    };
    if !peer.workloads.contains(&case.workload) {
        eprintln!("{} is not measured with {}", peer.name, case.workload);
        return ExitCode::FAILURE;
    }
    // A thread that fails must not leave the others waiting for it.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{}", info.to_string().replace('\n', " "));
        std::process::exit(101);
    }));
    let outcome = (peer.measure)(&case);
    println!("{}", serde_json::to_string(&outcome).expect("figures have names"));
    // Whatever the peer still has running ends here.
    std::process::exit(0)
}
