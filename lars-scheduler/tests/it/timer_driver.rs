//! A scheduler without a thread, turned by its owner.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::listing::TimerQuery;
use lars_scheduler::{LightArrayRevolverScheduler, Task, TimerDriver};

use crate::common::{Notes, PATIENCE, in_lead, ms, scaled, secs};

/// A driver that counts the calls of its hook.
fn driver() -> (TimerDriver, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&calls);
    let driver = LightArrayRevolverScheduler::builder()
        .build_driver(move || {
            hook.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    (driver, calls)
}

/// Turns until nothing is pending; sleeps in between.
fn run(driver: &mut TimerDriver) {
    while let Some(next) = driver.turn(Instant::now()) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[test]
fn a_turn_fires_what_is_due_and_names_the_next_deadline() {
    let (mut driver, _) = driver();
    let notes = Notes::new();
    assert_eq!(driver.turn(Instant::now()), None);
    in_lead(|lead| {
        let begin = driver.now();
        for times in [2, 1] {
            let (notes, clock, due) = (notes.clone(), driver.handle(), begin + times * lead);
            let task = move || notes.add((times, clock.now() >= due));
            let _ = driver.schedule_at(due, task).unwrap();
        }
        let in_time = driver.now() < begin + lead;
        let next = driver.turn(begin);
        run(&mut driver);
        assert_eq!(driver.pending(), 0);
        let ran = notes.take();
        in_time.then(|| {
            let next = next.unwrap() - begin;
            assert!(next >= lead && next <= lead + ms(1), "{next:?} and not {lead:?}");
            assert_eq!(ran, [(1, true), (2, true)], "in order, and never early");
        })
    });
}

/// More timers are due than are gathered at once, so some threads' timers are left for later.
#[test]
fn timers_of_several_threads_fire_by_ticks_and_those_of_one_thread_in_its_order() {
    const THREADS: usize = 3;
    let each = scaled(1_500, 100);
    in_lead(|lead| {
        let (mut driver, _) = driver();
        let first = Instant::now() + lead;
        let (notes, all_there) = (Notes::new(), Arc::new(Barrier::new(THREADS)));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (handle, notes) = (driver.handle(), notes.clone());
                let all_there = Arc::clone(&all_there);
                thread::spawn(move || {
                    for number in 0..each {
                        let (tick, notes) = (number % 3, notes.clone());
                        let task = move || notes.add((tick, thread, number));
                        let due = first + ms(10 * tick as u64);
                        let _ = handle.schedule_at(due, task).unwrap();
                    }
                    // All threads are alive together, so that each has a lane of its own.
                    all_there.wait();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let in_time = Instant::now() < first;
        run(&mut driver);
        let fired = notes.take();
        assert_eq!(fired.len(), THREADS * each);
        in_time.then(|| {
            assert!(fired.is_sorted_by_key(|&(tick, _, _)| tick));
            for thread in 0..THREADS {
                let of_thread = fired.iter().filter(|&&(_, whose, _)| whose == thread);
                assert!(of_thread.is_sorted_by_key(|&(tick, _, number)| (tick, number)));
            }
        })
    });
}

#[test]
fn an_instant_that_has_not_come_yet_fires_nothing_early() {
    let (mut driver, _) = driver();
    let task = driver.schedule_once(secs(3600), || ()).unwrap();
    let next = driver.turn(Instant::now() + secs(7200)).unwrap();
    assert!(task.is_pending() && next > Instant::now() + secs(3000));
}

#[test]
fn without_a_delay_a_task_runs_at_the_next_turn_and_not_on_the_callers_stack() {
    let (mut driver, _) = driver();
    let notes = Notes::new();
    let inside = notes.clone();
    let _ = driver.schedule_once(Duration::ZERO, move || inside.add("ran")).unwrap();
    assert_eq!(notes.len(), 0);
    assert_eq!(driver.turn(Instant::now()), None);
    assert_eq!(notes.take(), ["ran"]);
}

#[test]
fn the_hook_is_called_once_and_only_for_what_is_due_before_the_turn_that_was_named() {
    let (mut driver, calls) = driver();
    let _ = driver.schedule_once(secs(60), || ()).unwrap();
    assert!(driver.turn(Instant::now()).is_some());
    let before = calls.load(Ordering::SeqCst);
    let _ = driver.schedule_once(secs(120), || ()).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), before, "it is turned before that anyway");
    let handle = driver.handle();
    thread::spawn(move || {
        let _ = handle.schedule_once(secs(30), || ()).unwrap();
        let _ = handle.schedule_once(secs(20), || ()).unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), before + 1, "once for both");
    let next = driver.turn(Instant::now()).unwrap();
    assert!(next < Instant::now() + secs(21));
}

#[test]
fn what_is_pending_is_listed_at_once_by_the_owner_and_at_the_next_turn_for_a_handle() {
    let (mut driver, calls) = driver();
    for delay in [60, 30] {
        let _ = driver.schedule_once(secs(delay), || ()).unwrap();
    }
    assert_eq!(driver.list(TimerQuery::new()).wait().timers.len(), 2);
    assert!(driver.turn(Instant::now()).is_some());
    let before = calls.load(Ordering::SeqCst);
    let listing = driver.handle().list(TimerQuery::new());
    assert_eq!(calls.load(Ordering::SeqCst), before + 1, "the loop has to turn");
    assert!(driver.turn(Instant::now()).is_some());
    assert_eq!(listing.wait().timers.len(), 2);
}

#[test]
fn tasks_that_schedule_each_other_without_a_delay_do_not_hold_up_a_turn() {
    fn again(handle: &lars_scheduler::Handle, count: &Arc<AtomicUsize>) {
        count.fetch_add(1, Ordering::SeqCst);
        let (handle, count) = (handle.clone(), Arc::clone(count));
        // Refused at the end of the test.
        let next = handle.clone();
        drop(next.schedule_once(Duration::ZERO, move || again(&handle, &count)));
    }
    let (mut driver, _) = driver();
    let count = Arc::new(AtomicUsize::new(0));
    again(&driver.handle(), &count);
    for _ in 0..3 {
        let before = count.load(Ordering::SeqCst);
        let next = driver.turn(Instant::now()).expect("there is more to do");
        assert!(next <= Instant::now() && count.load(Ordering::SeqCst) > before);
    }
}

#[test]
fn a_panic_of_a_task_or_of_the_hook_is_contained() {
    let mut driver = LightArrayRevolverScheduler::builder()
        .build_driver(|| panic!("expected by this test"))
        .unwrap();
    assert_eq!(driver.turn(Instant::now()), None);
    let _ = driver.schedule_once(Duration::ZERO, || panic!("expected by this test")).unwrap();
    assert_eq!(driver.turn(Instant::now()), None);
    assert_eq!(driver.metrics().panicked, 1);
}

#[test]
fn what_is_pending_is_handed_back_by_stop_run_by_close_and_dropped_with_the_driver() {
    let (driver, _) = driver();
    let notes = Notes::new();
    let note = |word| {
        let notes = notes.clone();
        move || notes.add(word)
    };
    let _ = driver.schedule_once(secs(60), note("handed back")).unwrap();
    let mut pending = driver.stop().wait();
    assert_eq!(pending.len(), 1);
    assert!(pending.pop().unwrap().run());
    assert!(driver.is_stopped() && driver.schedule_once(secs(1), || ()).is_err());

    let (mut driver, _) = self::driver();
    drop(driver.stop());
    assert_eq!(driver.turn(Instant::now()), None);
    assert!(driver.is_stopped() && driver.schedule_once(secs(1), || ()).is_err());

    let (driver, _) = self::driver();
    let _ = driver.schedule_once(secs(60), note("closed")).unwrap();
    assert_eq!(driver.close().unwrap().ran, 1);

    let (driver, _) = self::driver();
    let handle = driver.handle();
    let task = driver.schedule_once(secs(60), note("never")).unwrap();
    drop(driver);
    assert!(!task.cancel() && handle.is_stopped());
    assert_eq!(notes.take(), ["handed back", "closed"]);
}

#[test]
fn a_loop_that_sleeps_until_it_is_told_or_woken_fires_what_other_threads_schedule() {
    let (wake, inbox) = mpsc::channel();
    let done = wake.clone();
    let mut driver = LightArrayRevolverScheduler::builder()
        .build_driver(move || {
            let _ = wake.send(0);
        })
        .unwrap();
    let each = scaled(2_000, 20);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (handle, done) = (driver.handle(), done.clone());
            thread::spawn(move || {
                for number in 0..each {
                    let done = done.clone();
                    let task = Task::new(move || {
                        let _ = done.send(1);
                    })
                    .inline();
                    let delay = Duration::from_micros(100 * (number as u64 % 50));
                    let _ = handle.schedule_once(delay, task).unwrap();
                }
            })
        })
        .collect();
    let mut fired = 0;
    let end = Instant::now() + PATIENCE;
    while fired < 2 * each {
        let next = driver.turn(Instant::now()).unwrap_or(end);
        match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(number) => fired += number,
            Err(_) => assert!(Instant::now() < end, "{fired} have fired"),
        }
        fired += inbox.try_iter().sum::<usize>();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((driver.pending(), driver.metrics().fired), (0, 2 * each as u64));
}
