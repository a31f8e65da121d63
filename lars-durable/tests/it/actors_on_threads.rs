//! Actors by name on real threads and in a file: what virtual time cannot show.

use crate::common;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Directory, LONG};
use lars_base::backoff::BackoffPolicy;
use lars_durable::actors::{DurableActor, DurableContext, Hosted, Kind};
use lars_durable::{Durable, Payload};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::{Actor, ActorSystem, Context, Overflow, StopReason};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Event {
    Number(u32),
    Remind,
    Reminded,
}

impl Payload for Event {
    const NAME: &'static str = "account";
}

/// How many copies of each name live, and what they received.
#[derive(Default)]
struct Book {
    living: HashMap<String, i32>,
    numbers: HashMap<String, Vec<u32>>,
    problems: Vec<String>,
}

struct Account {
    name: String,
    book: Arc<Mutex<Book>>,
    received: Sender<Event>,
}

impl Account {
    fn new(name: &str, book: &Arc<Mutex<Book>>, received: &Sender<Event>) -> Self {
        let mut open = book.lock().unwrap();
        let living = open.living.entry(name.into()).or_default();
        *living += 1;
        if *living != 1 {
            let problem = format!("{living} copies of {name}");
            open.problems.push(problem);
        }
        drop(open);
        Self { name: name.into(), book: Arc::clone(book), received: received.clone() }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        *self.book.lock().unwrap().living.get_mut(&self.name).unwrap() -= 1;
    }
}

impl DurableActor for Account {
    type Reminder = Event;
    type Message = Event;

    fn receive(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) {
        match event {
            Event::Number(number) => {
                let attempt = ctx.delivery().unwrap().attempt;
                assert!(number % 17 != 3 || attempt > 1, "on purpose");
                let mut book = self.book.lock().unwrap();
                book.numbers.entry(self.name.clone()).or_default().push(number);
            }
            Event::Remind => {
                let soon = Duration::from_millis(300);
                ctx.reminders().start_single("key", soon, Event::Reminded).unwrap();
            }
            Event::Reminded => {}
        }
        let _ = self.received.send(event);
    }

    fn stopped(&mut self, _: StopReason, _: &mut Context<Hosted<Self>>) {}
}

#[test]
fn every_message_is_received_by_the_one_copy_of_its_name_when_panics_and_passivations_race() {
    const NAMES: u32 = 20;
    const EACH: u32 = 60;
    let directory = Directory::new("actors");
    let system = ActorSystem::new("accounts").unwrap();
    let (book, (received, events)) = (Arc::new(Mutex::new(Book::default())), channel());
    let backoff = BackoffPolicy::builder().initial(Duration::from_millis(1)).build().unwrap();
    let here = Arc::clone(&book);
    let kind = Kind::new(move |name| Account::new(name, &here, &received))
        .passivate_after(Duration::from_millis(1))
        .backoff(backoff)
        .props(|props| {
            props.bounded(4, Overflow::DropOldest).supervision(SupervisionStrategy::restart())
        });
    // No machine stands still for so long that the lease ends: actors would be killed, and receive
    // again what they had received.
    let builder = Durable::sqlite(directory.file()).lease(Duration::from_secs(600));
    let builder = builder.call_timeout(LONG);
    let durable = builder.actors(&system, kind).start().unwrap();
    std::thread::scope(|scope| {
        for teller in 0..4 {
            let timers = durable.timers();
            scope.spawn(move || {
                for number in 0..EACH {
                    let told: Vec<_> = (teller..NAMES)
                        .step_by(4)
                        .map(|name| {
                            let after = Duration::from_millis(u64::from(number % 7));
                            let address = format!("account/{name}");
                            timers.tell_after(&address, after, Event::Number(number)).submit()
                        })
                        .collect();
                    told.into_iter().for_each(|told| assert!(told.wait().is_ok()));
                }
            });
        }
    });
    for _ in 0..NAMES * EACH {
        events.recv_timeout(LONG).expect("a message is missing");
    }
    durable.close().unwrap();
    assert!(system.close().unwrap().is_complete());
    let book = book.lock().unwrap();
    assert_eq!(book.problems, [""; 0]);
    assert!(book.living.values().all(|living| *living == 0));
    for (name, numbers) in &book.numbers {
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..EACH).collect::<Vec<_>>(), "{name}: each once");
    }
}

#[test]
fn an_actor_that_is_occupied_makes_no_other_wait_behind_its_backlog() {
    const BACKLOG: u32 = 3_000;
    struct Gated {
        name: String,
        gate: Arc<Mutex<Receiver<()>>>,
        received: Sender<(String, u32)>,
    }
    impl DurableActor for Gated {
        type Reminder = Event;
        type Message = Event;

        fn receive(&mut self, event: Event, _: &mut Context<Hosted<Self>>) {
            let Event::Number(number) = event else { return };
            self.received.send((self.name.clone(), number)).unwrap();
            if (&*self.name, number) == ("busy", 0) {
                let _ = self.gate.lock().unwrap().recv();
            }
        }
    }
    let directory = Directory::new("occupied");
    let system = ActorSystem::builder("gates").threads(2).build().unwrap();
    let ((open, gate), (received, events)) = (channel::<()>(), channel());
    let gate = Arc::new(Mutex::new(gate));
    let kind = Kind::new(move |name: &str| Gated {
        name: name.into(),
        gate: Arc::clone(&gate),
        received: received.clone(),
    });
    let builder = Durable::sqlite(directory.file()).lease(Duration::from_secs(600));
    let builder = builder.call_timeout(LONG);
    let durable = builder.actors(&system, kind).start().unwrap();
    let tell = |address: &str, number| durable.timers().tell(address, Event::Number(number));
    let backlog: Vec<_> = (0..BACKLOG).map(|it| tell("account/busy", it).submit()).collect();
    backlog.into_iter().for_each(|told| assert!(told.wait().is_ok()));
    let next = || events.recv_timeout(LONG).expect("nothing more is received");
    assert_eq!(next(), ("busy".into(), 0));
    for number in 0..5 {
        tell(&format!("account/{number}"), number).submit().wait().unwrap();
        assert_eq!(next(), (number.to_string(), number));
    }
    drop(open);
    for number in 1..BACKLOG {
        assert_eq!(next(), ("busy".into(), number));
    }
    durable.close().unwrap();
    assert!(system.close().unwrap().is_complete());
}

#[test]
fn a_reminder_of_one_life_reaches_its_actor_in_the_next() {
    let directory = Directory::new("reminders");
    let (received, events) = channel();
    let life = || {
        let system = ActorSystem::new("accounts").unwrap();
        let (book, received) = (Arc::new(Mutex::new(Book::default())), received.clone());
        let kind = Kind::new(move |name| Account::new(name, &book, &received));
        let durable = Durable::sqlite(directory.file()).actors(&system, kind).start().unwrap();
        (system, durable)
    };
    let (system, durable) = life();
    durable.timers().tell("account/17", Event::Remind).submit().wait().unwrap();
    assert_eq!(events.recv_timeout(LONG).unwrap(), Event::Remind);
    // The system first: its end is that of the node. That the message was handled is not forgotten,
    // whether its reminder is committed by now or not.
    assert!(system.close().unwrap().is_complete());
    drop(durable);
    let (system, durable) = life();
    assert_eq!(events.recv_timeout(LONG).unwrap(), Event::Reminded);
    durable.close().unwrap();
    assert!(system.close().unwrap().is_complete());
}

/// Says what happens to it, and whether it has a timeout.
struct Witness(Sender<(&'static str, bool)>);

impl DurableActor for Witness {
    type Reminder = Event;
    type Message = Event;

    fn receive(&mut self, _: Event, ctx: &mut Context<Hosted<Self>>) {
        let _ = self.0.send(("received", ctx.receive_timeout().is_some()));
    }

    fn stopped(&mut self, _: StopReason, ctx: &mut Context<Hosted<Self>>) {
        let _ = self.0.send(("stopped", ctx.receive_timeout().is_some()));
    }
}

/// Has the only place of its scheduler.
struct Full;

impl Actor for Full {
    type Message = ();

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_receive_timeout(Duration::from_secs(86_400)).unwrap();
    }

    fn receive(&mut self, (): (), _: &mut Context<Self>) {}
}

#[test]
fn an_actor_that_was_made_when_there_was_no_place_for_its_timeout_still_stops_after_a_silence() {
    let system = ActorSystem::builder("full").scheduler(|it| it.max_pending(1)).build().unwrap();
    let full = system.spawn("full", || Full).unwrap();
    // Its first hook has returned when it answers.
    full.tell(()).unwrap();
    while full.metrics().processed == 0 {
        std::thread::yield_now();
    }
    let (sender, events) = channel();
    let kind = Kind::new(move |_: &str| Witness(sender.clone()));
    let kind = kind.passivate_after(Duration::from_millis(1));
    let durable = Durable::in_memory().actors(&system, kind).start().unwrap();
    durable.timers().tell("account/17", Event::Reminded).submit().wait().unwrap();
    assert_eq!(events.recv_timeout(LONG).unwrap(), ("received", false));
    full.stop();
    assert_eq!(events.recv_timeout(LONG).unwrap().0, "stopped");
    durable.close().unwrap();
    assert!(system.close().unwrap().is_complete());
}
