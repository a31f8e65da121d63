//! What can be asked for, and what cannot.

use std::fmt;
use std::time::Duration;

use clap::Parser;
use examples::number::number;
use examples::view::ViewOptions;
use humantime::{format_duration, parse_duration};

/// A loopback address has about 28,000 ports for clients by default.
const MAX_CONNECTIONS: u64 = 25_000;
const MAX_SECONDS: u64 = 3_600;
/// Below it the clients would measure themselves.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_secs(MAX_SECONDS);
/// Sessions are timed out to within a tick.
const MAX_TICK: Duration = Duration::from_millis(100);

/// Runs a server of sessions with idle timeouts and heartbeats, and its clients, and accounts for
/// every timer and every session.
#[derive(Debug, Clone, Parser)]
#[command(name = "sessions", after_help = "Durations are written as 250us, 400ms or 2s.")]
pub struct Options {
    /// How many clients connect.
    #[arg(long, default_value_t = 2_000, value_parser = number::<usize>(1, MAX_CONNECTIONS))]
    pub connections: usize,

    /// How long they stay.
    #[arg(long, default_value_t = 10, value_parser = number::<u64>(1, MAX_SECONDS))]
    pub seconds: u64,

    /// How many of a hundred clients fall silent in the middle.
    #[arg(long, default_value_t = 10, value_parser = number::<usize>(0, 100))]
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
    #[arg(long, default_value_t = 1)]
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

    /// Checks the durations against their limits and against each other.
    pub fn check(&self) -> Result<(), String> {
        for (name, given, min, max) in [
            ("request-interval", self.request_interval, MIN_INTERVAL, MAX_INTERVAL),
            ("heartbeat", self.heartbeat, MIN_INTERVAL, MAX_INTERVAL),
            ("tick", self.tick, Duration::from_nanos(1), MAX_TICK),
        ] {
            if given < min || given > max {
                let [given, min, max] = [given, min, max].map(format_duration);
                return Err(format!("{name} is {given}, but it must be between {min} and {max}"));
            }
        }
        let least = self.request_interval * 2;
        let timeout = format_duration(self.idle_timeout);
        if self.idle_timeout < least {
            let (least, interval) =
                (format_duration(least), format_duration(self.request_interval));
            return Err(format!(
                "idle-timeout is {timeout}, but it must be at least {least}, twice the \
                 request-interval of {interval}, or a client that is merely slow would be timed out"
            ));
        }
        let most = self.run() / 2;
        if self.idle_timeout > most {
            let most = format_duration(most);
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
            format_duration(self.idle_timeout),
            format_duration(self.request_interval / 4),
            format_duration(self.request_interval),
            format_duration(self.heartbeat),
            format_duration(self.tick),
        )
    }
}
