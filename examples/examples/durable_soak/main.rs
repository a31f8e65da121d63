//! A long run of durable timers on three nodes that are killed and frozen, audited every second.
//!
//! Three processes share a PostgreSQL server, which this program starts in a temporary directory
//! (Debian: `apt-get install postgresql`). Each schedules, cancels and runs timers. Some runs ask
//! for another attempt, some park their timer. All the time, one process after the other is killed
//! with SIGKILL and started again, or frozen for longer than its lease. Every second the books are
//! compared with the database: each accepted timer has run, is pending, was cancelled, or is
//! parked; none was early, and none ran twice without a fault that explains it.
//!
//! ```sh
//! cargo run --release -p examples --features postgres --example durable_soak -- --seconds 1800
//! ```

// It measures real time.
#![allow(clippy::disallowed_methods)]

mod books;
mod node;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;

use self::books::Books;
use examples::checks::Problem;
use examples::nodes::{NodeOptions, Nodes};
use examples::postgres::{MISSING, Server};

type AnyError = Box<dyn std::error::Error>;

const NODES: u64 = 3;
const LEASE: Duration = Duration::from_secs(6);
/// The longest that the last timers may take, after the nodes have stopped to schedule.
const DRAIN: Duration = Duration::from_secs(180);

/// Three nodes that are killed and frozen, audited every second.
#[derive(Parser)]
struct Options {
    /// For how long timers are scheduled, and things go wrong.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many timers a second each node schedules.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// Seconds from one fault to the next.
    #[arg(long, default_value_t = 15)]
    every: u64,
    /// Repeats the faults of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    node: NodeOptions,
}

fn main() -> Result<ExitCode, Problem> {
    let options = Options::parse();
    match options.node.role() {
        Some((life, directory, parameters)) => {
            node::work(life, directory, parameters, options.rate)?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(watch(&options)?),
    }
}

/// What is being done to a node.
enum Fault {
    /// It was killed, and is started again then.
    Killed { node: usize, until: Instant },
    /// It is frozen until then.
    Frozen { node: usize, until: Instant },
}

/// Somebody may stop the whole machine for a while: notices that, for the books.
fn watch_standstills() -> Arc<Mutex<Vec<Duration>>> {
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let notes = Arc::clone(&seen);
    std::thread::spawn(move || {
        loop {
            let asleep = Instant::now();
            std::thread::sleep(Duration::from_millis(10));
            if asleep.elapsed() > Duration::from_millis(500) {
                notes.lock().expect("nobody panics").push(asleep.elapsed());
            }
        }
    });
    seen
}

fn watch(options: &Options) -> Result<ExitCode, AnyError> {
    let Some(server) = Server::start("durable-soak")? else {
        eprintln!("{MISSING}");
        return Ok(ExitCode::FAILURE);
    };
    let logs = std::env::temp_dir().join(format!("lars-durable-soak-logs-{}", std::process::id()));
    std::fs::create_dir_all(&logs)?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let standstills = watch_standstills();
    let mut books = Books::new(&logs);
    let rate = ["--rate".into(), options.rate.to_string()];
    let mut nodes = Nodes::start(NODES, &logs, &server, &rate)?;
    // Each life of a node has a number of its own.
    let (mut lives, mut begun_lives) = ((0..NODES).collect::<Vec<_>>(), NODES);
    let begun = Instant::now();
    let (mut fault, mut next) = (None, Duration::from_secs(options.every.max(5)));
    let (mut kills, mut freezes, mut stopping) = (0, 0, None);
    for audit in 1_u64.. {
        std::thread::sleep(Duration::from_secs(1));
        for long in standstills.lock().expect("nobody panics").drain(..) {
            books.machine_stood_still(long);
        }
        if let Some(wrong) = books.audit(&server)? {
            println!("{:>5} s: {wrong}", begun.elapsed().as_secs());
            println!("the logs are in {}", logs.display());
            return Ok(ExitCode::FAILURE);
        }
        if audit % 10 == 0 {
            println!("{:>5} s: {}", begun.elapsed().as_secs(), books.line());
        }
        let over = begun.elapsed() >= Duration::from_secs(options.seconds);
        fault = match fault {
            None if over || begun.elapsed() < next => None,
            None => {
                let node = rng.usize(..lives.len());
                if rng.u8(..3) > 0 {
                    nodes.kill(node)?;
                    books.disturbed(lives[node], false, &server);
                    kills += 1;
                    let until = Instant::now() + Duration::from_millis(rng.u64(0..8_000));
                    Some(Fault::Killed { node, until })
                } else {
                    let long = LEASE.mul_f64(rng.f64() + 1.0);
                    nodes.signal(node, "-STOP")?;
                    books.disturbed(lives[node], true, &server);
                    freezes += 1;
                    Some(Fault::Frozen { node, until: Instant::now() + long })
                }
            }
            Some(Fault::Killed { node, until }) if over || Instant::now() >= until => {
                lives[node] = begun_lives;
                begun_lives += 1;
                nodes.restart(node, lives[node])?;
                next = begun.elapsed() + Duration::from_secs(options.every);
                None
            }
            Some(Fault::Frozen { node, until }) if over || Instant::now() >= until => {
                nodes.signal(node, "-CONT")?;
                next = begun.elapsed() + Duration::from_secs(options.every);
                None
            }
            under_way => under_way,
        };
        if over && fault.is_none() && stopping.is_none() {
            std::fs::write(logs.join(node::STOP), "")?;
            stopping = Some(Instant::now());
        }
        let Some(stopping) = stopping else { continue };
        if books.is_settled() && stopping.elapsed() > Duration::from_secs(2) {
            break;
        }
        if stopping.elapsed() > DRAIN {
            println!("after {} s, {} timers have not ended", DRAIN.as_secs(), books.open());
            return Ok(ExitCode::FAILURE);
        }
    }
    println!("{kills} kills, {freezes} freezes in {} s", begun.elapsed().as_secs());
    println!("{}", books.summary());
    drop(nodes);
    let _ = std::fs::remove_dir_all(&logs);
    Ok(ExitCode::SUCCESS)
}
