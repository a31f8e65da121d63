//! Numbers on the command line.

use clap::builder::RangedU64ValueParser;

/// Parses a number from `min` to `max`.
pub fn number<T>(min: u64, max: u64) -> RangedU64ValueParser<T>
where
    T: TryFrom<u64> + Clone + Send + Sync,
{
    RangedU64ValueParser::new().range(min..=max)
}
