//! A shop on three nodes. Each order is an actor with a name, and has one live copy on all nodes.
//! It reminds itself of the payment deadline, of shipping, and of asking the customer for a review.
//! Meanwhile one node is killed with SIGKILL, and nothing is forgotten.
//!
//! ```sh
//! cargo run --release -p examples --features postgres --example orders
//! ```
//!
//! The program that you start only watches. It starts a PostgreSQL server in a temporary directory
//! (Debian: `apt-get install postgresql`), and copies of itself, which are the nodes. (Nodes that
//! share timers need a database that can be shared; an SQLite file has one owner.) What is a minute
//! or a week in a shop is some seconds here. It exits with an error if an order does not end in the
//! state that it should, or has been in a state twice.

// It measures real time.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use examples::checks::Problem;
use examples::nodes::{NodeOptions, Nodes};
use examples::postgres::{MISSING, Server};
use lars_durable::actors::{DurableActor, DurableContext, Hosted, Kind};
use lars_durable::query::{self, Query};
use lars_durable::{Durable, Payload};
use lars_jobs::backoff::BackoffPolicy;
use mini_actor::{ActorSystem, Context};
use serde::{Deserialize, Serialize};

type AnyError = Box<dyn std::error::Error>;

/// Orders as actors on three nodes, with reminders. One node is killed.
#[derive(Parser)]
struct Options {
    /// How many orders are placed. Two of three are paid in time.
    #[arg(long, default_value_t = 300)]
    orders: u64,
    #[command(flatten)]
    node: NodeOptions,
}

const NODES: u64 = 3;
const LEASE: Duration = Duration::from_secs(2);

/// How long a customer has to pay; how long shipping takes; when the shop asks how it was.
const PAYMENT: Duration = Duration::from_secs(5);
const SHIPPING: Duration = Duration::from_secs(2);
const FEEDBACK: Duration = Duration::from_secs(3);

/// What happens to an order. It is stored for as long as a reminder waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Event {
    Placed,
    Paid,
    PaymentDue,
    Ship,
    AskForFeedback,
}

impl Payload for Event {
    const NAME: &'static str = "order";
}

/// Where an order is. In a shop this is a row; here it is a file with a line for each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    New,
    Placed,
    Paid,
    Shipped,
    Asked,
    Cancelled,
}

impl State {
    const ALL: [Self; 6] =
        [Self::New, Self::Placed, Self::Paid, Self::Shipped, Self::Asked, Self::Cancelled];

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| format!("{state:?}") == word)
    }
}

/// The states that are written down for an order, each with the fence of the message that it came
/// of.
fn history(path: &Path) -> Vec<(State, u64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (word, fence) = line.split_once(' ')?;
        Some((State::parse(word)?, fence.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

struct Order {
    path: PathBuf,
    state: State,
}

impl Order {
    /// An order that lived before, here or elsewhere, goes on where it was.
    fn load(directory: &Path, number: &str) -> Self {
        let path = directory.join(number);
        let state = history(&path).last().map_or(State::New, |(state, _)| *state);
        Self { path, state }
    }

    fn set(&mut self, state: State, ctx: &Context<Hosted<Self>>) -> Result<(), AnyError> {
        let fence = ctx.delivery().map_or(0, |delivery| delivery.fence);
        if history(&self.path).iter().any(|(_, before)| *before > fence) {
            return Err("another copy of this order lives, and this one must not write".into());
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{state:?} {fence}\n").as_bytes())?;
        self.state = state;
        Ok(())
    }

    /// A message may come again, if the node died before it was acknowledged. So each state is
    /// written once, and what follows it is asked for again: the key of a reminder sees to it that
    /// it is there once.
    fn handle(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) -> Result<(), AnyError> {
        match (event, self.state) {
            (Event::Placed, State::New | State::Placed) => {
                if self.state == State::New {
                    self.set(State::Placed, ctx)?;
                }
                ctx.reminders().start_single("payment", PAYMENT, Event::PaymentDue)?;
            }
            (Event::Paid, State::Placed | State::Paid) => {
                if self.state == State::Placed {
                    self.set(State::Paid, ctx)?;
                }
                ctx.reminders().cancel("payment")?;
                ctx.reminders().start_single("ship", SHIPPING, Event::Ship)?;
            }
            (Event::PaymentDue, State::Placed) => self.set(State::Cancelled, ctx)?,
            (Event::Ship, State::Paid | State::Shipped) => {
                if self.state == State::Paid {
                    self.set(State::Shipped, ctx)?;
                }
                ctx.reminders().start_single("feedback", FEEDBACK, Event::AskForFeedback)?;
            }
            (Event::AskForFeedback, State::Shipped) => self.set(State::Asked, ctx)?,
            // It came again, or too late.
            _ => {}
        }
        Ok(())
    }
}

impl DurableActor for Order {
    type Reminder = Event;
    type Message = Event;

    fn receive(&mut self, event: Event, ctx: &mut Context<Hosted<Self>>) {
        // An error is like a panic: the message comes again, to an order that is loaded anew.
        self.handle(event, ctx).unwrap_or_else(|error| ctx.fail(error));
    }
}

fn main() -> Result<ExitCode, Problem> {
    let options = Options::parse();
    match options.node.role() {
        Some((node, directory, parameters)) => {
            let directory = directory.to_owned();
            let system = ActorSystem::new(format!("shop-{node}"))?;
            let backoff = BackoffPolicy::builder().initial(Duration::from_millis(100)).build()?;
            let orders = Kind::new(move |number| Order::load(&directory, number))
                .passivate_after(Duration::from_secs(3))
                .backoff(backoff);
            let _durable = Durable::postgres(parameters)
                .name(format!("node {node}"))
                .lease(LEASE)
                .actors(&system, orders)
                .start()?;
            loop {
                std::thread::park();
            }
        }
        None => Ok(look_on(&options)?),
    }
}

/// What becomes of an order in the end: the customer of each third one does not pay.
fn expected(number: u64) -> &'static [State] {
    match number % 3 {
        0 => &[State::Placed, State::Cancelled],
        _ => &[State::Placed, State::Paid, State::Shipped, State::Asked],
    }
}

fn look_on(options: &Options) -> Result<ExitCode, AnyError> {
    let Some(server) = Server::start("orders")? else {
        eprintln!("{MISSING}");
        return Ok(ExitCode::FAILURE);
    };
    let directory = std::env::temp_dir().join(format!("lars-orders-states-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    // A node without handlers: it tells, and looks.
    let shop = Durable::postgres(server.parameters()).name("till").lease(LEASE).start()?;
    let timers = shop.timers();
    let mut nodes = Nodes::start(NODES, &directory, &server, &[])?;
    let begun = Instant::now();
    let (mut placed, mut killed, mut again) = (0, false, false);
    let end = begun + Duration::from_secs(180);
    let good = loop {
        // Ten seconds of customers.
        let due =
            (begun.elapsed().as_millis() as u64 * options.orders / 10_000).min(options.orders);
        for number in placed..due {
            let address = format!("order/{number}");
            // With keys, so that each call may be repeated until it is known to have taken effect.
            let tell = |event: Event, after: Duration| loop {
                let key = format!("{event:?}/{number}");
                let told = timers.tell_after(&address, after, event.clone()).key(key);
                if told.submit().wait().is_ok() {
                    break;
                }
            };
            tell(Event::Placed, Duration::ZERO);
            if number % 3 != 0 {
                tell(Event::Paid, Duration::from_millis(500 + number * 37 % 1_000));
            }
        }
        placed = due;
        std::thread::sleep(Duration::from_secs(1));
        let done = show(begun, placed, &directory, &shop);
        if !killed && begun.elapsed() > Duration::from_secs(6) {
            killed = true;
            nodes.kill(1)?;
            println!("       node 1 is killed");
        }
        if killed && !again && begun.elapsed() > Duration::from_secs(14) {
            again = true;
            nodes.restart(1, 1)?;
            println!("       node 1 is started again");
        }
        let over = placed == options.orders && done == options.orders && again;
        if over || Instant::now() > end {
            break over;
        }
    };
    drop(nodes);
    let accounts = account(options.orders, &directory);
    let parked = timers.list(&Query::new().states([query::State::Parked])).wait()?.timers.len();
    drop(shop);
    let _ = std::fs::remove_dir_all(&directory);
    println!(
        "{} of {} orders are where they should be, each state once; {parked} messages parked",
        options.orders - accounts,
        options.orders
    );
    Ok(if good && accounts == 0 && parked == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints where all orders are, and who has them. Says how many are over.
fn show(begun: Instant, placed: u64, directory: &Path, shop: &Durable) -> u64 {
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    for number in 0..placed {
        let state = history(&directory.join(number.to_string())).last().map(|(state, _)| *state);
        *states.entry(state.unwrap_or(State::New)).or_default() += 1;
    }
    let count = |state| states.get(&state).copied().unwrap_or_default();
    let seen = shop.inspect().wait_timeout(Duration::from_secs(5));
    let who = match seen {
        Ok(Ok(seen)) => {
            let nodes = seen.nodes.iter().filter(|node| node.serves);
            let nodes: Vec<String> =
                nodes.map(|node| format!("{} has {}", node.name, node.buckets)).collect();
            let waiting = seen.handler("order").map_or(0, |orders| orders.pending.value);
            format!("{waiting} reminders wait; of {} buckets {}", seen.buckets, nodes.join(", "))
        }
        _ => "the database does not answer".into(),
    };
    println!(
        "{:>3} s: {} placed, {} paid, {} shipped, {} asked, {} cancelled; {who}",
        begun.elapsed().as_secs(),
        count(State::Placed),
        count(State::Paid),
        count(State::Shipped),
        count(State::Asked),
        count(State::Cancelled),
    );
    count(State::Asked) + count(State::Cancelled)
}

/// How many orders have another history than they should have.
fn account(orders: u64, directory: &Path) -> u64 {
    let mut wrong = 0;
    for number in 0..orders {
        let states: Vec<(State, u64)> = history(&directory.join(number.to_string()));
        let path: Vec<State> = states.iter().map(|(state, _)| *state).collect();
        let fences_grow = states.is_sorted_by_key(|(_, fence)| *fence);
        if path != expected(number) || !fences_grow {
            println!("order {number}: {states:?}");
            wrong += 1;
        }
    }
    wrong
}
