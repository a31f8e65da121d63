//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::record::Workload;

/// Measures lars-scheduler and mini-actor beside other crates: one process per measurement, peers
/// in turn, several repetitions, every result checked.
#[derive(Debug, Parser)]
#[command(name = "compare", args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) choice: Choice,

    /// Leave ours out unless they are named in `--peers`.
    #[arg(long)]
    pub(crate) no_ours: bool,

    /// How often each measurement is repeated; those that take long, and W5, run once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reps: u32,

    /// What the sizes are multiplied with.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub(crate) scale: f64,

    /// A thousandth of the sizes, once: to see that everything works. The figures say nothing.
    #[arg(long, conflicts_with_all = ["reps", "scale"])]
    pub(crate) quick: bool,

    /// The seconds after which a measurement is given up.
    #[arg(long, default_value_t = 180)]
    pub(crate) timeout: u64,

    /// Write all results into this file, as JSON; after each repetition, so that little is lost.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,

    /// Say which peers there are, and what they are measured with.
    #[arg(long)]
    pub(crate) list: bool,

    /// Fail if any peer fails, and not only if ours do.
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Which measurements.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// The workloads, separated by commas; all by default.
    #[arg(long, value_name = "WORKLOADS", value_delimiter = ',', ignore_case = true)]
    pub(crate) only: Vec<Workload>,

    /// The peers by name, separated by commas; all by default. Ours are always among them.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
}

impl Options {
    /// How often each measurement is repeated.
    pub(crate) fn repetitions(&self) -> u32 {
        if self.quick { 1 } else { self.reps }
    }

    /// What the sizes are multiplied with.
    pub(crate) fn factor(&self) -> f64 {
        if self.quick { 0.001 } else { self.scale }
    }
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 100.0 => Ok(scale),
        _ => Err("a scale is a number above 0, and at most 100".to_owned()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the tables of results that were written before.
    Table {
        /// What `--out` has written.
        results: PathBuf,
        #[command(flatten)]
        choice: Choice,
    },
    /// Draw plots of results that were written before.
    Plot {
        /// What `--out` has written.
        results: PathBuf,
        /// Where the SVG files go.
        directory: PathBuf,
    },
    /// Put the tables and plots of results into a page, between its `<!-- compare: … -->` marks.
    Page {
        /// What `--out` has written.
        results: PathBuf,
        /// The page; the SVG files go into `plots` beside it.
        page: PathBuf,
    },
    /// One measurement, in this process. `compare` calls itself with it.
    #[command(hide = true)]
    Measure(Measure),
}

#[derive(Debug, Args)]
pub(crate) struct Measure {
    #[arg(long)]
    pub(crate) peer: String,
    #[arg(long, ignore_case = true)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) producers: u64,
    #[arg(long)]
    pub(crate) n: u64,
    #[arg(long)]
    pub(crate) millis: u64,
}
