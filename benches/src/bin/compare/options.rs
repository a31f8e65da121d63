//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::record::Workload;

/// Measures lars-scheduler and mini-actor beside other crates: one process per measurement, peers in turn,
/// several repetitions, every result checked.
#[derive(Debug, Parser)]
#[command(name = "compare", args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    /// The workloads, separated by commas; all by default.
    #[arg(long, value_delimiter = ',', ignore_case = true)]
    pub(crate) workloads: Vec<Workload>,

    /// The peers by name, separated by commas; all by default. Ours are always among them unless
    /// `--no-ours`.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,

    /// Leave ours out unless they are named in `--peers`.
    #[arg(long)]
    pub(crate) no_ours: bool,

    /// How often each measurement is repeated.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reps: u32,

    /// What the sizes are multiplied with.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,

    /// The seconds after which a measurement is given up.
    #[arg(long, default_value_t = 180)]
    pub(crate) timeout: u64,

    /// Write all results into this file, as JSON.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,

    /// Write the tables into this file, as Markdown.
    #[arg(long)]
    pub(crate) markdown: Option<PathBuf>,

    /// Draw plots into this directory.
    #[arg(long)]
    pub(crate) plots: Option<PathBuf>,

    /// Measure nothing; read the results from this file.
    #[arg(long, conflicts_with_all = ["out", "scale", "reps", "timeout"])]
    pub(crate) from: Option<PathBuf>,

    /// Say which peers and workloads there are.
    #[arg(long)]
    pub(crate) list: bool,

    /// Fail if any peer fails, and not only if ours do.
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
