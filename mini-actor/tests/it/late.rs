//! Timers' messages that are received late say why, and punctual ones say nothing.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use common::{Call, LONG, Script, close, ms};
use lars_scheduler::late::{Cause, Late, Lateness};
use lars_scheduler::{MissedTickBehavior, Task};
use mini_actor::{Actor, ActorRef, ActorSystem, Builder, Context};

const BOUND: Duration = ms(5);
/// For how long something is held up.
const HELD: Duration = ms(20);

/// What was told of a late message.
#[derive(Debug)]
struct Told {
    who: String,
    lateness: Duration,
    shares: Vec<(Cause, Option<String>, Duration)>,
}

impl Told {
    fn new(late: &Late<'_>) -> Self {
        let shares = late.shares.iter();
        let shares =
            shares.map(|it| (it.cause, it.culprit.as_ref().map(ToString::to_string), it.time));
        let told =
            Self { who: late.who.to_string(), lateness: late.lateness, shares: shares.collect() };
        let sum: Duration = told.shares.iter().map(|share| share.2).sum();
        assert_eq!(sum, told.lateness, "{told:?}");
        told
    }

    /// For how long it waited because of that.
    fn because(&self, cause: Cause, culprit: Option<&str>) -> Duration {
        let of_it = |share: &&(Cause, Option<String>, Duration)| {
            share.0 == cause && share.1.as_deref() == culprit
        };
        self.shares.iter().filter(of_it).map(|share| share.2).sum()
    }
}

/// A system of one thread that tells of late messages.
fn told(builder: Builder) -> (ActorSystem, Receiver<Told>) {
    let (sender, told) = channel();
    let hook = move |late: &Late<'_>| drop(sender.send(Told::new(late)));
    (builder.threads(1).on_late(hook).build().unwrap(), told)
}

fn explained() -> Builder {
    ActorSystem::builder("test").explain_late(BOUND)
}

/// Waits for what is told of this one. (On a busy machine others are late, too.)
#[track_caller]
fn expect(told: &Receiver<Told>, who: &str) -> Told {
    loop {
        let late = told.recv_timeout(LONG).unwrap();
        assert!(late.lateness > BOUND, "{late:?}");
        if late.who == who {
            return late;
        }
    }
}

/// Somebody who waits until the test lets it go on.
struct Held {
    is_held: Receiver<()>,
    go_on: Sender<()>,
}

/// What holds somebody up until the test lets it go on.
struct Hold {
    held: Sender<()>,
    goes_on: Receiver<()>,
}

fn hold() -> (Hold, Held) {
    let ((held, is_held), (go_on, goes_on)) = (channel(), channel());
    (Hold { held, goes_on }, Held { is_held, go_on })
}

impl Hold {
    fn hold(&self) {
        self.held.send(()).unwrap();
        self.goes_on.recv_timeout(LONG).unwrap();
    }
}

impl Held {
    fn is_held(&self) {
        self.is_held.recv_timeout(LONG).unwrap();
    }

    /// Lets it go on when the timers that are due by now have fired, and some more time has passed.
    fn go_on_later(&self, system: &ActorSystem) {
        let (sender, fired) = channel();
        let behind = Task::new(move || _ = sender.send(())).inline();
        let _ = system.scheduler().timers().schedule_once(ms(5), behind).unwrap();
        fired.recv_timeout(LONG).unwrap();
        sleep(HELD);
        self.go_on.send(()).unwrap();
    }
}

/// Is held up by 0; others take a millisecond each if they are odd.
fn busy(system: &ActorSystem, name: &str) -> (ActorRef<u32>, Held) {
    let (hold, held) = hold();
    let act = move |call: Call<u32>, _: &mut Context<Script<u32>>| match call {
        Call::Message(0) => hold.hold(),
        Call::Message(number) if number % 2 == 1 => sleep(ms(1)),
        _ => {}
    };
    (system.spawn(name, move || Script::new(act)).unwrap(), held)
}

/// An actor that has started, and tells of what it receives.
fn idle(system: &ActorSystem, name: &str) -> (ActorRef<u32>, Receiver<u32>) {
    let (sender, received) = channel();
    let act = move |call: Call<u32>, _: &mut Context<Script<u32>>| {
        if let Call::Message(number) = call {
            let _ = sender.send(number);
        }
    };
    let actor = system.spawn(name, move || Script::new(act)).unwrap();
    actor.tell(1).unwrap();
    assert_eq!(received.recv_timeout(LONG), Ok(1));
    (actor, received)
}

#[track_caller]
fn assert_adds_up(table: &Lateness) {
    let time: Duration = table.rows.iter().map(|row| row.time).sum();
    assert_eq!(time, table.total, "{table}");
}

#[test]
fn what_comes_while_its_actor_is_in_a_message_is_late_because_of_that_one() {
    let (system, told) = told(explained());
    let (actor, held) = busy(&system, "busy");
    let scheduler = system.scheduler();
    let ways: [&dyn Fn(); 4] = [
        &|| drop(scheduler.schedule_once(ms(1), &actor, 2).unwrap()),
        &|| drop(scheduler.schedule_at(scheduler.timers().now(), &actor, 2).unwrap()),
        &|| drop(scheduler.schedule_with_fixed_delay(ms(1), LONG, &actor, 2).unwrap()),
        &|| drop(scheduler.schedule_at_fixed_rate(ms(1), LONG, &actor, 2).unwrap()),
    ];
    for send in ways {
        actor.tell(0).unwrap();
        held.is_held();
        send();
        held.go_on_later(&system);
        let late = expect(&told, "/busy in u32");
        assert!(late.because(Cause::ActorBusy, Some("/busy in u32")) >= HELD, "{late:?}");
    }
    close(&system);
    let table = system.lateness();
    assert_eq!(table.bound, Some(BOUND));
    assert!(table.count >= 4 && table.total >= 4 * HELD, "{table}");
    assert_adds_up(&table);
}

#[test]
fn a_large_message_is_explained_as_well() {
    const LARGE: usize = 16 << 10;
    let (system, told) = told(explained());
    let (hold, held) = hold();
    let act = move |call: Call<[u8; LARGE]>, _: &mut Context<Script<[u8; LARGE]>>| {
        if matches!(call, Call::Message(message) if message[0] == 0) {
            hold.hold();
        }
    };
    let actor = system.spawn("large", move || Script::new(act)).unwrap();
    let who = "/large in [u8; 16384]";
    actor.tell([0; LARGE]).unwrap();
    held.is_held();
    let scheduler = system.scheduler();
    let _ = scheduler.schedule_once(ms(1), &actor, [1; LARGE]).unwrap();
    let _ = scheduler.schedule_at_fixed_rate(ms(1), LONG, &actor, [2; LARGE]).unwrap();
    held.go_on_later(&system);
    for _ in 0..2 {
        let late = expect(&told, who);
        assert!(late.because(Cause::ActorBusy, Some(who)) >= HELD, "{late:?}");
    }
}

#[test]
fn a_timer_of_an_actor_is_late_because_it_is_busy() {
    let (system, told) = told(explained());
    let (hold, held) = hold();
    let act = move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
        if let Call::Message(0) = call {
            ctx.timers().start_single("once", ms(1), 2).unwrap();
            hold.hold();
        }
    };
    let actor = system.spawn("busy", move || Script::new(act)).unwrap();
    actor.tell(0).unwrap();
    held.is_held();
    held.go_on_later(&system);
    let late = expect(&told, "/busy in u32");
    assert!(late.because(Cause::ActorBusy, Some("/busy in u32")) >= HELD, "{late:?}");
}

/// Sets a receive timeout with 0. The first time that it is quiet, it tells itself 1, which does
/// not count for that, and by which it is held up when it would be quiet again.
struct Quiet {
    hold: Hold,
    was_held: bool,
}

impl Actor for Quiet {
    type Message = u32;

    fn influences_receive_timeout(message: &u32) -> bool {
        *message == 0
    }

    fn receive(&mut self, message: u32, ctx: &mut Context<Self>) {
        if message == 0 {
            ctx.set_receive_timeout(ms(1)).unwrap();
        } else {
            self.hold.hold();
            self.was_held = true;
        }
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        if self.was_held {
            ctx.cancel_receive_timeout();
        } else {
            ctx.myself().tell(1).unwrap();
        }
    }
}

#[test]
fn a_receive_timeout_is_late_because_its_actor_is_busy_with_what_does_not_count() {
    let (system, told) = told(explained());
    let (hold, held) = hold();
    let actor = system.spawn("busy", move || Quiet { hold, was_held: false }).unwrap();
    actor.tell(0).unwrap();
    held.is_held();
    held.go_on_later(&system);
    let busy = |late: &Told| late.because(Cause::ActorBusy, Some("/busy in u32")) >= HELD;
    while !busy(&expect(&told, "/busy in its receive timeout")) {}
}

#[test]
fn a_tick_that_its_actor_missed_is_not_late_when_it_is_made_up_for() {
    let (system, told) = told(explained());
    let (hold, held) = hold();
    let (sender, ticks) = channel();
    let act = move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
        Call::Message(0) => {
            let mut timers = ctx.timers().missed_ticks(MissedTickBehavior::Burst);
            timers.start_at_fixed_rate("beat", ms(1), ms(1), |_| 2).unwrap();
            hold.hold();
        }
        Call::Message(_) => drop(sender.send(())),
        _ => {}
    };
    let actor = system.spawn("busy", move || Script::new(act)).unwrap();
    actor.tell(0).unwrap();
    held.is_held();
    held.go_on_later(&system);
    for _ in 0..20 {
        ticks.recv_timeout(LONG).unwrap();
    }
    close(&system);
    let busy = |late: &Told| late.because(Cause::ActorBusy, Some("/busy in u32")) >= HELD;
    assert_eq!(told.try_iter().filter(busy).count(), 1);
}

#[test]
fn what_stands_behind_other_messages_is_late_because_of_those_and_of_who_had_their_thread() {
    const BEFORE: u32 = 40;
    let (system, told) = told(explained().throughput(4));
    let (other, _) = busy(&system, "other");
    let (hold, held) = hold();
    let act = move |call: Call<u32>, _: &mut Context<Script<u32>>| match call {
        Call::Message(0) => hold.hold(),
        Call::Message(1) => {
            other.tell(1).unwrap();
            sleep(ms(1));
        }
        _ => {}
    };
    let actor = system.spawn("busy", move || Script::new(act)).unwrap();
    actor.tell(0).unwrap();
    held.is_held();
    for _ in 0..BEFORE {
        actor.tell(1).unwrap();
    }
    let _ = system.scheduler().schedule_once(ms(1), &actor, 2).unwrap();
    held.go_on_later(&system);
    let late = expect(&told, "/busy in u32");
    let own = Some("/busy in u32");
    assert!(late.because(Cause::ActorBusy, own) >= HELD, "{late:?}");
    assert!(late.because(Cause::MessagesBefore, own) >= BEFORE * ms(1), "{late:?}");
    // In nine of its turns the other one had the thread in between, for four messages each.
    assert!(late.because(Cause::DispatcherBusy, Some("/other in u32")) >= ms(30), "{late:?}");
}

#[test]
fn what_finds_no_thread_is_late_because_of_who_has_the_threads() {
    let (system, told) = told(explained());
    let (blocks, held) = busy(&system, "blocks");
    let (actor, received) = idle(&system, "waits");
    blocks.tell(0).unwrap();
    held.is_held();
    let _ = system.scheduler().schedule_once(ms(1), &actor, 7).unwrap();
    held.go_on_later(&system);
    let late = expect(&told, "/waits in u32");
    assert_eq!(received.recv_timeout(LONG), Ok(7));
    assert!(late.because(Cause::DispatcherBusy, Some("/blocks in u32")) >= HELD, "{late:?}");

    // A task of the scheduler has the thread, and then a piped future.
    let (hold, held) = self::hold();
    let report = Task::new(move || hold.hold()).named("report");
    let _ = system.scheduler().timers().schedule_once(ms(0), report).unwrap();
    held.is_held();
    let _ = system.scheduler().schedule_once(ms(1), &actor, 8).unwrap();
    held.go_on_later(&system);
    let late = expect(&told, "/waits in u32");
    let report = |share: &&(Cause, Option<String>, Duration)| {
        share.1.as_ref().is_some_and(|who| who.contains("report"))
    };
    let share = late.shares.iter().find(report).unwrap_or_else(|| panic!("{late:?}"));
    assert!(share.0 == Cause::DispatcherBusy && share.2 >= HELD, "{late:?}");

    let (hold, held) = self::hold();
    let mut hold = Some(hold);
    let act = move |_: Call<()>, ctx: &mut Context<Script<()>>| {
        if let Some(hold) = hold.take() {
            ctx.pipe_to_self(async move { hold.hold() }, |()| ());
        }
    };
    let pipes = system.spawn("pipes", move || Script::new(act)).unwrap();
    held.is_held();
    let _ = system.scheduler().schedule_once(ms(1), &actor, 9).unwrap();
    held.go_on_later(&system);
    let late = expect(&told, "/waits in u32");
    assert!(late.because(Cause::DispatcherBusy, Some("a future of /pipes")) >= HELD, "{late:?}");
    assert!(!pipes.is_stopped());
}

#[test]
fn what_comes_late_because_of_its_timer_says_so_and_the_scheduler_says_the_rest() {
    let (system, told) = told(explained());
    let (actor, received) = idle(&system, "waits");
    let timers = system.scheduler().timers();
    let (hold, held) = hold();
    let slow = Task::new(move || hold.hold()).named("slow").inline();
    let _ = timers.schedule_once(ms(0), slow).unwrap();
    held.is_held();
    let _ = system.scheduler().schedule_once(ms(0), &actor, 7).unwrap();
    sleep(HELD);
    held.go_on.send(()).unwrap();
    let late = expect(&told, "/waits in u32");
    assert_eq!(received.recv_timeout(LONG), Ok(7));
    // It was promised for the end of a tick of a millisecond.
    assert!(late.because(Cause::Timer, None) >= HELD - ms(1), "{late:?}");
    // It writes that down before it sleeps.
    let says_so = |table: &Lateness| table.rows.iter().any(|row| row.cause == Cause::InlineTask);
    while !says_so(&timers.lateness()) {
        sleep(ms(1));
    }
}

#[test]
fn every_message_of_a_timer_is_explained_once_and_no_other() {
    const EACH: u32 = 200;
    let (sender, told) = channel();
    let hook = move |late: &Late<'_>| drop(sender.send(Told::new(late)));
    // Nothing is received before its time, so everything is late by something.
    let (zero, tick) = (Duration::ZERO, Duration::from_nanos(1));
    let builder = ActorSystem::builder("test").explain_late(zero).tick_duration(tick);
    let system = builder.threads(2).throughput(3).on_late(hook).build().unwrap();
    let actors: Vec<_> = (0..5).map(|it| idle(&system, &format!("a{it}"))).collect();
    for number in 0..EACH {
        for (actor, _) in &actors {
            let delay = Duration::from_micros(u64::from(number % 7) * 300);
            let _ = system.scheduler().schedule_once(delay, actor, 7).unwrap();
            actor.tell(8).unwrap();
        }
    }
    for (_, received) in &actors {
        let received: Vec<_> = received.iter().take(2 * EACH as usize).collect();
        assert_eq!(received.iter().filter(|it| **it == 7).count(), EACH as usize);
    }
    close(&system);
    let late: Vec<_> = told.try_iter().filter(|late| late.who.ends_with("in u32")).collect();
    assert_eq!(late.len(), 5 * EACH as usize);
    let table = system.lateness();
    assert_eq!(table.count, 5 * u64::from(EACH));
    assert_adds_up(&table);
}

#[test]
fn nothing_is_late_in_virtual_time_and_nothing_is_told_unless_it_is_asked_for() {
    let kit = explained().explain_late(Duration::ZERO).build_virtual().unwrap();
    let probe = kit.probe::<u32>("probe");
    let _ = kit.scheduler().schedule_once(ms(1), probe.actor(), 7).unwrap();
    let each = kit.scheduler().schedule_at_fixed_rate(ms(1), ms(1), probe.actor(), 8).unwrap();
    kit.advance(ms(50));
    each.cancel();
    assert_eq!(kit.lateness(), Lateness::default());

    let (system, told) = told(ActorSystem::builder("test"));
    let (actor, held) = busy(&system, "busy");
    actor.tell(0).unwrap();
    held.is_held();
    let _ = system.scheduler().schedule_once(ms(1), &actor, 2).unwrap();
    held.go_on_later(&system);
    close(&system);
    assert_eq!(system.lateness(), Lateness::default());
    assert_eq!(system.scheduler().timers().lateness(), Lateness::default());
    assert!(told.try_recv().is_err());
}

#[test]
fn the_scheduler_has_the_bound_unless_it_is_given_its_own() {
    let bounds = |builder: Builder| {
        let system = builder.build().unwrap();
        (system.lateness().bound, system.scheduler().timers().lateness().bound)
    };
    assert_eq!(bounds(explained()), (Some(BOUND), Some(BOUND)));
    let own = explained().scheduler(|scheduler| scheduler.explain_late(LONG));
    assert_eq!(bounds(own), (Some(BOUND), Some(LONG)));
    let mut settings = mini_actor::Settings::default();
    settings.explain_late = Some(BOUND);
    let with = |settings| ActorSystem::builder("test").settings(settings);
    assert_eq!(bounds(with(settings.clone())), (Some(BOUND), Some(BOUND)));
    settings.scheduler.explain_late = Some(LONG);
    assert_eq!(bounds(with(settings)), (Some(BOUND), Some(LONG)));
    let foreign = lars_scheduler::LightArrayRevolverScheduler::new().unwrap();
    assert_eq!(bounds(explained().on_scheduler(&foreign)), (Some(BOUND), None));
}

#[test]
fn a_hook_may_panic_and_send_to_actors_and_goes_with_its_system() {
    let (sender, received) = channel();
    let place: Arc<OnceLock<ActorRef<u32>>> = Arc::default();
    let clerk = Arc::clone(&place);
    let (alive, hook_is_alive) = channel::<()>();
    let hook = move |_: &Late<'_>| {
        let _alive = &alive;
        if let Some(clerk) = clerk.get() {
            let _ = clerk.tell(9);
        }
        panic!("expected by this test");
    };
    let system = explained().threads(1).on_late(hook).build().unwrap();
    let act = move |call: Call<u32>, _: &mut Context<Script<u32>>| {
        if let Call::Message(number) = call {
            let _ = sender.send(number);
        }
    };
    place.set(system.spawn("clerk", move || Script::new(act)).unwrap()).unwrap();
    let (actor, held) = busy(&system, "busy");
    for _ in 0..2 {
        actor.tell(0).unwrap();
        held.is_held();
        let _ = system.scheduler().schedule_once(ms(1), &actor, 2).unwrap();
        held.go_on_later(&system);
        assert_eq!(received.recv_timeout(LONG), Ok(9));
    }
    close(&system);
    assert_eq!(system.metrics().panicked, 0);
    drop((system, actor));
    assert_eq!(hook_is_alive.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}
