//! Several threads cancel the same timers while they fire: every timer has exactly one winner.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use examples::checks::{Problem, verify};
use lars_scheduler::{Cancellable, LightArrayRevolverScheduler, Task};

const ROUNDS: usize = 40;
const TIMERS: usize = 5_000;
const THREADS: usize = 3;
/// From the start of a round to its first deadline: time enough to schedule them all.
const LEAD: Duration = Duration::from_millis(8);
/// From one deadline to the next: the cancellers need about as long for a timer.
const SPACING: Duration = Duration::from_nanos(500);

/// How often each of the timers of a round was won by somebody.
type Wins = Vec<AtomicU8>;

fn main() -> Result<(), Problem> {
    let scheduler = LightArrayRevolverScheduler::new()?;
    let fired = Arc::new(AtomicU64::new(0));
    let mut cancelled = [0_u64; THREADS];
    let mut undecided = 0_u64;
    let mut several = 0_u64;

    for _ in 0..ROUNDS {
        let wins: Arc<Wins> = Arc::new((0..TIMERS).map(|_| AtomicU8::new(0)).collect());
        let first = Instant::now() + LEAD;
        let timers = (0..TIMERS)
            .map(|number| {
                let (wins, fired) = (Arc::clone(&wins), Arc::clone(&fired));
                let run = move || {
                    wins[number].fetch_add(1, Ordering::Relaxed);
                    fired.fetch_add(1, Ordering::Relaxed);
                };
                scheduler.schedule_at(first + SPACING * number as u32, Task::new(run).inline())
            })
            .collect::<Result<Vec<Cancellable>, _>>()?;

        thread::scope(|scope| {
            let cancellers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (timers, wins) = (&timers, &wins);
                    scope.spawn(move || cancel_all(timers, wins, first, thread))
                })
                .collect();
            for (total, canceller) in cancelled.iter_mut().zip(cancellers) {
                *total += canceller.join().unwrap_or_default();
            }
        });

        // What no thread could cancel has been fired, on the timer thread, but its run may not have
        // ended yet.
        let patience = Instant::now() + Duration::from_secs(60);
        while wins.iter().any(|wins| wins.load(Ordering::Relaxed) == 0) && Instant::now() < patience
        {
            thread::yield_now();
        }
        for wins in wins.iter() {
            match wins.load(Ordering::Relaxed) {
                0 => undecided += 1,
                1 => {}
                _ => several += 1,
            }
        }
    }

    scheduler.close()?;
    let fired = fired.load(Ordering::Relaxed);
    let all = (ROUNDS * TIMERS) as u64;
    println!(
        "{all} timers, each fired by the scheduler or cancelled by one of {THREADS} threads:\n"
    );
    println!("  fired                  {fired:>8}");
    for (thread, total) in cancelled.iter().enumerate() {
        println!("  cancelled by thread {thread}  {total:>8}");
    }
    println!("  no winner              {undecided:>8}");
    println!("  several winners        {several:>8}\n");

    let metrics = scheduler.metrics();
    let cancelled: u64 = cancelled.iter().sum();
    let verdict = verify(&[
        ("every timer has one winner", undecided == 0 && several == 0),
        ("the winners add up", fired + cancelled == all),
        (
            "the scheduler has counted the same",
            metrics.fired == fired && metrics.cancelled == cancelled && metrics.pending == 0,
        ),
    ]);
    if fired == 0 || cancelled == 0 {
        println!("  note   one side won them all, because the machine stood still: run it again");
    }
    Ok(verdict?)
}

/// Cancels every timer, in an order of the thread's own, about when the timers are due. Returns how
/// many it prevented.
fn cancel_all(timers: &[Cancellable], wins: &Wins, first: Instant, thread: usize) -> u64 {
    // The threads and the timer thread meet in the middle of the deadlines.
    let middle = first + SPACING * (timers.len() / 2) as u32;
    thread::sleep(middle.saturating_duration_since(Instant::now()));
    let mut won = 0;
    for step in 0..timers.len() {
        // One from the front, one from the back, one from a third on: they cross each other's ways.
        let number = match thread {
            0 => step,
            1 => timers.len() - 1 - step,
            _ => (step + timers.len() / 3) % timers.len(),
        };
        if timers[number].cancel() {
            wins[number].fetch_add(1, Ordering::Relaxed);
            won += 1;
        }
    }
    won
}
