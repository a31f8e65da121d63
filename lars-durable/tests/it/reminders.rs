//! Reminders of actors that meet what happened before: panics, outages, and the message that has
//! made the actor. In virtual time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, UNIX_EPOCH};

use lars_durable::actors::{DurableActor, DurableContext, Hosted, Kind, Reminders};
use lars_durable::backoff::BackoffPolicy;
use lars_durable::test_kit::Store;
use lars_durable::{Durable, Payload, Refused};
use mini_actor::Context;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use serde::{Deserialize, Serialize};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// What the store's clock shows in the beginning.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Event {
    Say(String),
    Do(Vec<Step>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Say(String),
    /// Once at this key, after so many seconds.
    Once(String, u64, Box<Event>),
    /// At this key, every so many seconds.
    Rate(String, u64, Box<Event>),
    Delay(String, u64, Box<Event>),
    /// At this key, at each full minute.
    Minutely(String, Box<Event>),
    /// The same, but so often at most, and until then: seconds of the store's clock.
    Ending(String, u64, Option<u64>, Option<u64>),
    Cancel(String),
    /// On another thread.
    Apart(Box<Step>),
    Panic,
}

impl Payload for Event {
    const NAME: &'static str = "order";
}

/// Does these steps when it is started, and notes what it is told.
struct Order(Vec<Step>, Sender<String>);

impl DurableActor for Order {
    type Reminder = Event;
    type Message = Event;

    fn started(&mut self, ctx: &mut Context<Hosted<Self>>) {
        for step in self.0.clone() {
            self.step(step, ctx.reminders());
        }
    }

    fn receive(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) {
        match event {
            Event::Say(what) => drop(self.1.send(what)),
            Event::Do(steps) => {
                for step in steps {
                    self.step(step, ctx.reminders());
                }
            }
        }
    }
}

impl Order {
    fn step(&self, step: Step, mut reminders: Reminders<Event>) {
        let done = match step {
            Step::Say(what) => {
                let _ = self.1.send(what);
                Ok(())
            }
            Step::Once(key, after, event) => {
                reminders.start_single(key, Duration::from_secs(after), *event)
            }
            Step::Rate(key, every, event) => {
                let every = Duration::from_secs(every);
                reminders.start_at_fixed_rate(key, every, every, *event)
            }
            Step::Delay(key, delay, event) => {
                let delay = Duration::from_secs(delay);
                reminders.start_with_fixed_delay(key, delay, delay, *event)
            }
            Step::Minutely(key, event) => {
                reminders.start_by_cron(key, "* * * * *", "Etc/UTC", *event)
            }
            Step::Ending(key, every, times, until) => {
                let every = Duration::from_secs(every);
                let mut reminders = match (times, until) {
                    (Some(times), _) => reminders.times(times),
                    (_, Some(until)) => reminders.until(UNIX_EPOCH + BEGIN + SECOND * secs(until)),
                    (None, None) => reminders,
                };
                let tick = || Event::Say("tick".into());
                match key.as_str() {
                    "delay" => reminders.start_with_fixed_delay(key, every, every, tick()),
                    "cron" => reminders.start_by_cron(key, "* * * * *", "Etc/UTC", tick()),
                    _ => reminders.start_at_fixed_rate(key, every, every, tick()),
                }
            }
            Step::Cancel(key) => reminders.cancel(key),
            Step::Apart(step) => {
                let (there, sender) = (*step, self.1.clone());
                let apart = move || Order(Vec::new(), sender).step(there, reminders);
                return std::thread::spawn(apart).join().unwrap();
            }
            Step::Panic => panic!("on purpose"),
        };
        if let Err(refused) = done {
            assert_eq!(refused, Refused::TimesZero);
            let _ = self.1.send("refused".into());
        }
    }
}

fn secs(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap()
}

struct Bench {
    kit: TestKit,
    store: Store,
    sender: Sender<String>,
    seen: Receiver<String>,
}

impl Bench {
    fn new() -> Self {
        let kit = TestKit::new("test").unwrap();
        let store = Store::new(kit.scheduler().timers());
        let (sender, seen) = channel();
        Self { kit, store, sender, seen }
    }

    /// A node whose actors do these steps when they are started, and sleep soon.
    fn node(&self, started: &[Step]) -> Durable {
        self.node_on(&self.store, started)
    }

    /// The same, whose calls wait long, on this path to the store.
    fn node_on(&self, store: &Store, started: &[Step]) -> Durable {
        let (sender, started) = (self.sender.clone(), started.to_vec());
        let soon = 10 * MILLISECOND;
        let backoff = BackoffPolicy::builder().initial(soon).cap(soon).build().unwrap();
        let kind = Kind::new(move |_| Order(started.clone(), sender.clone()));
        let kind = kind.backoff(backoff).passivate_after(5 * SECOND);
        // An actor that has panicked goes on with its mailbox.
        let kind = kind.props(|props| props.supervision(SupervisionStrategy::restart()));
        let node = store.node().call_timeout(2 * MINUTE).actors(&self.kit, kind).start().unwrap();
        self.kit.advance(SECOND);
        node
    }

    fn seen(&self) -> Vec<String> {
        self.seen.try_iter().collect()
    }
}

fn said(what: &str) -> Box<Event> {
    Box::new(Event::Say(what.into()))
}

fn tell(node: &Durable, steps: impl IntoIterator<Item = Step>) {
    let event = Event::Do(steps.into_iter().collect());
    node.timers().tell("order/17", event).submit().wait().unwrap();
}

fn is_empty(node: &Durable) -> bool {
    let seen = node.inspect().wait().unwrap();
    seen.handler("order").is_none_or(|order| order.pending.value + order.running.value == 0)
}

/// A reminder fails after it has started another one with its key, while the store is away. When
/// that is back, the failed one starts once more before the other takes its place.
#[test]
fn a_reminder_that_was_started_again_by_one_that_panicked_stays_cancelled_after_an_outage() {
    for step in 0..60 {
        let bench = Bench::new();
        let node = bench.node(&[]);
        let again = Step::Once("k".into(), 5, said("again"));
        let fails = Event::Do(vec![Step::Say("reminded".into()), again, Step::Panic]);
        tell(&node, [Step::Once("k".into(), 2, Box::new(fails))]);
        let cancels = vec![Step::Cancel("k".into()), Step::Say("cancelled".into())];
        let cancels =
            node.timers().tell_after("order/17", 2 * SECOND + SECOND / 2, Event::Do(cancels));
        cancels.submit().wait().unwrap();
        bench.kit.advance(SECOND);
        // Both are on their way to the actor when the store goes. A sweep fails before the actor
        // asks for anything, so what ends runs is tried again at other times than calls.
        bench.kit.advance_while_busy(2 * SECOND - 100 * MILLISECOND);
        bench.store.set_reachable(false);
        bench.kit.advance_while_busy(2 * SECOND + 100 * MILLISECOND);
        bench.kit.advance(step * 50 * MILLISECOND);
        bench.store.set_reachable(true);
        bench.kit.advance(MINUTE);
        let seen = bench.seen();
        let cancelled = seen.iter().rposition(|what| what == "cancelled").unwrap();
        assert!(seen.contains(&"reminded".into()), "step {step}: {seen:?}");
        assert_eq!(seen.len(), cancelled + 1, "step {step}: {seen:?}");
        assert!(is_empty(&node), "step {step}");
    }
}

#[test]
fn the_message_that_makes_an_actor_is_received_whatever_reminder_it_starts_then() {
    for starts in [
        Step::Once("k".into(), 600, said("later")),
        Step::Once("k".into(), 600, said("due")),
        Step::Rate("k".into(), 600, said("due")),
        Step::Rate("k".into(), 300, said("due")),
        Step::Delay("k".into(), 600, said("due")),
        Step::Minutely("k".into(), said("due")),
    ] {
        for (periodic, behind) in [(false, false), (false, true), (true, false), (true, true)] {
            let bench = Bench::new();
            let node = bench.node(&[]);
            let due = match periodic {
                false => Step::Once("k".into(), 60, said("due")),
                true => Step::Rate("k".into(), 60, said("due")),
            };
            tell(&node, [due]);
            bench.kit.advance(SECOND);
            // Another life, whose actors do this when they are made.
            node.close().unwrap();
            let node = bench.node(std::slice::from_ref(&starts));
            let mut expected = vec!["due"];
            if behind {
                // By this message; the reminder is on its way then.
                let first = node.timers().tell_after("order/17", 57 * SECOND, *said("first"));
                first.submit().wait().unwrap();
                expected.insert(0, "first");
            }
            bench.kit.advance(56 * SECOND);
            bench.kit.advance_while_busy(3 * SECOND);
            bench.kit.advance(3 * SECOND);
            assert_eq!(bench.seen(), expected, "{starts:?}, periodic: {periodic}");
            let left = node.timers().get("order/17::k").wait().unwrap();
            let rule = left.and_then(|left| left.rule);
            let repeats = !matches!(starts, Step::Once(..));
            assert_eq!(rule.is_some(), repeats, "{starts:?}, periodic: {periodic}");
        }
    }
}

#[test]
fn a_reminder_that_is_declared_when_its_actor_is_made_goes_on_through_all_its_lives() {
    let bench = Bench::new();
    let node = bench.node(&[Step::Rate("k".into(), 30, said("tick"))]);
    tell(&node, [Step::Say("made".into())]);
    // It sleeps after five seconds, and each tick makes it anew.
    bench.kit.advance(10 * MINUTE + SECOND);
    let seen = bench.seen();
    assert_eq!(seen.iter().filter(|what| *what == "tick").count(), 20, "{seen:?}");
    node.close().unwrap();
    // With another rule in the next life.
    let _node = bench.node(&[Step::Rate("k".into(), 60, said("tock"))]);
    bench.kit.advance(10 * MINUTE);
    let seen = bench.seen();
    assert_eq!((seen[0].as_str(), seen[1].as_str()), ("tick", "tock"), "{seen:?}");
    assert!((9..=11).contains(&seen.len()), "{seen:?}");
}

#[test]
fn what_an_actor_cancels_when_it_is_made_and_then_starts_begins_anew() {
    let bench = Bench::new();
    let node = bench.node(&[]);
    tell(&node, [Step::Once("k".into(), 60, said("old"))]);
    bench.kit.advance(SECOND);
    node.close().unwrap();
    let anew = [Step::Cancel("k".into()), Step::Once("k".into(), 120, said("new"))];
    let node = bench.node(&anew);
    tell(&node, [Step::Say("made".into())]);
    bench.kit.advance(90 * SECOND);
    assert_eq!(bench.seen(), ["made"]);
    bench.kit.advance(40 * SECOND);
    assert_eq!(bench.seen(), ["new"]);
    assert!(!is_empty(&node), "and its actor has started another one");
}

#[test]
fn periodic_reminders_end_after_so_many_or_before_the_first_one_behind_their_end() {
    // At 22:13:20; the cron reminders come at 22:14:00, 22:15:00, …
    for (key, times, until, expected) in [
        ("rate", Some(3), None, 3),
        ("delay", Some(3), None, 3),
        ("cron", Some(3), None, 3),
        ("rate", None, Some(65), 6),
        ("delay", None, Some(65), 6),
        ("cron", None, Some(160), 3),
        ("cron", None, Some(159), 2),
        ("rate", None, Some(1), 0),
    ] {
        let bench = Bench::new();
        let node = bench.node(&[]);
        tell(&node, [Step::Ending(key.into(), 10, times, until)]);
        bench.kit.advance(5 * MINUTE);
        assert_eq!(bench.seen().len(), expected, "{key}, {times:?}, {until:?}");
        assert!(is_empty(&node), "{key}, {times:?}, {until:?}");
    }
    let bench = Bench::new();
    let node = bench.node(&[]);
    tell(&node, [Step::Ending("rate".into(), 10, Some(0), None)]);
    bench.kit.advance(MINUTE);
    assert_eq!(bench.seen(), ["refused"]);
}

#[test]
fn what_an_actor_asked_for_before_its_bucket_went_to_another_node_does_nothing_afterwards() {
    for late in [Step::Cancel("payment".into()), Step::Once("payment".into(), 10, said("late"))] {
        let bench = Bench::new();
        let (here, there) = (&bench.store, bench.store.other_path());
        let one = bench.node_on(here, &[]);
        // It is handed over, and received when nothing gets through any more.
        tell(&one, [late]);
        bench.kit.advance_while_busy(10 * MILLISECOND);
        here.set_reachable(false);
        bench.kit.advance(SECOND);
        let two = bench.node_on(&there, &[]);
        bench.kit.advance(30 * SECOND);
        // That message has come to the actor there, too, which has decided anew since.
        tell(&two, [Step::Once("payment".into(), 60, said("second"))]);
        bench.kit.advance(SECOND);
        bench.seen();
        here.set_reachable(true);
        bench.kit.advance(100 * SECOND);
        assert_eq!(bench.seen(), ["second"]);
        assert!(is_empty(&two));
    }
}

#[test]
fn reminders_can_be_used_wherever_they_are_taken() {
    let bench = Bench::new();
    let node = bench.node(&[]);
    let once = |key: &str, after| Step::Once(key.into(), after, said(key));
    let apart = |step| Step::Apart(Box::new(step));
    tell(&node, [once("cancelled", 2), apart(Step::Cancel("cancelled".into()))]);
    tell(&node, [apart(once("started", 3))]);
    bench.kit.advance(10 * SECOND);
    assert_eq!(bench.seen(), ["started"]);
    assert!(is_empty(&node));
}
