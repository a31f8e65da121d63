//! Where and of what the figures come: without it they say little.

use std::env;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The machine, the compiler and the tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    /// The load of the machine when the run began: others disturb.
    pub(crate) load: String,
    pub(crate) rustc: String,
    pub(crate) allocator: String,
    pub(crate) commit: String,
    /// What was asked for.
    pub(crate) arguments: String,
    /// Seconds since 1970.
    pub(crate) unix_time: u64,
    /// The versions of the crates that are compared.
    pub(crate) versions: Vec<(String, String)>,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, key: &str| {
            text.lines()
                .find(|line| line.starts_with(key))
                .and_then(|line| line.split_once(':'))
                .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
        };
        let kibibytes = after(&read("/proc/meminfo"), "MemTotal");
        let kibibytes: f64 = kibibytes.trim_end_matches("kB").trim().parse().unwrap_or_default();
        Self {
            cpu: after(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kibibytes / f64::from(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            rustc: env!("COMPARE_RUSTC").to_owned(),
            allocator: "the system's".to_owned(),
            commit: commit(),
            arguments: arguments(),
            unix_time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            versions: versions(),
        }
    }
}

/// The command line, without where the results go: that says nothing about them.
fn arguments() -> String {
    let mut arguments = Vec::new();
    let mut all = env::args().skip(1);
    while let Some(argument) = all.next() {
        if argument == "--out" {
            all.next();
        } else if !argument.starts_with("--out=") {
            arguments.push(argument);
        }
    }
    arguments.join(" ")
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR")])
        .args(arguments)
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The tree as it is now, which is what `cargo run` has built.
fn commit() -> String {
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    let suffix = if changes.is_some_and(|changes| !changes.is_empty()) { ", changed" } else { "" };
    commit + suffix
}

/// The versions that this was built with, out of the lock file.
fn versions() -> Vec<(String, String)> {
    let lock = include_str!("../../../../Cargo.lock");
    let quoted = |line: &str, key: &str| {
        line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned)
    };
    let mut versions = Vec::new();
    let mut name = None;
    for line in lock.lines() {
        if let Some(found) = quoted(line, "name") {
            name = Some(found);
        } else if let Some(version) = quoted(line, "version")
            && let Some(name) = name.take()
            && PEERS.contains(&name.as_str())
        {
            versions.push((name, version));
        }
    }
    versions
}

/// The crates whose versions are told.
const PEERS: [&str; 15] = [
    "actix",
    "async-io",
    "crossbeam-queue",
    "futures-timer",
    "hierarchical_hash_wheel_timer",
    "kameo",
    "kompact",
    "lars-scheduler",
    "mini-actor",
    "pingora-timeout",
    "ractor",
    "scheduled-thread-pool",
    "tokio",
    "tokio-util",
    "xtra",
];
