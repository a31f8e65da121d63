//! A report at nine every morning in Berlin, over the weeks in which the clocks change, and over
//! one in which somebody sets the clock wrong; in virtual wall time.
//!
//! A second job, at half past two at night, meets the hour that does not exist in spring and the
//! one that comes twice in autumn.
//!
//! ```text
//! cargo run --release -p examples --features cron --example daily_report
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use examples::checks::Problem;
use jiff::civil::DateTime;
use jiff::{Timestamp, Zoned};
use lars_jobs::wall_clock::{CronSchedule, VirtualWallClock, WallClock, WallClockScheduler};
use lars_scheduler::LightArrayRevolverScheduler;

const ZONE: &str = "Europe/Berlin";
const DAY: Duration = Duration::from_secs(24 * 3600);

fn main() -> Result<(), Problem> {
    println!("Spring: 2:30 does not exist on Sunday, so the backup runs at 3:00.\n");
    let week = a_week("2026-03-26T12:00", Duration::ZERO)?;
    check(&week, "backup", &["02:30", "02:30", "03:00", "02:30", "02:30", "02:30", "02:30"])?;
    check(&week, "report", &["09:00"; 7])?;

    println!("\nAutumn: 2:30 comes twice on Sunday, and the backup runs the first time.\n");
    let week = a_week("2026-10-22T12:00", Duration::ZERO)?;
    check(&week, "backup", &["02:30"; 7])?;
    check(&week, "report", &["09:00"; 7])?;
    let sunday = week.iter().find(|line| line.job == "backup" && line.at.day() == 25);
    if sunday.is_none_or(|line| line.at.strftime("%Z").to_string() != "CEST") {
        return Err("the backup waited for the second 2:30".into());
    }

    println!(
        "\nSomebody sets the clock a day ahead on Friday noon, and sets it right a day later."
    );
    println!("One run makes up for the skipped ones, and Sunday morning comes twice.\n");
    let week = a_week("2026-06-11T12:00", DAY)?;
    let made_up = "12:01"; // the jump is noticed within a minute
    let report = ["09:00", made_up, "09:00", "09:00", "09:00", "09:00", "09:00", "09:00"];
    check(&week, "report", &report)?;

    println!(
        "\nEvery run was on time by the wall clock, or made up for when the clock had been set."
    );
    Ok(())
}

/// A run of a job, and what the clock on the wall showed.
struct Line {
    job: &'static str,
    at: Zoned,
}

/// Runs both jobs for a week from that local time on. One day in, the clock is set forwards by
/// `wrong`, and another day later, back.
fn a_week(from: &str, wrong: Duration) -> Result<Vec<Line>, Box<dyn Error>> {
    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let start: SystemTime = from.parse::<DateTime>()?.in_tz(ZONE)?.into();
    let clock = VirtualWallClock::new(time.handle(), start);
    let wall = WallClockScheduler::with_clock(time.handle(), clock.clone());
    let lines = Arc::new(Mutex::new(Vec::new()));
    for (job, text) in [("backup", "30 2 * * *"), ("report", "0 9 * * *")] {
        let (lines, clock) = (Arc::clone(&lines), clock.clone());
        wall.schedule_by_calendar(CronSchedule::parse(text, ZONE)?, move || {
            let at = Timestamp::try_from(clock.now()).and_then(|now| now.in_tz(ZONE));
            let at = at.expect("this century has time stamps, and Berlin a time");
            println!("  {job}  {}", at.strftime("%a %F %H:%M:%S %Z"));
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(Line { job, at });
        })?;
    }
    time.advance(DAY);
    clock.jump_forward(wrong);
    time.advance(DAY);
    clock.jump_back(wrong);
    time.advance(5 * DAY);
    time.close()?;
    Ok(std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The job ran at these times of day, one after the other, and exactly then.
fn check(lines: &[Line], job: &str, expected: &[&str]) -> Result<(), Box<dyn Error>> {
    let runs: Vec<_> = lines.iter().filter(|line| line.job == job).collect();
    let times: Vec<_> = runs.iter().map(|line| line.at.strftime("%H:%M").to_string()).collect();
    if times != expected {
        return Err(format!("the {job} ran at {times:?} and not at {expected:?}").into());
    }
    match runs.iter().find(|line| line.at.second() != 0 || line.at.subsec_nanosecond() != 0) {
        Some(late) => Err(format!("the {job} ran at {}", late.at).into()),
        None => Ok(()),
    }
}
