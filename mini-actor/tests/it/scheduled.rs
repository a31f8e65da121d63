//! Scheduled sends: once, with a fixed delay, at a fixed rate; to the living and to the stopped.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use common::{Call, Event, LONG, Script, all, assert_same, close, probe};
use lars_scheduler::Refusal;
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorSystem, AskError, Context, Overflow, Props, Reply};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_scheduled_message_arrives_once_and_not_before_its_time() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, ctx| ctx.stop());
    let actor = system.spawn("a", factory).unwrap();
    let before = Instant::now();
    let delay = Duration::from_millis(20);
    let _ = system.scheduler().schedule_once(delay, &actor, 5).unwrap();
    let events = all(&told);
    assert!(before.elapsed() >= delay);
    assert_eq!(events.iter().filter(|event| **event == Event::Received(5)).count(), 1);
}

#[test]
fn a_cancelled_message_never_arrives() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    let send = system.scheduler().schedule_once(HOUR, &actor, "never").unwrap();
    assert!(send.cancel());
    close(&system); // would deliver it
    assert!(!all(&told).contains(&Event::Received("never")));
}

#[test]
fn messages_due_at_one_moment_arrive_in_the_order_of_the_calls() {
    let system =
        ActorSystem::builder("test").tick_duration(Duration::from_millis(10)).build().unwrap();
    let timers = system.scheduler().timers();
    // A call that comes after the moment may overtake: then once more, with twice the lead.
    for attempt in 0_u32.. {
        let (factory, told) = probe(|_, _| ());
        let actor = system.spawn(&format!("a{attempt}"), factory).unwrap();
        let due = timers.now() + Duration::from_millis(20) * 2_u32.pow(attempt);
        for number in 0..200 {
            let actor = actor.clone();
            let send = lars_scheduler::Task::new(move || actor.tell(number).unwrap()).inline();
            let _ = timers.schedule_at(due, send).unwrap();
        }
        let in_time = timers.now() < due;
        let received = told.iter().filter_map(|event| match event {
            Event::Received(number) => Some(number),
            _ => None,
        });
        let received: Vec<_> = received.take(200).collect();
        if in_time {
            assert_same(&received, &(0..200).collect::<Vec<_>>());
            break;
        }
    }
    close(&system);
}

#[test]
fn periodic_sends_go_on_until_cancelled() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    let ms = Duration::from_millis(1);
    let scheduler = system.scheduler();
    let delay = scheduler.schedule_with_fixed_delay(Duration::ZERO, ms, &actor, 'd').unwrap();
    let rate = scheduler.schedule_at_fixed_rate(Duration::ZERO, ms, &actor, 'r').unwrap();
    let (mut delayed, mut rated) = (0, 0);
    while delayed < 5 || rated < 5 {
        match told.recv_timeout(LONG).unwrap() {
            Event::Received('d') => delayed += 1,
            Event::Received('r') => rated += 1,
            _ => {}
        }
    }
    assert!(delay.cancel() && rate.cancel());
    // One that is just being sent keeps its place until that is over.
    until_nothing_is_pending(&system);
}

/// Waits until no timer is pending and the timer thread is done with the last.
///
/// A repeat is not pending while it runs. So the timer thread itself counts, between two runs.
fn until_nothing_is_pending(system: &ActorSystem) {
    let timers = system.scheduler().timers();
    loop {
        let (sender, receiver) = mpsc::channel();
        let between_runs = timers.clone();
        let count = move || sender.send(between_runs.pending()).unwrap();
        let count = lars_scheduler::Task::new(count).inline();
        let _ = timers.schedule_once(Duration::ZERO, count).unwrap();
        if receiver.recv_timeout(LONG).unwrap() == 0 {
            break;
        }
    }
}

#[test]
fn a_repeat_to_a_stopped_actor_ends_by_itself() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, ctx| ctx.stop());
    let actor = system.spawn("a", factory).unwrap();
    let every = Duration::from_millis(1);
    let repeat =
        system.scheduler().schedule_at_fixed_rate(Duration::ZERO, every, &actor, ()).unwrap();
    all(&told);
    // The run that finds the actor stopped is the last.
    until_nothing_is_pending(&system);
    assert!(!repeat.cancel(), "there is nothing left to cancel");
    assert!(!repeat.is_cancelled());
}

#[test]
fn a_repeat_to_a_full_mailbox_goes_on_when_there_is_room_again() {
    let kit = TestKit::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let props = Props::once(factory).bounded(1, Overflow::Fail);
    let actor = kit.spawn_with("a", props).unwrap();
    let every = Duration::from_millis(1);
    let repeat = kit.scheduler().schedule_at_fixed_rate(every, every, &actor, ()).unwrap();
    kit.advance_while_busy(3 * every);
    assert_eq!(kit.dead_letters().len(), 2, "one of three messages found room");
    kit.advance(2 * every);
    let received = told.try_iter().filter(|event| *event == Event::Received(())).count();
    assert_eq!(received, 3);
    assert!(repeat.cancel());
}

#[test]
fn a_message_that_is_due_after_its_actor_stopped_is_a_dead_letter() {
    let (sender, dead) = mpsc::channel();
    let kit = ActorSystem::builder("test")
        .on_dead_letter(move |letter| sender.send(letter.recipient.to_owned()).unwrap())
        .build_virtual()
        .unwrap();
    let (factory, _told) = probe(|_, _| ());
    let actor = kit.spawn("late", factory).unwrap();
    let _ = kit.scheduler().schedule_once(HOUR, &actor, 1).unwrap();
    actor.stop();
    kit.settle();
    assert!(actor.is_stopped() && dead.try_recv().is_err());
    kit.advance(HOUR);
    assert_eq!(dead.try_iter().collect::<Vec<_>>(), ["/late"]);
}

#[test]
fn scheduled_sends_do_not_keep_an_actor_alive() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &actor, 1).unwrap();
    let _ = system.scheduler().schedule_at_fixed_rate(HOUR, HOUR, &actor, 1).unwrap();
    actor.stop();
    // The events end when the actor has been dropped.
    assert_eq!(all(&told).last(), Some(&Event::Dropped));
    assert_eq!(system.scheduler().timers().pending(), 2);
}

#[test]
fn refused_sends_give_the_message_back() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, _told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    let scheduler = system.scheduler();
    let text = || "precious".to_owned();
    let zero = scheduler.schedule_at_fixed_rate(HOUR, Duration::ZERO, &actor, text()).unwrap_err();
    assert!(matches!(zero.refusal(), Refusal::Period { .. }));
    assert_eq!(zero.into_task(), "precious");
    let zero =
        scheduler.schedule_with_fixed_delay(HOUR, Duration::ZERO, &actor, text()).unwrap_err();
    assert_eq!(zero.into_task(), "precious");
    close(&system);
    let closed = scheduler.schedule_once(HOUR, &actor, text()).unwrap_err();
    assert_eq!(*closed.refusal(), Refusal::Stopped);
    assert_eq!(closed.into_task(), "precious");
}

#[test]
fn a_delay_beyond_all_time_is_accepted_and_never_comes() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    let never = system.scheduler().schedule_once(Duration::MAX, &actor, 1).unwrap();
    let _ = system.scheduler().schedule_once(Duration::from_millis(5), &actor, 2).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), Event::Started);
    assert_eq!(told.recv_timeout(LONG).unwrap(), Event::Received(2));
    assert!(never.cancel());
}

#[test]
fn closures_on_the_system_s_scheduler_run_on_the_system_s_threads() {
    let system = ActorSystem::builder("demo").threads(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ = system
        .scheduler()
        .timers()
        .schedule_once(Duration::ZERO, move || {
            sender.send(std::thread::current().name().unwrap().to_owned()).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "demo-actors-0");
}

#[test]
fn a_message_whose_clone_panics_ends_its_series_only() {
    #[derive(Debug)]
    struct Fragile(Arc<AtomicUsize>);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(self.0.fetch_add(1, Ordering::SeqCst) < 3, "expected by this test");
            Self(Arc::clone(&self.0))
        }
    }
    let system = ActorSystem::new("test").unwrap();
    struct Quiet;
    impl mini_actor::Actor for Quiet {
        type Message = Fragile;
        fn receive(&mut self, _: Fragile, _: &mut mini_actor::Context<Self>) {}
    }
    let actor = system.spawn("a", || Quiet).unwrap();
    let every = Duration::from_millis(1);
    let fragile = Fragile(Arc::new(AtomicUsize::new(0)));
    let repeat =
        system.scheduler().schedule_with_fixed_delay(every, every, &actor, fragile).unwrap();
    while system.scheduler().timers().metrics().panicked == 0 {
        std::thread::yield_now();
    }
    until_nothing_is_pending(&system);
    assert!(!repeat.cancel(), "the series has ended, so it cannot be cancelled");
    let (factory, told) = probe(|_, _| ());
    let other = system.spawn("b", factory).unwrap();
    let _ = system.scheduler().schedule_once(every, &other, 1).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), Event::Started);
    assert_eq!(told.recv_timeout(LONG).unwrap(), Event::Received(1));
}

/// So that the order of the calls is all there is between two sends.
fn in_virtual_time() -> mini_actor::test_kit::TestKit {
    mini_actor::test_kit::TestKit::new("test").unwrap()
}

#[test]
fn a_burst_for_many_actors_arrives_in_the_order_of_the_calls_at_each_of_them() {
    let kit = in_virtual_time();
    let probes: Vec<_> = (0..5).map(|n| kit.probe::<u32>(&format!("probe-{n}"))).collect();
    // Rows of every length, cut where the next actor's begins, and longer than a block and a turn.
    let mut expected = vec![Vec::new(); probes.len()];
    for number in 0..3_000_u32 {
        let run = number / (1 + number / 40);
        let to = run as usize % probes.len();
        expected[to].push(number);
        let _ = kit.scheduler().schedule_once(HOUR, probes[to].actor(), number).unwrap();
    }
    kit.advance(HOUR);
    for (probe, expected) in probes.iter().zip(expected) {
        let received: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
        assert_same(&received, &expected);
    }
    assert!(kit.dead_letters().is_empty());
}

#[test]
fn a_closure_that_is_due_between_two_messages_sends_between_them() {
    let kit = in_virtual_time();
    let probe = kit.probe::<u32>("probe");
    for number in 0..30 {
        let actor = probe.actor().clone();
        if number % 3 == 1 {
            let send = lars_scheduler::Task::new(move || actor.tell(number).unwrap()).inline();
            let _ = kit.scheduler().timers().schedule_once(HOUR, send).unwrap();
        } else {
            let _ = kit.scheduler().schedule_once(HOUR, &actor, number).unwrap();
        }
    }
    kit.advance(HOUR);
    let received: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
    assert_eq!(received, (0..30).collect::<Vec<_>>());
}

#[test]
fn what_is_due_at_one_moment_is_in_the_mailbox_before_time_moves_on() {
    let kit = in_virtual_time();
    let probe = kit.probe::<u32>("probe");
    for number in 0..10 {
        let _ = kit.scheduler().schedule_once(HOUR, probe.actor(), number).unwrap();
    }
    kit.advance_while_busy(HOUR);
    assert_eq!(probe.actor().metrics().mailbox_depth, 10);
}

#[test]
fn a_burst_for_a_stopped_actor_is_so_many_dead_letters_and_harms_no_other() {
    let kit = in_virtual_time();
    let (gone, there) = (kit.probe::<u32>("gone"), kit.probe::<u32>("there"));
    for number in 0..100 {
        let _ = kit.scheduler().schedule_once(HOUR, gone.actor(), number).unwrap();
    }
    for number in 0..100 {
        let _ = kit.scheduler().schedule_once(HOUR, there.actor(), number).unwrap();
    }
    gone.actor().stop();
    kit.advance(HOUR);
    let received: Vec<_> = std::iter::from_fn(|| there.try_message()).collect();
    assert_same(&received, &(0..100).collect::<Vec<_>>());
    let letters = kit.dead_letters();
    assert_eq!(letters.len(), 100);
    assert!(letters.iter().all(|letter| letter.recipient == "/gone"));
}

/// Keeps what it gets.
struct Keeps(mpsc::Sender<u32>);

impl mini_actor::Actor for Keeps {
    type Message = u32;
    fn receive(&mut self, message: u32, _: &mut mini_actor::Context<Self>) {
        self.0.send(message).unwrap();
    }
}

#[test]
fn a_burst_for_a_bounded_mailbox_goes_by_its_policy() {
    use mini_actor::{Overflow, Props};
    let policies = [
        (Overflow::Fail, 0..40),
        (Overflow::Block(HOUR), 0..40),
        (Overflow::DropNewest, 0..40),
        (Overflow::DropOldest, 60..100),
    ];
    for (policy, expected) in policies {
        let kit = in_virtual_time();
        let (sender, received) = mpsc::channel();
        let props = Props::once(move || Keeps(sender)).bounded(40, policy);
        let actor = kit.spawn_with("a", props).unwrap();
        kit.settle();
        for number in 0..100 {
            let _ = kit.scheduler().schedule_once(HOUR, &actor, number).unwrap();
        }
        kit.advance(HOUR);
        let received: Vec<_> = received.try_iter().collect();
        assert_same(&received, &expected.collect::<Vec<_>>());
        assert_eq!(kit.dead_letters().len(), 60, "{policy:?}");
    }
}

#[test]
fn a_message_is_scheduled_for_a_moment() {
    let kit = TestKit::new("test").unwrap();
    let (probe, second) = (kit.probe::<u32>("probe"), Duration::from_secs(1));
    let scheduler = kit.scheduler();
    let begin = scheduler.timers().now();
    kit.advance(3 * second);
    let _ = scheduler.schedule_at(begin + 5 * second, probe.actor(), 5).unwrap();
    let _ = scheduler.schedule_at(begin + 4 * second, probe.actor(), 4).unwrap();
    let _ = scheduler.schedule_once(2 * second, probe.actor(), 6).unwrap();
    let gone = scheduler.schedule_at(begin + 6 * second, probe.actor(), 7).unwrap();
    assert!(gone.cancel());
    // A moment that has passed is now.
    let _ = scheduler.schedule_at(begin, probe.actor(), 1).unwrap();
    assert_eq!(probe.expect_message(), 1);
    for (at, message) in [(4, 4), (5, 5), (5, 6)] {
        assert_eq!(probe.expect_message_within(2 * second), message);
        assert_eq!(kit.elapsed(), at * second);
    }
    probe.expect_no_message_for(10 * second);
    kit.close().unwrap();
    let refused = scheduler.schedule_at(begin, probe.actor(), 8).unwrap_err();
    assert_eq!(refused.into_task(), 8);
}

#[test]
fn settings_of_the_scheduler_are_those_of_the_system() {
    let (ms, minute) = (Duration::from_millis(1), Duration::from_secs(60));
    let kit = ActorSystem::builder("test")
        .scheduler(move |scheduler| scheduler.tick_duration(10 * ms).max_pending(2))
        .build_virtual()
        .unwrap();
    let probe = kit.probe::<Reply<u32>>("probe");
    assert_eq!(kit.scheduler().timers().tick_duration(), 10 * ms);
    let ask = || probe.actor().ask(|reply| reply, minute);
    let open = [ask(), ask()];
    assert_eq!(ask().wait(), Err(AskError::NoTimer(Refusal::Full { limit: 2 })));
    drop(open);
    drop(ask());

    let wrong = ActorSystem::builder("test").scheduler(|scheduler| scheduler.ticks_per_wheel(3));
    assert!(wrong.build().unwrap_err().to_string().contains('3'));
    let system = ActorSystem::builder("test")
        .tick_duration(7 * ms)
        .scheduler(|scheduler| scheduler.coalesce(Duration::from_millis(1)))
        .build()
        .unwrap();
    assert_eq!(system.scheduler().timers().tick_duration(), 7 * ms);
}

#[test]
fn a_periodic_timer_that_finds_no_place_ends_and_leaves_the_actor_its_others() {
    // For the actor's timers.
    let kit = ActorSystem::builder("test")
        .scheduler(|scheduler| scheduler.max_pending(2))
        .build_virtual()
        .unwrap();
    let probe = kit.probe::<&'static str>("probe");
    let (report, second) = (probe.actor().clone(), Duration::from_secs(1));
    let script = move |call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>| {
        match call {
            Call::Started => {
                let tick = || "tick";
                ctx.timers().start_with_fixed_delay("beat", second, second, tick).unwrap();
                ctx.timers().start_single("late", 5 * second, "late").unwrap();
            }
            Call::Message(message) => {
                // Takes the place that the tick has left.
                let hour = Duration::from_secs(3600);
                drop(ctx.scheduler().timers().schedule_once(hour, || ()));
                assert_eq!(ctx.timers().is_active("beat"), message == "tick");
                report.tell(message).unwrap();
            }
            _ => {}
        }
    };
    kit.spawn("actor", move || Script::new(script)).unwrap();
    kit.advance(10 * second);
    let told: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
    assert_eq!(told, ["tick", "late"]);
}
