//! Durable timers on PostgreSQL beside a bare loop of the same statements, and beside other crates,
//! on a server that this program starts in a temporary directory:
//!
//! ```sh
//! cargo run --release -p benches --no-default-features --features postgres \
//!     --bin durable_postgres -- --out r.json
//! durable_postgres --only lateness --pending 10000000 --out r.json     # a part; added to r.json
//! durable_postgres --only held --seconds 600 --out r.json
//! durable_postgres --only cancels --pending 10000000 --out r.json      # nine of ten of them
//! durable_postgres --only single,batches,run,peers --peers .../durable-peers --out r.json
//! durable_postgres --table r.json --plot docs/plots
//! ```
//!
//! Ratios are what can be compared between machines; most of the rest is the disk. Each measurement
//! checks what it did.
#![allow(clippy::disallowed_methods)]

mod bare;
mod cancels;
mod elsewhere;
mod rates;
mod server;
mod times;

use benches::durable::{self, AnyError, Session};
use clap::Parser;

use self::server::Server;

/// Durable timers on PostgreSQL beside a bare loop of the same statements, and other crates.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    all: durable::Options,
    /// What to measure, separated by commas; everything but `held`, `cancels` and `peers` unless it
    /// is set.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "single,pipelined,batches,run,lateness,near,idle,close,takeover,resets"
    )]
    only: Vec<String>,
    /// How many timers are pending while lateness, idleness and cancels are measured.
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// How long `held` holds a snapshot.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What a node needs that is to be killed.
    #[arg(long, hide = true)]
    node: Option<String>,
    /// The lease of `takeover`, in seconds.
    #[arg(long, default_value_t = 10)]
    lease: u64,
}

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    if let Some(parameters) = &options.node {
        return elsewhere::node(parameters, options.lease);
    }
    if Session::shows(&options.all, "postgres")? {
        return Ok(());
    }
    let server = Server::start(&options.all.directory())?;
    let mut session = Session::new(&options.all, "postgres", || server.for_a_peer())?;
    let (quick, scale) = (options.all.quick, options.all.scale());
    for what in &options.only {
        eprintln!("{what}");
        match what.as_str() {
            "single" | "pipelined" | "batches" => rates::scheduling(&server, &mut session, what)?,
            "run" => rates::run(&server, &mut session, 40_000 / scale, quick)?,
            "resets" => rates::resets(&server, &mut session.report, 100_000 / scale)?,
            "lateness" => {
                let (pending, seconds) = (options.pending / scale, if quick { 1 } else { 10 });
                let rounds = options.all.rounds();
                times::lateness(&server, &mut session.report, pending, seconds, rounds)?;
            }
            "peers" => times::peers(&server, &mut session, 100_000 / scale, quick)?,
            "idle" => {
                let (pending, seconds) = (options.pending / scale, if quick { 1 } else { 30 });
                times::idle(&server, &mut session.report, pending, seconds)?;
            }
            "cancels" => {
                let pending = options.pending / scale;
                cancels::cancels(&server, &mut session.report, pending, quick)?;
            }
            "held" => times::held(&server, &mut session.report, options.seconds)?,
            "near" => {
                elsewhere::near(&server, &mut session.report, if quick { 20 } else { 500 })?;
            }
            "close" => elsewhere::close(&server, &mut session.report)?,
            "takeover" => {
                let lease = if quick { 1 } else { options.lease };
                elsewhere::takeover(&server, &mut session.report, lease)?;
            }
            other => return Err(format!("nothing is called {other:?}").into()),
        }
        session.save()?;
    }
    session.report.print();
    Ok(())
}
