//! Durable timers in a file beside a bare loop of the same statements, and beside other crates, in
//! one run on one file system:
//!
//! ```sh
//! cargo run --release -p benches --no-default-features --bin durable
//! durable --peers .../durable-peers --out r.json
//! durable --table r.json --plot docs/plots
//! ```
//!
//! Ratios are what can be compared between machines; most of the rest is the disk. Each measurement
//! checks what it did.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use benches::durable::{
    self, AnyError, HOUR, Job, RUN_AND_FINISH, Session, late, rate, receive, runs_jobs, steady,
};
use clap::Parser;
use lars_durable::{Builder, Durable};
use rusqlite::{Connection, params};

/// Durable timers in a file beside a bare loop of the same statements, and other crates.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    all: durable::Options,
    /// What to measure, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "single,pipelined,batches,run,lateness,peers"
    )]
    only: Vec<String>,
}

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    if Session::shows(&options.all, "sqlite")? {
        return Ok(());
    }
    let own = format!("lars-durable-bench-{}", std::process::id());
    let directory = options.all.directory().join(own);
    std::fs::create_dir_all(&directory)?;
    let mut session = Session::new(&options.all, "sqlite", || {
        Ok(format!("sqlite://{}?mode=rwc", fresh(&directory, "peer.db").display()))
    })?;
    let (quick, scale) = (options.all.quick, options.all.scale());
    for what in &options.only {
        eprintln!("{what}");
        match what.as_str() {
            "single" | "pipelined" | "batches" => {
                let inserts = |count, batch| bare_inserts(&bare(&directory)?, count, batch);
                session.scheduling(what, || Ok(ours(&directory)), inserts)?;
            }
            "run" => run(&directory, &mut session, 60_000 / scale, quick)?,
            "lateness" => {
                lateness(&directory, &mut session, 1_000_000 / scale, if quick { 1 } else { 10 })?;
            }
            "peers" => {
                let pending = 100_000 / scale;
                session.steady(pending, || {
                    let node = runs_jobs(Durable::sqlite(full(&directory, pending)?))?;
                    thread::sleep(Duration::from_secs(if quick { 1 } else { 8 }));
                    Ok(node)
                })?;
            }
            other => return Err(format!("nothing is called {other:?}").into()),
        }
        session.save()?;
    }
    session.report.print();
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}

/// A file of its own, without those of an earlier measurement.
fn fresh(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    for ending in ["", "-wal", "-shm", ".lock"] {
        let mut file = path.clone().into_os_string();
        file.push(ending);
        let _ = std::fs::remove_file(file);
    }
    path
}

fn ours(directory: &Path) -> Builder {
    Durable::sqlite(fresh(directory, "ours.db"))
}

/// A file with the schema, for a bare loop.
fn bare(directory: &Path) -> Result<Connection, AnyError> {
    let path = fresh(directory, "bare.db");
    Durable::sqlite(&path).start()?.close()?;
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Inserts `count` timers, `batch` in a transaction; how many a second.
fn bare_inserts(connection: &Connection, count: u64, batch: u64) -> Result<f64, AnyError> {
    let begun = Instant::now();
    let mut id = 0;
    while id < count {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..batch.min(count - id) {
            id += 1;
            // One after the other, as those of a caller that always asks for the same delay.
            let due = id as i64 + 4_000_000_000_000_000;
            connection
                .prepare_cached(
                    "INSERT INTO lars_timer (id, grp, bucket, due_at, deadline, planned_at, key,
                            handler, payload_version, payload, repeat, remember)
                     VALUES (?1, 'default', 0, ?2, ?2, ?2, NULL, 'job', 1, ?3, NULL, 0)",
                )?
                .execute(params![id as i64, due, id.to_string()])?;
        }
        connection.execute_batch("COMMIT")?;
    }
    Ok(rate(count, begun.elapsed()))
}

/// All due at once; recorded as started, run, and recorded as finished.
fn run(
    directory: &Path,
    session: &mut Session<'_>,
    count: u64,
    quick: bool,
) -> Result<(), AnyError> {
    // The number of runs in flight has doubled often enough by then.
    let ramp = Duration::from_secs(if quick { 1 } else { 15 });
    session.rounds(RUN_AND_FINISH, Some(("run", count)), || {
        let found = durable::run_and_finish(ours(directory), count, ramp)?;
        let connection = bare(directory)?;
        bare_inserts(&connection, count, 1_000)?;
        let begun = Instant::now();
        let mut next = 1;
        while next <= count {
            let ids = next..(next + 1_000).min(count + 1);
            next = ids.end;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for id in ids.clone() {
                let sql = "UPDATE lars_timer SET fence = ?2, attempt = attempt + 1
                            WHERE id = ?1 AND fence IS NULL
                           RETURNING id, handler, payload_version, payload, key, deadline, attempt";
                let mut statement = connection.prepare_cached(sql)?;
                statement
                    .query_row(params![id as i64, id as i64], |row| row.get::<_, String>(3))?;
            }
            connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
            for id in ids {
                let sql = "DELETE FROM lars_timer WHERE id = ?1 AND fence = ?2";
                connection.prepare_cached(sql)?.execute(params![id as i64, id as i64])?;
            }
            connection.execute_batch("COMMIT")?;
        }
        Ok((found, rate(count, begun.elapsed())))
    })
}

/// A file with `pending` timers that are due in hours.
fn full(directory: &Path, pending: u64) -> Result<PathBuf, AnyError> {
    let path = fresh(directory, "many.db");
    let durable = Durable::sqlite(&path).start()?;
    let timers = durable.timers();
    for first in (0..pending).step_by(10_000) {
        let ids = first..pending.min(first + 10_000);
        let far = |id: u64| timers.schedule_once(HOUR * (2 + (id % 1_000) as u32), Job(id));
        timers.schedule_batch(ids.map(far)).wait()?;
    }
    durable.close()?;
    Ok(path)
}

/// A restart with very many that are pending, and a thousand a second beside them.
fn lateness(
    directory: &Path,
    session: &mut Session<'_>,
    pending: u64,
    seconds: u64,
) -> Result<(), AnyError> {
    let path = full(directory, pending)?;
    let durable = Durable::sqlite(&path).start()?;
    durable.timers().schedule_once(Duration::ZERO, Job(0)).submit().wait()?;
    durable.close()?;

    let begun = Instant::now();
    let (durable, receiver) = runs_jobs(Durable::sqlite(&path))?;
    receive(&receiver, 1);
    let first = begun.elapsed().as_secs_f64() * 1_000.0;
    let what = format!("from the start to the first run, {pending} pending, ms");
    session.report.figures.insert(what, first);

    thread::sleep(Duration::from_secs(seconds.min(8)));
    steady(&durable.timers(), SystemTime::now() + Duration::from_secs(1), 1_000, seconds)?;
    let ours = late(receive(&receiver, seconds * 1_000));
    session.report.late.insert(format!("ours, {pending} pending"), ours);
    Ok(durable.close()?)
}
