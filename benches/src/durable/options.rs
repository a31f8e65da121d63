//! What can be asked of every bench of durable timers.

use std::path::PathBuf;

use clap::Args;

/// The options of every bench of durable timers.
#[derive(Debug, Args)]
pub struct Options {
    /// A hundredth of the work: whether it runs, and not how fast.
    #[arg(long)]
    pub quick: bool,
    /// How often each rate is measured.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Where the database keeps its files; the results depend on its disk.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The program `durable-peers`; without it, no other crates are measured.
    #[arg(long)]
    pub(super) peers: Option<PathBuf>,
    /// The file to which the results are added.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    /// Measures nothing, and prints the tables of this file.
    #[arg(long)]
    pub(super) table: Option<PathBuf>,
    /// With `--table`: where the plots go.
    #[arg(long, requires = "table")]
    pub(super) plot: Option<PathBuf>,
}

impl Options {
    /// What the work is divided by.
    pub fn scale(&self) -> u64 {
        if self.quick { 100 } else { 1 }
    }

    /// How often each rate is measured.
    pub fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Where the database keeps its files.
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }
}
