//! The timer thread sleeps, and a task that is due before the end of its sleep wakes it. A lost
//! wake-up is a deadlock: time does not go on by itself.

use super::*;
use crate::sync::{Parker, advance, check, real_now, thread};

#[test]
fn a_task_without_delay_wakes_a_thread_that_sleeps_for_ever() {
    check(8_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ledger) = (scheduler.handle(), ledger.clone());
                thread::spawn(move || {
                    let (number, _) = schedule(&ledger, &handle, Duration::ZERO).unwrap();
                    ledger.wait_run(number);
                    let (number, _) = schedule(&ledger, &handle, Duration::ZERO).unwrap();
                    ledger.wait_run(number);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(scheduler);
        ledger.settle();
    });
}

#[test]
fn a_nearer_deadline_ends_a_sleep_until_a_further_one() {
    check(8_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let far = schedule(&ledger, &scheduler, ticks(1000)).unwrap();
        let nearer: Vec<_> = (1..3)
            .map(|delay| {
                let (handle, ledger) = (scheduler.handle(), ledger.clone());
                thread::spawn(move || schedule(&ledger, &handle, ticks(delay)).unwrap().0)
            })
            .collect();
        let nearer: Vec<_> = nearer.into_iter().map(|thread| thread.join().unwrap()).collect();
        advance(ticks(4));
        nearer.into_iter().for_each(|number| ledger.wait_run(number));
        assert!(far.1.is_pending());
        ledger.cancelled(far.0, far.1.cancel());
        drop(far);
        drop(scheduler);
        ledger.settle();
    });
}

#[test]
fn a_deadline_that_is_moved_nearer_ends_the_sleep() {
    check(8_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let (number, task) = schedule(&ledger, &scheduler, ticks(1000)).unwrap();
        let mover = thread::spawn(move || {
            assert!(task.reset(ticks(500)));
            assert!(task.reset(TICK));
        });
        mover.join().unwrap();
        advance(ticks(3));
        ledger.wait_run(number);
        drop(scheduler);
        ledger.settle();
    });
}

/// The same without a thread: a loop that waits as long as a turn said misses no call of the hook.
#[test]
fn a_loop_that_waits_until_it_has_to_turn_or_the_hook_is_called_misses_nothing() {
    check(8_000, || {
        let ledger = Ledger::new();
        let parker = Parker::new();
        let hook = parker.unparker().clone();
        let mut driver = builder().build_driver(move || hook.unpark()).unwrap();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ledger) = (driver.handle(), ledger.clone());
                thread::spawn(move || {
                    for delay in [TICK, Duration::ZERO] {
                        let (number, _) = schedule(&ledger, &handle, delay).unwrap();
                        advance(delay + TICK);
                        ledger.wait_run(number);
                    }
                })
            })
            .collect();
        while ledger.total_ran() < 4 {
            match driver.turn(real_now()) {
                _ if ledger.total_ran() == 4 => {}
                Some(next) => parker.park_deadline(next),
                None => parker.park(),
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(driver);
        ledger.settle();
    });
}

/// A loop turns once more after any event, also after the one that stopped its scheduler.
#[test]
fn what_is_scheduled_while_a_loop_stops_and_turns_again_is_handed_back_or_refused() {
    check(8_000, || {
        let ledger = Ledger::new();
        let mut driver = builder().build_driver(|| ()).unwrap();
        let producer = {
            let (handle, ledger) = (driver.handle(), ledger.clone());
            thread::spawn(move || drop(schedule(&ledger, &handle, ticks(1000))))
        };
        let stopped = driver.stop();
        assert_eq!(driver.turn(real_now()), None);
        producer.join().unwrap();
        stopped.wait().into_iter().for_each(|task| assert!(task.run()));
        drop(driver);
        ledger.settle();
    });
}

#[test]
fn a_stop_ends_the_sleep() {
    check(5_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        schedule(&ledger, &scheduler, ticks(1000)).unwrap();
        let stopped = scheduler.stop();
        let waiting =
            thread::spawn(move || stopped.wait().into_iter().map(|task| task.run()).count());
        assert_eq!(waiting.join().unwrap(), 1);
        ledger.settle();
    });
}

#[test]
fn nothing_runs_before_its_time_however_time_moves() {
    check(5_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ledger) = (scheduler.handle(), ledger.clone());
                thread::spawn(move || {
                    for delay in [3, 1] {
                        let due = handle.now() + ticks(delay);
                        let (token, clock) = (ledger.token(), handle.clone());
                        let number = token.number;
                        let task = move || {
                            if clock.now() >= due {
                                token.run();
                            } else {
                                token.buried();
                            }
                        };
                        enter(&ledger, number, handle.schedule_once(ticks(delay), task));
                    }
                })
            })
            .collect();
        for _ in 0..6 {
            advance(TICK / 2);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        advance(ticks(4));
        ledger.settle();
        assert_eq!(ledger.total_ran(), 4, "one was early");
        drop(scheduler);
    });
}

/// What is taken in may have been stamped after the clock was read. By that reading alone it would
/// wait for the next tick, which never comes here.
#[test]
fn a_task_without_delay_is_due_when_it_is_taken_in_however_time_moves() {
    check(8_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (handle, ledger) = (scheduler.handle(), ledger.clone());
                thread::spawn(move || {
                    let next = |_| {
                        advance(Duration::from_nanos(1));
                        schedule(&ledger, &handle, Duration::ZERO).unwrap().0
                    };
                    let numbers: Vec<_> = (0..2).map(next).collect();
                    numbers.into_iter().for_each(|number| ledger.wait_run(number));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(scheduler);
        ledger.settle();
    });
}
