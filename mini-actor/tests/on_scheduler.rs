//! A system on a scheduler that somebody else owns.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{Event, LONG, all, ms, probe};
use lars_scheduler::LightArrayRevolverScheduler;
use mini_actor::{Actor, ActorSystem, Context, Refusal};

const HOUR: Duration = Duration::from_secs(3600);

fn scheduler() -> LightArrayRevolverScheduler {
    LightArrayRevolverScheduler::new().unwrap()
}

/// Starts a timer for each message, and one at its start.
struct Beats(mpsc::Sender<&'static str>, Duration);

impl Actor for Beats {
    type Message = &'static str;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.timers().start_with_fixed_delay("beat", self.1, self.1, || "beat").unwrap();
    }

    fn receive(&mut self, message: &'static str, ctx: &mut Context<Self>) {
        if message == "again"
            && ctx.timers().start_single("late", HOUR, "late") == Err(Refusal::Stopped)
        {
            self.0.send("refused").unwrap();
        } else {
            let _ = self.0.send(message);
        }
    }
}

#[test]
fn two_systems_share_a_scheduler_and_their_timers_run_on_it() {
    let timers = scheduler();
    let build = |name| ActorSystem::builder(name).threads(1).on_scheduler(&timers).build().unwrap();
    let (one, two) = (build("one"), build("two"));
    let (sender, beats) = mpsc::channel();
    for system in [&one, &two] {
        let sender = sender.clone();
        system.spawn("beats", move || Beats(sender, ms(1))).unwrap();
    }
    (0..6).for_each(|_| assert_eq!(beats.recv_timeout(LONG).unwrap(), "beat"));
    assert!(timers.metrics().fired >= 6);
    assert!(one.close().unwrap().is_complete());
    // The other one goes on.
    while beats.try_recv().is_ok() {}
    (0..3).for_each(|_| assert_eq!(beats.recv_timeout(LONG).unwrap(), "beat"));
    assert!(two.close().unwrap().is_complete());
}

#[test]
fn closing_the_system_ends_the_timers_of_its_actors_and_leaves_the_scheduler() {
    let timers = scheduler();
    let system = ActorSystem::builder("test").on_scheduler(&timers).build().unwrap();
    let (sender, _beats) = mpsc::channel();
    system.spawn("beats", move || Beats(sender, HOUR)).unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("probe", factory).unwrap();
    actor.tell(1).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &actor, 2).unwrap();
    let _ = system.scheduler().schedule_at_fixed_rate(HOUR, HOUR, &actor, 3).unwrap();
    let report = system.close().unwrap();
    assert!(report.is_complete() && report.scheduler_stopped);
    assert_eq!((report.sent, report.dropped, report.repeats_ended), (0, 0, 0));
    assert_eq!(report.actors_stopped, 2);
    assert!(all(&told).contains(&Event::Received(1)));
    // The two messages that are scheduled stay; the actor's own timer is gone.
    assert_eq!(timers.pending(), 2);
    drop(system);
    let (sender, ran) = mpsc::channel();
    timers.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    ran.recv_timeout(LONG).unwrap();
}

#[test]
fn what_is_due_after_the_close_is_a_dead_letter_and_periodic_sends_end() {
    let timers = scheduler();
    let system = ActorSystem::builder("test").on_scheduler(&timers).build().unwrap();
    let (factory, _told) = probe(|_, _| ());
    let actor = system.spawn("probe", factory).unwrap();
    let _ = system.scheduler().schedule_once(ms(50), &actor, 2).unwrap();
    let _ = system.scheduler().schedule_at_fixed_rate(ms(50), ms(1), &actor, 3).unwrap();
    system.close().unwrap();
    let begin = std::time::Instant::now();
    while timers.pending() > 0 {
        assert!(begin.elapsed() < LONG, "{:?}", timers.metrics());
        std::thread::sleep(ms(1));
    }
    assert!(system.metrics().dead_letters >= 1);
}

#[test]
fn actors_run_on_without_timers_when_the_scheduler_goes_first() {
    let timers = scheduler();
    let system = ActorSystem::builder("test").on_scheduler(&timers).build().unwrap();
    let (sender, told) = mpsc::channel();
    let actor = system.spawn("beats", move || Beats(sender, HOUR)).unwrap();
    actor.tell("hello").unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "hello");
    drop(timers.stop().wait());
    drop(timers);
    actor.tell("again").unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "refused");
    assert!(system.close().unwrap().is_complete());
}

#[test]
fn dropping_the_system_stops_its_actors_and_not_the_scheduler() {
    let timers = scheduler();
    let system = ActorSystem::builder("test").on_scheduler(&timers).build().unwrap();
    let (sender, told) = mpsc::channel();
    system.spawn("beats", move || Beats(sender, HOUR)).unwrap();
    drop(system);
    assert!(told.recv_timeout(LONG).is_err()); // the actor and its sender are gone
    assert!(timers.schedule_once(HOUR, || ()).is_ok());
}
