//! Moving a deadline: the new one holds exactly if the call says so, and nothing runs before the
//! one that holds.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Captive, Notes, PATIENCE, Xorshift, eventually, ms, ns, scaled, secs, settle, ticked,
    virtual_time,
};
use lars_scheduler::{LightArrayRevolverScheduler, Task};

#[test]
fn a_deadline_moved_further_out_is_met_and_the_old_one_is_not() {
    let olds = [ns(1), ms(3), secs(700), secs(1_000_000)];
    for old in olds.into_iter().skip(scaled(0, 3)) {
        for new in [old + ns(1), 2 * old, secs(2_000_000)] {
            let time = virtual_time();
            let timer = time.schedule_once(old, || ()).unwrap();
            assert!(timer.reset(new));
            assert_eq!(time.advance(new - ns(1)), 0, "from {old:?} to {new:?}");
            assert!(timer.is_pending());
            assert_eq!(time.advance(ns(1)), 1, "from {old:?} to {new:?}");
        }
    }
}

#[test]
fn a_deadline_moved_nearer_is_met() {
    // (Under Miri each takes half a minute, and what is moved is the same.)
    let olds = [ms(3), secs(700), secs(1_000_000), Duration::MAX];
    for old in &olds[if cfg!(miri) { 2..3 } else { 0..4 }] {
        for new in [ns(1), ms(2)] {
            let time = virtual_time();
            let timer = time.schedule_once(*old, || ()).unwrap();
            time.advance(ns(0)); // it is in the wheel
            assert!(timer.reset(new));
            assert_eq!(time.advance(new - ns(1)), 0, "from {old:?} to {new:?}");
            assert_eq!(time.advance(ns(1)), 1, "from {old:?} to {new:?}");
            assert_eq!(time.advance(secs(2_000_000)), 0, "and no second time");
        }
    }
}

#[test]
fn a_deadline_can_be_moved_to_now_and_to_never_and_back() {
    let time = ticked(ms(10), 8);
    let timer = time.schedule_once(secs(5), || ()).unwrap();
    assert!(timer.reset(Duration::MAX));
    assert_eq!(time.advance(secs(1_000_000_000)), 0);
    assert!(timer.reset(secs(5)));
    time.advance(ms(3));
    assert!(timer.reset(Duration::ZERO));
    assert_eq!(time.advance(ns(0)), 1, "at once, without waiting for the tick");
}

#[test]
fn an_overdue_task_that_waits_for_its_tick_runs_at_once_if_it_is_told_to() {
    let time = ticked(ms(10), 8);
    let timer = time.schedule_once(ms(2), || ()).unwrap();
    assert_eq!(time.advance(ms(5)), 0);
    assert!(timer.reset(Duration::ZERO));
    assert_eq!(time.advance(ns(0)), 1);
}

#[test]
fn a_delay_counts_from_the_call_and_an_instant_from_nowhere() {
    let time = virtual_time();
    let begin = time.now();
    let timer = time.schedule_once(secs(10), || ()).unwrap();
    time.advance(secs(9));
    assert!(timer.reset(secs(10)));
    assert_eq!(time.advance(secs(9)), 0);
    assert!(timer.reset_at(begin + secs(30)));
    assert_eq!(time.advance(secs(11)), 0);
    assert_eq!(time.advance(secs(1)), 1);
    let past = time.schedule_once(secs(10), || ()).unwrap();
    assert!(past.reset_at(begin));
    assert_eq!(time.advance(ns(0)), 1, "an instant that has passed is now");
}

#[test]
fn there_is_nothing_to_move_after_the_run_the_cancel_or_the_stop() {
    let time = virtual_time();
    let ran = time.schedule_once(ms(1), || ()).unwrap();
    let cancelled = time.schedule_once(secs(9), || ()).unwrap();
    let handed_back = time.schedule_once(secs(9), || ()).unwrap();
    time.advance(ms(1));
    cancelled.cancel();
    let pending = time.stop().wait();
    for timer in [&ran, &cancelled, &handed_back] {
        assert!(!timer.reset(ms(1)) && !timer.reset(secs(100)) && !timer.reset(Duration::ZERO));
        assert!(!timer.reset_at(Instant::now()));
    }
    assert!(cancelled.is_cancelled());
    assert_eq!(pending.len(), 1);
    drop(time);
    assert!(!handed_back.reset(ms(1)), "also when the scheduler is gone");
}

#[test]
fn a_repeat_goes_by_its_own_rule() {
    let time = virtual_time();
    let repeat = time.schedule_at_fixed_rate(ms(5), ms(10), || ()).unwrap();
    assert!(!repeat.reset(secs(1)));
    assert_eq!(time.advance(ms(5)), 1);
}

#[test]
fn options_survive_the_move() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let hook = notes.clone();
    let by_hand = ByHand::default();
    let task = Task::new(move || drop(captive))
        .executor(Arc::new(by_hand.clone()))
        .on_cancel(move || hook.add("cancelled"));
    let timer = time.schedule_once(secs(1), task).unwrap();
    assert!(timer.reset(secs(2)) && timer.reset(ms(1)));
    time.advance(ms(1));
    assert_eq!((by_hand.waiting(), notes.len()), (1, 0), "it waits in its executor");
    assert!(by_hand.run_next());
    assert_eq!(notes.take(), ["dropped"]);

    let hook = notes.clone();
    let task = Task::new(|| ()).on_cancel(move || hook.add("cancelled")).run_on_close();
    let timer = time.schedule_once(secs(1), task).unwrap();
    assert!(timer.reset(secs(2)) && timer.reset(ms(1)) && timer.cancel());
    assert_eq!(notes.take(), ["cancelled"]);
    assert_eq!(time.advance(secs(10)), 0);
}

#[test]
fn a_task_can_move_others_and_finds_its_own_time_gone() {
    let time = virtual_time();
    let later = Arc::new(time.schedule_once(secs(5), || ()).unwrap());
    let own = Arc::new(Mutex::new(None));
    let seen = Notes::new();
    let task = {
        let (later, own, seen) = (Arc::clone(&later), Arc::clone(&own), seen.clone());
        move || {
            let own: Option<lars_scheduler::Cancellable> = own.lock().unwrap().take();
            seen.add((later.reset(ms(1)), own.unwrap().reset(ms(1))));
        }
    };
    *own.lock().unwrap() = Some(time.schedule_once(secs(1), task).unwrap());
    assert_eq!(time.advance(secs(1)), 1);
    assert_eq!(seen.take(), [(true, false)]);
    assert_eq!(time.advance(ms(1)), 1);
}

#[test]
fn what_is_handed_back_has_the_deadline_that_holds() {
    let time = virtual_time();
    let begin = time.now();
    let timers = [secs(1), secs(2), secs(3)].map(|at| time.schedule_once(at, || ()).unwrap());
    assert!(timers[0].reset(secs(9)));
    assert!(timers[2].reset(ms(1)));
    let due: Vec<_> = time.stop().wait().iter().map(|task| task.due().unwrap() - begin).collect();
    assert_eq!(due, [ms(1), secs(2), secs(9)]);
}

/// The hot path of every connection.
#[test]
fn pushing_a_deadline_out_wakes_nobody_and_needs_no_memory() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let timer = scheduler.schedule_once(secs(3_600), || ()).unwrap();
    settle(&scheduler);
    let before = scheduler.metrics();
    for second in 0..scaled(100_000, 30) as u64 {
        assert!(timer.reset(secs(3_600 + second)));
    }
    let after = scheduler.metrics();
    assert_eq!(after.wake_ups, before.wake_ups);
    assert_eq!(after.timer_memory, before.timer_memory);
    assert_eq!(after.scheduled, before.scheduled);
}

#[test]
fn moving_to_and_fro_needs_no_more_memory_than_one_timer() {
    let time = virtual_time();
    let timer = time.schedule_once(secs(100), || ()).unwrap();
    time.advance(ns(1));
    let before = time.metrics().timer_memory;
    for _ in 0..scaled(100_000, 30) {
        assert!(timer.reset(secs(1)));
        assert!(timer.reset(secs(100)));
        time.advance(ns(1));
    }
    assert_eq!(time.metrics().timer_memory, before);
    assert_eq!(time.pending(), 1);
}

#[test]
fn a_sleeping_timer_thread_learns_of_a_nearer_deadline() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let timer = scheduler.schedule_once(secs(3_600), move || sender.send(()).unwrap()).unwrap();
    settle(&scheduler);
    assert!(timer.reset(ms(1)));
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(!timer.reset(ms(1)));
}

/// Threads move deadlines about while they come up. The last move that said `true` is the one that
/// counts.
#[test]
fn nothing_runs_before_the_deadline_that_holds_whatever_races() {
    let scheduler =
        LightArrayRevolverScheduler::builder().tick_duration(ns(50_000)).inline().build().unwrap();
    let threads: Vec<_> = (0..3_u64)
        .map(|number| {
            let handle = scheduler.handle();
            thread::spawn(move || {
                let mut random = Xorshift(number + 1);
                let origin = Instant::now();
                let mut moved = 0;
                for _ in 0..scaled(1_500, 6) {
                    let ran_at = Arc::new(AtomicU64::new(0));
                    let note = Arc::clone(&ran_at);
                    let task = move || {
                        let now = origin.elapsed().as_nanos() as u64;
                        assert_eq!(note.swap(now, Ordering::Release), 0, "it ran twice");
                    };
                    let mut not_before = origin.elapsed();
                    let delay = ns(random.below(200_000));
                    not_before += delay;
                    let timer = handle.schedule_once(delay, task).unwrap();
                    loop {
                        let now = origin.elapsed();
                        let delay = ns(random.magnitude(19));
                        if timer.reset(delay) {
                            not_before = now + delay;
                            moved += 1;
                        } else {
                            break;
                        }
                        if random.below(4) == 0 {
                            thread::yield_now();
                        }
                        if random.below(8) == 0 {
                            break;
                        }
                    }
                    eventually("the run", || ran_at.load(Ordering::Acquire) > 0);
                    let ran_at = Duration::from_nanos(ran_at.load(Ordering::Acquire));
                    assert!(ran_at >= not_before, "{:?} early", not_before - ran_at);
                }
                moved
            })
        })
        .collect();
    let moved: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(moved > 0);
    assert_eq!(scheduler.metrics().panicked, 0);
}

#[test]
#[cfg_attr(miri, ignore = "too many timers")]
fn a_thread_that_sleeps_for_long_is_woken_to_collect_what_others_move_nearer() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let timers: Vec<_> =
        (0..50_000).map(|_| scheduler.schedule_once(secs(7_200), || ()).unwrap()).collect();
    // From here on the thread sleeps for less than any of those may wait.
    let _sooner = scheduler.schedule_once(secs(3_000), || ()).unwrap();
    settle(&scheduler);
    let before = scheduler.metrics().wake_ups;
    // (The thread that scheduled them moves them itself.)
    thread::scope(|scope| {
        scope.spawn(|| assert!(timers.iter().all(|timer| timer.reset(secs(7_000)))));
    });
    eventually("the thread has looked", || scheduler.metrics().wake_ups > before);
    assert!(timers.iter().all(|timer| timer.cancel()));
}

/// Each move nearer pushes something for the timer thread, also after the stop.
#[test]
#[cfg_attr(miri, ignore = "too many timers")]
fn a_stop_ends_however_fast_others_move_deadlines() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let timers: Vec<_> =
        (0..2_000).map(|_| scheduler.schedule_once(secs(7_200), || ()).unwrap()).collect();
    let (moved, pending) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for half in timers.chunks(1_000) {
            let moved = &moved;
            scope.spawn(move || {
                // Until the stop has handed them back.
                while half.iter().all(|it| it.reset(secs(7_100)) && it.reset(secs(7_000))) {
                    moved.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        eventually("both move", || moved.load(Ordering::Relaxed) > 10);
        pending.store(scheduler.stop().wait().len() as u64, Ordering::Relaxed);
    });
    assert_eq!(pending.into_inner(), 2_000);
}
