//! Durable timers on PostgreSQL beside a bare loop of the same statements, on a server that this
//! program starts in a temporary directory:
//!
//! ```sh
//! cargo run --release -p benches --no-default-features --features postgres \
//!     --bin durable_postgres -- --out r.json
//! durable_postgres --only lateness --pending 10000000 --out r.json     # a part; added to r.json
//! durable_postgres --only held --seconds 600 --out r.json
//! durable_postgres --table r.json --plot docs/plots
//! ```
//!
//! Ratios are what can be compared between machines; most of the rest is the disk. Each measurement
//! checks what it did.
#![allow(clippy::disallowed_methods)]

mod bare;
mod elsewhere;
mod plots;
mod rates;
mod report;
mod server;
mod times;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use clap::Parser;
use lars_durable::{Builder, Durable, Fired, Handler, Payload, Timers};
use serde::{Deserialize, Serialize};

use self::report::Report;
use self::server::Server;

type AnyError = Box<dyn std::error::Error>;

/// Durable timers on PostgreSQL beside a bare loop of the same statements.
#[derive(Parser)]
struct Options {
    /// A hundredth of the work: whether it runs, and not how fast.
    #[arg(long)]
    quick: bool,
    /// How often each rate is measured.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// What to measure, separated by commas; everything but `held` unless it is set.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "single,pipelined,batches,run,lateness,near,idle,close,takeover,resets"
    )]
    only: Vec<String>,
    /// How many timers are pending while lateness and idleness are measured.
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// How long `held` holds a snapshot.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Where the server keeps its files; the results depend on its disk.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The file to which the results are added.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Measures nothing, and prints the tables of this file.
    #[arg(long)]
    table: Option<PathBuf>,
    /// With `--table`: where the plots go.
    #[arg(long, requires = "table")]
    plot: Option<PathBuf>,
    /// What a node needs that is to be killed.
    #[arg(long, hide = true)]
    node: Option<String>,
    /// The lease of `takeover`, in seconds.
    #[arg(long, default_value_t = 10)]
    lease: u64,
}

#[derive(Serialize, Deserialize)]
struct Job(u64);

impl Payload for Job {
    const NAME: &'static str = "job";
}

const HOUR: Duration = Duration::from_secs(3600);

/// The longest that anything may take, so that a defect does not hang.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    if let Some(parameters) = &options.node {
        return elsewhere::node(parameters, options.lease);
    }
    if let Some(file) = &options.table {
        let report = Report::read(file)?;
        report.print();
        return options.plot.map_or(Ok(()), |directory| plots::draw(&report, &directory));
    }
    let mut report = match &options.out {
        Some(file) => Report::read(file)?,
        None => Report::default(),
    };
    let directory = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let server = Server::start(&directory)?;
    let scale = if options.quick { 100 } else { 1 };
    let rounds = if options.quick { 1 } else { options.rounds };
    for what in &options.only {
        eprintln!("{what}");
        match what.as_str() {
            "single" => rates::single(&server, &mut report, rounds, 10_000 / scale)?,
            "pipelined" => rates::pipelined(&server, &mut report, rounds, 100_000 / scale)?,
            "batches" => rates::batches(&server, &mut report, rounds, 100_000 / scale)?,
            "run" => rates::run(&server, &mut report, rounds, 40_000 / scale, options.quick)?,
            "resets" => rates::resets(&server, &mut report, 100_000 / scale)?,
            "lateness" => {
                let pending = options.pending / scale;
                times::lateness(&server, &mut report, pending, if options.quick { 1 } else { 10 })?;
            }
            "idle" => {
                let pending = options.pending / scale;
                times::idle(&server, &mut report, pending, if options.quick { 1 } else { 30 })?;
            }
            "held" => times::held(&server, &mut report, options.seconds)?,
            "near" => elsewhere::near(&server, &mut report, if options.quick { 20 } else { 500 })?,
            "close" => elsewhere::close(&server, &mut report)?,
            "takeover" => {
                let lease = if options.quick { 1 } else { options.lease };
                elsewhere::takeover(&server, &mut report, lease)?;
            }
            other => return Err(format!("nothing is called {other:?}").into()),
        }
        if let Some(file) = &options.out {
            report.write(file)?;
        }
    }
    report.print();
    Ok(())
}

/// What a handler saw: the number, when it was due, how late it began in microseconds.
type Seen = (u64, SystemTime, i64);

/// A handler that tells how late it is; early is negative.
fn telling(sender: Sender<Seen>) -> Handler {
    let sender = Arc::new(Mutex::new(sender));
    Handler::new(move |due: &Fired<Job>| {
        let late = match SystemTime::now().duration_since(due.due()) {
            Ok(late) => late.as_micros() as i64,
            Err(early) => -(early.duration().as_micros() as i64) - 1,
        };
        let seen = (due.payload().0, due.due(), late);
        // Nobody listens any more after a measurement.
        let _ = sender.lock().expect("nobody panics").send(seen);
    })
    .concurrency(4_096)
}

/// A node that runs jobs.
fn runs_jobs(builder: Builder) -> Result<(Durable, Receiver<Seen>), AnyError> {
    let (sender, receiver) = channel();
    Ok((builder.handler(telling(sender)).max_in_flight(4_096).start()?, receiver))
}

fn receive(receiver: &Receiver<Seen>, count: u64) -> Vec<Seen> {
    (0..count).map(|_| receiver.recv_timeout(PATIENCE).expect("it runs")).collect()
}

/// A thousand a second from `first` on, for so many seconds.
fn thousand_a_second(timers: &Timers, first: SystemTime, seconds: u64) -> Result<(), AnyError> {
    for second in 0..seconds {
        let each = (0..1_000).map(|n| {
            let number = second * 1_000 + n;
            timers.schedule_at(first + Duration::from_millis(number), Job(number))
        });
        timers.schedule_batch(each).wait()?;
    }
    Ok(())
}

/// Until nothing runs.
fn settle(durable: &Durable) {
    while durable.metrics().in_flight > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
