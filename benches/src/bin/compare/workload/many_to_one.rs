//! A2: several threads outside the system send to one actor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use super::producers::{share, span, wall};
use crate::actors::Actors;
use crate::actors::behaviour::{Address, Behaviour, Message};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::LIMIT;

pub(super) fn measure<A: Actors>(case: &Case, outcome: &mut Outcome) {
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    let actors = A::start();
    let done = Recorder::burst(1);
    let counter = actors.spawn(Behaviour::adding(case.n, &TOTAL, done));
    let ready = Recorder::burst(1);
    counter.tell(Message::Ready(ready));
    outcome.check(ready.wait(LIMIT), || "the actor is not ready".to_owned());

    let barrier = Barrier::new(case.producers as usize);
    let spans = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..case.producers {
            let (barrier, spans) = (&barrier, &spans);
            let mut counter = counter.clone();
            scope.spawn(move || {
                let count = share(case.n, case.producers, number);
                let span = span(
                    barrier,
                    &mut counter,
                    |counter| (1..=count).for_each(|number| counter.tell(Message::Add(number))),
                    |_| assert!(done.wait(LIMIT), "not all were received"),
                );
                spans.lock().expect("no producer panics").push(span);
            });
        }
    });
    let spans = spans.into_inner().expect("no producer panics");
    let begin = spans.iter().map(|span| span.begin).min().expect("there is a producer");
    let (_, end) = done.first_and_last();
    let (sending, _) = wall(&spans);
    let n = case.n as f64;
    outcome.set("ns", end.saturating_sub(done.nanos(begin)) as f64 / n);
    outcome.set("send_ns", sending.as_nanos() as f64 / n);
    let sum: u64 = (0..case.producers)
        .map(|number| share(case.n, case.producers, number))
        .map(|count| count * (count + 1) / 2)
        .sum();
    let total = TOTAL.load(Ordering::Relaxed);
    outcome.check(total == sum, || format!("the messages add up to {total} instead of {sum}"));
}
