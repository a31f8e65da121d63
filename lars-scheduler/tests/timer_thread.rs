//! The timer thread goes on when something panics inside it that no containment covers: a subscriber
//! of the log, which is called by the containment itself.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, mpsc};
use std::time::Duration;

use common::{Captive, Notes, PATIENCE, eventually, ms, secs, settle};
use lars_scheduler::{Handle, LightArrayRevolverScheduler, PanicIn, Task, TaskBody};
use tracing::span;

/// How many of the next errors that this process logs make the subscriber panic.
static PANICS: AtomicUsize = AtomicUsize::new(0);

struct Subscriber;

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        // Contained panics are errors. Warnings may also come from what earlier tests left behind.
        if *event.metadata().level() != tracing::Level::ERROR {
            return;
        }
        let take_one = |left: usize| left.checked_sub(1);
        if PANICS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
            panic!("the subscriber");
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Makes the subscriber panic at the next `times` errors. The tests of this file share it, so they run
/// one after the other.
fn arm(times: usize) -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    static INSTALL: Once = Once::new();
    let guard = SERIAL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    INSTALL.call_once(|| tracing::subscriber::set_global_default(Subscriber).unwrap());
    PANICS.store(times, Ordering::SeqCst);
    guard
}

fn assert_fires(timers: &Handle) {
    settle(timers);
    let (sender, receiver) = mpsc::channel();
    let _ = timers.schedule_once(ms(1), move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_log_subscriber_that_panics_does_not_end_the_timer_thread_and_the_restart_is_counted() {
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
    assert_eq!(metrics.restarts, 1);
    assert_eq!(metrics.panicked, 2, "the task and the thread");
    assert_eq!(places.take(), [(PanicIn::TimerThread, "the subscriber".to_owned())]);
    // Panics are contained as before.
    let task = Task::new(|| panic!("expected by this test"));
    let _ = scheduler.schedule_once(Duration::ZERO, task.inline()).unwrap();
    assert_fires(&scheduler);
    assert_eq!(scheduler.metrics().restarts, 1);
    assert_eq!(places.len(), 1);
}

#[test]
fn a_crash_of_the_timer_thread_loses_no_other_timer_and_no_order() {
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
    assert_eq!(scheduler.metrics().restarts, 1);
    assert!(pending.is_pending());
    assert_eq!(scheduler.close().unwrap().ran, 1, "and it stops as ever");
}

#[test]
fn a_subscriber_that_panics_again_and_again_does_not_end_the_timer_thread_either() {
    // The report of the first panic panics as well, and so does that of the next task.
    let _serial = arm(6);
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    for _ in 0..5 {
        let _ = scheduler.schedule_once(ms(1), || panic!("expected by this test")).unwrap();
        settle(&scheduler);
    }
    eventually("the panics", || scheduler.metrics().fired == 10);
    assert_fires(&scheduler);
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    let restarts = scheduler.metrics().restarts;
    assert_eq!(restarts, 3, "two panics each, of which the second is in the report of the first");
}

#[test]
fn a_crash_during_a_stop_does_not_keep_the_promise_from_being_kept() {
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
fn a_log_subscriber_that_panics_does_not_end_the_threads_of_the_pool() {
    let _serial = arm(1);
    let scheduler = LightArrayRevolverScheduler::builder().pool_threads(1).build().unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, || panic!("expected by this test")).unwrap();
    eventually("the subscriber panics", || PANICS.load(Ordering::SeqCst) == 0);
    assert_fires(&scheduler);
    assert_eq!(scheduler.close().unwrap().unfinished, 0);
}

#[test]
fn a_log_subscriber_that_panics_does_not_make_a_cancel_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }
    let _serial = arm(1);
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let bomb = Bomb;
    let timer = scheduler.schedule_once(secs(10), move || drop(bomb)).unwrap();
    assert!(timer.cancel(), "and it never panics, as its documentation says");
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
fn a_subscriber_that_panics_about_tasks_that_run_together_does_not_take_the_one_behind_them_along()
{
    let _serial = arm(1);
    let time = common::virtual_time();
    let (sender, receiver) = mpsc::channel();
    let _ = time.schedule_once(secs(1), Task::new(Fails).inline()).unwrap();
    let behind = Task::new(move || sender.send("ran").unwrap());
    let _ = time.schedule_once(secs(1), behind.inline()).unwrap();
    let escaped = catch_unwind(AssertUnwindSafe(|| time.advance(secs(1))));
    assert!(escaped.is_err());
    time.advance(secs(1));
    assert_eq!(receiver.try_recv(), Ok("ran"));
}
