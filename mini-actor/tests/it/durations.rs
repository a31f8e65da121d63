//! Zero, the shortest and the longest duration, wherever one is given.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use common::{Call, LONG, Script};
use lars_scheduler::{MissedTickBehavior, Refusal};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{ActorSystem, AskError, Context, Overflow, Props, Reply, StopReason};

const NANO: Duration = Duration::from_nanos(1);
const EXTREMES: [Duration; 4] =
    [Duration::ZERO, NANO, Duration::MAX.saturating_sub(NANO), Duration::MAX];

/// Lets a test fail that would hang.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let running = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    assert_ne!(is_done.recv_timeout(2 * LONG), Err(RecvTimeoutError::Timeout), "it hangs");
    running.join().unwrap();
}

#[test]
fn a_system_takes_any_limit() {
    in_time(|| {
        for limit in EXTREMES {
            let system = ActorSystem::builder("test")
                .threads(1)
                .time_slice(limit)
                .slow_receive(limit)
                .explain_late(limit)
                .shutdown_timeout(limit)
                .build()
                .unwrap();
            let (sender, told) = channel();
            let answers = move || {
                Script::new(move |call: Call<u32>, _| {
                    if let Call::Message(number) = call {
                        sender.send(number).unwrap();
                    }
                })
            };
            let props = Props::once(answers).bounded(1, Overflow::Block(limit));
            let actor = system.spawn_with("actor", props).unwrap();
            let accepted = (0..100).filter(|number| actor.tell(*number).is_ok()).count();
            assert!((0..accepted).all(|_| told.recv_timeout(LONG).is_ok()));
            let end = actor.termination();
            actor.stop();
            assert!(end.wait_timeout(limit).is_none_or(|reason| reason == StopReason::Asked));
            assert_eq!(end.wait_timeout(LONG), Some(StopReason::Asked));
            assert!(system.close_within(limit).running.is_empty());
            assert!(system.close_within(LONG).is_complete());
        }
    });
}

#[test]
fn a_question_takes_any_limit() {
    in_time(|| {
        let kit = TestKit::new("test").unwrap();
        let clerk = kit.probe::<Reply<u32>>("clerk");
        for limit in EXTREMES {
            let answer = clerk.actor().ask(|reply| reply, limit);
            // It is received in any case. An answer within no time at all comes too late.
            clerk.expect_message().send(7);
            let late = limit.is_zero().then_some(AskError::Timeout(limit));
            assert_eq!(answer.wait().err(), late);
        }
    });
}

/// Starts timers of every kind; says which were refused.
fn start_timers(duration: Duration, ctx: &mut Context<Script<u32>>) -> Vec<Option<Refusal>> {
    let mut refused = Vec::new();
    refused.push(ctx.set_receive_timeout(duration).err());
    ctx.cancel_receive_timeout();
    refused.push(ctx.timers().start_with_fixed_delay("delay", duration, duration, || 2).err());
    for missed in [MissedTickBehavior::Burst, MissedTickBehavior::Skip, MissedTickBehavior::Delay] {
        let key = format!("{missed:?}");
        let timers = ctx.timers();
        refused.push(
            timers.missed_ticks(missed).start_at_fixed_rate(key, duration, duration, |_| 3).err(),
        );
    }
    refused
}

#[test]
fn a_period_of_zero_is_refused_and_any_other_is_accepted() {
    in_time(|| {
        for duration in EXTREMES {
            let kit = TestKit::new("test").unwrap();
            let (sender, told) = channel();
            let props = Props::once(move || {
                Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
                    if call == Call::Started {
                        sender.send(start_timers(duration, ctx)).unwrap();
                        ctx.timers().cancel_all();
                        ctx.timers().start_single("once", duration, 1).unwrap();
                        // From the beginning of time on; the second tick may never come.
                        let longest = Duration::MAX;
                        let zero = Duration::ZERO;
                        ctx.timers().start_at_fixed_rate("rate", zero, longest, || 4).unwrap();
                        ctx.timers().start_with_fixed_delay("next", zero, longest, || 5).unwrap();
                    }
                })
            });
            let actor = kit.spawn_with("actor", props).unwrap();
            kit.settle();
            let refused = told.try_recv().unwrap();
            for refusal in refused {
                assert_eq!(refusal.is_some(), duration.is_zero(), "{duration:?}: {refusal:?}");
            }
            let received = actor.metrics().processed;
            assert_eq!(received, if duration.is_zero() { 3 } else { 2 });
            kit.advance(Duration::MAX);
            kit.advance(Duration::MAX);
            let once = u64::from(duration <= NANO);
            assert_eq!(actor.metrics().processed, 2 + once, "{duration:?}");
            let repeats = kit.scheduler().timers().pending();
            assert!(repeats <= 3, "{repeats} timers wait beyond the end of time");
        }
    });
}

#[test]
fn a_restart_takes_any_pause_and_any_time_for_its_limit_but_none() {
    in_time(|| {
        for duration in EXTREMES {
            let kit = TestKit::new("test").unwrap();
            let fails = || {
                Script::new(|call: Call<u32>, _| {
                    assert!(!matches!(call, Call::Message(_)), "expected by this test");
                })
            };
            let rules = SupervisionStrategy::restart().backoff(duration, duration);
            let limited = rules.clone().limit(2, duration);
            let refused = kit.spawn_with("limited", Props::new(fails).supervision(limited)).err();
            assert_eq!(refused.is_some(), duration.is_zero(), "{duration:?}: {refused:?}");
            let actor = kit.spawn_with("actor", Props::new(fails).supervision(rules)).unwrap();
            actor.tell(1).unwrap();
            kit.settle();
            kit.advance(NANO);
            assert_eq!(actor.metrics().restarts, 1, "{duration:?}");
            // A stop ends the pause.
            actor.stop();
            kit.settle();
            assert!(actor.is_stopped(), "{duration:?}");
        }
    });
}

#[test]
fn scheduled_messages_and_probes_take_any_time() {
    in_time(|| {
        for duration in EXTREMES {
            let kit = TestKit::new("test").unwrap();
            let probe = kit.probe::<u32>("probe");
            let (to, scheduler) = (probe.actor(), kit.scheduler());
            let _ = scheduler.schedule_once(duration, to, 1).unwrap();
            let delayed = scheduler.schedule_with_fixed_delay(duration, duration, to, 2);
            let rated = scheduler.schedule_at_fixed_rate(duration, duration, to, 3);
            assert_eq!(
                (delayed.is_ok(), rated.is_ok()),
                (!duration.is_zero(), !duration.is_zero())
            );
            for repeat in [delayed, rated].into_iter().flatten() {
                assert!(repeat.cancel());
            }
            if duration <= NANO {
                assert_eq!(probe.expect_message_within(duration), 1);
            }
            probe.expect_no_message_for(duration);
            probe.expect_no_message_for(Duration::MAX);
            to.stop();
            let reason = probe.expect_terminated_within(to, duration);
            assert_eq!(reason, StopReason::Asked);
        }
    });
}
