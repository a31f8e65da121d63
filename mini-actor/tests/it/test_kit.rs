//! Virtual time for a whole system. Akka's `ExplicitlyTriggeredSchedulerSpec` and `ManualTime`, and
//! what users of others stumble over.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Call, SECOND, Script, assert_same, ms};
use mini_actor::backoff::{BackoffPolicy, Jitter};
use mini_actor::supervision::{Directive, SupervisionStrategy};
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorRef, ActorSystem, AskError, Cancellable, Context, Props, Reply, StopReason};

/// Sends to a probe, as Akka's scenarios do: initial delay and interval in seconds.
fn every(kit: &TestKit, to: &mini_actor::ActorRef<u8>, initial: u64, every: u64) -> Cancellable {
    let seconds = Duration::from_secs;
    kit.scheduler().schedule_at_fixed_rate(seconds(initial), seconds(every), to, 1).unwrap()
}

fn count(probe: &mini_actor::test_kit::Probe<u8>) -> usize {
    std::iter::from_fn(|| probe.try_message()).count()
}

#[test]
fn time_that_passes_sends_exactly_what_is_due() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe("probe");
    let to = probe.actor();
    let at_once = every(&kit, to, 0, 5);
    kit.advance(12 * SECOND);
    assert_eq!(count(&probe), 3);
    assert!(at_once.cancel());

    let later = every(&kit, to, 5, 5);
    kit.advance(7 * SECOND);
    assert_eq!(count(&probe), 1);
    assert!(later.cancel() && !later.cancel());
    kit.advance(4 * SECOND);
    assert_eq!(count(&probe), 0);

    let _ = kit.scheduler().schedule_once(5 * SECOND, to, 1).unwrap();
    kit.advance(100 * SECOND);
    assert_eq!(count(&probe), 1);

    for _ in 0..3 {
        let _ = kit.scheduler().schedule_once(5 * SECOND, to, 1).unwrap();
    }
    kit.advance(100 * SECOND);
    assert_eq!(count(&probe), 3);

    let three = [every(&kit, to, 5, 5), every(&kit, to, 5, 5), every(&kit, to, 5, 5)];
    kit.advance(7 * SECOND);
    assert_eq!(count(&probe), 3);
    assert!(three[0].cancel());
    kit.advance(4 * SECOND);
    assert_eq!(count(&probe), 2);
    assert!(three[1].cancel() && three[2].cancel());

    assert!(every(&kit, to, 5, 5).cancel());
    kit.advance(100 * SECOND);
    assert_eq!(count(&probe), 0);

    let steps = every(&kit, to, 5, 5);
    for (pass, sent) in [(7, 1), (1, 0), (10, 2)] {
        kit.advance(pass * SECOND);
        assert_eq!(count(&probe), sent);
    }
    assert!(steps.cancel());
}

#[test]
fn a_single_timer_of_ten_milliseconds_comes_between_nine_and_eleven_and_never_again() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<&'static str>("probe");
    let report = probe.actor().clone();
    let _actor = kit
        .spawn("a", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => ctx.timers().start_single("T", ms(10), ()).unwrap(),
                Call::Message(()) => report.tell("tick").unwrap(),
                _ => {}
            })
        })
        .unwrap();
    probe.expect_no_message_for(ms(9));
    assert_eq!(probe.expect_message_within(ms(2)), "tick");
    assert_eq!(kit.elapsed(), ms(10));
    probe.expect_no_message_for(10 * SECOND);
}

#[test]
fn what_actors_schedule_on_the_way_is_part_of_the_same_movement_at_its_exact_time() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<Duration>("probe");
    let report = probe.actor().clone();
    let timers = kit.scheduler().timers().clone();
    let start = timers.now();
    let actor = kit
        .spawn("a", move || {
            Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
                if let Call::Message(left) = call {
                    report.tell(timers.now() - start).unwrap();
                    if left > 0 {
                        let _ =
                            ctx.scheduler().schedule_once(ms(7), ctx.myself(), left - 1).unwrap();
                    }
                }
            })
        })
        .unwrap();
    actor.tell(4).unwrap();
    kit.advance(ms(21));
    let seen: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
    assert_eq!(seen, [ms(0), ms(7), ms(14), ms(21)]);
    kit.advance(ms(7));
    assert_eq!(probe.expect_message(), ms(28));
}

#[test]
fn the_same_test_does_the_same_each_time() {
    let run = || {
        let kit = TestKit::new("test").unwrap();
        let probe = kit.probe::<(u64, u64)>("probe");
        for number in 0..20 {
            let report = probe.actor().clone();
            kit.spawn(&format!("a{number}"), move || {
                let mut ticks = 0;
                Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                    Call::Started => {
                        let every = ms(number % 3 + 1);
                        ctx.timers().start_at_fixed_rate("T", every, every, || ()).unwrap();
                    }
                    Call::Message(()) => {
                        ticks += 1;
                        report.tell((number, ticks)).unwrap();
                    }
                    _ => {}
                })
            })
            .unwrap();
        }
        kit.advance(ms(50));
        std::iter::from_fn(|| probe.try_message()).collect::<Vec<_>>()
    };
    let first = run();
    assert_eq!(first.len(), 7 * 50 + 7 * 25 + 6 * 16);
    assert_same(&run(), &first);
}

#[test]
fn a_probe_stops_time_at_the_message_that_it_waits_for() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u8>("probe");
    let _ = kit.scheduler().schedule_once(3 * SECOND, probe.actor(), 1).unwrap();
    assert_eq!(probe.expect_message_within(3600 * SECOND), 1);
    assert_eq!(kit.elapsed(), 3 * SECOND);
    assert_eq!(kit.scheduler().timers().pending(), 0, "it leaves no timer behind");
}

#[test]
fn a_message_at_the_very_end_of_a_silence_breaks_it() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u8>("probe");
    let _ = kit.scheduler().schedule_once(SECOND, probe.actor(), 1).unwrap();
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        probe.expect_no_message_for(SECOND);
    }));
    let message = *broken.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "/probe has received a message after 1s");
}

#[test]
fn expectations_that_are_not_met_say_so() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u8>("probe");
    let panics = |check: &dyn Fn()| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        *caught.unwrap_err().downcast::<String>().unwrap()
    };
    assert_eq!(panics(&|| _ = probe.expect_message()), "/probe has received nothing");
    let within = panics(&|| _ = probe.expect_message_within(SECOND));
    assert_eq!(within, "/probe has received nothing within 1s");
    let stopped = panics(&|| _ = probe.expect_terminated(probe.actor()));
    assert_eq!(stopped, "/probe has not stopped");
}

#[test]
fn closing_in_virtual_time_is_complete_when_it_returns_and_nothing_is_left() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u8>("probe");
    let actor = probe.actor().clone();
    let _ = kit.scheduler().schedule_once(3600 * SECOND, &actor, 1).unwrap();
    let _series = every(&kit, &actor, 1, 1);
    actor.tell(2).unwrap();
    let report = kit.close().unwrap();
    assert_eq!((report.sent, report.repeats_ended, report.received), (1, 1, 2));
    assert_eq!((report.actors_stopped, report.undelivered), (1, 0));
    kit.advance(SECOND);
    assert!(actor.tell(3).is_err());
}

#[test]
fn the_same_test_stops_children_in_the_same_order_each_time() {
    let run = || {
        let kit = TestKit::new("t").unwrap();
        let probe = kit.probe::<u64>("probe");
        let report = probe.actor().clone();
        let parent: ActorRef<()> = kit
            .spawn("parent", move || {
                Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
                    if call != Call::Started {
                        return;
                    }
                    for number in 0..12 {
                        let report = report.clone();
                        let child = move || {
                            Script::new(move |call: Call<()>, _| {
                                if let Call::Stopped(_) = call {
                                    report.tell(number).unwrap();
                                }
                            })
                        };
                        ctx.spawn(&format!("c{number}"), child).unwrap();
                    }
                })
            })
            .unwrap();
        kit.settle();
        parent.stop();
        kit.settle();
        std::iter::from_fn(|| probe.try_message()).collect::<Vec<_>>()
    };
    // The order in which they were spawned.
    assert_eq!(run(), (0..12).collect::<Vec<_>>());
}

#[test]
fn closing_stops_actors_in_the_order_in_which_they_were_spawned() {
    let kit = TestKit::new("t").unwrap();
    let stopped = Arc::new(Mutex::new(Vec::new()));
    for number in 0..12 {
        let stopped = Arc::clone(&stopped);
        kit.spawn(&format!("a{number}"), move || {
            Script::new(move |call: Call<()>, _| {
                if let Call::Stopped(_) = call {
                    stopped.lock().unwrap().push(number);
                }
            })
        })
        .unwrap();
    }
    kit.settle();
    kit.close().unwrap();
    assert_eq!(*stopped.lock().unwrap(), (0..12).collect::<Vec<_>>());
}

#[test]
fn the_time_slice_means_nothing_in_virtual_time() {
    let kit = ActorSystem::builder("t").time_slice(Duration::ZERO).build_virtual().unwrap();
    let probe = kit.probe::<u32>("probe");
    kit.settle();
    for number in 0..10 {
        probe.actor().tell(number).unwrap();
    }
    assert_eq!(kit.settle(), 1, "all in one activation");
}

#[test]
fn the_same_test_restarts_at_the_same_times_each_time_also_with_jitter() {
    let run = || {
        let kit = TestKit::new("t").unwrap();
        let probe = kit.probe::<u128>("probe");
        let (report, timers) = (probe.actor().clone(), kit.scheduler().timers().clone());
        let start = timers.now();
        let policy = BackoffPolicy::builder().initial(SECOND).jitter(Jitter::Full).build().unwrap();
        let props = Props::new(move || {
            let (report, timers) = (report.clone(), timers.clone());
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => {
                    report.tell((timers.now() - start).as_nanos()).unwrap();
                    ctx.myself().tell(()).unwrap();
                }
                Call::Message(()) => panic!("expected by this test"),
                _ => {}
            })
        });
        let props = props.supervision(SupervisionStrategy::restart().backoff_policy(policy));
        let _actor = kit.spawn_with("a", props).unwrap();
        kit.advance(5 * SECOND);
        std::iter::from_fn(|| probe.try_message()).take(4).collect::<Vec<_>>()
    };
    let first = run();
    assert_eq!(first.len(), 4);
    assert_eq!(first, run());
}

/// What an actor's panic says that `call` causes, when an actor calls it.
fn panic_of_an_actor_that_calls(call: fn(&TestKit)) -> String {
    let kit = Arc::new(TestKit::new("t").unwrap());
    // Weak, or the kit would own itself.
    let own = Arc::downgrade(&kit);
    let actor: ActorRef<()> = kit
        .spawn("a", move || {
            Script::new(move |event: Call<()>, _: &mut Context<Script<()>>| {
                if event == Call::Message(()) {
                    call(&own.upgrade().unwrap());
                }
            })
        })
        .unwrap();
    kit.probe::<u8>("other").actor().tell(1).unwrap();
    actor.tell(()).unwrap();
    kit.settle();
    assert_eq!(kit.elapsed(), Duration::ZERO);
    kit.panics().into_iter().map(|crash| crash.panic.message).collect()
}

#[test]
fn an_actor_must_not_move_the_time_that_it_lives_in() {
    let expected = "the test kit was called by an actor, a closure or a future of its own system";
    let calls: [fn(&TestKit); 6] = [
        |kit| _ = kit.settle(),
        |kit| kit.advance(SECOND),
        |kit| kit.advance_while_busy(SECOND),
        |kit| _ = kit.dead_letters(),
        |kit| _ = kit.terminations(),
        |kit| kit.probe::<u8>("p").expect_no_message_for(SECOND),
    ];
    for call in calls {
        assert_eq!(panic_of_an_actor_that_calls(call), expected);
    }
}

#[test]
fn to_advance_as_far_as_can_be_said_ends_at_the_end_of_time() {
    let kit = TestKit::new("t").unwrap();
    let probe = kit.probe::<u8>("p");
    let _ = kit.scheduler().schedule_once(3600 * SECOND, probe.actor(), 7).unwrap();
    let _never = kit.scheduler().schedule_once(Duration::MAX, probe.actor(), 8).unwrap();
    kit.advance(Duration::MAX);
    assert_eq!((probe.try_message(), probe.try_message()), (Some(7), None));
    let end = kit.elapsed();
    kit.advance(Duration::MAX);
    probe.expect_no_message_for(Duration::MAX);
    assert_eq!(kit.elapsed(), end);
}

#[test]
fn time_moves_exactly_as_far_as_was_asked_whatever_the_tick() {
    for tick in [1, 7, 10, 100] {
        let kit = ActorSystem::builder("t").tick_duration(ms(tick)).build_virtual().unwrap();
        let probe = kit.probe::<u64>("p");
        let mut elapsed = Duration::ZERO;
        for (number, step) in [3, 15, 1, 40, 0, 99].into_iter().enumerate() {
            elapsed += ms(step);
            if number % 2 == 0 {
                kit.advance(ms(step));
            } else {
                probe.expect_no_message_for(ms(step));
            }
            assert_eq!(kit.elapsed(), elapsed, "with a tick of {tick} ms");
        }
        // What is due on the way fires on the next tick, and not before.
        let _ = kit.scheduler().schedule_once(ms(1), probe.actor(), 7).unwrap();
        let due = (elapsed + ms(1)).as_millis().div_ceil(u128::from(tick)) * u128::from(tick);
        assert_eq!(probe.expect_message_within(SECOND), 7);
        assert_eq!(kit.elapsed().as_millis(), due);
    }
}

#[test]
fn time_moves_as_far_as_was_asked_although_the_system_is_closed_on_the_way() {
    let kit = Arc::new(TestKit::new("t").unwrap());
    let own = Arc::downgrade(&kit);
    let actor: ActorRef<()> = kit
        .spawn("a", move || {
            Script::new(move |event: Call<()>, _: &mut Context<Script<()>>| {
                if event == Call::Message(()) {
                    own.upgrade().unwrap().close_within(Duration::ZERO);
                }
            })
        })
        .unwrap();
    let _ = kit.scheduler().schedule_once(SECOND, &actor, ()).unwrap();
    kit.advance(5 * SECOND);
    assert!(actor.is_stopped());
    assert_eq!(kit.elapsed(), 5 * SECOND);
}

#[test]
fn a_question_that_has_no_answer_yet_stays_open() {
    let kit = TestKit::new("t").unwrap();
    let clerk = kit.probe::<Reply<u32>>("clerk");
    let answer = clerk.actor().ask(|reply| reply, 5 * SECOND);
    assert_eq!(answer.wait(), Err(AskError::WouldBlock));
    kit.advance(SECOND);
    assert_eq!(answer.wait(), Err(AskError::WouldBlock));
    let reply = clerk.expect_message();
    assert!(reply.is_wanted());
    reply.send(7);
    assert_eq!(answer.wait(), Ok(7));
    assert_eq!(answer.wait(), Err(AskError::NoAnswer), "an answer comes once");
    assert!(kit.dead_letters().is_empty());
}

#[test]
fn panics_and_ends_are_kept_for_the_test_in_their_order() {
    let kit = TestKit::new("t").unwrap();
    let probe = kit.probe::<u8>("probe");
    let props = |supervision| {
        let make = || {
            Script::new(|call: Call<u8>, _: &mut Context<Script<u8>>| {
                if let Call::Message(number) = call {
                    panic!("number {number}")
                }
            })
        };
        Props::new(make).supervision(supervision)
    };
    let goes_on = kit.spawn_with("goes-on", props(SupervisionStrategy::resume())).unwrap();
    let stops = kit.spawn_with("stops", props(SupervisionStrategy::stop())).unwrap();
    goes_on.tell(1).unwrap();
    stops.tell(2).unwrap();
    let _ = kit.scheduler().schedule_once(3 * SECOND, &goes_on, 3).unwrap();
    let seen: Vec<_> = kit
        .panics()
        .into_iter()
        .map(|crash| (crash.panic.path.to_string(), crash.panic.message, crash.directive))
        .collect();
    assert_eq!(
        seen,
        [
            ("/goes-on".to_owned(), "number 1".to_owned(), Directive::Resume),
            ("/stops".to_owned(), "number 2".to_owned(), Directive::Stop),
        ]
    );
    assert_eq!(kit.expect_panic_within(5 * SECOND).panic.message, "number 3");
    assert_eq!(kit.elapsed(), 3 * SECOND);
    assert!(kit.panics().is_empty());

    let ends = kit.terminations();
    assert_eq!(ends.len(), 1);
    assert_eq!((ends[0].id, ends[0].reason), (stops.id(), StopReason::Panicked));
    assert!(kit.terminations().is_empty());
    assert_eq!(probe.expect_terminated_within(&stops, Duration::ZERO), StopReason::Panicked);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        probe.expect_terminated_within(&goes_on, SECOND)
    }));
    let message = *caught.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "/goes-on has not stopped within 1s");
    assert_eq!(kit.elapsed(), 4 * SECOND);
}

#[test]
fn time_stops_at_what_is_waited_for_although_no_other_timer_has_a_place() {
    let builder = ActorSystem::builder("test").scheduler(|scheduler| scheduler.max_pending(1));
    let kit = builder.build_virtual().unwrap();
    let probe = kit.probe("probe");
    let _only = every(&kit, probe.actor(), 1, 1);
    for second in 1..=3 {
        assert_eq!(probe.expect_message_within(10 * SECOND), 1);
        assert_eq!(kit.elapsed(), second * SECOND);
    }
    assert_eq!(kit.scheduler().timers().metrics().refused, 0);
}
