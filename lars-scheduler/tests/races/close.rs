//! Stopping, closing and dropping: everything that was accepted comes back, once, and nobody hangs.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Captive, Notes, PATIENCE, Xorshift, eventually, in_lead, ms, occupy, scaled, secs, settle,
    virtual_time,
};
use lars_scheduler::executor::TaskBody;
use lars_scheduler::{
    CloseError, ClosePolicy, CloseReport, Handle, LightArrayRevolverScheduler, PendingTask,
    Periodic, Refusal, Task, VirtualTime,
};

fn scheduler() -> LightArrayRevolverScheduler {
    LightArrayRevolverScheduler::new().unwrap()
}

fn with_policy(policy: ClosePolicy) -> VirtualTime {
    LightArrayRevolverScheduler::builder().close_policy(policy).build_virtual().unwrap()
}

#[test]
fn stop_hands_back_every_pending_task_once_and_the_earliest_deadline_first() {
    let time = virtual_time();
    let notes = Notes::new();
    let mut random = Xorshift(5);
    let (mut expected, mut cancelled) = (Vec::new(), 0);
    for number in 0..scaled(3_000, 60) {
        // Many equal ones among them, on all levels of the wheel.
        let delay = 1 + (random.below(100) << random.below(32));
        let note = notes.clone();
        let timer = time.schedule_once(ms(delay), move || note.add((delay, number))).unwrap();
        match number % 3 {
            0 => {
                assert!(timer.cancel());
                cancelled += 1;
            }
            _ => expected.push((delay, number)),
        }
        if number % 100 == 0 {
            time.advance(Duration::ZERO); // some are in the wheel, some in the intake
        }
    }
    expected.sort();
    let pending = time.stop().wait();
    assert_eq!(pending.len(), expected.len());
    assert!(pending.iter().map(PendingTask::due).is_sorted());
    assert_eq!(notes.len(), 0, "nothing runs by itself");
    assert!(pending.into_iter().all(PendingTask::run));
    assert!(notes.take() == expected, "by deadline, and then by call");
    let metrics = time.metrics();
    assert_eq!(metrics.handed_back, expected.len() as u64);
    assert_eq!((metrics.pending, metrics.cancelled), (0, cancelled));
}

#[test]
fn a_second_stop_resolves_at_once_with_nothing_also_while_the_first_is_pending() {
    let scheduler = scheduler();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    let held = occupy(&scheduler);
    let first = scheduler.stop();
    assert!(scheduler.stop().wait().is_empty(), "it does not wait for the timer thread");
    drop(held);
    assert_eq!(first.wait().len(), 1);
    assert!(scheduler.stop().wait().is_empty());
}

#[test]
fn exactly_one_of_many_threads_that_stop_gets_the_tasks() {
    for _ in 0..scaled(50, 3) {
        let scheduler = scheduler();
        let tasks = 20;
        for _ in 0..tasks {
            let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
        }
        let mut counts: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| scope.spawn(|| scheduler.stop().wait().len())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        counts.sort();
        assert_eq!(counts, [0, 0, tasks]);
    }
}

#[test]
fn a_stop_can_be_awaited_and_waited_for_with_a_limit() {
    let time = virtual_time();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    assert_eq!(futures::executor::block_on(time.stop()).len(), 1);

    let scheduler = scheduler();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    let held = occupy(&scheduler);
    let still_busy = scheduler.stop().wait_timeout(ms(5)).unwrap_err();
    drop(held);
    assert_eq!(still_busy.wait_timeout(PATIENCE).unwrap().len(), 1, "nothing was lost");
}

#[test]
fn a_task_handed_back_knows_when_it_was_due_and_what_it_is() {
    let time = virtual_time();
    let start = time.now();
    let _ = time.schedule_once(ms(3), || ()).unwrap();
    let _ = time.schedule_once(ms(4), Task::new(|| ()).run_on_close()).unwrap();
    let _ = time.schedule_at_fixed_rate(ms(5), ms(5), || ()).unwrap();
    let _ = time.schedule_once(Duration::MAX, || ()).unwrap();
    time.advance(ms(1));
    let pending = time.stop().wait();
    let facts: Vec<_> = pending
        .iter()
        .map(|task| (task.due() >= Some(start + ms(6)), task.runs_on_close(), task.is_repeat()))
        .collect();
    assert_eq!(facts[..3], [(false, false, false), (false, true, false), (false, false, true)],);
    assert_eq!(pending[0].due(), Some(start + ms(3)));
    assert_eq!(pending[3].due(), None, "after `Duration::MAX` it never is");
    assert_eq!(pending.len(), 4);
}

#[test]
fn a_task_handed_back_that_is_dropped_drops_its_captures_and_calls_no_hook() {
    let time = virtual_time();
    let notes = Notes::new();
    let (captive, hook) = (Captive::new(&notes, "captures dropped"), notes.clone());
    let task = Task::new(move || drop(captive)).on_cancel(move || hook.add("hook"));
    let timer = time.schedule_once(ms(1), task).unwrap();
    let pending = time.stop().wait();
    assert_eq!(notes.len(), 0);
    assert!(!timer.cancel(), "it is the holder's now");
    drop(pending);
    assert_eq!(notes.take(), ["captures dropped"]);
}

#[test]
fn dropping_the_future_of_a_stop_drops_the_tasks() {
    let scheduler = scheduler();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let _ = scheduler.schedule_once(secs(10), move || drop(captive)).unwrap();
    drop(scheduler.stop());
    eventually("the captures go", || notes.len() == 1);
    assert_eq!(scheduler.metrics().handed_back, 1);
}

#[test]
fn a_repeat_handed_back_runs_once_more_at_most() {
    let time = virtual_time();
    let notes = Notes::new();
    let note = notes.clone();
    let series = time.schedule_at_fixed_rate(ms(1), ms(1), move || note.add("ran")).unwrap();
    time.advance(ms(2));
    assert_eq!(notes.take(), ["ran", "ran"]);
    let mut pending = time.stop().wait();
    assert_eq!(pending.len(), 1);
    assert!(pending[0].is_repeat());
    assert!(pending.pop().unwrap().run());
    assert_eq!(notes.take(), ["ran"]);
    assert!(!series.cancel() && !series.is_pending());
    assert_eq!(time.advance(secs(1)), 0);
}

/// Kafka's `SystemTimer` accepts what is added after its close, and loses it.
#[test]
fn scheduling_after_a_stop_is_refused_and_the_task_is_given_back() {
    let time = virtual_time();
    drop(time.stop().wait());
    let notes = Notes::new();
    let note = notes.clone();
    let error = time.schedule_once(Duration::ZERO, move || note.add("ran")).unwrap_err();
    assert_eq!(*error.refusal(), Refusal::Stopped);
    assert_eq!(
        error.to_string(),
        "the scheduler has been stopped; nothing can be scheduled on it any more",
    );
    assert_eq!(time.advance(secs(1)), 0);
    assert_eq!(notes.len(), 0, "a call that returned an error never runs its task");
    error.into_task()();
    assert_eq!(notes.take(), ["ran"]);
    assert!(time.is_stopped());

    // All the ways to schedule are closed, and options and bodies come back as they were.
    assert!(time.schedule_at(time.now(), || ()).is_err());
    assert!(time.schedule_at_fixed_rate(ms(1), ms(1), || ()).is_err());
    let note = notes.clone();
    let task = Periodic::new(move || note.add("ran"));
    let error = time.schedule_with_fixed_delay(ms(1), ms(1), task).unwrap_err();
    let (refusal, _task) = error.into_parts();
    assert_eq!(refusal, Refusal::Stopped);
    struct Letter(u8);
    impl TaskBody for Letter {
        fn run(self) {}
    }
    let error = time.schedule_once(ms(1), Task::new(Letter(7)).inline()).unwrap_err();
    assert_eq!(error.into_task().into_body().0, 7);
}

#[test]
fn a_refusal_passes_through_the_usual_boxed_errors() {
    fn refused(timers: &Handle) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let _ = timers.schedule_once(ms(1), || ())?;
        Ok(())
    }
    let time = virtual_time();
    assert!(refused(&time).is_ok());
    drop(time.stop());
    assert!(refused(&time).unwrap_err().to_string().contains("stopped"));
}

/// Netty loses timeouts that race with its stop: 25 of ten million accepted ones neither fired nor
/// were returned.
#[test]
fn every_task_accepted_in_a_race_with_stop_has_run_or_is_handed_back() {
    for round in 0..scaled(100, 3) as u64 {
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(10))
            .inline()
            .build()
            .unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let stopping = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (timers, ran) = (scheduler.handle(), Arc::clone(&ran));
                let stopping = Arc::clone(&stopping);
                thread::spawn(move || {
                    let (mut accepted, mut refused) = (0, 0);
                    while refused < 10 {
                        let ran = Arc::clone(&ran);
                        let delay = Duration::from_micros(thread * 40);
                        let run = move || {
                            ran.fetch_add(1, Ordering::SeqCst);
                        };
                        match timers.schedule_once(delay, run) {
                            Ok(_) => accepted += 1,
                            Err(_) => {
                                assert!(stopping.load(Ordering::SeqCst));
                                refused += 1;
                            }
                        }
                    }
                    accepted
                })
            })
            .collect();
        thread::sleep(Duration::from_micros(50 + round * 37 % 500));
        stopping.store(true, Ordering::SeqCst);
        let pending = scheduler.stop().wait();
        let handed_back = pending.len();
        let accepted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        // The promise was kept: nothing starts after it.
        let fired = ran.load(Ordering::SeqCst);
        assert_eq!(fired + handed_back, accepted);
        drop(pending);
        assert_eq!(ran.load(Ordering::SeqCst), fired);
        assert_eq!(scheduler.pending(), 0);
    }
}

/// After Netty's stop its count of pending timeouts stays where it was, and each refused call adds
/// one more.
#[test]
fn nothing_is_pending_after_a_stop_and_refused_calls_do_not_change_that() {
    let time = LightArrayRevolverScheduler::builder().max_pending(10).build_virtual().unwrap();
    let timers: Vec<_> = (0..5).map(|_| time.schedule_once(ms(1), || ()).unwrap()).collect();
    assert_eq!(time.pending(), 5);
    let pending = time.stop().wait();
    assert_eq!(time.pending(), 0);
    assert!(timers.iter().all(|timer| !timer.is_pending() && !timer.cancel()));
    for _ in 0..20 {
        let error = time.schedule_once(ms(1), || ()).unwrap_err();
        assert_eq!(*error.refusal(), Refusal::Stopped, "and not Full");
    }
    let metrics = time.metrics();
    assert_eq!((metrics.pending, metrics.refused, metrics.cancelled), (0, 20, 0));
    assert_eq!(pending.len(), 5);
}

#[test]
fn close_runs_the_pending_one_shots_on_the_calling_thread_in_order_of_their_deadlines() {
    let scheduler = scheduler();
    let notes = Notes::new();
    for delay in [30, 10, 20, 10, 3_600] {
        let note = notes.clone();
        let run = move || note.add((delay, thread::current().id()));
        let task = Task::new(run);
        // Where a task would run makes no difference.
        let task = if delay == 20 { task.inline() } else { task };
        let _ = scheduler.schedule_once(secs(delay), task).unwrap();
    }
    let cancelled = scheduler.schedule_once(secs(5), || unreachable!("it was cancelled")).unwrap();
    assert!(cancelled.cancel());
    let beat = scheduler.schedule_at_fixed_rate(secs(1), secs(1), || ()).unwrap();
    let report = scheduler.close().unwrap();
    let expected = CloseReport::default();
    assert_eq!((report.ran, report.repeats_ended), (5, 1));
    assert_eq!(
        (report.panicked, report.dropped, report.unfinished),
        (expected.panicked, expected.dropped, expected.unfinished),
    );
    assert_eq!(
        report.to_string(),
        "run on close: 5 (panicked: 0), dropped: 0, repeats ended: 1, unfinished: 0",
    );
    let here = thread::current().id();
    let order = notes.take();
    assert_eq!(order.iter().map(|note| note.0).collect::<Vec<_>>(), [10, 10, 20, 30, 3_600]);
    assert!(order.iter().all(|note| note.1 == here));
    assert!(!beat.cancel() && !beat.is_pending());
    assert_eq!(scheduler.close().unwrap(), CloseReport::default(), "a second close does nothing");
    assert_eq!(scheduler.schedule_once(ms(1), || ()).unwrap_err().refusal(), &Refusal::Stopped);
}

#[test]
fn under_run_marked_only_the_marked_tasks_run_on_close_and_the_others_are_dropped() {
    let time = with_policy(ClosePolicy::RunMarked);
    let notes = Notes::new();
    let (plain, captive) = (notes.clone(), Captive::new(&notes, "plain dropped"));
    let _ = time
        .schedule_once(secs(10), move || {
            drop(captive);
            plain.add("plain ran");
        })
        .unwrap();
    let marked = notes.clone();
    let task = Task::new(move || marked.add("marked ran")).run_on_close();
    let _ = time.schedule_once(secs(20), task).unwrap();
    let report = time.close().unwrap();
    assert_eq!((report.ran, report.dropped), (1, 1));
    assert_eq!(notes.take(), ["plain dropped", "marked ran"]);
}

/// As Akka's `TaskRunOnClose`.
#[test]
fn a_marked_repeat_runs_once_more_on_close_if_the_policy_runs_what_is_marked() {
    use ClosePolicy::{RunMarked, RunNone, RunPending};
    for (policy, runs) in [(RunPending, 1), (RunMarked, 1), (RunNone, 0)] {
        let time = with_policy(policy);
        let notes = Notes::new();
        let repeat = |name: &'static str| {
            let (note, captive) = (notes.clone(), Captive::new(&notes, "dropped"));
            Periodic::new(move || {
                let _ = &captive;
                note.add(name);
            })
        };
        // One has run before, one not; one is at a rate, and one has an end.
        let marked = repeat("marked").run_on_close();
        let series = time.schedule_with_fixed_delay(secs(1), secs(2), marked).unwrap();
        let marked = repeat("marked").run_on_close().times(5);
        let _ = time.schedule_at_fixed_rate(secs(10), secs(2), marked).unwrap();
        let _ = time.schedule_at_fixed_rate(secs(1), secs(2), repeat("plain")).unwrap();
        time.advance(secs(2));
        assert_eq!(notes.take(), ["marked", "plain"]);
        let report = time.close().unwrap();
        let counts = (report.ran, report.repeats_ended, report.dropped, report.panicked);
        assert_eq!(counts, (2 * runs, 3, 0, 0), "{policy:?}");
        let mut noted = notes.take();
        noted.sort_unstable();
        let expected = [vec!["dropped"; 3], vec!["marked"; 2 * runs]].concat();
        assert_eq!(noted, expected, "{policy:?}");
        assert!(!series.is_pending() && !series.cancel());
    }
}

#[test]
fn a_marked_repeat_that_panics_or_ends_in_its_run_on_close_is_over_and_reported() {
    let time = virtual_time();
    let bomb = Periodic::new(|| -> () { panic!("on close") }).run_on_close();
    let _ = time.schedule_with_fixed_delay(secs(1), secs(2), bomb).unwrap();
    let last = Periodic::new(|| ControlFlow::<()>::Break(())).run_on_close();
    let _ = time.schedule_with_fixed_delay(secs(1), secs(2), last).unwrap();
    let report = time.close().unwrap();
    assert_eq!((report.ran, report.repeats_ended, report.panicked), (2, 2, 1));
    assert_eq!((time.metrics().panicked, time.pending()), (1, 0));
}

#[test]
fn under_run_none_close_drops_everything_and_runs_nothing() {
    let time = with_policy(ClosePolicy::RunNone);
    let notes = Notes::new();
    for _ in 0..3 {
        let captive = Captive::new(&notes, "dropped");
        let note = notes.clone();
        let task = Task::new(move || {
            drop(captive);
            note.add("ran");
        });
        let _ = time.schedule_once(secs(10), task.run_on_close()).unwrap();
    }
    let report = time.close().unwrap();
    assert_eq!((report.ran, report.dropped), (0, 3));
    assert_eq!(notes.take(), ["dropped"; 3]);
}

#[test]
fn a_task_that_panics_on_close_is_reported_and_the_next_ones_run() {
    let time = virtual_time();
    let notes = Notes::new();
    let _ = time.schedule_once(ms(1), || panic!("expected by this test")).unwrap();
    let note = notes.clone();
    let _ = time.schedule_once(ms(2), move || note.add("ran")).unwrap();
    let report = time.close().unwrap();
    assert_eq!((report.ran, report.panicked), (2, 1));
    assert_eq!(notes.take(), ["ran"]);
    assert_eq!(time.metrics().panicked, 1);
}

#[test]
fn what_a_task_schedules_during_close_is_refused_and_given_back() {
    let scheduler = scheduler();
    let notes = Notes::new();
    let (timers, note) = (scheduler.handle(), notes.clone());
    let run = move || {
        let inner = note.clone();
        match timers.schedule_once(Duration::ZERO, move || inner.add("inner ran".to_owned())) {
            Ok(_) => note.add("accepted".to_owned()),
            Err(error) => note.add(format!("{:?}", error.refusal())),
        }
    };
    let _ = scheduler.schedule_once(secs(10), run).unwrap();
    let report = scheduler.close().unwrap();
    assert_eq!((report.ran, report.panicked), (1, 0));
    assert_eq!(notes.take(), ["Stopped"]);
}

#[test]
fn a_series_whose_run_is_under_way_when_the_scheduler_stops_ends_with_it() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let (release, hold) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let series = scheduler
        .schedule_with_fixed_delay(Duration::ZERO, ms(1), move || {
            let _ = &captive;
            entered.send(()).unwrap();
            let _ = hold.recv();
        })
        .unwrap();
    inside.recv_timeout(PATIENCE).unwrap();
    assert!(scheduler.stop().wait().is_empty(), "it has started");
    assert_eq!(notes.len(), 0);
    drop(release);
    eventually("the captures go", || notes.len() == 1);
    assert!(!series.cancel());
}

#[test]
fn close_called_on_the_timer_thread_is_refused_instead_of_waiting_for_itself() {
    let scheduler = Arc::new(scheduler());
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    let inside = Arc::clone(&scheduler);
    let task = Task::new(move || {
        let error = inside.close().unwrap_err();
        sender.send((error.to_string(), matches!(error, CloseError::OnTimerThread))).unwrap();
    });
    let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
    let (text, refused) = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(refused, "{text}");
    assert_eq!(text, "close was called on the timer thread, which it has to wait for");
    assert!(!scheduler.is_stopped(), "nothing has happened");
    assert_eq!(scheduler.close().unwrap().ran, 1);
}

#[test]
fn a_stop_on_the_timer_thread_does_not_wait_and_resolves_when_the_task_is_done() {
    let scheduler = Arc::new(scheduler());
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    let inside = Arc::clone(&scheduler);
    let task = Task::new(move || sender.send(inside.stop()).unwrap()).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, task).unwrap();
    let future = receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(future.wait().len(), 1);
}

#[test]
fn close_gives_up_after_the_shutdown_timeout_and_the_future_gives_the_tasks_back_later() {
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(ms(20)).build().unwrap();
    let notes = Notes::new();
    let note = notes.clone();
    let _ = scheduler.schedule_once(secs(10), move || note.add("ran")).unwrap();
    let held = occupy(&scheduler);
    let begin = Instant::now();
    let error = scheduler.close().unwrap_err();
    assert!(begin.elapsed() >= ms(20), "it has waited");
    assert_eq!(
        error.to_string(),
        "the timer thread did not stop within the shutdown_timeout of 20ms",
    );
    assert_eq!(scheduler.schedule_once(ms(1), || ()).unwrap_err().refusal(), &Refusal::Stopped);
    let CloseError::Timeout { limit, pending } = error else { panic!("{error}") };
    assert_eq!(limit, ms(20));
    drop(held);
    for task in pending.wait() {
        assert!(task.run());
    }
    assert_eq!(notes.take(), ["ran"]);
}

#[test]
fn close_waits_for_the_tasks_that_the_pool_has_begun() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(2)).build().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let (entered, inside) = mpsc::channel();
    let tasks = 6;
    for _ in 0..tasks {
        let (done, entered) = (Arc::clone(&done), entered.clone());
        let run = move || {
            entered.send(()).unwrap();
            thread::sleep(ms(10));
            done.fetch_add(1, Ordering::SeqCst);
        };
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    }
    inside.recv_timeout(PATIENCE).unwrap();
    let report = scheduler.close().unwrap();
    // What had not been fired yet was run by the close itself.
    assert_eq!((report.unfinished, done.load(Ordering::SeqCst)), (0, tasks));
}

#[test]
fn close_reports_tasks_that_the_pool_does_not_finish_in_time_and_the_pool_goes_on_with_them() {
    in_lead(|limit| {
        let scheduler = LightArrayRevolverScheduler::builder()
            .pool(|pool| pool.threads(1))
            .shutdown_timeout(limit)
            .build()
            .unwrap();
        let notes = Notes::new();
        let (release, hold) = mpsc::channel::<()>();
        let (entered, inside) = mpsc::channel();
        let (note, queued) = (notes.clone(), notes.clone());
        let run = move || {
            entered.send(()).unwrap();
            let _ = hold.recv();
            note.add("slow");
        };
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
        let _ = scheduler.schedule_once(Duration::ZERO, move || queued.add("queued")).unwrap();
        inside.recv_timeout(PATIENCE).unwrap();
        settle(&scheduler);
        // The limit is for the timer thread's end as well, which may take longer.
        let report = match scheduler.close() {
            Err(CloseError::Timeout { .. }) => return None,
            closed => closed.unwrap(),
        };
        assert_eq!(report.unfinished, 2);
        drop(scheduler);
        assert_eq!(notes.len(), 0);
        drop(release);
        eventually("both run", || notes.len() == 2);
        assert_eq!(notes.take(), ["slow", "queued"]);
        Some(())
    });
}

#[test]
fn a_task_on_the_pool_may_close_the_scheduler_and_does_not_wait_for_itself() {
    let scheduler = Arc::new(scheduler());
    let (sender, receiver) = mpsc::channel();
    let note = Notes::new();
    let pending = note.clone();
    let _ = scheduler.schedule_once(secs(10), move || pending.add(())).unwrap();
    let inside = Arc::clone(&scheduler);
    let run = move || sender.send(inside.close().unwrap()).unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    let report = receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!((report.ran, report.unfinished), (1, 1), "itself");
    assert_eq!(note.len(), 1);
}

#[test]
fn a_task_on_the_pool_that_closes_the_scheduler_waits_for_the_others_of_the_pool() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(2)).build().unwrap();
    let scheduler = Arc::new(scheduler);
    let notes = Notes::new();
    let (entered, inside) = mpsc::channel();
    let slow = notes.clone();
    let run = move || {
        entered.send(()).unwrap();
        thread::sleep(ms(50));
        slow.add("slow");
    };
    let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    inside.recv_timeout(PATIENCE).unwrap();
    let (sender, receiver) = mpsc::channel();
    let (closing, note) = (Arc::clone(&scheduler), notes.clone());
    let run = move || {
        let report = closing.close().unwrap();
        note.add("closed");
        sender.send(report.unfinished).unwrap();
    };
    let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 1, "itself");
    assert_eq!(notes.take(), ["slow", "closed"]);
}

#[test]
fn dropping_the_owner_drops_pending_tasks_unrun_and_ends_the_thread() {
    let notes = Notes::new();
    let (alive, thread_ends) = mpsc::channel::<()>();
    {
        let scheduler = scheduler();
        let (note, captive) = (notes.clone(), Captive::new(&notes, "captures dropped"));
        let run = move || {
            drop(captive);
            note.add("ran");
        };
        let _ = scheduler.schedule_once(secs(3_600), run).unwrap();
        // A thread-local on the timer thread that is dropped when that ends.
        thread_local! {
            static ALIVE: Mutex<Option<mpsc::Sender<()>>> = const { Mutex::new(None) };
        }
        let task = Task::new(move || ALIVE.with(|cell| *cell.lock().unwrap() = Some(alive)));
        let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
        settle(&scheduler);
    }
    assert_eq!(notes.take(), ["captures dropped"]);
    let gone = thread_ends.recv_timeout(PATIENCE).unwrap_err();
    assert_eq!(gone, mpsc::RecvTimeoutError::Disconnected);
}

#[test]
fn handles_that_outlive_the_owner_are_refused() {
    let timers = scheduler().handle();
    assert!(timers.is_stopped());
    let error = timers.schedule_once(ms(1), || ()).unwrap_err();
    assert_eq!(*error.refusal(), Refusal::Stopped);
    let time = virtual_time();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let _ = time.schedule_once(ms(1), move || drop(captive)).unwrap();
    let timers = time.handle();
    drop(time);
    assert_eq!(notes.take(), ["captures dropped"]);
    let error = timers.schedule_once(ms(1), || ()).unwrap_err();
    assert_eq!(*error.refusal(), Refusal::Stopped);
}

#[test]
fn dropping_the_owner_while_a_task_occupies_its_thread_waits_no_longer_than_the_timeout() {
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(ms(20)).build().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "captures dropped");
    let _ = scheduler.schedule_once(secs(10), move || drop(captive)).unwrap();
    let held = occupy(&scheduler);
    drop(scheduler); // returns, or this test hangs: the thread is held until the next line
    drop(held);
    eventually("the captures go", || notes.len() == 1);
}

#[test]
fn an_inline_task_may_drop_the_owner() {
    let notes = Notes::new();
    let scheduler = scheduler();
    let timers = scheduler.handle();
    let captive = Captive::new(&notes, "captures dropped");
    let _ = timers.schedule_once(secs(10), move || drop(captive)).unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = Task::new(move || {
        drop(scheduler);
        sender.send(()).unwrap();
    });
    let _ = timers.schedule_once(Duration::ZERO, task.inline()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    eventually("the pending task is dropped", || notes.len() == 1);
    assert!(timers.is_stopped());
}

#[test]
fn a_task_on_the_pool_may_drop_the_owner() {
    let scheduler = scheduler();
    let timers = scheduler.handle();
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        drop(scheduler);
        sender.send(()).unwrap();
    };
    let _ = timers.schedule_once(Duration::ZERO, run).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(timers.is_stopped());
}

#[test]
fn the_owner_may_be_dropped_right_after_its_construction_and_after_a_close() {
    for _ in 0..scaled(50, 3) {
        drop(scheduler());
        let scheduler = scheduler();
        assert_eq!(scheduler.close().unwrap(), CloseReport::default());
        drop(scheduler);
    }
}

#[test]
fn a_shutdown_timeout_of_zero_does_not_hang_and_one_without_end_waits() {
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(Duration::ZERO).build().unwrap();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    match scheduler.close() {
        Ok(report) => assert_eq!(report.ran, 1),
        Err(CloseError::Timeout { limit, pending }) => {
            assert_eq!(limit, Duration::ZERO);
            assert_eq!(pending.wait().len(), 1);
        }
        Err(other) => panic!("{other}"),
    }
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(Duration::MAX).build().unwrap();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    let held = occupy(&scheduler);
    let releaser = thread::spawn(move || {
        thread::sleep(ms(30));
        drop(held);
    });
    assert_eq!(scheduler.close().unwrap().ran, 1);
    releaser.join().unwrap();
}

#[test]
fn closing_again_does_not_wait_for_a_task_that_still_occupies_the_timer_thread() {
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(ms(20)).build().unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let (entered, wait) = mpsc::channel();
    let task = Task::new(move || {
        entered.send(()).unwrap();
        let _ = hold.recv();
    });
    let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
    wait.recv_timeout(common::PATIENCE).unwrap();
    assert!(matches!(scheduler.close(), Err(CloseError::Timeout { .. })));
    // The task goes on only after this has returned.
    assert_eq!(scheduler.close().unwrap().ran, 0);
    drop(release);
}

#[test]
fn a_stop_can_be_waited_for_inside_an_executor_of_futures() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let _ = scheduler.schedule_once(common::secs(3600), || ()).unwrap();
    let pending = futures::executor::block_on(async { scheduler.stop().wait() });
    assert_eq!(pending.len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_cancellable_that_outlives_its_scheduler_keeps_no_thread_alive() {
    let threads = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
            .filter(|name| name.starts_with("outlived"))
            .count()
    };
    let scheduler = LightArrayRevolverScheduler::builder()
        .thread_name("outlived")
        .pool(|pool| pool.threads(3))
        .build()
        .unwrap();
    let held = scheduler.schedule_once(common::secs(3600), || ()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(common::PATIENCE).unwrap();
    assert!(threads() > 0);
    drop(scheduler);
    common::eventually("the threads end", || threads() == 0);
    assert!(!held.cancel());
}

#[test]
fn a_cancellable_that_outlives_its_scheduler_keeps_no_executor() {
    use lars_scheduler::Executor;
    use lars_scheduler::executor::{Rejected, Runnable};
    struct Here(#[allow(dead_code)] Captive);
    impl Executor for Here {
        fn execute(&self, task: Runnable) -> Result<(), Rejected> {
            task.run();
            Ok(())
        }
    }
    let notes = Notes::new();
    let build = || {
        let executor = Here(Captive::new(&notes, "dropped"));
        LightArrayRevolverScheduler::builder().executor(executor)
    };
    let time = build().build_virtual().unwrap();
    let (fired, pending) =
        (time.schedule_once(ms(1), || ()).unwrap(), time.schedule_once(ms(9), || ()).unwrap());
    let series = time.schedule_with_fixed_delay(ms(1), ms(1), || ()).unwrap();
    time.advance(ms(5));
    drop(time);
    assert_eq!(notes.take(), ["dropped"]);
    drop((fired, pending, series));
    let scheduler = build().build().unwrap();
    let kept = scheduler.schedule_once(secs(10), || ()).unwrap();
    drop(scheduler);
    assert_eq!(notes.take(), ["dropped"]);
    drop(kept);
}

#[test]
fn a_task_with_an_executor_of_its_own_runs_on_the_closing_thread_too() {
    use lars_scheduler::Executor;
    use lars_scheduler::executor::{Rejected, Runnable};
    struct Never;
    impl Executor for Never {
        fn execute(&self, _: Runnable) -> Result<(), Rejected> {
            panic!("nothing is due in this test");
        }
    }
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = Task::new(move || sender.send(thread::current().id()).unwrap());
    let _ = scheduler.schedule_once(common::secs(3600), task.executor(Arc::new(Never))).unwrap();
    assert_eq!(scheduler.close().unwrap().ran, 1);
    assert_eq!(receiver.try_recv().unwrap(), thread::current().id());
}

#[test]
fn no_timer_fires_after_the_owner_was_dropped_also_if_it_had_been_stopped_before() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let release = occupy(&scheduler);
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let notes = Notes::new();
    let late = notes.clone();
    let watch = Task::new(move || late.add(seen.load(Ordering::SeqCst))).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, watch).unwrap();
    let stopping = scheduler.stop();
    let dropping = thread::spawn(move || {
        drop(scheduler);
        dropped.store(true, Ordering::SeqCst);
    });
    // Not before the thread is free.
    thread::sleep(ms(20));
    assert!(!dropping.is_finished(), "the drop waits for what is under way");
    drop(release);
    dropping.join().unwrap();
    assert!(!notes.take().contains(&true), "it ran after the drop");
    drop(stopping.wait());
}
