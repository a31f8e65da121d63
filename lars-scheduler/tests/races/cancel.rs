//! Cancelling: exactly one winner, nothing runs, nothing is kept.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use common::{
    ByHand, Captive, Notes, PATIENCE, assert_same, eventually, ms, occupy, scaled, secs, settle,
    virtual_time,
};
use lars_scheduler::{Cancellable, LightArrayRevolverScheduler, Task};

/// Go keeps stopped timers in its heap, and what they refer to with them, until they would have
/// been due.
#[test]
fn a_cancelled_task_never_runs_and_its_captures_are_dropped_at_once() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let run = notes.clone();
    let timer = time
        .schedule_once(secs(10), move || {
            run.add("ran");
            drop(captive);
        })
        .unwrap();
    assert!(timer.is_pending() && !timer.is_cancelled());
    assert!(timer.cancel());
    assert_eq!(notes.take(), ["captures dropped"], "without any movement of time");
    assert!(timer.is_cancelled() && !timer.is_pending());
    assert!(!timer.cancel(), "only one call prevents the run");
    assert!(timer.is_cancelled());
    assert_eq!(time.advance(secs(20)), 0);
    assert_eq!(notes.len(), 0);
}

#[test]
fn captures_of_an_armed_timer_are_dropped_by_the_cancel_while_the_timer_thread_is_occupied() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let armed = scheduler.schedule_once(secs(3_600), move || drop(captive)).unwrap();
    settle(&scheduler);
    let held = occupy(&scheduler);
    let captive = Captive::new(&notes, "dropped");
    let queued = scheduler.schedule_once(secs(3_600), move || drop(captive)).unwrap();
    assert!(armed.cancel());
    assert_eq!(notes.take(), ["dropped"]);
    assert!(queued.cancel());
    assert_eq!(notes.take(), ["dropped"]);
    drop(held);
}

#[test]
fn tasks_that_are_cancelled_at_once_never_run() {
    let time = virtual_time();
    let notes = Notes::new();
    for delay in [Duration::ZERO, ms(1), secs(1), secs(100_000), Duration::MAX] {
        let note = notes.clone();
        assert!(time.schedule_once(delay, move || note.add(())).unwrap().cancel());
    }
    assert_eq!(time.advance(Duration::MAX), 0);
    assert_eq!(notes.len(), 0);
    assert_eq!(time.metrics().cancelled, 5);
}

#[test]
fn a_task_that_has_run_cannot_be_cancelled_and_does_not_say_it_was() {
    let time = virtual_time();
    let timer = time.schedule_once(ms(10), || ()).unwrap();
    time.advance(ms(10));
    for _ in 0..2 {
        assert!(!timer.cancel());
        assert!(!timer.is_cancelled() && !timer.is_pending());
    }
    assert_eq!(time.metrics().cancelled, 0);
}

#[test]
fn a_task_that_waits_in_its_executor_is_too_late_to_cancel_and_runs() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    let notes = Notes::new();
    let note = notes.clone();
    let timer = time.schedule_once(ms(1), move || note.add("ran")).unwrap();
    time.advance(ms(1));
    assert_eq!(by_hand.waiting(), 1);
    assert!(!timer.cancel());
    assert!(!timer.is_cancelled());
    assert!(by_hand.run_next());
    assert_eq!(notes.take(), ["ran"]);
}

#[test]
fn a_task_cannot_cancel_itself_while_it_runs_but_can_cancel_its_neighbour_at_the_same_deadline() {
    let time = virtual_time();
    let notes: Notes<(&str, bool)> = Notes::new();
    let (to_first, own) = mpsc::channel::<Cancellable>();
    let (to_first_too, neighbour) = mpsc::channel::<Cancellable>();
    let (first, second) = (notes.clone(), notes.clone());
    let timer = time
        .schedule_once(ms(1), move || {
            first.add(("itself", own.recv().unwrap().cancel()));
            let neighbour = neighbour.recv().unwrap();
            first.add(("neighbour", neighbour.cancel()));
            first.add(("neighbour again", neighbour.cancel()));
        })
        .unwrap();
    to_first.send(timer).unwrap();
    let timer = time.schedule_once(ms(1), move || second.add(("ran", true))).unwrap();
    to_first_too.send(timer).unwrap();
    assert_eq!(time.advance(ms(1)), 1);
    assert_eq!(notes.take(), [("itself", false), ("neighbour", true), ("neighbour again", false)]);
}

#[test]
fn exactly_one_of_many_threads_is_told_that_it_cancelled() {
    const THREADS: usize = 4;
    let rounds = scaled(500, 5);
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let timers: Vec<_> =
        (0..rounds).map(|_| scheduler.schedule_once(secs(3_600), || ()).unwrap()).collect();
    let winners: Vec<_> = (0..rounds).map(|_| AtomicUsize::new(0)).collect();
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for (timer, winners) in timers.iter().zip(&winners) {
                    winners.fetch_add(usize::from(timer.cancel()), Ordering::Relaxed);
                    assert!(timer.is_cancelled());
                }
            });
        }
    });
    assert!(winners.iter().all(|winners| winners.load(Ordering::Relaxed) == 1));
    assert_eq!(scheduler.metrics().cancelled, rounds as u64);
    assert_eq!(scheduler.pending(), 0);
}

#[test]
fn a_cancel_that_races_the_deadline_prevents_the_run_exactly_when_it_says_so() {
    let tasks = scaled(5_000, 30);
    let scheduler = LightArrayRevolverScheduler::builder()
        .tick_duration(Duration::from_micros(10))
        .inline()
        .build()
        .unwrap();
    let ran: Arc<Vec<_>> = Arc::new((0..tasks).map(|_| AtomicUsize::new(0)).collect());
    let mut cancelled = vec![false; tasks];
    for (number, cancelled) in cancelled.iter_mut().enumerate() {
        let ran = Arc::clone(&ran);
        let delay = Duration::from_micros(number as u64 % 60);
        let timer = scheduler
            .schedule_once(delay, move || {
                ran[number].fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        for _ in 0..number % 50 {
            std::hint::spin_loop();
        }
        *cancelled = timer.cancel();
    }
    eventually("all others run", || scheduler.pending() == 0);
    settle(&scheduler);
    for (number, cancelled) in cancelled.iter().enumerate() {
        assert_eq!(ran[number].load(Ordering::SeqCst), usize::from(!cancelled), "task {number}");
    }
}

/// `ScheduledThreadPoolExecutor` keeps cancelled tasks queued until they would have been due, by
/// default, and Go's timers linger likewise.
#[test]
fn a_million_timeouts_that_are_cancelled_give_their_memory_back() {
    let (rounds, batch) = (scaled(100, 3), scaled(10_000, 100));
    let time = virtual_time();
    for _ in 0..rounds {
        for _ in 0..batch {
            assert!(time.schedule_once(secs(30), || ()).unwrap().cancel());
        }
        // What a timer thread does when it is woken, here done in the time of the test.
        time.advance(Duration::ZERO);
    }
    let metrics = time.metrics();
    assert_eq!(metrics.cancelled, (rounds * batch) as u64);
    assert_eq!(metrics.pending, 0);
    assert!(metrics.timer_memory > 0);
    assert!(metrics.timer_memory <= 1 << 20, "{} bytes", metrics.timer_memory);
}

#[test]
fn in_real_time_too_a_million_cancelled_timeouts_give_their_memory_back() {
    let (rounds, batch) = (scaled(50, 2), scaled(10_000, 30));
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let schedule = || scheduler.schedule_once(secs(30), || ()).unwrap();
    for _ in 0..rounds {
        // A third of them are armed before they are cancelled.
        let armed: Vec<_> = (0..batch / 3).map(|_| schedule()).collect();
        settle(&scheduler);
        assert!(armed.iter().all(Cancellable::cancel));
        for _ in armed.len()..batch {
            assert!(schedule().cancel());
        }
        // However busy the machine, the timer thread gets to them before the next batch.
        settle(&scheduler);
    }
    let metrics = scheduler.metrics();
    assert_eq!(metrics.cancelled, (rounds * batch) as u64);
    assert_eq!(metrics.pending, 0);
    assert!(metrics.timer_memory <= 4 << 20, "{} bytes", metrics.timer_memory);
}

#[test]
fn timers_cancelled_in_the_wheel_give_their_memory_back_long_before_their_deadlines() {
    let (rounds, batch) = (scaled(20, 3), scaled(5_000, 20));
    let time = virtual_time();
    let mut memory = Vec::new();
    for round in 0..rounds as u64 {
        let timers: Vec<_> = (0..batch as u64)
            .map(|number| time.schedule_once(secs(1 + (number << (round % 20))), || ()).unwrap())
            .collect();
        time.advance(ms(1)); // all are in the wheel now, on many levels
        assert!(timers.iter().all(Cancellable::cancel));
        drop(timers);
        time.advance(ms(1));
        memory.push(time.metrics().timer_memory);
    }
    // The first round makes the memory, a second may be needed while the first one's is on its
    // way back; then nothing is added.
    assert_eq!(memory[1], memory[rounds - 1], "{memory:?}");
    assert_eq!(time.pending(), 0);
}

/// Agrona uses timer ids again: cancelling a stale id removed another timer.
#[test]
fn a_stale_cancellable_never_cancels_the_timer_that_uses_its_memory_now() {
    let time = virtual_time();
    let fired = time.schedule_once(ms(1), || ()).unwrap();
    let cancelled = time.schedule_once(ms(1), || ()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(time.advance(ms(1)), 1);
    let notes = Notes::new();
    // More than a block of entries, so that each one there is has been used again.
    let tasks = scaled(5_000, 150);
    for number in 0..tasks {
        let note = notes.clone();
        let _ = time.schedule_once(ms(1), move || note.add(number)).unwrap();
        assert!(!fired.cancel() && !fired.is_cancelled() && !fired.is_pending());
        assert!(!cancelled.cancel() && cancelled.is_cancelled() && !cancelled.is_pending());
    }
    assert_eq!(time.advance(ms(1)), tasks);
    assert_same(notes.take(), 0..tasks);
}

#[test]
fn dropping_a_cancellable_does_not_cancel() {
    let time = virtual_time();
    drop(time.schedule_once(ms(1), || ()).unwrap());
    assert_eq!(time.advance(ms(1)), 1);
}

#[test]
fn a_guard_cancels_when_it_is_dropped_and_not_when_it_was_detached() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    {
        let guard = time.schedule_once(ms(1), move || drop(captive)).unwrap().cancel_on_drop();
        assert!(guard.is_pending(), "a guard is used like the cancellable");
        assert_eq!(notes.len(), 0);
    }
    assert_eq!(notes.take(), ["captures dropped"]);
    assert_eq!(time.advance(ms(1)), 0);

    let guard = time.schedule_once(ms(1), || ()).unwrap().cancel_on_drop();
    let detached = guard.detach();
    assert!(detached.is_pending());
    drop(detached);
    assert_eq!(time.advance(ms(1)), 1);
}

#[test]
fn a_guard_cancels_when_its_scope_panics() {
    let time = virtual_time();
    let timers = time.handle();
    let result = thread::spawn(move || {
        let _guard = timers.schedule_once(ms(1), || ()).unwrap().cancel_on_drop();
        panic!("expected by this test");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(time.metrics().cancelled, 1);
    assert_eq!(time.advance(ms(1)), 0);
}

#[test]
fn the_hook_of_a_cancelled_task_runs_once_on_the_cancelling_thread_after_its_captures_are_dropped()
{
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let hook = notes.clone();
    let (sender, receiver) = mpsc::channel();
    let task = Task::new(move || drop(captive)).on_cancel(move || {
        hook.add("hook called");
        sender.send(thread::current().id()).unwrap();
    });
    let timer = scheduler.schedule_once(secs(10), task).unwrap();
    assert!(timer.cancel());
    assert_eq!(notes.take(), ["captures dropped", "hook called"], "inside the cancel");
    assert_eq!(receiver.recv().unwrap(), thread::current().id());
    assert!(!timer.cancel());
    assert!(receiver.recv().is_err(), "the hook is gone");
}

#[test]
fn the_hook_of_a_task_that_runs_or_is_handed_back_or_is_refused_is_not_called() {
    let time = virtual_time();
    let notes = Notes::new();
    let task = |notes: &Notes<&'static str>| {
        let hook = notes.clone();
        Task::new(|| ()).on_cancel(move || hook.add("hook"))
    };
    let ran = time.schedule_once(ms(1), task(&notes)).unwrap();
    time.advance(ms(1));
    assert!(!ran.cancel());
    let handed_back = time.schedule_once(ms(1), task(&notes)).unwrap();
    drop(time.stop().wait());
    assert!(!handed_back.cancel());
    let refused = time.schedule_once(ms(1), task(&notes)).unwrap_err();
    drop(refused.into_task());
    assert_eq!(notes.len(), 0);
}

#[test]
fn a_hook_may_schedule_and_cancel() {
    let time = virtual_time();
    let notes = Notes::new();
    let other = time.schedule_once(ms(5), || ()).unwrap();
    let (timers, note) = (time.handle(), notes.clone());
    let task = Task::new(|| ()).on_cancel(move || {
        assert!(other.cancel());
        let _ = timers.schedule_once(ms(1), move || note.add("scheduled by the hook")).unwrap();
    });
    assert!(time.schedule_once(ms(5), task).unwrap().cancel());
    assert_eq!(time.advance(ms(10)), 1);
    assert_eq!(notes.take(), ["scheduled by the hook"]);
}

#[test]
fn a_destructor_that_runs_inside_a_cancel_may_schedule_and_cancel() {
    struct Reenter(Option<(lars_scheduler::Handle, Cancellable, Notes<bool>)>);
    impl Drop for Reenter {
        fn drop(&mut self) {
            let (timers, other, notes) = self.0.take().unwrap();
            notes.add(other.cancel());
            let _ = timers.schedule_once(ms(1), move || notes.add(true)).unwrap();
        }
    }
    let time = virtual_time();
    let notes = Notes::new();
    let other = time.schedule_once(ms(5), || ()).unwrap();
    let reenter = Reenter(Some((time.handle(), other, notes.clone())));
    let timer = time.schedule_once(ms(5), move || drop(reenter)).unwrap();
    time.advance(ms(1));
    assert!(timer.cancel());
    assert_eq!(time.advance(ms(10)), 1);
    assert_eq!(notes.take(), [true, true]);
}

#[test]
fn any_thread_may_cancel_and_the_cancellable_may_move_there() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let timer = scheduler.schedule_once(secs(10), move || drop(captive)).unwrap();
    assert!(thread::spawn(move || timer.cancel()).join().unwrap());
    assert_eq!(notes.take(), ["dropped"]);
    assert_eq!(scheduler.pending(), 0);
}

#[test]
fn cancelling_after_the_scheduler_is_gone_prevents_nothing_and_harms_nothing() {
    let notes = Notes::new();
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let captive = Captive::new(&notes, "dropped");
    let pending = scheduler.schedule_once(secs(10), move || drop(captive)).unwrap();
    let cancelled = scheduler.schedule_once(secs(10), || ()).unwrap();
    assert!(cancelled.cancel());
    drop(scheduler);
    assert_eq!(notes.take(), ["dropped"], "with the scheduler");
    assert!(!pending.cancel() && !pending.is_cancelled() && !pending.is_pending());
    assert!(!cancelled.cancel() && cancelled.is_cancelled());
    drop(pending);
    assert!(!cancelled.cancel(), "the last one keeps what it needs");
}

#[test]
fn a_guard_that_outlives_the_scheduler_is_dropped_in_peace() {
    let time = virtual_time();
    let guard = time.schedule_once(secs(10), || ()).unwrap().cancel_on_drop();
    drop(time);
    assert!(!guard.is_pending());
    drop(guard);
}

#[test]
fn timers_cancelled_on_one_thread_and_scheduled_on_another_are_used_again() {
    let (rounds, batch) = (scaled(20, 2), scaled(5_000, 20));
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::sync_channel::<Cancellable>(batch);
    let (done, wait) = mpsc::channel();
    let canceller = thread::spawn(move || {
        for (number, timer) in receiver.iter().enumerate() {
            assert!(timer.cancel());
            drop(timer);
            if (number + 1) % batch == 0 {
                done.send(()).unwrap();
            }
        }
    });
    for _ in 0..rounds {
        for _ in 0..batch {
            sender.send(scheduler.schedule_once(secs(30), || ()).unwrap()).unwrap();
        }
        wait.recv_timeout(PATIENCE).unwrap();
        settle(&scheduler);
    }
    drop(sender);
    canceller.join().unwrap();
    let metrics = scheduler.metrics();
    assert_eq!((metrics.pending, metrics.cancelled), (0, (rounds * batch) as u64));
    // Four batches' worth: nothing like all of them.
    assert!(metrics.timer_memory <= 4 * 64 * batch.max(1024), "{}", metrics.timer_memory);
}

#[test]
fn more_threads_than_cores_that_schedule_and_cancel_take_no_more_memory_than_their_timers() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let threads = scaled(100, 4);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..scaled(10_000, 30) {
                    assert!(scheduler.schedule_once(secs(30), || ()).unwrap().cancel());
                }
            });
        }
    });
    // One timer at a time, and what a thread left behind that found its gate shut: as long as a
    // busy machine kept the timer thread from its processor there.
    let most = threads * 1_024 * 64;
    let memory = scheduler.metrics().timer_memory;
    assert!(memory <= most, "{memory} bytes for {threads} threads");
}

#[test]
fn threads_beyond_those_that_get_a_wheel_schedule_and_cancel_as_others_do() {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    // (Under Miri three threads get one.)
    let (threads, each) = (scaled(300, 4), scaled(100, 10));
    let all_there = Barrier::new(threads);
    let runs = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..each {
                    let runs = Arc::clone(&runs);
                    let run = move || _ = runs.fetch_add(1, Ordering::Relaxed);
                    drop(scheduler.schedule_once(Duration::from_millis(1), run).unwrap());
                    assert!(scheduler.schedule_once(secs(30), || ()).unwrap().cancel());
                }
                all_there.wait();
            });
        }
    });
    eventually("nothing is pending", || scheduler.pending() == 0);
    // (The last one may have been counted, and be about to run.)
    settle(&scheduler);
    assert_eq!(runs.load(Ordering::Relaxed), threads * each);
}

#[test]
fn threads_that_schedule_little_cost_no_wheel() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let threads = scaled(300, 4);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| drop(scheduler.schedule_once(secs(3_600), || ()).unwrap()));
        }
    });
    let metrics = scheduler.metrics();
    assert_eq!(metrics.pending, threads as u64);
    // Half a kilobyte of entries each, at most: a thread that ended has passed its number on.
    assert!(metrics.timer_memory <= threads * 512, "{} bytes", metrics.timer_memory);
}
