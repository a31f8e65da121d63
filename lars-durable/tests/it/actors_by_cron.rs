//! Reminders of actors by cron, in virtual time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lars_durable::actors::{DurableActor, DurableContext, Hosted, Kind};
use lars_durable::test_kit::Store;
use lars_durable::{Durable, MissedRuns, Payload, Refused};
use mini_actor::Context;
use mini_actor::test_kit::TestKit;
use serde::{Deserialize, Serialize};

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
enum Event {
    /// Starts a reminder at each full minute, with this rule for what was missed.
    Minutely {
        every: bool,
    },
    Wrong,
    Due,
    Cancel,
}

impl Payload for Event {
    const NAME: &'static str = "report";
}

struct Report(Sender<Option<Refused>>);

impl DurableActor for Report {
    type Reminder = Event;
    type Message = Event;

    fn receive(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) {
        let mut reminders = ctx.reminders();
        match event {
            Event::Minutely { every } => {
                let missed = if every { MissedRuns::Burst } else { MissedRuns::Once };
                let mut reminders = reminders.missed_runs(missed);
                reminders.start_by_cron("minutely", "* * * * *", "Etc/UTC", Event::Due).unwrap();
            }
            Event::Wrong => {
                let wrong = reminders.start_by_cron("x", "61 * * * *", "Etc/UTC", Event::Due);
                self.0.send(wrong.err()).unwrap();
            }
            Event::Due => self.0.send(None).unwrap(),
            Event::Cancel => reminders.cancel("minutely").unwrap(),
        }
    }
}

struct Bench {
    kit: TestKit,
    store: Store,
    sender: Sender<Option<Refused>>,
    seen: Receiver<Option<Refused>>,
}

impl Bench {
    fn new() -> Self {
        let kit = TestKit::new("test").unwrap();
        let store = Store::new(kit.scheduler().timers());
        let (sender, seen) = channel();
        Self { kit, store, sender, seen }
    }

    fn node(&self) -> Durable {
        let sender = self.sender.clone();
        let kind = Kind::new(move |_| Report(sender.clone()));
        self.store.node().actors(&self.kit, kind).start().unwrap()
    }

    fn tell(&self, node: &Durable, event: Event) {
        node.timers().tell("report/17", event).submit().wait().unwrap();
        self.kit.advance(Duration::from_secs(1));
    }

    fn due(&self) -> usize {
        self.seen.try_iter().filter(Option::is_none).count()
    }
}

#[test]
fn a_reminder_by_cron_comes_at_each_occurrence_until_it_is_cancelled() {
    let bench = Bench::new();
    let node = bench.node();
    bench.tell(&node, Event::Minutely { every: false });
    bench.kit.advance(10 * MINUTE);
    assert_eq!(bench.due(), 10);
    bench.tell(&node, Event::Cancel);
    bench.kit.advance(10 * MINUTE);
    assert_eq!(bench.due(), 0);
}

#[test]
fn what_a_reminder_by_cron_missed_is_made_up_for_by_its_rule() {
    for (every, expected) in [(false, 1), (true, 5)] {
        let bench = Bench::new();
        let node = bench.node();
        bench.tell(&node, Event::Minutely { every });
        bench.kit.advance(MINUTE);
        assert_eq!(bench.due(), 1);
        node.kill();
        bench.kit.advance(5 * MINUTE);
        let _next = bench.node();
        bench.kit.advance(MINUTE / 2);
        assert_eq!(bench.due(), expected);
    }
}

#[test]
fn a_reminder_by_an_expression_that_is_none_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let node = bench.node();
    bench.tell(&node, Event::Wrong);
    let refused = bench.seen.try_recv().unwrap().expect("an error");
    assert!(refused.to_string().contains("61"), "{refused}");
    let left = node.inspect().wait().unwrap();
    assert_eq!(left.handler("report").map(|it| it.pending.value), Some(0));
}
