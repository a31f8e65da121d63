//! Sleeps: when they are ready, whom they wake, what they leave behind.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::LocalPool;
use futures::future::FusedFuture;
use futures::task::LocalSpawnExt;
use futures::{StreamExt, select};
use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::future::Stalled;

use super::{Bell, READY, STOPPED, poll, poll_quietly};
use crate::common::{
    Notes, eventually, in_lead, ms, ns, occupy, scaled, secs, settle, ticked, virtual_time,
};

#[test]
fn a_sleep_is_ready_at_its_deadline_and_not_a_nanosecond_before() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(10));
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(ms(10) - ns(1));
    assert_eq!(bell.rung(), 0);
    assert!(!sleep.is_elapsed());
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(ns(1));
    assert_eq!(bell.rung(), 1);
    assert!(sleep.is_elapsed());
    assert_eq!(poll(&mut sleep, &waker), READY);
}

#[test]
fn a_sleep_is_woken_at_the_first_tick_that_is_not_before_its_deadline() {
    let time = ticked(ms(1), 8);
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(Duration::from_micros(1500));
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(ms(2) - ns(1));
    assert_eq!(bell.rung(), 0);
    time.advance(ns(1));
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), READY);
}

#[test]
fn the_deadline_is_fixed_when_the_sleep_is_made_and_the_timer_when_it_first_waits() {
    let time = virtual_time();
    let mut sleep = time.sleep(ms(10));
    assert_eq!(sleep.deadline(), Some(time.now() + ms(10)));
    assert_eq!(time.metrics().scheduled, 0);
    time.advance(ms(6));
    assert!(poll_quietly(&mut sleep).is_pending());
    assert_eq!(time.pending(), 1);
    assert_eq!(time.advance_to_next(), Some(ms(4)));
    assert_eq!(poll_quietly(&mut sleep), READY);
}

#[test]
fn a_deadline_that_has_passed_is_ready_at_once_without_a_timer() {
    let time = virtual_time();
    let start = time.now();
    time.advance(secs(1));
    let mut of_zero = time.sleep(Duration::ZERO);
    let mut until_past = time.sleep_until(start);
    let mut until_before_all = time.sleep_until(start.checked_sub(secs(1)).unwrap_or(start));
    let mut seen_too_late = time.sleep(ms(1));
    time.advance(ms(1));
    for sleep in [&mut of_zero, &mut until_past, &mut until_before_all, &mut seen_too_late] {
        assert_eq!(poll_quietly(sleep), READY);
    }
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn a_poll_after_the_deadline_is_ready_even_if_the_timer_thread_is_held_up() {
    in_lead(|lead| {
        let scheduler = LightArrayRevolverScheduler::new().unwrap();
        let (bell, waker) = Bell::new();
        let release = occupy(&scheduler);
        let mut sleep = scheduler.sleep(lead);
        // Where the first poll comes too late, there is no timer.
        let in_time = poll(&mut sleep, &waker).is_pending();
        eventually("the deadline", || poll(&mut sleep, &waker).is_ready());
        assert!(scheduler.now() >= sleep.deadline().unwrap());
        assert_eq!(bell.rung(), 0);
        drop(release);
        settle(&scheduler);
        let cancelled = scheduler.metrics().cancelled;
        in_time.then(|| assert_eq!((bell.rung(), cancelled), (0, 1)))
    });
}

#[test]
fn the_longest_sleep_is_never_ready_and_ends_with_the_scheduler() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(Duration::MAX);
    assert_eq!(sleep.deadline(), None);
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(Duration::MAX); // the end of time
    assert!(poll(&mut sleep, &waker).is_pending());
    assert!(!sleep.is_elapsed());
    assert_eq!(bell.rung(), 0);
    assert_eq!(time.block_on(time.sleep(Duration::MAX)), Err(Stalled));
    time.close().unwrap();
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), STOPPED);
}

#[test]
fn a_sleep_that_is_ready_stays_ready_and_makes_no_further_timer() {
    let time = virtual_time();
    let mut sleep = time.sleep(ms(1));
    assert!(!sleep.is_terminated());
    assert!(poll_quietly(&mut sleep).is_pending());
    time.advance(ms(1));
    for _ in 0..3 {
        assert_eq!(poll_quietly(&mut sleep), READY);
        assert!(sleep.is_terminated());
    }
    assert_eq!(time.metrics().scheduled, 1);
}

#[test]
fn sleeps_in_tasks_of_a_pool_see_each_instant_exactly_when_time_is_moved_step_by_step() {
    let time = virtual_time();
    let notes = Notes::new();
    let mut pool = LocalPool::new();
    for (name, step, steps) in [("a", 3, 4), ("b", 4, 3)] {
        let (timers, notes, start) = (time.handle(), notes.clone(), time.now());
        let task = async move {
            for _ in 0..steps {
                timers.sleep(ms(step)).await.unwrap();
                notes.add((name, (timers.now() - start).as_millis()));
            }
        };
        pool.spawner().spawn_local(task).unwrap();
    }
    pool.run_until_stalled();
    while time.advance_to_next().is_some() {
        pool.run_until_stalled();
    }
    let expected = [("a", 3), ("b", 4), ("a", 6), ("b", 8), ("a", 9), ("a", 12), ("b", 12)];
    let mut noted = notes.take();
    // Both are due at 12; which of them is asked first is the pool's affair.
    noted[5..].sort_unstable();
    assert_eq!(noted, expected);
}

#[test]
fn polls_out_of_turn_change_nothing() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(10));
    for _ in 0..1000 {
        assert!(poll(&mut sleep, &waker).is_pending());
    }
    assert_eq!(time.metrics().scheduled, 1);
    assert_eq!(bell.rung(), 0);
    assert_eq!(time.advance_to_next(), Some(ms(10)));
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), READY);
}

#[test]
fn the_last_waker_is_woken_and_no_other() {
    let time = virtual_time();
    let bells: Vec<_> = (0..5).map(|_| Bell::new()).collect();
    let mut sleep = time.sleep(ms(10));
    for (_, waker) in &bells {
        assert!(poll(&mut sleep, waker).is_pending());
    }
    time.advance(ms(10));
    let rung: Vec<_> = bells.iter().map(|(bell, _)| bell.rung()).collect();
    assert_eq!(rung, [0, 0, 0, 0, 1]);
    // The sleep keeps none of the wakers alive: one reference here, one in the waker beside it.
    assert!(bells.iter().all(|(bell, _)| Arc::strong_count(bell) == 2));
}

#[test]
fn a_poll_by_another_task_takes_the_one_place_over_when_places_are_limited() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let ((first, one), (second, another)) = (Bell::new(), Bell::new());
    let mut sleep = time.sleep(ms(10));
    for waker in [&one, &another, &another] {
        assert!(poll(&mut sleep, waker).is_pending());
        assert_eq!(time.pending(), 1);
    }
    assert_eq!(time.metrics().scheduled, 2, "one for each task");
    time.advance(ms(10));
    assert_eq!((first.rung(), second.rung()), (0, 1));
    assert_eq!(poll(&mut sleep, &another), READY);
}

#[test]
fn a_hundred_thousand_sleeps_are_woken_in_one_batch_each_exactly_once() {
    let many = scaled(100_000, 300);
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleeps: Vec<_> = (0..many).map(|_| time.sleep(secs(1))).collect();
    for sleep in &mut sleeps {
        assert!(poll(sleep, &waker).is_pending());
    }
    assert_eq!(time.pending(), many as u64);
    assert_eq!(time.advance_to_next(), Some(secs(1)));
    assert_eq!(bell.rung(), many);
    for sleep in &mut sleeps {
        assert_eq!(poll(sleep, &waker), READY);
    }
    let metrics = time.metrics();
    assert_eq!((metrics.fired, metrics.cancelled, metrics.pending), (many as u64, 0, 0));
}

#[test]
fn a_sleep_that_is_dropped_leaves_no_timer_no_memory_and_no_waker() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut after_the_first_round = 0;
    for round in 0..scaled(100, 3) {
        for number in 0..1000 {
            let mut sleep = time.sleep(secs(3600 + number));
            assert!(poll(&mut sleep, &waker).is_pending());
            drop(sleep);
        }
        assert_eq!(time.pending(), 0);
        time.advance(ms(1)); // an hour before any of the deadlines
        if round == 0 {
            after_the_first_round = time.metrics().timer_memory;
        }
    }
    let metrics = time.metrics();
    assert_eq!(metrics.cancelled, metrics.scheduled);
    assert_eq!(metrics.timer_memory, after_the_first_round);
    assert_eq!((bell.rung(), Arc::strong_count(&bell)), (0, 2));
}

/// A timer that is cancelled before its thread has ever seen it is where tokio's second timer wheel
/// leaked.
#[test]
fn sleeps_that_are_dropped_before_the_timer_thread_has_seen_them_leave_nothing() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let many = scaled(20_000, 200);
    let round = || {
        let release = occupy(&scheduler);
        for _ in 0..many {
            let mut sleep = scheduler.sleep(secs(3600));
            assert!(poll_quietly(&mut sleep).is_pending());
        }
        assert_eq!(scheduler.pending(), 0);
        drop(release);
        settle(&scheduler);
        scheduler.metrics().timer_memory
    };
    let first = round();
    for _ in 0..5 {
        // Which entries the thread that settles has at hand may make it take one more block.
        assert!(round() <= first + 2 * 64 * 1024);
    }
    assert_eq!(scheduler.metrics().fired, 12, "what occupies and what settles");
}

#[test]
fn a_sleep_that_is_never_polled_costs_no_timer() {
    let time = virtual_time();
    let sleeps: Vec<_> = (0..1000).map(|_| time.sleep(ms(1))).collect();
    drop(sleeps);
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn a_select_in_a_loop_keeps_one_timer_and_loses_neither_messages_nor_time() {
    let time = virtual_time();
    let timers = time.handle();
    let (sender, mut receiver) = futures::channel::mpsc::unbounded();
    let messages = time.block_on(async {
        let mut deadline = timers.sleep(ms(100));
        let producer = async {
            for number in 0..1000 {
                timers.sleep(ms(7)).await.unwrap();
                if sender.unbounded_send(number).is_err() {
                    return;
                }
            }
        };
        let consumer = async {
            let mut messages = Vec::new();
            loop {
                select! {
                    message = receiver.select_next_some() => {
                        assert_eq!(timers.pending(), 2, "the deadline's and the producer's");
                        messages.push(message);
                    }
                    over = deadline => {
                        over.unwrap();
                        drop(receiver);
                        return messages;
                    }
                }
            }
        };
        futures::join!(producer, consumer).1
    });
    assert_eq!(messages.unwrap(), (0..14).collect::<Vec<_>>());
    assert_eq!(time.elapsed(), ms(105), "the producer's last attempt");
    assert_eq!(time.metrics().cancelled, 0);
}
