//! Zero, the shortest and the longest duration, wherever a system takes one.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::future::{Future, pending, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::virtual_time;
use lars_scheduler::future::FutureExt as _;
use lars_scheduler::{LightArrayRevolverScheduler, MissedTickBehavior, VirtualTime};

const NANO: Duration = Duration::from_nanos(1);
const EXTREMES: [Duration; 4] =
    [Duration::ZERO, NANO, Duration::MAX.saturating_sub(NANO), Duration::MAX];
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

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

fn polled<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn futures_take_any_time() {
    each(|time, duration| {
        let handle = time.handle();
        let mut sleep = pin!(handle.sleep(duration));
        let context = &mut Context::from_waker(Waker::noop());
        let _ = sleep.as_mut().poll(context);
        time.advance(SECOND);
        assert_eq!(sleep.as_mut().poll(context).is_ready(), comes(duration), "{duration:?}");
        sleep.as_mut().get_mut().reset(duration);
        time.advance(SECOND);
        assert_eq!(sleep.as_mut().poll(context).is_ready(), comes(duration), "{duration:?}");
        assert!(polled(handle.timeout(duration, ready(7))).is_ready());
        let mut timeout = pin!(pending::<()>().timeout(&handle, duration));
        let _ = timeout.as_mut().poll(context);
        time.advance(SECOND);
        assert_eq!(timeout.as_mut().poll(context).is_ready(), comes(duration));
        let behaviors =
            [MissedTickBehavior::Burst, MissedTickBehavior::Skip, MissedTickBehavior::Delay];
        for behavior in behaviors {
            let interval = handle.interval(duration);
            assert_eq!(interval.is_err(), duration.is_zero());
            if let Ok(interval) = interval {
                let mut interval = interval.missed_ticks(behavior);
                time.advance(SECOND);
                assert!(interval.poll_tick(context).is_ready(), "the first is due at once");
                let _ = interval.poll_tick(context);
                interval.reset_after(duration);
                interval.reset();
                let _ = interval.poll_tick(context);
            }
        }
    });
}

#[test]
fn a_scheduler_takes_any_limit() {
    for duration in EXTREMES {
        let built = LightArrayRevolverScheduler::builder()
            .coalesce(duration.min(HOUR))
            .shutdown_timeout(duration)
            .slow_inline(duration)
            .slow_on_pool(duration)
            .build();
        let Ok(scheduler) = built else {
            panic!("{duration:?} is refused: {built:?}");
        };
        let _ = scheduler.handle().schedule_once(duration, || ()).unwrap();
        drop(scheduler.close());
    }
}
