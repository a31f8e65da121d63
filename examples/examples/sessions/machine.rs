//! What the operating system allows, and what it charges. Linux tells in files; elsewhere nothing
//! is known, and nothing is checked.

use std::fs;
use std::time::Duration;

use crate::options::Options;

/// Descriptors for anything but connections: the standard streams, the listener, two polls, a
/// waker.
const SPARE: u64 = 32;
/// The unit of the times in `/proc/self/stat`; the kernel shows 100 to all programs.
const CLOCK_TICKS_PER_SECOND: u64 = 100;

/// Checks that both ends of all connections can be open at the same time.
pub fn check_file_limit(options: &Options) -> Result<(), String> {
    let needed = 2 * options.connections as u64 + SPARE;
    let Some((soft, hard)) = file_limits() else {
        return Ok(());
    };
    if needed <= soft {
        return Ok(());
    }
    let fitting = |limit: u64| limit.saturating_sub(SPARE) / 2;
    let way_out = if needed <= hard {
        let fitting = fitting(soft);
        format!(
            "run `ulimit -n {needed}` in the shell first, or ask for at most {fitting} connections"
        )
    } else {
        let fitting = fitting(hard);
        format!("it can be raised to {hard} at most, which is enough for {fitting} connections")
    };
    Err(format!(
        "connections is {}, which needs {needed} open files, but the limit is {soft}: {way_out}",
        options.connections
    ))
}

/// How many files this process may open, and to how many it may raise that.
fn file_limits() -> Option<(u64, u64)> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut values = line.split_whitespace().map(|value| match value {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some((values.next()??, values.next()??))
}

/// What this process has used of the processors.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

pub fn cpu_time() -> Option<CpuTime> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|ticks| {
        let ticks: u64 = ticks.parse().ok()?;
        Some(Duration::from_millis(ticks * 1_000 / CLOCK_TICKS_PER_SECOND))
    });
    Some(CpuTime { user: times.next()??, system: times.next()?? })
}
