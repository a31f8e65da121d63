//! A5: actors that restart a timer with each message, as a session does that ends when nobody has
//! sent it anything for so long. What a message costs with that. At the end all timers fire, once
//! each: that is checked, and how late they are is told.

use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use super::{fan, lateness};
use crate::actors::Actors;
use crate::actors::behaviour::{Behaviour, Session};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::LIMIT;
use benches::process;

/// What fires a second time though it should not has a moment for it.
const MOMENT: Duration = Duration::from_millis(100);

pub(super) fn measure<A: Actors>(case: &Case, outcome: &mut Outcome) {
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    let actors = A::start();
    let number = fan::actors(case);
    let done = Recorder::burst(number);
    let ended = Recorder::lateness(number);
    let sessions: Vec<_> = (0..number)
        .map(|_| Behaviour::adding(fan::EACH, &TOTAL, done))
        .map(|adding| actors.spawn_session(Session::new(adding, case.duration(), ended)))
        .collect();
    let cpu = process::cpu_time();
    fan::tell_all(&sessions, &TOTAL, done, outcome);
    let cpu = process::cpu_time() - cpu;
    // The numbers, and one message before them that asks whether the actor is ready.
    let messages = number * (fan::EACH + 1);
    outcome.set("cpu_ns", cpu.as_nanos() as f64 / messages as f64);

    let complete = ended.wait(case.duration() + LIMIT);
    thread::sleep(MOMENT);
    let calls = ended.calls();
    outcome.check(complete && calls == number, || format!("{calls} timers fired of {number}"));
    lateness::tell(ended, A::IS_OURS, outcome);
}
