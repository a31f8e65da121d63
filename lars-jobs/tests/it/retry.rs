//! Retries: when the attempts are made, and why there is no further one.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::cell::Cell;
use std::error::Error;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Bell, Captive, Notes, ms, ns, secs, virtual_time};
use futures::future::{FutureExt, join_all};
use lars_jobs::Jobs;
use lars_jobs::backoff::{BackoffPolicy, Jitter};
use lars_jobs::retry::{GiveUp, RetryError};
use lars_scheduler::future::Stalled;
use lars_scheduler::{Handle, Refusal};

/// From 100 ms, doubled, up to 1 s.
fn policy(max_attempts: u32) -> BackoffPolicy {
    let builder = BackoffPolicy::builder().initial(ms(100)).cap(secs(1));
    builder.max_attempts(max_attempts).build().unwrap()
}

/// Fails with the numbers of its attempts, from 1, and notes when.
fn failing(
    timers: Handle,
) -> (Notes<Duration>, impl FnMut() -> std::future::Ready<Result<(), u32>>) {
    let (notes, start) = (Notes::new(), timers.now());
    let (note, mut attempt) = (notes.clone(), 0);
    let operation = move || {
        note.add(timers.now() - start);
        attempt += 1;
        ready(Err(attempt))
    };
    (notes, operation)
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_first_attempt_is_made_by_the_first_poll_and_a_success_costs_no_timer() {
    let time = virtual_time();
    let calls = Cell::new(0);
    let retry = time.retry(policy(3), || {
        calls.set(calls.get() + 1);
        ready(Ok::<_, ()>("done"))
    });
    assert_eq!(calls.get(), 0);
    assert_eq!(retry.now_or_never(), Some(Ok("done")));
    assert_eq!((calls.get(), time.metrics().scheduled), (1, 0));
}

#[test]
fn attempts_follow_each_other_after_the_pauses_of_the_policy_and_end_with_its_limit() {
    let time = virtual_time();
    let (attempts, operation) = failing(time.handle());
    let error = time.block_on(time.retry(policy(7), operation)).unwrap().unwrap_err();
    let expected = [0, 100, 300, 700, 1500, 2500, 3500].map(ms);
    assert_eq!(attempts.take(), expected);
    assert_eq!((error.reason(), error.attempts()), (&GiveUp::Attempts, 7));
    assert_eq!(error.last_error(), Some(&7));
    assert_eq!(error.to_string(), "gave up after 7 attempts: the limit of attempts is reached");
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_pause_begins_when_the_attempt_has_failed_and_is_not_a_nanosecond_shorter() {
    let time = virtual_time();
    let mut retry = Box::pin(time.retry(policy(2), || {
        let work = time.sleep(ms(30));
        async move {
            work.await.unwrap();
            Err::<(), _>(())
        }
    }));
    assert!(poll(&mut retry).is_pending());
    time.advance(ms(30));
    assert!(poll(&mut retry).is_pending());
    assert_eq!(time.metrics().scheduled, 2, "the first attempt's and the pause's");
    time.advance(ms(100) - ns(1));
    assert!(poll(&mut retry).is_pending());
    assert_eq!(time.metrics().scheduled, 2);
    time.advance(ns(1));
    assert!(poll(&mut retry).is_pending());
    assert_eq!(time.metrics().scheduled, 3, "the second attempt's");
    time.advance(ms(30));
    assert!(poll(&mut retry).is_ready());
}

#[test]
fn a_success_after_failures_is_the_result() {
    let time = virtual_time();
    let mut calls = 0;
    let retry = time.retry(policy(5), || {
        calls += 1;
        ready(if calls < 4 { Err(calls) } else { Ok(calls) })
    });
    assert_eq!(time.block_on(retry), Ok(Ok(4)));
    assert_eq!(time.elapsed(), ms(700));
}

#[test]
fn no_pause_with_jitter_is_longer_than_the_cap() {
    let time = virtual_time();
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let builder = BackoffPolicy::builder().initial(ms(100)).cap(ms(150)).jitter(jitter);
        let policy = builder.max_attempts(200).build().unwrap();
        let (attempts, operation) = failing(time.handle());
        let error = time.block_on(time.retry(policy.start_with_seed(7), operation)).unwrap();
        assert_eq!(error.unwrap_err().attempts(), 200);
        let attempts = attempts.take();
        let pauses: Vec<_> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let expected: Vec<_> = policy.start_with_seed(7).collect();
        assert_eq!(pauses, expected, "{jitter:?}");
        assert!(pauses.iter().all(|&pause| pause <= ms(150)));
    }
}

#[test]
fn those_who_fail_together_do_not_all_come_back_together() {
    let time = virtual_time();
    let policy = BackoffPolicy::builder().initial(secs(1)).jitter(Jitter::Full).max_attempts(2);
    let policy = policy.build().unwrap();
    let (attempts, operations): (Vec<_>, Vec<_>) = (0..100).map(|_| failing(time.handle())).unzip();
    let retries = operations.into_iter().map(|operation| time.retry(policy, operation));
    time.block_on(join_all(retries)).unwrap();
    let mut second: Vec<_> = attempts.into_iter().map(|attempts| attempts.take()[1]).collect();
    second.sort_unstable();
    second.dedup();
    assert!(second.len() > 90, "{} different instants", second.len());
}

#[test]
fn an_error_that_is_not_one_to_try_again_after_ends_it_at_once() {
    let time = virtual_time();
    let (attempts, operation) = failing(time.handle());
    let retry = time.retry(policy(10), operation).when(|&error| error != 3);
    let error = time.block_on(retry).unwrap().unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (&GiveUp::Error, 3));
    assert_eq!(attempts.len(), 3);
    assert_eq!(time.elapsed(), ms(300));
    assert_eq!(error.into_last_error(), Some(3));
}

#[test]
fn a_pause_that_would_reach_the_deadline_is_not_begun() {
    let time = virtual_time();
    // The attempts are at 0, 100 and 300; the next one would be at 700.
    for (limit, attempts, ends_at) in [(699, 3, 300), (700, 3, 300), (701, 4, 700), (0, 1, 0)] {
        let start = time.now();
        let (_, operation) = failing(time.handle());
        let retry = time.retry(policy(10), operation).within(ms(limit));
        let error = time.block_on(retry).unwrap().unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (&GiveUp::Deadline, attempts), "{limit}");
        assert_eq!(time.now() - start, ms(ends_at), "{limit}");
        assert_eq!(error.last_error(), Some(&attempts));
    }
}

#[test]
fn a_retry_that_is_polled_only_after_the_deadline_makes_no_further_attempt() {
    let time = virtual_time();
    let (made, operation) = failing(time.handle());
    let mut retry = time.retry(policy(9), operation).within(ms(150));
    assert!(poll(&mut retry).is_pending());
    time.advance(ms(150)); // the pause is over at 100 ms, but the executor is late
    let Poll::Ready(Err(error)) = poll(&mut retry) else { panic!("it goes on") };
    assert_eq!((error.reason(), error.attempts()), (&GiveUp::Deadline, 1));
    assert_eq!(error.last_error(), Some(&1));
    assert_eq!(made.take(), [Duration::ZERO]);
    assert_eq!(time.pending(), 0);
}

#[test]
fn an_attempt_that_is_under_way_at_the_deadline_is_dropped() {
    let time = virtual_time();
    let dropped = Notes::new();
    let mut calls = 0;
    let retry = time.retry(policy(10), || {
        calls += 1;
        let (call, captive) = (calls, Captive::new(&dropped, "attempt"));
        async move {
            let _captive = captive;
            if call == 2 {
                pending::<()>().await;
            }
            Err::<(), _>(call)
        }
    });
    let error = time.block_on(retry.until(time.now() + secs(5))).unwrap().unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (&GiveUp::Deadline, 2));
    assert_eq!(error.last_error(), Some(&1), "of the attempt that ended");
    assert_eq!((time.elapsed(), time.pending(), dropped.len()), (secs(5), 0, 2));
}

#[test]
fn an_attempt_that_succeeds_at_the_very_deadline_has_won() {
    let time = virtual_time();
    let retry = time.retry(policy(1), || time.sleep(secs(1))).within(secs(1));
    assert_eq!(time.block_on(retry), Ok(Ok(())));
}

#[test]
fn the_longest_limit_is_none_and_a_pause_that_never_ends_is_none_either() {
    let time = virtual_time();
    let (_, operation) = failing(time.handle());
    let retry = time.retry(policy(4), operation).within(Duration::MAX);
    assert_eq!(time.block_on(retry).unwrap().unwrap_err().reason(), &GiveUp::Attempts);

    let never = BackoffPolicy::builder().initial(Duration::MAX).cap(Duration::MAX).build().unwrap();
    let (_, operation) = failing(time.handle());
    assert!(matches!(time.block_on(time.retry(never, operation)), Err(Stalled)));
    let (_, operation) = failing(time.handle());
    let limited = time.retry(never, operation).within(secs(1_000_000));
    assert_eq!(time.block_on(limited).unwrap().unwrap_err().reason(), &GiveUp::Deadline);
}

#[test]
fn a_limit_for_each_attempt_is_a_timeout_in_the_operation() {
    let time = virtual_time();
    let retry = time.retry(policy(3), || time.timeout(secs(1), pending::<()>()));
    let error = time.block_on(retry).unwrap().unwrap_err();
    assert_eq!(error.attempts(), 3);
    assert_eq!(time.elapsed(), secs(3) + ms(100) + ms(200));
}

#[test]
fn a_retry_that_is_dropped_drops_its_attempt_or_its_pause_and_makes_no_other() {
    let time = virtual_time();
    let (attempts, operation) = failing(time.handle());
    let mut retry = time.retry(policy(5), operation);
    assert!(poll(&mut retry).is_pending());
    assert_eq!(time.pending(), 1);
    drop(retry);
    time.advance(secs(10));
    assert_eq!((attempts.len(), time.pending(), time.metrics().fired), (1, 0, 0));

    let dropped = Notes::new();
    let mut retry = Box::pin(time.retry(policy(5), || {
        let captive = Captive::new(&dropped, "attempt");
        async move {
            pending::<()>().await;
            drop(captive);
            Ok::<_, ()>(())
        }
    }));
    assert!(poll(&mut retry).is_pending());
    drop(retry);
    assert_eq!(dropped.take(), ["attempt"]);
}

#[test]
fn each_poll_makes_one_attempt_at_the_most_so_that_other_tasks_run() {
    let time = virtual_time();
    // Each second pause is one of zero, which is over when it begins.
    let short = BackoffPolicy::builder().initial(ns(1)).cap(ns(1)).factor(1.0).jitter(Jitter::Full);
    let (attempts, operation) = failing(time.handle());
    let mut retry = time.retry(short.build().unwrap().start_with_seed(1), operation);
    let (bell, waker) = Bell::new();
    let mut woken = 0;
    for polls in 1..=1000 {
        let polled = Pin::new(&mut retry).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        assert_eq!(attempts.len(), polls);
        time.advance(ns(1));
        woken += 1;
        assert_eq!(bell.rung(), woken, "by itself or by the timer");
    }
}

#[test]
fn a_retry_whose_scheduler_ends_says_so_when_it_next_has_to_wait() {
    for in_the_pause in [false, true] {
        let time = virtual_time();
        let (_, operation) = failing(time.handle());
        let mut retry = time.retry(policy(5), operation);
        if in_the_pause {
            assert!(poll(&mut retry).is_pending());
        }
        time.close().unwrap();
        let Poll::Ready(Err(error)) = poll(&mut retry) else { panic!("it hangs") };
        assert_eq!((error.reason(), error.attempts()), (&GiveUp::Refused(Refusal::Stopped), 1));
        assert_eq!(error.last_error(), Some(&1));
    }
}

#[test]
fn a_panic_in_the_operation_is_the_pollers_and_leaves_no_timer() {
    let time = virtual_time();
    let mut calls = 0;
    let retry = time.retry(policy(5), || {
        calls += 1;
        assert!(calls < 2, "expected by this test");
        ready(Err::<(), _>(()))
    });
    let retried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| time.block_on(retry)));
    assert!(retried.is_err());
    assert_eq!((time.elapsed(), time.pending()), (ms(100), 0));
}

#[test]
fn the_error_has_the_last_one_as_its_source() {
    let time = virtual_time();
    let retry = time.retry(policy(1), || ready("x".parse::<u32>()));
    let error: RetryError<_> = time.block_on(retry).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "gave up after 1 attempt: the limit of attempts is reached");
    assert_eq!(error.source().unwrap().to_string(), "invalid digit found in string");
}
