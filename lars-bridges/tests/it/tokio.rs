//! Tasks on a tokio runtime, and tokio's tasks in virtual time.

use std::sync::mpsc;

use lars_bridges::tokio::{TokioExecutor, TokioInVirtualTime};
use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::future::Stalled;

use crate::common::{Notes, PATIENCE, ms, scaled, secs, virtual_time};

fn in_virtual_time() -> TokioInVirtualTime {
    TokioInVirtualTime::new(virtual_time()).unwrap()
}

#[test]
fn a_tokio_runtime_runs_tasks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let scheduler = LightArrayRevolverScheduler::builder()
        .executor(TokioExecutor::new(runtime.handle().clone()))
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let run = move || sender.send(tokio::runtime::Handle::try_current().is_ok()).unwrap();
    let _ = scheduler.schedule_once(ms(1), run).unwrap();
    assert!(receiver.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn tasks_of_tokio_see_each_instant_exactly_and_in_order() {
    for _ in 0..scaled(50, 2) {
        let test = in_virtual_time();
        let (timers, start, notes) = (test.handle(), test.now(), Notes::new());
        let notes_of_all = notes.clone();
        test.block_on(async {
            let tasks: Vec<_> = (1..=20)
                .rev()
                .map(|number| {
                    let (timers, notes) = (timers.clone(), notes.clone());
                    tokio::spawn(async move {
                        timers.sleep(ms(number)).await.unwrap();
                        // A task of its own, at the same instant.
                        let clock = timers.clone();
                        let now = tokio::spawn(async move { clock.now() }).await.unwrap();
                        notes.add((number, (now - start).as_millis() as u64));
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
        .unwrap();
        let expected: Vec<_> = (1..=20).map(|number| (number, number)).collect();
        assert_eq!(notes_of_all.take(), expected);
        assert_eq!(test.elapsed(), ms(20));
    }
}

#[test]
fn spawned_tasks_that_use_tokios_names_are_in_virtual_time() {
    use lars_scheduler::time::{Instant, interval, sleep};
    let test = in_virtual_time();
    test.block_on(async {
        let begin = Instant::now();
        let sleeper = tokio::spawn(async move {
            sleep(secs(3600)).await;
            begin.elapsed()
        });
        let ticker = tokio::spawn(async move {
            let mut ticks = interval(secs(60));
            for _ in 0..3 {
                ticks.tick().await;
            }
            begin.elapsed()
        });
        assert_eq!(ticker.await.unwrap(), secs(120));
        assert_eq!(sleeper.await.unwrap(), secs(3600));
    })
    .unwrap();
}

#[test]
fn time_stands_still_while_a_task_or_the_blocked_future_has_something_to_do() {
    let test = in_virtual_time();
    let timers = test.handle();
    let start = test.now();
    test.block_on(async {
        let clock = timers.clone();
        let sleeper = tokio::spawn(async move { clock.sleep(secs(1)).await });
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            assert_eq!(timers.now(), start);
        }
        sleeper.await.unwrap().unwrap();
        assert_eq!(timers.now(), start + secs(1));
    })
    .unwrap();
}

#[test]
fn all_tasks_that_wait_without_a_timer_are_an_error_and_the_runtime_can_be_used_again() {
    let test = in_virtual_time();
    let (sender, receiver) = futures::channel::oneshot::channel();
    let task = test.runtime().spawn(receiver);
    assert!(matches!(test.block_on(std::future::pending::<()>()), Err(Stalled)));
    sender.send(7).unwrap();
    assert_eq!(test.block_on(task).unwrap().unwrap(), Ok(7));
}

/// The message of the panic of `nested`, which is called inside of `block_on`.
fn panic_inside(nested: impl Fn(&TokioInVirtualTime)) -> String {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let test = in_virtual_time();
    let ended = catch_unwind(AssertUnwindSafe(|| test.block_on(async { nested(&test) })));
    let payload = ended.unwrap_err();
    // It can be used again.
    assert_eq!(test.block_on(async { 7 }).unwrap(), 7);
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap()
}

#[test]
fn blocking_inside_of_a_runtime_panics_and_does_not_wait_forever() {
    let own = panic_inside(|test| test.block_on(async {}).unwrap());
    assert!(own.contains("await the future instead"), "{own}");
    let other = panic_inside(|_| {
        let other = in_virtual_time();
        other.block_on(async {}).unwrap();
    });
    assert!(other.contains("runtime"), "{other}"); // tokio's own words
}

#[test]
fn a_timer_that_wakes_no_task_of_tokio_does_not_end_the_movement_of_time() {
    let (sender, receiver) = mpsc::channel();
    // On a thread of its own, so that waiting forever is a failure.
    std::thread::spawn(move || {
        let test = in_virtual_time();
        let timers = test.handle();
        let (ran, clock) = (Notes::new(), test.handle());
        let note = ran.clone();
        let start = test.now();
        let _ = timers.schedule_once(secs(1), move || note.add(clock.now() - start)).unwrap();
        let ended = test.block_on(timers.sleep(secs(2)));
        sender.send((ended.is_ok(), ran.take(), test.elapsed())).unwrap();
    });
    let ended = receiver.recv_timeout(PATIENCE).expect("it waits forever");
    assert_eq!(ended, (true, vec![secs(1)], secs(2)));
}
