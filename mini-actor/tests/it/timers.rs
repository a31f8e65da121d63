//! An actor's own timers. Akka's scenarios (`TimerSpec`, classic and typed), and what goes wrong
//! elsewhere; all in virtual time.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::time::Duration;

use common::{Call, LONG, SECOND, Script, ms};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::{Probe, TestKit};
use mini_actor::timers::TimerKey;
use mini_actor::{
    Actor, ActorRef, ActorSystem, Context, MissedTickBehavior, Overflow, Props, Recipient, Refusal,
    StopReason,
};

/// Akka's `TimerSpec` target: a number of bumps, and a timer that says which number it was started
/// with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Do {
    Tock(u32),
    Bump,
    Cancel,
    Throw,
    End,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Single,
    Delay,
    Rate,
}

const KINDS: [Kind; 2] = [Kind::Delay, Kind::Rate];

fn start(kind: Kind, every: Duration, bumps: u32, ctx: &mut Context<Script<Do>>) {
    let timers = ctx.timers();
    match kind {
        Kind::Single => timers.start_single("T", every, Do::Tock(bumps)),
        Kind::Delay => timers.start_with_fixed_delay("T", every, every, move || Do::Tock(bumps)),
        Kind::Rate => timers.start_at_fixed_rate("T", every, every, move || Do::Tock(bumps)),
    }
    .unwrap();
}

fn target(
    kit: &TestKit,
    kind: Kind,
    every: Duration,
    supervision: SupervisionStrategy,
) -> (ActorRef<Do>, Probe<String>) {
    let probe = kit.probe::<String>("probe");
    let report: Recipient<String> = probe.actor().recipient();
    let factory = move || {
        let report = report.clone();
        let mut bumps = 1;
        Script::new(move |call, ctx| {
            let tell = |text: String| drop(report.tell(text));
            match call {
                Call::Started => start(kind, every, bumps, ctx),
                Call::Message(Do::Tock(number)) => tell(format!("tock {number}")),
                Call::Message(Do::Bump) => {
                    bumps += 1;
                    start(kind, every, bumps, ctx);
                }
                Call::Message(Do::Cancel) => {
                    assert!(ctx.timers().cancel("T"));
                    tell("cancelled".to_owned());
                }
                Call::Message(Do::Throw) => panic!("expected by this test"),
                Call::Message(Do::End) => ctx.stop(),
                Call::Restarting(_, failed) => {
                    tell(format!("restarting {failed:?}, active {}", ctx.timers().is_active("T")));
                }
                Call::Stopped(_) => {
                    tell(format!("stopped, active {}", ctx.timers().is_active("T")));
                }
                Call::Gone(_) | Call::Quiet => unreachable!(),
            }
        })
    };
    let target = kit.spawn_with("target", Props::new(factory).supervision(supervision)).unwrap();
    (target, probe)
}

fn end(target: &ActorRef<Do>, probe: &Probe<String>) {
    target.tell(Do::End).unwrap();
    assert_eq!(probe.expect_message(), "stopped, active false");
    probe.expect_no_message_for(10 * SECOND);
    assert_eq!(probe.expect_terminated(target), StopReason::Itself);
}

#[test]
fn a_single_timer_is_received_once_at_its_time_and_not_before() {
    let kit = TestKit::new("test").unwrap();
    let (target, probe) = target(&kit, Kind::Single, ms(10), SupervisionStrategy::stop());
    probe.expect_no_message_for(ms(10) - Duration::from_nanos(1));
    assert_eq!(probe.expect_message_within(Duration::from_nanos(1)), "tock 1");
    probe.expect_no_message_for(ms(100));
    end(&target, &probe);
}

#[test]
fn periodic_timers_are_received_again_and_again() {
    for kind in KINDS {
        let kit = TestKit::new("test").unwrap();
        let (target, probe) = target(&kit, kind, SECOND, SupervisionStrategy::stop());
        for round in 1..=3 {
            assert_eq!(probe.expect_message_within(SECOND), "tock 1");
            assert_eq!(kit.elapsed(), round * SECOND);
        }
        end(&target, &probe);
    }
}

#[test]
fn a_timer_that_is_started_again_replaces_the_old_one_even_if_that_is_in_the_mailbox_already() {
    for kind in [Kind::Single, Kind::Delay, Kind::Rate] {
        let kit = TestKit::new("test").unwrap();
        let (target, probe) = target(&kit, kind, SECOND, SupervisionStrategy::stop());
        kit.settle();
        // In front of the tick that is due at the same moment: when it is received the tick is in
        // the mailbox.
        let _ = kit.scheduler().schedule_once(SECOND, &target, Do::Bump).unwrap();
        target.tell(Do::Bump).unwrap();
        kit.settle();
        // Both due at one second, the bump first.
        kit.advance(SECOND);
        probe.expect_no_message_for(SECOND - ms(1));
        assert_eq!(probe.expect_message_within(ms(1)), "tock 3");
        end(&target, &probe);
    }
}

#[test]
fn nothing_of_a_cancelled_timer_is_received_after_the_cancel() {
    for kind in KINDS {
        let kit = TestKit::new("test").unwrap();
        let (target, probe) = target(&kit, kind, SECOND, SupervisionStrategy::stop());
        assert_eq!(probe.expect_message_within(SECOND), "tock 1");
        target.tell(Do::Cancel).unwrap();
        assert_eq!(probe.expect_message(), "cancelled");
        probe.expect_no_message_for(ms(1100));
        end(&target, &probe);
    }
}

#[test]
fn a_tick_that_is_in_the_mailbox_when_its_timer_is_cancelled_is_not_received() {
    let kit = TestKit::new("test").unwrap();
    let (target, probe) = target(&kit, Kind::Single, SECOND, SupervisionStrategy::stop());
    // Scheduled before the timer is started, so it comes first at the same moment.
    let _ = kit.scheduler().schedule_once(SECOND, &target, Do::Cancel).unwrap();
    kit.settle();
    kit.advance(SECOND);
    assert_eq!(probe.expect_message(), "cancelled");
    probe.expect_no_message_for(10 * SECOND);
}

#[test]
fn timers_have_ended_when_an_actor_is_told_of_its_restart_and_begin_anew_with_the_next() {
    for kind in KINDS {
        let kit = TestKit::new("test").unwrap();
        let (target, probe) = target(&kit, kind, SECOND, SupervisionStrategy::restart());
        kit.settle();
        target.tell(Do::Bump).unwrap();
        assert_eq!(probe.expect_message_within(SECOND), "tock 2");
        // At the moment of the next tick, in front of it: it belongs to the earlier incarnation.
        let _ = kit.scheduler().schedule_once(SECOND - ms(1), &target, Do::Throw).unwrap();
        kit.advance(SECOND - ms(1));
        assert_eq!(probe.expect_message(), "restarting Some(Throw), active false");
        probe.expect_no_message_for(SECOND - ms(1));
        assert_eq!(probe.expect_message_within(ms(1)), "tock 1");
        end(&target, &probe);
    }
}

#[test]
fn a_tick_in_the_mailbox_is_not_received_after_the_restart() {
    let kit = TestKit::new("test").unwrap();
    let (target, probe) = target(&kit, Kind::Rate, SECOND, SupervisionStrategy::restart());
    let _ = kit.scheduler().schedule_once(SECOND, &target, Do::Throw).unwrap();
    kit.settle();
    kit.advance(SECOND); // the panic, and behind it the old tick
    assert_eq!(probe.expect_message(), "restarting Some(Throw), active false");
    probe.expect_no_message_for(SECOND - ms(1));
    assert_eq!(probe.expect_message_within(ms(1)), "tock 1");
    end(&target, &probe);
}

#[test]
fn timers_have_ended_when_an_actor_is_told_of_its_end_and_leave_no_dead_letters() {
    for kind in [Kind::Single, Kind::Delay, Kind::Rate] {
        let kit = TestKit::new("test").unwrap();
        let (target, probe) = target(&kit, kind, ms(250), SupervisionStrategy::stop());
        kit.settle();
        end(&target, &probe);
        assert_eq!(kit.dead_letters(), []);
        assert_eq!(kit.scheduler().timers().pending(), 0);
    }
}

#[test]
fn an_actor_with_timers_that_panics_for_good_leaves_none() {
    let kit = TestKit::new("test").unwrap();
    let (target, probe) = target(&kit, Kind::Rate, SECOND, SupervisionStrategy::stop());
    target.tell(Do::Throw).unwrap();
    assert_eq!(probe.expect_message(), "stopped, active false");
    assert_eq!(kit.scheduler().timers().pending(), 0);
}

#[test]
fn a_message_of_a_timer_that_makes_its_actor_panic_is_handed_to_the_restart_hook_as_it_is() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let factory = move || {
        let report = report.clone();
        Script::new(move |call: Call<u32>, ctx| match call {
            Call::Started if ctx.myself().metrics().restarts == 0 => {
                ctx.timers().start_single("T", ms(10), 42).unwrap();
            }
            Call::Message(number) => panic!("number {number}"),
            Call::Restarting(message, failed) => {
                report.tell(format!("{message}: {failed:?}")).unwrap();
            }
            _ => {}
        })
    };
    let props = Props::new(factory).supervision(SupervisionStrategy::restart());
    let _target = kit.spawn_with("target", props).unwrap();
    assert_eq!(probe.expect_message_within(ms(10)), "number 42: Some(42)");
}

#[test]
fn a_timer_s_message_can_stop_its_actor() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<()>("probe");
    let pill = kit
        .spawn("target", || {
            Script::new(|call: Call<()>, ctx| match call {
                Call::Started => ctx.timers().start_single("T", ms(10), ()).unwrap(),
                Call::Message(()) => ctx.myself().stop(),
                _ => {}
            })
        })
        .unwrap();
    kit.advance(ms(10));
    assert_eq!(probe.expect_terminated(&pill), StopReason::Asked);
}

#[test]
fn a_single_timer_is_not_active_any_more_when_its_message_is_received_and_a_periodic_one_is() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<(&'static str, bool)>("probe");
    let report = probe.actor().clone();
    let _target = kit
        .spawn("target", move || {
            Script::new(move |call: Call<&'static str>, ctx| match call {
                Call::Started => {
                    let timers = ctx.timers();
                    timers.start_single("single", ms(10), "single").unwrap();
                    timers.start_with_fixed_delay("delay", ms(20), ms(20), || "delay").unwrap();
                    timers.start_at_fixed_rate("rate", ms(30), ms(30), || "rate").unwrap();
                    for key in ["single", "delay", "rate"] {
                        assert!(timers.is_active(key));
                    }
                }
                Call::Message(key) => {
                    let active = ctx.timers().is_active(key);
                    report.tell((key, active)).unwrap();
                    assert_eq!(ctx.timers().cancel(key), active);
                    assert!(!ctx.timers().cancel(key), "cancelling what is not there does nothing");
                }
                _ => {}
            })
        })
        .unwrap();
    for expected in [("single", false), ("delay", true), ("rate", true)] {
        assert_eq!(probe.expect_message_within(ms(10)), expected);
    }
    probe.expect_no_message_for(SECOND);
}

#[test]
fn a_timer_s_message_that_was_stashed_is_received_after_unstashing() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<&'static str>("probe");
    let report = probe.actor().clone();
    let target = kit
        .spawn("target", move || {
            let mut open = false;
            Script::new(move |call: Call<&'static str>, ctx| match call {
                Call::Started => ctx.timers().start_single("T", ms(50), "scheduled").unwrap(),
                Call::Message("open") => {
                    open = true;
                    ctx.unstash_all();
                }
                Call::Message(message) if open => report.tell(message).unwrap(),
                Call::Message(message) => ctx.stash(message).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    probe.expect_no_message_for(ms(100));
    target.tell("open").unwrap();
    assert_eq!(probe.expect_message(), "scheduled");
}

#[test]
fn timers_of_different_keys_live_beside_each_other_and_all_are_cancelled_at_once() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u64>("probe");
    let report = probe.actor().clone();
    let target = kit
        .spawn("target", move || {
            Script::new(move |call: Call<u64>, ctx| match call {
                Call::Started => {
                    for number in 1..=100 {
                        ctx.timers().start_single(number, ms(number), number).unwrap();
                        let key = ("other", number);
                        ctx.timers().start_single(key, 2 * SECOND, number).unwrap();
                    }
                }
                Call::Message(0) => ctx.timers().cancel_all(),
                Call::Message(number) => report.tell(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    for number in 1..=100 {
        assert_eq!(probe.expect_message_within(ms(1)), number);
    }
    target.tell(0).unwrap();
    probe.expect_no_message_for(10 * SECOND);
    assert_eq!(kit.scheduler().timers().pending(), 0);
}

/// When an actor that is busy until 350 ms receives the ticks of a fixed rate of 100 ms, until 700
/// ms, and how many it is told were left out before each.
fn received(policy: MissedTickBehavior) -> Vec<(u64, u128)> {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<(u64, Duration)>("probe");
    let report = probe.actor().clone();
    let timers = kit.scheduler().timers().clone();
    let start = timers.now();
    let _target = kit
        .spawn("target", move || {
            Script::new(move |call: Call<u64>, ctx| match call {
                Call::Started => ctx
                    .timers()
                    .missed_ticks(policy)
                    .start_at_fixed_rate("T", ms(100), ms(100), |missed| missed)
                    .unwrap(),
                Call::Message(missed) => report.tell((missed, timers.now() - start)).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    kit.advance_while_busy(ms(350));
    kit.advance(ms(350));
    std::iter::from_fn(|| probe.try_message())
        .map(|(missed, at)| (missed, at.as_millis()))
        .collect()
}

#[test]
fn what_becomes_of_missed_ticks_has_a_name() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    assert_eq!(received(Skip), [(2, 350), (0, 400), (0, 500), (0, 600), (0, 700)]);
    assert_eq!(
        received(Burst),
        [(0, 350), (0, 350), (0, 350), (0, 400), (0, 500), (0, 600), (0, 700)]
    );
    assert_eq!(received(Delay), [(0, 350), (0, 450), (0, 550), (0, 650)]);
}

#[test]
fn a_slow_actor_is_never_flooded_by_its_timers() {
    let kit = TestKit::new("test").unwrap();
    let target = kit
        .spawn("target", || {
            Script::new(|call: Call<()>, ctx| {
                if call == Call::Started {
                    use MissedTickBehavior::{Burst, Skip};
                    let timers = ctx.timers();
                    timers.start_with_fixed_delay("delay", ms(1), ms(1), || ()).unwrap();
                    for (key, policy) in [("burst", Burst), ("skip", Skip)] {
                        timers
                            .missed_ticks(policy)
                            .start_at_fixed_rate(key, ms(1), ms(1), |_| ())
                            .unwrap();
                    }
                }
            })
        })
        .unwrap();
    kit.settle();
    let before = kit.scheduler().timers().metrics().fired;
    kit.advance_while_busy(10 * SECOND);
    // One tick of each, and nothing else, however long it takes.
    assert_eq!(kit.scheduler().timers().metrics().fired - before, 3);
    assert_eq!(kit.scheduler().timers().pending(), 0);
    assert_eq!(target.metrics().mailbox_depth, 0);
}

#[test]
fn timers_do_not_keep_an_actor_alive() {
    let kit = TestKit::new("test").unwrap();
    let (target, probe) = target(&kit, Kind::Rate, SECOND, SupervisionStrategy::stop());
    kit.settle();
    target.stop();
    assert_eq!(probe.expect_message(), "stopped, active false");
    assert_eq!(probe.expect_terminated(&target), StopReason::Asked);
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_handling_also_when_that_fails() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<Duration>("probe");
    let report = probe.actor().clone();
    let timers = kit.scheduler().timers().clone();
    let start = timers.now();
    let props = Props::new(move || {
        let (report, timers) = (report.clone(), timers.clone());
        Script::new(move |call: Call<()>, ctx| match call {
            Call::Started => {
                ctx.timers().start_with_fixed_delay("T", ms(10), ms(100), || ()).unwrap();
            }
            Call::Message(()) => {
                report.tell(timers.now() - start).unwrap();
                panic!("expected by this test");
            }
            _ => {}
        })
    });
    let _target =
        kit.spawn_with("target", props.supervision(SupervisionStrategy::resume())).unwrap();
    kit.settle();
    for expected in [10, 110, 210] {
        assert_eq!(probe.expect_message_within(ms(100)), ms(expected));
    }
    // Late by 50: the next one is so much later.
    kit.advance_while_busy(ms(150));
    kit.settle();
    assert_eq!(probe.expect_message(), ms(360));
    assert_eq!(probe.expect_message_within(ms(100)), ms(460));
}

#[test]
fn a_due_timer_comes_behind_what_is_in_the_mailbox_and_before_what_comes_later() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let report = probe.actor().clone();
    let target = kit
        .spawn("target", move || {
            Script::new(move |call: Call<u32>, ctx| match call {
                Call::Started => ctx.timers().start_single("T", ms(10), 3).unwrap(),
                Call::Message(number) => report.tell(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    target.tell(1).unwrap();
    target.tell(2).unwrap();
    kit.advance_while_busy(ms(10));
    target.tell(4).unwrap();
    for number in 1..=4 {
        assert_eq!(probe.expect_message(), number);
    }
}

#[test]
fn timers_of_an_actor_with_a_full_mailbox_are_received_all_the_same() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let report = probe.actor().clone();
    for overflow in [Overflow::Fail, Overflow::DropOldest, Overflow::DropNewest] {
        let report = report.clone();
        let props = Props::new(move || {
            let report = report.clone();
            Script::new(move |call: Call<u32>, ctx| match call {
                Call::Started => ctx.timers().start_single("T", ms(10), 9).unwrap(),
                Call::Message(number) => report.tell(number).unwrap(),
                _ => {}
            })
        });
        let target = kit.spawn_with("target", props.bounded(1, overflow)).unwrap();
        kit.settle();
        target.tell(1).unwrap();
        kit.advance_while_busy(ms(10));
        assert_eq!(probe.expect_message(), 1);
        assert_eq!(probe.expect_message(), 9);
        target.stop();
        kit.settle();
    }
}

#[test]
fn a_period_of_zero_is_refused_and_leaves_the_timer_as_it_was() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let report = probe.actor().clone();
    let _target = kit
        .spawn("target", move || {
            Script::new(move |call: Call<u32>, ctx| match call {
                Call::Started => {
                    let timers = ctx.timers();
                    timers.start_single("T", ms(10), 1).unwrap();
                    let zero = Duration::ZERO;
                    let delay = timers.start_with_fixed_delay("T", zero, zero, || 2);
                    assert!(matches!(delay, Err(Refusal::Period { .. })));
                    let rate = timers.start_at_fixed_rate("T", zero, zero, || 3);
                    assert!(matches!(rate, Err(Refusal::Period { .. })));
                }
                Call::Message(number) => report.tell(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    assert_eq!(probe.expect_message_within(ms(10)), 1);
    probe.expect_no_message_for(SECOND);
}

#[test]
fn delays_of_zero_and_beyond_all_time_are_accepted() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let report = probe.actor().clone();
    let _target = kit
        .spawn("target", move || {
            Script::new(move |call: Call<u32>, ctx| match call {
                Call::Started => {
                    let timers = ctx.timers();
                    timers.start_single("zero", Duration::ZERO, 1).unwrap();
                    timers.start_single("never", Duration::MAX, 2).unwrap();
                    let max = Duration::MAX;
                    timers.start_at_fixed_rate("once", Duration::ZERO, max, || 3).unwrap();
                    timers.start_with_fixed_delay("once too", Duration::ZERO, max, || 4).unwrap();
                }
                Call::Message(number) => report.tell(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    for expected in [1, 3, 4] {
        assert_eq!(probe.expect_message(), expected);
    }
    probe.expect_no_message_for(Duration::from_secs(1_000_000_000));
}

#[test]
fn a_timer_that_was_due_before_the_stop_is_received_as_what_else_is_queued() {
    let kit = TestKit::new("t").unwrap();
    let probe = kit.probe::<u8>("probe");
    let report = probe.actor().clone();
    let actor: ActorRef<u8> = kit
        .spawn("a", move || {
            Script::new(move |call: Call<u8>, ctx: &mut Context<Script<u8>>| match call {
                Call::Started => ctx.timers().start_single("T", ms(10), 2).unwrap(),
                Call::Message(message) => report.tell(message).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    actor.tell(1).unwrap();
    kit.advance_while_busy(ms(20)); // the timer is due, behind the message
    actor.stop();
    kit.settle();
    let seen: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
    assert_eq!(seen, [1, 2]);
}

#[test]
fn ticks_that_come_due_after_the_stop_do_not_put_it_off() {
    let system = ActorSystem::builder("t").threads(1).build().unwrap();
    let (received, has_received) = std::sync::mpsc::channel();
    let actor: ActorRef<()> = system
        .spawn("a", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => {
                    ctx.timers().start_at_fixed_rate("T", ms(1), ms(1), || ()).unwrap()
                }
                Call::Message(()) => {
                    let _ = received.send(());
                    // The next tick is due before this one has been handled, each time.
                    std::thread::sleep(ms(5));
                }
                _ => {}
            })
        })
        .unwrap();
    has_received.recv_timeout(LONG).unwrap();
    let end = actor.termination();
    actor.stop();
    assert_eq!(end.wait_timeout(LONG), Some(StopReason::Asked));
}

/// Panics when it is dropped, if it is to.
#[derive(Clone)]
struct Throws(bool);
impl Drop for Throws {
    fn drop(&mut self) {
        assert!(!std::mem::take(&mut self.0), "expected by this test");
    }
}

#[test]
fn a_timer_whose_predecessor_panics_when_it_is_dropped_fires_all_the_same() {
    struct Timed(std::sync::mpsc::Sender<&'static str>, bool);
    impl Actor for Timed {
        type Message = Option<Throws>;
        fn receive(&mut self, message: Option<Throws>, ctx: &mut Context<Self>) {
            match (message, self.1) {
                (None, false) => {
                    self.1 = true;
                    ctx.timers().start_single("T", SECOND, Some(Throws(true))).unwrap();
                    ctx.timers().start_single("T", SECOND, Some(Throws(false))).unwrap();
                }
                (None, true) => {
                    let active = ctx.timers().is_active("T");
                    self.0.send(if active { "active" } else { "not active" }).unwrap();
                }
                (Some(_), _) => self.0.send("received").unwrap(),
            }
        }
    }
    let kit = TestKit::new("t").unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let props =
        Props::once(move || Timed(sender, false)).supervision(SupervisionStrategy::resume());
    let actor = kit.spawn_with("a", props).unwrap();
    actor.tell(None).unwrap();
    kit.advance(10 * SECOND);
    actor.tell(None).unwrap();
    kit.settle();
    let seen: Vec<_> = receiver.try_iter().collect();
    assert_eq!(seen, ["received", "not active"]);
    assert_eq!(kit.metrics().panicked, 1, "it is counted all the same");
}

#[test]
fn all_timers_end_although_their_messages_panic_when_they_are_dropped() {
    let kit = TestKit::new("t").unwrap();
    let target = kit
        .spawn("target", || {
            Script::new(|call: Call<Option<Throws>>, ctx: &mut Context<Script<Option<Throws>>>| {
                let timers = ctx.timers();
                match call {
                    Call::Started => {
                        for number in 0..10 {
                            let message = Some(Throws(number % 2 == 0));
                            timers.start_single(number, SECOND, message).unwrap();
                        }
                    }
                    Call::Message(None) => timers.cancel_all(),
                    _ => panic!("a cancelled timer was received"),
                }
            })
        })
        .unwrap();
    target.tell(None).unwrap();
    kit.settle();
    assert_eq!(kit.scheduler().timers().pending(), 0);
    kit.advance(10 * SECOND);
    assert!(!target.is_stopped());
    assert_eq!(kit.metrics().panicked, 5);
}

#[test]
fn a_name_a_number_and_both_are_different_keys() {
    let keys = [
        TimerKey::from("request"),
        TimerKey::from(("request", 0)),
        TimerKey::from(("request", 1)),
        TimerKey::from(0),
        TimerKey::from(""),
        TimerKey::from(("", 0)),
    ];
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == key), Some(number), "{key:?}");
    }
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<usize>("probe");
    let report = probe.actor().clone();
    let _actor: ActorRef<usize> = kit
        .spawn("a", move || {
            Script::new(move |call: Call<usize>, ctx: &mut Context<Script<usize>>| match call {
                Call::Started => {
                    for (number, key) in keys.iter().enumerate() {
                        ctx.timers().start_single(key.clone(), SECOND, number).unwrap();
                    }
                }
                Call::Message(number) => report.tell(number).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.advance(SECOND);
    let received: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
    assert_eq!(received, [0, 1, 2, 3, 4, 5]);
}

/// The keys of the pending timers, with their remaining milliseconds, and `*` for periodic ones.
fn pending(ctx: &mut Context<Script<&'static str>>) -> String {
    let listed = ctx.timers().pending().map(|timer| {
        let left = timer.remaining.map_or("-".to_owned(), |left| left.as_millis().to_string());
        format!("{}:{left}{}", timer.key.name().unwrap(), if timer.periodic { "*" } else { "" })
    });
    listed.collect::<Vec<_>>().join(" ")
}

#[test]
fn pending_timers_are_listed_with_their_remaining_times_in_the_order_in_which_they_were_started() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().recipient();
    let act = move |call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>| {
        match call {
            Call::Started => {
                let timers = ctx.timers();
                timers.start_single("later", ms(100), "later").unwrap();
                timers.start_with_fixed_delay("delay", ms(30), ms(10), || "delay").unwrap();
                timers.start_at_fixed_rate("rate", ms(20), ms(40), || "rate").unwrap();
                timers.start_single("never", Duration::MAX, "never").unwrap();
                timers.start_single("gone", ms(1), "gone").unwrap();
                timers.cancel("gone");
            }
            Call::Message("later") => {
                ctx.timers().start_single("delay", ms(7), "anew").unwrap();
            }
            _ => {}
        }
        let _ = report.tell(pending(ctx));
    };
    let actor = kit.spawn("actor", || Script::new(act)).unwrap();
    assert_eq!(probe.expect_message(), "later:100 delay:30* rate:20* never:-");
    let next = |within| probe.expect_message_within(ms(within));
    // The tick that is received counts no more: a rate goes on, a delay begins afterwards.
    assert_eq!(next(20), "later:80 delay:10* rate:40* never:-");
    assert_eq!(next(10), "later:70 delay:-* rate:30* never:-");
    kit.advance(ms(4));
    actor.tell("now").unwrap();
    assert_eq!(probe.expect_message(), "later:66 delay:6* rate:26* never:-");
    // What is due and waits in the mailbox.
    kit.advance_while_busy(ms(8));
    actor.tell("now").unwrap();
    assert_eq!(probe.expect_message(), "later:58 delay:-* rate:18* never:-");
    assert_eq!(probe.expect_message(), "later:58 delay:10* rate:18* never:-");
    kit.advance_while_busy(ms(60));
    let listed: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
    assert_eq!(listed[0], "later:0 delay:-* rate:0* never:-");
    assert!(listed.last().unwrap().ends_with("never:- delay:7"), "{listed:?}");
}

/// A session that ends `idle` after the last request, and ticks; on a scheduler with room for so
/// many timers.
fn with_room_for(timers: usize, act: Act) -> (TestKit, ActorRef<&'static str>, Probe<String>) {
    let kit = ActorSystem::builder("test")
        .scheduler(move |scheduler| scheduler.max_pending(timers))
        .build_virtual()
        .unwrap();
    let probe = kit.probe::<String>("probe");
    let report = probe.actor().clone();
    let script = move |call: Call<&'static str>, ctx: &mut Context<Script<&'static str>>| {
        let what = match call {
            Call::Started => "started",
            Call::Message(message) => message,
            Call::Quiet => "quiet",
            _ => return,
        };
        report.tell(what.to_owned()).unwrap();
        act(what, ctx);
    };
    let session = kit.spawn("session", move || Script::new(script)).unwrap();
    kit.settle();
    (kit, session, probe)
}

type Act = fn(&str, &mut Context<Script<&'static str>>);

/// What the actor of the next test does to one of its timers.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Starts it, to be due after so many milliseconds, with this message.
    Start(u64, u64, u64),
    Cancel(u64),
    Due(u64),
}

#[test]
fn whatever_is_started_anew_or_cancelled_each_timer_comes_as_it_was_started_last_and_once() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u64>("probe");
    let report = probe.actor().clone();
    let act = move |call: Call<Step>, ctx: &mut Context<Script<Step>>| match call {
        // One call for all: what it started before it may only move.
        Call::Message(Step::Start(key, after, number)) => {
            ctx.timers().start_single(key, ms(after), Step::Due(number)).unwrap();
        }
        Call::Message(Step::Cancel(key)) => drop(ctx.timers().cancel(key)),
        Call::Message(Step::Due(number)) => report.tell(number).unwrap(),
        _ => {}
    };
    let actor = kit.spawn("actor", || Script::new(act)).unwrap();
    // By key: when it is due, in milliseconds, and its message.
    let mut expected = std::collections::HashMap::new();
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let (mut now, mut received) = (0, 0);
    for number in 0..5_000 {
        // By turns with two keys and with eight: with few, and with many.
        let key = draw(if number % 1_000 < 500 { 2 } else { 8 });
        if draw(8) == 0 {
            actor.tell(Step::Cancel(key)).unwrap();
            expected.remove(&key);
        } else {
            let after = 1 + draw(30);
            actor.tell(Step::Start(key, after, number)).unwrap();
            expected.insert(key, (now + after, number));
        }
        kit.settle();
        let passed = draw(4);
        kit.advance(ms(passed));
        now += passed;
        let is_due = |(due, _): &(u64, u64)| *due <= now;
        let mut due: Vec<_> = expected.values().copied().filter(is_due).collect();
        expected.retain(|_, timer| !is_due(timer));
        due.sort_unstable();
        // (Timers that are due at the same time may come in any order.)
        let mut came: Vec<_> = std::iter::from_fn(|| probe.try_message()).collect();
        came.sort_unstable_by_key(|number| due.iter().position(|(_, it)| it == number));
        received += came.len();
        assert_eq!(came, due.iter().map(|(_, number)| *number).collect::<Vec<_>>(), "at {now} ms");
        assert_eq!(kit.scheduler().timers().pending(), expected.len() as u64, "at {now} ms");
    }
    assert!(received > 500, "only {received} came due");
}

#[test]
fn a_timeout_that_each_message_starts_anew_is_scheduled_once_and_moved() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let report = probe.actor().clone();
    let act = move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
        Call::Message(0) => report.tell(0).unwrap(),
        Call::Message(_) => ctx.timers().start_single("idle", 30 * SECOND, 0).unwrap(),
        _ => {}
    };
    let actor = kit.spawn("actor", || Script::new(act)).unwrap();
    for _ in 0..100 {
        actor.tell(1).unwrap();
        probe.expect_no_message_for(29 * SECOND);
    }
    assert_eq!(kit.scheduler().timers().metrics().scheduled, 1);
    assert_eq!(probe.expect_message_within(SECOND), 0);
    assert_eq!(kit.elapsed(), 2_901 * SECOND);
}

fn told(probe: &Probe<String>) -> Vec<String> {
    std::iter::from_fn(|| probe.try_message()).collect()
}

#[test]
fn a_timer_that_is_started_again_at_max_pending_has_the_place_of_the_one_that_it_replaces() {
    let (kit, session, probe) = with_room_for(1, |what, ctx| match what {
        "started" | "request" => {
            ctx.timers().start_single("idle", 30 * SECOND, "idle").unwrap();
            let refused = ctx.timers().start_single("other", SECOND, "other").unwrap_err();
            assert_eq!(refused, Refusal::Full { limit: 1 });
            assert_eq!(ctx.timers().pending().count(), 1);
        }
        "beat" => {
            // As another rule, nearer, with another message.
            let beat = || "beats";
            ctx.timers().start_at_fixed_rate("idle", SECOND, 2 * SECOND, beat).unwrap();
            assert!(ctx.timers().pending().all(|it| it.periodic && it.remaining == Some(SECOND)));
        }
        _ => {}
    });
    for _ in 0..3 {
        kit.advance(29 * SECOND);
        session.tell("request").unwrap();
        kit.settle();
    }
    kit.advance(29 * SECOND);
    session.tell("beat").unwrap();
    kit.advance(3 * SECOND);
    session.tell("request").unwrap();
    kit.advance(30 * SECOND);
    let order = ["started", "request", "request", "request", "beat", "beats", "beats", "request"];
    assert_eq!(told(&probe), [&order[..], &["idle"]].concat());
    assert!(kit.panics().is_empty());
}

#[test]
fn a_timer_that_cannot_be_started_again_because_the_old_one_has_fired_leaves_that() {
    let (kit, session, probe) = with_room_for(1, |what, ctx| match what {
        "started" => ctx.timers().start_single("idle", SECOND, "idle").unwrap(),
        "request" => {
            // Somebody else has the place that the timer has left.
            let _ = ctx.scheduler().timers().schedule_once(LONG, || ()).unwrap();
            let refused = ctx.timers().start_single("idle", SECOND, "again").unwrap_err();
            assert_eq!(refused, Refusal::Full { limit: 1 });
        }
        _ => {}
    });
    session.tell("request").unwrap();
    kit.advance_while_busy(SECOND);
    kit.settle();
    assert_eq!(told(&probe), ["started", "request", "idle"]);
    assert!(kit.panics().is_empty());
}

#[test]
fn a_receive_timeout_that_is_set_again_at_max_pending_has_the_place_of_the_one_before() {
    let (kit, session, probe) = with_room_for(1, |what, ctx| match what {
        "started" => ctx.set_receive_timeout(30 * SECOND).unwrap(),
        "sooner" => ctx.set_receive_timeout(10 * SECOND).unwrap(),
        _ => {}
    });
    kit.advance(29 * SECOND);
    session.tell("sooner").unwrap();
    kit.advance(9 * SECOND);
    assert_eq!(told(&probe), ["started", "sooner"]);
    kit.advance(11 * SECOND);
    assert_eq!(told(&probe), ["quiet", "quiet"]);
    assert!(kit.panics().is_empty());
}

#[test]
fn a_receive_timeout_that_finds_no_place_again_is_not_set_any_more() {
    let kit = ActorSystem::builder("test")
        .scheduler(|scheduler| scheduler.max_pending(1))
        .build_virtual()
        .unwrap();
    let probe = kit.probe::<Option<Duration>>("probe");
    let told = probe.actor().clone();
    let script = move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
        Call::Started => ctx.set_receive_timeout(SECOND).unwrap(),
        Call::Message(_) => told.tell(ctx.receive_timeout()).unwrap(),
        Call::Quiet => {
            // Takes the place that the timeout has left.
            drop(ctx.scheduler().timers().schedule_once(3600 * SECOND, || ()).unwrap());
            told.tell(ctx.receive_timeout()).unwrap();
        }
        _ => {}
    };
    let actor = kit.spawn("actor", move || Script::new(script)).unwrap();
    assert_eq!(probe.expect_message_within(SECOND), Some(SECOND));
    actor.tell(7).unwrap();
    assert_eq!(probe.expect_message(), None);
}
