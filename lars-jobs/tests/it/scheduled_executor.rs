//! The scheduled executor: it owns its work, ends it as asked, and leaves nothing behind.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Weak};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Captive, Notes, PATIENCE, Xorshift, eventually, ms, ns, scaled, secs, virtual_time,
};
use lars_jobs::Jobs;
use lars_jobs::call::{Call, CallError, ScheduledCall};
use lars_jobs::scheduled_executor::{
    DelayedTasks, InvokeAnyError, PeriodicTasks, ScheduledExecutor, ShutdownPolicy, TaskFailure,
};
use lars_scheduler::{LightArrayRevolverScheduler, MissedTickBehavior, Pool, Refusal, VirtualTime};

const CANCEL_DELAYED: ShutdownPolicy =
    ShutdownPolicy { delayed: DelayedTasks::Cancel, periodic: PeriodicTasks::Cancel };
const CONTINUE_PERIODIC: ShutdownPolicy =
    ShutdownPolicy { delayed: DelayedTasks::Run, periodic: PeriodicTasks::Continue };

fn on_virtual_time() -> (VirtualTime, ScheduledExecutor) {
    let time = virtual_time();
    let jobs = ScheduledExecutor::on(&time);
    (time, jobs)
}

/// An executor on a pool of this many threads.
fn with_threads(threads: usize) -> ScheduledExecutor {
    ScheduledExecutor::owning(
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(threads)).build().unwrap(),
    )
}

/// Waits in real time, so that a test does not hang.
fn get<T>(call: ScheduledCall<T>) -> Result<T, CallError> {
    call.wait_timeout(PATIENCE).expect("the call has ended, one way or the other")
}

/// A task that says when it has started and runs until the sender is dropped.
fn blocker(started: &Sender<()>) -> (impl FnOnce() + Send + 'static, Sender<()>) {
    let (release, hold) = mpsc::channel::<()>();
    let started = started.clone();
    let run = move || {
        started.send(()).unwrap();
        let _ = hold.recv();
    };
    (run, release)
}

fn wait_for(started: &Receiver<()>, times: usize) {
    for _ in 0..times {
        started.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn a_task_that_is_executed_runs() {
    let jobs = ScheduledExecutor::new().unwrap();
    let (done, wait) = mpsc::channel();
    jobs.execute(move || done.send("ran").unwrap()).unwrap();
    assert_eq!(wait.recv_timeout(PATIENCE).unwrap(), "ran");
    assert_eq!(get(jobs.submit(|| 42).unwrap()).unwrap(), 42);
}

#[test]
fn a_delayed_task_returns_its_result_and_has_not_run_early() {
    let jobs = ScheduledExecutor::new().unwrap();
    for micros in [0, 50, 700, 3_300] {
        let delay = Duration::from_micros(micros);
        let start = Instant::now();
        let call = jobs.schedule(delay, Instant::now).unwrap();
        assert!(get(call).unwrap() - start >= delay);
        let (at, ran) = mpsc::channel();
        let start = Instant::now();
        let call = jobs.schedule(delay, move || at.send(Instant::now()).unwrap()).unwrap();
        get(call).unwrap();
        assert!(ran.recv().unwrap() - start >= delay);
    }
}

#[test]
fn the_initial_delay_of_both_kinds_of_periodic_tasks_is_kept() {
    let jobs = ScheduledExecutor::new().unwrap();
    let delay = Duration::from_micros(1_700);
    let start = Instant::now();
    let first = || ControlFlow::Break(Instant::now());
    let rate = jobs.schedule_at_fixed_rate(delay, ms(1), first).unwrap();
    let gap = jobs.schedule_with_fixed_delay(delay, ms(1), first).unwrap();
    for series in [rate, gap] {
        assert!(get(series).unwrap() - start >= delay);
    }
}

/// The JDK asks for at least seven delays, and eventually not more than eight.
#[test]
fn eight_runs_at_a_fixed_rate_take_seven_intervals() {
    for interval in [1, 3, 9, 27] {
        let (time, jobs) = on_virtual_time();
        let (timers, start) = (time.handle(), time.now());
        let mut runs = 0;
        let series = jobs
            .schedule_at_fixed_rate(Duration::ZERO, ms(interval), move || {
                runs += 1;
                match runs {
                    8 => ControlFlow::Break(timers.now() - start),
                    _ => ControlFlow::Continue(()),
                }
            })
            .unwrap();
        time.advance(secs(1));
        assert_eq!(get(series).unwrap(), ms(7 * interval));
        assert_eq!(time.pending(), 0);
    }
}

#[test]
fn with_a_fixed_delay_no_gap_between_runs_is_shorter_than_the_delay() {
    let jobs = ScheduledExecutor::new().unwrap();
    let delay = ms(2);
    let mut last_end: Option<Instant> = None;
    let mut runs = 0;
    let series = jobs
        .schedule_with_fixed_delay(Duration::ZERO, delay, move || {
            let gap_kept = last_end.is_none_or(|end| end.elapsed() >= delay);
            runs += 1;
            last_end = Some(Instant::now());
            if gap_kept && runs < 8 { ControlFlow::Continue(()) } else { ControlFlow::Break(runs) }
        })
        .unwrap();
    assert_eq!(get(series).unwrap(), 8);
}

#[test]
fn after_either_shutdown_work_is_refused_and_given_back_before_and_after_the_end() {
    for now in [false, true] {
        let jobs = with_threads(1);
        let (started, starts) = mpsc::channel();
        let (run, release) = blocker(&started);
        jobs.execute(run).unwrap();
        wait_for(&starts, 1);
        assert!(!jobs.is_shutdown());
        if now {
            assert!(jobs.shutdown_now().is_empty());
        } else {
            jobs.shutdown(ShutdownPolicy::default());
        }
        for terminated in [false, true] {
            assert_eq!((jobs.is_shutdown(), jobs.is_terminated()), (true, terminated));
            let notes = Notes::new();
            let note = || {
                let notes = notes.clone();
                move || notes.add("given back")
            };
            let error = jobs.execute(note()).unwrap_err();
            assert!(error.to_string().contains("shut down"), "{error}");
            error.into_task()();
            jobs.submit(note()).unwrap_err().into_task()();
            jobs.schedule(ms(1), note()).unwrap_err().into_task()();
            jobs.schedule(ms(1), note()).unwrap_err().into_task()();
            jobs.submit_with_timeout(secs(1), note()).unwrap_err().into_task()();
            jobs.submit_with_timeout_or(secs(1), note(), || ()).unwrap_err().into_task()();
            let error = jobs.schedule_at_fixed_rate(ms(1), ms(1), note()).unwrap_err();
            assert_eq!(*error.refusal(), Refusal::ShutDown);
            error.into_task()();
            jobs.schedule_with_fixed_delay(ms(1), ms(1), note()).unwrap_err().into_task()();
            assert_eq!(notes.take().len(), 8);
            if !terminated {
                assert!(!jobs.await_termination(Duration::ZERO));
                release.send(()).unwrap();
                assert!(jobs.await_termination(PATIENCE));
            }
        }
    }
}

#[test]
fn what_the_scheduler_refuses_is_given_back_and_leaves_nothing_behind() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let jobs = ScheduledExecutor::on(&time);
    let other = time.schedule_once(secs(1), || ()).unwrap();
    assert_eq!(jobs.submit(|| 1).unwrap_err().into_task()(), 1);
    let full = jobs.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap_err();
    assert_eq!(*full.refusal(), Refusal::Full { limit: 1 });
    // The place is enough for a task or for its limit, not for both.
    assert!(other.cancel());
    assert_eq!(jobs.submit_with_timeout(secs(1), || 2).unwrap_err().into_task()(), 2);
    let zero = jobs.schedule_with_fixed_delay(ms(1), Duration::ZERO, || ()).unwrap_err();
    assert!(matches!(zero.refusal(), Refusal::Period { .. }));
    assert_eq!((time.pending(), jobs.counts().waiting, jobs.counts().repeats), (0, 0, 0));
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn the_counts_never_overestimate() {
    let jobs = with_threads(3);
    let (started, starts) = mpsc::channel();
    let mut releases = Vec::new();
    for number in 0..4 {
        let (run, release) = blocker(&started);
        jobs.execute(run).unwrap();
        releases.push(release);
        let counts = jobs.counts();
        assert!(counts.running <= number + 1 && counts.waiting + counts.running == number + 1);
        assert_eq!((counts.completed, counts.repeats), (0, 0));
    }
    wait_for(&starts, 3);
    let counts = jobs.counts();
    assert_eq!((counts.waiting, counts.running, counts.completed), (1, 3, 0));
    drop(releases);
    eventually("all have run", || jobs.counts().completed == 4);
    assert_eq!((jobs.counts().waiting, jobs.counts().running), (0, 0));
}

/// In the JDK `remove` and `cancel` differ; here a task that waits for a thread has not started,
/// and one that runs has.
#[test]
fn a_task_that_waits_for_a_thread_can_be_cancelled_and_one_that_runs_cannot() {
    let jobs = with_threads(1);
    let (started, starts) = mpsc::channel();
    let (run, release) = blocker(&started);
    let running = jobs.submit(run).unwrap();
    wait_for(&starts, 1);
    let waiting: Vec<_> = (0..4).map(|number| jobs.submit(move || number).unwrap()).collect();
    assert!(!running.cancel() && !running.is_cancelled() && !running.is_done());
    assert!(waiting[1].cancel());
    assert!(!waiting[1].cancel());
    assert!(waiting[1].is_cancelled() && waiting[1].is_done());
    assert_eq!(jobs.counts().waiting, 3);
    drop(release);
    let results: Vec<_> = waiting.into_iter().map(|call| get(call).ok()).collect();
    assert_eq!(results, [Some(0), None, Some(2), Some(3)]);
    get(running).unwrap();
}

#[test]
fn of_five_tasks_of_which_two_are_cancelled_three_are_left_at_once() {
    let (time, jobs) = on_virtual_time();
    let calls: Vec<_> =
        (0..5).map(|number| jobs.schedule(secs(10), move || number).unwrap()).collect();
    assert!(calls[0].cancel() && calls[3].cancel());
    assert_eq!((jobs.counts().waiting, time.pending()), (3, 3));
    time.advance(secs(10));
    let results: Vec<_> = calls.into_iter().map(|call| get(call).ok()).collect();
    assert_eq!(results, [None, Some(1), Some(2), None, Some(4)]);
    assert_eq!(jobs.counts().completed, 3);
}

#[test]
fn shutting_down_now_with_five_tasks_on_two_threads_hands_three_back() {
    let jobs = with_threads(2);
    let (started, starts) = mpsc::channel();
    let (tasks, releases): (Vec<_>, Vec<_>) = (0..5).map(|_| blocker(&started)).unzip();
    let calls: Vec<_> = tasks.into_iter().map(|run| jobs.submit(run).unwrap()).collect();
    wait_for(&starts, 2);
    let unstarted = jobs.shutdown_now();
    assert_eq!(unstarted.len(), 3);
    assert!(!jobs.is_terminated(), "two of them run");
    assert_eq!(calls.iter().filter(|call| call.is_done()).count(), 3, "nobody would wait for them");
    drop(unstarted);
    drop(releases);
    assert!(jobs.await_termination(PATIENCE));
    let (ran, dropped): (Vec<_>, Vec<_>) = calls.into_iter().map(get).partition(Result::is_ok);
    assert_eq!((ran.len(), dropped.len()), (2, 3));
    assert!(dropped.iter().all(|result| matches!(result, Err(CallError::Dropped))));
    assert!(jobs.shutdown_now().is_empty());
}

/// In the JDK a thread that waits for such a task waits forever.
#[test]
fn an_unstarted_task_that_is_run_has_its_value_and_one_that_is_dropped_an_error() {
    let (time, jobs) = on_virtual_time();
    let start = time.now();
    let later = jobs.schedule(secs(2), || "later").unwrap();
    let sooner = jobs.schedule(secs(1), || "sooner").unwrap();
    let never = jobs.schedule(Duration::MAX, || "never").unwrap();
    let panics = jobs.schedule(secs(3), || -> u32 { panic!("expected by this test") }).unwrap();
    let mut unstarted = jobs.shutdown_now().into_iter();
    let dues: Vec<_> = unstarted.as_slice().iter().map(|task| task.due()).collect();
    assert_eq!(dues, [Some(start + secs(1)), Some(start + secs(2)), Some(start + secs(3)), None]);
    assert_eq!(time.pending(), 0);
    assert!(unstarted.next().unwrap().run());
    drop(unstarted.next());
    assert!(!unstarted.next().unwrap().run());
    assert!(unstarted.next().unwrap().run());
    assert_eq!(get(sooner).unwrap(), "sooner");
    assert!(matches!(get(later), Err(CallError::Dropped)));
    assert!(matches!(get(panics), Err(CallError::Panicked(_))));
    assert_eq!(get(never).unwrap(), "never");
    assert!(jobs.is_terminated());
}

#[test]
fn after_a_shutdown_delayed_tasks_still_run_at_their_time() {
    let (time, jobs) = on_virtual_time();
    let call = jobs.schedule(secs(10), || "ran").unwrap();
    jobs.shutdown(ShutdownPolicy::default());
    time.advance(secs(10) - ns(1));
    assert_eq!((call.is_done(), jobs.is_shutdown(), jobs.is_terminated()), (false, true, false));
    time.advance(ns(1));
    assert_eq!(get(call).unwrap(), "ran");
    assert!(jobs.is_terminated());
    assert!(jobs.await_termination(Duration::ZERO));
}

/// With a core of no threads the JDK's pool runs this too.
#[test]
fn a_task_of_some_milliseconds_runs_across_a_shutdown() {
    let jobs = with_threads(1);
    let call = jobs.schedule(ms(12), || "ran").unwrap();
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.await_termination(PATIENCE));
    assert_eq!(get(call).unwrap(), "ran");
}

#[test]
fn a_shutdown_may_cancel_what_is_not_due_and_what_is_due_runs_all_the_same() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let due = jobs.schedule(secs(1), || "due").unwrap();
    let later = jobs.schedule(secs(2), || "later").unwrap();
    let never = jobs.schedule(Duration::MAX, || "never").unwrap();
    time.advance(secs(1));
    assert_eq!(jobs.shutdown(CANCEL_DELAYED), 2, "so many will never start");
    for call in [later, never] {
        assert!(call.is_cancelled());
        assert!(matches!(get(call), Err(CallError::Cancelled)));
    }
    assert!(!due.is_done() && !jobs.is_terminated());
    assert!(by_hand.run_next());
    assert_eq!(get(due).unwrap(), "due");
    assert!(jobs.is_terminated());
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_shutdown_ends_periodic_tasks_or_lets_them_go_on_as_asked() {
    let (time, jobs) = on_virtual_time();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = || {
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    let series = jobs.schedule_at_fixed_rate(secs(1), secs(1), count()).unwrap();
    let other = jobs.schedule_with_fixed_delay(secs(1), secs(1), count()).unwrap();
    jobs.shutdown(CONTINUE_PERIODIC);
    time.advance(secs(5));
    assert_eq!((runs.load(Ordering::SeqCst), jobs.counts().repeats), (10, 2));
    assert!(!jobs.is_terminated());
    assert!(series.cancel());
    assert_eq!(jobs.counts().repeats, 1);
    time.advance(secs(1));
    assert_eq!(runs.load(Ordering::SeqCst), 11);
    // Shut down again, and more strictly.
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
    assert!(matches!(get(other), Err(CallError::Cancelled)));
    time.advance(secs(10));
    assert_eq!((runs.load(Ordering::SeqCst), time.pending()), (11, 0));
}

#[test]
fn in_a_race_of_schedule_and_shutdown_no_series_is_forgotten() {
    for round in 0..scaled(1_000, 10) {
        let (time, jobs) = on_virtual_time();
        let begin = Barrier::new(2);
        let series = thread::scope(|scope| {
            let series = scope.spawn(|| {
                begin.wait();
                jobs.schedule_at_fixed_rate(secs(1), secs(1), || ())
            });
            begin.wait();
            (0..round % 100).for_each(|_| std::hint::spin_loop());
            jobs.shutdown(ShutdownPolicy::default());
            series.join().unwrap()
        });
        match series {
            Ok(series) => assert!(series.is_done() && series.is_cancelled()),
            Err(refused) => assert_eq!(*refused.refusal(), Refusal::ShutDown),
        }
        assert!(jobs.is_terminated());
        assert_eq!(time.pending(), 0);
    }
}

#[test]
fn a_run_of_a_periodic_task_that_is_under_way_finishes_before_the_end() {
    for now in [false, true] {
        let jobs = with_threads(2);
        let (started, starts) = mpsc::channel();
        let (release, hold) = mpsc::channel::<()>();
        let series = jobs
            .schedule_at_fixed_rate(Duration::ZERO, ms(1), move || {
                started.send(()).unwrap();
                let _ = hold.recv();
            })
            .unwrap();
        wait_for(&starts, 1);
        if now {
            assert!(jobs.shutdown_now().is_empty());
        } else {
            jobs.shutdown(ShutdownPolicy::default());
        }
        assert!(!jobs.await_termination(ms(1)));
        drop(release);
        assert!(jobs.await_termination(PATIENCE));
        assert!(matches!(get(series), Err(CallError::Cancelled)));
        assert!(starts.try_recv().is_err(), "it ran again");
    }
}

#[test]
fn on_a_shared_scheduler_only_its_own_tasks_are_ended() {
    let time = virtual_time();
    let (jobs, other) = (ScheduledExecutor::on(&time), ScheduledExecutor::on(&time));
    let plain = time.schedule_call(secs(1), || "plain").unwrap();
    let others = other.schedule(secs(1), || "other").unwrap();
    let beat = other.schedule_at_fixed_rate(secs(1), secs(1), || ()).unwrap();
    let own = jobs.schedule(secs(1), || "own").unwrap();
    let own_beat = jobs.schedule_at_fixed_rate(secs(1), secs(1), || ()).unwrap();
    assert_eq!(jobs.shutdown_now().len(), 1);
    assert!(jobs.is_terminated() && !other.is_shutdown() && !time.is_stopped());
    time.advance(secs(1));
    assert_eq!((get(plain).unwrap(), get(others).unwrap()), ("plain", "other"));
    assert!(matches!(get(own), Err(CallError::Dropped)));
    assert!(own_beat.is_cancelled() && !beat.is_done());
}

#[test]
fn finished_and_cancelled_tasks_leave_nothing_behind() {
    let (time, jobs) = on_virtual_time();
    let payload = Arc::new(());
    let rounds = scaled(20_000, 200);
    let mut memory = 0;
    for round in 0..rounds {
        let carried = Arc::clone(&payload);
        let call = jobs.schedule(secs(1_000_000), move || drop(carried)).unwrap();
        assert!(call.cancel());
        let carried = Arc::clone(&payload);
        jobs.execute(move || drop(carried)).unwrap();
        let carried = Arc::clone(&payload);
        let beat = jobs.schedule_at_fixed_rate(secs(1), secs(1), move || drop(carried.clone()));
        assert!(beat.unwrap().cancel());
        time.advance(Duration::ZERO);
        if round == rounds / 10 {
            memory = time.metrics().timer_memory;
        }
    }
    assert_eq!(Arc::strong_count(&payload), 1);
    let counts = jobs.counts();
    assert_eq!((counts.waiting, counts.running, counts.repeats), (0, 0, 0));
    assert_eq!((time.pending(), counts.completed), (0, rounds as u64));
    assert_eq!(time.metrics().timer_memory, memory);
}

#[test]
fn a_period_that_never_ends_does_not_keep_the_next_task_from_running() {
    let (time, jobs) = on_virtual_time();
    let far = jobs.schedule_at_fixed_rate(Duration::ZERO, Duration::MAX, || ()).unwrap();
    let gap = jobs.schedule_with_fixed_delay(Duration::MAX, secs(1), || ()).unwrap();
    time.advance(Duration::ZERO);
    let call = jobs.submit(|| "ran").unwrap();
    time.advance(Duration::ZERO);
    assert_eq!(get(call).unwrap(), "ran");
    assert!(!far.is_done() && !gap.is_done());
}

#[test]
fn an_executor_whose_periodic_tasks_may_go_on_ends_with_the_last_of_their_runs() {
    let (time, jobs) = on_virtual_time();
    let twice = Call::new(|| ()).times(2);
    let twice = jobs.schedule_at_fixed_rate(secs(1), secs(1), twice).unwrap();
    let until = Call::new(|| ()).until(time.now() + secs(3));
    let until = jobs.schedule_with_fixed_delay(secs(1), secs(1), until).unwrap();
    jobs.shutdown(CONTINUE_PERIODIC);
    time.advance(secs(3) - ns(1));
    assert!(twice.is_done() && !until.is_done() && !jobs.await_termination(Duration::ZERO));
    time.advance(ns(1));
    assert!(jobs.await_termination(Duration::ZERO));
    for series in [twice, until] {
        assert!(matches!(series.wait(), Err(CallError::Ended)));
    }
}

#[test]
fn a_periodic_task_without_an_initial_delay_repeats() {
    let jobs = ScheduledExecutor::new().unwrap();
    let mut runs = 0;
    let series = jobs
        .schedule_at_fixed_rate(Duration::ZERO, Duration::from_micros(100), move || {
            runs += 1;
            if runs == 5 { ControlFlow::Break(runs) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(get(series).unwrap(), 5);
}

/// In the JDK one run of 500 ms at a rate of 50 ms brings ten more within a millisecond of its end.
#[test]
fn a_long_run_at_a_fixed_rate_brings_no_burst_when_missed_runs_are_skipped() {
    for (behavior, expected) in [(MissedTickBehavior::Burst, 11), (MissedTickBehavior::Skip, 2)] {
        let time = virtual_time();
        let by_hand = Arc::new(ByHand::default());
        let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let task = Call::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let series = jobs
            .schedule_at_fixed_rate(Duration::ZERO, ms(50), task.missed_ticks(behavior))
            .unwrap();
        time.advance(Duration::ZERO);
        time.advance(ms(500)); // as long as the first run takes
        while by_hand.run_next() {
            time.advance(Duration::ZERO);
        }
        assert_eq!(runs.load(Ordering::SeqCst), expected, "{behavior:?}");
        assert!(series.cancel());
    }
}

#[test]
fn a_task_that_panics_ends_its_series_and_harms_no_other() {
    let (time, jobs) = on_virtual_time();
    let series = jobs
        .schedule_at_fixed_rate(ms(1), ms(1), || -> () { panic!("expected by this test") })
        .unwrap();
    let call = jobs.submit(|| -> u32 { panic!("expected by this test") }).unwrap();
    let well = jobs.schedule(ms(10), || "well").unwrap();
    time.advance(ms(10));
    assert!(matches!(get(series), Err(CallError::Panicked(_))));
    assert!(matches!(get(call), Err(CallError::Panicked(_))));
    assert_eq!(get(well).unwrap(), "well");
    assert_eq!(time.metrics().panicked, 2);
    let counts = jobs.counts();
    assert_eq!((counts.running, counts.completed, counts.repeats), (0, 2, 0));
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

/// An abandoned `java.util.Timer` finishes what was queued, and then ends.
#[test]
fn an_executor_that_was_shut_down_and_dropped_still_runs_its_ten_tasks() {
    let (time, jobs) = on_virtual_time();
    let calls: Vec<_> =
        (0..10).map(|number| jobs.schedule(secs(number), move || number).unwrap()).collect();
    jobs.shutdown(ShutdownPolicy::default());
    drop(jobs);
    time.advance(secs(10));
    let results: Vec<_> = calls.into_iter().map(|call| get(call).unwrap()).collect();
    assert_eq!(results, (0..10).collect::<Vec<_>>());
    assert_eq!(time.pending(), 0);
}

#[test]
fn dropping_an_executor_that_was_not_shut_down_drops_its_tasks_and_tells_who_waits() {
    let (time, jobs) = on_virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let call = jobs.schedule(secs(1), move || drop(captive)).unwrap();
    let series = jobs.schedule_at_fixed_rate(secs(1), secs(1), || ()).unwrap();
    drop(jobs);
    assert_eq!(notes.take(), ["captures dropped"]);
    assert!(matches!(get(call), Err(CallError::Dropped)));
    assert!(matches!(get(series), Err(CallError::Cancelled)));
    assert_eq!(time.pending(), 0);
}

#[test]
fn an_executor_with_a_scheduler_of_its_own_stops_that_when_it_is_dropped() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let handle = scheduler.handle();
    let jobs = ScheduledExecutor::owning(scheduler);
    let waits = jobs.schedule(secs(3_600), || ()).unwrap();
    jobs.shutdown(ShutdownPolicy::default());
    drop(jobs);
    assert!(handle.is_stopped());
    assert!(matches!(get(waits), Err(CallError::Dropped)));
}

#[test]
fn when_the_scheduler_below_is_stopped_tasks_are_handed_back_there_and_the_executor_ends() {
    let (time, jobs) = on_virtual_time();
    let run = jobs.schedule(secs(1), || "run").unwrap();
    let dropped = jobs.schedule(secs(2), || "dropped").unwrap();
    let series = jobs.schedule_at_fixed_rate(secs(3), secs(1), || ()).unwrap();
    let mut pending = time.stop().wait().into_iter();
    assert!(pending.next().unwrap().run());
    drop(pending);
    assert_eq!(get(run).unwrap(), "run");
    assert!(matches!(get(dropped), Err(CallError::Dropped)));
    assert!(matches!(get(series), Err(CallError::Dropped)));
    assert_eq!(*jobs.submit(|| ()).unwrap_err().refusal(), Refusal::Stopped);
    assert!(!jobs.is_terminated());
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn waiting_for_a_task_that_was_handed_back_returns_at_once_whoever_handed_it_back() {
    for by_the_scheduler in [true, false] {
        let (time, jobs) = on_virtual_time();
        let limited = jobs.submit_with_timeout(secs(9), || 1).unwrap();
        let waits = jobs.schedule(secs(1), || 2).unwrap();
        let left = jobs.schedule(secs(1), || 3).unwrap();
        let keeps = Notes::new();
        if by_the_scheduler {
            let pending = time.stop().wait();
            assert_eq!(pending.len(), 4, "with the limit");
            assert!(matches!(get(limited), Err(CallError::HandedBack)));
            assert!(matches!(get(waits), Err(CallError::HandedBack)));
            pending.into_iter().for_each(|task| keeps.add(task.run()));
        } else {
            let unstarted = jobs.shutdown_now();
            assert_eq!(unstarted.len(), 3);
            assert!(matches!(get(limited), Err(CallError::HandedBack)));
            assert!(matches!(get(waits), Err(CallError::HandedBack)));
            unstarted.into_iter().for_each(|task| keeps.add(task.run()));
        }
        assert!(keeps.take().into_iter().all(|well| well));
        assert_eq!(get(left).unwrap(), 3);
    }
}

#[test]
fn an_executor_has_not_terminated_before_the_substitute_of_a_task_has_run() {
    struct Looks(Weak<ScheduledExecutor>, Arc<AtomicBool>);
    impl Drop for Looks {
        fn drop(&mut self) {
            if let Some(jobs) = self.0.upgrade() {
                self.1.store(jobs.is_terminated(), Ordering::SeqCst);
            }
        }
    }
    let time = virtual_time();
    let jobs = Arc::new(ScheduledExecutor::on(&time));
    let (terminated, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let looks = Looks(Arc::downgrade(&jobs), Arc::clone(&terminated));
    let runs = Arc::clone(&ran);
    let task = Call::new(move || {
        let _looks = &looks;
        1
    });
    let stuck = ByHand::default();
    let call = jobs
        .submit_with_timeout_or(ms(5), task.executor(Arc::new(stuck.clone())), move || {
            runs.store(true, Ordering::SeqCst);
            2
        })
        .unwrap();
    time.advance(ms(1));
    jobs.shutdown(ShutdownPolicy::default());
    assert!(!jobs.is_terminated());
    time.advance(ms(10));
    assert!(ran.load(Ordering::SeqCst));
    assert_eq!(call.wait().unwrap(), 2);
    assert!(!terminated.load(Ordering::SeqCst), "terminated, and then the substitute ran");
}

#[test]
fn closing_the_scheduler_below_runs_the_tasks_that_are_marked_and_their_waiters_get_the_values() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .close_policy(lars_scheduler::ClosePolicy::RunMarked)
        .build()
        .unwrap();
    let jobs = ScheduledExecutor::on(&scheduler);
    let marked = jobs.schedule(secs(3_600), Call::new(|| "marked").run_on_close()).unwrap();
    let plain = jobs.schedule(secs(3_600), || "plain").unwrap();
    scheduler.close().unwrap();
    assert_eq!(get(marked).unwrap(), "marked");
    assert!(matches!(get(plain), Err(CallError::Dropped)));
    assert_eq!(jobs.counts().waiting, 0);
}

#[test]
fn a_task_that_an_executor_loses_is_not_waited_for() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let call = jobs.submit(|| ()).unwrap();
    let series = jobs.schedule_at_fixed_rate(Duration::ZERO, ms(1), || ()).unwrap();
    time.advance(Duration::ZERO);
    assert_eq!(by_hand.abandon(), 2);
    assert!(matches!(get(call), Err(CallError::Dropped)));
    assert!(matches!(get(series), Err(CallError::Dropped)));
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn tasks_run_on_the_executor_that_they_or_else_the_owner_named() {
    let time = virtual_time();
    let (ours, its_own) = (Arc::new(ByHand::default()), Arc::new(ByHand::default()));
    let jobs = ScheduledExecutor::with_executor(&time, ours.clone());
    let plain = jobs.submit(|| "plain").unwrap();
    let picky = jobs.submit(Call::new(|| "picky").executor(its_own.clone())).unwrap();
    let inline = jobs.submit(Call::new(|| "inline").inline()).unwrap();
    time.advance(Duration::ZERO);
    assert_eq!((ours.waiting(), its_own.waiting()), (1, 1));
    assert_eq!(get(inline).unwrap(), "inline");
    assert!(ours.run_next() && its_own.run_next());
    assert_eq!((get(plain).unwrap(), get(picky).unwrap()), ("plain", "picky"));
}

#[test]
fn what_one_owner_has_refused_runs_on_the_executor_of_the_next() {
    let time = virtual_time();
    let (first, second) = (Arc::new(ByHand::default()), Arc::new(ByHand::default()));
    let refusing = ScheduledExecutor::with_executor(&time, first.clone());
    let accepting = ScheduledExecutor::with_executor(&time, second.clone());
    refusing.shutdown(ShutdownPolicy::default());
    let task = refusing.submit(Call::new(|| 7)).unwrap_err().into_task();
    let task = accepting.submit(task).unwrap();
    // Other than a shutdown, the scheduler refuses a series that has options by then.
    let refusing = ScheduledExecutor::with_executor(&time, first.clone());
    let run = Call::new(|| ControlFlow::Break(8));
    let run = refusing.schedule_with_fixed_delay(ms(1), Duration::ZERO, run).unwrap_err();
    let run = accepting.schedule_with_fixed_delay(ms(1), ms(1), run.into_task()).unwrap();
    time.advance(ms(1));
    assert_eq!((first.waiting(), second.waiting()), (0, 2));
    assert!(second.run_next() && second.run_next());
    assert_eq!((get(task).unwrap(), get(run).unwrap()), (7, 8));
}

#[test]
fn a_task_may_use_the_executor_that_runs_it() {
    let (time, jobs) = on_virtual_time();
    let jobs = Arc::new(jobs);
    let inner = Arc::clone(&jobs);
    let nested = jobs
        .schedule(secs(1), move || {
            let call = inner.schedule(secs(1), || "nested").unwrap();
            let cancelled = inner.submit(|| ()).unwrap();
            assert!(cancelled.cancel());
            inner.shutdown(ShutdownPolicy::default());
            assert!(inner.submit(|| ()).is_err());
            assert!(!inner.await_termination(Duration::ZERO), "it waits for itself");
            call
        })
        .unwrap();
    time.advance(secs(2));
    assert_eq!(get(get(nested).unwrap()).unwrap(), "nested");
    assert!(jobs.is_terminated());
}

#[test]
fn captures_whose_destructors_use_the_executor_do_not_lock_it_up() {
    struct Returning(Arc<ScheduledExecutor>);
    impl Drop for Returning {
        fn drop(&mut self) {
            let _ = self.0.execute(|| ());
            let _ = self.0.counts();
        }
    }
    let time = LightArrayRevolverScheduler::builder().max_pending(6).build_virtual().unwrap();
    let jobs = Arc::new(ScheduledExecutor::on(&time));
    let captured = |delay| {
        let returning = Returning(Arc::clone(&jobs));
        jobs.schedule(delay, move || drop(returning)).unwrap()
    };
    assert!(captured(secs(1)).cancel());
    drop(captured(secs(1)));
    time.advance(secs(1));
    drop(captured(secs(1)));
    for limit in [secs(5), Duration::MAX] {
        let instead = Returning(Arc::clone(&jobs));
        let call = jobs.submit_with_timeout_or(limit, || (), move || drop(instead)).unwrap();
        time.advance(Duration::ZERO);
        get(call).unwrap();
    }
    // Refused: the task comes back, and `instead` is dropped.
    let fill: Vec<_> = std::iter::from_fn(|| time.schedule_once(secs(9), || ()).ok()).collect();
    let instead = Returning(Arc::clone(&jobs));
    assert!(jobs.submit_with_timeout_or(secs(5), || (), move || drop(instead)).is_err());
    drop(fill);
    let _ = captured_series(&jobs, Returning(Arc::clone(&jobs)));
    jobs.shutdown(CANCEL_DELAYED);
    drop(jobs.shutdown_now());
    time.advance(secs(20));
    assert!(jobs.is_terminated());

    fn captured_series(jobs: &ScheduledExecutor, returning: Returning) -> Option<()> {
        let task = move || {
            let _ = &returning;
        };
        jobs.schedule_at_fixed_rate(secs(1), secs(1), task).ok().map(drop)
    }
}

#[test]
fn everybody_who_waits_for_the_end_is_told() {
    let jobs = with_threads(1);
    let (started, starts) = mpsc::channel();
    let (run, release) = blocker(&started);
    jobs.execute(run).unwrap();
    wait_for(&starts, 1);
    thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..3).map(|_| scope.spawn(|| jobs.await_termination(PATIENCE))).collect();
        assert!(!jobs.await_termination(ms(1)));
        jobs.shutdown(ShutdownPolicy::default());
        drop(release);
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
    assert!(jobs.await_termination(Duration::MAX));
}

#[test]
fn a_task_with_a_time_limit_that_is_done_in_time_has_its_value_and_leaves_no_timer() {
    let (time, jobs) = on_virtual_time();
    let call = jobs.submit_with_timeout(secs(10), || "value").unwrap();
    let forever = jobs.submit_with_timeout(Duration::MAX, || "forever").unwrap();
    let other = jobs.submit_with_timeout_or(secs(10), || "value", || "instead").unwrap();
    time.advance(Duration::ZERO);
    assert_eq!(time.pending(), 0);
    assert_eq!((get(call).unwrap(), get(other).unwrap()), ("value", "value"));
    assert_eq!(get(forever).unwrap(), "forever");
    let panics = jobs.submit_with_timeout(secs(10), || -> u32 { panic!("expected") }).unwrap();
    time.advance(Duration::ZERO);
    assert!(matches!(get(panics), Err(CallError::Panicked(_))));
    let cancelled = jobs.submit_with_timeout(secs(10), || ()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_task_that_has_not_started_when_its_time_is_up_never_does() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let notes = Notes::new();
    let (note, captive) = (notes.clone(), Captive::new(&notes, "captures dropped"));
    let call = jobs
        .submit_with_timeout(secs(1), move || {
            note.add("ran");
            drop(captive);
        })
        .unwrap();
    time.advance(secs(1) - ns(1));
    assert!(!call.is_done());
    time.advance(ns(1));
    assert!(call.is_done() && !call.is_cancelled() && !call.cancel());
    assert!(matches!(get(call), Err(CallError::TimedOut)));
    assert!(by_hand.run_next(), "its turn comes, and is void");
    assert_eq!(notes.take(), ["captures dropped"]);
    assert_eq!(jobs.counts().waiting, 0);
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn a_task_whose_turn_comes_after_its_time_does_not_start_although_the_timer_thread_is_late() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let notes = Notes::new();
    // Before the timers of the limits, as when the timer thread has not come to them yet.
    let turns = by_hand.clone();
    let _ = time.schedule_once(secs(1), move || while turns.run_next() {}).unwrap();
    let (note, captive) = (notes.clone(), Captive::new(&notes, "captures dropped"));
    let call = jobs
        .submit_with_timeout(secs(1), move || {
            note.add("ran");
            drop(captive);
        })
        .unwrap();
    let note = notes.clone();
    let other = jobs.submit_with_timeout_or(secs(1), move || note.add("ran"), || ()).unwrap();
    time.advance(secs(1));
    while by_hand.run_next() {}
    assert!(matches!(get(call), Err(CallError::TimedOut)));
    get(other).unwrap();
    assert_eq!(notes.take(), ["captures dropped"]);
    assert_eq!(time.pending(), 0);
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn a_task_that_runs_when_its_time_is_up_runs_on_and_its_value_is_dropped() {
    let time = virtual_time();
    let pool = Arc::new(Pool::new("limited", 1).unwrap());
    let jobs = ScheduledExecutor::with_executor(&time, pool);
    let (started, starts) = mpsc::channel();
    let (run, release) = blocker(&started);
    let notes = Notes::new();
    let value = Captive::new(&notes, "value dropped");
    let call = jobs
        .submit_with_timeout(secs(5), move || {
            run();
            value
        })
        .unwrap();
    time.advance(Duration::ZERO);
    wait_for(&starts, 1);
    time.advance(secs(5));
    assert!(matches!(get(call), Err(CallError::TimedOut)));
    assert_eq!(jobs.counts().running, 1);
    drop(release);
    eventually("its value is dropped", || notes.len() == 1);
    eventually("it is over", || jobs.counts().running == 0);
}

#[test]
fn in_a_race_of_cancel_and_time_limit_the_result_says_who_won() {
    let mut won = [0, 0];
    for round in 0..scaled(400, 10) {
        let time = virtual_time();
        let jobs = ScheduledExecutor::with_executor(&time, Arc::new(ByHand::default()));
        let call = jobs.submit_with_timeout(ms(1), || ()).unwrap();
        let canceller = call.canceller();
        let begin = Barrier::new(2);
        let cancelled = thread::scope(|scope| {
            let cancelled = scope.spawn(|| {
                begin.wait();
                // The other side has more to do before it comes to the point.
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                canceller.cancel()
            });
            begin.wait();
            time.advance(ms(1));
            cancelled.join().unwrap()
        });
        assert_eq!(call.is_cancelled(), cancelled);
        match get(call) {
            Err(CallError::Cancelled) => assert!(cancelled),
            Err(CallError::TimedOut) => assert!(!cancelled),
            other => panic!("{other:?}"),
        }
        won[usize::from(cancelled)] += 1;
    }
    println!("timed out: {}, cancelled: {}", won[0], won[1]);
}

#[test]
fn when_the_time_is_up_the_result_is_what_the_substitute_returns() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let late = jobs.submit_with_timeout_or(secs(1), || "value", || "instead").unwrap();
    let panics =
        jobs.submit_with_timeout_or(secs(1), || 1, || panic!("expected by this test")).unwrap();
    time.advance(Duration::ZERO);
    time.advance(secs(1));
    assert_eq!(by_hand.waiting(), 4, "two tasks and two substitutes");
    // The substitutes' turn comes first.
    let mut tasks = Vec::new();
    for _ in 0..2 {
        tasks.push(by_hand.take_next().unwrap());
    }
    assert!(by_hand.run_next() && by_hand.run_next());
    assert_eq!(get(late).unwrap(), "instead");
    assert!(matches!(get(panics), Err(CallError::Panicked(_))));
    for task in tasks {
        task.run();
    }
    assert_eq!((jobs.counts().completed, jobs.counts().waiting), (0, 0));
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn a_task_that_has_expired_never_starts_although_it_is_before_its_substitute_in_the_queue() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let notes = Notes::new();
    let (task, drops, substitute) = (notes.clone(), Captive::new(&notes, "dropped"), notes.clone());
    let task = move || {
        let _drops = &drops;
        task.add("task");
        "task"
    };
    let instead = move || {
        substitute.add("substitute");
        "substitute"
    };
    let call = jobs.submit_with_timeout_or(secs(1), task, instead).unwrap();
    jobs.shutdown(ShutdownPolicy::default());
    time.advance(secs(1));
    assert!(by_hand.run_next(), "the task, which has expired");
    assert!(notes.take().is_empty());
    assert!(!jobs.is_terminated());
    assert!(by_hand.run_next());
    assert_eq!(notes.take(), ["dropped", "substitute"]);
    assert_eq!(get(call).unwrap(), "substitute");
    assert_eq!(jobs.counts().completed, 0);
    assert!(jobs.is_terminated());
}

#[test]
fn a_substitute_that_the_executor_loses_ends_with_an_error_and_the_executor_can_end() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let call = jobs.submit_with_timeout_or(secs(1), || 1, || 2).unwrap();
    time.advance(secs(1));
    assert_eq!(by_hand.abandon(), 2);
    assert!(matches!(get(call), Err(CallError::Dropped)));
    jobs.shutdown(ShutdownPolicy::default());
    assert!(jobs.is_terminated());
}

#[test]
fn a_task_that_is_done_in_time_has_no_substitute() {
    let time = virtual_time();
    let by_hand = Arc::new(ByHand::default());
    let jobs = ScheduledExecutor::with_executor(&time, by_hand.clone());
    let call = jobs.submit_with_timeout_or(secs(1), || "task", || "substitute").unwrap();
    time.advance(Duration::ZERO);
    assert!(by_hand.run_next());
    time.advance(secs(1));
    assert!(!by_hand.run_next());
    assert_eq!(get(call).unwrap(), "task");
    assert_eq!(jobs.counts().completed, 1);
}

#[test]
fn the_time_limit_comes_through_although_every_thread_is_blocked() {
    let jobs = with_threads(1);
    let (started, starts) = mpsc::channel();
    let (run, release) = blocker(&started);
    jobs.execute(run).unwrap();
    wait_for(&starts, 1);
    let call = jobs.submit_with_timeout(ms(2), || ()).unwrap();
    assert!(matches!(get(call), Err(CallError::TimedOut)));
    drop(release);
}

#[test]
fn invoking_all_returns_results_in_the_order_of_the_tasks() {
    let jobs = with_threads(2);
    let results = jobs.invoke_all((0..20_u32).map(|n| move || n * n));
    let values: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(values, (0..20).map(|n| n * n).collect::<Vec<_>>());
    assert!(jobs.invoke_all(Vec::<fn() -> u32>::new()).is_empty());
    let tasks: [fn() -> u32; 2] = [|| 1, || panic!("expected by this test")];
    let results = jobs.invoke_all(tasks);
    assert!(matches!(results[..], [Ok(1), Err(CallError::Panicked(_))]));
    jobs.shutdown(ShutdownPolicy::default());
    let results = jobs.invoke_all(tasks);
    let refused = |result: &Result<u32, CallError>| {
        matches!(result, Err(CallError::Refused(Refusal::ShutDown)))
    };
    assert!(results.len() == 2 && results.iter().all(refused));
}

#[test]
fn of_three_tasks_invoked_with_a_limit_only_the_one_that_blocks_times_out() {
    let time = virtual_time();
    let pool = Arc::new(Pool::new("invoke", 3).unwrap());
    let jobs = ScheduledExecutor::with_executor(&time, pool);
    let (started, starts) = mpsc::channel();
    let (run, release) = blocker(&started);
    let (done, dones) = mpsc::channel();
    let quick = |value: u32| {
        let done = done.clone();
        move || {
            done.send(()).unwrap();
            value
        }
    };
    let tasks: [Box<dyn FnOnce() -> u32 + Send>; 3] = [
        Box::new(quick(1)),
        Box::new(move || {
            run();
            2
        }),
        Box::new(quick(3)),
    ];
    thread::scope(|scope| {
        let invoked = scope.spawn(|| jobs.invoke_all_timeout(tasks, secs(60)));
        // Three tasks, each with its limit, go out at the first movement of time.
        eventually("all are submitted", || jobs.counts().waiting == 3 && time.pending() == 6);
        time.advance(Duration::ZERO);
        wait_for(&starts, 1);
        wait_for(&dones, 2);
        eventually("two are over", || jobs.counts().completed == 2);
        assert!(!invoked.is_finished());
        time.advance(secs(60));
        let results = invoked.join().unwrap();
        assert!(matches!(results[..], [Ok(1), Err(CallError::TimedOut), Ok(3)]), "{results:?}");
    });
    drop(release);
    assert_eq!(time.pending(), 0);
}

#[test]
fn invoking_any_returns_the_first_success_and_calls_off_the_rest() {
    let jobs = with_threads(1);
    let (started, starts) = mpsc::channel();
    let ran = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Barrier::new(2));
    // One thread: the third task blocks it until `invoke_any` has returned.
    let tasks: Vec<Box<dyn FnOnce() -> Result<u32, &'static str> + Send>> = (0..6_u32)
        .map(|number| {
            let (started, ran, gate) = (started.clone(), Arc::clone(&ran), Arc::clone(&gate));
            let task = move || {
                ran.fetch_add(1, Ordering::SeqCst);
                match number {
                    0 => Err("failed"),
                    1 => Ok(1),
                    _ => {
                        started.send(()).unwrap();
                        gate.wait();
                        Ok(number)
                    }
                }
            };
            Box::new(task) as Box<_>
        })
        .collect();
    assert_eq!(jobs.invoke_any(tasks).unwrap(), 1);
    eventually("the rest is called off", || jobs.counts().waiting == 0);
    eventually("nothing runs", || {
        if starts.try_recv().is_ok() {
            gate.wait();
        }
        jobs.counts().running == 0
    });
    assert!(ran.load(Ordering::SeqCst) <= 3);
}

#[test]
fn invoking_any_says_why_nothing_succeeded() {
    let jobs = with_threads(2);
    type Task = fn() -> Result<u32, &'static str>;
    let none = jobs.invoke_any(Vec::<Task>::new());
    assert!(matches!(none, Err(InvokeAnyError::NoTasks)));
    let tasks: [Task; 2] = [|| Err("failed"), || panic!("expected by this test")];
    let Err(InvokeAnyError::AllFailed(failures)) = jobs.invoke_any(tasks) else {
        panic!("one of them succeeded");
    };
    assert_eq!(failures.len(), 2);
    assert!(failures.iter().any(|f| matches!(f, TaskFailure::NoResult(CallError::Panicked(_)))));
    let errors: Vec<_> = failures.into_iter().filter_map(TaskFailure::into_error).collect();
    assert_eq!(errors, ["failed"]);
    let tasks: [Task; 3] = [|| Err("failed"), || Ok(7), || Err("failed")];
    assert_eq!(jobs.invoke_any(tasks).unwrap(), 7);
    assert_eq!(jobs.invoke_any_timeout(tasks, PATIENCE).unwrap(), 7);
    jobs.shutdown(ShutdownPolicy::default());
    assert!(
        matches!(jobs.invoke_any(tasks), Err(InvokeAnyError::AllFailed(all)) if all.len() == 3)
    );
}

#[test]
fn invoking_any_with_a_limit_gives_up_when_nothing_succeeds_in_time() {
    let time = virtual_time();
    let pool = Arc::new(Pool::new("invoke", 2).unwrap());
    let jobs = ScheduledExecutor::with_executor(&time, pool);
    let (started, starts) = mpsc::channel();
    let (run, release) = blocker(&started);
    let tasks: [Box<dyn FnOnce() -> Result<u32, &'static str> + Send>; 2] = [
        Box::new(|| Err("failed")),
        Box::new(move || {
            run();
            Ok(2)
        }),
    ];
    thread::scope(|scope| {
        let invoked = scope.spawn(|| jobs.invoke_any_timeout(tasks, secs(60)));
        eventually("both are submitted", || jobs.counts().waiting == 2 && time.pending() == 4);
        time.advance(Duration::ZERO);
        wait_for(&starts, 1);
        time.advance(secs(60));
        assert!(matches!(invoked.join().unwrap(), Err(InvokeAnyError::TimedOut)));
    });
    drop(release);
}

#[test]
fn in_a_race_of_schedule_cancel_and_shutdown_every_task_has_one_end() {
    for round in 0..scaled(30, 2) {
        let jobs = with_threads(2);
        let ran = Arc::new(AtomicUsize::new(0));
        let each = scaled(300, 20);
        let begin = Barrier::new(4);
        let (mut accepted, mut cancelled) = (Vec::new(), 0);
        let mut unstarted = Vec::new();
        thread::scope(|scope| {
            let (jobs, begin) = (&jobs, &begin);
            let producers: Vec<_> = (0..3)
                .map(|producer| {
                    let ran = Arc::clone(&ran);
                    scope.spawn(move || {
                        let mut random = Xorshift(round as u64 * 3 + producer + 1);
                        let (mut accepted, mut cancelled) = (Vec::new(), 0);
                        begin.wait();
                        for _ in 0..each {
                            let ran = Arc::clone(&ran);
                            let delay = Duration::from_micros(random.below(500));
                            let run = move || {
                                ran.fetch_add(1, Ordering::SeqCst);
                            };
                            let Ok(call) = jobs.schedule(delay, run) else { break };
                            cancelled += usize::from(random.below(3) == 0 && call.cancel());
                            accepted.push(call);
                        }
                        (accepted, cancelled)
                    })
                })
                .collect();
            begin.wait();
            thread::yield_now();
            unstarted = jobs.shutdown_now();
            for producer in producers {
                let (calls, count) = producer.join().unwrap();
                accepted.extend(calls);
                cancelled += count;
            }
        });
        assert!(jobs.await_termination(PATIENCE));
        let handed_back = unstarted.len();
        assert_eq!(accepted.len(), ran.load(Ordering::SeqCst) + cancelled + handed_back);
        drop(unstarted);
        let (mut values, mut cancels, mut drops) = (0, 0, 0);
        for call in accepted {
            match get(call) {
                Ok(()) => values += 1,
                Err(CallError::Cancelled) => cancels += 1,
                Err(CallError::Dropped) => drops += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((values, cancels, drops), (ran.load(Ordering::SeqCst), cancelled, handed_back));
    }
}
