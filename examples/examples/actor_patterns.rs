//! Patterns for which other crates have an interface, and which take a few lines here: a
//! round-robin pool, a topic, a stream that is piped in, and a handler that returns a `Result`.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;

use examples::checks::{Problem, ensure};
use futures::stream::{self, Stream, StreamExt};
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, Context, Overflow, Props, Recipient, Terminated};

fn main() -> Result<(), Problem> {
    pool()?;
    topic()?;
    piped_stream()?;
    results()?;
    Ok(())
}

/// Gives each of its workers a message in turn. They are its children, so they stop with it.
struct Pool<W> {
    worker: fn() -> W,
    size: usize,
    workers: Vec<Recipient<u64>>,
    next: usize,
}

impl<W: Actor<Message = u64>> Actor for Pool<W> {
    type Message = u64;

    fn started(&mut self, ctx: &mut Context<Self>) {
        for _ in 0..self.size {
            let props = Props::new(self.worker).supervision(SupervisionStrategy::restart());
            match ctx.spawn_anonymous(props) {
                Ok(worker) => self.workers.push(worker.recipient()),
                Err(error) => ctx.fail(error),
            }
        }
    }

    fn receive(&mut self, job: u64, ctx: &mut Context<Self>) {
        let worker = &self.workers[self.next % self.workers.len()];
        self.next += 1;
        worker.tell(job).unwrap_or_else(|error| ctx.fail(error));
    }
}

/// Does the work that is shared out.
struct Worker;

impl Actor for Worker {
    type Message = u64;

    fn receive(&mut self, _: u64, _: &mut Context<Self>) {}
}

fn pool() -> Result<(), Box<dyn Error>> {
    let kit = TestKit::new("pool")?;
    let pool = || Pool { worker: || Worker, size: 3, workers: Vec::new(), next: 0 };
    let pool = kit.spawn("pool", pool)?;
    for job in 0..9 {
        pool.tell(job)?;
    }
    kit.settle();
    let worker = |path: &str| kit.find::<u64>(path).map(|worker| worker.metrics().processed);
    let shares = ["/pool/$1", "/pool/$2", "/pool/$3"].map(worker);
    ensure(shares == [Some(3); 3], "the jobs were not shared out")?;
    println!("A pool gave each of its three workers three of nine jobs.");
    Ok(())
}

/// Passes on what is published to all subscribers. A subscriber that stops is forgotten.
#[derive(Default)]
struct Topic {
    subscribers: BTreeMap<u64, Recipient<String>>,
}

enum ForTopic {
    Subscribe(Recipient<String>),
    Publish(String),
}

impl Actor for Topic {
    type Message = ForTopic;

    fn receive(&mut self, message: ForTopic, ctx: &mut Context<Self>) {
        match message {
            ForTopic::Subscribe(subscriber) => {
                ctx.watch(&subscriber);
                self.subscribers.insert(subscriber.id(), subscriber);
            }
            ForTopic::Publish(news) => {
                for subscriber in self.subscribers.values() {
                    // A subscriber without room misses it.
                    let _ = subscriber.tell(news.clone());
                }
            }
        }
    }

    fn terminated(&mut self, gone: Terminated, _: &mut Context<Self>) {
        self.subscribers.remove(&gone.id);
    }
}

fn topic() -> Result<(), Box<dyn Error>> {
    let kit = TestKit::new("topic")?;
    let (first, second) = (kit.probe::<String>("first"), kit.probe::<String>("second"));
    let topic = kit.spawn("topic", Topic::default)?;
    for probe in [&first, &second] {
        topic.tell(ForTopic::Subscribe(probe.actor().recipient()))?;
    }
    topic.tell(ForTopic::Publish("one".to_owned()))?;
    kit.settle();
    second.actor().stop();
    kit.settle();
    topic.tell(ForTopic::Publish("two".to_owned()))?;
    ensure(first.expect_message() == "one" && first.expect_message() == "two", "news were lost")?;
    ensure(kit.dead_letters().is_empty(), "the topic wrote to one that had stopped")?;
    println!("A topic told its subscribers the news, and forgot the one that stopped.");
    Ok(())
}

/// Receives the items of a stream one at a time. It asks for the next when one has been handled, so
/// a stream that is faster than its actor waits.
struct Reader {
    lines: Option<Lines>,
    out: ActorRef<String>,
}

type Lines = Pin<Box<dyn Stream<Item = String> + Send>>;

/// An item, and the rest of the stream.
type Read = (Option<String>, Lines);

impl Actor for Reader {
    type Message = Read;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(lines) = self.lines.take() {
            ctx.pipe_to_self(lines.into_future(), |read| read);
        }
    }

    fn receive(&mut self, (line, rest): Read, ctx: &mut Context<Self>) {
        let Some(line) = line else {
            ctx.stop();
            return;
        };
        // Waits for room in the next actor's mailbox, without occupying a thread.
        let out = self.out.clone();
        let next = async move {
            let _ = out.tell_when_room(line).await;
            rest.into_future().await
        };
        ctx.pipe_to_self(next, |read| read);
    }
}

/// Prints each line.
struct Printer;

impl Actor for Printer {
    type Message = String;

    fn receive(&mut self, line: String, _: &mut Context<Self>) {
        println!("  {line}");
    }
}

fn piped_stream() -> Result<(), Box<dyn Error>> {
    let kit = TestKit::new("stream")?;
    let printer = kit.spawn_with("printer", Props::once(|| Printer).bounded(1, Overflow::Fail))?;
    let lines: Lines = Box::pin(stream::iter((1..=5).map(|number| format!("line {number}"))));
    let out = printer.clone();
    let reader = kit.spawn("reader", move || Reader { lines: Some(lines), out })?;
    kit.settle();
    ensure(reader.is_stopped(), "the stream did not end")?;
    ensure(printer.metrics().processed == 5, "not all lines were passed on")?;
    println!("A stream went through an actor, no faster than a full mailbox took its lines.");
    Ok(())
}

/// Adds numbers up. A line that is not a number fails the actor, and its supervision decides.
struct Sum(u64);

impl Sum {
    fn add(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        self.0 += line.parse::<u64>()?;
        Ok(())
    }
}

impl Actor for Sum {
    type Message = &'static str;

    fn receive(&mut self, line: &'static str, ctx: &mut Context<Self>) {
        self.add(line).unwrap_or_else(|error| ctx.fail(error));
    }
}

fn results() -> Result<(), Box<dyn Error>> {
    let kit = TestKit::new("results")?;
    let sum =
        kit.spawn_with("sum", Props::new(|| Sum(0)).supervision(SupervisionStrategy::resume()))?;
    for line in ["12", "a dozen", "13"] {
        sum.tell(line)?;
    }
    let failures = kit.panics();
    ensure(failures.len() == 1 && sum.metrics().processed == 3, "the error went elsewhere")?;
    println!("A handler returned an error, and its actor went on as its supervision says.");
    Ok(())
}
