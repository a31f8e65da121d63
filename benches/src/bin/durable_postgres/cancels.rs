//! Nine of ten that are pending are cancelled, in bulk or one by one: how long that takes, what is
//! left of them in the database, and what looks cost meanwhile.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use benches::durable::{AnyError, Report, runs_jobs};
use lars_durable::query::Query;
use lars_durable::schedule::Cancel;
use lars_durable::{Durable, Timers};

use crate::server::{Connection, Server};
use crate::times::{draw, warm};

/// How many calls are under way, one by one.
const UNDER_WAY: usize = 1_000;

pub(crate) fn cancels(
    server: &Server,
    report: &mut Report,
    pending: u64,
    quick: bool,
) -> Result<(), AnyError> {
    let ways: [(&str, fn(&Timers, u64) -> Result<(), AnyError>); 2] =
        [("in bulk", in_bulk), ("one by one", one_by_one)];
    for (way, cancel) in ways {
        let connection = server.fresh()?;
        fill(&connection, pending)?;
        let (durable, _receiver) = runs_jobs(Durable::postgres(server.parameters()))?;
        warm(&connection, quick)?;
        let of = |what: &str| format!("of {pending} pending, nine of ten cancelled {way}: {what}");
        let figures = &mut report.figures;
        figures.insert(of("MB before"), megabytes(&connection)?);
        figures.insert(of("inspection before, ms"), inspection(&durable)?);

        let (begun, before) = (Instant::now(), transactions(&connection)?);
        cancel(&durable.timers(), pending)?;
        let passed = begun.elapsed().as_secs_f64();
        figures.insert(of("seconds"), passed);
        figures.insert(of("a second"), cancelled(pending) as f64 / passed);
        figures.insert(of("inspection just after, ms"), inspection(&durable)?);
        let made = (transactions(&connection)? - before) as f64;
        figures.insert(of("transactions"), made);
        let left = connection.number("SELECT count(*) FROM lars.timer")?;
        assert_eq!(left as u64, pending - cancelled(pending), "those that are wanted are there");

        // What an idle node reads while the dead are still there, or being removed.
        let seconds = if quick { 2 } else { 20 };
        let before = transactions(&connection)?;
        thread::sleep(Duration::from_secs(seconds));
        let idle = (transactions(&connection)? - before) as f64 * 60.0 / seconds as f64;
        figures.insert(of("transactions a minute, then idle"), idle);
        let begun = Instant::now();
        connection.execute("VACUUM lars.timer")?;
        figures.insert(of("VACUUM after that, s"), begun.elapsed().as_secs_f64());
        figures.insert(of("MB after VACUUM"), megabytes(&connection)?);
        figures.insert(of("inspection after VACUUM, ms"), inspection(&durable)?);
        durable.close()?;
    }
    Ok(())
}

/// How many are cancelled.
fn cancelled(pending: u64) -> u64 {
    pending / 10 * 9
}

/// Those to be cancelled have keys with one beginning. Each is due beside one that stays.
fn fill(connection: &Connection, pending: u64) -> Result<(), AnyError> {
    let last = pending / 10 * 10 - 1;
    let first = draw(connection, pending)?;
    connection.execute(&format!(
        "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                                 payload_version, payload)
         SELECT {first} + n, 'default', n % 64, due, due, due,
                CASE n % 10 WHEN 0 THEN 'stays/' ELSE 'goes/' END || n, 'job', 1, n::text
           FROM generate_series(0::bigint, {last}) AS n,
                LATERAL (SELECT now() + interval '2 hours' + n % 100000 * interval '1 s')
                AS d (due);
         ANALYZE lars.timer; CHECKPOINT"
    ))
}

fn in_bulk(timers: &Timers, pending: u64) -> Result<(), AnyError> {
    let mut query = Query::new().key_prefix("goes/").limit(1_000);
    let mut changed = 0;
    loop {
        let step = timers.cancel_all(&query).wait()?;
        changed += step.changed as u64;
        let Some(next) = step.next else { break };
        query = query.after(next);
    }
    assert_eq!(changed, cancelled(pending), "each was cancelled");
    Ok(())
}

fn one_by_one(timers: &Timers, pending: u64) -> Result<(), AnyError> {
    let mut open = VecDeque::new();
    for number in (0..pending / 10 * 10).filter(|number| !number.is_multiple_of(10)) {
        if open.len() == UNDER_WAY {
            prevented(&mut open)?;
        }
        open.push_back(timers.cancel(format!("goes/{number}").as_str()));
    }
    while !open.is_empty() {
        prevented(&mut open)?;
    }
    Ok(())
}

fn prevented(open: &mut VecDeque<lars_durable::Submitted<Cancel>>) -> Result<(), AnyError> {
    let first = open.pop_front().map(|call| call.wait()).transpose()?;
    assert_eq!(first, Some(Cancel::Prevented));
    Ok(())
}

/// The table with its indexes.
fn megabytes(connection: &Connection) -> Result<f64, AnyError> {
    Ok(connection.number("SELECT pg_total_relation_size('lars.timer')")? as f64 / 1e6)
}

/// Milliseconds of a bounded look at the group.
fn inspection(durable: &Durable) -> Result<f64, AnyError> {
    let begun = Instant::now();
    let seen = durable.inspect().wait()?;
    assert!(!seen.counts_took_too_long, "it is bounded");
    Ok(begun.elapsed().as_secs_f64() * 1_000.0)
}

/// How many were committed. A session that works sends its statistics each second, and one that has
/// gone quiet within ten.
fn transactions(connection: &Connection) -> Result<i64, AnyError> {
    connection.number("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'")
}
