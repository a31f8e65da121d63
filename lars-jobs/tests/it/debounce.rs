//! Debounce and throttle: which values run, when, and what becomes of the others.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{ByHand, eventually, ms, ns, scaled, virtual_time};
use lars_jobs::debounce::{Debounce, DebounceBuilder, DebounceError, Throttle, ThrottleBuilder};
use lars_scheduler::executor::Runnable;
use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler, Refusal, VirtualTime};

/// When each value ran, in milliseconds of virtual time.
type Runs = Arc<Mutex<Vec<(u64, u32)>>>;

fn recorder(time: &VirtualTime) -> (Runs, impl FnMut(u32) + Send + 'static) {
    let runs = Runs::default();
    let (record, timers) = (Arc::clone(&runs), time.handle());
    let begin = timers.now();
    let action = move |value| {
        let at = (timers.now() - begin).as_millis() as u64;
        record.lock().unwrap().push((at, value));
    };
    (runs, action)
}

/// Calls at these times, in milliseconds, with the times as values; then waits.
fn play(time: &VirtualTime, calls: &[u64], mut call: impl FnMut(u32)) {
    let mut now = 0;
    for &at in calls {
        time.advance(ms(at - now));
        now = at;
        call(at as u32);
    }
    time.advance(ms(10_000));
}

fn debounced(
    calls: &[u64],
    options: impl Fn(DebounceBuilder) -> DebounceBuilder,
) -> Vec<(u64, u32)> {
    let time = virtual_time();
    let (runs, action) = recorder(&time);
    let debounce = options(Debounce::builder(&time, ms(100))).build(action).unwrap();
    play(&time, calls, |value| debounce.call(value).unwrap());
    assert!(!debounce.is_pending());
    drop(debounce);
    assert_eq!(time.metrics().pending, 0);
    Arc::try_unwrap(runs).unwrap().into_inner().unwrap()
}

fn throttled(
    calls: &[u64],
    options: impl Fn(ThrottleBuilder) -> ThrottleBuilder,
) -> Vec<(u64, u32)> {
    let time = virtual_time();
    let (runs, action) = recorder(&time);
    let throttle = options(Throttle::builder(&time, ms(100))).build(action).unwrap();
    play(&time, calls, |value| throttle.call(value).unwrap());
    drop(throttle);
    assert_eq!(time.metrics().pending, 0);
    Arc::try_unwrap(runs).unwrap().into_inner().unwrap()
}

#[test]
fn a_debounce_runs_the_last_value_when_the_calls_have_paused() {
    assert_eq!(debounced(&[0, 50, 149, 300], |d| d), [(249, 149), (400, 300)]);
    assert_eq!(debounced(&[0], |d| d), [(100, 0)]);
}

#[test]
fn with_both_edges_the_first_value_runs_at_once_and_the_last_if_there_is_another() {
    let both = |d: DebounceBuilder| d.leading(true);
    assert_eq!(debounced(&[0, 50, 90, 500], both), [(0, 0), (190, 90), (500, 500)]);
}

#[test]
fn with_the_leading_edge_alone_later_values_are_dropped_until_the_calls_pause() {
    let leading = |d: DebounceBuilder| d.leading(true).trailing(false);
    assert_eq!(debounced(&[0, 50, 149, 248, 348], leading), [(0, 0), (348, 348)]);
}

#[test]
fn no_value_waits_longer_than_the_max_wait_although_the_calls_never_pause() {
    let every_40: Vec<u64> = (0..15).map(|n| n * 40).collect(); // 0 to 560
    let max = |d: DebounceBuilder| d.max_wait(ms(250));
    // From the first that waits: 0, 280, 560.
    assert_eq!(debounced(&every_40, max), [(250, 240), (530, 520), (660, 560)]);
    let both = |d: DebounceBuilder| d.max_wait(ms(250)).leading(true);
    assert_eq!(debounced(&every_40, both), [(0, 0), (290, 280), (570, 560)]);
    let leading = |d: DebounceBuilder| d.max_wait(ms(250)).leading(true).trailing(false);
    assert_eq!(debounced(&every_40, leading), [(0, 0), (280, 280), (560, 560)]);
}

#[test]
fn a_throttle_runs_on_both_edges_and_at_most_once_per_interval() {
    assert_eq!(
        throttled(&[0, 10, 20, 130, 500], |t| t),
        [(0, 0), (100, 20), (200, 130), (500, 500)]
    );
    // (After the trailing edge at 100, lodash would run 160 at once.)
    assert_eq!(throttled(&[0, 50, 160], |t| t), [(0, 0), (100, 50), (200, 160)]);
    assert_eq!(throttled(&[0], |t| t), [(0, 0)]);
}

#[test]
fn a_throttle_with_one_edge_runs_the_first_or_the_last_value_of_each_window() {
    let first = |t: ThrottleBuilder| t.trailing(false);
    assert_eq!(throttled(&[0, 10, 99, 100, 150, 350], first), [(0, 0), (100, 100), (350, 350)]);
    let last = |t: ThrottleBuilder| t.leading(false);
    assert_eq!(throttled(&[0, 10, 99, 130, 350], last), [(100, 99), (200, 130), (450, 350)]);
}

#[test]
fn nothing_runs_early_by_a_nanosecond() {
    let time = virtual_time();
    let (sender, ran) = mpsc::channel();
    let debounce = Debounce::new(&time, ms(100), move |value| sender.send(value).unwrap()).unwrap();
    debounce.call(1).unwrap();
    time.advance(ms(100) - ns(1));
    debounce.call(2).unwrap();
    time.advance(ms(100) - ns(1));
    assert!(ran.try_recv().is_err());
    time.advance(ns(1));
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_thousand_calls_cost_one_timer() {
    let time = virtual_time();
    let debounce = Debounce::new(&time, ms(100), |_: u32| ()).unwrap();
    for value in 0..1_000 {
        debounce.call(value).unwrap();
        time.advance(ms(1));
    }
    assert_eq!((time.metrics().scheduled, time.pending()), (1, 1));
}

#[test]
fn flush_runs_what_waits_at_once_and_cancel_takes_it_back() {
    let time = virtual_time();
    let (runs, action) = recorder(&time);
    let debounce = Debounce::builder(&time, ms(100)).build(action).unwrap();
    assert!(!debounce.flush().unwrap());
    assert_eq!(debounce.cancel(), None);
    debounce.call(1).unwrap();
    time.advance(ms(10));
    assert!(debounce.is_pending() && debounce.flush().unwrap());
    time.advance(ms(5));
    debounce.call(2).unwrap();
    assert_eq!(debounce.cancel(), Some(2));
    assert!(!debounce.is_pending());
    debounce.call(3).unwrap();
    time.advance(ms(1_000));
    assert_eq!(*runs.lock().unwrap(), [(10, 1), (115, 3)]);
}

#[test]
fn a_call_behind_a_flush_supersedes_the_value_and_does_not_put_it_off() {
    let time = virtual_time();
    let (runs, action) = recorder(&time);
    let debounce = Debounce::builder(&time, ms(100)).build(action).unwrap();
    debounce.call(1).unwrap();
    debounce.flush().unwrap();
    debounce.call(2).unwrap();
    time.advance(ms(1_000));
    assert_eq!(*runs.lock().unwrap(), [(0, 2)]);
}

/// Virtual time whose tasks wait for the test.
fn by_hand() -> (VirtualTime, ByHand) {
    let hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(hand.clone());
    (builder.build_virtual().unwrap(), hand)
}

#[test]
fn calls_that_come_faster_than_tasks_get_to_a_thread_put_nothing_off() {
    for flushes in [false, true] {
        let (time, hand) = by_hand();
        let (runs, action) = recorder(&time);
        let debounce = Debounce::builder(&time, ms(100)).max_wait(ms(100)).build(action).unwrap();
        debounce.call(0).unwrap();
        if flushes {
            debounce.flush().unwrap();
            time.advance(ms(0));
        } else {
            time.advance(ms(100));
        }
        // The task is on its way. It is not early for these values.
        for value in 1..=50 {
            debounce.call(value).unwrap();
            time.advance(ms(1));
        }
        assert_eq!((hand.waiting(), time.pending()), (1, 0));
        assert!(debounce.is_pending() && hand.run_next() && !debounce.is_pending());
        let at = if flushes { 50 } else { 150 };
        assert_eq!(*runs.lock().unwrap(), [(at, 50)]);
    }
}

#[test]
fn a_task_that_is_on_its_way_is_early_for_a_new_value_before_the_max_wait() {
    let (time, hand) = by_hand();
    let (runs, action) = recorder(&time);
    let debounce = Debounce::builder(&time, ms(100)).max_wait(ms(150)).build(action).unwrap();
    debounce.call(1).unwrap();
    time.advance(ms(100));
    debounce.call(2).unwrap();
    assert!(hand.run_next() && runs.lock().unwrap().is_empty());
    time.advance(ms(50));
    debounce.call(3).unwrap();
    assert!(hand.run_next() && !hand.run_next());
    assert_eq!(*runs.lock().unwrap(), [(150, 3)]);
}

#[test]
fn a_leading_value_that_gets_to_a_thread_late_does_not_run_after_a_newer_one() {
    let (time, hand) = by_hand();
    let (runs, mut action) = recorder(&time);
    let meanwhile: Arc<Mutex<Vec<Runnable>>> = Arc::default();
    let inside = Arc::clone(&meanwhile);
    let action = move |value| {
        action(value);
        let tasks = std::mem::take(&mut *inside.lock().unwrap());
        tasks.into_iter().for_each(Runnable::run);
    };
    let throttle = Throttle::new(&time, ms(100), action).unwrap();
    // The task of a leading value, and that of the newer one that waited for the trailing edge.
    let both = |leading: u32| {
        throttle.call(leading).unwrap();
        time.advance(ms(0));
        throttle.call(leading + 1).unwrap();
        time.advance(ms(100));
        (hand.take_next().unwrap(), hand.take_next().unwrap())
    };
    let (leading, trailing) = both(1);
    trailing.run();
    leading.run();
    assert_eq!(*runs.lock().unwrap(), [(100, 2)]);

    // While the action runs.
    time.advance(ms(100));
    throttle.call(3).unwrap();
    time.advance(ms(100));
    let slow = hand.take_next().unwrap();
    let (leading, trailing) = both(4);
    meanwhile.lock().unwrap().extend([trailing, leading]);
    slow.run();
    assert_eq!(*runs.lock().unwrap(), [(100, 2), (400, 3), (400, 5)]);
}

#[test]
fn an_action_that_panics_is_reported_and_the_next_value_runs() {
    let time = virtual_time();
    let (sender, ran) = mpsc::channel();
    let action = move |value: u32| {
        assert!(value != 1, "expected by this test");
        sender.send(value).unwrap();
    };
    let throttle = Throttle::new(&time, ms(100), action).unwrap();
    throttle.call(1).unwrap();
    throttle.call(2).unwrap();
    time.advance(ms(1_000));
    assert_eq!(time.metrics().panicked, 1);
    assert_eq!(ran.try_recv().unwrap(), 2);
}

#[test]
fn dropping_the_last_clone_loses_nothing_and_frees_the_action_after_the_last_run() {
    let time = virtual_time();
    let (sender, ran) = mpsc::channel();
    let debounce = Debounce::new(&time, ms(100), move |value| sender.send(value).unwrap()).unwrap();
    debounce.clone().call(7).unwrap();
    drop(debounce);
    time.advance(ms(100));
    assert_eq!(ran.recv().unwrap(), 7);
    assert!(ran.recv().is_err()); // its sender is gone
}

#[test]
fn a_full_scheduler_refuses_a_first_value_and_loses_none_that_was_accepted() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let (runs, action) = recorder(&time);
    let debounce = Debounce::builder(&time, ms(100)).build(action).unwrap();
    let other = time.schedule_once(ms(50), || ()).unwrap();
    let refused = debounce.call(1).unwrap_err();
    assert_eq!(refused.refusal(), &Refusal::Full { limit: 1 });
    assert_eq!(refused.into_task(), 1);
    assert!(other.cancel());
    debounce.call(2).unwrap();
    assert!(time.schedule_once(ms(50), || ()).is_err()); // full again
    time.advance(ms(60));
    debounce.call(3).unwrap(); // has its place
    time.advance(ms(100));
    assert_eq!(*runs.lock().unwrap(), [(160, 3)]);
    let throttle = Throttle::builder(&time, ms(100)).build(|_: u32| ()).unwrap();
    let _other = time.schedule_once(ms(50), || ()).unwrap();
    assert_eq!(throttle.call(4).unwrap_err().into_task(), 4);
}

fn waiting(
    builder: lars_scheduler::Builder,
    marked: bool,
) -> (VirtualTime, Debounce<u32>, Receiver<u32>) {
    let time = builder.build_virtual().unwrap();
    let (sender, ran) = mpsc::channel();
    let options = Debounce::builder(&time, ms(100)).named("save");
    let options = if marked { options.run_on_close() } else { options };
    let debounce = options.build(move |value| sender.send(value).unwrap()).unwrap();
    debounce.call(1).unwrap();
    debounce.call(2).unwrap();
    (time, debounce, ran)
}

#[test]
fn close_runs_what_waits_by_its_policy() {
    let builder = || LightArrayRevolverScheduler::builder();
    for (policy, marked, runs) in [
        (ClosePolicy::RunPending, false, true),
        (ClosePolicy::RunMarked, true, true),
        (ClosePolicy::RunMarked, false, false),
    ] {
        let (time, debounce, ran) = waiting(builder().close_policy(policy), marked);
        time.close().unwrap();
        assert_eq!(ran.try_recv().ok(), runs.then_some(2), "{policy:?}");
        assert!(!debounce.is_pending());
        let refused = debounce.call(3).unwrap_err();
        assert_eq!((refused.refusal(), ran.try_recv().ok()), (&Refusal::Stopped, None));
        assert_eq!(refused.into_task(), 3);
    }
}

#[test]
fn what_waits_is_handed_back_by_stop_and_calls_are_refused_from_then_on() {
    let (time, debounce, ran) = waiting(LightArrayRevolverScheduler::builder(), false);
    let mut list = time.stop().wait();
    assert_eq!(list.len(), 1);
    assert_eq!(debounce.call(3).unwrap_err().into_task(), 3);
    assert_eq!(debounce.flush().unwrap_err(), Refusal::Stopped);
    assert!(ran.try_recv().is_err());
    list.remove(0).run();
    assert_eq!(ran.try_recv().unwrap(), 2);

    let (time, debounce, ran) = waiting(LightArrayRevolverScheduler::builder(), false);
    drop(time.stop().wait());
    assert!(!debounce.is_pending());
    assert!(ran.try_recv().is_err());

    let throttle_time = virtual_time();
    let throttle =
        Throttle::builder(&throttle_time, ms(100)).leading(false).build(|_: u32| ()).unwrap();
    throttle.call(1).unwrap();
    let list = throttle_time.stop().wait();
    assert_eq!(throttle.call(2).unwrap_err().into_task(), 2);
    drop(list);
}

#[test]
fn runs_never_overlap_and_a_slow_action_gets_the_newest_value() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(4)).build().unwrap();
    let (running, values) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, record) = (Arc::clone(&running), Arc::clone(&values));
    let action = move |value: usize| {
        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "two runs at once");
        thread::sleep(ms(2));
        record.lock().unwrap().push(value);
        count.fetch_sub(1, Ordering::SeqCst);
    };
    let throttle = Throttle::new(&scheduler, Duration::from_micros(100), action).unwrap();
    let last = scaled(2_000, 50);
    for value in 0..=last {
        throttle.call(value).unwrap();
        thread::sleep(Duration::from_micros(20));
    }
    eventually("the last value runs", || values.lock().unwrap().last() == Some(&last));
    assert_eq!(scheduler.metrics().panicked, 0);
    let values = values.lock().unwrap();
    // (A value gives way to the next one also before its run has begun, the first included.)
    assert!(values.is_sorted(), "{:?}", values.windows(2).find(|pair| !pair.is_sorted()));
}

#[test]
fn calls_from_many_threads_end_with_the_last_value_of_one_of_them() {
    let scheduler = LightArrayRevolverScheduler::builder().build().unwrap();
    let (sender, ran) = mpsc::channel();
    let debounce =
        Debounce::new(&scheduler, ms(20), move |value: usize| sender.send(value).unwrap()).unwrap();
    let calls = scaled(2_000, 20);
    thread::scope(|scope| {
        for thread in 0..4 {
            let debounce = debounce.clone();
            scope.spawn(move || {
                for call in 0..calls {
                    debounce.call(thread * calls + call).unwrap();
                }
            });
        }
    });
    eventually("nothing waits", || !debounce.is_pending());
    drop(debounce); // and the sender goes with the action
    let last = ran.iter().last().unwrap();
    assert_eq!((last + 1) % calls, 0, "{last} is the last value of no thread");
}

#[test]
fn the_action_may_call_its_own_throttle() {
    let time = virtual_time();
    let slot: Arc<Mutex<Option<Throttle<u32>>>> = Arc::default();
    let (own, (runs, mut action)) = (Arc::clone(&slot), recorder(&time));
    let again = move |value| {
        action(value);
        if value < 3 {
            own.lock().unwrap().as_ref().unwrap().call(value + 1).unwrap();
        }
    };
    *slot.lock().unwrap() = Some(Throttle::new(&time, ms(100), again).unwrap());
    slot.lock().unwrap().as_ref().unwrap().call(0).unwrap();
    time.advance(ms(1_000));
    assert_eq!(*runs.lock().unwrap(), [(0, 0), (100, 1), (200, 2), (300, 3)]);
    slot.lock().unwrap().take();
}

#[test]
fn a_late_run_at_the_trailing_edge_of_a_throttle_puts_off_the_next_by_an_interval() {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    let time = builder.build_virtual().unwrap();
    let (runs, action) = recorder(&time);
    let throttle = Throttle::builder(&time, ms(100)).leading(false).build(action).unwrap();
    throttle.call(1).unwrap();
    time.advance(ms(650)); // it was due at 100
    assert!(by_hand.run_next());
    throttle.call(2).unwrap();
    time.advance(ms(99));
    assert!(!by_hand.run_next());
    time.advance(ms(1));
    assert!(by_hand.run_next());
    assert_eq!(*runs.lock().unwrap(), [(650, 1), (750, 2)]);
}

#[test]
fn waits_beyond_the_clock_are_accepted_and_options_out_of_their_range_refused() {
    let time = virtual_time();
    let debounce = Debounce::new(&time, Duration::MAX, |_: ()| ()).unwrap();
    debounce.call(()).unwrap();
    debounce.call(()).unwrap();
    time.advance(ms(1_000));
    assert!(debounce.is_pending());

    let text = |error: DebounceError| error.to_string();
    let none = |_: ()| ();
    let built = Debounce::new(&time, Duration::ZERO, none);
    assert_eq!(text(built.unwrap_err()), "the wait is 0ns, but it must be at least 1ns");
    let built = Throttle::new(&time, Duration::ZERO, none);
    assert_eq!(text(built.unwrap_err()), "the interval is 0ns, but it must be at least 1ns");
    let built = Debounce::builder(&time, ms(10)).max_wait(ms(9)).build(none);
    assert_eq!(text(built.unwrap_err()), "max_wait is 9ms, but it must be at least the wait, 10ms");
    let built = Throttle::builder(&time, ms(10)).leading(false).trailing(false).build(none);
    assert!(matches!(built, Err(DebounceError::NoEdge)));
}
