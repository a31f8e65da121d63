//! Intervals: when they tick, what becomes of missed ticks, how they end.

use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::{FusedStream, StreamExt};
use lars_scheduler::future::Interval;
use lars_scheduler::{LightArrayRevolverScheduler, MissedTickBehavior, Refusal, VirtualTime};

use super::{Bell, poll, poll_quietly};
use crate::common::{Xorshift, ms, ns, scaled, secs, virtual_time};

/// When the next ticks are delivered, and when they were due, in milliseconds from now on.
fn ticks(time: &VirtualTime, interval: &mut Interval, count: usize) -> Vec<(u128, u128)> {
    let start = time.now();
    let ticks = async {
        let mut ticks = Vec::new();
        for _ in 0..count {
            let due = interval.tick().await.unwrap();
            ticks.push(((time.now() - start).as_millis(), (due - start).as_millis()));
        }
        ticks
    };
    time.block_on(ticks).unwrap()
}

/// An interval of 100 ms whose tick at 0 was delivered, and was followed by 250 ms of work.
fn held_up(time: &VirtualTime, missed: MissedTickBehavior) -> Interval {
    let mut interval = time.interval(ms(100)).unwrap().missed_ticks(missed);
    assert_eq!(interval.tick().now_or_never(), Some(Ok(time.now())));
    time.advance(ms(250));
    interval
}

#[test]
fn an_interval_ticks_at_once_and_then_every_period() {
    let time = virtual_time();
    let mut interval = time.interval(ms(100)).unwrap();
    assert_eq!(ticks(&time, &mut interval, 4), [(0, 0), (100, 100), (200, 200), (300, 300)]);
    assert_eq!(interval.deadline(), Some(time.now() + ms(100)));
}

#[test]
fn an_interval_at_begins_there_and_no_nanosecond_before() {
    let time = virtual_time();
    let mut interval = time.interval_at(time.now() + ms(30), ms(100)).unwrap();
    let (bell, waker) = Bell::new();
    assert!(poll(&mut Box::pin(interval.tick()), &waker).is_pending());
    time.advance(ms(30) - ns(1));
    assert_eq!((bell.rung(), interval.tick().now_or_never()), (0, None));
    time.advance(ns(1));
    assert_eq!(interval.tick().now_or_never(), Some(Ok(time.now())));
    assert_eq!(ticks(&time, &mut interval, 2), [(100, 100), (200, 200)]);
}

#[test]
fn in_a_burst_all_missed_ticks_come_at_once_and_then_the_schedule_goes_on() {
    let time = virtual_time();
    let mut interval = held_up(&time, MissedTickBehavior::Burst);
    let start = time.now() - ms(250);
    let next = |interval: &mut Interval| interval.tick().now_or_never();
    assert_eq!(next(&mut interval), Some(Ok(start + ms(100))));
    assert_eq!(next(&mut interval), Some(Ok(start + ms(200))));
    assert_eq!(next(&mut interval), None);
    assert_eq!(ticks(&time, &mut interval, 2), [(50, 50), (150, 150)]);
}

#[test]
fn with_skip_the_late_tick_comes_and_then_the_next_multiple_of_the_period() {
    let time = virtual_time();
    let mut interval = held_up(&time, MissedTickBehavior::Skip);
    let start = time.now() - ms(250);
    assert_eq!(interval.tick().now_or_never(), Some(Ok(start + ms(100))));
    assert_eq!(ticks(&time, &mut interval, 3), [(50, 50), (150, 150), (250, 250)]);
}

#[test]
fn with_skip_a_hold_up_of_years_costs_one_tick() {
    let time = virtual_time();
    let mut interval = time.interval(ns(7)).unwrap().missed_ticks(MissedTickBehavior::Skip);
    assert!(interval.tick().now_or_never().is_some());
    let years = secs(50 * 365 * 24 * 3600);
    time.advance(years);
    assert!(interval.tick().now_or_never().is_some());
    let next = interval.deadline().unwrap() - time.now();
    assert_eq!(next, ns(7 - u64::try_from(years.as_nanos() % 7).unwrap()));
}

#[test]
fn with_delay_the_late_tick_comes_and_the_following_ones_count_from_it() {
    let time = virtual_time();
    let mut interval = held_up(&time, MissedTickBehavior::Delay);
    let start = time.now() - ms(250);
    assert_eq!(interval.tick().now_or_never(), Some(Ok(start + ms(100))));
    assert_eq!(ticks(&time, &mut interval, 2), [(100, 100), (200, 200)]);
}

#[test]
fn with_delay_what_waking_takes_does_not_move_the_rest() {
    let time = virtual_time();
    for (late, rest) in [(ms(5), ms(95)), (ms(5) + ns(2), ms(100))] {
        let mut interval = time.interval(ms(100)).unwrap().missed_ticks(MissedTickBehavior::Delay);
        assert!(interval.tick().now_or_never().is_some());
        time.advance(ms(100) + late);
        assert!(interval.tick().now_or_never().is_some());
        assert_eq!(interval.deadline(), Some(time.now() + rest), "late by {late:?}");
    }
}

#[test]
fn without_missed_ticks_all_three_are_the_same_and_none_drifts() {
    for missed in [MissedTickBehavior::Burst, MissedTickBehavior::Skip, MissedTickBehavior::Delay] {
        let time = virtual_time();
        let mut interval = time.interval(ms(100)).unwrap().missed_ticks(missed);
        let start = time.now();
        let mut random = Xorshift(5);
        let count = scaled(10_000, 50) as u32;
        time.block_on(async {
            for number in 0..count {
                assert_eq!(interval.tick().await, Ok(start + ms(100) * number));
                assert_eq!(time.now(), start + ms(100) * number);
                time.sleep(ms(random.below(100))).await.unwrap();
            }
        })
        .unwrap();
    }
}

#[test]
fn a_start_that_has_passed_counts_as_missed() {
    let time = virtual_time();
    let start = time.now();
    time.advance(ms(250));
    let mut interval = time.interval_at(start, ms(100)).unwrap();
    let late: Vec<_> = std::iter::from_fn(|| interval.tick().now_or_never()).collect();
    assert_eq!(late, [Ok(start), Ok(start + ms(100)), Ok(start + ms(200))]);
}

#[test]
fn a_tick_that_is_given_up_is_not_lost() {
    let time = virtual_time();
    let mut interval = time.interval(ms(10)).unwrap();
    assert!(interval.tick().now_or_never().is_some());
    for _ in 0..100 {
        assert!(interval.tick().now_or_never().is_none());
    }
    assert_eq!(time.metrics().scheduled, 1);
    time.advance(ms(10)); // its waker is called, but nobody polls
    assert_eq!(interval.tick().now_or_never(), Some(Ok(time.now())));
}

#[test]
fn an_interval_that_nobody_asks_costs_nothing() {
    let time = virtual_time();
    let mut intervals: Vec<_> = (0..1000).map(|_| time.interval(ms(1)).unwrap()).collect();
    assert!(intervals[0].tick().now_or_never().is_some(), "the first tick does not wait");
    assert_eq!(time.metrics().scheduled, 0);
    assert!(intervals[0].tick().now_or_never().is_none());
    drop(intervals);
    assert_eq!((time.metrics().scheduled, time.pending()), (1, 0));
}

#[test]
fn a_period_of_zero_is_refused_with_the_value_and_the_limit() {
    let refusal = virtual_time().interval(Duration::ZERO).unwrap_err();
    assert_eq!(refusal.to_string(), "the period is 0ns, but it must be at least 1ns");
}

#[test]
fn with_the_longest_period_there_is_one_tick() {
    let time = virtual_time();
    let mut interval = time.interval(Duration::MAX).unwrap();
    assert!(interval.tick().now_or_never().is_some());
    assert_eq!(interval.deadline(), None);
    time.advance(Duration::MAX);
    assert!(interval.tick().now_or_never().is_none());
}

#[test]
fn a_reset_starts_anew_while_somebody_waits_and_otherwise() {
    let time = virtual_time();
    let mut interval = time.interval(ms(100)).unwrap();
    assert!(interval.tick().now_or_never().is_some());
    for waited_for in [false, true] {
        if waited_for {
            assert!(interval.tick().now_or_never().is_none());
        }
        time.advance(ms(60));
        interval.reset();
        assert_eq!(ticks(&time, &mut interval, 2), [(100, 100), (200, 200)]);
        interval.reset_after(ms(30));
        assert_eq!(ticks(&time, &mut interval, 2), [(30, 30), (130, 130)]);
        interval.reset_at(time.now() + ms(250));
        assert_eq!(ticks(&time, &mut interval, 1), [(250, 250)]);
        interval.reset_immediately();
        assert_eq!(ticks(&time, &mut interval, 2), [(0, 0), (100, 100)]);
    }
    assert_eq!(interval.period(), ms(100));
}

#[test]
fn as_a_stream_it_gives_its_ticks_one_error_at_the_end_of_the_scheduler_and_nothing_more() {
    let time = virtual_time();
    let start = time.now();
    let mut interval = time.interval(secs(1)).unwrap();
    let first = time.block_on(interval.by_ref().take(3).collect::<Vec<_>>()).unwrap();
    assert_eq!(first, [Ok(start), Ok(start + secs(1)), Ok(start + secs(2))]);
    let (bell, waker) = Bell::new();
    assert!(poll(&mut interval.next(), &waker).is_pending());
    drop(time.stop());
    assert_eq!(bell.rung(), 1, "who waits hears of it");
    assert_eq!(interval.next().now_or_never(), Some(Some(Err(Refusal::Stopped))));
    assert!(interval.is_terminated());
    assert_eq!(interval.next().now_or_never(), Some(None));
    assert_eq!(interval.tick().now_or_never(), Some(Err(Refusal::Stopped)), "each time");
}

#[test]
fn a_tick_without_a_place_is_refused_and_not_lost() {
    let builder = LightArrayRevolverScheduler::builder().max_pending(1);
    let time = builder.build_virtual().unwrap();
    let mut interval = time.interval(ms(10)).unwrap();
    assert!(interval.tick().now_or_never().is_some());
    let mut sleep = time.sleep(ms(5));
    assert!(poll_quietly(&mut sleep).is_pending());
    let full = Some(Err(Refusal::Full { limit: 1 }));
    assert_eq!(interval.tick().now_or_never(), full);
    assert_eq!(interval.next().now_or_never(), Some(full), "not the end of the stream");
    assert!(!interval.is_terminated());
    drop(sleep);
    assert_eq!(ticks(&time, &mut interval, 2), [(10, 10), (20, 20)]);
}
