//! The timers of actors and of messages show the place of the user's call.
#![allow(missing_docs)]

use crate::common;

use std::time::Duration;

use common::{Call, SECOND, Script};
use lars_scheduler::listing::TimerQuery;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{AskError, Context, Props, Reply};

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

#[test]
fn an_actors_timer_has_the_name_of_its_key_also_when_it_goes_on() {
    let kit = TestKit::new("test").unwrap();
    let act = |call: Call<()>, ctx: &mut Context<Script<()>>| {
        if matches!(call, Call::Started) {
            ctx.timers().start_at_fixed_rate("beat", SECOND, 5 * SECOND, || ()).unwrap();
            ctx.timers().start_single(("request", 7), 2 * SECOND, ()).unwrap();
            // A name that was made at run time is not kept for ever.
            ctx.timers().start_single("request".to_owned(), 3 * SECOND, ()).unwrap();
        }
    };
    kit.spawn("actor", move || Script::new(act)).unwrap();
    kit.settle();
    let names = || {
        let listing = kit.scheduler().timers().list(TimerQuery::new());
        kit.advance(Duration::ZERO);
        let timers = listing.wait().timers;
        timers.iter().map(|timer| timer.identity.name()).collect::<Vec<_>>()
    };
    assert_eq!(names(), [Some("beat"), Some("request"), None]);
    kit.advance(SECOND);
    assert_eq!(names(), [Some("request"), None, Some("beat")]);
}

#[test]
fn the_pause_before_a_restart_shows_where_the_actor_was_spawned() {
    fn failing() -> Props<Script<()>> {
        let restart = SupervisionStrategy::restart().backoff(SECOND, SECOND);
        let act = |call: Call<()>, _: &mut Context<Script<()>>| {
            assert!(!matches!(call, Call::Started), "expected by this test");
        };
        Props::new(move || Script::new(act)).supervision(restart)
    }
    let kit = TestKit::new("test").unwrap();
    let first = line!() + 1;
    kit.spawn_with("actor", failing()).unwrap();
    kit.spawn_anonymous(failing()).unwrap();
    let act = |call: Call<()>, ctx: &mut Context<Script<()>>| {
        if matches!(call, Call::Started) {
            ctx.spawn_with("child", failing()).unwrap();
        }
    };
    kit.spawn("parent", move || Script::new(act)).unwrap();
    kit.settle();
    let mut lines = lines(&kit);
    lines.sort_unstable(); // the pauses have jitter
    assert_eq!(lines, [first, first + 1, first + 4]);
}

#[test]
fn an_actor_is_asked_for_its_timers_by_its_path() {
    let kit = TestKit::new("test").unwrap();
    let first = line!() + 3;
    let act = |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
        if matches!(call, Call::Started) {
            ctx.timers().start_single(("request", 7), 3 * SECOND, 1).unwrap();
            ctx.timers().start_at_fixed_rate("beat", SECOND, SECOND, || 2).unwrap();
            ctx.timers().start_single("cancelled", SECOND, 3).unwrap();
            assert!(ctx.timers().cancel("cancelled"));
        }
    };
    let actor = kit.spawn("session", move || Script::new(act)).unwrap();
    kit.spawn("idle", || Script::<u32>::new(|_, _| ())).unwrap();
    kit.advance(Duration::from_millis(1_500));
    actor.tell(9).unwrap();
    let ask = |path| kit.timers_of(path, SECOND).map(|timers| timers.wait());
    let timers = ask("/session").unwrap().unwrap();
    let seen: Vec<_> = timers
        .iter()
        .map(|timer| {
            assert_eq!(timer.place.file(), file!());
            let key = (timer.key.name().unwrap(), timer.key.number());
            (key, timer.remaining.unwrap().as_millis(), timer.periodic, timer.place.line() - first)
        })
        .collect();
    let expected = [(("request", Some(7)), 1_500, false, 0), (("beat", None), 500, true, 1)];
    assert_eq!(seen, expected);
    assert_eq!(ask("/idle"), Some(Ok(vec![])));
    assert_eq!(ask("/nobody"), None);
    // It is asked, and gone before its turn.
    let timers = kit.timers_of("/session", SECOND).unwrap();
    actor.kill();
    kit.settle();
    assert!(matches!(timers.wait(), Ok(_) | Err(AskError::NoAnswer)));
    assert!(kit.timers_of("/session", SECOND).is_none());
    assert!(kit.dead_letters().is_empty());
}
