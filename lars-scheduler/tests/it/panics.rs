//! Panics of foreign code: contained, counted, reported; and everything else goes on.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::panic::panic_any;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{ByHand, Captive, Notes, PATIENCE, eventually, ms, secs, settle, virtual_time};
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Executor, Handle, LightArrayRevolverScheduler, Periodic, Task, VirtualTime};

type Reports = Notes<(PanicIn, String)>;

fn reported() -> (VirtualTime, Reports) {
    let reports = Reports::new();
    let note = reports.clone();
    let time = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add((report.place, report.message.to_owned())))
        .build_virtual()
        .unwrap();
    (time, reports)
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("bomb");
        }
    }
}

/// Fails unless the scheduler still runs what it is given, on its thread and where tasks go by
/// default.
fn assert_goes_on(timers: &Handle) {
    settle(timers);
    let (sender, receiver) = mpsc::channel();
    let _ = timers.schedule_once(ms(1), move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_panicking_task_is_counted_and_reported_with_its_message_and_the_next_ones_run() {
    let (time, reports) = reported();
    let _ = time.schedule_once(ms(1), || panic!("a literal")).unwrap();
    let number = 7;
    let _ = time.schedule_once(ms(1), move || panic!("number {number}")).unwrap();
    let _ = time.schedule_once(ms(1), || panic_any(5_u8)).unwrap();
    let notes = Notes::new();
    let note = notes.clone();
    let _ = time.schedule_once(ms(1), move || note.add(())).unwrap();
    assert_eq!(time.advance(ms(1)), 4);
    let task = PanicIn::Task;
    assert_eq!(
        reports.take(),
        [
            (task, "a literal".to_owned()),
            (task, "number 7".to_owned()),
            (task, "(a panic without a message)".to_owned()),
        ],
    );
    assert_eq!(notes.len(), 1);
    assert_eq!(time.metrics().panicked, 3);
    assert_eq!(time.metrics().fired, 4);
}

#[test]
fn the_captures_of_a_panicking_task_are_dropped() {
    let (time, _) = reported();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let _ = time
        .schedule_once(ms(1), move || {
            let _captive = captive;
            panic!("expected by this test");
        })
        .unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["dropped"]);
}

#[test]
fn the_timer_thread_and_the_pool_outlive_panicking_tasks() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    for _ in 0..20 {
        let task = Task::new(|| panic!("expected by this test"));
        let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
        let _ =
            scheduler.schedule_once(Duration::ZERO, || panic!("expected by this test")).unwrap();
    }
    assert_goes_on(&scheduler);
    eventually("all panics", || scheduler.metrics().panicked == 40);
    assert_eq!(scheduler.metrics().restarts, 0, "contained where they were called");
    assert_eq!(scheduler.close().unwrap().unfinished, 0);
}

/// RxJava's worker on an executor is dead after one task throws: none of the next five ran.
#[test]
fn one_failing_task_never_stops_the_others_of_its_thread() {
    let time = virtual_time();
    let notes = Notes::new();
    let _ = time.schedule_once(ms(1), || panic!("expected by this test")).unwrap();
    for number in 0..5 {
        let note = notes.clone();
        let _ = time.schedule_once(ms(1 + number), move || note.add(number)).unwrap();
    }
    time.advance(ms(10));
    assert_eq!(notes.take(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_destructor_that_panics_inside_a_cancel_is_contained_and_the_cancel_returns_true() {
    let (time, reports) = reported();
    let bomb = Bomb;
    let timer = time.schedule_once(ms(1), move || drop(bomb)).unwrap();
    assert!(timer.cancel());
    assert_eq!(reports.take(), [(PanicIn::Cleanup, "bomb".to_owned())]);
    assert_eq!(time.metrics().panicked, 1);
    assert_goes_on_virtual(&time);
}

fn assert_goes_on_virtual(time: &VirtualTime) {
    let notes = Notes::new();
    let note = notes.clone();
    let _ = time.schedule_once(ms(1), move || note.add(())).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.len(), 1);
}

#[test]
fn a_destructor_that_panics_keeps_neither_hook_of_a_cancelled_task_from_being_called() {
    let (time, reports) = reported();
    let notes = Notes::new();
    let (bomb, hook) = (Bomb, notes.clone());
    let task = Task::new(move || drop(bomb)).on_cancel(move || hook.add("one-shot's hook"));
    assert!(time.schedule_once(ms(1), task).unwrap().cancel());
    let (bomb, hook) = (Bomb, notes.clone());
    let task = Periodic::new(move || {
        let _ = &bomb;
    })
    .on_cancel(move || hook.add("series' hook"));
    assert!(time.schedule_at_fixed_rate(ms(1), ms(1), task).unwrap().cancel());
    assert_eq!(reports.take(), vec![(PanicIn::Cleanup, "bomb".to_owned()); 2]);
    assert_eq!(notes.take(), ["one-shot's hook", "series' hook"]);
}

#[test]
fn a_hook_that_panics_inside_a_cancel_is_contained_and_reported() {
    let (time, reports) = reported();
    let task = Task::new(|| ()).on_cancel(|| panic!("one-shot's hook"));
    assert!(time.schedule_once(ms(1), task).unwrap().cancel());
    let task = Periodic::new(|| ()).on_cancel(|| panic!("series' hook"));
    assert!(time.schedule_at_fixed_rate(ms(1), ms(1), task).unwrap().cancel());
    assert_eq!(
        reports.take(),
        [
            (PanicIn::Cleanup, "one-shot's hook".to_owned()),
            (PanicIn::Cleanup, "series' hook".to_owned()),
        ],
    );
    assert_eq!(time.pending(), 0);
    assert_goes_on_virtual(&time);
}

#[test]
fn destructors_that_panic_when_tasks_are_handed_back_and_dropped_are_contained() {
    let (time, reports) = reported();
    let notes = Notes::new();
    for number in 0..3 {
        let (bomb, captive) = (Bomb, Captive::new(&notes, "dropped"));
        let _ = time
            .schedule_once(ms(number), move || {
                drop(captive);
                drop(bomb);
            })
            .unwrap();
    }
    drop(time.stop().wait());
    assert_eq!(reports.len(), 3);
    assert_eq!(notes.len(), 3, "one does not keep the others");
}

#[test]
fn a_destructor_that_panics_when_the_owner_is_dropped_is_contained() {
    let reports = Notes::new();
    let note = reports.clone();
    let scheduler = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add(report.place))
        .build()
        .unwrap();
    let bomb = Bomb;
    let _ = scheduler.schedule_once(secs(10), move || drop(bomb)).unwrap();
    drop(scheduler);
    assert_eq!(reports.take(), [PanicIn::Cleanup]);

    // Nobody waits for these tasks: they are dropped where they are collected.
    let note = reports.clone();
    let scheduler = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add(report.place))
        .build()
        .unwrap();
    let bomb = Bomb;
    let _ = scheduler.schedule_once(secs(10), move || drop(bomb)).unwrap();
    drop(scheduler.stop());
    eventually("the report", || reports.len() == 1);
    drop(scheduler);
    assert_eq!(reports.take(), [PanicIn::Cleanup]);
}

/// Panics with each task that it is given: before it runs it, or after.
struct Panicking {
    after_the_run: bool,
}

impl Executor for Panicking {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        if self.after_the_run {
            task.run();
            panic!("after the run");
        }
        let _task = task;
        panic!("before the run");
    }
}

#[test]
fn an_executor_that_panics_is_contained_and_the_task_that_it_drops_is_counted_as_abandoned() {
    let (time, reports) = reported();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let task = Task::new(move || drop(captive));
    let task = task.executor(Arc::new(Panicking { after_the_run: false }));
    let _ = time.schedule_once(ms(1), task).unwrap();
    let note = notes.clone();
    let task = Task::new(move || note.add("ran"));
    let task = task.executor(Arc::new(Panicking { after_the_run: true }));
    let _ = time.schedule_once(ms(2), task).unwrap();
    time.advance(ms(2));
    assert_eq!(
        reports.take(),
        [
            (PanicIn::Executor, "before the run".to_owned()),
            (PanicIn::Executor, "after the run".to_owned()),
        ],
    );
    assert_eq!(notes.take(), ["dropped", "ran"]);
    let metrics = time.metrics();
    assert_eq!((metrics.panicked, metrics.abandoned_by_executor), (2, 1));
    assert_goes_on_virtual(&time);
}

#[test]
fn the_timer_thread_outlives_an_executor_that_panics() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .executor(Panicking { after_the_run: true })
        .build()
        .unwrap();
    assert_goes_on(&scheduler);
    assert_goes_on(&scheduler);
    assert_eq!(scheduler.metrics().restarts, 0);
    eventually("the second report", || scheduler.metrics().panicked == 2);
}

/// Takes nothing.
struct Rejecting;

impl Executor for Rejecting {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        Err(Rejected::new(task, "not today"))
    }
}

#[test]
fn what_an_executor_rejects_is_counted_and_runs_on_the_schedulers_own_pool() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .executor(Rejecting)
        .thread_name("fallback")
        .pool(|pool| pool.threads(1))
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let once = sender.clone();
    let name = || thread::current().name().map(str::to_owned);
    let _ = scheduler.schedule_once(ms(1), move || once.send(name()).unwrap()).unwrap();
    let expected = Some("fallback-worker-0".to_owned());
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), expected);
    assert_eq!(scheduler.metrics().rejected_by_executor, 1);
    // A series does not end because of it.
    let series = scheduler
        .schedule_with_fixed_delay(Duration::ZERO, ms(1), move || {
            let _ = sender.send(name());
        })
        .unwrap();
    for _ in 0..3 {
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), expected);
    }
    assert!(series.cancel());
    let metrics = scheduler.metrics();
    assert!(metrics.rejected_by_executor >= 4);
    assert_eq!((metrics.panicked, metrics.abandoned_by_executor), (0, 0));
}

#[test]
fn a_rejection_says_why_and_gives_the_task_back() {
    let rejected = Rejecting.execute(Runnable::new(|| ())).unwrap_err();
    assert_eq!(rejected.reason(), "not today");
    assert_eq!(rejected.to_string(), "the executor rejected the task: not today");
    let notes = Notes::new();
    let note = notes.clone();
    let rejected = Rejecting.execute(Runnable::new(move || note.add(()))).unwrap_err();
    rejected.into_task().run();
    assert_eq!(notes.len(), 1);
}

#[test]
fn a_rejection_passes_through_the_usual_boxed_errors() {
    fn rejected() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(Rejecting.execute(Runnable::new(|| ()))?)
    }
    assert!(rejected().unwrap_err().to_string().contains("rejected"));
}

#[test]
fn tasks_that_an_executor_drops_are_counted_and_their_destructors_contained() {
    let by_hand = ByHand::default();
    let reports = Notes::new();
    let note = reports.clone();
    let time = LightArrayRevolverScheduler::builder()
        .executor(by_hand.clone())
        .on_panic(move |report| note.add(report.place))
        .build_virtual()
        .unwrap();
    let bomb = Bomb;
    let _ = time.schedule_once(ms(1), move || drop(bomb)).unwrap();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    time.advance(ms(1));
    assert_eq!(by_hand.abandon(), 2);
    assert_eq!(reports.take(), [PanicIn::Cleanup]);
    let metrics = time.metrics();
    assert_eq!((metrics.fired, metrics.abandoned_by_executor), (2, 2));
}

#[test]
fn a_panic_on_an_executors_thread_is_reported_there() {
    let by_hand = ByHand::default();
    let reports = Notes::new();
    let note = reports.clone();
    let time = LightArrayRevolverScheduler::builder()
        .executor(by_hand.clone())
        .on_panic(move |report| note.add((report.place, thread::current().id())))
        .build_virtual()
        .unwrap();
    let _ = time.schedule_once(ms(1), || panic!("expected by this test")).unwrap();
    time.advance(ms(1));
    assert!(by_hand.run_next(), "the executor sees nothing of it");
    assert_eq!(reports.take(), [(PanicIn::Task, thread::current().id())]);
}

#[test]
fn a_panic_hook_that_panics_is_contained_and_called_the_next_time_again() {
    let calls = Notes::new();
    let note = calls.clone();
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(1))
        .on_panic(move |_| {
            note.add(());
            panic!("the hook itself");
        })
        .build()
        .unwrap();
    let task = Task::new(|| panic!("expected by this test"));
    let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
    assert_goes_on(&scheduler);
    let _ = scheduler.schedule_once(Duration::ZERO, || panic!("expected by this test")).unwrap();
    assert_goes_on(&scheduler);
    let bomb = Bomb;
    assert!(scheduler.schedule_once(secs(1), move || drop(bomb)).unwrap().cancel());
    eventually("all reports", || calls.len() == 3);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.panicked, metrics.restarts), (3, 0));
}

#[test]
fn a_panic_whose_payload_panics_when_it_is_dropped_is_contained() {
    let (time, reports) = reported();
    let _ = time.schedule_once(ms(1), || panic_any(Bomb)).unwrap();
    time.advance(ms(1));
    assert_eq!(reports.len(), 1);
    assert_goes_on_virtual(&time);
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, || panic_any(Bomb)).unwrap();
    let task = Task::new(|| panic_any(Bomb)).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, task).unwrap();
    assert_goes_on(&scheduler);
    assert_eq!(scheduler.metrics().restarts, 0);
}

#[test]
fn a_hook_may_use_the_scheduler_that_it_is_told_of() {
    let own: Arc<Mutex<Option<Handle>>> = Arc::default();
    let (sender, receiver) = mpsc::channel();
    let inside = Arc::clone(&own);
    let scheduler = LightArrayRevolverScheduler::builder()
        .on_panic(move |_| {
            let timers = inside.lock().unwrap().clone().unwrap();
            let sender = sender.clone();
            let _ = timers.schedule_once(Duration::ZERO, move || sender.send(()).unwrap());
        })
        .build()
        .unwrap();
    *own.lock().unwrap() = Some(scheduler.handle());
    let task = Task::new(|| panic!("expected by this test"));
    let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}
