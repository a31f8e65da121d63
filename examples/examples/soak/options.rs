//! What can be asked for.

use std::fmt;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use examples::view::ViewOptions;

const MAX_SECONDS: u64 = 31 * 24 * 3600;

/// A number from 1 up to this.
fn up_to<T: TryFrom<u64> + Clone + Send + Sync>(most: u64) -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Runs timers as servers use them, and checks the books every second.
#[derive(Debug, Clone, Parser)]
#[command(name = "soak")]
pub struct Options {
    /// How long it runs.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = up_to::<u64>(MAX_SECONDS))]
    pub seconds: u64,

    /// How many threads schedule.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = up_to::<usize>(64))]
    pub threads: usize,

    /// How many connections each of them keeps.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = up_to::<usize>(20_000))]
    pub connections: usize,

    /// How many steps each of them takes in a second, at most.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50_000,
        value_parser = up_to::<u64>(10_000_000),
    )]
    pub rate: u64,

    /// What decides the mix.
    #[arg(long, value_name = "N", default_value_t = 1)]
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
