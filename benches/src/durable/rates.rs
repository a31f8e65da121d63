//! How many a second a node schedules and runs.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lars_durable::{Builder, Durable};

use super::{AnyError, HOUR, Job, receive, runs_jobs, settle};

/// How many a second that is.
pub fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Starts the node, and makes its first call, so that everything is open.
fn start(builder: Builder) -> Result<Durable, AnyError> {
    let durable = builder.start()?;
    durable.timers().schedule_once(HOUR, Job(0)).submit().wait()?;
    Ok(durable)
}

/// How many a second eight callers schedule, each of which waits for its answer before it calls
/// again. A call that fails panics.
pub(super) fn single(builder: Builder, count: u64) -> Result<f64, AnyError> {
    callers(builder, count, 1)
}

/// The same with up to 125 calls of each caller under way.
pub(super) fn pipelined(builder: Builder, count: u64) -> Result<f64, AnyError> {
    callers(builder, count, 125)
}

/// Eight callers, each with up to this many calls under way.
fn callers(builder: Builder, count: u64, under_way: usize) -> Result<f64, AnyError> {
    let durable = start(builder)?;
    let timers = durable.timers();
    let begun = Instant::now();
    thread::scope(|scope| {
        for caller in 0..8 {
            let timers = timers.clone();
            scope.spawn(move || {
                let mut open = VecDeque::new();
                for n in 0..count / 8 {
                    let timer = timers.schedule_once(HOUR, Job(caller * count + n));
                    open.push_back(timer.submit());
                    if open.len() == under_way {
                        open.pop_front().map(|call| call.wait().expect("accepted"));
                    }
                }
                for call in open {
                    call.wait().expect("accepted");
                }
            });
        }
    });
    let found = rate(count / 8 * 8, begun.elapsed());
    assert_eq!(durable.metrics().scheduled, count / 8 * 8 + 1);
    durable.close()?;
    Ok(found)
}

/// How many a second one caller schedules, 1,000 in a call and four calls under way.
pub(super) fn batches(builder: Builder, count: u64) -> Result<f64, AnyError> {
    let durable = start(builder)?;
    let timers = durable.timers();
    let begun = Instant::now();
    let mut open = VecDeque::new();
    for first in (0..count).step_by(1_000) {
        let ids = first..count.min(first + 1_000);
        let each = ids.map(|id| timers.schedule_once(HOUR, Job(id)));
        open.push_back(timers.schedule_batch(each));
        if open.len() == 4 {
            open.pop_front().map(|call| call.wait()).transpose()?;
        }
    }
    for call in open {
        call.wait()?;
    }
    let found = rate(count, begun.elapsed());
    assert_eq!(durable.metrics().scheduled, count + 1);
    durable.close()?;
    Ok(found)
}

/// How many a second are recorded as started, run, and recorded as finished, when all are due at
/// once, `ramp` after the first was scheduled.
pub fn run_and_finish(builder: Builder, count: u64, ramp: Duration) -> Result<f64, AnyError> {
    let (durable, receiver) = runs_jobs(builder)?;
    let timers = durable.timers();
    let due = SystemTime::now() + ramp;
    for first in (0..count).step_by(1_000) {
        let ids = first..count.min(first + 1_000);
        timers.schedule_batch(ids.map(|id| timers.schedule_at(due, Job(id)))).wait()?;
    }
    thread::sleep(due.duration_since(SystemTime::now()).unwrap_or_default());
    let begun = Instant::now();
    receive(&receiver, count);
    settle(&durable);
    let found = rate(count, begun.elapsed());
    assert_eq!(durable.metrics().done, count);
    durable.close()?;
    Ok(found)
}
