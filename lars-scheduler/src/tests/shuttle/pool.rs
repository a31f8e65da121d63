//! The pool: workers that sleep and are woken, while tasks are submitted from outside and from
//! inside.

use std::sync::Arc;

use super::*;
use crate::executor::Runnable;
use crate::sync::{advance, check, thread};
use crate::{Executor, Pool};

fn submit(ledger: &Ledger, pool: &Pool) -> usize {
    let token = ledger.token();
    let number = token.number;
    ledger.accepted(number);
    pool.execute(Runnable::new(task(token))).unwrap();
    number
}

#[test]
fn a_worker_that_falls_asleep_does_not_sleep_through_a_task() {
    check(10_000, || {
        let (pool, ledger) = (Pool::new("shuttle", 1).unwrap(), Ledger::new());
        // The second comes when the worker has no work left, or is about to have none.
        let first = submit(&ledger, &pool);
        ledger.wait_run(first);
        let second = submit(&ledger, &pool);
        ledger.wait_run(second);
        drop(pool);
        ledger.settle();
    });
}

#[test]
fn tasks_that_two_threads_submit_run_once_and_a_wait_sees_them_finished() {
    check(8_000, || {
        let (pool, ledger) = (Pool::new("shuttle", 2).unwrap(), Ledger::new());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (pool, ledger) = (pool.clone(), ledger.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        submit(&ledger, &pool);
                    }
                })
            })
            .collect();
        pool.wait();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        pool.wait();
        assert_eq!(ledger.total_ran(), 4);
        drop(pool);
        ledger.settle();
    });
}

#[test]
fn a_task_may_submit_others_and_hold_the_last_reference() {
    check(8_000, || {
        let (pool, ledger) = (Pool::new("shuttle", 2).unwrap(), Ledger::new());
        let token = ledger.token();
        ledger.accepted(token.number);
        let outer = {
            let (pool, ledger) = (pool.clone(), ledger.clone());
            move || {
                token.run();
                submit(&ledger, &pool);
                submit(&ledger, &pool);
            }
        };
        pool.execute(Runnable::new(outer)).unwrap();
        drop(pool);
        ledger.settle();
        assert_eq!(ledger.total_ran(), 3);
    });
}

#[test]
fn two_tasks_that_wait_for_each_other_run_on_two_workers() {
    check(6_000, || {
        let (pool, ledger) = (Pool::new("shuttle", 2).unwrap(), Ledger::new());
        let (one, other) = (crate::sync::mpsc::channel(), crate::sync::mpsc::channel());
        let both = [(one.0, other.1), (other.0, one.1)];
        for (sender, receiver) in both {
            let token = ledger.token();
            ledger.accepted(token.number);
            let task = move || {
                sender.send(()).unwrap();
                receiver.recv().unwrap();
                token.run();
            };
            pool.execute(Runnable::new(task)).unwrap();
        }
        ledger.settle();
    });
}

#[test]
fn schedulers_may_share_a_pool_and_end_one_after_the_other() {
    check(4_000, || {
        let (pool, ledger) = (Pool::new("shuttle", 2).unwrap(), Ledger::new());
        let schedulers: Vec<_> =
            (0..2).map(|_| builder().executor(pool.clone()).build().unwrap()).collect();
        drop(pool);
        let threads: Vec<_> = schedulers
            .into_iter()
            .map(|scheduler| {
                let ledger = ledger.clone();
                thread::spawn(move || {
                    let scheduler = Arc::new(scheduler);
                    let (number, _) = schedule(&ledger, &scheduler, Duration::ZERO).unwrap();
                    schedule(&ledger, &scheduler, TICK);
                    ledger.wait_run(number);
                    scheduler.close().unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ledger.settle();
    });
}

#[test]
fn what_waits_for_room_in_the_pool_is_not_slept_through() {
    check(6_000, || {
        let ledger = Ledger::new();
        let scheduler = builder().pool(|pool| pool.threads(1).queue(1)).build().unwrap();
        // One may run and one be queued. The others wait in the scheduler.
        let numbers: Vec<_> =
            (0..4).map(|_| schedule(&ledger, &scheduler, Duration::ZERO).unwrap().0).collect();
        numbers.into_iter().for_each(|number| ledger.wait_run(number));
        drop(scheduler);
        ledger.settle();
    });
}

#[test]
fn what_waits_for_room_in_the_pool_has_one_fate_if_the_scheduler_stops() {
    check(4_000, || {
        let ledger = Ledger::new();
        let scheduler = builder().pool(|pool| pool.threads(1).queue(1)).build().unwrap();
        for _ in 0..4 {
            schedule(&ledger, &scheduler, Duration::ZERO);
        }
        scheduler.close().unwrap();
        drop(scheduler);
        ledger.settle();
    });
}

#[test]
fn a_task_that_waits_for_those_due_with_it_gets_its_turn_whoever_shares_their_chunk() {
    check(4_000, || {
        let ledger = Ledger::new();
        let scheduler = builder().pool(|pool| pool.threads(2)).build().unwrap();
        let (first, second) = (ledger.token(), ledger.token());
        let numbers = [first.number, second.number];
        numbers.into_iter().for_each(|number| ledger.accepted(number));
        let (others, timers) = (ledger.clone(), scheduler.handle());
        // Scheduled by the timer thread, so that they come due in one turn.
        let both = move || {
            let waits = move || {
                others.wait_run(numbers[1]);
                first.run();
            };
            let _ = timers.schedule_once(Duration::ZERO, waits).unwrap();
            let _ = timers.schedule_once(Duration::ZERO, task(second)).unwrap();
        };
        let both = Task::new(both).inline();
        let _ = scheduler.schedule_once(Duration::ZERO, both).unwrap();
        // A party that looks does so only after some time.
        while ledger.ran(numbers[0]) == 0 {
            advance(TICK);
        }
        drop(scheduler);
        ledger.settle();
    });
}
