//! Timers that survive the process: this program schedules some thousands of them. It is killed
//! with SIGKILL again and again, and restarts each time. In the end every accepted timer has fired,
//! and the program accounts for all of them.
//!
//! ```sh
//! cargo run --release -p examples --features durable --example durable
//! ```
//!
//! The program that you start only watches. It starts copies of itself, which do the work on one
//! SQLite file, and kills all but the last. Callers and handlers write what they see into a log,
//! which outlives them; at the end the log is compared with what was accepted. It exits with an
//! error if a timer is missing, early, or ran twice without a kill.

// It measures real time.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use examples::checks::Problem;
use lars_durable::{Durable, Error, Fired, OnConflict, Payload};
use serde::{Deserialize, Serialize};

type AnyError = Box<dyn std::error::Error>;

/// Timers that survive the process, shown by killing it.
#[derive(Parser)]
struct Options {
    /// How many timers are scheduled.
    #[arg(long, default_value_t = 3_000)]
    timers: u64,
    /// How many times the process is killed.
    #[arg(long, default_value_t = 3)]
    kills: u32,
    /// How long a life lasts until it is killed, in milliseconds.
    #[arg(long, default_value_t = 1_500)]
    life: u64,
    /// The directory of the file; one of its own unless it is given.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// For the copies of this program that do the work.
    #[arg(long, hide = true)]
    work_in: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct PaymentDue {
    order: u64,
}

impl Payload for PaymentDue {
    const NAME: &'static str = "payment-due";
}

fn main() -> Result<ExitCode, Problem> {
    let options = Options::parse();
    match &options.work_in {
        Some(directory) => {
            work(directory, options.timers)?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(look_on(&options)?),
    }
}

/// One life: schedules what has not been accepted yet, and runs what is due, until all is done.
fn work(directory: &Path, timers: u64) -> Result<(), AnyError> {
    let log = Arc::new(Log::open(directory)?);
    let (ran, here) = (Arc::clone(&log), Log::read(directory)?);
    let durable = Durable::sqlite(directory.join("timers.db"))
        .call_timeout(Duration::from_secs(60)) // however busy the machine is
        .handle(move |due: &Fired<PaymentDue>| {
            let early = SystemTime::now() < due.due();
            let PaymentDue { order } = due.payload();
            ran.line(&format!("ran {order} {} {} {early}", due.fence(), due.attempt()))
        })
        .start()?;
    let handle = durable.timers();
    let open: Vec<u64> = (0..timers).filter(|order| !here.accepted.contains(order)).collect();
    for orders in open.chunks(50) {
        // Many calls at once: they share transactions. The key makes it safe to repeat a call whose
        // answer died with the last life; remembering it, also when the timer has run since.
        let calls: Vec<_> = orders
            .iter()
            .map(|order| {
                let delay = Duration::from_millis(order * 7_919 % 5_000);
                let timer = handle.schedule_once(delay, PaymentDue { order: *order });
                let timer = timer.key(format!("payment/{order}")).on_conflict(OnConflict::Keep);
                (*order, timer.remember(Duration::from_secs(3600)).submit())
            })
            .collect();
        for (order, call) in calls {
            match call.wait() {
                Ok(_) => log.line(&format!("accepted {order}"))?,
                Err(Error::OutcomeUnknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    while Log::read(directory)?.runs.len() < usize::try_from(timers)? {
        std::thread::sleep(Duration::from_millis(100));
    }
    durable.close()?;
    log.line("end")?;
    Ok(())
}

/// Starts lives, kills all but the last, and checks what they left.
fn look_on(options: &Options) -> Result<ExitCode, AnyError> {
    let own = std::env::temp_dir().join(format!("lars-durable-{}", std::process::id()));
    let directory = options.directory.clone().unwrap_or_else(|| own.clone());
    std::fs::create_dir_all(&directory)?;
    println!("{} timers in {}", options.timers, directory.join("timers.db").display());
    let mut recoveries = Vec::new();
    for life in 0..=options.kills {
        let before = Log::read(&directory)?.runs_seen;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--timers", &options.timers.to_string(), "--work-in"])
            .arg(&directory)
            .stdin(Stdio::null())
            .spawn()?;
        let (began, mut first_run) = (Instant::now(), None);
        let killed = life < options.kills;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let seen = Log::read(&directory)?;
            if seen.runs_seen > before && first_run.is_none() {
                first_run = Some(began.elapsed());
            }
            if killed && began.elapsed() >= Duration::from_millis(options.life) {
                child.kill()?; // SIGKILL: nothing is tidied up
                child.wait()?;
            } else if child.try_wait()?.is_none() {
                continue;
            }
            let Log { accepted, runs, .. } = seen;
            let end = if killed { "killed" } else { "closed" };
            println!(
                "life {}: {end} after {:.1} s; {} accepted, {} have run",
                life + 1,
                began.elapsed().as_secs_f64(),
                accepted.len(),
                runs.len()
            );
            break;
        }
        if life > 0 {
            recoveries.extend(first_run);
        }
    }
    let verdict = account(options, &Log::read(&directory)?);
    if let Some(longest) = recoveries.iter().max() {
        println!("from a start to its first run: {} ms at most", longest.as_millis());
    }
    if options.directory.is_none() {
        std::fs::remove_dir_all(&own)?;
    }
    Ok(verdict)
}

/// Compares what ran with what was accepted.
fn account(options: &Options, log: &Log) -> ExitCode {
    let missing = log.accepted.iter().filter(|order| !log.runs.contains_key(order)).count();
    let stray = log.runs.keys().filter(|order| **order >= options.timers).count();
    let fences_repeat =
        log.runs.values().any(|fences| fences.iter().collect::<BTreeSet<_>>().len() < fences.len());
    // The upper half of a fence changes with each life.
    let twice_in_a_life = log.runs.values().any(|fences| {
        fences.iter().map(|fence| fence >> 32).collect::<BTreeSet<_>>().len() < fences.len()
    });
    let repeated = log.runs.values().filter(|fences| fences.len() > 1).count();
    println!("accepted {}, ran {}, missing {missing}", log.accepted.len(), log.runs.len());
    println!("ran again after a kill: {repeated} (at least once; the fence tells the runs apart)");
    println!("early: {}", log.early);
    let all = u64::try_from(log.runs.len()).is_ok_and(|runs| runs == options.timers);
    let good = all && missing == 0 && stray == 0 && log.early == 0 && log.ended;
    if good && !fences_repeat && !twice_in_a_life {
        println!("everything fired");
        ExitCode::SUCCESS
    } else {
        println!("SOMETHING IS WRONG");
        ExitCode::FAILURE
    }
}

/// What callers and handlers saw, where it outlives them.
#[derive(Default)]
struct Log {
    file: Option<File>,
    accepted: BTreeSet<u64>,
    /// The fences of the runs of each timer.
    runs: BTreeMap<u64, Vec<u64>>,
    runs_seen: usize,
    early: usize,
    ended: bool,
}

impl Log {
    fn open(directory: &Path) -> Result<Self, AnyError> {
        let file = OpenOptions::new().create(true).append(true).open(directory.join("log"))?;
        let log = Self { file: Some(file), ..Self::default() };
        log.line("")?; // ends a line that the last life left unfinished
        Ok(log)
    }

    /// One write for a line: it is there whole, or not at all.
    fn line(&self, line: &str) -> Result<(), std::io::Error> {
        match &self.file {
            Some(file) => (&*file).write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }

    fn read(directory: &Path) -> Result<Self, AnyError> {
        let mut log = Self::default();
        let text = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["accepted", order] => {
                    log.accepted.insert(order.parse()?);
                }
                ["ran", order, fence, _, early] => {
                    log.runs.entry(order.parse()?).or_default().push(fence.parse()?);
                    log.runs_seen += 1;
                    log.early += usize::from(early == "true");
                }
                ["end"] => log.ended = true,
                _ => {}
            }
        }
        Ok(log)
    }
}
