//! A task that was accepted and is dropped without having run is told so, once.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::Arc;

use common::{ByHand, Notes, ms, virtual_time};
use lars_scheduler::executor::{Rejected, Runnable, TaskBody};
use lars_scheduler::{CloseError, Executor, LightArrayRevolverScheduler, Periodic, Task};

/// Says how it ended.
struct Told(Notes<&'static str>);

impl TaskBody for Told {
    fn run(self) {
        self.0.add("run");
    }
    fn cancelled(self) {
        self.0.add("cancelled");
    }
    fn lost(self) {
        self.0.add("lost");
    }
    fn handed_back(&self) {
        self.0.add("handed back");
    }
}

/// Takes tasks and drops them.
struct Careless;

impl Executor for Careless {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        drop(task);
        Ok(())
    }
}

#[test]
fn a_task_ends_in_one_way_only() {
    let time = virtual_time();
    let notes = Notes::new();
    let task = || Task::new(Told(notes.clone()));
    let _ = time.schedule_once(ms(1), task()).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["run"]);
    assert!(time.schedule_once(ms(1), task()).unwrap().cancel());
    assert_eq!(notes.take(), ["cancelled"]);
    let _ = time.schedule_once(ms(1), task()).unwrap();
    let mut pending = time.stop().wait();
    assert_eq!(notes.take(), ["handed back"]);
    drop(pending.pop());
    assert_eq!(notes.take(), ["lost"]);
}

#[test]
fn a_task_that_is_handed_back_and_run_or_refused_is_not_lost() {
    let time = virtual_time();
    let notes = Notes::new();
    let task = || Task::new(Told(notes.clone()));
    let _ = time.schedule_once(ms(1), task()).unwrap();
    time.stop().wait().into_iter().for_each(|task| assert!(task.run()));
    assert_eq!(notes.take(), ["handed back", "run"]);
    drop(time.schedule_once(ms(1), task()).unwrap_err());
    drop(time.schedule_batch([(ms(1), task())]).unwrap_err());
    drop(time.schedule_once(ms(1), task().executor(Arc::new(Careless))).unwrap_err());
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn a_task_that_its_executor_drops_is_lost_whatever_wraps_its_body() {
    let time = LightArrayRevolverScheduler::builder().executor(Careless).build_virtual().unwrap();
    let notes = Notes::new();
    let task = || Task::new(Told(notes.clone()));
    let own = || task().executor(Arc::new(Careless));
    let hooked = || task().on_cancel(|| panic!("it was not cancelled"));
    let _ = time.schedule_once(ms(1), task()).unwrap();
    let _ = time.schedule_once(ms(1), own()).unwrap();
    let _ = time.schedule_once(ms(1), hooked()).unwrap();
    let _ = time.schedule_once(ms(1), hooked().executor(Arc::new(Careless))).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["lost"; 4]);
    assert_eq!(time.metrics().abandoned_by_executor, 4);
}

#[test]
fn a_task_hears_that_it_is_handed_back_whatever_wraps_its_body() {
    let time = virtual_time();
    let notes = Notes::new();
    let task = || Task::new(Told(notes.clone()));
    let hooked = || task().on_cancel(|| panic!("it was not cancelled"));
    let _ = time.schedule_once(ms(1), task()).unwrap();
    let _ = time.schedule_once(ms(1), task().executor(Arc::new(Careless))).unwrap();
    let _ = time.schedule_once(ms(1), hooked()).unwrap();
    let _ = time.schedule_once(ms(1), hooked().executor(Arc::new(Careless))).unwrap();
    let pending = time.stop().wait();
    assert_eq!((pending.len(), notes.take()), (4, vec!["handed back"; 4]));
}

#[test]
fn a_task_that_a_close_has_no_time_for_hears_that_it_is_handed_back() {
    let scheduler = LightArrayRevolverScheduler::builder().shutdown_timeout(ms(1)).build().unwrap();
    let notes = Notes::new();
    let release = common::occupy(&scheduler);
    let _ = scheduler.schedule_once(common::secs(3600), Task::new(Told(notes.clone()))).unwrap();
    let CloseError::Timeout { pending, .. } = scheduler.close().unwrap_err() else {
        panic!("it is occupied");
    };
    assert_eq!(notes.take(), [""; 0]);
    drop(release);
    let pending = pending.wait();
    assert_eq!((pending.len(), notes.take()), (1, vec!["handed back"]));
}

#[test]
fn a_task_is_lost_when_its_scheduler_is_dropped() {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let notes = Notes::new();
    let later = common::secs(3600);
    let _ = scheduler.schedule_once(later, Task::new(Told(notes.clone()))).unwrap();
    let own = Task::new(Told(notes.clone())).executor(Arc::new(ByHand::default()));
    let _ = scheduler.schedule_once(later, own).unwrap();
    drop(scheduler);
    assert_eq!(notes.take(), ["lost"; 2]);
}

#[test]
fn a_panic_of_a_task_that_is_lost_is_contained() {
    struct Bomb;
    impl TaskBody for Bomb {
        fn run(self) {}
        fn lost(self) {
            panic!("expected by this test");
        }
    }
    let time = LightArrayRevolverScheduler::builder().executor(Careless).build_virtual().unwrap();
    let _ = time.schedule_once(ms(1), Task::new(Bomb)).unwrap();
    let _ = time.schedule_once(ms(2), Task::new(Bomb)).unwrap();
    time.advance(ms(1));
    drop(time.stop().wait());
    assert_eq!(time.metrics().panicked, 2);
}

#[test]
fn a_repeat_that_its_executor_drops_has_ended_and_drops_its_captures() {
    let time = LightArrayRevolverScheduler::builder().executor(Careless).build_virtual().unwrap();
    let notes = Notes::new();
    let captive = common::Captive::new(&notes, "dropped");
    let task = Periodic::new(move || {
        let _ = &captive;
    });
    let series = time.schedule_with_fixed_delay(ms(1), ms(1), task).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["dropped"]);
    assert!(!series.is_pending() && !series.is_cancelled() && !series.cancel());
}
