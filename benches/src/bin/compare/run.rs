//! Going through the plan, with progress.

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

/// Measures everything that is chosen, one after the other.
pub(crate) fn all(options: &Options) -> Result<Results, Box<dyn Error>> {
    let plan = plan(options)?;
    let mut results =
        Results { machine: Machine::look(), scale: options.factor(), records: Vec::new() };
    let start = Instant::now();
    for (number, step) in plan.iter().enumerate() {
        let place = format!("{}/{} {:.0?}", number + 1, plan.len(), start.elapsed());
        let what = describe(step);
        progress(&format!("{place} {what}"));
        let outcome =
            subprocess::measure(&step.peer, &step.case, Duration::from_secs(options.timeout));
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
        let is_last = plan.get(number + 1).is_none_or(|next| next.repetition != step.repetition);
        if let Some(path) = options.out.as_ref().filter(|_| is_last) {
            results.write(path)?;
        }
    }
    progress("");
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
