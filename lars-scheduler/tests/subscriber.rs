//! A log subscriber that panics costs its message, and nothing else.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;
#[path = "common/log.rs"]
mod log;

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use common::{Captive, Notes, PATIENCE, eventually, ms, secs, settle};
use lars_scheduler::executor::{Rejected, Runnable, TaskBody};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Executor, Handle, LightArrayRevolverScheduler, Periodic, Task};
use log::{PANICS, arm};

fn assert_fires(timers: &Handle) {
    settle(timers);
    let (sender, receiver) = mpsc::channel();
    let _ = timers.schedule_once(ms(1), move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

/// Its destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("expected by this test");
    }
}

#[test]
fn the_panic_hook_is_called_and_the_timer_thread_goes_on() {
    let _serial = arm(1);
    let places = Notes::new();
    let note = places.clone();
    let scheduler = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add((report.place, report.message.to_owned())))
        .build()
        .unwrap();
    let task = Task::new(|| panic!("expected by this test"));
    let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
    assert_fires(&scheduler);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.panicked, metrics.restarts), (1, 0));
    assert_eq!(places.take(), [(PanicIn::Task, "expected by this test".to_owned())]);
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}

#[test]
fn no_other_timer_is_lost_and_no_order() {
    let _serial = arm(1);
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let held = common::occupy(&scheduler);
    let (sender, receiver) = mpsc::channel();
    let tasks = 100;
    for number in 0..tasks {
        let sender = sender.clone();
        let run = move || {
            if number == 30 {
                panic!("expected by this test");
            }
            sender.send(number).unwrap();
        };
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    }
    let series_ticks = sender.clone();
    let series = scheduler
        .schedule_with_fixed_delay(ms(1), ms(1), move || {
            let _ = series_ticks.send(1_000);
        })
        .unwrap();
    let later = sender.clone();
    let _ = scheduler.schedule_once(ms(30), move || later.send(2_000).unwrap()).unwrap();
    let pending = scheduler.schedule_once(secs(3_600), || ()).unwrap();
    drop(held);
    let mut order = Vec::new();
    while order.last() != Some(&2_000) {
        order.push(receiver.recv_timeout(PATIENCE).unwrap());
    }
    assert!(series.cancel(), "it goes on");
    assert!(order.contains(&1_000));
    order.retain(|&number| number < tasks);
    assert_eq!(order, (0..tasks).filter(|&number| number != 30).collect::<Vec<_>>());
    assert_eq!(scheduler.metrics().restarts, 0);
    assert!(pending.is_pending());
    assert_eq!(scheduler.close().unwrap().ran, 1, "and it stops as ever");
}

#[test]
fn the_panics_of_destructors_stay_inside_cancel_close_and_the_drop_of_the_owner() {
    let _serial = arm(usize::MAX);
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let notes = Notes::new();
    let hold = || {
        let bomb = Bomb;
        move || drop(bomb)
    };
    assert!(scheduler.schedule_once(secs(10), hold()).unwrap().cancel());
    let (bomb, hook) = (Bomb, notes.clone());
    let task = Periodic::new(move || {
        let _ = &bomb;
    });
    let task = task.on_cancel(move || hook.add("cancelled"));
    assert!(scheduler.schedule_with_fixed_delay(secs(9), secs(9), task).unwrap().cancel());
    assert_eq!(notes.take(), ["cancelled"]);
    let _ = scheduler.schedule_once(secs(10), || panic!("expected by this test")).unwrap();
    let last = notes.clone();
    let _ = scheduler.schedule_once(secs(11), move || last.add("ran")).unwrap();
    assert_eq!(scheduler.close().unwrap().ran, 2);
    assert_eq!(notes.take(), ["ran"]);

    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let _ = scheduler.schedule_once(secs(10), hold()).unwrap();
    let _ = scheduler.schedule_once(secs(11), hold()).unwrap();
    drop(scheduler); // a panic during a panic would end the process
    PANICS.store(0, Ordering::SeqCst);
}

#[test]
fn the_promise_of_a_stop_is_kept() {
    let _serial = arm(1);
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let _ = scheduler.schedule_once(secs(10), move || drop(captive)).unwrap();
    let held = common::occupy(&scheduler);
    let _ = scheduler.schedule_once(Duration::ZERO, || panic!("expected by this test")).unwrap();
    let stopped = scheduler.stop();
    drop(held);
    // The task that panics is handed back if the stop was seen first.
    let pending = stopped.wait_timeout(PATIENCE).unwrap();
    assert!((1..=2).contains(&pending.len()));
    PANICS.store(0, Ordering::SeqCst);
    drop(pending);
    assert_eq!(notes.take(), ["dropped"]);
}

#[test]
fn the_threads_of_the_pool_go_on() {
    let _serial = arm(1);
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, || panic!("expected by this test")).unwrap();
    eventually("the subscriber panics", || PANICS.load(Ordering::SeqCst) == 0);
    assert_fires(&scheduler);
    assert_eq!(scheduler.close().unwrap().unfinished, 0);
}

#[test]
fn an_owner_that_is_dropped_while_its_thread_is_occupied_does_not_panic() {
    let _serial = arm(usize::MAX);
    let scheduler =
        LightArrayRevolverScheduler::builder().shutdown_timeout(Duration::ZERO).build().unwrap();
    let held = common::occupy(&scheduler);
    drop(scheduler);
    drop(held);
    PANICS.store(0, Ordering::SeqCst);
}

#[test]
fn a_task_that_its_executor_refuses_still_runs() {
    struct Full;
    impl Executor for Full {
        fn execute(&self, task: Runnable) -> Result<(), Rejected> {
            Err(Rejected::new(task, "expected by this test"))
        }
    }
    let _serial = arm(1);
    let scheduler = LightArrayRevolverScheduler::builder().executor(Full).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}

/// Panics, alone or with others.
struct Fails;

impl TaskBody for Fails {
    const TOGETHER: bool = true;

    fn run(self) {
        panic!("expected by this test");
    }
}

#[test]
fn what_is_due_behind_tasks_that_run_together_runs() {
    let _serial = arm(1);
    let time = common::virtual_time();
    let (sender, receiver) = mpsc::channel();
    let _ = time.schedule_once(secs(1), Task::new(Fails).inline()).unwrap();
    let behind = Task::new(move || sender.send("ran").unwrap());
    let _ = time.schedule_once(secs(1), behind.inline()).unwrap();
    assert_eq!(time.advance(secs(1)), 2);
    assert_eq!(receiver.try_recv(), Ok("ran"));
}
