//! `compare`: the scheduler, the actors and their competition, side by side.
//!
//! ```text
//! options ─▶ run: one process per measurement ─▶ record ─▶ report: tables
//!              └─▶ workload × timers, actors                └─▶ plots
//! ```
//!
//! `benches/README.md` says how to run it, and how to read what it says.
#![allow(clippy::disallowed_methods)]

mod callback;
mod machine;
mod options;
mod process;
mod record;
mod report;
mod run;
mod timers;
mod workload;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use clap::Parser;

use crate::options::{Command, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(Command::Measure(measure)) = &options.command {
        return run::measure_here(measure);
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

/// Measures, or reads what was measured, and shows it. Says whether all went well.
fn compare(options: &Options) -> Result<bool, Box<dyn Error>> {
    if options.list {
        run::list();
        return Ok(true);
    }
    let results = match &options.from {
        Some(path) => run::Results::read(path)?.only(options)?,
        None => run::all(options)?,
    };
    if let Some(path) = &options.out {
        fs::write(path, serde_json::to_string_pretty(&results)? + "\n")?;
    }
    print!("{}", report::text(&results));
    if let Some(path) = &options.markdown {
        report::write_markdown(&results, path)?;
    }
    Ok(run::went_well(&results, options.strict))
}
