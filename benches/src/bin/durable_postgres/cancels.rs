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

/// One way to cancel.
type CancelAll = fn(&Timers, u64) -> Result<(), AnyError>;

pub(crate) fn cancels(
    server: &Server,
    report: &mut Report,
    pending: u64,
    quick: bool,
) -> Result<(), AnyError> {
    let ways: [(&str, CancelAll); 2] = [("in bulk", in_bulk), ("one by one", one_by_one)];
    for (way, cancel) in ways {
        let connection = server.fresh()?;
        fill(&connection, pending)?;
        let (durable, _receiver) = runs_jobs(Durable::postgres(server.parameters()))?;
        warm(&connection, quick)?;
        let mut note = |what: &str, when: &str, figure: f64| {
            let name = format!("of {pending} pending, nine of ten cancelled {way}: {what}{when}");
            report.figures.insert(name, figure);
        };
        look(&connection, &durable, quick, |what, figure| note(what, ", before", figure))?;

        let (begun, before) = (Instant::now(), transactions(&connection)?);
        cancel(&durable.timers(), pending)?;
        let passed = begun.elapsed().as_secs_f64();
        note("seconds", "", passed);
        note("a second", "", cancelled(pending) as f64 / passed);
        note("transactions", "", (transactions(&connection)? - before) as f64);
        let left = connection.number("SELECT count(*) FROM lars.timer")?;
        assert_eq!(left as u64, pending - cancelled(pending), "those that are wanted are there");
        look(&connection, &durable, quick, |what, figure| note(what, ", just after", figure))?;

        let begun = Instant::now();
        connection.execute("VACUUM lars.timer")?;
        note("VACUUM, s", "", begun.elapsed().as_secs_f64());
        look(&connection, &durable, quick, |what, figure| note(what, ", after VACUUM", figure))?;
        durable.close()?;
    }
    Ok(())
}

/// What there is, and what looks and an idle node cost.
fn look(
    connection: &Connection,
    durable: &Durable,
    quick: bool,
    mut note: impl FnMut(&str, f64),
) -> Result<(), AnyError> {
    note("MB", megabytes(connection)?);
    note("dead rows", connection.number(&of_timers("n_dead_tup"))? as f64);
    // One inspection counts what is due first, and the next one only a part.
    note("inspection, ms", inspection(durable)?);
    note("the next inspection, ms", inspection(durable)?);
    note("pages of a sweep", sweep(connection)?);
    note("pages of the next sweep", sweep(connection)?);
    // Until their sessions have sent what they have read.
    thread::sleep(Duration::from_secs(if quick { 1 } else { 11 }));
    let seconds = if quick { 2 } else { 20 };
    let entries = of_timers(
        "(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i
                               WHERE i.relid = t.relid)::bigint",
    );
    let (made, read) = (transactions(connection)?, connection.number(&entries)?);
    thread::sleep(Duration::from_secs(seconds));
    let minute = |after: i64, before: i64| (after - before) as f64 * 60.0 / seconds as f64;
    note("transactions a minute, idle", minute(transactions(connection)?, made));
    note("index entries a minute, idle", minute(connection.number(&entries)?, read));
    Ok(())
}

/// What the server counts of the table.
fn of_timers(what: &str) -> String {
    format!(
        "SELECT {what} FROM pg_stat_user_tables t
          WHERE t.schemaname = 'lars' AND t.relname = 'timer'"
    )
}

/// How many are cancelled.
fn cancelled(pending: u64) -> u64 {
    pending / 10 * 9
}

/// Those to be cancelled have keys with one beginning, and are due before all that stay: whoever
/// looks for what is due first finds the dead.
fn fill(connection: &Connection, pending: u64) -> Result<(), AnyError> {
    let last = pending / 10 * 10 - 1;
    let first = draw(connection, pending)?;
    connection.execute(&format!(
        "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                                 payload_version, payload)
         SELECT {first} + n, 'default', n % 64, due, due, due,
                CASE n % 10 WHEN 0 THEN 'stays/' ELSE 'goes/' END || n, 'job', 1, n::text
           FROM generate_series(0::bigint, {last}) AS n,
                LATERAL (SELECT now() + n % 100000 * interval '1 s'
                              + CASE n % 10 WHEN 0 THEN interval '48 hours'
                                ELSE interval '2 hours' END) AS d (due);
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

/// Milliseconds of a look at the group, which gives up counting after a second.
fn inspection(durable: &Durable) -> Result<f64, AnyError> {
    let begun = Instant::now();
    durable.inspect().wait()?;
    Ok(begun.elapsed().as_secs_f64() * 1_000.0)
}

/// Pages that are read to find the first timer of each bucket, as if the cancelled were due.
fn sweep(connection: &Connection) -> Result<f64, AnyError> {
    let explain = connection.prepare(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)
         SELECT t.id FROM lars.bucket b CROSS JOIN LATERAL (
                SELECT id FROM lars.timer t
                 WHERE t.grp = 'default' COLLATE \"POSIX\" AND t.bucket = b.bucket
                   AND t.due_at < now() + interval '40 hours'
                 ORDER BY t.due_at, t.id LIMIT 1) t
          WHERE b.grp = 'default'",
    )?;
    let plan = connection.query(&explain, &[])?;
    // The first line of its kind is that of the whole.
    let lines = plan.iter().map(|row| row.get::<_, &str>(0).trim());
    let buffers = lines.filter_map(|line| line.strip_prefix("Buffers: ")).next();
    let buffers = buffers.ok_or("the plan does not say what was read")?;
    let counts = buffers.split(' ').filter_map(|word| word.split_once('='));
    let read = counts.filter(|(what, _)| matches!(*what, "hit" | "read"));
    let pages = read.map(|(_, pages)| pages.parse::<f64>());
    Ok(pages.sum::<Result<f64, _>>()?)
}

/// How many were committed. A session that works sends its statistics each second, and one that has
/// gone quiet within ten.
fn transactions(connection: &Connection) -> Result<i64, AnyError> {
    connection.number("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'")
}
