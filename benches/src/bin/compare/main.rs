//! `compare`: the scheduler, the actors and their competition, side by side.
//!
//! ```text
//! options ─▶ plan ─▶ run ─▶ subprocess: one per measurement ─▶ results ─▶ summary ─▶ table ─▶ page
//!                             └─▶ workload × (timers | actors)                └─▶ plots ─┘
//! ```
//!
//! `benches/README.md` says how to run it, and how to read what it says.
#![allow(clippy::disallowed_methods)]

mod actors;
mod callback;
mod figures;
mod histogram;
mod machine;
mod options;
mod page;
mod peer;
mod peers;
mod plan;
mod plots;
mod record;
mod results;
mod run;
#[cfg(feature = "peers")]
mod runtime;
mod sleeps;
mod subprocess;
mod summary;
mod table;
mod timers;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use crate::options::{Command, Options};
use crate::results::Results;

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(Command::Measure(measure)) = &options.command {
        return subprocess::answer(measure);
    }
    match compare(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, or shows what was measured. Says whether all went well.
fn compare(options: &Options) -> Result<bool, Box<dyn Error>> {
    match &options.command {
        Some(Command::Table { results, choice }) => {
            print!("{}", table::text(&Results::read(results)?.only(choice)?));
        }
        Some(Command::Plot { results, directory }) => {
            plots::draw(&Results::read(results)?, directory)?;
        }
        Some(Command::Page { results, page }) => page::fill(&Results::read(results)?, page)?,
        Some(Command::Measure(_)) => unreachable!("it has been answered"),
        None if options.list => plan::list(),
        None => {
            let results = run::all(options)?;
            print!("{}", table::text(&results));
            return Ok(results.went_well(options.strict));
        }
    }
    Ok(true)
}
