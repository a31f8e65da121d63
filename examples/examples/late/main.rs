//! Makes timers late in every way there is, and prints what is said of each: the table of the last
//! run, and at the end what was said how often.
//!
//!     cargo run --release -p examples --example late
//!     cargo run --release -p examples --example late -- --only pool --runs 200
//!     cargo run --release -p examples --features durable --example late
//!
//! A *fault* makes timers late on purpose, so the reason is known. What cannot be had here (a
//! control group needs root) is said, and left out; so are durable timers without their feature.
//! With 100 runs and more it exits with 1 if a fault alone is named in less than 99 of 100 runs, or
//! the larger one of a pair in less than 95.
// It keeps the time of its faults by itself.
#![allow(clippy::disallowed_methods)]

mod actors;
#[cfg(feature = "durable")]
mod durable;
mod faults;
#[cfg(target_os = "linux")]
mod machine;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use examples::checks::Problem;
use examples::number::number;
use lars_scheduler::late::{Cause, Lateness};

use crate::faults::{Fault, Run};

#[derive(Parser)]
#[command(about = "Makes timers late in every way there is, and prints what is said of each")]
struct Options {
    /// How often each fault is injected.
    #[arg(long, default_value_t = 3, value_parser = number::<usize>(1, 1_000_000))]
    runs: usize,
    /// Only faults whose names contain this.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// For the example itself: what a second process does to the first.
    #[arg(long, hide = true)]
    helper: Option<String>,
}

/// A run in which threads waited longer than this for a processor, by the kernel's own count, has
/// another fault than its own.
const DISTURBED: Duration = Duration::from_millis(15);
/// From so many runs on it is judged how often the reason was found.
const JUDGED: usize = 100;

fn main() -> Result<ExitCode, Problem> {
    let options = Options::parse();
    #[cfg(target_os = "linux")]
    if let Some(task) = &options.helper {
        machine::help(task)?;
        return Ok(ExitCode::SUCCESS);
    }
    let faults = faults::all().into_iter().filter(|fault| fault.name.contains(&options.only));
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() {
        return Err(format!("no fault has a name with {:?} in it", options.only).into());
    }
    let mut matrix = Vec::new();
    for fault in faults {
        if let Some(counts) = inject(&fault, options.runs)? {
            matrix.push((fault, counts));
        }
    }
    #[cfg(not(feature = "durable"))]
    println!("durable timers: left out; `--features durable` before `--example` adds them\n");
    print_matrix(&matrix);
    let wrong: Vec<_> = matrix.iter().filter(|(fault, counts)| !counts.suffice(fault)).collect();
    if options.runs < JUDGED || wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    wrong.iter().for_each(|(fault, _)| println!("not named often enough: {}", fault.name));
    Ok(ExitCode::FAILURE)
}

/// What was said of one fault.
#[derive(Default)]
struct Counts {
    /// How often each cause was the largest.
    said: BTreeMap<Cause, usize>,
    right: usize,
    /// In how many runs something was late at all.
    late: usize,
    /// In how many runs the machine did not let the threads run, so that the fault was not alone.
    disturbed: usize,
}

impl Counts {
    fn suffice(&self, fault: &Fault) -> bool {
        self.late > 0 && self.right * 100 >= self.late * fault.percent
    }
}

/// Injects one fault so often, and prints what was said; `None` if it cannot be had here.
fn inject(fault: &Fault, runs: usize) -> Result<Option<Counts>, Box<dyn Error>> {
    let mut counts = Counts::default();
    let mut last = None;
    for _ in 0..runs {
        let Some(Run { table, delayed }) = (fault.inject)()? else {
            println!("{}: cannot be had here\n", fault.name);
            return Ok(None);
        };
        let sum: Duration = table.rows.iter().map(|row| row.time).sum();
        if sum != table.total {
            return Err(format!("the shares are {sum:?}, and not {:?}", table.total).into());
        }
        if delayed > DISTURBED && !fault.causes.contains(&Cause::Processor) {
            counts.disturbed += 1;
            continue;
        }
        // A fault that made nothing late says nothing about what is said.
        let Some(most) = largest(&table) else { continue };
        counts.late += 1;
        counts.right += usize::from(fault.causes.contains(&most));
        *counts.said.entry(most).or_default() += 1;
        last = Some(table);
    }
    println!("{}: {}", fault.name, fault.about);
    match last {
        Some(last) => last.to_string().lines().for_each(|line| println!("    {line}")),
        None if counts.disturbed == runs => {
            println!("    not judged: in each run other programs had the processors");
        }
        None => println!("    nothing began late"),
    }
    println!();
    Ok(Some(counts))
}

/// The cause that most of the lateness has.
fn largest(table: &Lateness) -> Option<Cause> {
    let mut sums: BTreeMap<Cause, Duration> = BTreeMap::new();
    for row in &table.rows {
        *sums.entry(row.cause).or_default() += row.time;
    }
    sums.into_iter().max_by_key(|&(_, time)| time).map(|(cause, _)| cause)
}

/// A line for each fault: how often its reason was found, and what was said.
fn print_matrix(matrix: &[(Fault, Counts)]) {
    println!(
        "right: in how many of the runs with something late the injected cause was the largest\n\
         disturbed: how many runs were not judged, as other programs had the processors\n\n\
         {:<22} {:>9} {:>9}  the largest cause",
        "fault", "right", "disturbed"
    );
    for (fault, counts) in matrix {
        let Counts { said, right, late, disturbed } = counts;
        let said = said.iter().map(|(cause, times)| format!("{times} × {}", cause.as_str()));
        let said: Vec<_> = said.collect();
        let right = format!("{right}/{late}");
        let said = if said.is_empty() { "–".to_owned() } else { said.join(", ") };
        println!("{:<22} {right:>9} {disturbed:>9}  {said}", fault.name);
    }
}
