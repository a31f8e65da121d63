//! What threads cost that schedule little: many threads with one timer each, which wait in the
//! driver's own wheel.
//!
//! ```sh
//! cargo run --release -p benches --no-default-features --bin threads
//! ```
//!
//! For each number of threads a process of its own, so that none inherits another's memory.
#![allow(clippy::disallowed_methods)]

use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use benches::process::{cpu_time, resident};
use clap::Parser;
use lars_scheduler::LightArrayRevolverScheduler;

type AnyError = Box<dyn std::error::Error>;

/// What threads with one timer each cost: memory, and processor time for a wake-up.
#[derive(Parser)]
struct Options {
    /// How many threads, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000")]
    threads: Vec<usize>,
    /// How many wake-ups are measured.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    wake_ups: u32,
    /// One measurement, in this process.
    #[arg(long, hide = true)]
    here: bool,
}

const HOUR: Duration = Duration::from_secs(3600);
/// Between two timers: more than a tick of a millisecond, so that each is a wake-up.
const APART: Duration = Duration::from_millis(2);
/// What a thread does here needs little.
const STACK: usize = 64 << 10;

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    if options.here {
        return options.threads.iter().try_for_each(|&threads| measure(threads, options.wake_ups));
    }
    println!("| threads | bytes resident a thread | bytes of timers a thread | µs a wake-up |");
    println!("|---|---|---|---|");
    for threads in options.threads {
        let status = Command::new(std::env::current_exe()?)
            .args(["--here", "--threads", &threads.to_string()])
            .args(["--wake-ups", &options.wake_ups.to_string()])
            .status()?;
        if !status.success() {
            return Err(format!("the measurement with {threads} threads failed: {status}").into());
        }
    }
    Ok(())
}

fn measure(threads: usize, wake_ups: u32) -> Result<(), AnyError> {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build()?;
    // Four times: before and after the memory is looked at, when each thread has scheduled its
    // timer, and at the end.
    let meet = Arc::new(Barrier::new(threads + 1));
    let mut running = Vec::with_capacity(threads);
    for _ in 0..threads {
        let (handle, meet) = (scheduler.handle(), Arc::clone(&meet));
        running.push(thread::Builder::new().stack_size(STACK).spawn(move || {
            meet.wait();
            // Between the first two meetings the memory is looked at.
            meet.wait();
            let timer = handle.schedule_once(HOUR, || ());
            meet.wait();
            meet.wait();
            drop(timer);
        })?);
    }
    meet.wait();
    let before = resident();
    meet.wait();
    meet.wait();
    let after = resident();
    let pending = scheduler.pending();
    if pending != threads as u64 {
        return Err(format!("{pending} timers wait, of {threads}").into());
    }
    let timer_memory = scheduler.metrics().timer_memory;

    for number in 1..=wake_ups {
        scheduler.schedule_once(APART * number, || ())?;
    }
    let woken = scheduler.metrics().wake_ups;
    let cpu = cpu_time();
    thread::sleep(APART * (wake_ups + 10));
    let cpu = cpu_time().saturating_sub(cpu);
    let woken = scheduler.metrics().wake_ups - woken;
    let fired = scheduler.metrics().fired;
    if fired != u64::from(wake_ups) {
        return Err(format!("{fired} timers have fired, of {wake_ups}").into());
    }
    println!(
        "| {threads} | {} | {} | {:.1} |",
        after.saturating_sub(before) / threads,
        timer_memory / threads,
        cpu.as_secs_f64() * 1e6 / woken.max(1) as f64,
    );
    meet.wait();
    for thread in running {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}
