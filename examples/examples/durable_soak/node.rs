//! What a node does until it is killed: it schedules, cancels, and runs what is due.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lars_durable::schedule::Cancel;
use lars_durable::{Durable, Fired, Outcome, Payload};
use serde::{Deserialize, Serialize};

use crate::{AnyError, LEASE};

/// The file that tells the nodes to schedule nothing more.
pub(crate) const STOP: &str = "stop";

/// The number of a timer: that of its life, and one of the life's own.
#[derive(Serialize, Deserialize)]
struct Tag(u64);

impl Payload for Tag {
    const NAME: &'static str = "tag";
}

fn micros(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// Each line goes out in one write, so that it is there whole, or not at all.
fn write(log: &File, lines: &str) -> Result<(), std::io::Error> {
    let mut log = log;
    log.write_all(lines.as_bytes())
}

/// How the run of a timer ends; the second run of one that asks for another attempt succeeds.
fn outcome(tag: u64, attempt: u32) -> (char, Outcome) {
    match tag % 499 {
        0 => ('p', Outcome::Park("one in 499".into())),
        1..=10 if attempt == 1 => ('r', Outcome::RetryAfter(Duration::from_millis(500))),
        _ => ('d', Outcome::Done),
    }
}

pub(crate) fn work(
    life: u64,
    directory: &Path,
    parameters: &str,
    rate: u64,
) -> Result<(), AnyError> {
    let path = directory.join(life.to_string());
    let log = Arc::new(OpenOptions::new().create(true).append(true).open(path)?);
    let runs = Arc::clone(&log);
    let run = move |due: &Fired<Tag>| -> Result<Outcome, std::io::Error> {
        let (now, tag) = (SystemTime::now(), due.payload().0);
        let (end, outcome) = outcome(tag, due.attempt());
        let (now, due, fence) = (micros(now), micros(due.due()), due.fence());
        write(&runs, &format!("run {tag} {life} {fence} {due} {now} {end}\n"))?;
        Ok(outcome)
    };
    // The name tells the books which row is this life's.
    let node = Durable::postgres(parameters).lease(LEASE).name(life.to_string());
    let durable = node.handle(run).start()?;
    let timers = durable.timers();
    let mut rng = fastrand::Rng::with_seed(life);
    let (mut next, mut mine) = (0, VecDeque::new());
    while !directory.join(STOP).exists() {
        // A tenth of a second's timers, in one call, due within the next ten seconds.
        let tags: Vec<u64> = (0..rate.div_ceil(10)).map(|n| life << 32 | (next + n)).collect();
        next += tags.len() as u64;
        let batch = tags.iter().map(|tag| {
            let delay = Duration::from_millis(rng.u64(..10_000));
            timers.schedule_once(delay, Tag(*tag)).key(tag.to_string())
        });
        let call = timers.schedule_batch(batch.collect::<Vec<_>>());
        // If the answer does not come, nobody knows; the books count these by their runs.
        if call.wait().is_ok() {
            let lines: String = tags.iter().map(|tag| format!("accepted {tag}\n")).collect();
            write(&log, &lines)?;
            mine.push_back(tags);
        }
        // One in ten of those that were made five seconds ago is cancelled.
        if mine.len() > 50 {
            for tag in mine.pop_front().into_iter().flatten().filter(|tag| tag % 10 == 3) {
                write(&log, &format!("cancel {tag}\n"))?;
                if let Ok(Cancel::Prevented) = timers.cancel(&tag.to_string()).wait() {
                    write(&log, &format!("prevented {tag} {}\n", micros(SystemTime::now())))?;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    loop {
        std::thread::park();
    }
}
