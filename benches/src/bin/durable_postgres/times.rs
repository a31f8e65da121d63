//! How late, beside very many that are pending, and beside a snapshot that is held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use benches::durable::{
    AnyError, Job, Late, PATIENCE, Report, Seen, Session, late, receive, runs_jobs, settle, steady,
};
use lars_durable::Durable;

use crate::bare::Bare;
use crate::server::{Connection, Server};

/// The first of `count` identities in a row, while no node draws any.
pub(crate) fn draw(connection: &Connection, count: u64) -> Result<i64, AnyError> {
    let blocks = count.div_ceil(1_024);
    connection.number(&format!(
        "SELECT min(n) FROM (SELECT nextval('lars.timer_id') AS n
                               FROM generate_series(1, {blocks})) AS drawn"
    ))
}

/// Makes the server's table so full, of timers that are due in hours.
fn fill(connection: &Connection, pending: u64) -> Result<(), AnyError> {
    let first = draw(connection, pending)?;
    let last = first + pending as i64 - 1;
    connection.execute(&format!(
        "INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, handler,
                                 payload_version, payload)
         SELECT n, 'default', n % 64, due, due, due, 'job', 1, n::text
           FROM generate_series({first}::bigint, {last}) AS n,
                LATERAL (SELECT now() + interval '2 hours' + n % 100000 * interval '1 s')
                AS d (due);
         ANALYZE lars.timer; CHECKPOINT"
    ))
}

/// The memory of this process, if the system says so. The server's is not its.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

/// Until the node owns all buckets, and its ramp is over.
pub(crate) fn warm(connection: &Connection, quick: bool) -> Result<(), AnyError> {
    let owned = "SELECT count(*) FROM lars.bucket WHERE owner IS NOT NULL";
    while connection.number(owned)? < 64 {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_secs(if quick { 1 } else { 8 }));
    Ok(())
}

/// A thousand a second beside those that are pending, ours and the bare loop's in turns. The table
/// is vacuumed first: otherwise the server would do that in somebody's turn.
pub(crate) fn lateness(
    server: &Server,
    report: &mut Report,
    pending: u64,
    seconds: u64,
    rounds: u32,
) -> Result<(), AnyError> {
    let connection = server.fresh()?;
    fill(&connection, pending)?;
    connection.execute("VACUUM (ANALYZE) lars.timer")?;
    connection.execute("CHECKPOINT")?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        let (durable, receiver) = runs_jobs(Durable::postgres(server.parameters()))?;
        let timers = durable.timers();
        timers.schedule_once(Duration::ZERO, Job(0)).submit().wait()?;
        receive(&receiver, 1);
        if round == 0 {
            let first = begun.elapsed().as_secs_f64() * 1_000.0;
            let what = format!("from the start to the first run, {pending} pending, ms");
            report.figures.insert(what, first);
        }
        warm(&connection, seconds < 5)?;
        steady(&timers, SystemTime::now() + Duration::from_secs(1), 1_000, seconds)?;
        ours.extend(receive(&receiver, seconds * 1_000));
        if let Some(megabytes) = resident() {
            let what = format!("memory of the process, {pending} pending, MB");
            report.figures.insert(what, megabytes);
        }
        settle(&durable);
        durable.close()?;

        let bare = Bare::new(server.connect()?)?;
        let first = SystemTime::now() + Duration::from_secs(1);
        let due = |number: i64| first + Duration::from_millis(number as u64);
        let id = draw(&connection, seconds * 1_000)?;
        bare.inserts(id, seconds * 1_000, 1_000, |of| due(of - id))?;
        let dues: Vec<SystemTime> = (0..seconds as i64 * 1_000).map(due).collect();
        floor.extend(bare.fire(id, &dues)?);
    }
    report.late.insert(format!("ours, {pending} pending"), late(ours));
    report.late.insert(format!("bare loop, {pending} pending"), Late::of(floor));
    Ok(())
}

/// At a steady rate beside those that are pending: ours, and other crates.
pub(crate) fn peers(
    server: &Server,
    session: &mut Session<'_>,
    pending: u64,
    quick: bool,
) -> Result<(), AnyError> {
    session.steady(pending, || {
        let connection = server.fresh()?;
        fill(&connection, pending)?;
        let node = runs_jobs(Durable::postgres(server.parameters()))?;
        warm(&connection, quick)?;
        Ok(node)
    })
}

/// What a node asks for while nothing is due.
pub(crate) fn idle(
    server: &Server,
    report: &mut Report,
    pending: u64,
    seconds: u64,
) -> Result<(), AnyError> {
    let connection = server.fresh()?;
    fill(&connection, pending)?;
    let (durable, _receiver) = runs_jobs(Durable::postgres(server.parameters()))?;
    // A session that has gone quiet sends its statistics within ten seconds.
    warm(&connection, seconds < 5)?;
    thread::sleep(Duration::from_secs(if seconds < 5 { 1 } else { 6 }));
    let transactions = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
    let written = "SELECT (sum(n_tup_ins + n_tup_upd + n_tup_del))::bigint FROM pg_stat_user_tables
                    WHERE schemaname = 'lars' AND relname <> 'node'";
    let (before, rows) = (connection.number(transactions)?, connection.number(written)?);
    thread::sleep(Duration::from_secs(seconds));
    let (after, same) = (connection.number(transactions)?, connection.number(written)?);
    assert_eq!(rows, same, "an idle node writes its own row only");
    let minute = (after - before) as f64 * 60.0 / seconds as f64;
    report.figures.insert(format!("transactions a minute, idle, {pending} pending"), minute);
    durable.close()?;
    Ok(())
}

/// A snapshot is held while a thousand a second run; before that, a tenth of the time without.
pub(crate) fn held(server: &Server, report: &mut Report, seconds: u64) -> Result<(), AnyError> {
    let connection = server.fresh()?;
    fill(&connection, 100_000)?;
    let (durable, receiver) = runs_jobs(Durable::postgres(server.parameters()))?;
    let timers = durable.timers();
    warm(&connection, false)?;
    // Somebody who measures may stop this process for a while. That is noticed, and left out.
    let gaps: Arc<Mutex<Vec<(SystemTime, SystemTime)>>> = Arc::default();
    let over = Arc::new(AtomicBool::new(false));
    let watch = {
        let (gaps, over) = (Arc::clone(&gaps), Arc::clone(&over));
        thread::spawn(move || {
            let mut last = SystemTime::now();
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
                let now = SystemTime::now();
                if now.duration_since(last).is_ok_and(|gap| gap > Duration::from_millis(500)) {
                    gaps.lock().expect("nobody panics").push((last, now));
                }
                last = now;
            }
        })
    };
    let before = (seconds / 10).max(10);
    let holder = server.connect()?;
    let first = SystemTime::now() + Duration::from_secs(1);
    let (mut seen, mut asked) = (Vec::new(), 0);
    for second in 0..before + seconds {
        if second == before {
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
            holder.number("SELECT count(*) FROM lars.timer")?;
        }
        // A second ahead.
        let due = first + Duration::from_secs(second);
        thread::sleep(due.duration_since(SystemTime::now()).unwrap_or_default());
        let from = SystemTime::now().max(due) + Duration::from_secs(1);
        steady(&timers, from, 1_000, 1)?;
        asked += 1_000;
        seen.extend(receiver.try_iter());
    }
    let begun = Instant::now();
    while seen.len() < asked && begun.elapsed() < PATIENCE {
        seen.extend(receiver.recv_timeout(Duration::from_secs(1)));
    }
    assert_eq!(seen.len(), asked, "every timer runs, and once");
    assert!(seen.iter().all(|(_, _, late)| *late >= 0), "nothing may be early");
    settle(&durable);
    durable.close()?;
    over.store(true, Ordering::Relaxed);
    let _ = watch.join();
    holder.execute("COMMIT")?;

    let gaps = gaps.lock().expect("nobody panics").clone();
    let slack = Duration::from_secs(3);
    let stopped =
        |due: SystemTime| gaps.iter().any(|(from, to)| due + slack > *from && due < *to + slack);
    let all = seen.len();
    seen.retain(|(_, due, _)| !stopped(*due));
    let lost = gaps.iter().filter_map(|(from, to)| to.duration_since(*from).ok());
    let lost: Duration = lost.sum();
    report
        .figures
        .insert("held: seconds for which the machine stood still".into(), lost.as_secs_f64());
    report.figures.insert("held: runs left out for that".into(), (all - seen.len()) as f64);
    let taken = first + Duration::from_secs(before + 1);
    let without: Vec<Seen> = seen.iter().filter(|(_, due, _)| *due < taken).copied().collect();
    let with: Vec<Seen> = seen.iter().filter(|(_, due, _)| *due >= taken).copied().collect();
    let last = taken + Duration::from_secs(seconds * 9 / 10);
    let end: Vec<Seen> = with.iter().filter(|(_, due, _)| *due >= last).copied().collect();
    let mut course: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    for (_, due, late) in &with {
        let at = due.duration_since(taken).unwrap_or_default().as_secs() / 5 * 5;
        course.entry(at).or_default().push(*late);
    }
    let course = course.into_iter().map(|(at, late)| {
        let late = Late::of(late);
        (at as f64, late.at(0.5), late.at(0.99))
    });
    let name = format!("{seconds} s");
    report.courses.insert(name, course.collect());
    report.late.insert("held: before the snapshot".into(), late(without));
    report.late.insert(format!("held: all of {seconds} s"), late(with));
    report.late.insert(format!("held: the last tenth of {seconds} s"), late(end));
    let rows = |column: &str| {
        connection.number(&format!(
            "SELECT {column} FROM pg_stat_user_tables WHERE schemaname = 'lars'
                AND relname = 'timer'"
        ))
    };
    thread::sleep(Duration::from_millis(500));
    let hot = 100.0 * rows("n_tup_hot_upd")? as f64 / rows("n_tup_upd")?.max(1) as f64;
    report.figures.insert("held: HOT share of starts, %".into(), hot);
    report.figures.insert("held: dead rows in the end".into(), rows("n_dead_tup")? as f64);
    Ok(())
}
