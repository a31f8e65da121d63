//! Races counted: every accepted task ran, was cancelled, or was handed back, exactly once.
//!
//! Each task carries a token with a slot in a shared table. A run and a cancel that returned `true`
//! each mark the slot; tasks that are handed back are run by the test. At the end every slot of an
//! accepted task has exactly one mark, every slot of a refused one none, and every token has been
//! dropped exactly once.
//!
//! `LARS_STRESS=100 cargo test --release -p lars-scheduler --test races -- --nocapture stress::`
//! does so a hundred times as long, and says how many timers that were.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::{
    LightArrayRevolverScheduler, MissedTickBehavior, PendingTask, Periodic, Refusal, Task,
};

const RAN: u8 = 1;
const CANCELLED: u8 = 1 << 2;

/// One for each task ever made.
struct Table {
    marks: Vec<AtomicU8>,
    drops: AtomicUsize,
}

struct Token {
    table: Arc<Table>,
    number: usize,
}

impl Token {
    fn mark(&self, mark: u8) {
        // Adding instead of setting: a second mark of the same kind shows.
        self.table.marks[self.number].fetch_add(mark, Ordering::SeqCst);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.table.drops.fetch_add(1, Ordering::SeqCst);
    }
}

fn scale(full: usize) -> usize {
    if cfg!(miri) { (full / 1000).max(10) } else { full }
}

/// How many rounds: more if that is asked for.
fn rounds(full: u64) -> u64 {
    if cfg!(miri) { full.min(4) } else { full * u64::from(common::stress()) }
}

fn tell(what: &str, accepted: u64) {
    if std::env::var_os("LARS_STRESS").is_some() {
        println!("{what}: {accepted} timers accepted");
    }
}

/// How a race ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Two threads stop; one gets the tasks.
    Stop,
    /// One thread closes, and another stops: one of them gets the tasks.
    Close,
    Drop,
}

/// A small generator, so that the mix is the same in every run and the interleaving is not.
struct Xorshift(u64);
impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns how many timers were accepted.
fn race(round: u64, inline: bool, end: End) -> u64 {
    const THREADS: usize = 4;
    let per_thread = scale(4_000);
    let table = Arc::new(Table {
        marks: (0..THREADS * per_thread).map(|_| AtomicU8::new(0)).collect(),
        drops: AtomicUsize::new(0),
    });
    let builder = LightArrayRevolverScheduler::builder()
        .tick_duration(Duration::from_micros(100))
        .ticks_per_wheel(8)
        .shutdown_timeout(common::PATIENCE)
        .pool(|pool| pool.threads(2));
    let scheduler = if inline { builder.inline() } else { builder }.build().unwrap();
    let start = Arc::new(Barrier::new(THREADS + 1));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (timers, table, start) =
                (scheduler.handle(), Arc::clone(&table), Arc::clone(&start));
            thread::spawn(move || {
                let mut random = Xorshift(round * 1_000_003 + thread as u64 + 1);
                let mut held = Vec::new();
                let (mut accepted, mut refused) = (0_u64, Vec::new());
                start.wait();
                let mut numbers = thread * per_thread..(thread + 1) * per_thread;
                while let Some(number) = numbers.next() {
                    if random.next().is_multiple_of(32) {
                        let batch: Vec<_> =
                            std::iter::once(number).chain(numbers.by_ref().take(7)).collect();
                        let tasks = batch.iter().map(|&number| {
                            let token = Token { table: Arc::clone(&table), number };
                            let delay = Duration::from_micros(random.next() % 3_000);
                            (delay, move || token.mark(RAN))
                        });
                        match timers.schedule_batch(tasks) {
                            Ok(timers) => {
                                accepted += timers.len() as u64;
                                held.extend(batch.into_iter().zip(timers));
                            }
                            Err(error) => {
                                assert_eq!(error.into_task().len(), batch.len(), "all or none");
                                refused.extend(batch);
                            }
                        }
                        continue;
                    }
                    let token = Token { table: Arc::clone(&table), number };
                    let delay = match random.next() % 4 {
                        0 => Duration::ZERO,
                        1 => Duration::from_secs(3600),
                        _ => Duration::from_micros(random.next() % 3_000),
                    };
                    // A body that fits the entry, and one that is boxed.
                    let ballast = [number; 8];
                    let scheduled = if random.next().is_multiple_of(2) {
                        timers.schedule_once(delay, move || token.mark(RAN)).map_err(|e| {
                            assert_eq!(*e.refusal(), Refusal::Stopped);
                            drop(e.into_task());
                        })
                    } else {
                        let task = Task::new(move || {
                            assert_eq!(ballast[7], token.number);
                            token.mark(RAN);
                        });
                        timers.schedule_once(delay, task).map_err(drop)
                    };
                    match scheduled {
                        Err(()) => refused.push(number),
                        Ok(cancellable) => {
                            accepted += 1;
                            match random.next() % 4 {
                                0 => {
                                    if cancellable.cancel() {
                                        table.marks[number].fetch_add(CANCELLED, Ordering::SeqCst);
                                        assert!(!cancellable.cancel());
                                        assert!(cancellable.is_cancelled());
                                    }
                                }
                                1 => drop(cancellable),
                                _ => held.push((number, cancellable)),
                            }
                            if !held.is_empty() && random.next().is_multiple_of(2) {
                                let pick = random.next() as usize % held.len();
                                let delay = match random.next() % 8 {
                                    0 => Duration::ZERO,
                                    1 => Duration::from_secs(7200),
                                    _ => Duration::from_micros(random.next() % 3_000),
                                };
                                let _ = held[pick].1.reset(delay);
                            }
                            if held.len() > 64 {
                                let pick = random.next() as usize % held.len();
                                let (number, cancellable) = held.swap_remove(pick);
                                if cancellable.cancel() {
                                    table.marks[number].fetch_add(CANCELLED, Ordering::SeqCst);
                                }
                            }
                        }
                    }
                }
                (accepted, refused, held)
            })
        })
        .collect();
    start.wait();
    thread::sleep(Duration::from_micros(round * 97 % 4_000));
    let handle = scheduler.handle();
    let by_hand = |pending: Vec<PendingTask>| {
        let count = pending.len();
        assert!(pending.into_iter().all(PendingTask::run));
        count as u64
    };
    let ran_by_hand = match end {
        End::Drop => {
            drop(scheduler);
            0
        }
        End::Stop => thread::scope(|scope| {
            let stop = || by_hand(scheduler.stop().wait());
            let (one, two) = (scope.spawn(stop), scope.spawn(stop));
            let (one, two) = (one.join().unwrap(), two.join().unwrap());
            assert!(one == 0 || two == 0, "both got tasks");
            one + two
        }),
        End::Close => thread::scope(|scope| {
            let stopped = scope.spawn(|| by_hand(scheduler.stop().wait()));
            let closed = scheduler.close().unwrap().ran as u64;
            let stopped = stopped.join().unwrap();
            assert!(closed == 0 || stopped == 0, "both got tasks");
            closed + stopped
        }),
    };
    let (mut accepted, mut refused, mut held) = (0, Vec::new(), Vec::new());
    for thread in threads {
        let (more, not, left) = thread.join().unwrap();
        accepted += more;
        refused.extend(not);
        held.extend(left);
    }
    // What is cancelled after the end prevents nothing any more, and harms nothing.
    for (_, cancellable) in &held {
        assert!(!cancellable.cancel());
    }
    // Wait for what the pool still has.
    let metrics = loop {
        let ran = table.marks.iter().filter(|m| m.load(Ordering::SeqCst) & 3 == RAN).count() as u64;
        let metrics = handle.metrics();
        if ran >= metrics.fired + ran_by_hand {
            break metrics;
        }
        thread::yield_now();
    };
    assert_eq!(metrics.scheduled, accepted);
    assert_eq!(metrics.pending, 0);
    assert_eq!(metrics.scheduled, metrics.fired + metrics.cancelled + metrics.handed_back);
    let dropped = if end == End::Drop { metrics.handed_back } else { 0 };
    assert_eq!(metrics.handed_back, ran_by_hand + dropped);
    let mut was_refused = vec![false; THREADS * per_thread];
    refused.iter().for_each(|&number| was_refused[number] = true);
    let mut kinds = [0_u64; 3];
    for (number, mark) in table.marks.iter().enumerate() {
        let mark = mark.load(Ordering::SeqCst);
        match mark {
            RAN => kinds[0] += 1,
            CANCELLED => kinds[1] += 1,
            0 => kinds[2] += 1,
            other => panic!("task {number} has the marks {other:#b}"),
        }
        assert!(mark == 0 || !was_refused[number], "task {number} was refused");
    }
    assert_eq!(kinds[1], metrics.cancelled);
    assert_eq!(kinds[2], refused.len() as u64 + dropped, "{metrics:?}");
    drop((held, handle));
    // A thread of the pool may have been interrupted between a task's mark and the drop of its
    // captures.
    let dropped = || table.drops.load(Ordering::SeqCst);
    let patience = Instant::now() + common::PATIENCE;
    while dropped() < THREADS * per_thread && Instant::now() < patience {
        thread::yield_now();
    }
    assert_eq!(dropped(), THREADS * per_thread);
    accepted
}

fn races(what: &str, full: u64, end: End) {
    let accepted = (0..rounds(full)).map(|round| race(round, round.is_multiple_of(2), end)).sum();
    tell(what, accepted);
}

#[test]
fn every_accepted_task_ran_or_was_cancelled_or_handed_back_when_stop_races() {
    races("stop", 40, End::Stop);
}

#[test]
fn every_accepted_task_ran_or_was_cancelled_when_close_races() {
    races("close", 20, End::Close);
}

#[test]
fn every_captured_value_is_dropped_once_when_the_owner_is_dropped_in_a_race() {
    races("drop", 20, End::Drop);
}

#[test]
fn repeats_cancelled_in_races_neither_run_on_nor_leak() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    let scheduler = LightArrayRevolverScheduler::builder()
        .tick_duration(Duration::from_micros(50))
        .pool(|pool| pool.threads(2))
        .build()
        .unwrap();
    for round in 0..rounds {
        let running = Arc::new(AtomicBool::new(false));
        let runs = Arc::new(AtomicU64::new(0));
        let hooks = Arc::new(AtomicU64::new(0));
        let (inside, count, hook) = (Arc::clone(&running), Arc::clone(&runs), Arc::clone(&hooks));
        let task = Periodic::new(move || {
            assert!(!inside.swap(true, Ordering::SeqCst), "two runs at once");
            count.fetch_add(1, Ordering::SeqCst);
            inside.store(false, Ordering::SeqCst);
        })
        .missed_ticks(MissedTickBehavior::Burst)
        .on_cancel(move || {
            hook.fetch_add(1, Ordering::SeqCst);
        });
        let task = if round % 3 == 0 { task.inline() } else { task };
        let repeat = scheduler
            .schedule_at_fixed_rate(Duration::ZERO, Duration::from_nanos(1 + round as u64), task)
            .unwrap();
        while runs.load(Ordering::SeqCst) < 1 + round as u64 % 7 {
            thread::yield_now();
        }
        let winners: usize = thread::scope(|scope| {
            let cancel = || usize::from(repeat.cancel());
            let (one, two) = (scope.spawn(cancel), scope.spawn(cancel));
            one.join().unwrap() + two.join().unwrap()
        });
        assert_eq!(winners, 1);
        assert!(repeat.is_cancelled());
        // The closure goes when the run that may be under way ends, and with it the counter's
        // share.
        while Arc::strong_count(&runs) > 1 {
            thread::yield_now();
        }
        while hooks.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(hooks.load(Ordering::SeqCst), 1);
    }
    let report = scheduler.close().unwrap();
    assert_eq!(report.repeats_ended, 0, "all series had ended");
}
