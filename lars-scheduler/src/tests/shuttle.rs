//! Shuttles: the whole scheduler, with its threads, in many random schedules.
//!
//! Run with `ci/shuttle.sh`. Where a loom model explores every interleaving of one protocol, these
//! run everything together: the timer thread's loop, sleeping and waking, the pool, handles on
//! several threads, and the end in each of its forms. The model moves time. Each task that is
//! handed in has a token, and exactly one fate in the end. A thread that does not end, or a lost
//! wake-up, is a deadlock.

mod ending;
mod pool;
mod races;
mod repeats;
mod waking;

use std::time::Duration;

use crate::sync::{Ledger, Token};
use crate::{Builder, Cancellable, Handle, LightArrayRevolverScheduler, ScheduleError, Task};

const TICK: Duration = Duration::from_millis(1);

fn ticks(ticks: u32) -> Duration {
    TICK * ticks
}

/// Few slots, so that the wheel comes round, and two threads for tasks.
fn builder() -> Builder {
    LightArrayRevolverScheduler::builder().ticks_per_wheel(2).pool(|pool| pool.threads(2))
}

fn pooled() -> LightArrayRevolverScheduler {
    builder().build().unwrap()
}

/// Tasks run on the timer thread.
fn inline() -> LightArrayRevolverScheduler {
    builder().inline().build().unwrap()
}

/// Schedules a task of its own number.
fn schedule(ledger: &Ledger, handle: &Handle, delay: Duration) -> Option<(usize, Cancellable)> {
    let token = ledger.token();
    let number = token.number;
    enter(ledger, number, handle.schedule_once(delay, move || token.run()))
}

/// Schedules a task of its own number that runs on close, where others are dropped.
fn schedule_marked(ledger: &Ledger, handle: &Handle, delay: Duration) {
    let token = ledger.token();
    let number = token.number;
    let task = Task::new(move || token.run()).run_on_close();
    enter(ledger, number, handle.schedule_once(delay, task));
}

fn enter<T>(
    ledger: &Ledger,
    number: usize,
    scheduled: Result<Cancellable, ScheduleError<T>>,
) -> Option<(usize, Cancellable)> {
    match scheduled {
        Ok(cancellable) => {
            ledger.accepted(number);
            Some((number, cancellable))
        }
        Err(refused) => {
            ledger.refused(number);
            drop(refused.into_task());
            None
        }
    }
}

/// A task that runs its token.
fn task(token: Token) -> impl FnOnce() + Send + 'static {
    move || token.run()
}
