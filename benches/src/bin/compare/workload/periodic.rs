//! W6: many periodic timers, at a fixed rate where the peer has that.

use std::thread;
use std::time::{Duration, Instant};

use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{Producer, Timers};
use benches::process;

const PERIOD: Duration = Duration::from_millis(100);

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let timers = T::start();
    let mut producer = timers.producer();
    let window = case.duration();
    let mut starts = Vec::with_capacity(case.n as usize);
    let cpu = process::cpu_time();
    let begin = Instant::now();
    for number in 0..case.n {
        // Spread over one period.
        let initial = PERIOD.mul_f64(number as f64 / case.n as f64);
        starts.push(begin.elapsed() + initial);
        producer.repeat(initial, PERIOD, recorder.callback());
    }
    thread::sleep(window.saturating_sub(begin.elapsed()));
    let runs = recorder.calls();
    let elapsed = begin.elapsed();
    let cpu = process::cpu_time() - cpu;
    let expected: u64 = starts
        .iter()
        .filter_map(|start| elapsed.checked_sub(*start))
        .map(|since| (since.as_nanos() / PERIOD.as_nanos()) as u64 + 1)
        .sum();
    outcome.set("runs", runs as f64 / expected as f64);
    outcome.set("cpu_s", cpu.as_secs_f64());
    // A run that is due in the last tick is none that was missed.
    let missing = 1.0 - runs as f64 / expected as f64;
    if T::IS_OURS {
        outcome.check(runs <= expected, || format!("{runs} runs, of which {expected} were due"));
    }
    outcome.check(missing < 0.5, || format!("only {runs} runs of {expected}"));
}
