//! The receive timeout. Akka's `ReceiveTimeoutSpec`, in virtual time.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use common::{Call, LONG, SECOND, Script, close, ms};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::{Probe, TestKit};
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props, Refusal, StopReason};

#[derive(Debug, Clone)]
enum Message {
    /// Begins the time anew.
    Noise,
    /// Does not.
    Transparent,
    /// Sets the timeout, or turns it off; does not count itself.
    Set(Option<Duration>),
    /// The same several times in one handler: the last one wins.
    SetMany(Vec<Option<Duration>>),
    Throw,
}

type OnTimeout = fn(u32, &mut Context<Listener>);

struct Listener {
    initial: Option<Duration>,
    /// The how-manieth timeout, and the duration that it was set to.
    told: ActorRef<(u32, Duration)>,
    count: u32,
    on_timeout: OnTimeout,
    ticks: Option<Duration>,
}

impl Actor for Listener {
    type Message = Message;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(after) = self.initial {
            ctx.set_receive_timeout(after).unwrap();
        }
        if let Some(every) = self.ticks {
            ctx.timers()
                .start_at_fixed_rate("transparent", every, every, || Message::Transparent)
                .unwrap();
        }
    }

    fn receive(&mut self, message: Message, ctx: &mut Context<Self>) {
        let set = |ctx: &mut Context<Self>, after| match after {
            Some(after) => ctx.set_receive_timeout(after).unwrap(),
            None => ctx.cancel_receive_timeout(),
        };
        match message {
            Message::Noise | Message::Transparent => {}
            Message::Set(after) => set(ctx, after),
            Message::SetMany(all) => all.into_iter().for_each(|after| set(ctx, after)),
            Message::Throw => panic!("expected by this test"),
        }
    }

    fn influences_receive_timeout(message: &Message) -> bool {
        matches!(message, Message::Noise)
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        self.count += 1;
        let after = ctx.receive_timeout().unwrap();
        self.told.tell((self.count, after)).unwrap();
        (self.on_timeout)(self.count, ctx);
    }
}

struct Set {
    kit: TestKit,
    probe: Probe<(u32, Duration)>,
    listener: ActorRef<Message>,
}

fn set_up(initial: Option<Duration>, ticks: Option<Duration>, on_timeout: OnTimeout) -> Set {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe("probe");
    let told = probe.actor().clone();
    let props =
        Props::new(move || Listener { initial, told: told.clone(), count: 0, on_timeout, ticks });
    let listener =
        kit.spawn_with("listener", props.supervision(SupervisionStrategy::restart())).unwrap();
    Set { kit, probe, listener }
}

const HALF: Duration = ms(500);

#[test]
fn it_is_called_when_nothing_has_been_received_for_so_long_and_says_for_how_long() {
    let Set { probe, kit: _kit, .. } =
        set_up(Some(HALF), None, |_, ctx| ctx.cancel_receive_timeout());
    probe.expect_no_message_for(HALF - Duration::from_nanos(1));
    assert_eq!(probe.expect_message_within(Duration::from_nanos(1)), (1, HALF));
}

#[test]
fn it_is_called_again_after_each_further_time_of_silence() {
    let Set { probe, kit, .. } = set_up(Some(HALF), None, |_, _| ());
    for count in 1..=4 {
        assert_eq!(probe.expect_message_within(HALF), (count, HALF));
        assert_eq!(kit.elapsed(), count * HALF);
    }
}

#[test]
fn messages_put_it_off_at_the_cost_of_one_timer_in_all() {
    let Set { kit, probe, listener } = set_up(Some(SECOND), None, |_, _| ());
    kit.settle();
    for _ in 0..100 {
        listener.tell(Message::Noise).unwrap();
        kit.advance(ms(10));
    }
    // The one that was set, and one to look again after the first second.
    assert_eq!(kit.scheduler().timers().metrics().scheduled, 2);
    // The last message came ten milliseconds ago.
    probe.expect_no_message_for(ms(990) - Duration::from_nanos(1));
    assert_eq!(probe.expect_message_within(Duration::from_nanos(1)), (1, SECOND));
}

#[test]
fn it_is_not_called_while_a_message_is_queued_that_came_in_time() {
    let Set { kit, probe, listener } = set_up(Some(HALF), None, |_, _| ());
    kit.settle();
    kit.advance(HALF - ms(1));
    listener.tell(Message::Noise).unwrap();
    // The actor is busy until after its time.
    kit.advance_while_busy(ms(2));
    probe.expect_no_message_for(HALF - ms(1));
    assert_eq!(probe.expect_message_within(ms(1)), (1, HALF));
}

#[test]
fn it_is_never_called_if_it_is_not_set() {
    let Set { probe, kit: _kit, .. } = set_up(None, None, |_, _| ());
    probe.expect_no_message_for(3600 * SECOND);
}

#[test]
fn it_can_be_turned_off_from_its_own_call() {
    let Set { probe, kit: _kit, .. } =
        set_up(Some(HALF), None, |_, ctx| ctx.cancel_receive_timeout());
    assert_eq!(probe.expect_message_within(HALF).0, 1);
    probe.expect_no_message_for(10 * SECOND);
}

#[test]
fn messages_that_do_not_count_do_not_put_it_off() {
    let Set { kit, probe, listener } = set_up(Some(HALF), None, |_, _| ());
    kit.settle();
    for _ in 0..4 {
        kit.advance(ms(100));
        listener.tell(Message::Transparent).unwrap();
    }
    probe.expect_no_message_for(ms(99));
    assert_eq!(probe.expect_message_within(ms(1)), (1, HALF));
    // And again when only such follow.
    listener.tell(Message::Transparent).unwrap();
    assert_eq!(probe.expect_message_within(HALF), (2, HALF));
}

#[test]
fn timers_whose_messages_do_not_count_do_not_put_it_off() {
    let Set { probe, kit: _kit, .. } = set_up(Some(SECOND), Some(ms(100)), |_, _| ());
    assert_eq!(probe.expect_message_within(SECOND), (1, SECOND));
    assert_eq!(probe.expect_message_within(SECOND), (2, SECOND));
}

#[test]
fn it_can_be_turned_on_off_and_changed_by_messages_that_do_not_count() {
    let Set { kit, probe, listener } = set_up(None, None, |_, _| ());
    listener.tell(Message::Set(Some(HALF))).unwrap();
    assert_eq!(probe.expect_message_within(HALF), (1, HALF));
    listener.tell(Message::Set(None)).unwrap();
    probe.expect_no_message_for(10 * SECOND);
    listener.tell(Message::Set(Some(10 * SECOND))).unwrap();
    kit.advance(SECOND);
    listener.tell(Message::Set(Some(HALF))).unwrap();
    probe.expect_no_message_for(HALF - ms(1));
    assert_eq!(probe.expect_message_within(ms(1)), (2, HALF));
}

#[test]
fn the_last_of_several_changes_in_one_handler_wins() {
    let Set { probe, listener, kit: _kit } = set_up(None, None, |_, _| ());
    let many = vec![Some(ms(10)), Some(HALF), None, Some(ms(1)), Some(SECOND)];
    listener.tell(Message::SetMany(many)).unwrap();
    probe.expect_no_message_for(SECOND - ms(1));
    assert_eq!(probe.expect_message_within(ms(1)), (1, SECOND));
    listener.tell(Message::SetMany(vec![Some(HALF), None])).unwrap();
    probe.expect_no_message_for(10 * SECOND);
}

#[test]
fn a_restart_ends_it_and_the_new_actor_sets_its_own() {
    let Set { kit, probe, listener } = set_up(Some(SECOND), None, |_, _| ());
    kit.advance(HALF);
    listener.tell(Message::Throw).unwrap();
    probe.expect_no_message_for(SECOND - ms(1));
    assert_eq!(probe.expect_message_within(ms(1)), (1, SECOND));
}

#[test]
fn stopping_ends_it_without_a_dead_letter() {
    let Set { kit, probe, listener } = set_up(Some(HALF), None, |_, _| ());
    kit.settle();
    listener.stop();
    probe.expect_no_message_for(10 * SECOND);
    assert_eq!(probe.expect_terminated(&listener), StopReason::Asked);
    assert_eq!(kit.dead_letters(), []);
    assert_eq!(kit.scheduler().timers().pending(), 0);
}

#[test]
fn a_receive_timeout_of_zero_is_refused_and_leaves_the_one_that_is_set() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe("probe");
    let told = probe.actor().clone();
    let _actor: ActorRef<()> = kit
        .spawn("actor", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| match call {
                Call::Started => {
                    ctx.set_receive_timeout(SECOND).unwrap();
                    let refused = ctx.set_receive_timeout(Duration::ZERO);
                    let min = Duration::from_nanos(1);
                    assert_eq!(refused, Err(Refusal::Period { given: Duration::ZERO, min }));
                    assert_eq!(ctx.receive_timeout(), Some(SECOND));
                }
                Call::Quiet => told.tell(()).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    probe.expect_no_message_for(SECOND - Duration::from_nanos(1));
    probe.expect_message_within(Duration::from_nanos(1));
    assert_eq!(kit.metrics().panicked, 0);
}

#[test]
fn a_receive_timeout_that_is_set_while_the_system_is_closed_is_no_error() {
    let kit = TestKit::new("test").unwrap();
    let (seen, set) = std::sync::mpsc::channel();
    let _actor: ActorRef<()> = kit
        .spawn("actor", move || {
            Script::new(move |call: Call<()>, ctx: &mut Context<Script<()>>| {
                if let Call::Stopped(_) = call {
                    seen.send(ctx.set_receive_timeout(SECOND)).unwrap();
                }
            })
        })
        .unwrap();
    kit.settle();
    let report = kit.close().unwrap();
    assert!(report.is_complete());
    assert_eq!((set.recv(), report.timers_ended), (Ok(Ok(())), 1));
}

#[test]
fn a_receive_timeout_is_not_counted_as_a_message() {
    let kit = TestKit::new("t").unwrap();
    let actor: ActorRef<()> = kit
        .spawn("a", || {
            Script::new(|call: Call<()>, ctx: &mut Context<Script<()>>| {
                if call == Call::Started {
                    ctx.set_receive_timeout(SECOND).unwrap();
                }
            })
        })
        .unwrap();
    kit.advance(10 * SECOND);
    assert_eq!(actor.metrics().processed, 0);
}

#[test]
fn a_message_that_panics_puts_it_off_if_its_actor_goes_on() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<()>("probe");
    let told = probe.actor().clone();
    let props = Props::once(move || {
        Script::new(move |call: Call<u32>, ctx| match call {
            Call::Started => ctx.set_receive_timeout(10 * SECOND).unwrap(),
            Call::Message(_) => panic!("expected by this test"),
            Call::Quiet => told.tell(()).unwrap(),
            _ => {}
        })
    });
    let actor = kit.spawn_with("actor", props.supervision(SupervisionStrategy::resume())).unwrap();
    kit.advance(5 * SECOND);
    actor.tell(1).unwrap();
    probe.expect_no_message_for(9 * SECOND);
    probe.expect_message_within(SECOND);
}

#[test]
fn the_time_counts_from_the_end_of_the_handler_that_sets_it_too() {
    const AFTER: Duration = ms(20);
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let (sender, told) = channel();
    let setter = Script::new(move |call: Call<()>, ctx| match call {
        Call::Message(()) => {
            ctx.set_receive_timeout(AFTER).unwrap();
            // Longer than that, so that its timer fires meanwhile.
            thread::sleep(3 * AFTER);
            sender.send(Instant::now()).unwrap();
        }
        Call::Quiet => {
            ctx.cancel_receive_timeout();
            sender.send(Instant::now()).unwrap();
        }
        _ => {}
    });
    let actor = system.spawn("setter", move || setter).unwrap();
    actor.tell(()).unwrap();
    let [ended, called] = [(); 2].map(|()| told.recv_timeout(LONG).unwrap());
    assert!(called - ended >= AFTER, "it was called {:?} after the message", called - ended);
    close(&system);
}
