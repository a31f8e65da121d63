//! The delay queue: never early, first in first out, nothing lost, nobody forgotten.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;
mod sequence;

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use common::{
    Notes, PATIENCE, Xorshift, assert_same, eventually, ms, ns, scaled, secs, virtual_time,
};
use futures::{Stream, StreamExt};
use lars_jobs::delay_queue::{DelayQueue, NextError, QueueClosed};
use lars_scheduler::{Handle, LightArrayRevolverScheduler, Refusal, VirtualTime};
use proptest::prelude::*;
use sequence::Sequence;

/// A clock that the test moves, and that counts how often it was read.
#[derive(Clone)]
struct TestClock {
    start: Instant,
    nanos: Arc<AtomicU64>,
    reads: Arc<AtomicUsize>,
}

impl TestClock {
    fn new() -> Self {
        Self { start: Instant::now(), nanos: Arc::default(), reads: Arc::default() }
    }

    fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos().try_into().unwrap(), Ordering::SeqCst);
    }

    fn queue<T>(&self) -> DelayQueue<T> {
        let clock = self.clone();
        DelayQueue::with_clock(move || {
            clock.reads.fetch_add(1, Ordering::SeqCst);
            clock.start + ns(clock.nanos.load(Ordering::SeqCst))
        })
    }
}

/// A blocking call has read the clock so often when it waits, or is about to wait with its place in
/// the line taken: for its limit, for the first look without waiting, for the look that found
/// nothing, and after it.
const READS_OF_A_WAITING_POLL: usize = 4;
const READS_OF_A_WAITING_TAKE: usize = 3;

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls a future with a waker that counts.
fn poll<F: Future>(future: Pin<&mut F>, woken: &Arc<Woken>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

fn on_virtual_time<T>() -> (VirtualTime, DelayQueue<T>) {
    let time = virtual_time();
    let queue = on(&time);
    (time, queue)
}

/// A queue on a scheduler's clock.
fn on<T>(handle: &Handle) -> DelayQueue<T> {
    let handle = handle.clone();
    DelayQueue::with_clock(move || handle.now())
}

#[test]
fn an_item_is_taken_at_its_deadline_and_not_a_nanosecond_before() {
    let clock = TestClock::new();
    let queue = clock.queue();
    for nanos in [7, 3, 5] {
        queue.put(nanos, ns(nanos)).unwrap();
    }
    let mut taken = Vec::new();
    for now in 0..10_u64 {
        while let Some(item) = queue.poll() {
            taken.push((now, item));
        }
        clock.advance(ns(1));
    }
    assert_eq!(taken, [(3, 3), (5, 5), (7, 7)]);
}

#[test]
fn in_virtual_time_too_an_item_is_taken_at_its_deadline_and_not_before() {
    let (time, queue) = on_virtual_time();
    for nanos in [7, 3, 5] {
        queue.put(nanos, ns(nanos)).unwrap();
    }
    let mut taken = Vec::new();
    for now in 0..10_u64 {
        taken.extend(queue.drain().into_iter().map(|item| (now, item)));
        time.advance(ns(1));
    }
    assert_eq!(taken, [(3, 3), (5, 5), (7, 7)]);
}

/// The JDK's test of a queue: delays one step apart, put in any order, delivered in theirs.
#[test]
fn in_real_time_a_blocked_consumer_gets_items_in_order_and_none_early() {
    let queue = DelayQueue::new();
    let count = scaled(40, 4) as u64;
    let start = Instant::now();
    for step in (0..count).rev() {
        // Below a millisecond too: a clock of whole milliseconds is early here.
        queue.put_at(step, start + Duration::from_micros(700) * step as u32).unwrap();
    }
    for step in 0..count {
        assert_eq!(queue.take(), Ok(step));
        assert!(start.elapsed() >= Duration::from_micros(700) * step as u32, "{step} is early");
    }
}

#[test]
fn in_real_time_a_future_gets_items_in_order_and_none_early() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let queue = DelayQueue::new();
    let start = Instant::now();
    for step in (0..20_u32).rev() {
        queue.put_at(step, start + Duration::from_micros(700) * step).unwrap();
    }
    for step in 0..20 {
        assert_eq!(futures::executor::block_on(queue.next(&scheduler)), Ok(step));
        assert!(Instant::now() >= start + Duration::from_micros(700) * step, "{step} is early");
    }
}

#[test]
fn items_with_equal_deadlines_are_taken_in_the_order_in_which_they_were_put() {
    let clock = TestClock::new();
    let queue = clock.queue();
    let deadline = clock.start + secs(1);
    let count = scaled(1_000, 100);
    for number in 0..count {
        queue.put_at(number, deadline).unwrap();
        // Items in between that are removed again leave holes, which others fill.
        let hole = queue.put_at(usize::MAX, deadline - ns(number as u64)).unwrap();
        assert_eq!(queue.remove(hole), Some(usize::MAX));
    }
    clock.advance(secs(1));
    assert_same(queue.drain(), 0..count);
}

#[test]
fn deadlines_that_have_passed_are_due_at_once_and_keep_their_order() {
    let queue = DelayQueue::new();
    let now = Instant::now();
    queue.put("new", Duration::ZERO).unwrap();
    queue.put_at("old", now - ms(1)).unwrap();
    queue.put_at("older", now - ms(2)).unwrap();
    assert_eq!(queue.drain(), ["older", "old", "new"]);
}

/// In the JDK an item with the longest delay is seen by `peek` and not by `poll`. In Kafka's timer
/// it fires at once.
#[test]
fn the_longest_delay_never_comes_due_is_seen_by_peek_and_can_be_removed() {
    let (time, queue) = on_virtual_time();
    let key = queue.put("never", Duration::MAX).unwrap();
    for _ in 0..2 {
        assert_eq!(queue.poll(), None);
        let head = queue.peek().unwrap();
        assert_eq!((*head, head.remaining(), head.key()), ("never", Duration::MAX, key));
        drop(head);
        assert_eq!((queue.len(), queue.remaining(key)), (1, Some(Duration::MAX)));
        time.advance(secs(3_600 * 24 * 365 * 80));
    }
    assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
    let woken = Arc::new(Woken::default());
    let mut next = pin!(queue.next(&time));
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    queue.put("soon", ms(1)).unwrap();
    time.advance(ms(1));
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("soon")));
    assert_eq!(queue.remove(key), Some("never"));
}

#[test]
fn peek_sees_the_first_item_and_how_long_it_has_to_wait_due_or_not() {
    let clock = TestClock::new();
    let queue = clock.queue();
    assert!(queue.peek().is_none());
    queue.put("second", ms(20)).unwrap();
    queue.put("first", ms(10)).unwrap();
    for (advance, remaining) in [(0, 10), (4, 6), (6, 0), (50, 0)] {
        clock.advance(ms(advance));
        let head = queue.peek().unwrap();
        assert_eq!((*head, head.remaining()), ("first", ms(remaining)));
    }
    assert_eq!(queue.len(), 2, "nothing was taken");
}

#[test]
fn looking_at_all_items_shows_each_with_its_key_and_what_it_has_to_wait_the_earliest_first() {
    let clock = TestClock::new();
    let queue = clock.queue();
    queue.for_each(|_, _, _| unreachable!("it is empty"));
    let never = queue.put("never", Duration::MAX).unwrap();
    let late = queue.put("late", ms(20)).unwrap();
    let soon = queue.put("soon", ms(10)).unwrap();
    clock.advance(ms(15));
    let mut seen = Vec::new();
    queue.for_each(|key, remaining, item| seen.push((key, remaining, *item)));
    let expected = [(soon, ms(0), "soon"), (late, ms(5), "late"), (never, Duration::MAX, "never")];
    assert_eq!(seen, expected);
    // A look that panics does not keep the queue locked.
    let look = || queue.for_each(|_, _, item| assert_ne!(*item, "late"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err());
    assert_eq!((queue.remove(late), queue.len()), (Some("late"), 2));
}

#[test]
fn the_size_counts_items_that_are_due_and_items_that_are_not() {
    let queue = DelayQueue::new();
    assert!(queue.is_empty());
    queue.put(1, Duration::ZERO).unwrap();
    queue.put(2, secs(100)).unwrap();
    assert_eq!((queue.len(), queue.is_empty()), (2, false));
    assert_eq!(queue.poll(), Some(1));
    assert_eq!((queue.len(), queue.poll()), (1, None));
}

#[test]
fn draining_takes_what_is_due_up_to_the_number_asked_for_and_nothing_else() {
    let clock = TestClock::new();
    let queue = clock.queue();
    for number in 0..10_u64 {
        queue.put(number, ms(number)).unwrap();
    }
    clock.advance(ms(6));
    assert_eq!(queue.drain_up_to(0), [0_u64; 0]);
    assert_eq!(queue.drain_up_to(3), [0, 1, 2]);
    assert_eq!(queue.drain_up_to(100), [3, 4, 5, 6]);
    assert_eq!(queue.drain(), [0_u64; 0]);
    assert_eq!(queue.len(), 3);
}

/// Agrona uses ids again: cancelling an old one removed another timer.
#[test]
fn a_stale_key_never_removes_another_item() {
    let queue = DelayQueue::new();
    let old = queue.put("old", secs(10)).unwrap();
    let keeper = queue.put("keeper", secs(5)).unwrap();
    assert_eq!(queue.remove(old), Some("old"));
    let new = queue.put("new", secs(10)).unwrap();
    assert_eq!((queue.remove(old), queue.remaining(old)), (None, None));
    assert_eq!(queue.len(), 2);

    // Also when the queue has been empty in between and starts anew.
    assert_eq!((queue.remove(new), queue.remove(keeper)), (Some("new"), Some("keeper")));
    queue.put("newest", secs(10)).unwrap();
    for stale in [old, keeper, new] {
        assert_eq!(queue.remove(stale), None);
    }
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_key_of_another_queue_removes_nothing() {
    let (one, other) = (DelayQueue::new(), DelayQueue::new());
    let due = Instant::now();
    let key = one.put_at("one", due).unwrap();
    other.put_at("other", due).unwrap();
    assert_eq!((other.remove(key), other.remaining(key)), (None, None));
    assert_eq!(one.remove(key), Some("one"));
}

#[test]
fn the_key_of_an_item_that_was_taken_names_nothing() {
    let queue = DelayQueue::new();
    let key = queue.put("item", Duration::ZERO).unwrap();
    assert_eq!(queue.remaining(key), Some(Duration::ZERO));
    assert_eq!(queue.poll(), Some("item"));
    assert_eq!((queue.remove(key), queue.remaining(key)), (None, None));
}

#[test]
fn putting_into_a_closed_queue_gives_the_item_back() {
    let queue = DelayQueue::new();
    assert!(!queue.is_closed());
    assert!(queue.close(), "the first call closes");
    assert!(!queue.close(), "and the second does not");
    assert!(queue.is_closed());
    let error = queue.put(String::from("late"), ms(1)).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    assert_eq!(error.into_item(), "late");
    assert_eq!(queue.put_at(String::from("late"), Instant::now()).unwrap_err().into_item(), "late");
    assert!(queue.is_empty());
}

#[test]
fn a_closed_queue_still_gives_what_is_due_and_hands_back_the_rest_in_order() {
    let clock = TestClock::new();
    let queue = clock.queue();
    queue.put("never", Duration::MAX).unwrap();
    queue.put("later", ms(5)).unwrap();
    queue.put("due", Duration::ZERO).unwrap();
    queue.close();
    assert_eq!(queue.take(), Ok("due"));
    assert_eq!(queue.take(), Err(QueueClosed), "it does not wait for the others");
    assert_eq!(queue.poll_timeout(secs(100)), Err(QueueClosed));
    clock.advance(ms(5));
    assert_eq!(queue.poll(), Some("later"), "they can be taken when they are due");
    queue.close();
    assert_eq!(queue.take_all(), [(None, "never")]);
    assert_eq!(queue.take_all(), []);
}

#[test]
fn everything_can_be_taken_out_at_once_in_order_with_its_deadline() {
    let queue = DelayQueue::new();
    let now = Instant::now();
    for (item, delay) in [("c", 30), ("a", 10), ("b", 20)] {
        queue.put_at(item, now + ms(delay)).unwrap();
    }
    queue.put("d", Duration::MAX).unwrap();
    let deadline = |delay| Some(now + ms(delay));
    let all = queue.take_all();
    assert_eq!(all, [(deadline(10), "a"), (deadline(20), "b"), (deadline(30), "c"), (None, "d")]);
    assert!(queue.is_empty());
}

#[test]
fn closing_wakes_everybody_who_waits() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let clock = TestClock::new();
    let queue = clock.queue();
    queue.put(0, secs(3_600)).unwrap();
    let before = clock.reads.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let mut consumers = Vec::new();
        for _ in 0..3 {
            consumers.push(scope.spawn(|| queue.take().map(Some)));
            consumers.push(scope.spawn(|| queue.poll_timeout(secs(1_000))));
            consumers.push(scope.spawn(|| {
                let next = futures::executor::block_on(queue.next(&scheduler));
                next.map(Some).map_err(|_closed| QueueClosed)
            }));
        }
        // A future that does not lead reads the clock once.
        let reads = 3 * (READS_OF_A_WAITING_TAKE + READS_OF_A_WAITING_POLL + 1);
        eventually("all wait", || clock.reads.load(Ordering::SeqCst) - before >= reads);
        assert!(queue.close());
        for consumer in consumers {
            assert_eq!(consumer.join().unwrap(), Err(QueueClosed));
        }
    });
    assert!(!queue.close(), "only the first call closes");
    assert_eq!(queue.len(), 1);
    assert_eq!(scheduler.pending(), 0, "no timer is left of those who waited");
}

#[test]
fn a_consumer_that_waits_with_a_limit_gives_up_then_and_not_before() {
    let clock = TestClock::new();
    let queue = clock.queue::<u32>();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| queue.poll_timeout(secs(3_000)));
        eventually("the consumer waits", || {
            clock.reads.load(Ordering::SeqCst) >= READS_OF_A_WAITING_POLL
        });
        clock.advance(secs(3_000) - ns(1));
        queue.clock_moved();
        // The look and the time after it. With a nanosecond to go it soon looks again.
        eventually("it has looked", || {
            clock.reads.load(Ordering::SeqCst) >= READS_OF_A_WAITING_POLL + 2
        });
        assert!(!consumer.is_finished());
        clock.advance(ns(1));
        queue.clock_moved();
        assert_eq!(consumer.join().unwrap(), Ok(None));
    });

    let queue = DelayQueue::<u32>::new();
    let start = Instant::now();
    assert_eq!(queue.poll_timeout(ms(5)), Ok(None));
    assert!(start.elapsed() >= ms(5));
    assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(None));
}

#[test]
fn a_consumer_that_waits_with_a_limit_gets_an_item_that_is_due_before_it() {
    let queue = DelayQueue::new();
    queue.put("item", ms(3)).unwrap();
    assert_eq!(queue.poll_timeout(PATIENCE), Ok(Some("item")));
    queue.put("item", ms(3)).unwrap();
    assert_eq!(queue.poll_timeout(Duration::MAX), Ok(Some("item")));
}

#[test]
fn an_earlier_item_is_taken_at_its_time_although_consumers_wait_for_a_later_one() {
    let clock = TestClock::new();
    let queue = clock.queue();
    queue.put("later", secs(3_600)).unwrap();
    let before = clock.reads.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let consumers = [scope.spawn(|| queue.take()), scope.spawn(|| queue.take())];
        eventually("both wait", || {
            clock.reads.load(Ordering::SeqCst) - before >= 2 * READS_OF_A_WAITING_TAKE
        });
        queue.put("at once", Duration::ZERO).unwrap();
        eventually("one is served", || queue.len() == 1);
        queue.put("at once", Duration::ZERO).unwrap();
        for consumer in consumers {
            assert_eq!(consumer.join().unwrap(), Ok("at once"));
        }
    });
}

#[test]
fn a_leader_that_gives_up_is_succeeded_by_another_consumer() {
    let reads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reads);
    let queue = DelayQueue::with_clock(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Instant::now()
    });
    queue.put("item", ms(60)).unwrap();
    reads.store(0, Ordering::SeqCst);
    thread::scope(|scope| {
        let leader = scope.spawn(|| queue.poll_timeout(ms(30)));
        eventually("the first leads", || reads.load(Ordering::SeqCst) >= READS_OF_A_WAITING_POLL);
        let follower = scope.spawn(|| queue.take());
        // On a busy machine the first may get the item after all, when both are due.
        match leader.join().unwrap() {
            Ok(None) => assert_eq!(follower.join().unwrap(), Ok("item")),
            Ok(Some(_)) => {
                queue.close();
                assert_eq!(follower.join().unwrap(), Err(QueueClosed));
            }
            Err(closed) => panic!("{closed}"),
        }
    });
}

#[test]
fn one_consumer_waits_for_the_first_item_and_the_others_sleep() {
    // By this clock the item is always five milliseconds ahead: who waits for it looks every five
    // milliseconds.
    let start = Instant::now();
    let reads: Arc<Mutex<HashMap<ThreadId, usize>>> = Arc::default();
    let count = Arc::clone(&reads);
    let queue = DelayQueue::with_clock(move || {
        *count.lock().unwrap().entry(thread::current().id()).or_default() += 1;
        start
    });
    queue.put("item", ms(5)).unwrap();
    reads.lock().unwrap().clear();
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..4).map(|_| scope.spawn(|| queue.take())).collect();
        eventually("all wait, and one has looked often", || {
            let reads = reads.lock().unwrap();
            reads.len() == 4
                && reads.values().all(|&reads| reads >= READS_OF_A_WAITING_TAKE)
                && reads.values().any(|&reads| reads >= READS_OF_A_WAITING_TAKE + 20)
        });
        let mut reads: Vec<_> = reads.lock().unwrap().values().copied().collect();
        reads.sort_unstable();
        assert_eq!(reads[..3], [READS_OF_A_WAITING_TAKE; 3]);
        queue.close();
        for consumer in consumers {
            assert_eq!(consumer.join().unwrap(), Err(QueueClosed));
        }
    });
}

#[test]
fn consumers_that_wait_are_told_when_the_clock_was_moved() {
    let clock = TestClock::new();
    let queue = clock.queue();
    queue.put("item", secs(3_600)).unwrap();
    let before = clock.reads.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let consumers = [
            scope.spawn(|| queue.poll_timeout(secs(3_000))),
            scope.spawn(|| queue.poll_timeout(secs(4_000))),
        ];
        eventually("both wait", || {
            clock.reads.load(Ordering::SeqCst) - before >= 2 * READS_OF_A_WAITING_POLL
        });
        clock.advance(secs(3_000));
        queue.clock_moved();
        let [first, second] = consumers;
        assert_eq!(first.join().unwrap(), Ok(None));
        clock.advance(secs(600));
        queue.clock_moved();
        assert_eq!(second.join().unwrap(), Ok(Some("item")));
    });
}

#[test]
fn a_clock_that_panics_harms_only_the_call_that_read_it() {
    let broken = Arc::new(AtomicBool::new(false));
    let (is_broken, start) = (Arc::clone(&broken), Instant::now());
    let reads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reads);
    let queue = DelayQueue::with_clock(move || {
        count.fetch_add(1, Ordering::SeqCst);
        assert!(!is_broken.load(Ordering::SeqCst), "expected by this test");
        start
    });
    queue.put("item", secs(1)).unwrap();
    reads.store(0, Ordering::SeqCst);
    thread::scope(|scope| {
        let leader = scope.spawn(|| queue.take());
        eventually("it leads", || reads.load(Ordering::SeqCst) >= READS_OF_A_WAITING_TAKE);
        broken.store(true, Ordering::SeqCst);
        queue.clock_moved();
        assert!(leader.join().is_err());
        broken.store(false, Ordering::SeqCst);
        queue.put_at("due", start).unwrap();
        assert_eq!(scope.spawn(|| queue.take()).join().unwrap(), Ok("due"));
    });
}

#[test]
fn a_future_is_woken_when_the_first_item_is_due() {
    let (time, queue) = on_virtual_time();
    let woken = Arc::new(Woken::default());
    let mut next = pin!(queue.next(&time));
    queue.put("item", secs(10)).unwrap();
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    time.advance(secs(10) - ns(1));
    assert_eq!(woken.times(), 0);
    time.advance(ns(1));
    assert_eq!(woken.times(), 1);
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("item")));
    // It can be used again.
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    queue.put("another", Duration::ZERO).unwrap();
    assert_eq!(woken.times(), 2);
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("another")));
}

#[test]
fn a_future_that_waits_on_an_empty_queue_is_woken_to_wait_for_what_was_put() {
    let (time, queue) = on_virtual_time();
    let woken = Arc::new(Woken::default());
    let mut next = pin!(queue.next(&time));
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    queue.put("never", Duration::MAX).unwrap();
    assert_eq!(woken.times(), 0);
    queue.put("item", secs(10)).unwrap();
    assert_eq!(woken.times(), 1);
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    queue.put("later", secs(11)).unwrap();
    assert_eq!(woken.times(), 1);
    time.advance(secs(10));
    assert_eq!(woken.times(), 2);
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("item")));
}

#[test]
fn a_future_that_is_polled_with_another_waker_wakes_that_one() {
    let (time, queue) = on_virtual_time();
    let (former, present) = (Arc::default(), Arc::default());
    let mut next = pin!(queue.next(&time));
    queue.put("item", secs(1)).unwrap();
    assert_eq!(poll(next.as_mut(), &former), Poll::Pending);
    assert_eq!(poll(next.as_mut(), &present), Poll::Pending);
    time.advance(secs(1));
    assert_eq!((former.times(), present.times()), (0, 1));
    assert_eq!(poll(next.as_mut(), &present), Poll::Ready(Ok("item")));
}

#[test]
fn by_a_clock_that_lags_behind_the_schedulers_a_future_waits_again() {
    let time = virtual_time();
    let clock = TestClock::new();
    let queue = clock.queue();
    let woken = Arc::new(Woken::default());
    let mut next = pin!(queue.next(&time));
    queue.put("item", ms(10)).unwrap();
    for round in 1..=2 {
        assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
        time.advance(ms(10));
        assert_eq!(woken.times(), round);
    }
    clock.advance(ms(10));
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("item")));
}

#[test]
fn one_item_wakes_one_of_many_consumers_the_one_that_waits_longest() {
    let (time, queue) = on_virtual_time();
    for number in 0..5 {
        queue.put(number, secs(1)).unwrap();
    }
    let mut consumers: Vec<_> =
        (0..5).map(|_| (Box::pin(queue.next(&time)), Arc::new(Woken::default()))).collect();
    for (next, woken) in &mut consumers {
        assert_eq!(poll(next.as_mut(), woken), Poll::Pending);
    }
    time.advance(secs(1));
    for number in 0..5 {
        let times: Vec<_> = consumers.iter().map(|(_, woken)| woken.times()).collect();
        let expected: Vec<_> = (0..5).map(|other| usize::from(other <= number)).collect();
        assert_eq!(times, expected, "each passes on to the next when it takes its item");
        let (next, woken) = &mut consumers[number];
        assert_eq!(poll(next.as_mut(), woken), Poll::Ready(Ok(number)));
    }
}

#[test]
fn there_is_one_timer_while_futures_wait_and_none_otherwise() {
    let (time, queue) = on_virtual_time();
    for number in 0..100_u64 {
        queue.put(number, secs(100 - number)).unwrap();
    }
    assert_eq!(time.pending(), 0, "nobody waits");
    let woken = Arc::new(Woken::default());
    {
        let mut consumers =
            [pin!(queue.next(&time)), pin!(queue.next(&time)), pin!(queue.next(&time))];
        for next in &mut consumers {
            assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
        }
        assert_eq!(time.pending(), 1);
        queue.put(1_000, ms(1)).unwrap();
        queue.put(1_001, ms(2)).unwrap();
        assert_eq!(woken.times(), 1, "the leader, for the earlier item");
        assert_eq!(poll(consumers[0].as_mut(), &woken), Poll::Pending);
        assert_eq!(time.pending(), 1);
        time.advance(ms(1));
        assert_eq!(poll(consumers[0].as_mut(), &woken), Poll::Ready(Ok(1_000)));
        assert_eq!((woken.times(), time.pending()), (3, 0), "the next one was woken to lead");
        assert_eq!(poll(consumers[1].as_mut(), &woken), Poll::Pending);
        assert_eq!(time.pending(), 1);
    }
    assert_eq!(time.pending(), 0, "nobody waits any more");
    assert_eq!(queue.len(), 101);
}

#[test]
fn a_future_that_is_dropped_after_it_was_woken_passes_that_on() {
    let (time, queue) = on_virtual_time();
    let (first_woken, second_woken) = (Arc::default(), Arc::default());
    let mut second = pin!(queue.next(&time));
    {
        let mut first = pin!(queue.next(&time));
        queue.put("item", secs(1)).unwrap();
        assert_eq!(poll(first.as_mut(), &first_woken), Poll::Pending);
        assert_eq!(poll(second.as_mut(), &second_woken), Poll::Pending);
        time.advance(secs(1));
        assert_eq!((first_woken.times(), second_woken.times()), (1, 0));
    }
    assert_eq!(second_woken.times(), 1);
    assert_eq!(poll(second.as_mut(), &second_woken), Poll::Ready(Ok("item")));
}

#[test]
fn a_future_that_leads_and_is_dropped_is_succeeded_by_the_next_one() {
    let (time, queue) = on_virtual_time();
    let (first_woken, second_woken) = (Arc::default(), Arc::default());
    let mut second = pin!(queue.next(&time));
    queue.put("item", secs(1)).unwrap();
    {
        let mut first = pin!(queue.next(&time));
        assert_eq!(poll(first.as_mut(), &first_woken), Poll::Pending);
        assert_eq!(poll(second.as_mut(), &second_woken), Poll::Pending);
    }
    assert_eq!((second_woken.times(), time.pending()), (1, 0));
    assert_eq!(poll(second.as_mut(), &second_woken), Poll::Pending);
    time.advance(secs(1));
    assert_eq!((first_woken.times(), second_woken.times()), (0, 2));
    assert_eq!(poll(second.as_mut(), &second_woken), Poll::Ready(Ok("item")));
}

#[test]
fn a_consumer_that_was_woken_in_vain_keeps_its_place_in_the_line() {
    let (time, queue) = on_virtual_time();
    let (first_woken, second_woken) = (Arc::default(), Arc::default());
    let (mut first, mut second) = (pin!(queue.next(&time)), pin!(queue.next(&time)));
    queue.put(1, secs(1)).unwrap();
    assert_eq!(poll(first.as_mut(), &first_woken), Poll::Pending);
    assert_eq!(poll(second.as_mut(), &second_woken), Poll::Pending);
    time.advance(secs(1));
    assert_eq!(queue.poll(), Some(1), "somebody was faster");
    assert_eq!(poll(first.as_mut(), &first_woken), Poll::Pending);
    queue.put(2, Duration::ZERO).unwrap();
    assert_eq!((first_woken.times(), second_woken.times()), (2, 0));
    assert_eq!(poll(first.as_mut(), &first_woken), Poll::Ready(Ok(2)));
}

#[test]
fn when_the_first_item_is_removed_its_leader_waits_for_the_next_one() {
    let (time, queue) = on_virtual_time();
    let woken = Arc::new(Woken::default());
    let mut next = pin!(queue.next(&time));
    let key = queue.put("removed", secs(1)).unwrap();
    queue.put("item", secs(5)).unwrap();
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    queue.remove(key).unwrap();
    time.advance(secs(1));
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    time.advance(secs(4) - ns(1));
    let before = woken.times();
    time.advance(ns(1));
    assert_eq!(woken.times(), before + 1);
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("item")));
}

#[test]
fn a_stream_gives_the_items_as_they_come_due_and_ends_when_the_queue_is_closed() {
    let (time, queue) = on_virtual_time();
    let mut items = queue.stream(&time);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    for number in [3, 1, 2] {
        queue.put(number, secs(number)).unwrap();
    }
    for number in 1..=3 {
        assert_eq!(Pin::new(&mut items).poll_next(&mut context), Poll::Pending);
        time.advance(secs(1));
        assert_eq!(Pin::new(&mut items).poll_next(&mut context), Poll::Ready(Some(Ok(number))));
    }
    assert_eq!(Pin::new(&mut items).poll_next(&mut context), Poll::Pending);
    let before = woken.times();
    queue.put(4, secs(100)).unwrap();
    queue.close();
    assert_eq!(woken.times(), before + 1);
    assert_eq!(Pin::new(&mut items).poll_next(&mut context), Poll::Ready(None));
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_stream_outlives_the_queue_that_it_was_made_of() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let queue = on(&scheduler);
    for number in 0..10_u64 {
        queue.put(number, ms(number % 3)).unwrap();
    }
    let items = queue.stream(&scheduler);
    drop(queue);
    let mut all: Vec<_> = futures::executor::block_on(items.take(10).map(Result::unwrap).collect());
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
    assert_eq!(scheduler.pending(), 0);
}

#[test]
fn when_the_scheduler_is_stopped_futures_that_wait_are_told_and_threads_go_on() {
    let (time, queue) = on_virtual_time();
    queue.put("left", secs(1)).unwrap();
    let (first_woken, second_woken) = (Arc::default(), Arc::default());
    let (mut first, mut second) = (pin!(queue.next(&time)), pin!(queue.next(&time)));
    assert_eq!(poll(first.as_mut(), &first_woken), Poll::Pending);
    assert_eq!(poll(second.as_mut(), &second_woken), Poll::Pending);
    let handed_back = time.stop().wait();
    assert_eq!(handed_back.len(), 1);
    let stopped = || Poll::Ready(Err(NextError::Refused(Refusal::Stopped)));
    assert_eq!((first_woken.times(), second_woken.times()), (1, 0));
    assert_eq!(poll(first.as_mut(), &first_woken), stopped());
    assert_eq!(second_woken.times(), 1, "who leads next is told too");
    assert_eq!(poll(second.as_mut(), &second_woken), stopped());
    drop(handed_back);
    assert_eq!((first_woken.times(), second_woken.times()), (1, 1), "once is enough");
    // What is due needs no timer.
    queue.put("due", Duration::ZERO).unwrap();
    assert_eq!(poll(first.as_mut(), &first_woken), Poll::Ready(Ok("due")));
    assert_eq!(queue.poll(), None);
    assert_eq!(queue.take_all().len(), 1);
}

#[test]
fn a_stream_says_that_its_scheduler_was_stopped_and_ends() {
    let (time, queue) = on_virtual_time();
    let mut items = queue.stream(&time);
    queue.put(1, Duration::ZERO).unwrap();
    queue.put(2, secs(1)).unwrap();
    drop(time.stop());
    let all: Vec<_> = futures::executor::block_on(items.by_ref().collect());
    assert_eq!(all, [Ok(1), Err(Refusal::Stopped)]);
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_future_that_gets_no_timer_says_so_and_loses_nothing() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let queue = on(&time);
    let other = time.schedule_once(secs(100), || ()).unwrap();
    queue.put("item", secs(1)).unwrap();
    let woken = Arc::new(Woken::default());
    let mut next = pin!(queue.next(&time));
    let full = NextError::Refused(Refusal::Full { limit: 1 });
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Err(full)));
    assert_eq!((queue.len(), woken.times()), (1, 0));
    assert!(other.cancel());
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    // Its own place is free for its next timer.
    queue.put("earlier", ms(1)).unwrap();
    assert_eq!(woken.times(), 1);
    assert_eq!(poll(next.as_mut(), &woken), Poll::Pending);
    time.advance(ms(1));
    assert_eq!(poll(next.as_mut(), &woken), Poll::Ready(Ok("earlier")));
}

/// Panics when it wakes.
struct Grumpy;

impl Wake for Grumpy {
    fn wake(self: Arc<Self>) {
        panic!("expected by this test");
    }
}

#[test]
fn a_waker_that_panics_harms_neither_the_producer_nor_the_other_consumers() {
    let (time, queue) = on_virtual_time();
    let grumpy = Waker::from(Arc::new(Grumpy));
    let woken = Arc::new(Woken::default());
    let (mut first, mut second) = (Box::pin(queue.next(&time)), pin!(queue.next(&time)));
    assert_eq!(first.as_mut().poll(&mut Context::from_waker(&grumpy)), Poll::Pending);
    assert_eq!(poll(second.as_mut(), &woken), Poll::Pending);
    let key = queue.put("item", Duration::ZERO).unwrap();
    assert_eq!(queue.remaining(key), Some(Duration::ZERO), "it was accepted");
    drop(first);
    assert_eq!(woken.times(), 1);
    assert_eq!(poll(second.as_mut(), &woken), Poll::Ready(Ok("item")));

    let mut grumpy_again = pin!(queue.next(&time));
    assert_eq!(grumpy_again.as_mut().poll(&mut Context::from_waker(&grumpy)), Poll::Pending);
    assert_eq!(poll(second.as_mut(), &woken), Poll::Pending);
    queue.close();
    assert_eq!(woken.times(), 2, "closing wakes the rest too");
    assert_eq!(time.pending(), 0);
}

/// Calls the queue from inside the wake-up.
struct Busy(DelayQueue<u32>, Notes<usize>);

impl Wake for Busy {
    fn wake(self: Arc<Self>) {
        self.1.add(self.0.len());
        let _ = self.0.put(2, Duration::ZERO);
    }
}

#[test]
fn a_waker_may_call_the_queue() {
    let (time, queue) = on_virtual_time();
    let notes = Notes::new();
    let waker = Waker::from(Arc::new(Busy(queue.clone(), notes.clone())));
    let mut next = Box::pin(queue.next(&time));
    queue.put(1, secs(1)).unwrap();
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    time.advance(secs(1));
    assert_eq!((notes.take(), queue.drain()), (vec![1], vec![1, 2]));
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    queue.close();
    assert_eq!(notes.take(), [0]);
}

#[test]
fn what_a_task_puts_while_time_moves_can_be_taken_within_the_same_movement() {
    let (time, queue) = on_virtual_time();
    let taken = Notes::new();
    let (producer, consumer, notes) = (queue.clone(), queue, taken.clone());
    let put = move || {
        producer.put("item", secs(1)).unwrap();
    };
    let _ = time.schedule_once(secs(1), put).unwrap();
    let take = move || notes.add(consumer.poll());
    let _ = time.schedule_once(secs(2), take).unwrap();
    time.advance(secs(5));
    assert_eq!(taken.take(), [Some("item")]);
}

#[test]
fn an_item_whose_destructor_uses_the_queue_does_not_lock_it_up() {
    struct Returning(Option<DelayQueue<Option<Returning>>>);
    impl Drop for Returning {
        fn drop(&mut self) {
            if let Some(queue) = self.0.take() {
                queue.put(None, secs(1)).unwrap();
            }
        }
    }
    let queue = DelayQueue::new();
    let item = || Some(Returning(Some(queue.clone())));
    let key = queue.put(item(), secs(1)).unwrap();
    drop(queue.remove(key));
    queue.put(item(), Duration::ZERO).unwrap();
    drop(queue.poll());
    queue.put(item(), Duration::ZERO).unwrap();
    drop(queue.drain());
    drop(queue.take_all());
    assert!(queue.is_empty());
}

#[test]
fn with_many_producers_and_consumers_every_item_is_taken_once_and_none_early() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (scheduler, queue) = (&scheduler, &DelayQueue::new());
    let (producers, consumers, each) = (3, 6, scaled(3_000, 30));
    let total = producers * each;
    let taken = Mutex::new(vec![0_u8; total]);
    let removed = AtomicUsize::new(0);
    let left = AtomicUsize::new(total);
    let begin = Barrier::new(producers + consumers);
    thread::scope(|scope| {
        for producer in 0..producers {
            let (begin, removed, left, taken) = (&begin, &removed, &left, &taken);
            scope.spawn(move || {
                let mut random = Xorshift(producer as u64 + 1);
                begin.wait();
                for number in producer * each..(producer + 1) * each {
                    let due = Instant::now() + Duration::from_micros(random.below(3_000));
                    let key = queue.put_at((number, due), due).unwrap();
                    if random.below(5) == 0
                        && let Some((gone, _)) = queue.remove(key)
                    {
                        assert_eq!(gone, number);
                        taken.lock().unwrap()[gone] += 1;
                        removed.fetch_add(1, Ordering::Relaxed);
                        left.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
        for consumer in 0..consumers {
            let (begin, left, taken) = (&begin, &left, &taken);
            scope.spawn(move || {
                begin.wait();
                loop {
                    let item = match consumer % 3 {
                        0 => queue.take().map(Some),
                        1 => queue.poll_timeout(Duration::from_micros(50)),
                        _ => futures::executor::block_on(queue.next(scheduler))
                            .map(Some)
                            .map_err(|_closed| QueueClosed),
                    };
                    match item {
                        Ok(Some((number, due))) => {
                            assert!(Instant::now() >= due, "{number} is early");
                            taken.lock().unwrap()[number] += 1;
                            left.fetch_sub(1, Ordering::SeqCst);
                        }
                        Ok(None) => {}
                        Err(QueueClosed) => break,
                    }
                }
            });
        }
        eventually("all items are taken", || left.load(Ordering::SeqCst) == 0);
        queue.close();
    });
    assert!(taken.lock().unwrap().iter().all(|&times| times == 1));
    assert!(queue.is_empty() && removed.load(Ordering::Relaxed) > 0);
    assert_eq!(scheduler.pending(), 0);
}

#[test]
fn in_a_race_of_put_and_close_every_item_was_taken_is_left_or_came_back() {
    for round in 0..scaled(50, 3) {
        let queue = DelayQueue::new();
        let begin = Barrier::new(4);
        let mut seen = thread::scope(|scope| {
            let producers: Vec<_> = (0..2_u32)
                .map(|producer| {
                    let (queue, begin) = (&queue, &begin);
                    scope.spawn(move || {
                        begin.wait();
                        let put = |number| queue.put(number, ns(u64::from(number) % 7)).err();
                        let refused = (0..100).filter_map(|step| put(producer * 100 + step));
                        refused.map(|error| error.into_item()).collect::<Vec<_>>()
                    })
                })
                .collect();
            let consumer = scope.spawn(|| {
                begin.wait();
                std::iter::from_fn(|| queue.take().ok()).collect::<Vec<_>>()
            });
            begin.wait();
            for _ in 0..round {
                thread::yield_now();
            }
            assert!(queue.close());
            let refused = producers.into_iter().flat_map(|producer| producer.join().unwrap());
            let mut seen: Vec<u32> = refused.collect();
            seen.extend(consumer.join().unwrap());
            seen
        });
        seen.extend(queue.take_all().into_iter().map(|(_, number)| number));
        seen.sort_unstable();
        assert_same(seen, 0..200);
    }
}

#[test]
fn items_may_borrow_where_threads_are_scoped() {
    let words = [String::from("a"), String::from("b")];
    let queue = DelayQueue::<&str>::new();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| (queue.take(), queue.take()));
        for word in &words {
            queue.put_at(word, Instant::now()).unwrap();
        }
        assert_eq!(consumer.join().unwrap(), (Ok("a"), Ok("b")));
    });
}

#[test]
fn async_consumers_on_several_threads_share_the_items() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let queue = DelayQueue::new();
    let count = scaled(2_000, 20);
    let (report, reports) = mpsc::channel();
    let consumers: Vec<_> = (0..3)
        .map(|_| {
            let (queue, report) = (queue.clone(), report.clone());
            let handle = scheduler.handle();
            thread::spawn(move || {
                futures::executor::block_on(async {
                    while let Ok(number) = queue.next(&handle).await {
                        report.send(number).unwrap();
                    }
                });
            })
        })
        .collect();
    let mut random = Xorshift(5);
    for number in 0..count {
        queue.put(number, Duration::from_micros(random.below(2_000))).unwrap();
    }
    let mut all: Vec<usize> = (0..count).map(|_| reports.recv_timeout(PATIENCE).unwrap()).collect();
    queue.close();
    for consumer in consumers {
        consumer.join().unwrap();
    }
    all.sort_unstable();
    assert_same(all, 0..count);
    assert_eq!(scheduler.pending(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scaled(350, 10) as u32 * common::stress(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// See [`sequence`].
    #[test]
    fn any_sequence_of_operations_on_a_queue_goes_as_a_sorted_map_would(
        bytes in prop::collection::vec(any::<u8>(), 1..scaled(600, 60)),
    ) {
        let sequence = Sequence::decode(&bytes);
        sequence::check(&sequence)
            .map_err(|why| TestCaseError::fail(format!("{why}\nin {sequence:#?}")))?;
    }
}

/// What the fuzzer has kept: few bytes that reach much of the code.
#[test]
fn the_sequences_that_the_fuzzer_found_worth_keeping_go_as_a_sorted_map_would() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/delay_queue");
    // (It is not part of the published crate.)
    let Ok(files) = std::fs::read_dir(&corpus) else { return };
    for file in files.map(Result::unwrap).take(scaled(usize::MAX, 5)) {
        let sequence = Sequence::decode(&std::fs::read(file.path()).unwrap());
        if let Err(why) = sequence::check(&sequence) {
            panic!("{}: {why}\nin {sequence:#?}", file.path().display());
        }
    }
}

/// At the price of the order between the two.
#[test]
fn one_that_comes_while_another_was_woken_and_has_not_looked_waits_for_the_item_in_its_place() {
    for looks in [false, true] {
        let time = virtual_time();
        let (handle, clock) = (time.handle(), time.handle());
        let queue = DelayQueue::with_clock(move || clock.now());
        let wakers = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let woken = || wakers.each_ref().map(|woken| woken.0.load(Ordering::SeqCst));
        let (mut first, mut second) = (pin!(queue.next(&handle)), pin!(queue.next(&handle)));
        assert!(poll(first.as_mut(), &wakers[0]).is_pending());
        queue.put("item", ms(10)).unwrap();
        assert_eq!(woken(), [1, 0]);
        assert!(poll(second.as_mut(), &wakers[1]).is_pending());
        if looks {
            assert!(poll(first.as_mut(), &wakers[0]).is_pending());
        }
        assert_eq!(time.pending(), 1, "one timer for the two of them");
        time.advance(ms(10));
        assert_eq!(woken(), [1, 1]);
        assert_eq!(poll(second.as_mut(), &wakers[1]), Poll::Ready(Ok("item")));
        queue.put("another", ms(10)).unwrap();
        assert_eq!(woken(), [1 + usize::from(looks), 1], "who waits is next");
    }
}

#[test]
fn a_clock_that_panics_in_the_poll_of_the_leader_does_not_hold_up_the_others() {
    let time = virtual_time();
    let (handle, clock) = (time.handle(), time.handle());
    let throws = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&throws);
    let queue = DelayQueue::with_clock(move || {
        assert!(!flag.swap(false, Ordering::SeqCst), "expected by this test");
        clock.now()
    });
    queue.put("item", ms(10)).unwrap();
    let wakers = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let (mut first, mut second) = (queue.next(&handle), queue.next(&handle));
    let one = Waker::from(Arc::clone(&wakers[0]));
    let two = Waker::from(Arc::clone(&wakers[1]));
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&one)).is_pending());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&two)).is_pending());
    throws.store(true, Ordering::SeqCst);
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Pin::new(&mut first).poll(&mut Context::from_waker(&one)).is_pending()
    }));
    assert!(polled.is_err());
    time.advance(secs(60));
    let woken: usize = wakers.iter().map(|woken| woken.0.load(Ordering::SeqCst)).sum();
    assert!(woken > 0, "an item has been due for a minute, and nobody of two has been told");
}

#[test]
fn an_item_that_is_reset_comes_at_its_new_deadline_and_its_old_key_names_nothing() {
    let time = virtual_time();
    let queue_of = |clock: Handle| DelayQueue::with_clock(move || clock.now());
    let queue = queue_of(time.handle());
    let moved = queue.put('a', ms(10)).unwrap();
    queue.put('b', ms(20)).unwrap();
    let behind = queue.reset(moved, ms(20)).unwrap();
    assert_eq!((queue.reset(moved, ms(1)), queue.remove(moved)), (None, None));
    assert_eq!(queue.remaining(behind), Some(ms(20)));
    time.advance(ms(20));
    assert_eq!(queue.drain(), ['b', 'a'], "the last of equal ones");
    assert_eq!(queue.reset(behind, ms(1)), None);

    let never = queue.put('c', Duration::MAX).unwrap();
    let other: DelayQueue<char> = queue_of(time.handle());
    assert_eq!(other.reset(never, ms(1)), None, "a key of another queue");
    let now = queue.reset_at(never, time.now()).unwrap();
    queue.close();
    let later = queue.reset(now, ms(5)).unwrap();
    assert_eq!(queue.poll(), None);
    let _ = queue.reset(later, Duration::ZERO).unwrap();
    assert_eq!(queue.poll(), Some('c'));
}

#[test]
fn a_consumer_that_waits_for_an_item_gets_it_when_that_is_moved_nearer() {
    let queue = DelayQueue::new();
    let key = queue.put('a', secs(3600)).unwrap();
    let consumer = {
        let queue = queue.clone();
        thread::spawn(move || queue.take())
    };
    thread::sleep(ms(5)); // so that it may wait; if not, it finds the item due
    assert!(queue.reset(key, ms(1)).is_some());
    assert_eq!(consumer.join().unwrap(), Ok('a'));
}
