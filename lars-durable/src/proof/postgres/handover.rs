//! How actors go from a node that closes to another one. `LARS_NAMES=100,10000` says how many live;
//! with `--nocapture` the test prints how long it took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mini_actor::{ActorSystem, Context, StopReason};

use super::node::{SHORT_LEASE, settle};
use super::server::{Database, PATIENCE, server};
use crate::actors::{DurableActor, Hosted, Kind};
use crate::{Durable, Payload, Timers};

#[derive(serde::Serialize, serde::Deserialize)]
struct Note(u32);

impl Payload for Note {
    const NAME: &'static str = "account";
}

/// Who lives on which node, and what was received there.
#[derive(Default)]
struct Book {
    living: BTreeMap<String, u32>,
    received: BTreeMap<u32, BTreeSet<String>>,
    problems: Vec<String>,
    /// How many were killed, because their node had lost its lease: the machine stood still.
    killed: usize,
}

struct Account {
    name: String,
    book: Arc<Mutex<Book>>,
}

impl Account {
    fn new(name: &str, node: u32, book: &Arc<Mutex<Book>>) -> Self {
        let mut open = book.lock().unwrap();
        if let Some(other) = open.living.insert(name.into(), node) {
            let problem = format!("{name} lives on node {other}, and now on node {node}");
            open.problems.push(problem);
        }
        drop(open);
        Self { name: name.into(), book: Arc::clone(book) }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.book.lock().unwrap().living.remove(&self.name);
    }
}

impl DurableActor for Account {
    type Reminder = Note;
    type Message = Note;

    fn receive(&mut self, Note(round): Note, _: &mut Context<Hosted<Self>>) {
        let name = self.name.clone();
        self.book.lock().unwrap().received.entry(round).or_default().insert(name);
    }

    fn stopped(&mut self, reason: StopReason, _: &mut Context<Hosted<Self>>) {
        self.book.lock().unwrap().killed += usize::from(reason == StopReason::Killed);
    }
}

fn start(database: &Database, number: u32, book: &Arc<Mutex<Book>>) -> (ActorSystem, Durable) {
    let system = ActorSystem::new(format!("node-{number}")).unwrap();
    let book = Arc::clone(book);
    let kind = Kind::new(move |name| Account::new(name, number, &book));
    let durable = database.durable().lease(SHORT_LEASE).actors(&system, kind).start().unwrap();
    (system, durable)
}

fn tell(timers: &Timers, names: &[String], round: u32) {
    for names in names.chunks(1_000) {
        let told = names.iter().map(|name| timers.tell(&format!("account/{name}"), Note(round)));
        timers.schedule_batch(told).wait().unwrap();
    }
}

/// Until so many names have received what was told in this round.
fn wait_for(book: &Mutex<Book>, round: u32, count: usize) {
    let end = Instant::now() + PATIENCE;
    while book.lock().unwrap().received.get(&round).map_or(0, BTreeSet::len) < count {
        assert!(Instant::now() < end, "something is missing in round {round}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn actors_go_from_a_node_that_closes_to_another_and_never_live_twice() {
    let server = server();
    let counts = std::env::var("LARS_NAMES").unwrap_or_else(|_| "100".into());
    for count in counts.split(',').map(|count| count.parse::<usize>().unwrap()) {
        let database = server.database();
        let book = Arc::new(Mutex::new(Book::default()));
        let (system, one) = start(&database, 1, &book);
        let (other_system, two) = start(&database, 2, &book);
        let names: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let on_one = |book: &Book| -> Vec<String> {
            let living = book.living.iter().filter(|(_, node)| **node == 1);
            living.map(|(name, _)| name.clone()).collect()
        };
        let (mut round, mut moving) = (0, Vec::new());
        let end = Instant::now() + PATIENCE;
        // Once more if the machine stood still, and a node lost what it had.
        while moving.is_empty() || moving.len() == count {
            assert!(Instant::now() < end, "they never live on both nodes");
            round += 1;
            settle(&database, 2);
            tell(&two.timers(), &names, round);
            wait_for(&book, round, count);
            moving = on_one(&book.lock().unwrap());
        }
        let begun = Instant::now();
        one.close().unwrap();
        let closed = begun.elapsed();
        let left = on_one(&book.lock().unwrap());
        assert!(left.is_empty(), "{} live on the node that closed: {:?}", left.len(), left.first());
        tell(&two.timers(), &moving[..1], round + 1);
        wait_for(&book, round + 1, 1);
        let first = begun.elapsed();
        tell(&two.timers(), &moving, round + 2);
        wait_for(&book, round + 2, moving.len());
        println!(
            "{count} names, {} of them on the node that closes: closed after {closed:.1?}, the \
             first lives elsewhere after {first:.1?}, all after {:.1?}",
            moving.len(),
            begun.elapsed()
        );
        two.close().unwrap();
        let open = book.lock().unwrap();
        let problems = &open.problems;
        if open.killed == 0 {
            assert!(problems.is_empty(), "{} problems: {:?}", problems.len(), problems.first());
        }
        drop(open);
        for system in [system, other_system] {
            assert!(system.close().unwrap().is_complete());
        }
    }
}
