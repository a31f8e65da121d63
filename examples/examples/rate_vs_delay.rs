//! What a fixed rate and a fixed delay do when a run takes too long, drawn as timelines.
//!
//! Time is virtual, so the pictures are exact. The one worker is this thread: a run that "takes"
//! 250 ms moves the clock by as much while it runs.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use examples::checks::Problem;
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{
    Executor, LightArrayRevolverScheduler, MissedTickBehavior, Periodic, VirtualTime,
};

const PERIOD: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(250);
const QUICK: Duration = Duration::from_millis(10);
const END: Duration = Duration::from_millis(700);
/// One character of a timeline.
const COLUMN: Duration = Duration::from_millis(10);

/// A series, with the starts that it must have, in milliseconds.
struct Case {
    name: &'static str,
    says: &'static str,
    series: Series,
    starts: &'static [u128],
}

#[derive(Clone, Copy)]
enum Series {
    Rate(MissedTickBehavior),
    Delay,
}

const CASES: [Case; 4] = [
    Case {
        name: "rate, Burst",
        says: "all runs happen; missed ones follow at once until the schedule is caught up with",
        series: Series::Rate(MissedTickBehavior::Burst),
        starts: &[0, 250, 260, 300, 400, 500, 600],
    },
    Case {
        name: "rate, Skip",
        says: "missed runs are left out; the schedule stays where it was",
        series: Series::Rate(MissedTickBehavior::Skip),
        starts: &[0, 300, 400, 500, 600],
    },
    Case {
        name: "rate, Delay",
        says: "a late run happens at once, and the schedule starts over from it",
        series: Series::Rate(MissedTickBehavior::Delay),
        starts: &[0, 250, 350, 450, 550, 650],
    },
    Case {
        name: "fixed delay",
        says: "the pause is measured from the end of each run, so every run shifts the next",
        series: Series::Delay,
        starts: &[0, 350, 460, 570, 680],
    },
];

/// Keeps due tasks until the worker is free.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<VecDeque<Runnable>>>);

impl Queue {
    fn next(&self) -> Option<Runnable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Executor for Queue {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(task);
        Ok(())
    }
}

/// A run's start and end.
type Run = (Duration, Duration);

fn main() -> Result<(), Problem> {
    println!(
        "Every {PERIOD:?}; the first run takes {SLOW:?}, the others {QUICK:?}. One column is \
         {COLUMN:?}.\n"
    );
    println!("{:12}{}", "", ruler());
    for case in &CASES {
        let runs = observe(case.series)?;
        println!("{:12}{}", case.name, timeline(&runs));
        println!("{:12}{}\n", "", case.says);
        let starts: Vec<u128> = runs.iter().map(|(start, _)| start.as_millis()).collect();
        if starts != case.starts {
            let Case { name, starts: expected, .. } = case;
            return Err(format!("{name}: runs at {starts:?}, not at {expected:?}").into());
        }
    }
    println!("Every run began at the millisecond that its rule asks for.");
    Ok(())
}

/// Lets a series run until the end of the picture.
fn observe(series: Series) -> Result<Vec<Run>, Box<dyn Error>> {
    let queue = Queue::default();
    let time = LightArrayRevolverScheduler::builder().executor(queue.clone()).build_virtual()?;
    let time = Arc::new(time);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let work = {
        let (time, runs) = (Arc::clone(&time), Arc::clone(&runs));
        move || work(&time, &runs)
    };
    let cancellable = match series {
        Series::Rate(missed) => {
            let work = Periodic::new(work).missed_ticks(missed);
            time.schedule_at_fixed_rate(Duration::ZERO, PERIOD, work)?
        }
        Series::Delay => time.schedule_with_fixed_delay(Duration::ZERO, PERIOD, work)?,
    };
    while time.elapsed() < END {
        match queue.next() {
            // Outside of any movement of time, so the task may move it.
            Some(task) => task.run(),
            None if time.advance_to_next().is_none() => break,
            None => {}
        }
    }
    // The series owns the clock that it runs on; the cancel takes the two apart.
    cancellable.cancel();
    let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
    runs.retain(|(start, _)| *start < END);
    Ok(std::mem::take(&mut *runs))
}

/// One run: takes its time, and keeps a record of it.
fn work(time: &VirtualTime, runs: &Mutex<Vec<Run>>) {
    let start = time.elapsed();
    let first = runs.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    time.advance(if first { SLOW } else { QUICK });
    runs.lock().unwrap_or_else(PoisonError::into_inner).push((start, time.elapsed()));
}

fn columns(time: Duration) -> usize {
    (time.as_nanos() / COLUMN.as_nanos()) as usize
}

fn ruler() -> String {
    (0..columns(END) / columns(PERIOD))
        .map(|number| {
            format!("{:<width$}", (PERIOD * number as u32).as_millis(), width = columns(PERIOD))
        })
        .collect()
}

/// Each run as a block that begins with a bar, on a line of dots.
fn timeline(runs: &[Run]) -> String {
    let mut line = vec!['·'; columns(END)];
    for &(start, end) in runs {
        for cell in line.iter_mut().take(columns(end)).skip(columns(start)) {
            *cell = '━';
        }
        line[columns(start)] = '┣';
    }
    line.into_iter().collect()
}
