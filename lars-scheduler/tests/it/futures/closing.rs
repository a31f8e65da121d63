//! Closing without blocking.

use std::thread;

use futures::executor::block_on;
use lars_scheduler::{LightArrayRevolverScheduler, Task};

use crate::common::{Notes, eventually, ms, secs};

#[test]
fn an_async_close_runs_what_is_pending_on_a_thread_of_its_own() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let handle = scheduler.handle();
    let notes = Notes::new();
    let inside = notes.clone();
    let task = move || inside.add(thread::current().id());
    let _ = scheduler.schedule_once(secs(3600), task).unwrap();
    let report = block_on(scheduler.close_async()).unwrap();
    assert_eq!((report.ran, report.panicked), (1, 0));
    assert_ne!(notes.take(), [thread::current().id()]);
    assert!(handle.is_stopped() && handle.schedule_once(ms(1), || ()).is_err());
}

#[test]
fn an_async_close_whose_future_is_dropped_closes_all_the_same() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let handle = scheduler.handle();
    let notes = Notes::new();
    let inside = notes.clone();
    let _ = scheduler.schedule_once(secs(3600), move || inside.add("ran")).unwrap();
    drop(scheduler.close_async());
    eventually("the last task", || notes.len() == 1);
    assert!(handle.is_stopped());
}

/// `close` refuses that, because it would wait for itself.
#[test]
fn a_task_on_the_timer_thread_may_close_the_scheduler_it_runs_on() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let handle = scheduler.handle();
    let notes = Notes::new();
    let inside = notes.clone();
    let _ = scheduler.schedule_once(secs(3600), move || inside.add("ran")).unwrap();
    let closes = Task::new(move || drop(scheduler.close_async())).inline();
    let _ = handle.schedule_once(ms(1), closes).unwrap();
    eventually("the last task", || notes.len() == 1);
    assert!(handle.is_stopped());
}
