//! Timeouts: who wins, what it costs, what is left of the work.

use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{FutureExt, join_all};
use lars_scheduler::future::TimeoutError;
use lars_scheduler::{LightArrayRevolverScheduler, Refusal};

use super::{Bell, poll, poll_quietly};
use crate::common::{Captive, Notes, ms, ns, scaled, secs, virtual_time};

#[test]
fn work_that_is_ready_at_once_has_won_and_costs_no_timer_whatever_the_limit() {
    let time = virtual_time();
    for limit in [Duration::ZERO, ms(1), Duration::MAX] {
        assert_eq!(time.timeout(limit, ready(7)).now_or_never(), Some(Ok(7)));
    }
    drop(time.stop());
    assert_eq!(time.timeout(ms(1), ready(7)).now_or_never(), Some(Ok(7)));
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn work_that_is_done_in_time_has_won_and_its_timer_is_cancelled() {
    let time = virtual_time();
    let (sender, receiver) = oneshot::channel();
    let (bell, waker) = Bell::new();
    let mut limited = time.timeout(secs(1), receiver);
    assert!(poll(&mut limited, &waker).is_pending());
    time.advance(secs(1) - ns(1));
    sender.send("answer").unwrap();
    assert_eq!(bell.rung(), 1, "by the work");
    assert_eq!(poll(&mut limited, &waker), Poll::Ready(Ok(Ok("answer"))));
    assert_eq!((time.pending(), time.metrics().cancelled), (0, 1));
    time.advance(secs(10));
    assert_eq!(bell.rung(), 1);
}

#[test]
fn work_that_takes_too_long_ends_at_the_limit_and_not_a_nanosecond_before() {
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut limited = time.timeout(ms(100), pending::<()>());
    assert_eq!(limited.deadline(), Some(time.now() + ms(100)));
    time.advance(ms(40)); // counts from the call
    assert!(poll(&mut limited, &waker).is_pending());
    time.advance(ms(60) - ns(1));
    assert!(poll(&mut limited, &waker).is_pending());
    assert_eq!(bell.rung(), 0);
    time.advance(ns(1));
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut limited, &waker), Poll::Ready(Err(TimeoutError::Elapsed)));
}

#[test]
fn work_that_fails_in_time_has_its_own_error() {
    let time = virtual_time();
    let work = async {
        time.sleep(ms(1)).await.unwrap();
        Err::<(), _>("refused")
    };
    assert_eq!(time.block_on(time.timeout(ms(2), work)), Ok(Ok(Err("refused"))));
}

#[test]
fn work_that_is_ready_at_the_very_moment_has_won() {
    let time = virtual_time();
    for limit in [Duration::ZERO, ms(5)] {
        let limited = time.timeout(limit, time.sleep(limit));
        assert_eq!(time.block_on(limited), Ok(Ok(Ok(()))));
    }
}

#[test]
fn a_limit_that_has_passed_still_asks_the_work_once() {
    let time = virtual_time();
    let start = time.now();
    time.advance(secs(1));
    let mut asked = 0;
    let work = poll_fn(|_| {
        asked += 1;
        Poll::<()>::Pending
    });
    let limited = time.timeout_at(start, work);
    assert_eq!(limited.now_or_never(), Some(Err(TimeoutError::Elapsed)));
    assert_eq!(asked, 1);
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn of_nested_limits_the_shorter_one_counts() {
    let time = virtual_time();
    let outer_first = time.timeout(ms(5), time.timeout(ms(10), pending::<()>()));
    assert_eq!(time.block_on(outer_first), Ok(Err(TimeoutError::Elapsed)));
    assert_eq!(time.elapsed(), ms(5));
    let inner_first = time.timeout(ms(10), time.timeout(ms(5), pending::<()>()));
    assert_eq!(time.block_on(inner_first), Ok(Ok(Err(TimeoutError::Elapsed))));
    assert_eq!((time.elapsed(), time.pending()), (ms(10), 0));
}

#[test]
fn the_longest_limit_is_none() {
    let time = virtual_time();
    let limited = time.timeout(Duration::MAX, time.sleep(secs(1_000_000_000)));
    assert_eq!(limited.deadline(), None);
    assert_eq!(time.block_on(limited), Ok(Ok(Ok(()))));
}

#[test]
fn a_timeout_that_is_dropped_drops_the_work_and_cancels_the_timer() {
    let time = virtual_time();
    let farewells = Notes::new();
    let captive = Captive::new(&farewells, "the work");
    let mut limited = Box::pin(time.timeout(secs(1), async move {
        pending::<()>().await;
        drop(captive);
    }));
    assert!(poll_quietly(&mut limited).is_pending());
    drop(limited);
    assert_eq!(farewells.take(), ["the work"]);
    assert_eq!((time.pending(), time.metrics().cancelled), (0, 1));
}

#[test]
fn work_whose_time_is_over_can_be_taken_out_and_finished() {
    let time = virtual_time();
    let (sender, receiver) = oneshot::channel();
    let mut limited = time.timeout(ms(1), receiver);
    assert!(poll_quietly(&mut limited).is_pending());
    time.advance(ms(1));
    assert_eq!(poll_quietly(&mut limited), Poll::Ready(Err(TimeoutError::Elapsed)));
    assert_eq!(poll_quietly(&mut limited), Poll::Ready(Err(TimeoutError::Elapsed)), "and again");
    sender.send(3).unwrap();
    assert_eq!(limited.into_inner().now_or_never(), Some(Ok(3)));
}

#[test]
fn work_that_panics_leaves_no_timer() {
    let time = virtual_time();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let _ = time.block_on(time.timeout(secs(1), async {
            time.sleep(ms(1)).await.unwrap();
            panic!("expected by this test");
        }));
    }));
    assert!(polled.is_err());
    assert_eq!(time.pending(), 0);
}

#[test]
fn without_a_timer_work_that_waits_is_refused_with_the_reason() {
    let builder = LightArrayRevolverScheduler::builder().max_pending(1);
    let time = builder.build_virtual().unwrap();
    let mut first = time.timeout(secs(1), pending::<()>());
    assert!(poll_quietly(&mut first).is_pending());
    let full = time.timeout(secs(1), pending::<()>()).now_or_never().unwrap().unwrap_err();
    assert_eq!(full, TimeoutError::Refused(Refusal::Full { limit: 1 }));
    drop(time.stop());
    let stopped = first.now_or_never().unwrap().unwrap_err();
    assert_eq!(stopped, TimeoutError::Refused(Refusal::Stopped));
    assert_eq!(
        stopped.to_string(),
        "the time limit cannot be kept: the scheduler has been stopped; \
         nothing can be scheduled on it any more"
    );
}

/// The main job of timeouts: all are armed, none of them fires.
#[test]
fn time_outs_of_requests_that_are_all_answered_leave_nothing() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let many = scaled(10_000, 50);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..many).map(|_| oneshot::channel::<usize>()).unzip();
    let answers =
        join_all(receivers.into_iter().map(|answer| scheduler.timeout(secs(3600), answer)));
    let server = async {
        for (number, sender) in senders.into_iter().enumerate() {
            sender.send(number).unwrap();
            if number % 100 == 0 {
                smol::future::yield_now().await;
            }
        }
    };
    let (answers, ()) = block_on(async { futures::join!(answers, server) });
    assert!(answers.into_iter().enumerate().all(|(number, answer)| answer == Ok(Ok(number))));
    let metrics = scheduler.metrics();
    assert_eq!((metrics.pending, metrics.fired), (0, 0));
    assert_eq!(metrics.scheduled, metrics.cancelled);
}
