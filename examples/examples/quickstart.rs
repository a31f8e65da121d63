//! The first ten lines with each crate: timers, then actors that are sent messages by timers.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use examples::checks::{Problem, ensure};
use lars_scheduler::LightArrayRevolverScheduler;
use mini_actor::{Actor, ActorRef, ActorSystem, Context, StopReason};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn main() -> Result<(), Problem> {
    timers()?;
    Ok(actors()?)
}

fn timers() -> Result<(), Box<dyn Error>> {
    println!("Timers");
    let scheduler = LightArrayRevolverScheduler::builder()
        .tick_duration(ms(1)) // the default
        .ticks_per_wheel(512) // the default, a power of two
        .build()?; // starts one thread, "lars-scheduler"
    let timers = scheduler.handle(); // cheap to clone, Send + Sync

    let retry = timers.schedule_once(ms(30_000), || println!("  retry: this is never printed"))?;
    let prevented = retry.cancel();
    println!("  retry cancelled: {prevented}");
    ensure(prevented, "a timer of 30 s was late for a cancel at once")?;

    let start = Instant::now();
    let beat = timers.schedule_with_fixed_delay(ms(0), Duration::from_secs(1), || {
        println!("  beat; the next one is due a second after this one ends");
    })?;
    let (sender, ticks) = mpsc::channel();
    let tick = timers.schedule_at_fixed_rate(ms(0), ms(100), move || {
        // The receiver goes when this function ends; nobody misses the ticks after that.
        let _ = sender.send(start.elapsed());
    })?;
    for (nominal, at) in [ms(0), ms(100), ms(200), ms(300)].into_iter().zip(&ticks) {
        println!("  tick due at {nominal:>5.0?}, ran at {at:>9.3?}");
        ensure(at >= nominal, "a tick was early")?;
    }
    ensure(tick.cancel() && beat.cancel(), "a series ended by itself")?;

    let _ = timers.schedule_once(Duration::from_secs(3600), || {
        println!("  due in an hour, run by the close");
    })?;
    let report = scheduler.close()?; // pending one-shots run now, on this thread
    println!("  closed: {report}");
    ensure(report.ran == 1, "the close ran something else than the one that was pending")?;
    let refused = timers.schedule_once(ms(1), || ());
    ensure(refused.is_err(), "a closed scheduler accepted a timer")
}

/// Adds up what it is sent, and tells the total whenever it changes.
struct Counter {
    total: u64,
    totals: mpsc::Sender<u64>,
}

impl Actor for Counter {
    type Message = u64;

    fn receive(&mut self, message: u64, _: &mut Context<Self>) {
        self.total += message;
        // `main` stops listening before the counter stops counting.
        let _ = self.totals.send(self.total);
    }

    fn stopped(&mut self, reason: StopReason, _: &mut Context<Self>) {
        println!("  the counter stopped at {}: {reason}", self.total);
    }
}

fn actors() -> Result<(), Box<dyn Error>> {
    println!("Actors");
    let system = ActorSystem::new("demo")?;
    let (sender, totals) = mpsc::channel();
    let counter: ActorRef<u64> =
        system.spawn("counter", move || Counter { total: 0, totals: sender })?;

    counter.tell(1)?;
    let _ = system.scheduler().schedule_once(ms(20), &counter, 5)?;
    let every = system.scheduler().schedule_with_fixed_delay(ms(0), ms(10), &counter, 1)?;
    // 1 was told, 5 come after 20 ms, the others one by one.
    let total = totals.iter().find(|total| *total >= 12).unwrap_or_default();
    println!("  told 1, sent 5 after 20 ms and 1 every 10 ms; the total is {total}");
    ensure(total >= 12, "the messages stopped coming")?;
    ensure(every.cancel(), "the periodic send ended by itself")?;

    let report = system.close()?; // every actor receives what is in its mailbox, and stops
    println!("  closed: {report}");
    ensure(report.actors_stopped == 1, "the counter was not alive when the system was closed")?;
    ensure(report.dead_letters == 0, "a message reached nobody")
}
