//! Several nodes: timers made for another one, and what a node leaves behind.

use std::process::Command;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use benches::durable::{AnyError, Job, Late, PATIENCE, Report, Seen, receive, runs_jobs};
use lars_durable::Durable;

use crate::server::{Connection, Server};

/// What a process does that is to be killed: it runs jobs.
pub(crate) fn node(parameters: &str, lease: u64) -> Result<(), AnyError> {
    let builder = Durable::postgres(parameters).lease(Duration::from_secs(lease));
    let (_durable, _receiver) = runs_jobs(builder)?;
    loop {
        thread::park();
    }
}

/// Waits until `nodes` nodes own the same number of buckets.
fn settle(connection: &Connection, nodes: i64) -> Result<(), AnyError> {
    let shares = "SELECT count(*) FROM (SELECT owner FROM lars.bucket WHERE owner IS NOT NULL
                   GROUP BY owner) AS shares";
    let most = "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM lars.bucket
                 WHERE owner IS NOT NULL GROUP BY owner) AS shares";
    let begun = Instant::now();
    while connection.number(shares)? != nodes || connection.number(most)? > 64 / nodes {
        assert!(begun.elapsed() < PATIENCE, "the buckets are not shared");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A timer that is due at once, made by a node without buckets: from the call to the run.
pub(crate) fn near(server: &Server, report: &mut Report, count: u64) -> Result<(), AnyError> {
    for (notifications, count) in [(true, count), (false, count / 50 + 1)] {
        let connection = server.fresh()?;
        let to = || Durable::postgres(server.parameters()).notifications(notifications);
        let (owner, receiver) = runs_jobs(to())?;
        settle(&connection, 1)?;
        // Its window is loaded by then, and it may run more than a few at a time.
        thread::sleep(Duration::from_secs(4));
        let client = to().start()?;
        let timers = client.timers();
        timers.schedule_once(Duration::ZERO, Job(0)).submit().wait()?;
        receive(&receiver, 1);
        let mut late = Vec::new();
        for number in 0..count {
            let asked = SystemTime::now();
            timers.schedule_once(Duration::ZERO, Job(number)).submit().wait()?;
            let (_, due, begun_late) = receive(&receiver, 1)[0];
            let run = due + Duration::from_micros(begun_late.unsigned_abs());
            late.push(run.duration_since(asked)?.as_micros() as i64);
        }
        let how = if notifications { "told" } else { "found by the sweep" };
        report.late.insert(format!("near: made by another node, {how}"), Late::of(late));
        client.close()?;
        owner.close()?;
    }
    Ok(())
}

/// How long until a survivor runs what a node has left behind that was killed.
pub(crate) fn takeover(server: &Server, report: &mut Report, lease: u64) -> Result<(), AnyError> {
    let connection = server.fresh()?;
    let builder = Durable::postgres(server.parameters()).lease(Duration::from_secs(lease));
    let (survivor, receiver) = runs_jobs(builder)?;
    settle(&connection, 1)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--node", &server.parameters(), "--lease", &lease.to_string()])
        .spawn()?;
    settle(&connection, 2)?;
    thread::sleep(Duration::from_secs(1));
    let killed = || {
        let ended = SystemTime::now();
        child.kill()?;
        Ok(ended)
    };
    let first = leave(&connection, &survivor, &receiver, lease, killed)?;
    child.wait()?;
    report
        .figures
        .insert(format!("SIGKILL to the first run elsewhere, lease {lease} s, ms"), first);
    Ok(survivor.close()?)
}

/// The same for a node that is closed.
pub(crate) fn close(server: &Server, report: &mut Report) -> Result<(), AnyError> {
    let connection = server.fresh()?;
    let node = || runs_jobs(Durable::postgres(server.parameters()).lease(Duration::from_secs(2)));
    let (survivor, receiver) = node()?;
    settle(&connection, 1)?;
    let (other, _other) = node()?;
    settle(&connection, 2)?;
    thread::sleep(Duration::from_secs(1));
    let first = leave(&connection, &survivor, &receiver, 2, || {
        let ended = SystemTime::now();
        other.close()?;
        Ok(ended)
    })?;
    report.figures.insert("clean close to the first run elsewhere, ms".into(), first);
    Ok(survivor.close()?)
}

/// Milliseconds from the end of the newer node to the first run of a timer of its buckets.
fn leave(
    connection: &Connection,
    survivor: &Durable,
    receiver: &Receiver<Seen>,
    lease: u64,
    end: impl FnOnce() -> Result<SystemTime, AnyError>,
) -> Result<f64, AnyError> {
    let timers = survivor.timers();
    let count = (lease + 4) * 100;
    // From just now on, a hundred a second, in all buckets.
    let each = (0..count).map(|n| {
        let due = Duration::from_millis(500 + n * 10);
        timers.schedule_once(due, Job(n)).key(format!("key {n}"))
    });
    let asked = Instant::now();
    timers.schedule_batch(each).wait()?;
    let theirs = |n: u64| {
        format!(
            "SELECT count(*) FROM lars.timer t JOIN lars.bucket b USING (grp, bucket)
              WHERE t.key = 'key {n}' AND b.owner =
                    (SELECT id FROM lars.node ORDER BY started_at DESC LIMIT 1)"
        )
    };
    let mut left = Vec::new();
    for n in 30..count {
        if connection.number(&theirs(n))? == 1 {
            left.push(n);
        }
    }
    // Something of theirs is due all the time from now on.
    thread::sleep(Duration::from_millis(1_000).saturating_sub(asked.elapsed()));
    let ended = end()?;
    let wait = Instant::now();
    while wait.elapsed() < PATIENCE {
        let Ok((n, due, late)) = receiver.recv_timeout(PATIENCE) else { break };
        let run = due + Duration::from_micros(late.unsigned_abs());
        if left.contains(&n)
            && let Ok(after) = run.duration_since(ended)
        {
            return Ok(after.as_secs_f64() * 1_000.0);
        }
    }
    Err("nothing that was left behind runs".into())
}
