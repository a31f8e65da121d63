//! Moving the deadline of a sleep.

use std::time::Duration;

use futures::future::FusedFuture;
use lars_scheduler::LightArrayRevolverScheduler;

use super::{Bell, READY, STOPPED, poll, poll_quietly};
use crate::common::{ms, ns, occupy, secs, virtual_time};

#[test]
fn a_reset_moves_the_deadline_earlier_and_later_under_the_same_waker() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let start = time.now();
    let mut sleep = time.sleep(ms(10));
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset_at(start + ms(30));
    assert_eq!(time.advance_to_next(), Some(ms(30)));
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), READY);

    sleep.reset(ms(30));
    assert!(!sleep.is_terminated());
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(ms(10));
    assert_eq!(time.advance_to_next(), Some(ms(10)));
    assert_eq!(bell.rung(), 2);
    assert_eq!(poll(&mut sleep, &waker), READY);
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_reset_to_an_instant_that_has_passed_wakes_who_waits() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(secs(10));
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset_at(time.now());
    assert_eq!(time.advance(Duration::ZERO), 1);
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), READY);
}

#[test]
fn a_reset_to_never_and_back() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(1));
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(Duration::MAX);
    assert_eq!(sleep.deadline(), None);
    time.advance(secs(1));
    assert_eq!(bell.rung(), 0);
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(ms(1));
    time.advance(ms(1));
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), READY);
}

#[test]
fn a_reset_of_a_sleep_that_nobody_polled_makes_no_timer() {
    let time = virtual_time();
    let mut sleep = time.sleep(ms(1));
    sleep.reset(ms(5));
    assert_eq!(time.metrics().scheduled, 0);
    assert!(poll_quietly(&mut sleep).is_pending());
    assert_eq!(time.advance_to_next(), Some(ms(5)));
}

#[test]
fn a_reset_between_the_wake_up_and_the_poll_counts() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(1));
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(ms(1));
    assert_eq!(bell.rung(), 1);
    sleep.reset(ms(5));
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(ms(5) - ns(1));
    assert_eq!(bell.rung(), 1);
    time.advance(ns(1));
    assert_eq!(bell.rung(), 2);
    assert_eq!(poll(&mut sleep, &waker), READY);
}

#[test]
fn a_reset_to_an_instant_that_has_passed_is_ready_at_the_next_poll_whatever_the_timer_does() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(secs(10));
    assert!(poll(&mut sleep, &waker).is_pending());
    sleep.reset(Duration::ZERO);
    assert_eq!(poll(&mut sleep, &waker), READY);
    time.advance(secs(20));
    assert_eq!((bell.rung(), time.pending()), (0, 0));
}

#[test]
fn any_number_of_resets_move_one_timer_and_make_no_other() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(secs(30));
    for step in 0..1000 {
        assert!(poll(&mut sleep, &waker).is_pending());
        time.advance(ms(step));
        sleep.reset(secs(30) - ms(step)); // further out and nearer
    }
    let metrics = time.metrics();
    assert_eq!((metrics.scheduled, metrics.cancelled, metrics.pending), (1, 0, 1));
    assert_eq!(bell.rung(), 0);
    assert_eq!(time.advance_to_next(), Some(secs(30) - ms(999)));
    assert_eq!((bell.rung(), poll(&mut sleep, &waker)), (1, READY));
}

#[test]
fn a_reset_while_the_scheduler_is_stopping_does_not_keep_who_waits_from_hearing_of_it() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (bell, waker) = Bell::new();
    let mut sleep = scheduler.sleep(secs(3600));
    assert!(poll(&mut sleep, &waker).is_pending());
    let release = occupy(&scheduler);
    // The timer thread cannot hand the timer back yet.
    let stopped = scheduler.stop();
    sleep.reset(secs(7200));
    assert_eq!(bell.rung(), 0);
    drop(release);
    drop(stopped.wait());
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), STOPPED);
}

#[test]
fn a_reset_of_a_sleep_whose_task_was_handed_back_is_refused_at_the_next_poll() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(1));
    assert!(poll(&mut sleep, &waker).is_pending());
    let handed_back = time.stop().wait();
    assert_eq!(bell.rung(), 1);
    sleep.reset(ms(2));
    assert_eq!(poll(&mut sleep, &waker), STOPPED);
    drop(handed_back);
    assert_eq!(bell.rung(), 1, "it waits no more");
}
