//! A long run of what servers do with timers, audited every second.
//!
//! Workers keep connections: each has an idle timeout that its requests move, a timeout for the
//! request that is under way, and a heartbeat, which is a repeat. Between them they post tasks
//! without a delay, send probes in batches, and keep a few timers that are hours away. Some tasks
//! panic. Every second the workers are halted and the books compared with the scheduler's: each
//! timer has run, was cancelled, or is pending; none early, none twice, none lost; and the memory
//! does not grow. Beside that a second scheduler is started and ended each second, by turns with
//! `stop`, `close`, and a drop.
//!
//! ```text
//! cargo run --release -p examples --example soak -- --seconds 1800
//! ```
//!
//! `--features top` before `--example` adds the live view (`-- --live`).
#![allow(clippy::disallowed_methods)]

mod beat;
mod books;
mod lives;
mod memory;
mod monitor;
mod options;
mod worker;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use examples::checks::Problem;
use examples::view::{Probe, SlowLog};
use lars_scheduler::LightArrayRevolverScheduler;

use crate::books::Books;
use crate::monitor::Monitor;
use crate::options::Options;
use crate::worker::Worker;

fn main() -> Result<(), Problem> {
    let options = &Options::parse();
    let slow = SlowLog::new();
    let builder = LightArrayRevolverScheduler::builder();
    let scheduler = builder.pool(|pool| pool.threads(2)).on_slow(slow.hook()).build()?;
    let books = Arc::new(Books::new(options.threads));
    println!("{options}\n");
    let probe = Probe::new(scheduler.handle()).named("soak").slow_log(&slow);
    let views = options.view.open(probe)?;
    let workers = (0..options.threads)
        .map(|number| {
            let worker = Worker::new(number, options, scheduler.handle(), &books);
            thread::Builder::new().name(format!("worker-{number}")).spawn(move || worker.run())
        })
        .collect::<Result<Vec<_>, _>>()?;

    let mut monitor = Monitor::new(options, scheduler.handle(), &books, views.terminal());
    for _ in 0..options.seconds {
        thread::sleep(Duration::from_secs(1));
        monitor.second();
        lives::one(&books);
        if books.faults() > 0 {
            break;
        }
    }
    views.close()?;
    books.end();
    let mut workers = workers
        .into_iter()
        .map(|worker| worker.join().map_err(|_| "a worker panicked"))
        .collect::<Result<Vec<_>, _>>()?;
    monitor.audit_at_last();

    let handed_back = scheduler.stop().wait();
    let (beats, timers) = handed_back.iter().fold((0, 0), |(beats, timers), task| {
        if task.is_repeat() { (beats + 1, timers) } else { (beats, timers + 1) }
    });
    // A heartbeat that was under way when the stop came has ended with that run, and is not handed
    // back.
    if beats > books.beats() {
        books.fault(format!(
            "{beats} heartbeats were handed back, but only {} go on",
            books.beats()
        ));
    }
    drop(handed_back);
    // What had been fired before may still be on the pool.
    books.expect_soon("timers handed back by the stop", || (timers, books.waiting()));
    books.expect_soon("heartbeats that have gone", || books.beats_gone_and_begun());
    let settled: u64 = workers.iter_mut().map(Worker::settle_all).sum();
    books.expect("timers that had not run when they were dropped at the end", settled, timers);
    drop((workers, scheduler));
    Ok(monitor.summary(beats + timers)?)
}
