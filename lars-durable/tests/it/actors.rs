//! Actors by name, in virtual time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::common;
use lars_base::backoff::BackoffPolicy;
use lars_durable::actors::{DurableActor, DurableContext, Envelope, Hosted, Kind};
use lars_durable::test_kit::Store;
use lars_durable::{Builder, Durable, Error, OnConflict, Payload, Refused};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{Context, Overflow, StopReason};
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Event {
    Say(String),
    /// How many first attempts panic.
    Panic(u32),
    /// Starts a reminder that says this.
    Remind(String, u64),
    /// Several, in their order: to say at a key.
    Script(Vec<Step>),
    /// Says how many are left, and starts itself again at the same key.
    Chain(u32),
    /// Starts a reminder at the key `self` that does these steps: once, or at a fixed rate.
    Own(bool, Vec<Step>),
    Stop,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Start(String, u64, String),
    Rate(String, u64, String),
    Delay(String, u64, String),
    Cancel(String),
    Panic,
    PanicAtFirst,
    Say(String),
    Stop,
}

impl Payload for Event {
    const NAME: &'static str = "order";
}

/// What an actor did: who, what, and in the how-many-th attempt with which fence.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    address: String,
    what: String,
    attempt: u32,
    fence: u64,
}

struct Order(Sender<Note>);

impl Order {
    fn note(&self, what: &str, ctx: &Context<Hosted<Self>>) {
        let (attempt, fence) = ctx.delivery().map_or((0, 0), |it| (it.attempt, it.fence));
        let address = ctx.address();
        let _ = self.0.send(Note { address, what: what.into(), attempt, fence });
    }
}

impl DurableActor for Order {
    type Reminder = Event;
    type Message = Event;

    fn started(&mut self, ctx: &mut Context<Hosted<Self>>) {
        self.note("started", ctx);
    }

    fn receive(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) {
        match event {
            Event::Say(what) => self.note(&what, ctx),
            Event::Panic(times) => {
                self.note("panic?", ctx);
                assert!(ctx.delivery().unwrap().attempt > times, "on purpose");
            }
            Event::Remind(what, seconds) => {
                let delay = Duration::from_secs(seconds);
                ctx.reminders().start_single("key", delay, Event::Say(what)).unwrap();
            }
            Event::Script(steps) => {
                for step in steps {
                    self.step(step, ctx);
                }
            }
            Event::Chain(left) => {
                self.note(&format!("{left} left"), ctx);
                if let Some(left) = left.checked_sub(1) {
                    ctx.reminders().start_single("chain", SECOND, Event::Chain(left)).unwrap();
                }
            }
            Event::Own(periodic, steps) => {
                let (mut reminders, event) = (ctx.reminders(), Event::Script(steps));
                match periodic {
                    true => reminders.start_at_fixed_rate("self", SECOND, SECOND, event).unwrap(),
                    false => reminders.start_single("self", SECOND, event).unwrap(),
                }
            }
            Event::Stop => ctx.stop(),
        }
    }

    fn stopped(&mut self, reason: StopReason, ctx: &mut Context<Hosted<Self>>) {
        self.note(&format!("stopped: {reason:?}"), ctx);
    }
}

impl Order {
    fn step(&mut self, step: Step, ctx: &mut Context<Hosted<Self>>) {
        let seconds = Duration::from_secs;
        let mut reminders = ctx.reminders();
        match step {
            Step::Start(key, after, what) => {
                reminders.start_single(key, seconds(after), Event::Say(what)).unwrap();
            }
            Step::Rate(key, every, what) => {
                let every = seconds(every);
                reminders.start_at_fixed_rate(key, every, every, Event::Say(what)).unwrap();
            }
            Step::Delay(key, every, what) => {
                let every = seconds(every);
                reminders.start_with_fixed_delay(key, every, every, Event::Say(what)).unwrap();
            }
            Step::Cancel(key) => reminders.cancel(key).unwrap(),
            Step::Panic => panic!("on purpose"),
            Step::PanicAtFirst => assert!(ctx.delivery().unwrap().attempt > 1, "on purpose"),
            Step::Say(what) => self.note(&what, ctx),
            Step::Stop => ctx.stop(),
        }
    }
}

/// A system, a store, and what the actors note.
struct Bench {
    kit: TestKit,
    store: Store,
    notes: Receiver<Note>,
    sender: Sender<Note>,
}

impl Bench {
    fn new() -> Self {
        let kit = TestKit::new("test").unwrap();
        let store = Store::new(kit.scheduler().timers());
        let (sender, notes) = channel();
        Self { kit, store, notes, sender }
    }

    fn kind(&self) -> Kind<Order> {
        let sender = self.sender.clone();
        let backoff = BackoffPolicy::builder().initial(SECOND).cap(SECOND).build().unwrap();
        Kind::new(move |_| Order(sender.clone())).backoff(backoff)
    }

    fn builder(&self) -> Builder {
        self.store.node().lease(LEASE)
    }

    fn node(&self) -> Durable {
        self.node_with(self.kind())
    }

    fn node_with(&self, kind: Kind<Order>) -> Durable {
        let node = self.builder().actors(&self.kit, kind).start().unwrap();
        self.kit.advance(SECOND);
        node
    }

    /// What was noted since the last call.
    fn whats(&self) -> Vec<String> {
        self.notes.try_iter().map(|note| note.what).collect()
    }

    fn notes_of(&self, what: &str) -> Vec<Note> {
        self.notes.try_iter().filter(|note| note.what == what).collect()
    }
}

fn tell(node: &Durable, address: &str, event: Event) {
    node.timers().tell(address, event).submit().wait().unwrap();
}

fn say(node: &Durable, address: &str, what: &str) {
    tell(node, address, Event::Say(what.into()));
}

fn is_empty(node: &Durable) -> bool {
    let seen = node.inspect().wait().unwrap();
    seen.handler("order").is_none_or(|order| order.pending.value + order.running.value == 0)
}

#[test]
fn a_message_makes_its_actor_is_received_once_and_is_gone() {
    let bench = Bench::new();
    let node = bench.node();
    say(&node, "order/17", "hello");
    assert!(!is_empty(&node));
    bench.kit.advance(SECOND);
    assert_eq!(bench.whats(), ["started", "hello"]);
    assert!(is_empty(&node));
    say(&node, "order/17", "again");
    say(&node, "order/a:b 100 %/ü", "another");
    bench.kit.advance(MINUTE);
    let notes: Vec<Note> = bench.notes.try_iter().collect();
    let whats: Vec<(&str, &str)> = notes.iter().map(|it| (&*it.address, &*it.what)).collect();
    let other = "order/a:b 100 %/ü";
    let expected = [("order/17", "again"), (other, "started"), (other, "another")];
    assert_eq!(whats.len(), 3);
    assert!(expected.iter().all(|it| whats.contains(it)), "{whats:?}");
    assert!(bench.kit.dead_letters().is_empty());
}

#[test]
fn a_message_for_later_comes_at_its_time_and_not_before() {
    let bench = Bench::new();
    let node = bench.node();
    let timers = node.timers();
    let later = timers.tell_after("order/17", 2 * MINUTE, Event::Say("later".into()));
    later.submit().wait().unwrap();
    bench.kit.advance(2 * MINUTE - Duration::from_millis(1));
    assert!(bench.whats().is_empty());
    bench.kit.advance(Duration::from_millis(1));
    assert_eq!(bench.whats(), ["started", "later"]);
}

#[test]
fn an_address_of_another_kind_or_without_a_name_is_refused_with_its_words() {
    let bench = Bench::new();
    let node = bench.node();
    let long = format!("order/{}", "x".repeat(250));
    for address in ["", "order", "order/", "orders/17", "invoice/17", &long] {
        let refused = node.timers().tell(address, Event::Stop).submit().wait().unwrap_err();
        let given = address.to_owned();
        let expected = Refused::Address { given, kind: "order", max: 255 };
        assert_eq!(refused, Error::Refused(expected), "{address}");
    }
}

#[test]
fn messages_of_one_actor_come_in_order_and_one_at_a_time() {
    let bench = Bench::new();
    let node = bench.node();
    for number in 0..100 {
        say(&node, &format!("order/{}", number % 3), &number.to_string());
    }
    bench.kit.advance(10 * SECOND);
    for name in 0..3 {
        let address = format!("order/{name}");
        say(&node, &address, "end");
    }
    bench.kit.advance(10 * SECOND);
    let notes: Vec<Note> = bench.notes.try_iter().collect();
    for name in 0..3_u32 {
        let address = format!("order/{name}");
        let whats: Vec<&str> =
            notes.iter().filter(|note| note.address == address).map(|note| &*note.what).collect();
        let numbers = (0..100).filter(|number| number % 3 == name).map(|it| it.to_string());
        let expected: Vec<String> =
            ["started".into()].into_iter().chain(numbers).chain(["end".into()]).collect();
        assert_eq!(whats, expected);
    }
}

#[test]
fn the_fences_that_an_actor_sees_grow_whatever_the_order_in_which_its_messages_were_made() {
    let bench = Bench::new();
    let node = bench.node();
    for number in 0..200 {
        let after = Duration::from_millis(number * 7 % 11);
        let message = Event::Say("booked".into());
        node.timers().tell_after("order/17", after, message).submit().wait().unwrap();
    }
    bench.kit.advance(SECOND);
    drop(node);
    bench.kit.advance(SECOND);
    let other = bench.node();
    say(&other, "order/17", "booked");
    bench.kit.advance(SECOND);
    let fences: Vec<u64> = bench.notes_of("booked").iter().map(|note| note.fence).collect();
    assert_eq!(fences.len(), 201);
    assert!(fences.is_sorted_by(|one, next| one < next), "{:?}", &fences[..20]);
}

#[test]
fn a_message_whose_handler_panics_comes_again_by_the_backoff_to_a_new_actor() {
    let bench = Bench::new();
    let node = bench.node();
    tell(&node, "order/17", Event::Panic(2));
    bench.kit.advance(100 * Duration::from_millis(1));
    assert_eq!(bench.notes_of("panic?").len(), 1);
    bench.kit.advance(SECOND);
    assert_eq!(bench.notes_of("panic?")[0].attempt, 2);
    bench.kit.advance(SECOND);
    let notes: Vec<Note> = bench.notes.try_iter().collect();
    let whats: Vec<&str> = notes.iter().map(|note| &*note.what).collect();
    assert_eq!(whats, ["started", "panic?"], "the one that panicked has stopped");
    assert_eq!(notes[1].attempt, 3);
    assert!(is_empty(&node));
}

#[test]
fn a_restarted_actor_gets_the_message_again() {
    let bench = Bench::new();
    let restart = bench.kind().props(|props| props.supervision(SupervisionStrategy::restart()));
    let node = bench.node_with(restart);
    tell(&node, "order/17", Event::Panic(1));
    bench.kit.advance(5 * SECOND);
    let whats = bench.whats();
    assert_eq!(whats, ["started", "panic?", "started", "panic?"], "without `stopped`");
    assert!(is_empty(&node));
}

#[test]
fn a_message_that_always_panics_is_parked_after_its_attempts() {
    let bench = Bench::new();
    let node = bench.node_with(bench.kind().max_attempts(3));
    tell(&node, "order/17", Event::Panic(100));
    bench.kit.advance(MINUTE);
    assert_eq!(bench.notes_of("panic?").len(), 3);
    let parked = common::parked(&node.timers());
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].reason, "attempt 3 failed: the actor panicked");
}

#[test]
fn what_waits_behind_a_message_that_ends_its_actor_comes_next_and_at_no_attempts_cost() {
    for end in [Event::Panic(100), Event::Stop] {
        let bench = Bench::new();
        let node = bench.node_with(bench.kind().max_attempts(1));
        let mut all: Vec<_> = vec![node.timers().tell("order/17", end)];
        let more = (0..5).map(|number| Event::Say(format!("{number}")));
        all.extend(more.map(|event| node.timers().tell("order/17", event)));
        node.timers().schedule_batch(all).wait().unwrap();
        bench.kit.advance(SECOND);
        let whats = bench.whats();
        let said = whats.iter().filter(|what| what.parse::<u32>().is_ok());
        assert!(said.eq(&["0", "1", "2", "3", "4"]), "{whats:?}");
        assert_eq!(node.metrics().retried, 0);
    }
}

#[test]
fn properties_that_panic_fail_the_message_and_nothing_else() {
    let bench = Bench::new();
    let times = std::sync::atomic::AtomicUsize::new(0);
    let kind = bench.kind().props(move |props| {
        let before = times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(before > 0, "on purpose");
        props
    });
    let node = bench.node_with(kind);
    say(&node, "order/17", "hello");
    bench.kit.advance(5 * SECOND);
    let notes = bench.notes_of("hello");
    assert_eq!((notes.len(), notes[0].attempt), (1, 2));
}

#[test]
fn a_full_mailbox_puts_a_message_off_and_costs_it_no_attempt() {
    let bench = Bench::new();
    let small = bench.kind().props(|props| props.bounded(1, Overflow::Fail));
    let node = bench.node_with(small);
    say(&node, "order/17", "first");
    bench.kit.advance(SECOND);
    let actor = bench.kit.find::<Envelope<Event>>("/order:17").unwrap();
    // What is not durable fills it, while it is busy.
    actor.tell(Event::Say("volatile".into()).into()).unwrap();
    say(&node, "order/17", "durable");
    bench.kit.advance_while_busy(Duration::from_millis(500));
    assert_eq!(actor.metrics().mailbox_depth, 1);
    bench.kit.advance(10 * SECOND);
    let notes: Vec<Note> = bench.notes.try_iter().collect();
    let seen: Vec<(&str, u32)> = notes.iter().map(|it| (&*it.what, it.attempt)).collect();
    assert_eq!(seen, [("started", 0), ("first", 1), ("volatile", 0), ("durable", 1)]);
    assert!(bench.kit.dead_letters().is_empty());
}

#[test]
fn a_mailbox_that_drops_its_oldest_message_loses_no_durable_one() {
    let bench = Bench::new();
    let dropping = bench.kind().props(|props| props.bounded(1, Overflow::DropOldest));
    let node = bench.node_with(dropping);
    say(&node, "order/17", "first");
    bench.kit.advance(SECOND);
    let actor = bench.kit.find::<Envelope<Event>>("/order:17").unwrap();
    say(&node, "order/17", "durable");
    bench.kit.advance_while_busy(Duration::from_millis(500));
    actor.tell(Event::Say("volatile".into()).into()).unwrap();
    bench.kit.advance(10 * SECOND);
    assert_eq!(bench.kit.dead_letters().len(), 1, "the durable one, which comes again");
    let notes: Vec<Note> = bench.notes.try_iter().collect();
    let seen: Vec<(&str, u32)> = notes.iter().map(|it| (&*it.what, it.attempt)).collect();
    assert_eq!(seen, [("started", 0), ("first", 1), ("volatile", 0), ("durable", 2)]);
}

#[test]
fn what_was_delivered_and_not_acknowledged_when_its_node_died_comes_again_elsewhere() {
    let bench = Bench::new();
    let (one, two) = (bench.node(), bench.node());
    bench.kit.advance(5 * LEASE);
    for number in 0..40 {
        say(&one, &format!("order/{number}"), "survives");
    }
    // Delivered, and not received.
    bench.kit.advance_while_busy(4 * SECOND);
    one.kill();
    bench.kit.advance(3 * LEASE);
    let notes = bench.notes_of("survives");
    let mut addresses: Vec<&String> = notes.iter().map(|note| &note.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 40, "nothing is lost");
    assert_eq!(notes.len(), 40, "and what was not received is not received twice");
    assert!(notes.iter().any(|note| note.attempt == 2), "some were on their way at the dead one");
    assert!(is_empty(&two));
}

#[test]
fn an_actors_messages_come_in_their_order_after_their_node_has_died_among_them() {
    let bench = Bench::new();
    // One place is kept for other actors.
    let one = bench.node_with(bench.kind().concurrency(5));
    for number in 0..6 {
        let say = Event::Say(number.to_string());
        one.timers().tell_after("order/17", MINUTE, say).submit().wait().unwrap();
    }
    // Four of them are started, and their ends cannot be recorded.
    bench.kit.advance(MINUTE - Duration::from_millis(3));
    bench.store.set_reachable(false);
    bench.kit.advance(SECOND);
    one.kill();
    bench.kit.advance(SECOND);
    let said = |what: &String| what.len() == 1;
    let before: Vec<String> = bench.whats().into_iter().filter(said).collect();
    assert_eq!(before, ["0", "1", "2", "3"]);
    bench.store.set_reachable(true);
    let _two = bench.node();
    bench.kit.advance(MINUTE);
    let after: Vec<String> = bench.whats().into_iter().filter(said).collect();
    assert_eq!(after, ["0", "1", "2", "3", "4", "5"]);
}

#[test]
fn a_handler_that_had_returned_when_its_node_died_may_see_its_message_again_with_a_greater_fence() {
    let bench = Bench::new();
    let one = bench.node();
    say(&one, "order/17", "first");
    bench.kit.advance(SECOND);
    let before = bench.notes_of("first")[0].fence;
    one.kill();
    let two = bench.node();
    say(&two, "order/17", "second");
    bench.kit.advance(3 * LEASE);
    assert!(bench.notes_of("second")[0].fence > before);
}

#[test]
fn an_actor_stops_after_a_silence_and_the_next_message_makes_it_again() {
    let bench = Bench::new();
    let node = bench.node_with(bench.kind().passivate_after(MINUTE));
    say(&node, "order/17", "first");
    bench.kit.advance(MINUTE - SECOND);
    say(&node, "order/17", "second");
    bench.kit.advance(MINUTE - SECOND);
    assert_eq!(bench.whats(), ["started", "first", "second"]);
    bench.kit.advance(2 * SECOND);
    assert_eq!(bench.whats(), ["stopped: Asked"]);
    say(&node, "order/17", "third");
    bench.kit.advance(SECOND);
    assert_eq!(bench.whats(), ["started", "third"]);
}

#[test]
fn an_actor_that_may_be_silent_for_no_time_stops_when_it_has_received_what_there_is() {
    let bench = Bench::new();
    let node = bench.node_with(bench.kind().passivate_after(Duration::ZERO));
    say(&node, "order/17", "hello");
    bench.kit.advance(SECOND);
    assert_eq!(bench.whats(), ["started", "hello", "stopped: Asked"]);
}

#[test]
fn a_reminder_that_races_the_passivation_is_received_once_whoever_wins() {
    for offset in 0..40 {
        let bench = Bench::new();
        let node = bench.node_with(bench.kind().passivate_after(MINUTE));
        say(&node, "order/17", "first");
        bench.kit.advance(Duration::from_millis(10));
        // Around the end of the silence, some of them while the actor is busy stopping.
        let delay = MINUTE - Duration::from_millis(20) + Duration::from_millis(offset);
        let late = node.timers().tell_after("order/17", delay, Event::Say("late".into()));
        late.submit().wait().unwrap();
        bench.kit.advance(MINUTE - Duration::from_millis(30));
        bench.kit.advance_while_busy(Duration::from_millis(100));
        bench.kit.advance(10 * SECOND);
        let late = bench.notes_of("late");
        assert_eq!(late.len(), 1, "offset {offset}");
        assert_eq!(late[0].attempt, 1, "it cost no attempt; offset {offset}");
        assert!(is_empty(&node));
        assert!(bench.kit.dead_letters().is_empty());
    }
}

#[test]
fn there_is_one_living_copy_of_a_name_on_all_nodes() {
    let bench = Bench::new();
    let one = bench.node();
    // More than buckets, so that somebody lives in each; those in which nobody does go first.
    for number in 0..256 {
        say(&one, &format!("order/{number}"), "first");
    }
    bench.kit.advance(5 * SECOND);
    let _two = bench.node();
    // The buckets are shared: half of the actors go before their buckets do.
    bench.kit.advance(10 * LEASE);
    for number in 0..256 {
        say(&one, &format!("order/{number}"), "second");
    }
    bench.kit.advance(10 * SECOND);
    let mut living = 0_i32;
    let mut alive = std::collections::BTreeMap::new();
    for note in bench.notes.try_iter() {
        let here: &mut i32 = alive.entry(note.address.clone()).or_default();
        match &*note.what {
            "started" => *here += 1,
            "stopped: Asked" => {
                *here -= 1;
                living += 1;
            }
            _ => {}
        }
        assert!((0..=1).contains(here), "{} lives twice", note.address);
    }
    assert!(living > 5, "some have moved");
    assert!(alive.values().all(|here| *here == 1));
}

#[test]
fn the_actors_of_a_node_that_lost_its_lease_are_killed_and_live_again_elsewhere() {
    let bench = Bench::new();
    let one = bench.node();
    say(&one, "order/17", "first");
    bench.kit.advance(SECOND);
    one.kill();
    assert!(bench.kit.terminations().iter().any(|gone| gone.path.contains("order:17")));
    let two = bench.node();
    say(&two, "order/17", "second");
    bench.kit.advance(3 * LEASE);
    assert_eq!(bench.whats(), ["started", "first", "stopped: Killed", "started", "second"]);
}

#[test]
fn an_actor_whose_node_lost_its_lease_for_a_while_is_made_again_by_the_next_message() {
    // Nobody else took its buckets, so it has them in the same epoch as before.
    let bench = Bench::new();
    let node = bench.node();
    say(&node, "order/17", "first");
    bench.kit.advance(SECOND);
    for round in 1..=3 {
        bench.store.set_reachable(false);
        bench.kit.advance(LEASE * 9 / 10);
        let expected: &[&str] = match round {
            1 => &["started", "first", "stopped: Killed"],
            _ => &["started", "second", "stopped: Killed"],
        };
        assert_eq!(bench.whats(), expected, "round {round}");
        bench.store.set_reachable(true);
        bench.kit.advance(3 * SECOND);
        let before = node.metrics().started;
        say(&node, "order/17", "second");
        bench.kit.advance(SECOND);
        assert_eq!(node.metrics().started - before, 1, "round {round}");
    }
    assert_eq!(bench.whats(), ["started", "second"]);
    assert!(is_empty(&node));
}

#[test]
fn an_actor_that_takes_long_to_die_after_a_lost_lease_keeps_no_other_of_its_bucket_waiting() {
    let bench = Bench::new();
    let node = bench.node();
    // More than buckets, so that each has some.
    let names: Vec<String> = (0..256).map(|number| format!("order/{number}")).collect();
    names.iter().for_each(|name| say(&node, name, "first"));
    bench.kit.advance(SECOND);
    let before = node.metrics().started;
    bench.store.set_reachable(false);
    // They are told to go, and busy.
    bench.kit.advance_while_busy(LEASE * 9 / 10);
    bench.store.set_reachable(true);
    bench.kit.advance_while_busy(3 * SECOND);
    names.iter().for_each(|name| say(&node, name, "second"));
    bench.kit.advance_while_busy(5 * SECOND);
    let started = node.metrics().started - before;
    assert_eq!(started, 256, "each message is on its way to its actor, once");
    bench.kit.advance(SECOND);
    assert_eq!(bench.notes_of("second").len(), 256);
    assert!(is_empty(&node));
}

#[test]
fn closing_the_node_stops_its_actors_and_gives_its_buckets_back_at_once() {
    let bench = Bench::new();
    let one = bench.node();
    say(&one, "order/17", "first");
    bench.kit.advance(SECOND);
    one.close().unwrap();
    bench.kit.settle();
    assert_eq!(bench.whats(), ["started", "first", "stopped: Asked"]);
    let two = bench.builder().start().unwrap();
    bench.kit.advance(Duration::from_millis(1));
    let seen = two.inspect().wait().unwrap();
    assert_eq!((seen.nodes.len(), seen.free_buckets), (1, 64), "without waiting for a lease");
}

#[test]
fn a_node_that_closes_hands_all_its_actors_over_without_waiting_for_a_lease() {
    const NAMES: usize = 256;
    let bench = Bench::new();
    let (one, two) = (bench.node(), bench.node());
    bench.kit.advance(10 * LEASE);
    let names: Vec<String> = (0..NAMES).map(|number| format!("order/{number}")).collect();
    names.iter().for_each(|name| say(&one, name, "first"));
    bench.kit.advance(5 * SECOND);
    assert_eq!(bench.notes_of("first").len(), NAMES);
    let before = bench.kit.elapsed();
    one.close().unwrap();
    bench.kit.settle();
    let gone = bench.notes_of("stopped: Asked").len();
    assert!((NAMES / 4..NAMES).contains(&gone), "{gone} of the actors lived there");
    let seen = two.inspect().wait().unwrap();
    assert_eq!((seen.nodes.len(), seen.free_buckets), (1, 32));
    assert_eq!(bench.kit.elapsed(), before, "all of it in no time");
    names.iter().for_each(|name| say(&two, name, "second"));
    // Until the other node renews its lease, and sees what is free.
    bench.kit.advance(LEASE / 2);
    let whats = bench.whats();
    let count = |what: &str| whats.iter().filter(|seen| *seen == what).count();
    assert_eq!((count("second"), count("started")), (NAMES, gone));
    assert!(is_empty(&two));
}

#[test]
fn closing_the_actor_system_closes_the_node_which_gives_its_buckets_back() {
    let bench = Bench::new();
    let one = bench.node();
    let other = bench.builder().start().unwrap();
    say(&one, "order/17", "first");
    bench.kit.advance(SECOND);
    let later = one.timers().tell_after("order/17", MINUTE, Event::Say("kept".into()));
    later.submit().wait().unwrap();
    say(&one, "order/18", "received while it closes");
    assert!(bench.kit.close().unwrap().is_complete());
    let seen = other.inspect().wait().unwrap();
    assert_eq!(seen.free_buckets, 64);
    assert_eq!(seen.handler("order").unwrap().running.value, 0);
    assert!(seen.handler("order").unwrap().pending.value >= 1, "what was not received stays");
    let closed = one.timers().tell("order/17", Event::Stop).submit().wait().unwrap_err();
    assert_eq!(closed, Error::Refused(Refused::Closed));
}

#[test]
fn a_reminder_outlives_its_actor_and_its_node() {
    let bench = Bench::new();
    let one = bench.node();
    tell(&one, "order/17", Event::Remind("payment".into(), 600));
    bench.kit.advance(SECOND);
    tell(&one, "order/17", Event::Stop);
    bench.kit.advance(MINUTE);
    one.kill();
    let _two = bench.node();
    bench.kit.advance(7 * MINUTE);
    assert!(bench.notes_of("payment").is_empty());
    bench.kit.advance(3 * MINUTE);
    assert_eq!(bench.notes_of("payment").len(), 1);
}

fn script(steps: impl IntoIterator<Item = Step>) -> Event {
    Event::Script(steps.into_iter().collect())
}

fn start(key: &str, after: u64, what: &str) -> Step {
    Step::Start(key.into(), after, what.into())
}

#[test]
fn a_reminder_replaces_the_one_with_its_key_and_leaves_the_others() {
    let bench = Bench::new();
    let node = bench.node();
    tell(
        &node,
        "order/17",
        script([start("a", 10, "a1"), start("b", 10, "b"), start("a", 20, "a2")]),
    );
    tell(&node, "order/18", script([start("a", 10, "other")]));
    bench.kit.advance(MINUTE);
    let mut whats = bench.whats();
    whats.retain(|what| what != "started");
    assert_eq!(whats.len(), 3, "{whats:?}");
    assert!(whats.contains(&"b".into()) && whats.contains(&"other".into()), "{whats:?}");
    assert_eq!(whats[2], "a2");
    assert!(is_empty(&node));
}

#[test]
fn nothing_of_a_reminder_that_was_cancelled_or_replaced_is_received_even_if_it_is_on_its_way() {
    let bench = Bench::new();
    let node = bench.node();
    let first = [start("a", 10, "a1"), start("b", 10, "b1"), start("c", 10, "c1")];
    tell(&node, "order/17", script(first));
    bench.kit.advance(2 * SECOND);
    // Received before the reminders, which come due while it waits for its turn.
    let cancel = |key: &str| Step::Cancel(key.into());
    let steps = [cancel("a"), start("b", 5, "b2"), start("c", 5, "c2"), cancel("c")];
    node.timers()
        .tell_after("order/17", Duration::from_millis(7_900), script(steps))
        .submit()
        .wait()
        .unwrap();
    bench.kit.advance(7 * SECOND);
    bench.kit.advance_while_busy(3 * SECOND);
    bench.kit.advance(MINUTE);
    assert_eq!(bench.whats(), ["started", "b2"]);
    assert!(is_empty(&node));
    let seen = node.metrics();
    assert_eq!((seen.retried, seen.parked, seen.stale), (0, 0, 0));
}

#[test]
fn a_reminder_that_was_started_when_it_was_cancelled_is_not_received_when_it_arrives() {
    for replaced in [false, true] {
        for offset in 0..20 {
            let bench = Bench::new();
            let node = bench.node();
            tell(&node, "order/17", script([start("a", 10, "reminded")]));
            bench.kit.advance(SECOND);
            // Around the instant at which the start is recorded, and that of the reminder.
            let after = Duration::from_millis(8_990 + offset);
            let end = if replaced { start("a", 600, "later") } else { Step::Cancel("a".into()) };
            let steps = script([Step::Say("ended".into()), end]);
            node.timers().tell_after("order/17", after, steps).submit().wait().unwrap();
            bench.kit.advance(MINUTE);
            let whats = bench.whats();
            let place = |what: &str| whats.iter().position(|seen| seen == what);
            let (ended, reminded) = (place("ended").unwrap(), place("reminded"));
            assert!(reminded.is_none_or(|at| at < ended), "offset {offset}: {whats:?}");
            assert_eq!(is_empty(&node), !replaced, "offset {offset}");
            assert_eq!(node.metrics().parked, 0);
        }
    }
}

#[test]
fn a_message_of_other_code_with_a_key_that_the_actor_has_given_up_is_received() {
    let cancel = || Step::Cancel("a".into());
    let ways = [
        // It cancels what is not there, what waits, what it has replaced; and it keeps one that
        // other code then replaces.
        vec![cancel()],
        vec![start("a", 10, "old"), cancel()],
        vec![start("a", 10, "old"), start("a", 20, "old"), cancel()],
        vec![start("a", 600, "old")],
    ];
    for steps in ways {
        let bench = Bench::new();
        let node = bench.node();
        tell(&node, "order/17", script(steps.clone()));
        bench.kit.advance(SECOND);
        for number in 0..3 {
            let newer = node.timers().tell("order/17", Event::Say(number.to_string()));
            let newer = newer.key("order/17::a").on_conflict(OnConflict::Replace);
            newer.submit().wait().unwrap();
            bench.kit.advance(SECOND);
        }
        bench.kit.advance(MINUTE);
        assert_eq!(bench.whats(), ["started", "0", "1", "2"], "{steps:?}");
        assert!(is_empty(&node), "{steps:?}");
    }
}

#[test]
fn a_reminder_may_start_itself_again_in_its_own_handler() {
    let bench = Bench::new();
    let node = bench.node();
    tell(&node, "order/17", Event::Chain(5));
    bench.kit.advance(MINUTE);
    let expected = ["started", "5 left", "4 left", "3 left", "2 left", "1 left", "0 left"];
    assert_eq!(bench.whats(), expected);
    assert!(is_empty(&node));
    assert_eq!(node.metrics().stale, 0);
}

#[test]
fn a_reminder_that_ends_itself_in_its_own_handler_is_received_once_and_is_gone() {
    let (say, cancel) = (Step::Say("received".into()), Step::Cancel("self".into()));
    let again = start("self", 5, "again");
    let ways = [
        (vec![say.clone(), cancel.clone()], 0),
        (vec![say.clone(), cancel.clone(), Step::Stop], 0),
        (vec![say.clone(), cancel.clone(), cancel.clone()], 0),
        (vec![say.clone(), cancel.clone(), again.clone()], 1),
        (vec![say, again, cancel], 0),
    ];
    for (steps, successors) in ways {
        for periodic in [false, true] {
            let bench = Bench::new();
            let node = bench.node_with(bench.kind().max_attempts(1));
            tell(&node, "order/17", Event::Own(periodic, steps.clone()));
            bench.kit.advance(MINUTE);
            let whats = bench.whats();
            let count = |what: &str| whats.iter().filter(|seen| *seen == what).count();
            let (received, after) = (count("received"), count("again"));
            assert_eq!((received, after), (1, successors), "{steps:?}, periodic: {periodic}");
            assert!(is_empty(&node), "{steps:?}, periodic: {periodic}");
            let seen = node.metrics();
            let failed = (seen.retried, seen.parked, seen.stale);
            assert_eq!(failed, (0, 0, 0), "{steps:?}, periodic: {periodic}");
            assert_eq!(seen.done, 2 + successors as u64, "{steps:?}, periodic: {periodic}");
        }
    }
}

#[test]
fn a_reminder_that_cancels_itself_and_then_fails_comes_again() {
    for (periodic, restarts) in [(false, false), (true, false), (false, true), (true, true)] {
        let bench = Bench::new();
        let restart =
            if restarts { SupervisionStrategy::restart() } else { SupervisionStrategy::default() };
        let kind = bench.kind().props(move |props| props.supervision(restart.clone()));
        let node = bench.node_with(kind);
        let steps = vec![Step::Cancel("self".into()), Step::PanicAtFirst, Step::Say("done".into())];
        tell(&node, "order/17", Event::Own(periodic, steps));
        bench.kit.advance(MINUTE);
        let notes = bench.notes_of("done");
        let attempts: Vec<u32> = notes.iter().map(|note| note.attempt).collect();
        assert_eq!(attempts, [2], "periodic: {periodic}, restarts: {restarts}");
        assert!(is_empty(&node));
    }
}

#[test]
fn periodic_reminders_go_on_until_they_are_cancelled_and_make_their_actor() {
    let bench = Bench::new();
    let node = bench.node_with(bench.kind().passivate_after(5 * SECOND));
    let steps = [
        Step::Rate("rate".into(), 10, "tick".into()),
        Step::Delay("delay".into(), 20, "tock".into()),
    ];
    tell(&node, "order/17", script(steps));
    bench.kit.advance(65 * SECOND);
    let whats = bench.whats();
    let count = |what: &str| whats.iter().filter(|seen| *seen == what).count();
    assert_eq!((count("tick"), count("tock")), (6, 3), "{whats:?}");
    assert!(count("started") > 3, "it was passive in between");
    tell(&node, "order/17", script([Step::Cancel("rate".into()), Step::Cancel("delay".into())]));
    bench.kit.advance(MINUTE);
    let whats = bench.whats();
    assert!(!whats.contains(&"tick".into()), "{whats:?}");
    assert!(is_empty(&node));
}

#[test]
fn what_a_handler_that_panics_asked_of_its_reminders_stands_and_is_replaced_the_next_time() {
    let bench = Bench::new();
    let node = bench.node_with(bench.kind().max_attempts(2));
    tell(&node, "order/17", script([start("a", 10, "a"), Step::Panic]));
    bench.kit.advance(MINUTE);
    assert_eq!(bench.notes_of("a").len(), 1, "each attempt replaced that of the one before");
}

#[test]
fn what_a_handler_asks_of_its_reminders_is_committed_before_its_message_is_acknowledged() {
    // The node is killed at each instant around the handler; the reminder or the message is there.
    for offset in 0..20 {
        let bench = Bench::new();
        let one = bench.node();
        let steps = script([start("a", 20, "reminded")]);
        one.timers().tell_after("order/17", SECOND, steps).submit().wait().unwrap();
        bench.kit.advance(SECOND - Duration::from_millis(10) + Duration::from_millis(offset));
        one.kill();
        let two = bench.node();
        bench.kit.advance(5 * LEASE);
        assert_eq!(bench.notes_of("reminded").len(), 1, "offset {offset}");
        assert!(is_empty(&two));
    }
}

#[test]
fn a_message_that_was_handled_when_its_node_was_dropped_does_not_come_again() {
    let bench = Bench::new();
    let one = bench.node();
    let steps = script([Step::Say("handled".into()), start("a", 20, "reminded")]);
    one.timers().tell_after("order/17", SECOND, steps).submit().wait().unwrap();
    bench.kit.advance(SECOND - Duration::from_millis(1));
    // The reminder that its handler has asked for is not committed yet.
    bench.store.set_reachable(false);
    bench.kit.advance(Duration::from_millis(1));
    assert_eq!(bench.notes_of("handled").len(), 1);
    drop(one);
    bench.kit.advance(SECOND);
    bench.store.set_reachable(true);
    let two = bench.node();
    bench.kit.advance(MINUTE);
    let seen = bench.whats();
    assert!(!seen.iter().any(|what| what == "handled"), "{seen:?}");
    assert_eq!(seen.iter().filter(|what| *what == "reminded").count(), 1, "{seen:?}");
    assert!(is_empty(&two));
}

#[test]
fn an_actor_is_known_by_its_system_and_can_tell_itself_what_is_not_durable() {
    let bench = Bench::new();
    let node = bench.node();
    say(&node, "order/17", "first");
    bench.kit.advance(SECOND);
    let actor = bench.kit.find::<Envelope<Event>>("/order:17").unwrap();
    actor.tell(Event::Say("volatile".into()).into()).unwrap();
    bench.kit.settle();
    let notes: Vec<Note> = bench.notes.try_iter().collect();
    assert_eq!((&*notes[2].what, notes[2].attempt, notes[2].fence), ("volatile", 0, 0));
}
