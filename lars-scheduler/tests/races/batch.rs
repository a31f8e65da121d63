//! Batches: what `schedule_once` promises, for all of them or for none.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::{
    ByHand, Captive, Notes, PATIENCE, eventually, ms, ns, scaled, secs, settle, virtual_time,
};
use lars_scheduler::listing::TimerQuery;
use lars_scheduler::{LightArrayRevolverScheduler, PendingTask, Refusal, Task};

#[test]
fn each_task_of_a_batch_runs_at_its_deadline_and_equal_ones_in_their_order() {
    let time = virtual_time();
    let notes = Notes::new();
    let delays = [ms(3), ms(1), secs(9), ms(3), Duration::ZERO, ms(1)];
    let task = |(number, delay)| {
        let notes = notes.clone();
        (delay, move || notes.add(number))
    };
    let timers = time.schedule_batch(delays.into_iter().enumerate().map(task)).unwrap();
    assert_eq!((timers.len(), time.pending()), (6, 6));
    assert_eq!(time.advance(ms(1) - ns(1)), 1);
    assert_eq!(notes.take(), [4]);
    time.advance(ms(2) + ns(1));
    assert_eq!(notes.take(), [1, 5, 0, 3]);
    assert!(timers[2].is_pending());
    time.advance(secs(9));
    assert_eq!(notes.take(), [2]);
}

#[test]
fn each_cancellable_belongs_to_its_task() {
    let time = virtual_time();
    let notes = Notes::new();
    let task = |number: u64| {
        let notes = notes.clone();
        (ms(number), move || notes.add(number))
    };
    let timers = time.schedule_batch((0..5).map(task)).unwrap();
    assert!(timers[1].cancel() && timers[3].cancel());
    assert!(timers[4].reset(ms(9)));
    time.advance(ms(8));
    assert_eq!(notes.take(), [0, 2]);
    time.advance(ms(1));
    assert_eq!(notes.take(), [4]);
}

#[test]
fn an_empty_batch_is_nothing() {
    let time = virtual_time();
    assert!(time.schedule_batch(iter::empty::<(Duration, fn())>()).unwrap().is_empty());
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn options_are_those_of_each_task() {
    let time = virtual_time();
    let by_hand = ByHand::default();
    let notes = Notes::new();
    let tasks = (0..4).map(|number| {
        let hook = notes.clone();
        let task = Task::new(|| ()).on_cancel(move || hook.add(number));
        let task =
            if number % 2 == 0 { task.executor(Arc::new(by_hand.clone())) } else { task.inline() };
        (ms(1), if number == 3 { task.run_on_close() } else { task })
    });
    let timers = time.schedule_batch(tasks).unwrap();
    assert!(timers[1].cancel() && timers[2].cancel());
    assert_eq!(notes.take(), [1, 2]);
    let pending = time.stop().wait();
    let marked: Vec<_> = pending.iter().map(PendingTask::runs_on_close).collect();
    assert_eq!(marked, [false, true]);
    assert!(pending.into_iter().all(PendingTask::run), "run here, not by hand");
    assert_eq!(by_hand.waiting(), 0);
}

#[test]
fn a_batch_that_does_not_fit_is_given_back_whole_and_takes_no_places() {
    let time = LightArrayRevolverScheduler::builder().max_pending(4).build_virtual().unwrap();
    let two = || (0..2).map(|_| (ms(5), || ()));
    let first = time.schedule_batch(two()).unwrap();
    let three = (1..=3).map(|number| (ms(number), || ()));
    let refused = time.schedule_batch(three).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::Full { limit: 4 });
    assert_eq!(refused.to_string(), "max_pending is 4, and this call would exceed it");
    let delays: Vec<_> = refused.into_task().into_iter().map(|(delay, _)| delay).collect();
    assert_eq!(delays, [ms(1), ms(2), ms(3)]);
    let second = time.schedule_batch(two()).unwrap();
    assert!(time.schedule_batch(two()).is_err());
    assert!(first[0].cancel() && second[1].cancel());
    let _ = time.schedule_batch(two()).unwrap();
    assert_eq!((time.pending(), time.metrics().refused), (4, 5));
    assert_eq!(time.advance(ms(5)), 4);
    assert_eq!(
        time.schedule_batch((0..5).map(|_| (ms(1), || ()))).unwrap_err().into_task().len(),
        5
    );
}

#[test]
fn after_a_stop_a_batch_is_given_back() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    drop(time.stop().wait());
    let refused = time.schedule_batch([(ms(1), move || drop(captive))]).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::Stopped);
    assert_eq!(notes.len(), 0);
    let (delay, task) = refused.into_task().pop().unwrap();
    assert_eq!(delay, ms(1));
    task();
    assert_eq!(notes.take(), ["dropped"]);
}

#[test]
fn the_delays_count_from_one_instant_after_the_iterator_has_ended() {
    let time = virtual_time();
    let task = |number: u64| {
        time.advance(secs(1)); // a slow iterator
        (ms(number), || ())
    };
    let _ = time.schedule_batch((0..3).map(task)).unwrap();
    assert_eq!(time.elapsed(), secs(3));
    assert_eq!(time.advance_to_next(), Some(ms(0)));
    assert_eq!(time.advance_to_next(), Some(ms(1)));
    assert_eq!(time.advance_to_next(), Some(ms(1)));
}

#[test]
fn an_iterator_that_panics_has_scheduled_nothing() {
    let time = LightArrayRevolverScheduler::builder().max_pending(2).build_virtual().unwrap();
    let task = |number: u64| {
        assert!(number < 2, "expected by this test");
        (ms(number), || ())
    };
    let schedule = std::panic::AssertUnwindSafe(|| time.schedule_batch((0..3).map(task)));
    assert!(std::panic::catch_unwind(schedule).is_err());
    assert_eq!(time.pending(), 0);
    let _ = time.schedule_batch((0..2).map(task)).unwrap();
}

#[test]
fn a_sleeping_timer_thread_learns_of_the_nearest_of_a_batch() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    settle(&scheduler);
    let (sender, receiver) = mpsc::channel();
    let delays = [secs(3_600), ms(1), secs(3_600)];
    let tasks = delays.map(|delay| {
        let sender = sender.clone();
        (delay, move || sender.send(()).unwrap())
    });
    let _ = scheduler.schedule_batch(tasks).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_listing_right_after_a_batch_has_all_of_it_although_the_driver_visits_all_the_time() {
    let batch = scaled(200_000, 200);
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    for number in 0..scaled(20_000, 100) as u64 {
        drop(scheduler.schedule_once(ns(50_000 * number), || ()).unwrap());
    }
    let tasks = (0..batch).map(|_| (secs(3_600), Task::new(|| ()).named("one of many")));
    let kept = scheduler.schedule_batch(tasks).unwrap();
    let listing = scheduler.list(TimerQuery::new().label("one of many").limit(0)).wait();
    assert_eq!((listing.matched, listing.unseen), (batch as u64, 0));
    drop(kept);
}

/// Threads schedule batches, of one and of thousands, until a stop comes between.
#[test]
fn when_stop_races_each_batch_is_accepted_whole_or_given_back_whole() {
    for round in 0..scaled(60, 2) {
        let builder = LightArrayRevolverScheduler::builder().tick_duration(ns(100_000));
        let scheduler = builder.shutdown_timeout(PATIENCE).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let go_on = Arc::new(AtomicBool::new(true));
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (handle, ran, go_on) =
                    (scheduler.handle(), Arc::clone(&ran), Arc::clone(&go_on));
                thread::spawn(move || {
                    let size = [1, 7, 3_000][thread] / scaled(1, 100).max(1) + 1;
                    let mut accepted = 0;
                    while go_on.load(Ordering::Acquire) {
                        let task = |number: usize| {
                            let ran = Arc::clone(&ran);
                            let run = move || {
                                ran.fetch_add(1, Ordering::AcqRel);
                            };
                            (ns(1_000 * (number as u64 % 1_500)), run)
                        };
                        match handle.schedule_batch((0..size).map(task)) {
                            Ok(timers) => accepted += timers.len(),
                            Err(refused) => {
                                assert_eq!(refused.into_task().len(), size);
                                break;
                            }
                        }
                    }
                    accepted
                })
            })
            .collect();
        thread::sleep(ns(50_000 * round as u64));
        scheduler.close().unwrap();
        go_on.store(false, Ordering::Release);
        let accepted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        eventually("all that was accepted has run", || ran.load(Ordering::Acquire) == accepted);
    }
}
