//! Timers that several machines share. Three processes on one PostgreSQL server schedule and run
//! 30,000 of them. One process is killed with SIGKILL, another is frozen for longer than its lease.
//! In the end every accepted timer has fired, and the program accounts for all of them.
//!
//! ```sh
//! cargo run --release -p examples --features postgres --example cluster
//! ```
//!
//! The program that you start only watches. It starts a PostgreSQL server in a temporary directory
//! (Debian: `apt-get install postgresql`), and copies of itself, which do the work. It exits with
//! an error if a timer is missing, or early, or ran twice although its node was neither killed nor
//! frozen.

// It measures real time.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use examples::checks::Problem;
use examples::nodes::{NodeOptions, Nodes, Role};
use examples::postgres::{MISSING, Server};
use lars_durable::schedule::Schedule;
use lars_durable::{Durable, Fired, Payload};
use serde::{Deserialize, Serialize};

type AnyError = Box<dyn std::error::Error>;

/// Three processes share the timers of one PostgreSQL server. One is killed, another is frozen.
#[derive(Parser)]
struct Options {
    /// How many timers all nodes together schedule.
    #[arg(long, default_value_t = 30_000)]
    timers: u64,
    /// Over how many seconds they are due.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    #[command(flatten)]
    node: NodeOptions,
}

const NODES: u64 = 3;
const LEASE: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize)]
struct Numbered(u64);

impl Payload for Numbered {
    const NAME: &'static str = "numbered";
}

fn main() -> Result<ExitCode, Problem> {
    let options = Options::parse();
    match options.node.role() {
        Some(role) => {
            work(&options, role)?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(look_on(&options)?),
    }
}

/// What a node does: it schedules its share, and runs whatever is due in its buckets.
fn work(options: &Options, (node, directory, parameters): Role<'_>) -> Result<(), AnyError> {
    let log = |name: &str| -> Result<Arc<File>, AnyError> {
        let path = directory.join(format!("{name}-{node}"));
        Ok(Arc::new(OpenOptions::new().create(true).append(true).open(path)?))
    };
    let (runs, accepted) = (log("runs")?, log("accepted")?);
    let run = move |due: &Fired<Numbered>| {
        let early = SystemTime::now() < due.due();
        let (tag, late) = (due.payload().0, due.lateness().as_micros());
        let line = format!("{tag} {node} {late} {early}\n");
        (&*runs).write_all(line.as_bytes()).map_err(|error| error.to_string())
    };
    let durable = Durable::postgres(parameters).lease(LEASE).handle(run).start()?;
    let timers = durable.timers();
    // One that is started again has done this before.
    let again = accepted.metadata()?.len() > 0;
    let timers_left = if again { 0 } else { options.timers };
    let mine: Vec<u64> = (0..timers_left).filter(|tag| tag % NODES == node).collect();
    for tags in mine.chunks(500) {
        let batch = tags.iter().map(|tag| -> Schedule<_> {
            let after = tag * options.seconds * 1_000 / options.timers;
            let timer = timers.schedule_once(Duration::from_millis(after), Numbered(*tag));
            timer.key(format!("timer/{tag}"))
        });
        // Each has a key, so it may be repeated.
        while timers.schedule_batch(batch.clone().collect::<Vec<_>>()).wait().is_err() {}
        let lines: String = tags.iter().map(|tag| format!("{tag}\n")).collect();
        (&*accepted).write_all(lines.as_bytes())?;
    }
    loop {
        std::thread::park();
    }
}

/// What the handlers of all nodes have seen: by timer, the nodes that ran it.
#[derive(Default)]
struct Seen {
    runs: BTreeMap<u64, Vec<u64>>,
    late: Vec<u64>,
    early: usize,
    accepted: usize,
}

fn seen(logs: &Path) -> Seen {
    let mut seen = Seen::default();
    for node in 0..NODES {
        let read = |name: &str| {
            std::fs::read_to_string(logs.join(format!("{name}-{node}"))).unwrap_or_default()
        };
        seen.accepted += read("accepted").lines().count();
        for line in read("runs").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [tag, node, late, early] = words[..] else { continue };
            if let (Ok(tag), Ok(node), Ok(late)) = (tag.parse(), node.parse(), late.parse()) {
                seen.runs.entry(tag).or_default().push(node);
                seen.late.push(late);
                seen.early += usize::from(early == "true");
            }
        }
    }
    seen.late.sort_unstable();
    seen
}

fn look_on(options: &Options) -> Result<ExitCode, AnyError> {
    let Some(server) = Server::start("cluster")? else {
        eprintln!("{MISSING}");
        return Ok(ExitCode::FAILURE);
    };
    let logs = std::env::temp_dir().join(format!("lars-cluster-logs-{}", std::process::id()));
    std::fs::create_dir_all(&logs)?;
    let (timers, seconds) = (options.timers.to_string(), options.seconds.to_string());
    let same = ["--timers".into(), timers, "--seconds".into(), seconds];
    let mut nodes = Nodes::start(NODES, &logs, &server, &same)?;
    let begun = Instant::now();
    // What happens, and how many seconds after the last timer was accepted.
    let mut plan = vec![
        (2, "node 1 is killed"),
        (4, "node 2 is frozen"),
        (10, "node 2 goes on"),
        (11, "node 1 is started again"),
    ];
    let (mut all_accepted, mut before) = (None, 0);
    let end = Instant::now() + Duration::from_secs(options.seconds * 4 + 120);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_secs(1));
        let seen = seen(&logs);
        let owners = "SELECT string_agg(buckets::text || CASE WHEN lives THEN '' ELSE ' of a dead \
                      node' END, ' + ') FROM lars.owners WHERE owner IS NOT NULL";
        let epochs = server.ask("SELECT sum(greatest(epoch - 1, 0)) FROM lars.bucket");
        let late = seen.late.get(seen.late.len() / 2).map_or(0, |late| late / 1_000);
        println!(
            "{:>3} s: {} accepted, {} fired ({}/s), half of them less than {late} ms late; buckets \
             {}; {epochs} taken over",
            begun.elapsed().as_secs(),
            seen.accepted,
            seen.runs.len(),
            seen.runs.len() - before,
            server.ask(owners),
        );
        before = seen.runs.len();
        if all_accepted.is_none() && seen.accepted as u64 >= options.timers {
            all_accepted = Some(Instant::now());
        }
        let since = all_accepted.map(|at| at.elapsed().as_secs());
        while let Some((at, what)) = plan.first().copied()
            && since.is_some_and(|since| since >= at)
        {
            plan.remove(0);
            println!("       {what}");
            match at {
                2 => nodes.kill(1)?,
                4 => nodes.signal(2, "-STOP")?,
                10 => nodes.signal(2, "-CONT")?,
                _ => nodes.restart(1, 1)?,
            }
        }
        let left = server.ask("SELECT count(*) FROM lars.timer");
        if plan.is_empty() && seen.runs.len() as u64 >= options.timers && left == "0" {
            break;
        }
    }
    drop(nodes);
    let seen = seen(&logs);
    let _ = std::fs::remove_dir_all(&logs);
    let missing = (0..options.timers).filter(|tag| !seen.runs.contains_key(tag)).count();
    let again: Vec<&Vec<u64>> = seen.runs.values().filter(|nodes| nodes.len() > 1).collect();
    // A second run is allowed only after a node that was killed or frozen.
    let unexplained = again.iter().filter(|nodes| nodes.iter().all(|node| *node == 0)).count();
    println!(
        "{} timers fired; {missing} missing, {} early, {} more than once, {unexplained} of them \
         without a reason",
        seen.runs.len(),
        seen.early,
        again.len()
    );
    let good = missing == 0 && seen.early == 0 && unexplained == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
