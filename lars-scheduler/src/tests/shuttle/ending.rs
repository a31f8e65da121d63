//! Stop, close and drop, while other threads schedule and tasks run.

use super::*;
use crate::sync::{advance, check, thread};
use crate::{CloseError, ClosePolicy};

/// Threads that schedule three tasks each, and cancel the second.
fn producers(
    scheduler: &LightArrayRevolverScheduler,
    ledger: &Ledger,
) -> Vec<thread::JoinHandle<()>> {
    (0..2)
        .map(|first| {
            let (handle, ledger) = (scheduler.handle(), ledger.clone());
            thread::spawn(move || {
                for number in 0..3 {
                    let scheduled = schedule(&ledger, &handle, ticks(first + number));
                    if let Some((number, task)) = scheduled
                        && number % 3 == 1
                    {
                        ledger.cancelled(number, task.cancel());
                    }
                }
            })
        })
        .collect()
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_stop_hands_back_what_was_accepted_and_neither_ran_nor_was_cancelled() {
    check(8_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let producers = producers(&scheduler, &ledger);
        advance(TICK);
        let pending = scheduler.stop().wait();
        let before = ledger.total_ran();
        let handed_back = pending.len();
        pending.into_iter().for_each(|task| assert!(task.run()));
        assert_eq!(ledger.total_ran(), before + handed_back, "handed back, and fired or cancelled");
        join(producers);
        assert!(schedule(&ledger, &scheduler, TICK).is_none());
        ledger.settle();
    });
}

#[test]
fn of_two_stops_one_gets_the_tasks_and_both_resolve() {
    check(5_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let scheduler = std::sync::Arc::new(scheduler);
        let producers = producers(&scheduler, &ledger);
        let other = {
            let scheduler = std::sync::Arc::clone(&scheduler);
            thread::spawn(move || {
                let pending = scheduler.stop().wait();
                pending.into_iter().map(|task| usize::from(task.run())).sum::<usize>()
            })
        };
        let pending = scheduler.stop().wait();
        let here = pending.into_iter().map(|task| usize::from(task.run())).sum::<usize>();
        let there = other.join().unwrap();
        assert!(here == 0 || there == 0);
        join(producers);
        drop(scheduler);
        ledger.settle();
    });
}

#[test]
fn a_stop_on_the_timer_thread_does_not_wait_for_itself() {
    check(5_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let scheduler = std::sync::Arc::new(scheduler);
        let stopper = {
            let (scheduler, token) = (std::sync::Arc::downgrade(&scheduler), ledger.token());
            let (sender, stopped) = crate::sync::mpsc::channel();
            let number = token.number;
            let handle = scheduler.upgrade().unwrap().handle();
            let stop = move || {
                token.run();
                let Some(scheduler) = scheduler.upgrade() else { return };
                assert!(matches!(scheduler.close(), Err(CloseError::OnTimerThread)));
                drop(sender.send(scheduler.stop()));
            };
            enter(&ledger, number, handle.schedule_once(TICK, stop));
            stopped
        };
        let producers = producers(&scheduler, &ledger);
        advance(ticks(2));
        let pending = stopper.recv().unwrap().wait();
        pending.into_iter().for_each(|task| assert!(task.run()));
        join(producers);
        drop(scheduler);
        ledger.settle();
    });
}

#[test]
fn a_close_runs_what_is_pending_and_waits_for_what_was_fired() {
    check(8_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let producers = producers(&scheduler, &ledger);
        advance(TICK);
        let report = scheduler.close().unwrap();
        assert_eq!((report.panicked, report.dropped, report.unfinished), (0, 0, 0));
        join(producers);
        ledger.settle();
        assert_eq!(scheduler.close().unwrap(), Default::default());
    });
}

#[test]
fn two_threads_may_close_and_both_return() {
    check(4_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let scheduler = std::sync::Arc::new(scheduler);
        let producers = producers(&scheduler, &ledger);
        let other = {
            let scheduler = std::sync::Arc::clone(&scheduler);
            thread::spawn(move || scheduler.close().unwrap())
        };
        let here = scheduler.close().unwrap();
        let there = other.join().unwrap();
        assert!(here.ran == 0 || there.ran == 0);
        join(producers);
        ledger.settle();
    });
}

#[test]
fn a_close_that_runs_those_marked_drops_the_others() {
    check(4_000, || {
        let scheduler = builder().close_policy(ClosePolicy::RunMarked).build().unwrap();
        let (marked, others) = (Ledger::new(), Ledger::new());
        let producer = {
            let (handle, marked, others) = (scheduler.handle(), marked.clone(), others.clone());
            thread::spawn(move || {
                for delay in 0..3 {
                    schedule_marked(&marked, &handle, ticks(delay));
                    schedule(&others, &handle, ticks(delay));
                }
            })
        };
        advance(TICK);
        let report = scheduler.close().unwrap();
        assert_eq!(report.unfinished, 0);
        producer.join().unwrap();
        marked.settle();
        others.settle_dropped();
    });
}

#[test]
fn a_scheduler_that_is_dropped_while_threads_schedule_keeps_no_capture() {
    check(8_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let producers = producers(&scheduler, &ledger);
        advance(TICK);
        drop(scheduler);
        join(producers);
        ledger.settle_dropped();
    });
}

#[test]
fn a_cancellable_outlives_its_scheduler() {
    check(5_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let scheduled: Vec<_> =
            (0..3).filter_map(|delay| schedule(&ledger, &scheduler, ticks(delay))).collect();
        let user = {
            let ledger = ledger.clone();
            thread::spawn(move || {
                for (number, task) in scheduled {
                    if number == 1 {
                        task.reset(ticks(2));
                    }
                    ledger.cancelled(number, task.cancel());
                    assert!(!task.is_pending());
                }
            })
        };
        advance(TICK);
        drop(scheduler);
        user.join().unwrap();
        ledger.settle_dropped();
    });
}

#[test]
fn tasks_that_schedule_the_next_of_a_chain_are_refused_in_the_end_and_none_is_lost() {
    fn link(ledger: Ledger, handle: Handle, token: Token) {
        token.run();
        let next = ledger.token();
        let number = next.number;
        let task = {
            let (ledger, handle) = (ledger.clone(), handle.clone());
            move || link(ledger, handle, next)
        };
        enter(&ledger, number, handle.schedule_once(TICK, task));
    }
    check(5_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let token = ledger.token();
        ledger.accepted(token.number);
        link(ledger.clone(), scheduler.handle(), token);
        let first = ledger.token();
        ledger.accepted(first.number);
        let handle = scheduler.handle();
        let other = {
            let ledger = ledger.clone();
            thread::spawn(move || link(ledger, handle, first))
        };
        for _ in 0..3 {
            advance(TICK);
        }
        scheduler.close().unwrap();
        other.join().unwrap();
        ledger.settle();
    });
}
