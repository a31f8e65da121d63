//! How many a second.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lars_durable::Durable;

use crate::bare::Bare;
use crate::report::Report;
use crate::server::Server;
use crate::{AnyError, HOUR, Job, receive, runs_jobs, settle};

fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// The two take turns, so that a machine that is busy with other things disturbs both; the best of
/// each counts.
fn best(
    report: &mut Report,
    what: &str,
    rounds: u32,
    mut measure: impl FnMut() -> Result<(f64, f64), AnyError>,
) -> Result<(), AnyError> {
    let (mut ours, mut bare) = (0.0_f64, 0.0_f64);
    for _ in 0..rounds {
        let (one, other) = measure()?;
        (ours, bare) = (ours.max(one), bare.max(other));
    }
    report.rates.insert(what.to_owned(), (ours, bare));
    Ok(())
}

fn far(_: i64) -> SystemTime {
    SystemTime::now() + HOUR
}

fn bare_inserts(server: &Server, count: u64, batch: u64) -> Result<f64, AnyError> {
    let bare = Bare::new(server.fresh()?)?;
    Ok(rate(count, bare.inserts(1, count, batch, far)?))
}

/// Eight callers, each of which waits for its answer before it calls again.
pub(crate) fn single(
    server: &Server,
    report: &mut Report,
    rounds: u32,
    count: u64,
) -> Result<(), AnyError> {
    let what = "schedule one by one, 8 callers that wait, against 8 in a transaction";
    best(report, what, rounds, || {
        server.fresh()?;
        let durable = Durable::postgres(server.parameters()).start()?;
        let timers = durable.timers();
        timers.schedule_once(HOUR, Job(0)).submit().wait()?;
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
        assert_eq!(durable.metrics().scheduled, count / 8 * 8 + 1);
        durable.close()?;
        Ok((ours, bare_inserts(server, count, 8)?))
    })
}

/// Eight callers with up to 125 calls under way each.
pub(crate) fn pipelined(
    server: &Server,
    report: &mut Report,
    rounds: u32,
    count: u64,
) -> Result<(), AnyError> {
    let what =
        "schedule pipelined, 8 callers, 1,000 calls under way, against 1,000 in a transaction";
    best(report, what, rounds, || {
        server.fresh()?;
        let durable = Durable::postgres(server.parameters()).start()?;
        let timers = durable.timers();
        timers.schedule_once(HOUR, Job(0)).submit().wait()?;
        let begun = Instant::now();
        thread::scope(|scope| {
            for caller in 0..8 {
                let timers = timers.clone();
                scope.spawn(move || {
                    let mut open = VecDeque::new();
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
        Ok((ours, bare_inserts(server, count, 1_000)?))
    })
}

pub(crate) fn batches(
    server: &Server,
    report: &mut Report,
    rounds: u32,
    count: u64,
) -> Result<(), AnyError> {
    best(report, "schedule in batches of 1,000", rounds, || {
        server.fresh()?;
        let durable = Durable::postgres(server.parameters()).start()?;
        let timers = durable.timers();
        timers.schedule_once(HOUR, Job(0)).submit().wait()?;
        let begun = Instant::now();
        let mut open = VecDeque::new();
        for batch in 0..count.div_ceil(1_000) {
            let ids = batch * 1_000..((batch + 1) * 1_000).min(count);
            let each = ids.map(|id| timers.schedule_once(HOUR, Job(id)));
            open.push_back(timers.schedule_batch(each));
            if open.len() == 4 {
                open.pop_front().map(|call| call.wait()).transpose()?;
            }
        }
        for call in open {
            call.wait()?;
        }
        let ours = rate(count, begun.elapsed());
        durable.close()?;
        Ok((ours, bare_inserts(server, count, 1_000)?))
    })
}

/// All due at once; recorded as started, run, and recorded as finished.
pub(crate) fn run(
    server: &Server,
    report: &mut Report,
    rounds: u32,
    count: u64,
    quick: bool,
) -> Result<(), AnyError> {
    let mut hot = 0.0;
    best(report, "run and finish, all due at once", rounds, || {
        let connection = server.fresh()?;
        let (durable, receiver) = runs_jobs(Durable::postgres(server.parameters()))?;
        let timers = durable.timers();
        // The number of runs in flight has doubled often enough by then.
        let due = SystemTime::now() + Duration::from_secs(if quick { 2 } else { 14 });
        for batch in 0..count.div_ceil(1_000) {
            let ids = batch * 1_000..((batch + 1) * 1_000).min(count);
            timers.schedule_batch(ids.map(|id| timers.schedule_at(due, Job(id)))).wait()?;
        }
        thread::sleep(due.duration_since(SystemTime::now()).unwrap_or_default());
        let begun = Instant::now();
        receive(&receiver, count);
        settle(&durable);
        let ours = rate(count, begun.elapsed());
        assert_eq!(durable.metrics().done, count);
        durable.close()?;
        thread::sleep(Duration::from_millis(500));
        hot = connection.number(
            "SELECT 10000 * n_tup_hot_upd / greatest(n_tup_upd, 1) FROM pg_stat_user_tables
              WHERE schemaname = 'lars' AND relname = 'timer'",
        )? as f64
            / 100.0;

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
    report.figures.insert("HOT share of starts, all due at once, %".into(), hot);
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
    thread::sleep(Duration::from_millis(500));
    let hot = connection.number(
        "SELECT 10000 * n_tup_hot_upd / greatest(n_tup_upd, 1) FROM pg_stat_user_tables
          WHERE schemaname = 'lars' AND relname = 'timer'",
    )?;
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
    report.rates.insert(what.into(), (ours, floor));
    report
        .figures
        .insert("HOT share of deadlines that are pushed out, %".into(), hot as f64 / 100.0);
    let grown = 100.0 * grown as f64 / before.max(1) as f64;
    report.figures.insert("growth of the index by deadlines that are pushed out, %".into(), grown);
    Ok(())
}
