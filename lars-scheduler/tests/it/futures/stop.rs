//! What waits when the scheduler ends, or has no place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler, Refusal};

use super::{Bell, READY, STOPPED, poll, poll_quietly, within_patience};
use crate::common::{eventually, ms, scaled, secs, virtual_time};

#[test]
fn a_pending_sleep_is_woken_and_told_when_the_scheduler_closes_under_each_policy() {
    for policy in [ClosePolicy::RunPending, ClosePolicy::RunMarked, ClosePolicy::RunNone] {
        let builder = LightArrayRevolverScheduler::builder().close_policy(policy);
        let time = builder.build_virtual().unwrap();
        let (bell, waker) = Bell::new();
        let mut sleep = time.sleep(ms(10));
        assert!(poll(&mut sleep, &waker).is_pending());
        time.close().unwrap();
        assert_eq!(bell.rung(), 1, "{policy:?}");
        assert_eq!(poll(&mut sleep, &waker), STOPPED, "{policy:?}");
        assert_eq!(poll(&mut sleep, &waker), STOPPED, "and again");
        assert_eq!(Arc::strong_count(&bell), 2);
    }
}

#[test]
fn a_pending_sleep_is_told_when_nobody_wants_what_is_handed_back_for_it() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(10));
    assert!(poll(&mut sleep, &waker).is_pending());
    drop(time.stop());
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), STOPPED);
}

#[test]
fn a_sleep_is_woken_when_it_is_handed_back_and_is_ready_if_its_time_has_come() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleeps = [time.sleep(ms(10)), time.sleep(ms(20))];
    for sleep in &mut sleeps {
        assert!(poll(sleep, &waker).is_pending());
    }
    let handed_back = time.stop().wait();
    assert_eq!(bell.rung(), 2);
    time.advance(ms(10));
    for task in handed_back {
        assert!(task.run());
    }
    assert_eq!(bell.rung(), 2, "once each");
    let [first, second] = &mut sleeps;
    assert_eq!(poll(first, &waker), READY);
    assert_eq!(poll(second, &waker), STOPPED);
}

#[test]
fn no_sleep_hangs_when_the_owner_is_dropped_while_threads_wait() {
    within_patience(|| {
        let scheduler = LightArrayRevolverScheduler::new().unwrap();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let timers = scheduler.handle();
                thread::spawn(move || block_on(timers.sleep(secs(3600))))
            })
            .collect();
        eventually("all of them wait", || scheduler.pending() == 8);
        drop(scheduler);
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Err(Refusal::Stopped));
        }
    });
}

#[test]
fn no_sleep_hangs_in_a_race_with_close() {
    within_patience(|| {
        for _ in 0..scaled(50, 2) {
            let scheduler = LightArrayRevolverScheduler::builder()
                .tick_duration(Duration::from_micros(100))
                .build()
                .unwrap();
            let begun = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (timers, begun) = (scheduler.handle(), Arc::clone(&begun));
                    thread::spawn(move || {
                        loop {
                            let begin = timers.now();
                            let slept = block_on(timers.sleep(Duration::from_micros(200)));
                            begun.fetch_add(1, Ordering::Relaxed);
                            match slept {
                                Ok(()) => {
                                    assert!(timers.now() - begin >= Duration::from_micros(200));
                                }
                                Err(refusal) => break assert_eq!(refusal, Refusal::Stopped),
                            }
                        }
                    })
                })
                .collect();
            eventually("some have slept", || begun.load(Ordering::Relaxed) > 5);
            scheduler.close().unwrap();
            for thread in threads {
                thread.join().unwrap();
            }
        }
    });
}

#[test]
fn on_a_stopped_scheduler_a_sleep_fails_at_its_first_poll_unless_its_time_has_come() {
    let time = virtual_time();
    drop(time.stop());
    assert_eq!(poll_quietly(&mut time.sleep(ms(1))), STOPPED);
    assert_eq!(poll_quietly(&mut time.sleep(Duration::MAX)), STOPPED);
    assert_eq!(poll_quietly(&mut time.sleep(Duration::ZERO)), READY);
}

#[test]
fn a_sleep_without_a_place_says_so_and_can_be_tried_again() {
    let builder = LightArrayRevolverScheduler::builder().max_pending(1);
    let time = builder.build_virtual().unwrap();
    let (bell, waker) = Bell::new();
    let mut first = time.sleep(ms(1));
    let mut second = time.sleep(ms(2));
    assert!(poll_quietly(&mut first).is_pending());
    let full = Poll::Ready(Err(Refusal::Full { limit: 1 }));
    assert_eq!(poll(&mut second, &waker), full);
    assert_eq!(poll(&mut second, &waker), full);
    drop(first);
    second.reset(ms(3));
    assert!(poll(&mut second, &waker).is_pending());
    // Moving the only timer needs no second place.
    second.reset(ms(4));
    assert_eq!(bell.rung(), 0);
    time.advance(ms(4));
    assert_eq!(poll(&mut second, &waker), READY);
}

#[test]
fn a_list_that_was_handed_back_keeps_no_waker_of_a_future() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(10));
    assert!(poll(&mut sleep, &waker).is_pending());
    let kept = time.stop().wait();
    assert_eq!((kept.len(), bell.rung()), (1, 1));
    assert_eq!(Arc::strong_count(&bell), 2);
    drop(kept);
    assert_eq!(bell.rung(), 1);
}
