//! Repeats: cancelled, stopped and closed between runs and during them.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::*;
use crate::Periodic;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, advance, check, thread};

/// What a repeat does, and what must not happen to it.
struct Series {
    running: AtomicBool,
    runs: AtomicUsize,
}

impl Series {
    fn new() -> Arc<Self> {
        Arc::new(Self { running: AtomicBool::new(false), runs: AtomicUsize::new(0) })
    }

    fn run(&self) {
        assert_in_task(!self.running.swap(true, Ordering::SeqCst), "two runs at the same time");
        self.runs.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        self.running.store(false, Ordering::SeqCst);
    }
}

/// Panics are contained where tasks run, so a broken promise is noticed in another way.
fn assert_in_task(right: bool, what: &str) {
    if !right {
        eprintln!("{what}");
        std::process::abort();
    }
}

fn repeat(ledger: &Ledger, handle: &Handle, series: &Arc<Series>) -> Option<(usize, Cancellable)> {
    let (token, series) = (ledger.token(), Arc::clone(series));
    let number = token.number;
    let run = move || {
        let _held = &token;
        series.run();
    };
    enter(
        ledger,
        number,
        handle.schedule_with_fixed_delay(TICK, TICK, run).map_err(|error| error.map(|_| ())),
    )
}

#[test]
fn a_repeat_that_is_cancelled_while_it_runs_ends_and_of_two_cancels_one_wins() {
    check(8_000, || {
        let (scheduler, ledger, series) = (pooled(), Ledger::new(), Series::new());
        let (number, task) = repeat(&ledger, &scheduler, &series).unwrap();
        let task = Arc::new(task);
        let cancellers: Vec<_> = (0..2)
            .map(|_| {
                let (task, ledger) = (Arc::clone(&task), ledger.clone());
                thread::spawn(move || ledger.cancelled(number, task.cancel()))
            })
            .collect();
        for _ in 0..3 {
            advance(TICK);
        }
        cancellers.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(task.is_cancelled());
        // A run in flight ends; another does not begin.
        ledger.settle();
        let runs = series.runs.load(Ordering::SeqCst);
        advance(ticks(5));
        scheduler.close().unwrap();
        assert_eq!(series.runs.load(Ordering::SeqCst), runs);
    });
}

#[test]
fn a_repeat_that_ends_itself_while_it_is_cancelled_ends_once() {
    check(6_000, || {
        let (scheduler, ledger) = (pooled(), Ledger::new());
        let token = ledger.token();
        let number = token.number;
        let mut runs = 0;
        let run = move || {
            runs += 1;
            if runs < 2 {
                return ControlFlow::Continue(());
            }
            token.run();
            ControlFlow::Break(())
        };
        let task = scheduler.schedule_at_fixed_rate(TICK, TICK, run).unwrap();
        ledger.accepted(number);
        let canceller = thread::spawn(move || task.cancel());
        for _ in 0..3 {
            advance(TICK);
        }
        let won = canceller.join().unwrap();
        assert!(won || ledger.ran(number) == 1, "not cancelled, and not at its end");
        scheduler.close().unwrap();
        ledger.settle_dropped();
    });
}

#[test]
fn repeats_that_are_stopped_while_they_run_come_back_or_end_and_their_captures_with_them() {
    check(8_000, || {
        let (scheduler, ledger, series) = (pooled(), Ledger::new(), Series::new());
        let (_, task) = repeat(&ledger, &scheduler, &series).unwrap();
        let starter = {
            let (handle, ledger) = (scheduler.handle(), ledger.clone());
            thread::spawn(move || drop(repeat(&ledger, &handle, &Series::new())))
        };
        for _ in 0..2 {
            advance(TICK);
        }
        let pending = scheduler.stop().wait();
        assert!(pending.len() <= 2);
        for next in pending {
            assert!(next.is_repeat());
            assert!(next.run());
        }
        starter.join().unwrap();
        drop(scheduler);
        ledger.settle_dropped();
        assert!(!task.is_pending());
    });
}

#[test]
fn repeats_with_a_hook_that_race_with_a_close_are_cancelled_or_ended() {
    check(6_000, || {
        let (scheduler, ledger) = (inline(), Ledger::new());
        let (token, hook) = (ledger.token(), ledger.token());
        let hooked = hook.number;
        ledger.accepted(token.number);
        ledger.accepted(hooked);
        let series = Series::new();
        let run = {
            let series = Arc::clone(&series);
            move || {
                let _held = &token;
                series.run();
            }
        };
        let run = Periodic::new(run).inline().on_cancel(task(hook));
        let task = scheduler.schedule_with_fixed_delay(TICK, TICK, run).unwrap();
        let canceller = thread::spawn(move || task.cancel());
        advance(ticks(2));
        let report = scheduler.close().unwrap();
        assert!(report.repeats_ended <= 1 && report.ran == 0);
        let won = canceller.join().unwrap();
        ledger.settle_dropped();
        assert_eq!(ledger.ran(hooked), usize::from(won), "the hook belongs to the cancel that won");
    });
}
