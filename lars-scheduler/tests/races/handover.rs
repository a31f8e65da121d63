//! Tasks that are due together go to the pool in one go, and nobody notices but the clock.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::mpsc;
use std::time::Duration;

use common::{Notes, PATIENCE, assert_same, eventually, ms, occupy, scaled};
use lars_scheduler::executor::{Runnable, TaskBody};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Executor, LightArrayRevolverScheduler, Pool, Task};

/// A scheduler whose timer thread is held, so that what is scheduled comes due in one turn.
fn held(threads: usize) -> (LightArrayRevolverScheduler, mpsc::Sender<()>) {
    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(threads));
    let scheduler = builder.build().unwrap();
    let held = occupy(&scheduler);
    (scheduler, held)
}

#[test]
fn a_task_that_blocks_keeps_none_of_those_due_with_it_waiting() {
    let (scheduler, held) = held(2);
    let (release, hold) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(Duration::ZERO, move || assert!(hold.recv().is_err())).unwrap();
    for number in 0..100 {
        let sender = sender.clone();
        let run = move || sender.send(number).unwrap();
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    }
    drop(held);
    for _ in 0..100 {
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    drop(release);
}

/// Schedules a hundred tasks that are due together, and before them one that waits for them all.
fn one_that_waits_for_a_hundred(
    scheduler: &LightArrayRevolverScheduler,
) -> (mpsc::Receiver<()>, mpsc::Receiver<bool>) {
    let (sender, receiver) = mpsc::channel();
    let ((begins, begun), (done, end)) = (mpsc::channel(), mpsc::channel());
    let wait = move || {
        let _ = begins.send(());
        let all_ran = (0..100).all(|_| receiver.recv_timeout(PATIENCE).is_ok());
        done.send(all_ran).unwrap();
    };
    let _ = scheduler.schedule_once(Duration::ZERO, wait).unwrap();
    for _ in 0..100 {
        let sender = sender.clone();
        let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    }
    (begun, end)
}

#[test]
fn a_task_that_blocks_keeps_none_waiting_while_an_inline_one_holds_the_timer_thread() {
    let (scheduler, held) = held(2);
    let (_, end) = one_that_waits_for_a_hundred(&scheduler);
    let (sender, receiver) = mpsc::channel();
    let inline = Task::new(move || sender.send(end.recv().unwrap()).unwrap()).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, inline).unwrap();
    drop(held);
    assert!(receiver.recv().unwrap());
}

#[test]
fn a_task_that_blocks_keeps_none_waiting_after_the_scheduler_was_stopped() {
    let (scheduler, held) = held(2);
    let (begun, end) = one_that_waits_for_a_hundred(&scheduler);
    // This inline task runs behind all of them: they are handed over before the scheduler stops.
    let (handed_over, all) = mpsc::channel();
    let last = Task::new(move || handed_over.send(()).unwrap()).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, last).unwrap();
    drop(held);
    begun.recv().unwrap();
    all.recv().unwrap();
    drop(scheduler.stop().wait());
    assert!(end.recv().unwrap());
}

#[test]
fn tasks_due_together_run_on_as_many_threads_as_there_are() {
    let threads = 4;
    let (scheduler, held) = held(threads);
    // Each waits for all the others.
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(threads + 1));
    for _ in 0..threads {
        let barrier = std::sync::Arc::clone(&barrier);
        let run = move || {
            barrier.wait();
        };
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    }
    drop(held);
    barrier.wait();
}

#[test]
fn tasks_for_the_pool_do_not_wait_for_inline_ones_that_are_due_behind_them() {
    let (scheduler, held) = held(1);
    let (sender, receiver) = mpsc::channel();
    let (done, end) = mpsc::channel();
    let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    let run = move || done.send(receiver.recv_timeout(PATIENCE).is_ok()).unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, Task::new(run).inline()).unwrap();
    drop(held);
    assert!(end.recv().unwrap());
}

#[test]
fn tasks_for_the_pool_do_not_wait_for_those_that_run_together_behind_them() {
    struct Waits(mpsc::Receiver<()>, mpsc::Sender<bool>);
    impl TaskBody for Waits {
        const TOGETHER: bool = true;
        fn run(self) {
            self.1.send(self.0.recv_timeout(PATIENCE).is_ok()).unwrap();
        }
    }
    let (scheduler, held) = held(1);
    let (sender, receiver) = mpsc::channel();
    let (done, end) = mpsc::channel();
    let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    let task = Task::new(Waits(receiver, done)).inline();
    let _ = scheduler.schedule_once(Duration::ZERO, task).unwrap();
    drop(held);
    assert!(end.recv().unwrap());
}

#[test]
fn of_tasks_that_are_due_together_each_runs_once_and_its_panic_is_its_own() {
    let places = Notes::new();
    let note = places.clone();
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(3))
        .on_panic(move |report| note.add(report.place))
        .build()
        .unwrap();
    let tasks = scaled(20_000, 100);
    let held = occupy(&scheduler);
    let (sender, receiver) = mpsc::channel();
    for number in 0..tasks {
        let sender = sender.clone();
        let run = move || {
            assert!(number % 50 != 7, "expected by this test");
            sender.send(number).unwrap();
        };
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    }
    drop(sender);
    drop(held);
    let mut ran: Vec<_> = receiver.iter().collect();
    ran.sort_unstable();
    assert_same(ran, (0..tasks).filter(|number| number % 50 != 7));
    eventually("the panics", || places.len() == tasks / 50);
    assert!(places.take().iter().all(|&place| place == PanicIn::Task));
    assert_eq!(scheduler.close().unwrap().unfinished, 0);
}

#[test]
fn a_pool_that_schedulers_share_takes_their_tasks_and_other_work() {
    let pool = Pool::new("shared", 2).unwrap();
    let build = || LightArrayRevolverScheduler::builder().executor(pool.clone()).build().unwrap();
    let schedulers = [build(), build()];
    let (sender, receiver) = mpsc::channel();
    let held = schedulers.each_ref().map(|scheduler| occupy(scheduler));
    for scheduler in &schedulers {
        for _ in 0..100 {
            let (sender, pool) = (sender.clone(), pool.clone());
            let run = move || sender.send(pool.is_current()).unwrap();
            let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
        }
    }
    let other = sender.clone();
    pool.execute(Runnable::new(move || other.send(true).unwrap())).unwrap();
    drop((held, sender));
    let ran: Vec<bool> = receiver.iter().collect();
    assert_eq!((ran.len(), ran.contains(&false)), (201, false));
    pool.wait();
}

#[test]
fn a_task_that_waits_for_its_pool_waits_for_the_others_and_not_for_itself() {
    let pool = Pool::new("waits", 3).unwrap();
    let notes = Notes::new();
    let (release, hold) = mpsc::channel::<()>();
    let slow = notes.clone();
    let run = move || {
        assert!(hold.recv().is_err());
        slow.add("slow");
    };
    pool.execute(Runnable::new(run)).unwrap();
    // Two of them, which do not wait for each other either.
    let (sender, receiver) = mpsc::channel();
    for _ in 0..2 {
        let (pool_inside, notes, sender) = (pool.clone(), notes.clone(), sender.clone());
        let run = move || {
            assert!(!pool_inside.wait_timeout(ms(5)), "the slow one runs");
            sender.send(()).unwrap();
            pool_inside.wait();
            notes.add("waited");
        };
        pool.execute(Runnable::new(run)).unwrap();
    }
    receiver.recv_timeout(PATIENCE).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    drop(release);
    pool.wait();
    assert_eq!(notes.take(), ["slow", "waited", "waited"]);
}
