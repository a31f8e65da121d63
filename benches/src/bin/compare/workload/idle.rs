//! W5: timers are pending, and nothing is due. What that costs.

use std::thread;
use std::time::Duration;

use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{Producer, Timers};
use benches::process;

const FAR: Duration = Duration::from_secs(3600);

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let timers = T::start();
    let mut producer = timers.producer();
    let kept: Vec<_> = (0..case.n).map(|_| producer.schedule(FAR, recorder.callback())).collect();
    producer.settle();
    // What follows upon scheduling is not idleness.
    thread::sleep(Duration::from_millis(200));
    let (switches, cpu) = (process::voluntary_switches(), process::cpu_time());
    thread::sleep(case.duration());
    let cpu = process::cpu_time() - cpu;
    // This thread's own sleep is one of them.
    let switches = process::voluntary_switches() - switches;
    outcome.set("cpu_ms", cpu.as_secs_f64() * 1e3);
    outcome.set("switches", switches.saturating_sub(1) as f64);
    outcome.check(recorder.calls() == 0, || format!("{} fired of none due", recorder.calls()));
    drop(kept);
}
