//! What becomes of each system while somebody keeps the list that `stop` has handed back.
//!
//! One rule for all: what was handed back runs only when the holder of the list runs it. Callers
//! that wait are told at once. The table in docs/systems.md says it for each system, and the table
//! here holds it.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::future::{Future, pending};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use common::{Bell, ByHand, Notes, PATIENCE, eventually, scaled, virtual_time};
use lars_jobs::Jobs;
use lars_jobs::backoff::BackoffPolicy;
use lars_jobs::call::CallError;
use lars_jobs::delay_queue::{DelayQueue, NextError};
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_jobs::retry::GiveUp;
use lars_jobs::scheduled_executor::ScheduledExecutor;
use lars_jobs::supervised::Supervision;
use lars_jobs::wall_clock::{VirtualWallClock, WallClockScheduler};
use lars_jobs::worker::Worker;
use lars_scheduler::future::TimeoutError;
use lars_scheduler::{
    Inline, LightArrayRevolverScheduler, MissedTickBehavior, PendingTask, Refusal, VirtualTime,
};

const SECOND: Duration = Duration::from_secs(1);

/// Says whether callers see that it is over.
type Probe = Box<dyn FnMut() -> bool>;

struct System {
    name: &'static str,
    /// Schedules something that is due in a second, and then notes it.
    begin: fn(&VirtualTime, Notes<()>) -> Probe,
    /// Whether callers are told at once, or wait for what the holder of the list does.
    told: bool,
    /// How often it runs if the holder runs the list.
    runs: usize,
}

/// A probe of something to be awaited: over when it has woken its task, and then says so.
fn awaited<T: 'static>(
    future: impl Future<Output = T> + 'static,
    is_stopped: fn(T) -> bool,
) -> Probe {
    let mut future = Box::pin(future);
    let (bell, waker) = Bell::new();
    let first = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(first.is_pending());
    let mut over = false;
    Box::new(move || {
        if bell.rung() > 0 && !over {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => assert!(is_stopped(result)),
                Poll::Pending => panic!("it was woken, and waits on"),
            }
            over = true;
        }
        over
    })
}

fn wall(time: &VirtualTime) -> WallClockScheduler {
    let clock = VirtualWallClock::new(time.handle(), std::time::SystemTime::UNIX_EPOCH);
    WallClockScheduler::with_clock(time.handle(), clock)
}

const SYSTEMS: [System; 16] = [
    System {
        name: "call",
        begin: |time, notes| {
            let call = time.schedule_call(SECOND, move || notes.add(())).unwrap();
            Box::new(move || call.is_done())
        },
        told: true,
        runs: 1,
    },
    System {
        name: "series of calls",
        begin: |time, notes| {
            let call = move || notes.add(());
            let call = time.schedule_calls_with_fixed_delay(SECOND, SECOND, call).unwrap();
            Box::new(move || call.is_done())
        },
        told: true,
        runs: 1,
    },
    System {
        name: "call that is awaited",
        begin: |time, notes| {
            let call = time.schedule_call(SECOND, move || notes.add(())).unwrap();
            awaited(call, |result| matches!(result, Err(CallError::HandedBack)))
        },
        told: true,
        runs: 1,
    },
    System {
        name: "one-shot of an executor",
        begin: |time, notes| {
            let jobs = ScheduledExecutor::on(time);
            let call = jobs.schedule(SECOND, move || notes.add(())).unwrap();
            Box::new(move || call.is_done() && !jobs.is_shutdown())
        },
        told: true,
        runs: 1,
    },
    System {
        name: "series of an executor",
        begin: |time, notes| {
            let jobs = ScheduledExecutor::on(time);
            let task = move || notes.add(());
            let call = jobs.schedule_at_fixed_rate(SECOND, SECOND, task).unwrap();
            Box::new(move || call.is_done() && !jobs.is_shutdown())
        },
        told: true,
        runs: 1,
    },
    System {
        name: "delayed task of a worker",
        begin: |time, notes| {
            let task = Worker::new(time).schedule_after(SECOND, move || notes.add(())).unwrap();
            Box::new(move || task.is_done())
        },
        told: false,
        runs: 1,
    },
    System {
        name: "repeat of a worker",
        begin: |time, notes| {
            let (worker, missed) = (Worker::new(time), MissedTickBehavior::Burst);
            let task = move || notes.add(());
            let task = worker
                .clone()
                .missed_ticks(missed)
                .schedule_at_fixed_rate(SECOND, SECOND, task)
                .unwrap();
            Box::new(move || task.is_done())
        },
        told: false,
        runs: 1,
    },
    System {
        name: "repeated timer",
        begin: |time, notes| {
            let timer = RepeatedTimer::new(time, SECOND, move |_| notes.add(())).unwrap();
            timer.start().unwrap();
            Box::new(move || {
                let refused = [timer.start(), timer.restart(), timer.reset()];
                let stopped = refused == [const { Err(Refusal::Stopped) }; 3];
                assert_eq!(stopped, !timer.is_started() && timer.due().is_none());
                stopped
            })
        },
        told: true,
        runs: 0,
    },
    System {
        name: "supervised task",
        begin: |time, notes| {
            let supervision = Supervision::every(SECOND).build().unwrap();
            let task = supervision.start(time, Inline, move |_| notes.add(())).unwrap();
            Box::new(move || task.is_ended())
        },
        told: true,
        runs: 0,
    },
    System {
        name: "future of a delay queue",
        begin: |time, _| {
            let clock = time.handle();
            let queue = DelayQueue::with_clock(move || clock.now());
            queue.put((), SECOND).unwrap();
            let stopped = |next| next == Err(NextError::Refused(Refusal::Stopped));
            let next = queue.next(time);
            awaited(async move { (next.await, queue).0 }, stopped)
        },
        told: true,
        runs: 0,
    },
    System {
        name: "sleep",
        begin: |time, _| awaited(time.sleep(SECOND), |slept| slept == Err(Refusal::Stopped)),
        told: true,
        runs: 0,
    },
    System {
        name: "timeout",
        begin: |time, _| {
            let work = time.timeout(SECOND, pending::<()>());
            awaited(work, |done| done == Err(TimeoutError::Refused(Refusal::Stopped)))
        },
        told: true,
        runs: 0,
    },
    System {
        name: "interval",
        begin: |time, _| {
            let mut ticks = time.interval_at(time.now() + SECOND, SECOND).unwrap();
            awaited(async move { ticks.tick().await }, |tick| tick == Err(Refusal::Stopped))
        },
        told: true,
        runs: 0,
    },
    System {
        name: "retry",
        begin: |time, _| {
            let policy = BackoffPolicy::builder().initial(SECOND).build().unwrap();
            let work = time.retry(policy, || async { Err::<(), _>("refused") });
            awaited(work, |done| *done.unwrap_err().reason() == GiveUp::Refused(Refusal::Stopped))
        },
        told: true,
        runs: 0,
    },
    System {
        name: "one-shot on the wall clock",
        begin: |time, notes| {
            let wall = wall(time);
            let at = std::time::SystemTime::UNIX_EPOCH + SECOND;
            let timer = wall.schedule_at_system_time(at, move || notes.add(())).unwrap();
            Box::new(move || !timer.is_pending())
        },
        told: false,
        runs: 1,
    },
    System {
        name: "repeat on the wall clock",
        begin: |time, notes| {
            let seconds = |after: std::time::SystemTime| Some(after + SECOND);
            let timer = wall(time).schedule_by_calendar(seconds, move || notes.add(())).unwrap();
            Box::new(move || !timer.is_pending())
        },
        told: false,
        runs: 1,
    },
];

#[test]
fn what_was_handed_back_runs_only_when_the_holder_of_the_list_runs_it_and_callers_are_told() {
    for System { name, begin, told, runs } in SYSTEMS {
        for holder_runs in [true, false] {
            let (time, notes) = (virtual_time(), Notes::new());
            let mut is_over = begin(&time, notes.clone());
            assert!(!is_over(), "{name} has begun");
            let list = time.stop().wait();
            assert_eq!(list.len(), 1, "{name}");
            assert_eq!(is_over(), told, "{name} while the list is kept");
            time.advance(10 * SECOND);
            assert_eq!(notes.len(), 0, "{name} ran although the list is kept");
            assert_eq!(is_over(), told, "{name} when its time has come");
            for task in list {
                if holder_runs {
                    assert!(task.run(), "{name}");
                }
            }
            assert_eq!(notes.len(), if holder_runs { runs } else { 0 }, "{name}");
            assert!(is_over(), "{name} at the end");
        }
    }
}

/// Stops the scheduler and moves time by ten seconds while a worker is busy with another task.
fn stop_while_busy(schedule: impl FnOnce(&Worker, Notes<u32>)) -> (Notes<u32>, Vec<PendingTask>) {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    let time = Arc::new(builder.build_virtual().unwrap());
    let (worker, notes, list) = (Worker::new(&time), Notes::new(), Arc::new(Mutex::default()));
    schedule(&worker, notes.clone());
    let (clock, kept) = (Arc::clone(&time), Arc::clone(&list));
    worker
        .schedule(move || {
            *kept.lock().unwrap() = clock.stop().wait();
            clock.advance(10 * SECOND);
        })
        .unwrap();
    time.advance(Duration::ZERO);
    assert!(by_hand.run_next(), "the drain");
    assert!(worker.schedule(|| ()).is_err());
    let list = std::mem::take(&mut *list.lock().unwrap());
    (notes, list)
}

#[test]
fn a_busy_worker_does_not_run_what_was_handed_back_although_it_is_due() {
    let (notes, list) = stop_while_busy(|worker, notes| {
        let (first, second) = (notes.clone(), notes);
        worker.schedule_after(2 * SECOND, move || second.add(2)).unwrap();
        worker.schedule_after(SECOND, move || first.add(1)).unwrap();
    });
    assert!(notes.take().is_empty());
    for (task, number) in list.into_iter().zip(1..) {
        assert!(task.run());
        assert_eq!(notes.take(), [number]);
    }
}

#[test]
fn a_busy_worker_does_not_run_a_repeat_that_was_handed_back_although_it_is_due() {
    let (notes, list) = stop_while_busy(|worker, notes| {
        let missed = MissedTickBehavior::Burst;
        worker
            .clone()
            .missed_ticks(missed)
            .schedule_at_fixed_rate(SECOND, SECOND, move || notes.add(1))
            .unwrap();
    });
    assert!(notes.take().is_empty());
    assert_eq!(list.len(), 1);
    for task in list {
        assert!(task.run());
    }
    assert_eq!(notes.take(), [1]);
}

#[test]
fn of_a_task_that_is_due_when_a_busy_worker_and_a_stop_race_for_it_one_has_it() {
    let rounds = scaled(300, 5);
    let (mut by_worker, mut by_holder) = (0, 0);
    for round in 0..rounds {
        let scheduler = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(100))
            .build()
            .unwrap();
        let (worker, notes) = (Worker::new(&scheduler), Notes::new());
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let busy = move || {
            begin.send(()).unwrap();
            let _ = ended.recv_timeout(PATIENCE);
        };
        worker.schedule(busy).unwrap();
        begun.recv_timeout(PATIENCE).unwrap();
        let log = notes.clone();
        worker.schedule_after(Duration::from_micros(300), move || log.add(())).unwrap();
        thread::sleep(Duration::from_micros(250 + round as u64 % 200));
        drop(end);
        let list = scheduler.stop().wait();
        // The worker comes to its end, and the list is run after that.
        match list.is_empty() {
            true => eventually("the worker has run it", || notes.len() == 1),
            false => eventually("the worker leaves it alone", || worker.outstanding() == 1),
        }
        let before = notes.len();
        let handed_back = list.len();
        assert_eq!(before + handed_back, 1, "round {round}");
        for task in list {
            assert!(task.run());
        }
        // On this thread, or, if the worker is still at it, on the worker's.
        eventually("it has run", || notes.len() == 1);
        by_worker += before;
        by_holder += handed_back;
    }
    println!("run by the worker: {by_worker}, by the holder of the list: {by_holder}");
}

#[test]
fn a_trampoline_that_waits_returns_when_what_it_waits_for_is_handed_back() {
    for repeats in [false, true] {
        let scheduler = LightArrayRevolverScheduler::new().unwrap();
        let (worker, notes) = (Worker::trampoline(&scheduler), Notes::new());
        let (sender, returned) = mpsc::channel();
        let (trampoline, log, hour) = (worker.clone(), notes.clone(), 3600 * SECOND);
        let waiting = thread::spawn(move || {
            let task = move || log.add(());
            let scheduled = match repeats {
                false => trampoline.schedule_after(hour, task).unwrap(),
                true => trampoline.schedule_with_fixed_delay(hour, hour, task).unwrap(),
            };
            sender.send(scheduled).unwrap();
        });
        eventually("it waits", || worker.outstanding() == 1);
        let list = scheduler.stop().wait();
        let task = returned.recv_timeout(PATIENCE).expect("it returns while the list is kept");
        waiting.join().unwrap();
        assert!(!task.is_done() && notes.take().is_empty());
        assert_eq!(list.len(), 1);
        for task in list {
            assert!(task.run());
        }
        assert!(task.is_done());
        assert_eq!(notes.len(), 1);
    }
}

#[test]
fn what_a_worker_was_handed_back_can_still_be_cancelled() {
    let (time, notes) = (virtual_time(), Notes::new());
    let worker = Worker::new(&time);
    let log = notes.clone();
    let task = worker.schedule_after(SECOND, move || log.add(())).unwrap();
    let list = time.stop().wait();
    assert!(task.cancel() && task.is_done());
    assert_eq!(worker.outstanding(), 0);
    assert!(list.into_iter().all(PendingTask::run), "an entry of nothing");
    assert_eq!(notes.len(), 0);
}
