//! Durable timers beside a bare loop of the same statements, in one run on one file system:
//!
//! ```sh
//! cargo run --release -p benches --no-default-features --bin durable
//! ```
//!
//! Ratios are what can be compared between machines; most of the rest is the disk. Each measurement
//! checks what it did.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use lars_durable::{Durable, Fired, Handler, Payload};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

type AnyError = Box<dyn std::error::Error>;

/// Durable timers beside a bare loop of the same statements.
#[derive(Parser)]
struct Options {
    /// A hundredth of the work: whether it runs, and not how fast.
    #[arg(long)]
    quick: bool,
    /// How often each measurement is taken.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Where the files are made; the results depend on its disk.
    #[arg(long)]
    directory: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Job(u64);

impl Payload for Job {
    const NAME: &'static str = "job";
}

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    let own = std::env::temp_dir().join(format!("lars-durable-bench-{}", std::process::id()));
    let directory = options.directory.unwrap_or_else(|| own.clone());
    std::fs::create_dir_all(&directory)?;
    let scale = if options.quick { 100 } else { 1 };
    let rounds = if options.quick { 1 } else { options.rounds };
    println!("| the best of {rounds} | ours | bare loop | ratio |\n|---|---|---|---|");
    best("schedule, 8 callers that wait, against 8 in a transaction", rounds, || {
        schedule_single(&directory, 10_000 / scale)
    })?;
    best(
        "schedule, 8 callers, 1,000 calls under way, against 1,000 in a transaction",
        rounds,
        || schedule_pipelined(&directory, 100_000 / scale),
    )?;
    best("schedule in batches of 1,000", rounds, || schedule_batches(&directory, 100_000 / scale))?;
    best("run and finish, all due at once", rounds, || {
        run_and_finish(&directory, 60_000 / scale, options.quick)
    })?;
    among_many(&directory, 1_000_000 / scale, if options.quick { 1 } else { 10 })?;
    let _ = std::fs::remove_dir_all(&own);
    Ok(())
}

/// The two take turns, so that a machine that is busy with other things disturbs both; the best of
/// each counts.
fn best(
    what: &str,
    rounds: u32,
    mut measure: impl FnMut() -> Result<(f64, f64), AnyError>,
) -> Result<(), AnyError> {
    let (mut ours, mut bare) = (0.0_f64, 0.0_f64);
    for _ in 0..rounds {
        let (one, other) = measure()?;
        (ours, bare) = (ours.max(one), bare.max(other));
    }
    println!("| {what} | {ours:.0}/s | {bare:.0}/s | {:.2} |", ours / bare);
    Ok(())
}

fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
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

/// A file with the schema, for a bare loop.
fn bare(directory: &Path, name: &str) -> Result<Connection, AnyError> {
    let path = fresh(directory, name);
    Durable::sqlite(&path).start()?.close()?;
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Inserts `count` timers, `batch` in a transaction.
fn bare_inserts(connection: &Connection, count: u64, batch: u64) -> Result<Duration, AnyError> {
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
    Ok(begun.elapsed())
}

/// Eight callers, each of which waits for its answer before it calls again.
fn schedule_single(directory: &Path, count: u64) -> Result<(f64, f64), AnyError> {
    let durable = Durable::sqlite(fresh(directory, "single.db")).start()?;
    let timers = durable.timers();
    let begun = Instant::now();
    thread::scope(|scope| {
        for caller in 0..8 {
            let timers = timers.clone();
            scope.spawn(move || {
                for n in 0..count / 8 {
                    let timer = timers.schedule_once(HOUR, Job(caller * count + n));
                    timer.submit().wait().expect("accepted");
                }
            });
        }
    });
    let ours = rate(count / 8 * 8, begun.elapsed());
    assert_eq!(durable.metrics().scheduled, count / 8 * 8);
    durable.close()?;
    let floor = bare_inserts(&bare(directory, "bare.db")?, count, 8)?;
    Ok((ours, rate(count, floor)))
}

/// Eight callers with up to 125 calls under way each.
fn schedule_pipelined(directory: &Path, count: u64) -> Result<(f64, f64), AnyError> {
    let durable = Durable::sqlite(fresh(directory, "pipelined.db")).start()?;
    let timers = durable.timers();
    let begun = Instant::now();
    thread::scope(|scope| {
        for caller in 0..8 {
            let timers = timers.clone();
            scope.spawn(move || {
                let mut open = std::collections::VecDeque::new();
                for n in 0..count / 8 {
                    let timer = timers.schedule_once(HOUR, Job(caller * count + n));
                    open.push_back(timer.submit());
                    if open.len() == 125 {
                        open.pop_front().map(|call| call.wait().expect("accepted"));
                    }
                }
                for call in open {
                    call.wait().expect("accepted");
                }
            });
        }
    });
    let ours = rate(count / 8 * 8, begun.elapsed());
    durable.close()?;
    let floor = bare_inserts(&bare(directory, "bare.db")?, count, 1_000)?;
    Ok((ours, rate(count, floor)))
}

fn schedule_batches(directory: &Path, count: u64) -> Result<(f64, f64), AnyError> {
    let durable = Durable::sqlite(fresh(directory, "batches.db")).start()?;
    let timers = durable.timers();
    let begun = Instant::now();
    let mut open = Vec::new();
    for batch in 0..count.div_ceil(1_000) {
        let ids = batch * 1_000..((batch + 1) * 1_000).min(count);
        open.push(timers.schedule_batch(ids.map(|id| timers.schedule_once(HOUR, Job(id)))));
        if open.len() == 4 {
            open.remove(0).wait()?;
        }
    }
    for call in open {
        call.wait()?;
    }
    let ours = rate(count, begun.elapsed());
    assert_eq!(durable.metrics().scheduled, count);
    durable.close()?;
    let floor = bare_inserts(&bare(directory, "bare.db")?, count, 1_000)?;
    Ok((ours, rate(count, floor)))
}

/// A handler that tells how late it is, in microseconds; early is negative.
fn telling(sender: Sender<i64>) -> Handler {
    let sender = Arc::new(Mutex::new(sender));
    Handler::new(move |due: &Fired<Job>| {
        let late = match SystemTime::now().duration_since(due.due()) {
            Ok(late) => late.as_micros() as i64,
            Err(early) => -(early.duration().as_micros() as i64) - 1,
        };
        sender.lock().expect("nobody panics").send(late).expect("somebody listens");
    })
    .concurrency(4_096)
}

fn receive(receiver: &Receiver<i64>, count: u64) -> Vec<i64> {
    (0..count).map(|_| receiver.recv_timeout(HOUR).expect("it runs")).collect()
}

/// All due at once; recorded as started, run, and recorded as finished.
fn run_and_finish(directory: &Path, count: u64, quick: bool) -> Result<(f64, f64), AnyError> {
    let (sender, receiver) = channel();
    let durable = Durable::sqlite(fresh(directory, "run.db"))
        .handler(telling(sender))
        .max_in_flight(4_096)
        .start()?;
    let timers = durable.timers();
    // The number of runs in flight has doubled often enough by then.
    let ramp = Duration::from_secs(if quick { 1 } else { 15 });
    let due = SystemTime::now() + ramp;
    for batch in 0..count.div_ceil(1_000) {
        let ids = batch * 1_000..((batch + 1) * 1_000).min(count);
        timers.schedule_batch(ids.map(|id| timers.schedule_at(due, Job(id)))).wait()?;
    }
    thread::sleep(due.duration_since(SystemTime::now()).unwrap_or_default());
    let begun = Instant::now();
    receive(&receiver, count);
    while durable.metrics().in_flight > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let ours = rate(count, begun.elapsed());
    assert_eq!(durable.metrics().done, count);
    durable.close()?;

    let connection = bare(directory, "bare.db")?;
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
            statement.query_row(params![id as i64, id as i64], |row| row.get::<_, String>(3))?;
        }
        connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        for id in ids {
            let sql = "DELETE FROM lars_timer WHERE id = ?1 AND fence = ?2";
            connection.prepare_cached(sql)?.execute(params![id as i64, id as i64])?;
        }
        connection.execute_batch("COMMIT")?;
    }
    Ok((ours, rate(count, begun.elapsed())))
}

/// A thousand a second beside very many that are pending, and a restart.
fn among_many(directory: &Path, pending: u64, seconds: u64) -> Result<(), AnyError> {
    let path = fresh(directory, "many.db");
    let durable = Durable::sqlite(&path).start()?;
    let timers = durable.timers();
    for batch in 0..pending.div_ceil(10_000) {
        let ids = batch * 10_000..((batch + 1) * 10_000).min(pending);
        let far = |id: u64| timers.schedule_once(HOUR * (2 + (id % 1_000) as u32), Job(id));
        timers.schedule_batch(ids.map(far)).wait()?;
    }
    timers.schedule_once(Duration::ZERO, Job(0)).submit().wait()?;
    durable.close()?;

    let (sender, receiver) = channel();
    let begun = Instant::now();
    let durable = Durable::sqlite(&path).handler(telling(sender)).start()?;
    receive(&receiver, 1);
    let recovery = begun.elapsed();
    println!("\nFrom the start with {pending} pending to the first run: {recovery:.1?}");

    let timers = durable.timers();
    thread::sleep(Duration::from_secs(seconds.min(8)));
    let first = SystemTime::now() + Duration::from_secs(1);
    for second in 0..seconds {
        let each = (0..1_000).map(|n| {
            let due = first + Duration::from_millis(second * 1_000 + n);
            timers.schedule_at(due, Job(n))
        });
        timers.schedule_batch(each).wait()?;
    }
    let mut late = receive(&receiver, seconds * 1_000);
    late.sort_unstable();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize] as f64 / 1_000.0;
    let early = late.iter().filter(|late| **late < 0).count();
    println!(
        "Late at 1,000/s beside {pending} pending: p50 {:.2} ms, p99 {:.2} ms, at most {:.2} ms; \
         early: {early}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    assert_eq!(early, 0);
    durable.close()?;
    Ok(())
}
