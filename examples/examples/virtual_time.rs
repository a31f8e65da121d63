//! A year of a job that retries with growing pauses, in the blink of an eye.
//!
//! The job copies something every hour. Its server has outages; while it is down the job tries
//! again after a second, two, four, and so on up to a quarter of an hour. In virtual time the year
//! is exact and the same in every run, so it can be checked attempt by attempt.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use examples::checks::Problem;
use lars_scheduler::{LightArrayRevolverScheduler, Repeat};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// When the server is down: from when, for how long.
const OUTAGES: [(Duration, Duration); 5] = [
    (DAY.saturating_mul(17), Duration::from_secs(3)),
    (DAY.saturating_mul(60), Duration::from_secs(90)),
    (DAY.saturating_mul(143), Duration::from_secs(40 * 60)),
    (DAY.saturating_mul(200), Duration::from_secs(5 * 3600)),
    (DAY.saturating_mul(300), Duration::from_secs(2 * 24 * 3600)),
];

#[derive(Debug, Clone, Copy, PartialEq)]
struct Attempt {
    at: Duration,
    succeeded: bool,
}

fn main() -> Result<(), Problem> {
    let clock = Instant::now();
    let attempts = a_year()?;
    let took = clock.elapsed();

    let failures = attempts.iter().filter(|attempt| !attempt.succeeded).count();
    println!(
        "A year with {} attempts, {failures} of them failed, took {took:.1?}.\n",
        attempts.len(),
    );
    println!("  day   server down    failed attempts   noticed that it is up after");
    for (from, lasts) in OUTAGES {
        let failed = attempts
            .iter()
            .filter(|attempt| attempt.at >= from && attempt.at < from + lasts)
            .count();
        let recovered = attempts
            .iter()
            .find(|attempt| attempt.at >= from + lasts)
            .ok_or("the job has not come back")?;
        println!(
            "  {:>3}   {:>11}   {failed:>16}   {:>8}",
            from.as_secs() / DAY.as_secs(),
            in_words(lasts),
            in_words(recovered.at - (from + lasts)),
        );
    }
    println!("\nThe second outage, attempt by attempt:");
    let (from, lasts) = OUTAGES[1];
    let shown: Vec<_> = attempts
        .iter()
        .filter(|attempt| attempt.at >= from)
        .take_while(|attempt| attempt.at < from + lasts + LONGEST_PAUSE)
        .collect();
    for attempt in shown {
        let result = if attempt.succeeded { "copied" } else { "failed" };
        println!("  + {:>8}  {result}", in_words(attempt.at - from));
    }

    check(&attempts)?;
    if a_year()? != attempts {
        return Err("a second year differs from the first".into());
    }
    println!("\nEvery pause was exact to the nanosecond, and a second year was the same.");
    Ok(())
}

/// Runs the job for a year, and returns its attempts.
fn a_year() -> Result<Vec<Attempt>, Box<dyn Error>> {
    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let start = time.now();
    let job = {
        let (timers, attempts) = (time.handle(), Arc::clone(&attempts));
        let mut pause = FIRST_PAUSE;
        move || {
            let at = timers.now() - start;
            let succeeded = is_up(at);
            attempts.lock().unwrap_or_else(PoisonError::into_inner).push(Attempt { at, succeeded });
            if succeeded {
                pause = FIRST_PAUSE;
                Repeat::After(HOUR)
            } else {
                let this = pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                Repeat::After(this)
            }
        }
    };
    let job = time.schedule_repeating(Duration::ZERO, job)?;
    let ran = time.advance(YEAR);
    job.cancel();
    let attempts = std::mem::take(&mut *attempts.lock().unwrap_or_else(PoisonError::into_inner));
    if ran != attempts.len() || time.elapsed() != YEAR {
        return Err("the scheduler has counted something else".into());
    }
    Ok(attempts)
}

fn is_up(at: Duration) -> bool {
    !OUTAGES.iter().any(|&(from, lasts)| at >= from && at < from + lasts)
}

/// The pauses between the attempts follow the rule, worked out here without a scheduler.
fn check(attempts: &[Attempt]) -> Result<(), Box<dyn Error>> {
    let mut at = Duration::ZERO;
    let mut failures = 0;
    for attempt in attempts {
        if attempt.at != at {
            return Err(format!("an attempt at {:?}, not at {at:?}", attempt.at).into());
        }
        at += if attempt.succeeded {
            failures = 0;
            HOUR
        } else {
            failures += 1;
            // Doubling ten times is beyond the longest pause.
            (FIRST_PAUSE * (1 << (failures - 1).min(10))).min(LONGEST_PAUSE)
        };
    }
    if at <= YEAR {
        return Err("the job stopped before the year was over".into());
    }
    Ok(())
}

fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} m {s:02} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m:02} m"),
    }
}
