//! Idle: with nothing due the timer thread sleeps.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, ms, scaled, secs, settle};
use lars_scheduler::{Cancellable, LightArrayRevolverScheduler};

/// Waits for a second without a wake-up. What the timer thread has still to do after a busy time is
/// done within the first seconds, also on a busy machine; a thread that ticks is up in each of
/// them.
fn assert_sleeps(scheduler: &LightArrayRevolverScheduler) {
    settle(scheduler);
    let mut seen = scheduler.metrics().wake_ups;
    for _ in 0..10 {
        thread::sleep(secs(1));
        let now = scheduler.metrics().wake_ups;
        if now == seen {
            return;
        }
        seen = now;
    }
    panic!("the timer thread does not come to rest");
}

fn an_hour_ahead(scheduler: &LightArrayRevolverScheduler) -> Vec<Cancellable> {
    (0..scaled(10_000, 100) as u64)
        .map(|number| scheduler.schedule_once(secs(3_600) + ms(number), || ()).unwrap())
        .collect()
}

#[test]
fn with_ten_thousand_timers_pending_an_hour_ahead_the_thread_does_not_wake_up() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let timers = an_hour_ahead(&scheduler);
    assert_sleeps(&scheduler);
    assert_eq!(scheduler.pending(), timers.len() as u64);
}

#[test]
fn with_nothing_pending_the_thread_does_not_wake_up() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    assert_sleeps(&scheduler);
    let timer = scheduler.schedule_once(secs(3_600), || ()).unwrap();
    assert!(timer.cancel());
    assert_sleeps(&scheduler);
}

#[test]
fn a_timer_later_than_the_planned_wake_up_does_not_wake_the_thread() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let _earliest = scheduler.schedule_once(secs(3_600), || ()).unwrap();
    assert_sleeps(&scheduler);
    let before = scheduler.metrics().wake_ups;
    for number in 1..scaled(1_000, 50) as u64 {
        let _ = scheduler.schedule_once(secs(7_200) + ms(number), || ()).unwrap();
    }
    thread::sleep(ms(100));
    assert_eq!(scheduler.metrics().wake_ups, before);
}

#[test]
fn a_timer_earlier_than_the_planned_wake_up_wakes_the_thread_in_time() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let _late = an_hour_ahead(&scheduler);
    assert_sleeps(&scheduler);
    let before = scheduler.metrics().wake_ups;
    for delay in [ms(20), ms(5), Duration::ZERO] {
        let (sender, receiver) = mpsc::channel();
        let begin = scheduler.now();
        let _ = scheduler.schedule_once(delay, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(PATIENCE).expect("it does not wait an hour");
        assert!(scheduler.now() >= begin + delay);
    }
    assert!(scheduler.metrics().wake_ups > before, "it slept before");
}

#[test]
fn a_pending_timer_costs_no_wake_up_for_each_tick_until_it_is_due() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    settle(&scheduler);
    let before = scheduler.metrics().wake_ups;
    let (sender, receiver) = mpsc::channel();
    // A hundred and fifty ticks, within one revolution.
    let _ = scheduler.schedule_once(ms(150), move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    let wake_ups = scheduler.metrics().wake_ups - before;
    // One to take the timer in, one to fire it, and a few to go down a level.
    assert!((1..10).contains(&wake_ups), "{wake_ups} wake-ups");
}
