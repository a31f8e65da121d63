//! Due tasks of one type that run together: in order, all of them, and nothing else in between.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use common::{Notes, PATIENCE, assert_same, ms, scaled, secs, virtual_time};
use lars_scheduler::executor::{Due, TaskBody};
use lars_scheduler::{Handle, LightArrayRevolverScheduler, Task, VirtualTime};

/// What has run, row by row; other tasks are rows of their own.
type Rows = Notes<Vec<u32>>;

/// Notes with which others it ran.
struct Joins(Rows, u32);

impl TaskBody for Joins {
    const TOGETHER: bool = true;

    fn run(self) {
        self.0.add(vec![self.1]);
    }

    fn run_due(due: &mut Due<'_, Self>) {
        let rows = due.peek().next().expect("a row has a first").0.clone();
        assert_eq!(due.peek().count(), due.len());
        rows.add(due.map(|joins| joins.1).collect());
    }
}

/// As `Joins`, and too large for a timer's own storage.
struct Large(Joins, [u64; 8]);

impl TaskBody for Large {
    const TOGETHER: bool = true;

    fn run(self) {
        self.0.run();
    }

    fn run_due(due: &mut Due<'_, Self>) {
        let rows = due.peek().next().expect("a row has a first").0.0.clone();
        rows.add(due.map(|large| large.0.1 + large.1[7] as u32).collect());
    }
}

fn joins(rows: &Rows, number: u32) -> Task<Joins> {
    Task::new(Joins(rows.clone(), number)).inline()
}

fn once<T: lars_scheduler::IntoTask>(timers: &Handle, millis: u64, task: T) {
    let _ = timers.schedule_once(ms(millis), task).map_err(|_| "refused").unwrap();
}

#[test]
fn tasks_of_one_type_that_are_due_one_after_the_other_run_together() {
    let (time, rows) = (virtual_time(), Rows::new());
    for number in 0..5 {
        once(&time, 1, joins(&rows, number));
    }
    once(&time, 2, joins(&rows, 5));
    time.advance(secs(1));
    assert_eq!(rows.take(), [vec![0, 1, 2, 3, 4], vec![5]], "an instant ends a row");
}

#[test]
fn large_bodies_run_together_and_are_dropped_once() {
    let (time, rows) = (virtual_time(), Rows::new());
    for number in 0..3 {
        once(&time, 1, Task::new(Large(Joins(rows.clone(), number), [10; 8])).inline());
    }
    time.advance(secs(1));
    assert_eq!(rows.take(), [vec![10, 11, 12]]);
}

#[test]
fn whatever_else_is_due_ends_a_row_and_runs_in_its_place() {
    let (time, rows) = (virtual_time(), Rows::new());
    once(&time, 1, joins(&rows, 0));
    once(&time, 1, joins(&rows, 1));
    let other = rows.clone();
    once(&time, 1, Task::new(move || other.add(vec![2])).inline());
    once(&time, 1, joins(&rows, 3));
    once(&time, 1, Task::new(Large(Joins(rows.clone(), 4), [0; 8])).inline());
    once(&time, 1, joins(&rows, 5));
    time.advance(secs(1));
    assert_eq!(rows.take(), [vec![0, 1], vec![2], vec![3], vec![4], vec![5]]);
}

#[test]
fn a_task_for_an_executor_ends_a_row_and_runs_alone() {
    let rows = Rows::new();
    let by_hand = common::ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    once(&time, 1, joins(&rows, 0));
    once(&time, 1, Task::new(Joins(rows.clone(), 1)));
    once(&time, 1, Task::new(Joins(rows.clone(), 2)));
    once(&time, 1, joins(&rows, 3));
    time.advance(secs(1));
    assert_eq!(rows.take(), [vec![0], vec![3]]);
    while by_hand.run_next() {}
    assert_eq!(rows.take(), [vec![1], vec![2]]);
}

#[test]
fn a_row_is_no_longer_than_it_says_and_no_task_of_many_is_lost() {
    let (time, rows, tasks) = (virtual_time(), Rows::new(), scaled(1_000, 150));
    for number in 0..tasks as u32 {
        once(&time, 1, joins(&rows, number));
    }
    assert_eq!(time.advance(ms(1)), tasks);
    let rows = rows.take();
    assert!(rows.iter().all(|row| row.len() <= 64), "{:?}", rows.iter().map(Vec::len).max());
    assert!(rows.len() < 40, "{} rows", rows.len());
    assert_same(rows.concat(), 0..tasks as u32);
}

#[test]
fn one_that_was_cancelled_is_not_in_the_row() {
    let (time, rows) = (virtual_time(), Rows::new());
    once(&time, 1, joins(&rows, 0));
    let not = time.schedule_once(ms(1), joins(&rows, 1)).map_err(|_| "refused").unwrap();
    once(&time, 1, joins(&rows, 2));
    assert!(not.cancel());
    time.advance(ms(1));
    assert_eq!(rows.take(), [vec![0, 2]]);
}

/// Takes as many as it is told to, then panics or returns.
struct Clumsy {
    rows: Rows,
    number: u32,
    takes: usize,
    panics: bool,
}

impl TaskBody for Clumsy {
    const TOGETHER: bool = true;

    fn run(self) {
        self.rows.add(vec![self.number]);
    }

    fn run_due(due: &mut Due<'_, Self>) {
        let first = due.peek().next().expect("a row has a first");
        let (takes, panics) = (first.takes, first.panics);
        for taken in due.by_ref().take(takes) {
            taken.rows.add(vec![100 + taken.number]);
        }
        assert!(!panics, "expected by this test");
    }
}

fn clumsy(takes: usize, panics: bool) -> (VirtualTime, Rows) {
    let (time, rows) = (virtual_time(), Rows::new());
    for number in 0..5 {
        let rows = rows.clone();
        once(&time, 1, Task::new(Clumsy { rows, number, takes, panics }).inline());
    }
    assert_eq!(time.advance(ms(1)), 5);
    (time, rows)
}

#[test]
fn what_is_left_in_a_row_is_run_one_by_one() {
    let (time, rows) = clumsy(2, false);
    assert_eq!(rows.take(), [vec![100], vec![101], vec![2], vec![3], vec![4]]);
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn a_panic_ends_only_what_had_been_taken_out_of_the_row() {
    let (time, rows) = clumsy(2, true);
    assert_eq!(rows.take(), [vec![100], vec![101], vec![102], vec![103], vec![104]]);
    // Two were taken at the first call, two at the second, one at the third.
    assert_eq!(time.metrics().panicked, 3);
}

/// Takes nothing and panics: there must be an end to it.
#[test]
fn a_row_of_which_nothing_is_taken_comes_to_an_end() {
    let (time, rows) = clumsy(0, true);
    assert_eq!(time.metrics().panicked, 5);
    assert_eq!(rows.take(), [[0], [1], [2], [3], [4]].map(Vec::from));
}

#[test]
fn what_a_row_schedules_at_once_comes_after_it() {
    struct Again(Handle, Rows, u32);
    impl TaskBody for Again {
        const TOGETHER: bool = true;
        fn run(self) {
            self.1.add(vec![self.2]);
            if self.2 < 4 {
                let next = Again(self.0.clone(), self.1, self.2 + 2);
                once(&self.0, 0, Task::new(next).inline());
            }
        }
    }
    let (time, rows) = (virtual_time(), Rows::new());
    for number in 0..2 {
        once(&time, 1, Task::new(Again(time.handle(), rows.clone(), number)).inline());
    }
    assert_eq!(time.advance(ms(1)), 6);
    assert_eq!(rows.take(), [[0], [1], [2], [3], [4], [5]].map(Vec::from));
}

#[test]
fn a_close_runs_them_one_by_one() {
    let (time, rows) = (virtual_time(), Rows::new());
    for number in 0..3 {
        once(&time, 1, joins(&rows, number));
    }
    assert_eq!(time.close().unwrap().ran, 3);
    assert_eq!(rows.take(), [vec![0], vec![1], vec![2]]);
}

/// On a timer thread: whoever waits for the end of a row is not made to wait for another.
#[test]
fn a_row_ends_with_the_turn_and_nothing_stays_behind() {
    struct Tells(mpsc::Sender<u32>, u32, Arc<AtomicBool>);
    impl TaskBody for Tells {
        const TOGETHER: bool = true;
        fn run(self) {
            assert!(!self.2.load(Ordering::SeqCst));
            self.0.send(self.1).unwrap();
        }
    }
    let tasks = scaled(200, 20) as u32;
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let never = Arc::new(AtomicBool::new(false));
    for number in 0..tasks {
        let tells = Tells(sender.clone(), number, Arc::clone(&never));
        once(&scheduler, 5, Task::new(tells).inline());
    }
    for number in 0..tasks {
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), number);
    }
    scheduler.close().unwrap();
    never.store(true, Ordering::SeqCst);
}

/// A body with a cell inside, in the timer's own storage.
struct Counted(AtomicU64);

impl TaskBody for Counted {
    const TOGETHER: bool = true;

    fn run(self) {}

    fn run_due(due: &mut Due<'_, Self>) {
        for body in due.peek() {
            body.0.fetch_add(1, Ordering::Relaxed);
        }
        assert!(due.all(|body| body.0.into_inner() == 1));
    }
}

// (For Miri: it would report the write.)
#[test]
fn a_body_that_is_looked_at_may_change_what_it_has_in_a_cell() {
    let time = virtual_time();
    for _ in 0..2 {
        let _ = time.schedule_once(secs(1), Task::new(Counted(0.into())).inline()).unwrap();
    }
    time.advance(secs(1));
    assert_eq!(time.metrics().panicked, 0);
}
