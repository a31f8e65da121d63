//! Any duration is accepted by the systems, however long or short.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use common::{Notes, virtual_time};
use lars_jobs::debounce::{Debounce, Throttle};
use lars_jobs::delay_queue::DelayQueue;
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_jobs::scheduled_executor::ScheduledExecutor;
use lars_jobs::supervised::{CancelToken, Supervision};
use lars_jobs::wall_clock::{VirtualWallClock, WallClockScheduler};
use lars_jobs::worker::Worker;
use lars_scheduler::{Inline, VirtualTime};

const NANO: Duration = Duration::from_nanos(1);
const EXTREMES: [Duration; 4] =
    [Duration::ZERO, NANO, Duration::MAX.saturating_sub(NANO), Duration::MAX];
const SECOND: Duration = Duration::from_secs(1);

fn each(test: impl Fn(&VirtualTime, Duration)) {
    for duration in EXTREMES {
        let time = virtual_time();
        test(&time, duration);
        // Nothing that is due now and again is left.
        time.advance(Duration::MAX);
        time.advance(Duration::MAX);
    }
}

/// Whether something so far ahead comes within a second.
fn comes(duration: Duration) -> bool {
    duration <= NANO
}

#[test]
fn calls_that_come_too_often_are_limited_for_any_time_but_none() {
    each(|time, duration| {
        let (handle, seen) = (time.handle(), Notes::new());
        let (notes, more) = (seen.clone(), seen.clone());
        let debounce = Debounce::new(&handle, duration, move |number: u32| notes.add(number));
        let throttle = Throttle::new(&handle, duration, move |number: u32| more.add(number));
        assert_eq!(
            (debounce.is_err(), throttle.is_err()),
            (duration.is_zero(), duration.is_zero())
        );
        if let (Ok(debounce), Ok(throttle)) = (&debounce, &throttle) {
            for number in [1, 2, 3] {
                debounce.call(number).unwrap();
                throttle.call(10 * number).unwrap();
            }
            time.advance(SECOND);
            let expected: &[u32] = if comes(duration) { &[3, 10, 30] } else { &[10] };
            let mut ran = seen.take();
            ran.sort_unstable();
            assert_eq!(ran, expected, "{duration:?}");
            let waits = Ok(!comes(duration));
            assert_eq!((debounce.flush(), throttle.flush()), (waits.clone(), waits));
            time.advance(SECOND);
            assert_eq!(seen.take().len(), if comes(duration) { 0 } else { 2 });
        }
        let bounded = Debounce::builder(&handle, SECOND).max_wait(duration).build(|_: u32| ());
        if let Ok(bounded) = bounded {
            bounded.call(1).unwrap();
            time.advance(2 * SECOND);
            assert!(!bounded.is_pending());
        }
    });
}

#[test]
fn a_queue_takes_any_delay_and_waits_for_any_limit() {
    each(|_, duration| {
        let queue = DelayQueue::new();
        let key = queue.put(1, duration).unwrap();
        // What is never due counts as the longest.
        let longest = if comes(duration) { duration } else { Duration::MAX };
        assert!(queue.remaining(key).is_some_and(|left| left <= longest), "{duration:?}");
        if comes(duration) {
            assert_eq!(queue.take(), Ok(1));
        } else {
            assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
            let key = queue.reset(key, Duration::MAX).unwrap();
            assert!(queue.reset(key, Duration::ZERO).is_some());
            assert_eq!(queue.poll_timeout(duration), Ok(Some(1)));
        }
        queue.put(2, Duration::ZERO).unwrap();
        assert_eq!(queue.poll_timeout(Duration::MAX), Ok(Some(2)));
    });
}

#[test]
fn repeats_take_any_period_but_none() {
    each(|time, duration| {
        let (handle, runs) = (time.handle(), Arc::new(AtomicUsize::new(0)));
        let once = |runs: &Arc<AtomicUsize>| {
            let runs = Arc::clone(runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
                ControlFlow::<()>::Break(())
            }
        };
        let worker = Worker::new(&handle);
        let _ = worker.schedule_after(duration, || ());
        let executor = ScheduledExecutor::on(&handle);
        drop(executor.schedule(duration, || ()).unwrap());
        let limited = executor.submit_with_timeout(duration, || 1).unwrap();
        let series = [
            worker.schedule_with_fixed_delay(duration, duration, once(&runs)).is_ok(),
            worker.schedule_at_fixed_rate(duration, duration, once(&runs)).is_ok(),
            executor.schedule_with_fixed_delay(duration, duration, || ()).is_ok(),
            executor.schedule_at_fixed_rate(duration, duration, || ()).is_ok(),
        ];
        assert_eq!(series, [!duration.is_zero(); 4], "{duration:?}");
        // (Repeats of a nanosecond go on for as long as they are not ended.)
        executor.shutdown_now();
        drop(limited);
        time.advance(SECOND);
        let expected = if duration == NANO { 2 } else { 0 };
        assert_eq!(runs.load(Ordering::Relaxed), expected, "{duration:?}");
        let timer = RepeatedTimer::new(&handle, duration, |_| ());
        assert_eq!(timer.is_err(), duration.is_zero(), "{duration:?}");
        if let Ok(timer) = timer {
            timer.start().unwrap();
            assert!(timer.reset_to(Duration::ZERO).is_err());
            timer.reset_to(Duration::MAX).unwrap();
            time.advance(SECOND);
            assert_eq!(timer.stop_within(duration), Ok(()));
        }
        worker.dispose();
    });
}

#[test]
fn a_supervised_run_takes_any_time_that_its_settings_accept() {
    each(|time, duration| {
        let runs = Arc::new(AtomicUsize::new(0));
        let settings = Supervision::every(SECOND).timeout(duration).initial_delay(duration);
        let settings = settings.on_demand_limit(1, duration).build();
        assert_eq!(settings.is_err(), duration.is_zero(), "{duration:?}");
        let rarely = Supervision::every(duration).build();
        for settings in [settings, rarely].into_iter().flatten() {
            let count = Arc::clone(&runs);
            let run = move |_: &CancelToken| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            let task = settings.start(time, Inline, run).unwrap();
            task.run_now().unwrap();
            time.advance(Duration::ZERO);
            assert!(task.cancel());
        }
        let expected = if duration.is_zero() { 0 } else { 2 };
        assert_eq!(runs.load(Ordering::Relaxed), expected, "{duration:?}");
    });
}

#[test]
fn a_wall_clock_that_jumps_by_centuries_neither_loses_nor_repeats_a_timer() {
    let time = virtual_time();
    let clock = VirtualWallClock::new(time.handle(), SystemTime::UNIX_EPOCH);
    let wall = WallClockScheduler::with_clock(time.handle(), clock.clone())
        .recheck(Duration::MAX)
        .unwrap()
        .recheck(SECOND)
        .unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let century = Duration::from_secs(100 * 365 * 86_400);
    let at = SystemTime::UNIX_EPOCH + century;
    let timer = wall.schedule_at_system_time(at, move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let timer = timer.unwrap();
    clock.jump_back(3 * century);
    time.advance(2 * SECOND);
    clock.jump_forward(3 * century);
    time.advance(2 * SECOND);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    clock.jump_forward(10 * century);
    time.advance(2 * SECOND);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    clock.jump_back(10 * century);
    time.advance(2 * century);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(!timer.cancel());
}
