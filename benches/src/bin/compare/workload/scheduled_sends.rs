//! A3: messages to one actor are sent later. What a call costs, and how late they are.

use crate::actors::Actors;
use crate::actors::behaviour::{Address, Behaviour, Message, Sends};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::LIMIT;
use benches::process;

use super::lateness;

pub(super) fn measure<A: Actors>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::lateness(case.n);
    let actors = A::start();
    let actor = actors.spawn(Behaviour::telling(recorder));
    let ready = Recorder::burst(1);
    actor.tell(Message::Ready(ready));
    outcome.check(ready.wait(LIMIT), || "the actor is not ready".to_owned());

    let cpu = process::cpu_time();
    let taken = actors.send_later(&actor, Sends::new(case.n, case.duration(), recorder));
    let complete = recorder.wait(case.duration() + LIMIT);
    outcome.set("ns", taken.as_nanos() as f64 / case.n as f64);
    outcome.set("cpu_s", (process::cpu_time() - cpu).as_secs_f64());
    outcome.check(complete && recorder.calls() == case.n, || {
        format!("{} delivered of {}", recorder.calls(), case.n)
    });
    lateness::tell(recorder, A::IS_OURS, outcome);
}
