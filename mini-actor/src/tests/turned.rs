//! Actors in the turns of a scheduler that somebody else turns, as in a web page.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};

use crate::{Actor, ActorSystem, Context};

const SECOND: Duration = Duration::from_secs(1);

fn set() -> (VirtualTime, ActorSystem) {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let system = ActorSystem::builder("page").build_turned(&time).unwrap();
    (time, system)
}

/// Repeats what it hears, and counts down from a number with a timer for each step.
struct Echo(Sender<u32>);

impl Actor for Echo {
    type Message = u32;

    fn receive(&mut self, number: u32, ctx: &mut Context<Self>) {
        self.0.send(number).unwrap();
        if let Some(less) = number.checked_sub(1) {
            ctx.timers().start_single("next", SECOND, less).unwrap();
        }
    }
}

#[test]
fn actors_run_in_the_turns_of_the_scheduler_and_not_in_the_call_that_tells_them() {
    let (time, system) = set();
    let (sender, heard) = channel();
    let echo = system.spawn("echo", move || Echo(sender)).unwrap();
    echo.tell(0).unwrap();
    assert_eq!(heard.try_iter().count(), 0);
    time.advance(Duration::ZERO);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn their_timers_are_of_the_same_time() {
    let (time, system) = set();
    let (sender, heard) = channel();
    let echo = system.spawn("echo", move || Echo(sender)).unwrap();
    echo.tell(2).unwrap();
    time.advance(2 * SECOND - Duration::from_nanos(1));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [2, 1]);
    time.advance(Duration::from_nanos(1));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(time.pending(), 0);
}

/// Tells itself the next number, without a pause.
struct Busy(Sender<u32>);

impl Actor for Busy {
    type Message = u32;

    fn receive(&mut self, number: u32, ctx: &mut Context<Self>) {
        self.0.send(number).unwrap();
        if number < 10_000 {
            ctx.myself().tell(number + 1).unwrap();
        }
    }
}

#[test]
fn an_actor_with_more_to_do_than_one_turn_allows_goes_on_in_the_next() {
    let (time, system) = set();
    let (sender, heard) = channel();
    let busy = system.spawn("busy", move || Busy(sender)).unwrap();
    busy.tell(0).unwrap();
    time.advance(Duration::ZERO);
    assert!(heard.try_iter().eq(0..=10_000));
}

#[test]
fn closing_the_system_receives_what_is_queued_and_leaves_the_scheduler() {
    let (time, system) = set();
    let (sender, heard) = channel();
    let echo = system.spawn("echo", move || Echo(sender)).unwrap();
    echo.tell(0).unwrap();
    assert!(system.close().unwrap().is_complete());
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [0]);
    assert!(time.schedule_once(SECOND, || ()).is_ok());
}

#[test]
fn actors_have_their_turn_even_if_the_scheduler_has_no_place_for_a_timer() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let system = ActorSystem::builder("page").build_turned(&time).unwrap();
    let (sender, heard) = channel();
    let other = time.schedule_once(SECOND, || ()).unwrap();
    let echo = system.spawn("echo", move || Echo(sender)).unwrap();
    for number in [0, 0] {
        echo.tell(number).unwrap();
        time.advance(Duration::ZERO);
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [0]);
    }
    // Their turn has taken no place, and given none back.
    assert!(time.schedule_once(SECOND, || ()).is_err());
    assert!(other.cancel());
    assert!(time.schedule_once(SECOND, || ()).is_ok());
    assert!(time.schedule_once(SECOND, || ()).is_err());
}
