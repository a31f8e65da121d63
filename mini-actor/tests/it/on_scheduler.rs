//! A system on a scheduler that somebody else owns.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{Call, Event, LONG, Script, all, close, ms, probe};
use lars_scheduler::{LightArrayRevolverScheduler, Task};
use mini_actor::supervision::{Directive, SupervisionStrategy};
use mini_actor::{Actor, ActorSystem, AskError, Context, Props, Refusal, Reply};

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
    close(&one);
    // The other one goes on.
    while beats.try_recv().is_ok() {}
    (0..3).for_each(|_| assert_eq!(beats.recv_timeout(LONG).unwrap(), "beat"));
    close(&two);
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
    let report = close(&system);
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
    close(&system);
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
    close(&system);
}

#[test]
fn an_actor_that_pauses_before_its_restart_when_the_scheduler_goes_is_restarted_then() {
    let timers = scheduler();
    let (sender, panics) = mpsc::channel();
    let builder = ActorSystem::builder("test").on_scheduler(&timers);
    let system = builder.on_panic(move |_, done| sender.send(done).unwrap()).build().unwrap();
    let (sender, told) = mpsc::channel();
    let props = Props::new(move || {
        let sender = sender.clone();
        Script::new(move |call: Call<u32>, _: &mut Context<Script<u32>>| {
            if let Call::Message(number) = call {
                assert!(number > 0, "expected by this test");
                sender.send(number).unwrap();
            }
        })
    });
    let pauses = SupervisionStrategy::restart().backoff(HOUR, HOUR);
    let actor = system.spawn_with("actor", props.supervision(pauses)).unwrap();
    actor.tell(0).unwrap();
    // The pause begins before anybody learns of the panic.
    assert_eq!(panics.recv_timeout(LONG).unwrap(), Directive::Restart);
    actor.tell(7).unwrap();
    drop(timers.stop().wait());
    assert_eq!(told.recv_timeout(LONG).unwrap(), 7);
    assert_eq!(actor.metrics().restarts, 1);
    close(&system);
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

#[test]
fn a_question_that_is_open_when_the_system_is_closed_ends_also_on_a_scheduler_that_goes_on() {
    /// Keeps its questions somewhere else.
    struct Keeps(mpsc::Sender<Reply<u32>>);
    impl Actor for Keeps {
        type Message = Reply<u32>;
        fn receive(&mut self, reply: Reply<u32>, _: &mut Context<Self>) {
            self.0.send(reply).unwrap();
        }
    }
    let timers = scheduler();
    let system = ActorSystem::builder("test").on_scheduler(&timers).build().unwrap();
    let (sender, kept) = mpsc::channel();
    let keeps = system.spawn("keeps", || Keeps(sender)).unwrap();
    drop(keeps.ask(|reply| reply, LONG)); // withdrawn
    let answer = keeps.ask(|reply| reply, LONG);
    let replies = [kept.recv_timeout(LONG).unwrap(), kept.recv_timeout(LONG).unwrap()];
    close(&system);
    assert_eq!(answer.wait(), Err(AskError::Closed));
    assert!(replies.iter().all(|reply| !reply.is_wanted()));
    assert_eq!(keeps.ask(|reply| reply, LONG).wait(), Err(AskError::Closed));
    assert_eq!(timers.pending(), 0);
}

/// Nobody gets an answer.
struct Silent;

impl Actor for Silent {
    type Message = Reply<()>;

    fn receive(&mut self, _: Reply<()>, _: &mut Context<Self>) {}
}

#[test]
fn closing_does_not_wait_for_an_asker_that_backpressure_holds_back() {
    let close_returns_first = || {
        let scheduler = scheduler();
        let system = ActorSystem::builder("test").on_scheduler(&scheduler).build().unwrap();
        let silent = system.spawn("silent", || Silent).unwrap();
        // Cancelled, they cost their thread so much that it waits for some hundred milliseconds.
        let timers = scheduler.schedule_batch((0..50_000).map(|_| (HOUR, || ()))).unwrap();
        let release = occupy(&scheduler);
        let (handle, (owes, begins)) = (scheduler.handle(), mpsc::channel());
        let asker = thread::spawn(move || {
            // More than it has a share for, so that it asks. After that it hears nothing of the
            // timer thread for so long that this is late.
            (0..3_000).for_each(|_| drop(handle.schedule_once(HOUR, || ()).unwrap()));
            thread::sleep(ms(10));
            timers.iter().for_each(|timer| assert!(timer.cancel()));
            owes.send(()).unwrap();
            let answer = silent.ask(|reply| reply, HOUR).wait();
            assert!(matches!(answer, Err(AskError::Closed | AskError::Stopped(_))), "{answer:?}");
        });
        begins.recv().unwrap();
        let waits = || scheduler.waits().iter().map(|it| it.waiting).sum::<u64>() > 0;
        while !waits() && !asker.is_finished() {
            thread::yield_now();
        }
        let _ = system.close();
        let still_waits = waits();
        drop(release);
        asker.join().unwrap();
        still_waits
    };
    // (Now and then a machine may keep this thread from running for as long as the other waits.)
    assert!((0..20).any(|_| close_returns_first()), "it waits for the thread that is held back");
}

/// Occupies the timer thread until what it returns is dropped.
fn occupy(scheduler: &LightArrayRevolverScheduler) -> mpsc::Sender<()> {
    let ((release, hold), (entered, inside)) = (mpsc::channel::<()>(), mpsc::channel());
    let occupies = move || {
        entered.send(()).unwrap();
        let _ = hold.recv();
    };
    let _ = scheduler.schedule_once(Duration::ZERO, Task::new(occupies).inline()).unwrap();
    inside.recv_timeout(LONG).unwrap();
    release
}
