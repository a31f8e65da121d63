//! Going through the plan, with progress.

use std::collections::HashSet;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::figures;
use crate::machine::Machine;
use crate::options::Options;
use crate::plan::{Step, chosen_peers, plan};
use crate::record::{Case, Outcome, Record, Workload};
use crate::results::Results;
use crate::subprocess;
use crate::summary::loads;
use crate::workload::load_curve::next_load;
use benches::process;

/// What takes longer is not repeated: there are peers that need half a minute for what takes others
/// a second.
const REPEATED_WITHIN: Duration = Duration::from_secs(15);

/// Measures everything that is chosen, one after the other.
pub(crate) fn all(options: &Options) -> Result<Results, Box<dyn Error>> {
    let plan = plan(options)?;
    let mut results =
        Results { machine: Machine::look(), scale: options.factor(), records: Vec::new() };
    let save = |results: &Results| options.out.as_ref().map_or(Ok(()), |path| results.write(path));
    let mut slow = HashSet::new();
    let start = Instant::now();
    for (number, step) in plan.iter().enumerate() {
        if number > 0 && plan[number - 1].repetition != step.repetition {
            save(&results)?;
        }
        if slow.contains(&(step.case, step.peer.name)) {
            continue;
        }
        let place = format!("{}/{} {:.0?}", number + 1, plan.len(), start.elapsed());
        let begin = Instant::now();
        results.records.push(measure(step, &place, options));
        if begin.elapsed() > REPEATED_WITHIN {
            slow.insert((step.case, step.peer.name));
        }
    }
    save(&results)?;
    // To see that it works, one is enough.
    let sought = if options.quick { 1 } else { usize::MAX };
    for peer in chosen_peers(&options.choice, options.no_ours)?.into_iter().take(sought) {
        while let Some(case) = next_case(&results, peer.name) {
            let place = format!("capacity {:.0?}", start.elapsed());
            results.records.push(measure(&Step { repetition: 0, case, peer }, &place, options));
        }
    }
    progress("");
    save(&results)?;
    Ok(results)
}

/// Measures in a process of its own, and says so.
fn measure(step: &Step, place: &str, options: &Options) -> Record {
    let what = describe(step);
    progress(&format!("{place} {what}"));
    let limit = Duration::from_secs(options.timeout);
    let outcome = subprocess::measure(&step.peer, &step.case, limit);
    report(&format!("{place} {what}: {}", main_figure(step, &outcome)));
    for problem in &outcome.problems {
        complain(&format!("{what}: {problem}"));
    }
    Record {
        peer: step.peer.name.to_owned(),
        case: step.case,
        tick_us: step.peer.tick_us,
        repetition: step.repetition,
        outcome,
    }
}

/// The load of W13 at which a peer is measured next; `None` if its capacity is known, or if W13 was
/// not chosen.
fn next_case(results: &Results, peer: &str) -> Option<Case> {
    let known = loads(results);
    let per_milli = (next_load(&known.get(peer)?.1)? / 1e3).round() as u64;
    let ladder = *results.cases_of(Workload::W13).first()?;
    let case = Case { n: per_milli * ladder.millis, ..ladder };
    process::has_room_for(case.timers_at_once()).then_some(case)
}

fn describe(step: &Step) -> String {
    let Step { case, peer, repetition } = step;
    format!(
        "{} {} producers={} n={} rep={}",
        case.workload,
        peer.name,
        case.producers,
        case.n,
        repetition + 1
    )
}

fn main_figure(step: &Step, outcome: &Outcome) -> String {
    let column = figures::columns(step.case.workload)[0];
    match outcome.figures.get(column.key) {
        Some(value) => format!("{} {}", figures::number(*value), column.title),
        None => "nothing to say".to_owned(),
    }
}

/// What is running: one line on a terminal, rewritten.
fn progress(text: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
    }
}

/// What has run: a line in a log.
fn report(text: &str) {
    if !io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}

fn complain(text: &str) {
    progress("");
    eprintln!("!! {text}");
}
