//! Schedulers that live for some milliseconds, ended in each of the ways there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler, PendingTask, Task};

use crate::books::Books;

const TIMERS: u64 = 300;

/// Starts a scheduler, ends it with timers pending, and counts what became of them.
pub fn one(books: &Books) {
    let life = books.lives.fetch_add(1, Ordering::SeqCst);
    let scheduler = match LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(1))
        .close_policy(ClosePolicy::RunPending)
        .build()
    {
        Ok(scheduler) => scheduler,
        Err(error) => return books.fault(format!("a scheduler could not be started: {error}")),
    };
    let ran = Arc::new(AtomicU64::new(0));
    let batch = (0..TIMERS).map(|number| {
        let ran = Arc::clone(&ran);
        let delay = match number % 3 {
            0 => Duration::from_micros(number * 30),
            1 => Duration::from_millis(number),
            _ => Duration::from_secs(number),
        };
        let run = move || {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        (delay, Task::new(run).inline())
    });
    let timers = match scheduler.schedule_batch(batch) {
        Ok(timers) => timers,
        Err(error) => return books.fault(format!("a batch was refused: {error}")),
    };
    thread::sleep(Duration::from_millis(4));
    let cancelled = timers.iter().skip(life as usize % 2).step_by(2).filter(|t| t.cancel()).count();
    let handle = scheduler.handle();
    let ran_by_us = match life % 3 {
        0 => scheduler.stop().wait().into_iter().map(PendingTask::run).filter(|ran| *ran).count(),
        1 => scheduler.close().map_or(0, |report| report.ran),
        _ => 0,
    };
    drop(scheduler);
    let metrics = handle.metrics();
    books.expect("timers of a short life that ended", metrics.pending, 0);
    books.expect("timers of a short life", metrics.scheduled, TIMERS);
    books.expect("cancelled timers of a short life", metrics.cancelled, cancelled as u64);
    let runs = metrics.fired + ran_by_us as u64;
    books.expect("runs in a short life", ran.load(Ordering::SeqCst), runs);
    drop((timers, handle));
    books.expect("captures that outlived a scheduler", Arc::strong_count(&ran) as u64 - 1, 0);
}
