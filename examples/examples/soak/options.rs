//! What can be asked for.

use std::fmt;

use clap::Parser;
use examples::view::ViewOptions;

const MAX_SECONDS: u64 = 31 * 24 * 3600;
const MAX_THREADS: usize = 64;
const MAX_CONNECTIONS: usize = 20_000;
const MAX_RATE: u64 = 10_000_000;

/// Runs timers as servers use them, and checks the books every second.
#[derive(Debug, Clone, Parser)]
#[command(name = "soak")]
pub struct Options {
    /// How long it runs.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub seconds: u64,

    /// How many threads schedule.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,

    /// How many connections each of them keeps.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub connections: usize,

    /// How many steps each of them takes in a second, at most.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub rate: u64,

    /// What decides the mix.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub view: ViewOptions,
}

impl Options {
    /// Checks every option against its limits.
    pub fn check(&self) -> Result<(), String> {
        within("seconds", self.seconds, MAX_SECONDS)?;
        within("threads", self.threads as u64, MAX_THREADS as u64)?;
        within("connections", self.connections as u64, MAX_CONNECTIONS as u64)?;
        within("rate", self.rate, MAX_RATE)
    }
}

fn within(name: &str, given: u64, most: u64) -> Result<(), String> {
    if (1..=most).contains(&given) {
        return Ok(());
    }
    Err(format!("{name} is {given}, but it must be between 1 and {most}"))
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} s, {} threads with {} connections each and up to {} steps/s, seed {}",
            self.seconds, self.threads, self.connections, self.rate, self.seed
        )
    }
}
