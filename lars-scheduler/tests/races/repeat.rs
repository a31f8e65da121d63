//! Repeats: when each run is due, what ends a series, and that there is only one chain of runs.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Captive, Notes, PATIENCE, eventually, ms, ns, scaled, secs, settle, ticked,
    virtual_time,
};
use lars_scheduler::{
    Cancellable, Handle, LightArrayRevolverScheduler, MissedTickBehavior, Periodic, Refusal,
    Repeat, VirtualTime,
};

/// A slot into which the test puts a cancellable for a task that needs its own.
#[derive(Clone, Default)]
struct Own(Arc<Mutex<Option<Cancellable>>>);

impl Own {
    fn put(&self, own: Cancellable) {
        *self.0.lock().unwrap() = Some(own);
    }
    fn cancel(&self) -> bool {
        self.0.lock().unwrap().as_ref().expect("put before the first run").cancel()
    }
}

/// Notes the elapsed time at each run, in milliseconds.
fn clock_note(time: &VirtualTime, notes: &Notes<u128>) -> impl FnMut() + Send + 'static {
    let (clock, start, notes) = (time.handle(), time.now() - time.elapsed(), notes.clone());
    move || notes.add((clock.now() - start).as_millis())
}

/// Time with an executor by hand, and a task that takes as long as it is told, run by run.
fn slow_runs<const N: usize>(
    kind: impl FnOnce(&Handle, Box<dyn FnMut() + Send>) -> Cancellable,
    lengths: [u64; N],
) -> (Arc<VirtualTime>, ByHand, Notes<u128>, Cancellable) {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    let time = Arc::new(builder.build_virtual().unwrap());
    let notes = Notes::new();
    let mut note = clock_note(&time, &notes);
    let mut lengths = lengths.into_iter();
    let clock = Arc::downgrade(&time);
    let task = Box::new(move || {
        note();
        // The test runs this, outside of any movement of time.
        clock.upgrade().unwrap().advance(ms(lengths.next().unwrap_or(0)));
    });
    let series = kind(&time, task);
    (time, by_hand, notes, series)
}

/// Moves time by one millisecond at a time, and runs what came due.
fn run_for(time: &VirtualTime, by_hand: &ByHand, until: u64) {
    loop {
        time.advance(Duration::ZERO);
        if by_hand.run_next() {
            continue;
        }
        if time.elapsed() >= ms(until) {
            return;
        }
        time.advance(ms(1));
    }
}

#[test]
fn with_a_fixed_delay_the_next_run_is_due_that_long_after_the_end_of_the_last() {
    let (time, by_hand, starts, _series) = slow_runs(
        |timers, task| timers.schedule_with_fixed_delay(ms(125), ms(125), task).unwrap(),
        [100; 12],
    );
    run_for(&time, &by_hand, 2_600);
    assert_eq!(starts.take(), (0..12).map(|n| 125 + n * 225).collect::<Vec<_>>());
}

#[test]
fn a_fixed_rate_is_kept_although_the_runs_take_time() {
    let (time, by_hand, starts, _series) = slow_runs(
        |timers, task| timers.schedule_at_fixed_rate(ms(225), ms(225), task).unwrap(),
        [100; 22],
    );
    run_for(&time, &by_hand, 22 * 225);
    assert_eq!(starts.take(), (1..=22).map(|n| n * 225).collect::<Vec<_>>());
}

#[test]
fn on_a_scheduler_that_is_full_and_stopped_a_repeat_is_refused_as_stopped_like_everything() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let _ = time.schedule_with_fixed_delay(ms(1), ms(1), || ()).unwrap();
    let refused = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::Full { limit: 1 });
    let pending = time.stop().wait(); // which keep their places
    let refused = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::Stopped);
    assert_eq!((pending.len(), time.metrics().refused), (1, 2));
}

#[test]
fn the_nth_run_of_a_fixed_rate_is_due_at_first_plus_n_intervals_without_drift() {
    let runs = scaled(20_000, 200) as u128;
    // An interval that is no multiple of the tick: rounding errors would add up.
    let (tick, interval) = (1_000_000_u128, 1_300_007_u128);
    let time = ticked(ns(tick as u64), 512);
    let notes = Notes::new();
    let (clock, start, note) = (time.handle(), time.now(), notes.clone());
    let _ = time
        .schedule_at_fixed_rate(ns(interval as u64), ns(interval as u64), move || {
            note.add((clock.now() - start).as_nanos());
        })
        .unwrap();
    time.advance(ns((runs * interval).next_multiple_of(tick) as u64));
    let starts = notes.take();
    for (number, start) in (1..).zip(&starts) {
        assert_eq!(*start, (number * interval).next_multiple_of(tick), "run {number}");
    }
    assert_eq!(starts.len() as u128, runs);
}

/// Akka's fixed rate may run up to a tick before its time.
#[test]
fn no_run_of_a_fixed_rate_is_early_in_real_time() {
    let runs = scaled(200, 5);
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let interval = Duration::from_micros(2_300);
    let begin = Instant::now();
    let series = scheduler
        .schedule_at_fixed_rate(interval, interval, move || {
            let _ = sender.send(Instant::now());
        })
        .unwrap();
    for number in 1..=runs as u32 {
        let start = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(start >= begin + interval * number, "run {number}");
    }
    assert!(series.cancel());
}

#[test]
fn runs_of_a_fixed_delay_are_at_least_that_delay_apart_in_real_time() {
    let runs = scaled(50, 3);
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let delay = Duration::from_micros(2_300);
    let series = scheduler
        .schedule_with_fixed_delay(Duration::ZERO, delay, move || {
            let start = Instant::now();
            thread::sleep(ms(1));
            let _ = sender.send((start, Instant::now()));
        })
        .unwrap();
    let (_, mut last_end) = receiver.recv_timeout(PATIENCE).unwrap();
    for _ in 0..runs {
        let (start, end) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(start >= last_end + delay);
        last_end = end;
    }
    assert!(series.cancel());
}

#[test]
fn runs_come_at_the_initial_delay_and_then_at_the_period() {
    let time = virtual_time();
    for (initial, period, until, expected) in [
        (0, 5_000, 12_000, vec![0, 5_000, 10_000]),
        (5_000, 5_000, 12_000, vec![5_000, 10_000]),
        (1_000, 300, 1_750, vec![1_000, 1_300, 1_600]),
        (90, 500, 289, vec![90]),
    ] {
        for rate in [false, true] {
            let time = ticked(ms(1), 32);
            let notes = Notes::new();
            let note = clock_note(&time, &notes);
            let series = match rate {
                true => time.schedule_at_fixed_rate(ms(initial), ms(period), note),
                false => time.schedule_with_fixed_delay(ms(initial), ms(period), note),
            };
            time.advance(ms(until));
            assert_eq!(notes.take(), expected, "{initial} and {period}, rate: {rate}");
            assert!(series.unwrap().cancel());
            assert_eq!(time.advance(secs(3_600)), 0);
        }
    }
    assert_eq!(time.elapsed(), Duration::ZERO);
}

#[test]
fn a_series_cancelled_before_its_first_run_never_runs() {
    let time = virtual_time();
    let notes = Notes::new();
    let (delay, rate) = (notes.clone(), notes.clone());
    let captive = Captive::new(&notes, "dropped");
    let delay = time
        .schedule_with_fixed_delay(ms(200), ms(10), move || {
            let _ = &captive;
            delay.add("ran");
        })
        .unwrap();
    let rate = time.schedule_at_fixed_rate(ms(200), ms(10), move || rate.add("ran")).unwrap();
    time.advance(ms(10));
    assert!(delay.is_pending() && delay.cancel());
    assert_eq!(notes.take(), ["dropped"], "at once");
    assert!(rate.cancel());
    for series in [&delay, &rate] {
        assert!(series.is_cancelled() && !series.is_pending());
        assert!(!series.cancel());
    }
    assert_eq!(time.advance(ms(300)), 0);
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_series_cancelled_between_two_runs_runs_no_more() {
    for rate in [false, true] {
        let time = virtual_time();
        let notes = Notes::new();
        let note = clock_note(&time, &notes);
        let series = match rate {
            true => time.schedule_at_fixed_rate(ms(90), ms(500), note).unwrap(),
            false => time.schedule_with_fixed_delay(ms(90), ms(500), note).unwrap(),
        };
        time.advance(ms(290));
        assert!(series.cancel());
        assert_eq!(time.advance(ms(600)), 0);
        assert_eq!(notes.take(), [90]);
    }
}

#[test]
fn one_of_several_series_is_cancelled_and_the_others_go_on() {
    let time = virtual_time();
    let notes = Notes::new();
    let series: Vec<_> = (0..3)
        .map(|number| {
            let note = notes.clone();
            time.schedule_at_fixed_rate(secs(5), secs(5), move || note.add(number)).unwrap()
        })
        .collect();
    time.advance(secs(7));
    assert!(series[1].cancel());
    time.advance(secs(4));
    assert_eq!(notes.take(), [0, 1, 2, 0, 2]);
}

#[test]
fn in_a_burst_every_missed_run_happens_at_once_and_then_the_rate_goes_on() {
    let (time, by_hand, starts, _series) = slow_runs(
        |timers, task| timers.schedule_at_fixed_rate(ms(0), ms(100), task).unwrap(),
        [250],
    );
    run_for(&time, &by_hand, 500);
    assert_eq!(starts.take(), [0, 250, 250, 300, 400, 500]);
}

#[test]
fn skipped_runs_are_left_out_and_the_rate_keeps_its_multiples() {
    let (time, by_hand, starts, _series) = slow_runs(
        |timers, task| {
            let task = Periodic::new(task).missed_ticks(MissedTickBehavior::Skip);
            timers.schedule_at_fixed_rate(ms(0), ms(100), task).unwrap()
        },
        // The last one ends at the very instant at which the next is due.
        [250, 0, 100],
    );
    run_for(&time, &by_hand, 600);
    assert_eq!(starts.take(), [0, 300, 400, 500, 600]);
}

#[test]
fn delayed_runs_start_the_schedule_anew() {
    let (time, by_hand, starts, _series) = slow_runs(
        |timers, task| {
            let task = Periodic::new(task).missed_ticks(MissedTickBehavior::Delay);
            timers.schedule_at_fixed_rate(ms(0), ms(100), task).unwrap()
        },
        [250],
    );
    run_for(&time, &by_hand, 500);
    assert_eq!(starts.take(), [0, 250, 350, 450]);
}

/// One run of 500 ms at a rate of 50 ms makes `ScheduledThreadPoolExecutor` run ten times more
/// within a millisecond; the same storm follows a machine's sleep in Akka.
#[test]
fn a_run_ten_intervals_long_is_followed_by_no_storm_unless_that_was_asked_for() {
    for (missed, at_once) in [
        (MissedTickBehavior::Skip, 0),
        (MissedTickBehavior::Delay, 1), // the late one
        (MissedTickBehavior::Burst, 10),
    ] {
        let (time, by_hand, starts, _series) = slow_runs(
            |timers, task| {
                let task = Periodic::new(task).missed_ticks(missed);
                timers.schedule_at_fixed_rate(ms(50), ms(50), task).unwrap()
            },
            [510],
        );
        run_for(&time, &by_hand, 599);
        let starts = starts.take();
        assert_eq!(starts[0], 50);
        assert_eq!(starts[1..], vec![560; at_once], "{missed:?}");
    }
}

#[test]
fn a_rate_faster_than_the_tick_misses_no_run() {
    let time = ticked(ms(1), 8);
    let count = Arc::new(AtomicU64::new(0));
    let inside = Arc::clone(&count);
    let _ = time
        .schedule_at_fixed_rate(Duration::from_micros(300), Duration::from_micros(300), move || {
            inside.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    for millis in 1..=30 {
        time.advance(ms(1));
        assert_eq!(count.load(Ordering::Relaxed), millis * 10 / 3, "none early, none missed");
    }
}

#[test]
fn a_series_says_by_itself_when_it_runs_again() {
    let time = virtual_time();
    let notes = Notes::new();
    let mut note = clock_note(&time, &notes);
    let start = time.now();
    let mut answers = vec![
        Repeat::After(ms(7)),
        Repeat::At(start + ms(50)),
        Repeat::At(start), // has passed: at once
        Repeat::After(Duration::ZERO),
        Repeat::After(ms(1)),
        Repeat::Stop,
    ]
    .into_iter();
    let captive_notes = Notes::new();
    let captive = Captive::new(&captive_notes, "dropped");
    let series = time
        .schedule_repeating(ms(3), move || {
            let _ = &captive;
            note();
            answers.next().expect("it has stopped")
        })
        .unwrap();
    assert_eq!(time.run_until_idle(100).unwrap(), 6);
    assert_eq!(notes.take(), [3, 10, 50, 50, 50, 51]);
    assert_eq!(captive_notes.take(), ["dropped"], "with the series");
    assert!(!series.cancel() && !series.is_cancelled() && !series.is_pending());
}

#[test]
fn a_series_that_asks_for_a_time_beyond_all_clocks_waits_for_ever() {
    let time = virtual_time();
    let series = time.schedule_repeating(ms(1), || Repeat::After(Duration::MAX)).unwrap();
    assert_eq!(time.advance(Duration::MAX), 1);
    assert!(series.is_pending() && series.cancel());
}

#[test]
fn a_run_that_breaks_ends_its_series() {
    for rate in [false, true] {
        let time = virtual_time();
        let notes = Notes::new();
        let (note, mut left) = (notes.clone(), 3);
        let task = move || {
            note.add(());
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let series = match rate {
            true => time.schedule_at_fixed_rate(ms(0), ms(50), task).unwrap(),
            false => time.schedule_with_fixed_delay(ms(0), ms(50), task).unwrap(),
        };
        assert_eq!(time.advance(secs(10)), 3);
        assert_eq!(notes.len(), 3);
        assert!(!series.cancel() && !series.is_cancelled());
        assert_eq!(time.pending(), 0);
    }
}

#[test]
fn a_run_that_panics_ends_its_series_with_one_report_and_harms_nothing_else() {
    for (rate, last) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let reports = Notes::new();
        let report = reports.clone();
        let time = LightArrayRevolverScheduler::builder()
            .on_panic(move |panic| report.add(panic.message.to_owned()))
            .build_virtual()
            .unwrap();
        let notes = Notes::new();
        let captive = Captive::new(&notes, "dropped");
        let (note, mut run) = (Notes::new(), 0);
        let runs = note.clone();
        let task = move || {
            let _ = &captive;
            run += 1;
            note.add(run);
            assert!(run < last, "expected by this test");
        };
        let neighbour = time.schedule_at_fixed_rate(ms(20), ms(20), || ()).unwrap();
        let series = match rate {
            true => time.schedule_at_fixed_rate(ms(0), ms(20), task).unwrap(),
            false => time.schedule_with_fixed_delay(ms(0), ms(20), task).unwrap(),
        };
        time.advance(ms(400));
        assert_eq!(runs.take(), (1..=last).collect::<Vec<_>>());
        assert_eq!(reports.take(), ["expected by this test"]);
        assert_eq!(notes.take(), ["dropped"]);
        assert!(!series.cancel() && !series.is_cancelled() && !series.is_pending());
        assert!(neighbour.cancel(), "it goes on");
        assert_eq!(time.metrics().fired, 20 + last);
        assert_eq!(time.metrics().panicked, 1);
    }
}

#[test]
fn a_period_of_zero_is_refused_with_the_value_and_the_limit_and_the_task_comes_back() {
    let time = virtual_time();
    let notes = Notes::new();
    for rate in [false, true] {
        let note = notes.clone();
        let task = move || note.add("ran");
        let error = match rate {
            true => time.schedule_at_fixed_rate(ms(1), Duration::ZERO, task).unwrap_err(),
            false => time.schedule_with_fixed_delay(ms(1), Duration::ZERO, task).unwrap_err(),
        };
        assert_eq!(error.to_string(), "the period is 0ns, but it must be at least 1ns");
        assert!(matches!(error.refusal(), Refusal::Period { given: Duration::ZERO, .. }));
        assert_eq!(time.advance(secs(1)), 0);
        assert_eq!(notes.len(), 0);
        let task = error.into_task();
        task();
        assert_eq!(notes.take(), ["ran"]);
    }
    assert_eq!(time.metrics().scheduled, 0);
}

#[test]
fn the_shortest_and_the_longest_period_are_accepted() {
    let time = virtual_time();
    let count = Arc::new(AtomicU64::new(0));
    let (shortest, longest) = (Arc::clone(&count), Arc::clone(&count));
    let shortest = time
        .schedule_at_fixed_rate(ns(1), ns(1), move || {
            shortest.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(time.advance(ns(100)), 100);
    assert!(shortest.cancel());
    let longest = time
        .schedule_with_fixed_delay(ns(1), Duration::MAX, move || {
            longest.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(time.advance(Duration::MAX), 1);
    assert_eq!(count.load(Ordering::Relaxed), 101);
    assert!(longest.is_pending());
    let never = time.schedule_at_fixed_rate(Duration::MAX, ms(1), || ()).unwrap();
    assert_eq!(time.advance(Duration::MAX), 0);
    assert!(never.cancel());
}

#[test]
fn a_run_may_cancel_its_own_series_and_is_its_last() {
    for hook_wanted in [false, true] {
        let time = virtual_time();
        let notes = Notes::new();
        let captive = Captive::new(&notes, "captures dropped");
        let own = Own::default();
        let (inside, note) = (own.clone(), notes.clone());
        let task = move || {
            let _ = &captive;
            note.add(if inside.cancel() { "cancelled" } else { "not cancelled" });
            note.add(if inside.cancel() { "cancelled again" } else { "only once" });
        };
        let series = if hook_wanted {
            let hook = notes.clone();
            let task = Periodic::new(task).on_cancel(move || hook.add("hook"));
            time.schedule_at_fixed_rate(ms(1), ms(1), task).map_err(|error| error.refusal().clone())
        } else {
            time.schedule_at_fixed_rate(ms(1), ms(1), task).map_err(|error| error.refusal().clone())
        };
        own.put(series.unwrap());
        assert_eq!(time.advance(ms(10)), 1);
        let mut expected = vec!["cancelled", "only once", "captures dropped"];
        expected.extend(hook_wanted.then_some("hook"));
        assert_eq!(notes.take(), expected);
        assert_eq!(time.pending(), 0);
    }
}

#[test]
fn a_cancel_during_a_run_is_its_end_and_the_captures_go_when_the_run_ends() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let hook = notes.clone();
    let (release, hold) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let (hooked, wait) = mpsc::channel();
    let note = notes.clone();
    let task = Periodic::new(move || {
        let _ = &captive;
        entered.send(()).unwrap();
        let _ = hold.recv();
        note.add("run ends");
    })
    .on_cancel(move || {
        hook.add("hook");
        hooked.send(thread::current().name().map(str::to_owned)).unwrap();
    });
    let series = scheduler.schedule_with_fixed_delay(ms(0), ns(1), task).unwrap();
    inside.recv_timeout(PATIENCE).unwrap();
    assert!(!series.is_pending(), "it runs");
    assert!(series.cancel(), "although a run is under way");
    assert!(series.is_cancelled() && !series.cancel());
    assert_eq!(notes.len(), 0, "the run is not interrupted");
    drop(release);
    let thread = wait.recv_timeout(PATIENCE).unwrap();
    assert_eq!(thread.as_deref(), Some("lars-scheduler-worker-0"), "on the thread of the run");
    assert_eq!(notes.take(), ["run ends", "captures dropped", "hook"]);
    settle(&scheduler);
    assert!(inside.try_recv().is_err(), "no further run");
}

#[test]
fn a_series_cancelled_while_its_run_waits_for_the_executor_runs_no_more() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let (note, hook) = (notes.clone(), notes.clone());
    let task = Periodic::new(move || {
        let _ = &captive;
        note.add("ran");
    })
    .on_cancel(move || hook.add("hook"));
    let series = time.schedule_at_fixed_rate(ms(1), ms(1), task).unwrap();
    time.advance(ms(1));
    assert_eq!(by_hand.waiting(), 1);
    assert!(series.cancel());
    assert!(by_hand.run_next());
    assert_eq!(notes.take(), ["captures dropped", "hook"]);
    time.advance(secs(1));
    assert_eq!((by_hand.waiting(), time.pending()), (0, 0));
}

#[test]
fn the_hook_of_a_waiting_series_is_called_by_the_cancel_after_the_captures_are_dropped() {
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let hook = notes.clone();
    let task = Periodic::new(move || {
        let _ = &captive;
    })
    .on_cancel(move || hook.add("hook"));
    let series = time.schedule_with_fixed_delay(ms(90), ms(500), task).unwrap();
    time.advance(ms(290));
    assert!(series.cancel());
    assert_eq!(notes.take(), ["captures dropped", "hook"]);
    assert!(!series.cancel());
    assert_eq!(notes.len(), 0);
}

#[test]
fn the_hook_is_not_called_when_a_series_ends_by_itself_or_with_the_scheduler() {
    let notes = Notes::new();
    let hook = |notes: &Notes<&'static str>| {
        let notes = notes.clone();
        move || notes.add("hook")
    };
    let time = virtual_time();
    let task = Periodic::new(|| ControlFlow::Break(())).on_cancel(hook(&notes));
    let broken = time.schedule_at_fixed_rate(ms(1), ms(1), task).unwrap();
    let task = Periodic::new(|| Repeat::Stop).on_cancel(hook(&notes));
    let stopped = time.schedule_repeating(ms(1), task).unwrap();
    let task = Periodic::new(|| panic!("expected by this test")).on_cancel(hook(&notes));
    let panicked: Cancellable = time.schedule_at_fixed_rate::<(), _>(ms(1), ms(1), task).unwrap();
    let task = Periodic::new(|| ()).on_cancel(hook(&notes));
    let handed_back = time.schedule_at_fixed_rate(ms(1), ms(1), task).unwrap();
    time.advance(ms(1));
    drop(time.stop().wait());
    for series in [&broken, &stopped, &panicked, &handed_back] {
        assert!(!series.cancel() && !series.is_cancelled());
    }
    assert_eq!(notes.len(), 0);
}

#[test]
fn the_hook_of_a_series_that_was_cancelled_during_its_run_is_called_although_the_run_panics() {
    let time = virtual_time();
    let notes = Notes::new();
    let own = Own::default();
    let (inside, hook) = (own.clone(), notes.clone());
    let task = Periodic::new(move || {
        assert!(inside.cancel());
        panic!("expected by this test");
    })
    .on_cancel(move || hook.add("hook"));
    own.put(time.schedule_at_fixed_rate::<(), _>(ms(1), ms(1), task).unwrap());
    assert_eq!(time.advance(ms(10)), 1);
    assert_eq!(time.metrics().panicked, 1);
    assert_eq!(notes.take(), ["hook"]);
}

#[test]
fn a_first_run_that_beats_the_call_that_schedules_it_is_not_forgotten_by_the_cancellable() {
    let rounds = scaled(1_000, 10);
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    for _ in 0..rounds {
        let count = Arc::new(AtomicU64::new(0));
        let inside = Arc::clone(&count);
        // The timer thread may be through many runs before this call returns.
        let series = scheduler
            .schedule_with_fixed_delay(Duration::ZERO, ns(1), move || {
                inside.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        eventually("a few runs", || count.load(Ordering::SeqCst) >= 3);
        assert!(series.cancel());
        // All that the series holds goes, so that there is no chain that goes on.
        eventually("the end of the run that may be under way", || Arc::strong_count(&count) == 1);
        let runs = count.load(Ordering::SeqCst);
        assert!(series.is_cancelled() && !series.is_pending());
        assert_eq!(count.load(Ordering::SeqCst), runs);
    }
    settle(&scheduler);
    assert_eq!(scheduler.pending(), 0);
}

/// Cancelling and starting anew from inside a run leaves JRaft's `RepeatedTimer` with two chains:
/// 75 triggers where 40 are due, and one after the stop.
#[test]
fn a_series_replaced_from_inside_its_run_leaves_no_second_chain() {
    let time = virtual_time();
    let current = Own::default();
    let runs = Notes::new();
    fn start(timers: &Handle, current: &Own, runs: &Notes<()>) {
        let (inner, again, note) = (timers.clone(), current.clone(), runs.clone());
        let series = timers
            .schedule_with_fixed_delay(ms(50), ms(50), move || {
                note.add(());
                assert!(again.cancel(), "this very series");
                start(&inner, &again, &note);
            })
            .unwrap();
        current.put(series);
    }
    start(&time, &current, &runs);
    time.advance(secs(2));
    assert_eq!(runs.len(), 40);
    assert_eq!(time.pending(), 1, "one chain");
    assert!(current.cancel());
    assert_eq!(time.advance(secs(2)), 0);
    assert_eq!(runs.len(), 40);
}

#[test]
fn runs_of_a_series_never_overlap_however_many_threads_the_pool_has() {
    let runs = scaled(200, 5) as u64;
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(4)).build().unwrap();
    let (inside, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (flag, counter) = (Arc::clone(&inside), Arc::clone(&count));
    let overlaps = Arc::new(AtomicU64::new(0));
    let overlap = Arc::clone(&overlaps);
    let series = scheduler
        .schedule_at_fixed_rate(Duration::ZERO, ns(1), move || {
            overlap.fetch_add(u64::from(flag.swap(true, Ordering::SeqCst)), Ordering::SeqCst);
            thread::yield_now();
            flag.store(false, Ordering::SeqCst);
            counter.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    eventually("the runs", || count.load(Ordering::SeqCst) >= runs);
    assert!(series.cancel());
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
}

#[test]
fn a_series_has_one_pending_timer_and_takes_no_more_memory_however_often_it_runs() {
    let time = virtual_time();
    let series = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap();
    time.advance(ms(1));
    let memory = time.metrics().timer_memory;
    let runs = scaled(50_000, 3_000) as u64;
    time.advance(ms(runs));
    let metrics = time.metrics();
    assert_eq!(metrics.timer_memory, memory);
    assert_eq!((metrics.pending, metrics.fired), (1, runs + 1));
    assert!(series.cancel());
}

#[test]
fn a_series_runs_where_it_was_told_to_in_every_run() {
    let (own, default) = (ByHand::default(), ByHand::default());
    let time =
        LightArrayRevolverScheduler::builder().executor(default.clone()).build_virtual().unwrap();
    let notes = Notes::new();
    let note = |text: &'static str| {
        let notes = notes.clone();
        move || notes.add(text)
    };
    let every = ms(10);
    let _ = time.schedule_at_fixed_rate(every, every, note("default")).unwrap();
    let task = Periodic::new(note("own")).executor(Arc::new(own.clone()));
    let _ = time.schedule_with_fixed_delay(every, every, task).unwrap();
    let _ = time.schedule_at_fixed_rate(every, every, Periodic::new(note("inline")).inline());
    for _ in 0..3 {
        time.advance(every);
        assert_eq!(notes.take(), ["inline"]);
        assert_eq!((own.waiting(), default.waiting()), (1, 1));
        assert!(own.run_next());
        assert!(default.run_next());
        assert_eq!(notes.take(), ["own", "default"]);
    }
}

#[test]
fn a_series_that_its_executor_drops_has_ended_and_its_captures_are_gone() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let series = time
        .schedule_at_fixed_rate(ms(1), ms(1), move || {
            let _ = &captive;
        })
        .unwrap();
    time.advance(ms(1));
    assert_eq!(by_hand.abandon(), 1);
    assert_eq!(notes.take(), ["captures dropped"]);
    assert!(!series.cancel() && !series.is_cancelled() && !series.is_pending());
    assert_eq!(time.metrics().abandoned_by_executor, 1);
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_guard_ends_a_series() {
    let time = virtual_time();
    let guard = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap().cancel_on_drop();
    assert_eq!(time.advance(ms(3)), 3);
    drop(guard);
    assert_eq!(time.advance(ms(3)), 0);
}

#[test]
fn a_series_goes_on_although_max_pending_is_reached_while_it_runs() {
    // What ends a series is listed where it is scheduled; a moment of high load is not among it.
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let notes = Notes::new();
    let (timers, note) = (time.handle(), notes.clone());
    let series = time
        .schedule_with_fixed_delay(ms(10), ms(10), move || {
            note.add(());
            // Whether this is accepted is a matter of taste; the series is not.
            let _ = timers.schedule_once(ms(1), || ());
        })
        .unwrap();
    time.advance(ms(35));
    assert_eq!(notes.len(), 3);
    assert!(series.cancel());
}

#[test]
fn the_hook_of_a_cancelled_series_is_called_also_when_its_run_is_dropped() {
    use lars_scheduler::Executor;
    use lars_scheduler::executor::{Rejected, Runnable};
    /// Keeps what it is given.
    struct Shelf(Mutex<Vec<Runnable>>);
    impl Executor for Shelf {
        fn execute(&self, task: Runnable) -> Result<(), Rejected> {
            self.0.lock().unwrap().push(task);
            Ok(())
        }
    }
    let shelf = Arc::new(Shelf(Mutex::new(Vec::new())));
    let time = LightArrayRevolverScheduler::builder()
        .executor(Arc::clone(&shelf))
        .build_virtual()
        .unwrap();
    let hooks = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&hooks);
    let task = Periodic::new(|| ()).on_cancel(move || {
        hook.fetch_add(1, Ordering::SeqCst);
    });
    let series = time.schedule_at_fixed_rate(Duration::ZERO, common::secs(1), task).unwrap();
    time.advance(Duration::ZERO);
    // The run waits in the executor; it is cancelled there, and never run.
    assert!(series.cancel());
    shelf.0.lock().unwrap().clear();
    assert_eq!(hooks.load(Ordering::SeqCst), 1);

    let hook = Arc::clone(&hooks);
    let task = Periodic::new(|| ()).on_cancel(move || {
        hook.fetch_add(1, Ordering::SeqCst);
    });
    let series = time.schedule_at_fixed_rate(common::secs(1), common::secs(1), task).unwrap();
    let pending = time.stop().wait();
    assert!(series.cancel());
    drop(pending);
    assert_eq!(hooks.load(Ordering::SeqCst), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_cancellable_of_a_repeat_that_outlives_its_scheduler_keeps_no_thread() {
    let threads = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.starts_with("outlived"))
            .count()
    };
    let scheduler = LightArrayRevolverScheduler::builder()
        .thread_name("outlived")
        .pool(|pool| pool.threads(3))
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let held = scheduler
        .schedule_repeating(Duration::ZERO, move || {
            let _ = sender.send(());
            Repeat::Stop
        })
        .unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(threads() > 0);
    drop(scheduler);
    eventually("its threads have ended", || threads() == 0);
    assert!(!held.cancel());
}

#[test]
fn repeats_that_start_at_an_instant_run_together_whenever_they_were_scheduled() {
    let time = virtual_time();
    let (notes, start) = (Notes::new(), time.now() + secs(10));
    let note = |name| {
        let (notes, clock) = (notes.clone(), time.handle());
        move || notes.add((name, clock.now() - start))
    };
    let rate = time.schedule_at_fixed_rate(start, secs(1), note("rate")).unwrap();
    time.advance(secs(3));
    let delay = time.schedule_with_fixed_delay(start, secs(1), note("delay")).unwrap();
    let asked = note("asked");
    let asked = time.schedule_repeating(start, move || {
        asked();
        Repeat::Stop
    });
    asked.unwrap();
    time.advance(secs(8));
    let zero = Duration::ZERO;
    assert_eq!(
        notes.take(),
        [("rate", zero), ("delay", zero), ("asked", zero), ("rate", secs(1)), ("delay", secs(1)),]
    );
    // One that has passed is now.
    let _ = time.schedule_at_fixed_rate(start, secs(60), note("late")).unwrap();
    assert_eq!(time.advance(zero), 1);
    assert_eq!(notes.take(), [("late", secs(1))]);
    rate.cancel();
    delay.cancel();
}
