//! What can be asked for, and what cannot.

use std::fmt;
use std::time::Duration;

use clap::Parser;
use examples::view::ViewOptions;

/// A loopback address has about 28,000 ports for clients by default.
const MAX_CONNECTIONS: usize = 25_000;
const MAX_SECONDS: u64 = 3_600;
/// Below it the clients would measure themselves.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_secs(MAX_SECONDS);
/// Sessions are timed out to within a tick.
const MAX_TICK: Duration = Duration::from_millis(100);

/// Runs a server of sessions with idle timeouts and heartbeats, and its clients, and accounts for
/// every timer and every session.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "sessions",
    after_help = "Durations are written as 250us, 400ms or 2s; a number alone means milliseconds."
)]
pub struct Options {
    /// How many clients connect.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub connections: usize,

    /// How long they stay.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub seconds: u64,

    /// How many of a hundred clients fall silent in the middle.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub silent_percent: usize,

    /// After how long without a request a session is timed out.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub idle_timeout: Duration,

    /// The longest time between two requests of a client; the shortest is a quarter of it.
    #[arg(long, value_name = "DURATION", default_value = "400ms", value_parser = parse_duration)]
    pub request_interval: Duration,

    /// The time between two heartbeats of a session.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub heartbeat: Duration,

    /// The scheduler's tick.
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = parse_duration)]
    pub tick: Duration,

    /// What decides who falls silent, and when requests are sent.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub view: ViewOptions,
}

impl Options {
    /// How long the clients stay.
    pub fn run(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// How many clients fall silent.
    pub fn silent(&self) -> usize {
        (self.connections * self.silent_percent + 50) / 100
    }

    /// Checks every option against its limits and against the others.
    pub fn check(&self) -> Result<(), String> {
        within("connections", self.connections, 1, MAX_CONNECTIONS)?;
        within("seconds", self.seconds, 1, MAX_SECONDS)?;
        within("silent-percent", self.silent_percent, 0, 100)?;
        let interval = Span(self.request_interval);
        within("request-interval", interval, Span(MIN_INTERVAL), Span(MAX_INTERVAL))?;
        let heartbeat = Span(self.heartbeat);
        within("heartbeat", heartbeat, Span(MIN_INTERVAL), Span(MAX_INTERVAL))?;
        within("tick", Span(self.tick), Span(Duration::from_nanos(1)), Span(MAX_TICK))?;
        let timeout = Span(self.idle_timeout);
        let least = Span(self.request_interval * 2);
        if timeout < least {
            return Err(format!(
                "idle-timeout is {timeout}, but it must be at least {least}, twice the \
                 request-interval of {interval}, or a client that is merely slow would be timed out"
            ));
        }
        let most = Span(self.run() / 2);
        if timeout > most {
            return Err(format!(
                "idle-timeout is {timeout}, but it must be at most {most}, half of the {} s that \
                 the clients stay, or nobody would be timed out before the others hang up",
                self.seconds
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} clients for {} s, {} of which fall silent (seed {}).\n\
             Idle timeout {}, a request every {} to {}, heartbeat {}, tick {}.",
            self.connections,
            self.seconds,
            self.silent(),
            self.seed,
            Span(self.idle_timeout),
            Span(self.request_interval / 4),
            Span(self.request_interval),
            Span(self.heartbeat),
            Span(self.tick),
        )
    }
}

fn within<T: PartialOrd + fmt::Display>(
    name: &str,
    given: T,
    min: T,
    max: T,
) -> Result<(), String> {
    if given < min || given > max {
        return Err(format!("{name} is {given}, but it must be between {min} and {max}"));
    }
    Ok(())
}

/// A duration as it is written on the command line.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        for (unit, size) in units {
            if nanos.is_multiple_of(size) && nanos > 0 {
                return write!(f, "{}{unit}", nanos / size);
            }
        }
        f.write_str("0ms")
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("a duration is a whole number with a unit, as in 250us, 400ms or 2s".to_owned());
    }
    let number: u64 = number.parse().map_err(|_| format!("{number} is more than {}", u64::MAX))?;
    match unit {
        "ns" => Ok(Duration::from_nanos(number)),
        "us" => Ok(Duration::from_micros(number)),
        "ms" | "" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(format!("the unit is {unit:?}, but it must be ns, us, ms or s")),
    }
}
