//! What can be asked for.

use std::fmt;

use clap::Parser;
use examples::number::number;
use examples::view::ViewOptions;

const MAX_SECONDS: u64 = 31 * 24 * 3600;

/// Runs timers as servers use them, and checks the books every second.
#[derive(Debug, Clone, Parser)]
#[command(name = "soak")]
pub struct Options {
    /// How long it runs.
    #[arg(long, default_value_t = 20, value_parser = number::<u64>(1, MAX_SECONDS))]
    pub seconds: u64,

    /// How many threads schedule.
    #[arg(long, default_value_t = 2, value_parser = number::<usize>(1, 64))]
    pub threads: usize,

    /// How many connections each of them keeps.
    #[arg(long, default_value_t = 2_000, value_parser = number::<usize>(1, 20_000))]
    pub connections: usize,

    /// How many steps each of them takes in a second, at most.
    #[arg(long, default_value_t = 50_000, value_parser = number::<u64>(1, 10_000_000))]
    pub rate: u64,

    /// What decides the mix.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub view: ViewOptions,
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
