//! Other crates for jobs in a database: schedules jobs with one of them, runs them, and prints what
//! that took. `durable` and `durable_postgres` start it, on the database that they measure:
//!
//! ```sh
//! cargo build --release --manifest-path benches/durable-peers/Cargo.toml
//! durable_postgres --peers benches/durable-peers/target/release/durable-peers
//! ```
#![allow(clippy::disallowed_methods)]

mod measure;
mod peer;
mod peers;

use clap::Parser;

use self::measure::Found;
use self::peers::{ApalisPostgres, ApalisSqlite, GraphileWorker, Underway};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Measures one of the peers.
#[derive(Parser)]
struct Options {
    /// Which: one that `list postgres` or `list sqlite` prints.
    peer: String,
    /// What: single, batches, run or lateness.
    measurement: String,
    /// The database; a new one, or one that the same peer has used before.
    #[arg(default_value = "")]
    url: String,
    /// How many jobs; of `lateness`, how many a second.
    #[arg(long, default_value_t = 1_000)]
    count: u64,
    /// For how long jobs are due, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many jobs are pending meanwhile.
    #[arg(long, default_value_t = 0)]
    pending: u64,
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    if options.peer == "list" {
        let names: &[&str] = match options.measurement.as_str() {
            "postgres" => &["apalis-postgres", "graphile_worker", "underway"],
            _ => &["apalis-sqlite"],
        };
        println!("{}", names.join("\n"));
        return Ok(());
    }
    let found = match options.peer.as_str() {
        "apalis-postgres" => measure::<ApalisPostgres>(&options).await,
        "apalis-sqlite" => measure::<ApalisSqlite>(&options).await,
        "graphile_worker" => measure::<GraphileWorker>(&options).await,
        "underway" => measure::<Underway>(&options).await,
        other => Err(format!("nobody is called {other:?}").into()),
    }?;
    println!("{}", serde_json::to_string(&found)?);
    // The workers need not end.
    std::process::exit(0)
}

async fn measure<P: peer::Peer>(options: &Options) -> Result<Found, AnyError> {
    let peer = P::open(&options.url).await?;
    match options.measurement.as_str() {
        "single" => measure::single(&peer, options.count).await,
        "batches" => measure::batches(&peer, options.count).await,
        "run" => measure::run(&peer, options.count).await,
        "lateness" => {
            measure::lateness(&peer, options.count, options.seconds, options.pending).await
        }
        other => Err(format!("nothing is called {other:?}").into()),
    }
}
