//! What becomes of a scheduler that is flooded, and of a thread beside the flood that schedules
//! little.
//!
//! ```sh
//! cargo run --release -p benches --no-default-features --bin floods
//! ```
//!
//! For each flood a process of its own, so that none inherits another's memory. Each flood goes on
//! as fast as it is let, with timers that are due a millisecond later.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use benches::process::{forget_peak, peak};
use clap::{Parser, ValueEnum};
use lars_scheduler::{Handle, LightArrayRevolverScheduler, Task};

type AnyError = Box<dyn std::error::Error>;

/// What a flood costs: memory, lateness, and the calls of a thread that schedules little.
#[derive(Parser)]
struct Options {
    /// For how many seconds each flood goes on.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Which floods; all of them if none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    floods: Vec<Flood>,
    /// What the builder is told.
    #[arg(long, value_enum, default_value = "wait")]
    backpressure: Choice,
    /// Say why timers were late, after each line: by more than a millisecond.
    #[arg(long)]
    explain: bool,
    /// One measurement, in this process.
    #[arg(long, hide = true, value_enum)]
    here: Option<Executor>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    Wait,
    Refuse,
    Off,
}

/// Where tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Executor {
    Pool,
    Inline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flood {
    /// Nothing but the bystander.
    None,
    /// Two threads with single calls.
    Single,
    /// Two threads with batches of 1,000.
    Batch,
    /// 300 threads with single calls, of which some have no wheel.
    Threads,
    /// Two threads move the timers of a third one nearer.
    Moves,
    /// Two threads poll sleeps, 10,000 each.
    Futures,
    /// A thread with single calls, whose inline tasks take a microsecond.
    Inline1,
    /// Ten microseconds.
    Inline10,
    /// A hundred.
    Inline100,
    /// All of them together.
    All,
}

const SOON: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// Between two calls of the bystander.
const APART: Duration = Duration::from_millis(20);
/// A call that waits sleeps for at least so long.
const NAP: Duration = Duration::from_micros(50);
const STACK: usize = 128 << 10;

static OVER: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<(), AnyError> {
    let options = Options::parse();
    if let (Some(executor), [flood]) = (options.here, &*options.floods) {
        return measure(*flood, executor, &options);
    }
    println!(
        "| flood | executor | calls a second | most pending | MiB | late, p99 | late, most | \
         bystander's p99 | its slowest call | its calls that waited |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let all = Flood::value_variants();
    let floods = if options.floods.is_empty() { all } else { &options.floods };
    for flood in floods {
        for executor in Executor::value_variants() {
            let name = |it: &Executor| format!("{it:?}").to_lowercase();
            let flood = flood.to_possible_value().ok_or("every flood has a name")?;
            let choice = options.backpressure.to_possible_value().ok_or("and every choice")?;
            let explain = options.explain.then_some("--explain");
            let status = Command::new(std::env::current_exe()?)
                .args(explain)
                .args(["--here", &name(executor), "--floods", flood.get_name()])
                .args(["--seconds", &options.seconds.to_string()])
                .args(["--backpressure", choice.get_name()])
                .status()?;
            if !status.success() {
                return Err(format!("the flood {} failed: {status}", flood.get_name()).into());
            }
        }
    }
    Ok(())
}

fn measure(flood: Flood, executor: Executor, options: &Options) -> Result<(), AnyError> {
    let builder = LightArrayRevolverScheduler::builder().backpressure(match options.backpressure {
        Choice::Wait => lars_scheduler::Backpressure::Wait,
        Choice::Refuse => lars_scheduler::Backpressure::Refuse,
        Choice::Off => lars_scheduler::Backpressure::Off,
    });
    let builder =
        if options.explain { builder.explain_late(Duration::from_millis(1)) } else { builder };
    let scheduler = match executor {
        Executor::Pool => builder.build()?,
        Executor::Inline => builder.inline().build()?,
    };
    let bystander = {
        let timers = scheduler.handle();
        thread::spawn(move || stand_by(&timers))
    };
    forget_peak();
    let before = peak();
    begin(flood, &scheduler.handle());
    let mut most = 0;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
        most = most.max(scheduler.pending());
    }
    let calls = CALLS.load(Ordering::Relaxed);
    OVER.store(true, Ordering::Relaxed);
    let mut bystander = bystander.join().map_err(|_| "the bystander panicked")?;
    let late = scheduler.metrics().lateness;
    bystander.took.sort_unstable();
    let last = bystander.took.len() - 1;
    let flood = flood.to_possible_value().ok_or("every flood has a name")?;
    println!(
        "| {} | {executor:?} | {:.2} M | {most} | {} | {:.1?} | {:.1?} | {:.1?} | {:.1?} | {} of \
         {} |",
        flood.get_name(),
        calls as f64 / options.seconds as f64 / 1e6,
        peak().saturating_sub(before) >> 20,
        late.quantile(0.99),
        late.max,
        bystander.took[last * 99 / 100],
        bystander.took[last],
        bystander.waited,
        last + 1,
    );
    if options.explain {
        print!("{}", scheduler.lateness());
    }
    // (What is pending is not waited for.)
    std::process::exit(0);
}

/// What the calls of a thread took that schedules little.
struct Bystander {
    took: Vec<Duration>,
    /// How many of them waited, or were refused.
    waited: u64,
}

fn stand_by(timers: &Handle) -> Bystander {
    // So that it has a wheel.
    for _ in 0..100 {
        if let Ok(timer) = timers.schedule_once(HOUR, || ()) {
            timer.cancel();
        }
    }
    let mut seen = Bystander { took: Vec::new(), waited: 0 };
    while seen.took.is_empty() || !OVER.load(Ordering::Relaxed) {
        thread::sleep(APART);
        let sleeps = sleeps_of_this_thread();
        let begin = Instant::now();
        let refused = timers.schedule_once(HOUR, || ()).is_err();
        let took = begin.elapsed();
        seen.took.push(took);
        // (The look at the number of sleeps may sleep as well.)
        let slept = took >= NAP && sleeps_of_this_thread() > sleeps;
        seen.waited += u64::from(refused || slept);
    }
    seen
}

/// How often the calling thread has gone to sleep by itself so far.
fn sleeps_of_this_thread() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("voluntary"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn begin(flood: Flood, timers: &Handle) {
    match flood {
        Flood::None => {}
        Flood::Single => start(2, timers, single),
        Flood::Batch => start(2, timers, batch),
        Flood::Threads => start(300, timers, single),
        Flood::Moves => moves(timers),
        Flood::Futures => start(2, timers, futures),
        Flood::Inline1 => start(1, timers, |timers| inline(timers, Duration::from_micros(1))),
        Flood::Inline10 => start(1, timers, |timers| inline(timers, Duration::from_micros(10))),
        Flood::Inline100 => start(1, timers, |timers| inline(timers, Duration::from_micros(100))),
        Flood::All => {
            let all = Flood::value_variants().iter().filter(|&&flood| flood != Flood::All);
            all.for_each(|&flood| begin(flood, timers));
        }
    }
}

/// Starts threads that each do this over and over.
fn start(threads: usize, timers: &Handle, step: fn(&Handle) -> u64) {
    for _ in 0..threads {
        let timers = timers.clone();
        let body = move || {
            while !OVER.load(Ordering::Relaxed) {
                CALLS.fetch_add(step(&timers), Ordering::Relaxed);
            }
        };
        if let Err(error) = thread::Builder::new().stack_size(STACK).spawn(body) {
            eprintln!("a thread could not be started: {error}");
        }
    }
}

fn single(timers: &Handle) -> u64 {
    (0..100).filter(|_| timers.schedule_once(SOON, || ()).is_ok()).count() as u64
}

fn batch(timers: &Handle) -> u64 {
    timers.schedule_batch((0..1_000).map(|_| (SOON, || ()))).map_or(0, |timers| timers.len() as u64)
}

fn inline(timers: &Handle, takes: Duration) -> u64 {
    let task = move || {
        let end = Instant::now() + takes;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    u64::from(timers.schedule_once(SOON, Task::new(task).inline()).is_ok())
}

fn futures(timers: &Handle) -> u64 {
    let mut sleeps: VecDeque<Pin<Box<_>>> = VecDeque::new();
    let context = &mut Context::from_waker(Waker::noop());
    let mut calls = 0;
    while !OVER.load(Ordering::Relaxed) {
        let mut sleep = Box::pin(timers.sleep(SOON));
        // (It waits, or the scheduler has stopped.)
        let _ = sleep.as_mut().poll(context);
        sleeps.push_back(sleep);
        calls += 1;
        if sleeps.len() > 10_000
            && let Some(mut first) = sleeps.pop_front()
        {
            while first.as_mut().poll(context).is_pending() {
                thread::yield_now();
            }
        }
        if calls == 1_000 {
            CALLS.fetch_add(calls, Ordering::Relaxed);
            calls = 0;
        }
    }
    calls
}

/// A thread waits with many timers, and others move them nearer all the time.
fn moves(timers: &Handle) {
    for _ in 0..2 {
        let timers = timers.clone();
        thread::spawn(move || {
            let task = |_| timers.schedule_once(HOUR, || ()).ok();
            let moved: Vec<_> = thread::scope(|scope| {
                let made = scope.spawn(|| (0..32 << 10).filter_map(task).collect());
                made.join().unwrap_or_default()
            });
            while !OVER.load(Ordering::Relaxed) {
                for timer in &moved {
                    timer.reset(HOUR);
                    timer.reset(HOUR / 2);
                }
                CALLS.fetch_add(moved.len() as u64, Ordering::Relaxed);
            }
        });
    }
}
