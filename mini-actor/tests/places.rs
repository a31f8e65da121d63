//! The timers of actors and of messages show the place of the user's call.
#![allow(missing_docs)]

mod common;

use std::time::Duration;

use common::{Call, SECOND, Script};
use lars_scheduler::TimerQuery;
use mini_actor::test_kit::TestKit;
use mini_actor::{Context, Reply};

/// The lines of the pending timers' places, from the one that is due first.
fn lines(kit: &TestKit) -> Vec<u32> {
    let listing = kit.scheduler().timers().list(TimerQuery::new());
    kit.advance(Duration::ZERO); // it is made when time is moved
    let listing = listing.wait();
    let lines = listing.timers.iter().map(|timer| {
        let place = timer.identity.place().unwrap();
        assert_eq!(place.file(), file!());
        place.line()
    });
    lines.collect()
}

#[test]
fn timers_of_actors_show_where_they_were_started_also_when_they_go_on() {
    let kit = TestKit::new("test").unwrap();
    let first = line!() + 3;
    let act = |call: Call<()>, ctx: &mut Context<Script<()>>| {
        if matches!(call, Call::Started) {
            ctx.timers().start_single("once", 10 * SECOND, ()).unwrap();
            ctx.timers().start_with_fixed_delay("delay", SECOND, 11 * SECOND, || ()).unwrap();
            ctx.timers().start_at_fixed_rate("rate", 2 * SECOND, 11 * SECOND, || ()).unwrap();
            ctx.set_receive_timeout(20 * SECOND).unwrap();
        }
    };
    kit.spawn("actor", move || Script::new(act)).unwrap();
    kit.settle();
    assert_eq!(lines(&kit), [first + 1, first + 2, first, first + 3]);
    kit.advance(3 * SECOND);
    assert_eq!(lines(&kit), [first, first + 1, first + 2, first + 3]);
    // Looked at, and armed anew.
    kit.advance(17 * SECOND);
    assert!(lines(&kit).contains(&(first + 3)));
}

#[test]
fn scheduled_messages_and_questions_show_where_that_was() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let (to, clerk) = (probe.actor(), kit.probe::<Reply<u32>>("clerk"));
    let scheduler = kit.scheduler();
    let first = line!() + 1;
    let once = scheduler.schedule_once(SECOND, to, 1).unwrap();
    let at = scheduler.schedule_at(scheduler.timers().now() + 2 * SECOND, to, 1).unwrap();
    let delay = scheduler.schedule_with_fixed_delay(3 * SECOND, SECOND, to, 1).unwrap();
    let rate = scheduler.schedule_at_fixed_rate(4 * SECOND, SECOND, to, 1).unwrap();
    let asked = clerk.actor().ask(|reply| reply, 5 * SECOND);
    let by_part = clerk.actor().recipient::<Reply<u32>>().ask(|reply| reply, 6 * SECOND);
    assert_eq!(lines(&kit), (first..first + 6).collect::<Vec<_>>());
    drop((once, at, delay, rate, asked, by_part));
}
