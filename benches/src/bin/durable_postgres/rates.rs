//! How many a second.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use benches::durable::{self, AnyError, HOUR, Job, RUN_AND_FINISH, Rate, Report, Session, rate};
use lars_durable::Durable;

use crate::bare::Bare;
use crate::server::{Connection, Server};

const HOT: &str = "SELECT 10000 * n_tup_hot_upd / greatest(n_tup_upd, 1) FROM pg_stat_user_tables
     WHERE schemaname = 'lars' AND relname = 'timer'";

/// The share of HOT updates, in percent, when the nodes are closed.
fn hot(connection: &Connection) -> Result<f64, AnyError> {
    // A session sends its statistics when it ends.
    thread::sleep(Duration::from_millis(500));
    Ok(connection.number(HOT)? as f64 / 100.0)
}

fn far(_: i64) -> SystemTime {
    SystemTime::now() + HOUR
}

/// Inserts by the bare loop; how many a second.
fn bare_inserts(server: &Server, count: u64, batch: u64) -> Result<f64, AnyError> {
    let bare = Bare::new(server.fresh()?)?;
    Ok(rate(count, bare.inserts(1, count, batch, far)?))
}

/// Single, pipelined, or in batches.
pub(crate) fn scheduling(
    server: &Server,
    session: &mut Session<'_>,
    what: &str,
) -> Result<(), AnyError> {
    let ours = || {
        server.fresh()?;
        Ok(Durable::postgres(server.parameters()))
    };
    session.scheduling(what, ours, |count, batch| bare_inserts(server, count, batch))
}

/// All due at once; recorded as started, run, and recorded as finished.
pub(crate) fn run(
    server: &Server,
    session: &mut Session<'_>,
    count: u64,
    quick: bool,
) -> Result<(), AnyError> {
    let mut share = 0.0;
    // The number of runs in flight has doubled often enough by then.
    let ramp = Duration::from_secs(if quick { 2 } else { 14 });
    session.rounds(RUN_AND_FINISH, Some(("run", count)), || {
        let connection = server.fresh()?;
        let ours = durable::run_and_finish(Durable::postgres(server.parameters()), count, ramp)?;
        share = hot(&connection)?;

        let bare = Bare::new(server.fresh()?)?;
        bare.inserts(1, count, 1_000, far)?;
        let all: Vec<i64> = (1..=count as i64).collect();
        let begun = Instant::now();
        for ids in all.chunks(1_000) {
            bare.start(ids)?;
            bare.finish(ids)?;
        }
        Ok((ours, rate(count, begun.elapsed())))
    })?;
    session.report.figures.insert("HOT share of starts, all due at once, %".into(), share);
    Ok(())
}

/// Ten thousand keyed timers are pushed out again and again.
pub(crate) fn resets(server: &Server, report: &mut Report, count: u64) -> Result<(), AnyError> {
    let keys = (count / 10).max(8);
    let connection = server.fresh()?;
    let durable = Durable::postgres(server.parameters()).start()?;
    let timers = durable.timers();
    let all: Vec<u64> = (0..keys).collect();
    for some in all.chunks(1_000) {
        let each = some.iter().map(|n| timers.schedule_once(HOUR, Job(*n)).key(n.to_string()));
        timers.schedule_batch(each).wait()?;
    }
    let size = "SELECT pg_relation_size('lars.timer_due')";
    connection.execute("VACUUM lars.timer")?;
    let before = connection.number(size)?;
    let begun = Instant::now();
    thread::scope(|scope| {
        for caller in 0..8 {
            let timers = timers.clone();
            scope.spawn(move || {
                let mut open = VecDeque::new();
                for n in 0..count / 8 {
                    let key = ((n * 8 + caller) % keys).to_string();
                    open.push_back(timers.reset(&key, HOUR + Duration::from_millis(n)));
                    if open.len() == 125 {
                        let moved = open.pop_front().map(|call| call.wait().expect("answered"));
                        assert_eq!(moved, Some(true));
                    }
                }
                for call in open {
                    assert!(call.wait().expect("answered"));
                }
            });
        }
    });
    let ours = rate(count / 8 * 8, begun.elapsed());
    let grown = connection.number(size)? - before;
    durable.close()?;
    let share = hot(&connection)?;
    let bare = Bare::new(server.fresh()?)?;
    bare.inserts(1, keys, 1_000, far)?;
    let ids: Vec<i64> = (1..=keys as i64).collect();
    let begun = Instant::now();
    for _ in 0..10 {
        for some in ids.chunks(1_000) {
            bare.shift(some, SystemTime::now() + HOUR * 2)?;
        }
    }
    let floor = rate(keys * 10, begun.elapsed());
    let what = "push out by key, 8 callers, 1,000 calls under way, against 1,000 in a transaction";
    report.rates.insert(what.into(), Rate::of(&[(ours, floor)]));
    report.figures.insert("HOT share of deadlines that are pushed out, %".into(), share);
    let grown = 100.0 * grown as f64 / before.max(1) as f64;
    report.figures.insert("growth of the index by deadlines that are pushed out, %".into(), grown);
    Ok(())
}
