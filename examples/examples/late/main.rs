//! Makes timers late in every way there is, and prints what the scheduler says of each: first the
//! table of one run, then how often it was right.
//!
//!     cargo run --release -p examples --example late
//!     cargo run --release -p examples --example late -- --runs 200
//!
//! A *fault* makes timers late on purpose, so the reason is known. What cannot be had here (a
//! control group needs root) is said, and left out. Exits with 1 if a fault alone is named in less
//! than 99 of 100 runs, or the larger one of a pair in less than 95.

// It keeps the time of its faults by itself.
#![allow(clippy::disallowed_methods)]

mod faults;
#[cfg(target_os = "linux")]
mod machine;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use lars_scheduler::late::{Cause, Lateness};

use crate::faults::Fault;

#[derive(Parser)]
#[command(about = "Makes timers late in every way there is, and prints what the scheduler says")]
struct Options {
    /// How often each fault, and each pair of them, is injected.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only faults whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// For the example itself: stops its parent for so many milliseconds, or burns a processor.
    #[arg(long, hide = true)]
    helper: Option<String>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    #[cfg(target_os = "linux")]
    if let Some(task) = &options.helper {
        machine::help(task)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all_right = true;
    for fault in faults::all() {
        if !fault.name().contains(&options.only) {
            continue;
        }
        all_right &= inject(&fault, options.runs)?;
    }
    Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Injects one fault so often, and prints what was said. True if that was right often enough.
fn inject(fault: &Fault, runs: usize) -> Result<bool, Box<dyn Error>> {
    let mut said: BTreeMap<Cause, usize> = BTreeMap::new();
    let (mut right, mut late) = (0, 0);
    let mut last = Lateness::default();
    for _ in 0..runs {
        let Some(table) = fault.inject()? else {
            println!("{:<24} cannot be had here", fault.name());
            return Ok(true);
        };
        // A fault that made nothing late says nothing about what is said.
        let Some(most) = largest(&table) else { continue };
        late += 1;
        right += usize::from(fault.causes().contains(&most));
        *said.entry(most).or_default() += 1;
        last = table;
    }
    let named: Vec<_> = said.iter().map(|(cause, times)| format!("{cause:?} {times}")).collect();
    println!("{:<24} right {right} of {late}: {}", fault.name(), named.join(", "));
    println!("{}", indented(&last));
    Ok(late > 0 && right * 100 >= late * fault.percent())
}

/// The cause that most of the lateness has.
fn largest(table: &Lateness) -> Option<Cause> {
    let mut sums: BTreeMap<Cause, Duration> = BTreeMap::new();
    for row in &table.rows {
        *sums.entry(row.cause).or_default() += row.time;
    }
    sums.into_iter().max_by_key(|&(_, time)| time).map(|(cause, _)| cause)
}

fn indented(table: &Lateness) -> String {
    table.to_string().lines().map(|line| format!("    {line}\n")).collect()
}
