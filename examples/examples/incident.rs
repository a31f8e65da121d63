//! Three in the morning: the payment provider was away, hundreds of invoices have failed, a
//! customer has left, and an export runs that nobody needs. All of it is found, listed, and put
//! right.
//!
//! ```sh
//! cargo run --release -p examples --features durable --example incident
//! ```
//!
//! It exits with an error if a timer is left that should not be there, or an invoice is not paid.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clap::Parser;
use examples::checks::{Problem, verify};
use lars_durable::query::{Found, Place, Query, State, Step};
use lars_durable::schedule::Cancel;
use lars_durable::{CancelReason, Durable, Error, Fired, Handler, Outcome, Payload, Timers};
use serde::{Deserialize, Serialize};

type AnyError = Box<dyn std::error::Error>;

/// Finds what is wrong, and puts it right.
#[derive(Parser)]
struct Options {
    /// How many invoices are due.
    #[arg(long, default_value_t = 300)]
    invoices: u64,
}

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Serialize, Deserialize)]
struct Invoice {
    number: u64,
}

impl Payload for Invoice {
    const NAME: &'static str = "invoice";
}

#[derive(Serialize, Deserialize)]
struct Remind {
    customer: u64,
}

impl Payload for Remind {
    const NAME: &'static str = "remind";
}

#[derive(Serialize, Deserialize)]
struct Export;

impl Payload for Export {
    const NAME: &'static str = "export";
}

fn main() -> Result<(), Problem> {
    let invoices = Options::parse().invoices;
    let (away, (paid, payments)) = (Arc::new(AtomicBool::new(true)), channel());
    let (say, exports) = channel();
    let durable = Durable::in_memory()
        .call_timeout(Duration::from_secs(60)) // however busy the machine is
        .handler(collect(Arc::clone(&away), paid))
        .handler(export(say))
        .handle(|_: &Fired<Remind>| ())
        .start()?;
    let timers = durable.timers();
    let due = |number| timers.schedule_once(Duration::ZERO, Invoice { number });
    timers.schedule_batch((0..invoices).map(due)).wait()?;
    let reminders = (0..1_000).map(|number| {
        let customer = number % 10;
        timers.schedule_once(DAY, Remind { customer }).tag(format!("customer/{customer}"))
    });
    timers.schedule_batch(reminders).wait()?;
    timers.schedule_once(Duration::ZERO, Export).key("export").submit().wait()?;
    assert_eq!(exports.recv()?, "begun");

    // The night: all invoices are given up. One in ten has an address that nobody knows.
    let parked = Query::new().states([State::Parked]).limit(1_000);
    while count(&timers, &parked)? < invoices {
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{invoices} invoices were given up:");
    look(&timers, &parked.clone().limit(2))?;

    // The provider is back. What failed for its sake runs again, a hundred at a time.
    // Relaxed: the handler may see it a little later.
    away.store(false, Ordering::Relaxed);
    let refused = parked.clone().failed_with("connection refused").limit(100);
    let retried = each_step(refused, |query| Ok(timers.retry_all(query).wait()?.into()))?;
    let wrong = parked.clone().failed_with("no such address");
    let discarded = each_step(wrong, |query| Ok(timers.discard_all(query).wait()?.into()))?;
    let left = Query::new().tag("customer/7");
    let cancelled = each_step(left, |query| Ok(timers.cancel_all(query).wait()?.into()))?;
    println!("{retried} invoices run again, {discarded} are discarded");
    println!("{cancelled} reminders are cancelled");

    // It runs, so it cannot be prevented; but it hears of it.
    assert_eq!(timers.cancel("export").wait()?, Cancel::Running);
    println!("the export {}", exports.recv()?);
    let whole = is_whole(&timers, &payments, invoices, retried + discarded)?;
    durable.close()?;
    verify(&[
        ("each invoice was paid once, or discarded", whole),
        ("the customer who left gets no reminder, and all others get theirs", cancelled == 100),
    ])?;
    Ok(())
}

/// Invoices, which fail once and for all while the provider is away.
fn collect(away: Arc<AtomicBool>, paid: Sender<u64>) -> Handler {
    let paid = std::sync::Mutex::new(paid);
    Handler::new(move |due: &Fired<Invoice>| {
        let number = due.payload().number;
        if number.is_multiple_of(10) {
            return Outcome::Park("no such address".into());
        }
        // Relaxed, see above.
        if away.load(Ordering::Relaxed) {
            return Outcome::Retry("connection refused".into());
        }
        let _ = paid.lock().expect("nothing panics here").send(number);
        Outcome::Done
    })
    .max_attempts(1)
}

/// An export that would take all night, unless it hears that nobody needs it.
fn export(say: Sender<&'static str>) -> Handler {
    let say = std::sync::Mutex::new(say);
    Handler::new(move |due: &Fired<Export>| {
        let say = say.lock().expect("nothing panics here");
        let _ = say.send("begun");
        while !due.is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if due.cancellation().reason() == Some(CancelReason::Cancelled) {
            let _ = say.send("stops, because it was cancelled");
            return Outcome::Done;
        }
        // The node closes: the next one begins anew.
        Outcome::Snooze(Duration::ZERO)
    })
}

/// What a step has done, and where the next one begins.
struct Done {
    matched: usize,
    next: Option<Place>,
}

impl From<Step> for Done {
    fn from(step: Step) -> Self {
        Self { matched: step.matched, next: step.next }
    }
}

/// All steps of a query; says how many timers they have found. It could stop anywhere, keep the
/// text of the place, and go on from there.
fn each_step(
    mut query: Query,
    step: impl Fn(&Query) -> Result<Done, Error>,
) -> Result<u64, AnyError> {
    let mut all = 0;
    loop {
        let Done { matched, next } = step(&query)?;
        all += matched as u64;
        let Some(place) = next.map(|place| place.to_string()) else { return Ok(all) };
        query = query.after(place.parse()?);
    }
}

fn count(timers: &Timers, query: &Query) -> Result<u64, AnyError> {
    each_step(query.clone(), |query| Ok(timers.count(query).wait()?.into()))
}

/// The first ones, and a link to the next.
fn look(timers: &Timers, query: &Query) -> Result<(), AnyError> {
    let page = timers.list(query).wait()?;
    for found in &page.timers {
        let timer = found.timer();
        let why = match found {
            Found::Parked(parked) => &parked.reason,
            Found::Timer(_) => "it waits, or runs",
        };
        println!("  timer {}, {} {}: {why}", timer.id, timer.handler, timer.payload);
    }
    if let Some(next) = page.next {
        println!("  and more, from {next} on");
    }
    Ok(())
}

/// Whether each invoice is paid once or was discarded, and what is left is wanted.
fn is_whole(
    timers: &Timers,
    payments: &Receiver<u64>,
    invoices: u64,
    settled: u64,
) -> Result<bool, AnyError> {
    let mut numbers = BTreeSet::new();
    let wanted = (0..invoices).filter(|number| !number.is_multiple_of(10)).count();
    let all_once = (0..wanted).all(|_| payments.recv().is_ok_and(|number| numbers.insert(number)));
    while count(timers, &Query::new())? != 900 {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(all_once && settled == invoices)
}
