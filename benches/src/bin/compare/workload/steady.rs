//! W4: a steady stream of timers that fire. How late they are, and what it costs.

use std::thread;
use std::time::{Duration, Instant};

use benches::Xorshift;

use super::lateness;
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{LIMIT, Producer, Timers};
use benches::process;

/// Between two batches.
const PACE: Duration = Duration::from_millis(1);

/// Delays are below this part of the time that it lasts.
const LONGEST: u32 = 5;

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::lateness(case.n);
    let timers = T::start();
    let mut producer = timers.producer();
    let mut random = Xorshift::new(0);
    let mut kept = process::touched_vec(case.n as usize);
    let longest = case.duration() / LONGEST;
    let steps = u128::from(case.millis) / PACE.as_millis();
    let cpu = process::cpu_time();
    let start = Instant::now();
    for step in 1..=steps {
        // Rounded so that they add up.
        let until = u128::from(case.n) * step / steps;
        while (kept.len() as u128) < until {
            let delay = Duration::from_nanos(random.number() % longest.as_nanos() as u64);
            let callback = recorder.due_at(Instant::now() + delay);
            kept.push(producer.schedule(delay, callback));
        }
        let next = start + PACE * step as u32;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    if T::FIRES {
        let complete = recorder.wait(longest + LIMIT);
        outcome.check(complete && recorder.calls() == case.n, || {
            format!("{} fired of {}", recorder.calls(), case.n)
        });
    } else {
        thread::sleep(longest);
    }
    outcome.set("cpu_s", (process::cpu_time() - cpu).as_secs_f64());
    lateness::tell(recorder, T::IS_OURS, outcome);
}
