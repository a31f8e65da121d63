//! Real threads: no wake-up is lost, and nothing is left behind.

use std::sync::{Arc, Barrier};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lars_scheduler::{LightArrayRevolverScheduler, Refusal};

use super::{Bell, poll, within_patience};
use crate::common::{Xorshift, scaled, secs, settle, virtual_time};

#[test]
fn no_wake_up_is_lost_when_short_sleeps_race_their_first_poll() {
    within_patience(|| {
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(10))
            .build()
            .unwrap();
        let rounds = scaled(3000, 30);
        let threads: Vec<_> = (1..=3)
            .map(|seed| {
                let timers = scheduler.handle();
                thread::spawn(move || {
                    let mut random = Xorshift(seed);
                    for _ in 0..rounds {
                        let delay = Duration::from_micros(random.below(60));
                        let begin = Instant::now();
                        block_on(timers.sleep(delay)).unwrap();
                        assert!(begin.elapsed() >= delay);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let metrics = scheduler.metrics();
        assert_eq!(metrics.pending, 0);
        assert_eq!(metrics.scheduled, metrics.fired + metrics.cancelled);
    });
}

#[test]
fn no_wake_up_is_lost_when_polls_with_new_wakers_and_resets_race_the_deadline() {
    within_patience(|| {
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(10))
            .build()
            .unwrap();
        let mut random = Xorshift(77);
        for _ in 0..scaled(2000, 20) {
            let mut sleep = scheduler.sleep(Duration::from_micros(30));
            for _ in 0..random.below(40) {
                match random.below(8) {
                    0 => sleep.reset(Duration::from_micros(random.below(60))),
                    _ => {
                        let (_, waker) = Bell::new();
                        let _ = poll(&mut sleep, &waker);
                    }
                }
            }
            // Whatever that did, whoever waits now is woken.
            block_on(&mut sleep).unwrap();
            assert!(scheduler.now() >= sleep.deadline().unwrap());
        }
        assert_eq!(scheduler.pending(), 0);
    });
}

#[test]
fn in_races_of_deadlines_with_drops_every_timer_is_either_fired_or_cancelled() {
    within_patience(|| {
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(10))
            .build()
            .unwrap();
        let rounds = scaled(5000, 40);
        let (bell, waker) = Bell::new();
        let threads: Vec<_> = (1..=2)
            .map(|seed| {
                let (timers, waker) = (scheduler.handle(), waker.clone());
                thread::spawn(move || {
                    let mut random = Xorshift(seed);
                    for _ in 0..rounds {
                        let mut sleep = timers.sleep(Duration::from_micros(20));
                        let _ = poll(&mut sleep, &waker);
                        let end = Instant::now() + Duration::from_micros(random.below(40));
                        while Instant::now() < end {
                            std::hint::spin_loop();
                        }
                        drop(sleep);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        settle(&scheduler);
        let metrics = scheduler.metrics();
        assert_eq!(metrics.pending, 0);
        assert_eq!(metrics.scheduled, metrics.fired + metrics.cancelled);
        // A waker is called for timers that fired only; `settle` is one of those and calls none.
        assert!((bell.rung() as u64) < metrics.fired);
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1, "no timer has kept its waker");
    });
}

/// No clock helps here: who is not woken waits for an hour.
#[test]
fn no_wake_up_is_lost_when_a_poll_with_a_new_waker_races_the_end_of_the_scheduler() {
    // Beside busy processes it takes long until two threads run at once. Then they race for a
    // while: who polls an ended scheduler is faster than who ends it, and comes up with it.
    const RACES: usize = if cfg!(miri) { 20 } else { 500 };
    within_patience(|| {
        let mut random = Xorshift(3);
        for _ in 0..scaled(20, 5) {
            let times: Vec<_> = (0..RACES).map(|_| virtual_time()).collect();
            let mut sleeps: Vec<_> = times.iter().map(|time| time.sleep(secs(3600))).collect();
            for sleep in &mut sleeps {
                assert!(poll(sleep, Waker::noop()).is_pending());
            }
            let begin = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    begin.wait();
                    times.iter().for_each(|time| drop(time.stop()));
                });
                begin.wait();
                for sleep in sleeps {
                    for _ in 0..random.below(60) {
                        std::hint::spin_loop();
                    }
                    assert_eq!(block_on(sleep), Err(Refusal::Stopped));
                }
            });
        }
    });
}
