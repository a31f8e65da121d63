//! The timers of the benches, and the handler that runs them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lars_durable::{Builder, Durable, Fired, Handler, Payload, Timers};
use serde::{Deserialize, Serialize};

use super::{AnyError, Late};

/// A timer, by its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job(pub u64);

impl Payload for Job {
    const NAME: &'static str = "job";
}

/// So far ahead that nothing fires while it is measured.
pub const HOUR: Duration = Duration::from_secs(3600);

/// The longest that anything may take, so that a defect does not hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What a handler saw: the number, when it was due, how late it began in microseconds.
pub type Seen = (u64, SystemTime, i64);

/// A handler that tells how late it is; early is negative.
fn telling(sender: Sender<Seen>) -> Handler {
    let sender = Arc::new(Mutex::new(sender));
    Handler::new(move |due: &Fired<Job>| {
        let late = match SystemTime::now().duration_since(due.due()) {
            Ok(late) => late.as_micros() as i64,
            Err(early) => -(early.duration().as_micros() as i64) - 1,
        };
        let seen = (due.payload().0, due.due(), late);
        // Nobody listens any more after a measurement.
        let _ = sender.lock().expect("nobody panics").send(seen);
    })
    .concurrency(4_096)
}

/// A node that runs jobs, and what its handler sees.
pub fn runs_jobs(builder: Builder) -> Result<(Durable, Receiver<Seen>), AnyError> {
    let (sender, receiver) = channel();
    Ok((builder.handler(telling(sender)).max_in_flight(4_096).start()?, receiver))
}

/// Waits for `count` runs.
///
/// # Panics
///
/// If one does not come in [`PATIENCE`].
pub fn receive(receiver: &Receiver<Seen>, count: u64) -> Vec<Seen> {
    (0..count).map(|_| receiver.recv_timeout(PATIENCE).expect("it runs")).collect()
}

/// How late they were.
///
/// # Panics
///
/// If one was early.
pub fn late(seen: Vec<Seen>) -> Late {
    let late = Late::of(seen.into_iter().map(|(_, _, late)| late).collect());
    assert_eq!(late.early, 0, "nothing may be early");
    late
}

/// Schedules timers evenly from `first` on: `each_second` of them a second, for `seconds`.
pub fn steady(
    timers: &Timers,
    first: SystemTime,
    each_second: u64,
    seconds: u64,
) -> Result<(), AnyError> {
    for second in 0..seconds {
        let each = (0..each_second).map(|n| {
            let number = second * each_second + n;
            let due = first + Duration::from_micros(number * 1_000_000 / each_second);
            timers.schedule_at(due, Job(number))
        });
        timers.schedule_batch(each).wait()?;
    }
    Ok(())
}

/// Waits until nothing runs.
pub fn settle(durable: &Durable) {
    while durable.metrics().in_flight > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
