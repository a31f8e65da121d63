//! A1: two actors send one message to and fro.

use std::time::Instant;

use crate::actors::Actors;
use crate::actors::behaviour::{Address, Behaviour, Message};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::LIMIT;

pub(super) fn measure<A: Actors>(case: &Case, outcome: &mut Outcome) {
    let actors = A::start();
    let over = Recorder::burst(1);
    let [one, other] = [(); 2].map(|()| actors.spawn(Behaviour::telling(over)));
    one.tell(Message::Meet(Box::new(other.clone())));
    other.tell(Message::Meet(Box::new(one.clone())));
    let ready = Recorder::burst(2);
    one.tell(Message::Ready(ready));
    other.tell(Message::Ready(ready));
    outcome.check(ready.wait(LIMIT), || "the players are not ready".to_owned());

    // Each hit counts down by one, so this many messages are told.
    let begin = over.nanos(Instant::now());
    one.tell(Message::Hit(2 * case.n));
    let complete = over.wait(LIMIT);
    let (_, end) = over.first_and_last();
    outcome.set("ns", end.saturating_sub(begin) as f64 / case.n as f64);
    outcome.check(complete, || "the game did not come to its end".to_owned());
}
