//! Going through the plan, with progress.

use std::collections::HashSet;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::figures;
use crate::machine::Machine;
use crate::options::Options;
use crate::plan::{Step, plan};
use crate::record::{Outcome, Record};
use crate::results::Results;
use crate::subprocess;

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
        let what = describe(step);
        progress(&format!("{place} {what}"));
        let begin = Instant::now();
        let outcome =
            subprocess::measure(&step.peer, &step.case, Duration::from_secs(options.timeout));
        if begin.elapsed() > REPEATED_WITHIN {
            slow.insert((step.case, step.peer.name));
        }
        report(&format!("{place} {what}: {}", main_figure(step, &outcome)));
        for problem in &outcome.problems {
            complain(&format!("{what}: {problem}"));
        }
        results.records.push(Record {
            peer: step.peer.name.to_owned(),
            case: step.case,
            tick_us: step.peer.tick_us,
            repetition: step.repetition,
            outcome,
        });
    }
    progress("");
    save(&results)?;
    Ok(results)
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
