//! A4: one producer sends to many actors, a message to each in turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::actors::Actors;
use crate::actors::behaviour::{Address, Behaviour, Message};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::LIMIT;

/// Messages to each actor.
pub(super) const EACH: u64 = 100;

/// How many actors there are.
pub(super) fn actors(case: &Case) -> u64 {
    (case.n / EACH).max(1)
}

pub(super) fn measure<A: Actors>(case: &Case, outcome: &mut Outcome) {
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    let system = A::start();
    let number = actors(case);
    let done = Recorder::burst(number);
    let fan: Vec<_> =
        (0..number).map(|_| system.spawn(Behaviour::adding(EACH, &TOTAL, done))).collect();
    tell_all(&fan, &TOTAL, done, outcome);
}

/// Tells all of them their messages, and how long it takes until `done` says that they have them.
pub(super) fn tell_all<A: Address>(
    fan: &[A],
    total: &AtomicU64,
    done: &Recorder,
    outcome: &mut Outcome,
) {
    let number = fan.len() as u64;
    let ready = Recorder::burst(number);
    fan.iter().for_each(|actor| actor.tell(Message::Ready(ready)));
    outcome.check(ready.wait(LIMIT), || "the actors are not ready".to_owned());

    let begin = Instant::now();
    for round in 1..=EACH {
        fan.iter().for_each(|actor| actor.tell(Message::Add(round)));
    }
    let sent = begin.elapsed();
    let complete = done.wait(LIMIT);
    let (_, end) = done.first_and_last();
    let messages = (number * EACH) as f64;
    outcome.set("ns", end.saturating_sub(done.nanos(begin)) as f64 / messages);
    outcome.set("send_ns", sent.as_nanos() as f64 / messages);
    outcome.check(complete, || format!("{} of {number} actors have all", done.calls()));
    let (total, sum) = (total.load(Ordering::Relaxed), number * EACH * (EACH + 1) / 2);
    outcome.check(total == sum, || format!("the messages add up to {total} instead of {sum}"));
}
