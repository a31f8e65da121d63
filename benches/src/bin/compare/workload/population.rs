//! A6: very many actors, that are told one message each and end.

use std::thread;
use std::time::{Duration, Instant};

use crate::actors::Actors;
use crate::actors::behaviour::{Address, Behaviour, Message};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::LIMIT;
use benches::process;

pub(super) fn measure<A: Actors>(case: &Case, outcome: &mut Outcome) {
    let ended = Recorder::burst(case.n);
    let ready = Recorder::burst(case.n);
    let actors = A::start();
    let mut population = process::touched_vec(case.n as usize);
    let before = process::resident();

    let begin = Instant::now();
    population.extend((0..case.n).map(|_| actors.spawn(Behaviour::ending(ended))));
    let spawned = begin.elapsed();
    thread::sleep(case.duration());
    let bytes = |resident: usize| resident.saturating_sub(before) as f64 / case.n as f64;
    let idle = bytes(process::resident());

    let begin = Instant::now();
    population.iter().for_each(|actor| actor.tell(Message::Ready(ready)));
    outcome.check(ready.wait(LIMIT), || format!("{} of {} are ready", ready.calls(), case.n));
    let told = begin.elapsed();
    thread::sleep(case.duration());
    let after_one = bytes(process::resident());
    outcome.check(ended.calls() == 0, || format!("{} ended too early", ended.calls()));

    let begin = Instant::now();
    actors.end(population);
    outcome.check(ended.wait(LIMIT), || format!("{} of {} have ended", ended.calls(), case.n));
    let closed = begin.elapsed();

    let each = |time: Duration| time.as_nanos() as f64 / case.n as f64;
    outcome.set("ns", each(spawned));
    outcome.set("first_ns", each(told));
    outcome.set("end_ns", each(closed));
    outcome.set("bytes", idle);
    outcome.set("told_bytes", after_one);
}
