//! Scheduling, cancelling, moving and firing at the same time.

use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::sync::{Mutex, advance, check, real_now, thread};

/// What one thread schedules and another cancels.
type Shared = Arc<Mutex<Vec<(usize, Cancellable)>>>;

fn tasks_of_three_threads(make: fn() -> LightArrayRevolverScheduler) {
    let (scheduler, ledger, shared) = (make(), Ledger::new(), Shared::default());
    let schedulers: Vec<_> = (0..2)
        .map(|first| {
            let (handle, ledger, shared) =
                (scheduler.handle(), ledger.clone(), Arc::clone(&shared));
            thread::spawn(move || {
                for number in 0..3 {
                    let scheduled = schedule(&ledger, &handle, ticks((first + number) % 3));
                    shared.lock().extend(scheduled);
                }
            })
        })
        .collect();
    let canceller = {
        let (ledger, shared) = (ledger.clone(), Arc::clone(&shared));
        thread::spawn(move || {
            for _ in 0..3 {
                let one = shared.lock().pop();
                if let Some((number, task)) = one {
                    ledger.cancelled(number, task.cancel());
                    assert!(!task.cancel());
                    assert!(!task.is_pending());
                }
                thread::yield_now();
            }
        })
    };
    for _ in 0..3 {
        advance(TICK);
    }
    schedulers.into_iter().for_each(|thread| thread.join().unwrap());
    canceller.join().unwrap();
    advance(ticks(4));
    // All are due, so none may need the close to run.
    for (number, task) in std::mem::take(&mut *shared.lock()) {
        if !task.is_cancelled() {
            ledger.wait_run(number);
        }
    }
    assert_eq!(scheduler.pending(), 0);
    let report = scheduler.close().unwrap();
    assert_eq!(report.ran + report.dropped + report.unfinished, 0);
    drop(scheduler);
    ledger.settle();
}

#[test]
fn tasks_that_three_threads_schedule_and_cancel_on_a_pool_have_one_fate_each() {
    check(5_000, || tasks_of_three_threads(pooled));
}

#[test]
fn tasks_that_three_threads_schedule_and_cancel_inline_have_one_fate_each() {
    check(5_000, || tasks_of_three_threads(inline));
}

#[test]
fn of_two_cancels_and_the_firing_one_wins() {
    check(5_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let (number, task) = schedule(&ledger, &scheduler, TICK).unwrap();
        let task = Arc::new(task);
        let cancellers: Vec<_> = (0..2)
            .map(|_| {
                let (task, ledger) = (Arc::clone(&task), ledger.clone());
                thread::spawn(move || ledger.cancelled(number, task.cancel()))
            })
            .collect();
        advance(ticks(2));
        cancellers.into_iter().for_each(|thread| thread.join().unwrap());
        ledger.settle();
        scheduler.close().unwrap();
    });
}

#[test]
fn the_hook_of_a_cancel_that_won_runs_once_and_of_one_that_lost_never() {
    check(4_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let (token, hook) = (ledger.token(), ledger.token());
        let (number, hooked) = (token.number, hook.number);
        let task = Task::new(task(token)).on_cancel(task(hook));
        let task = scheduler.schedule_once(TICK, task).unwrap();
        ledger.accepted(number);
        ledger.accepted(hooked);
        let canceller = {
            let ledger = ledger.clone();
            thread::spawn(move || {
                let won = task.cancel();
                ledger.cancelled(number, won);
                // A cancel that won runs the hook; otherwise the hook is dropped with the task.
                ledger.cancelled(hooked, !won);
            })
        };
        advance(ticks(2));
        canceller.join().unwrap();
        ledger.settle();
        scheduler.close().unwrap();
    });
}

#[test]
fn a_task_whose_deadline_was_moved_runs_once_and_not_before_the_last_one_that_held() {
    check(8_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let ran_at = Arc::new(Mutex::new(None::<Instant>));
        let token = ledger.token();
        let number = token.number;
        let task = {
            let ran_at = Arc::clone(&ran_at);
            scheduler.schedule_once(TICK, move || {
                *ran_at.lock() = Some(real_now());
                token.run();
            })
        };
        ledger.accepted(number);
        let task = Arc::new(task.unwrap());
        let movers: Vec<_> = [3, 1]
            .map(|delay| {
                let task = Arc::clone(&task);
                thread::spawn(move || {
                    let before = real_now();
                    task.reset(ticks(delay)).then(|| before + ticks(delay))
                })
            })
            .into_iter()
            .collect();
        for _ in 0..2 {
            advance(TICK);
        }
        // The nearest of the moves that held: the test cannot know which was the last.
        let held = movers.into_iter().filter_map(|thread| thread.join().unwrap()).min();
        advance(ticks(6));
        ledger.wait_run(number);
        let ran_at = ran_at.lock().expect("it has run");
        assert!(held.is_none_or(|held| ran_at >= held), "ran before a deadline that held");
        assert!(!task.reset(TICK));
        drop(task);
        scheduler.close().unwrap();
        ledger.settle();
    });
}

#[test]
fn a_task_that_is_moved_cancelled_and_fired_has_one_fate() {
    check(8_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let (number, task) = schedule(&ledger, &scheduler, TICK).unwrap();
        let task = Arc::new(task);
        let mover = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                for delay in [2, 0, 5] {
                    let moved = task.reset(ticks(delay));
                    assert!(!moved || !task.is_cancelled() || !task.reset(TICK));
                }
            })
        };
        let canceller = {
            let (task, ledger) = (Arc::clone(&task), ledger.clone());
            thread::spawn(move || {
                ledger.cancelled(number, task.cancel());
                assert!(!task.reset(TICK), "moved after it was cancelled or fired");
            })
        };
        advance(ticks(2));
        mover.join().unwrap();
        canceller.join().unwrap();
        drop(task);
        ledger.settle();
        scheduler.close().unwrap();
    });
}

#[test]
fn of_a_batch_that_races_with_a_stop_all_are_accepted_or_none() {
    check(6_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let batcher = {
            let (handle, ledger) = (scheduler.handle(), ledger.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    let tokens: Vec<_> = (0..3).map(|_| ledger.token()).collect();
                    let numbers: Vec<_> = tokens.iter().map(|token| token.number).collect();
                    let batch = tokens.into_iter().zip(0..);
                    let batch = batch.map(|(token, delay)| (ticks(delay), task(token)));
                    match handle.schedule_batch(batch) {
                        Ok(tasks) => {
                            numbers.iter().for_each(|&number| ledger.accepted(number));
                            ledger.cancelled(numbers[1], tasks[1].cancel());
                        }
                        Err(refused) => {
                            assert_eq!(refused.into_task().len(), 3);
                            numbers.iter().for_each(|&number| ledger.refused(number));
                        }
                    }
                }
            })
        };
        let other = {
            let (handle, ledger) = (scheduler.handle(), ledger.clone());
            thread::spawn(move || drop(schedule(&ledger, &handle, TICK)))
        };
        advance(TICK);
        let pending = scheduler.stop().wait();
        pending.into_iter().for_each(|task| assert!(task.run()));
        batcher.join().unwrap();
        other.join().unwrap();
        ledger.settle();
    });
}

#[test]
fn no_more_are_pending_than_the_limit_and_places_come_back() {
    check(5_000, || {
        let scheduler = builder().inline().max_pending(2).build().unwrap();
        let ledger = Ledger::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ledger) = (scheduler.handle(), ledger.clone());
                thread::spawn(move || {
                    for delay in [1, 5] {
                        let scheduled = schedule(&ledger, &handle, ticks(delay));
                        if let Some((number, task)) = scheduled
                            && delay == 5
                        {
                            ledger.cancelled(number, task.cancel());
                        }
                    }
                })
            })
            .collect();
        advance(ticks(2));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        advance(ticks(6));
        ledger.settle();
        assert_eq!(scheduler.pending(), 0);
        // Both places are free again.
        assert!(schedule(&ledger, &scheduler, TICK).is_some());
        assert!(schedule(&ledger, &scheduler, TICK).is_some());
        assert!(schedule(&ledger, &scheduler, TICK).is_none());
        scheduler.close().unwrap();
        ledger.settle();
    });
}
