//! Counts: exact, and they add up.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use common::{ByHand, Notes, eventually, ms, ns, scaled, secs, settle, ticked, virtual_time};
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::Systems;
use lars_scheduler::{
    Cancellable, LightArrayRevolverScheduler, Metrics, Pool, Refusal, Task, VirtualTime,
};

fn limited(max_pending: usize) -> VirtualTime {
    LightArrayRevolverScheduler::builder().max_pending(max_pending).build_virtual().unwrap()
}

fn assert_adds_up(metrics: &Metrics) {
    assert_eq!(
        metrics.scheduled,
        metrics.fired + metrics.cancelled + metrics.handed_back + metrics.pending,
        "{metrics:?}",
    );
}

#[test]
fn a_new_scheduler_has_counted_nothing() {
    let metrics = virtual_time().metrics();
    assert_eq!((metrics.scheduled, metrics.fired, metrics.cancelled), (0, 0, 0));
    assert_eq!((metrics.handed_back, metrics.pending, metrics.refused), (0, 0, 0));
    assert_eq!((metrics.panicked, metrics.restarts, metrics.wake_ups), (0, 0, 0));
    assert_eq!((metrics.rejected_by_executor, metrics.abandoned_by_executor), (0, 0));
    assert_eq!(metrics.timer_memory, 0);
    assert_eq!((metrics.lateness.max, metrics.lateness.mean), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn every_fate_of_a_timer_is_counted_once() {
    let time = virtual_time();
    let timers: Vec<_> =
        (1..=10).map(|delay| time.schedule_once(ms(delay), || ()).unwrap()).collect();
    assert_eq!(time.pending(), 10);
    time.advance(ms(4));
    assert!(timers[8].cancel() && timers[9].cancel());
    assert!(!timers[0].cancel() && !timers[9].cancel(), "in vain, so not counted");
    let metrics = time.metrics();
    assert_eq!((metrics.scheduled, metrics.fired, metrics.cancelled), (10, 4, 2));
    assert_eq!((metrics.pending, metrics.handed_back), (4, 0));
    assert_adds_up(&metrics);
    drop(time.stop().wait());
    assert!(time.schedule_once(ms(1), || ()).is_err());
    let metrics = time.metrics();
    assert_eq!((metrics.scheduled, metrics.fired, metrics.cancelled), (10, 4, 2));
    assert_eq!((metrics.pending, metrics.handed_back, metrics.refused), (0, 4, 1));
    assert_adds_up(&metrics);
}

#[test]
fn each_run_of_a_repeat_counts_as_one_timer() {
    let time = virtual_time();
    let series = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap();
    time.advance(ms(5));
    let metrics = time.metrics();
    assert_eq!((metrics.scheduled, metrics.fired, metrics.pending), (6, 5, 1));
    assert!(series.cancel());
    let metrics = time.metrics();
    assert_eq!((metrics.scheduled, metrics.cancelled, metrics.pending), (6, 1, 0));
    assert_adds_up(&metrics);
}

#[test]
fn a_task_counts_as_fired_when_it_is_handed_to_its_executor() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    time.advance(ms(1));
    assert_eq!((time.metrics().fired, time.pending(), by_hand.waiting()), (1, 0, 1));
}

#[test]
fn lateness_is_measured_from_the_deadline_to_the_tick() {
    let time = ticked(ms(1), 8);
    assert_eq!(time.advance(ms(10)), 0);
    let _ = time.schedule_once(ns(400_000), || ()).unwrap();
    let _ = time.schedule_once(ns(800_000), || ()).unwrap();
    let _ = time.schedule_once(ms(3), || ()).unwrap();
    time.advance(ms(10));
    let lateness = time.metrics().lateness;
    assert_eq!(lateness.max, ns(600_000));
    assert_eq!(lateness.mean, ns(800_000 / 3));
}

#[test]
fn lateness_includes_what_a_task_waits_for_others_of_the_same_turn() {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let held = common::occupy(&scheduler);
    let tasks = 20;
    for _ in 0..tasks {
        let _ = scheduler.schedule_once(Duration::ZERO, || thread::sleep(ms(2))).unwrap();
    }
    drop(held);
    eventually("the tasks", || scheduler.metrics().fired > tasks);
    let lateness = scheduler.metrics().lateness;
    assert!(lateness.max >= ms(2 * (tasks - 1)), "{lateness:?}");
}

#[test]
fn lateness_includes_what_a_task_waits_for_those_that_run_together() {
    struct Slow;
    impl TaskBody for Slow {
        const TOGETHER: bool = true;
        fn run(self) {
            thread::sleep(ms(2));
        }
    }
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let held = common::occupy(&scheduler);
    for _ in 0..20 {
        let _ = scheduler.schedule_once(Duration::ZERO, Task::new(Slow)).unwrap();
    }
    let _ = scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    drop(held);
    eventually("the tasks", || scheduler.metrics().fired == 22);
    let lateness = scheduler.metrics().lateness;
    assert!(lateness.max >= ms(2 * 20), "{lateness:?}");
}

#[test]
fn lateness_includes_what_a_task_waits_for_a_thread_of_the_pool() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let (release, held) = mpsc::channel::<()>();
    let _ = scheduler.schedule_once(Duration::ZERO, move || assert!(held.recv().is_err())).unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    eventually("the hand-over", || scheduler.metrics().fired == 2);
    eventually("the start", || scheduler.metrics().pool.running == 1);
    thread::sleep(ms(5));
    drop(release);
    eventually("the end", || scheduler.metrics().pool.run_time.count == 2);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.lateness.count, metrics.pool.queue_time.count), (2, 2));
    assert!(metrics.lateness.max >= ms(5), "{metrics:?}");
    assert!(metrics.pool.queue_time.max >= ms(5), "{metrics:?}");
    assert!(metrics.pool.run_time.max >= ms(5), "{metrics:?}");
    assert!(metrics.lateness.max >= metrics.pool.queue_time.max, "{metrics:?}");
}

#[test]
fn the_pool_says_how_many_tasks_run_and_how_many_wait() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(2)).build().unwrap();
    let idle = scheduler.metrics().pool;
    assert_eq!((idle.threads, idle.running, idle.queued), (2, 0, 0));
    let release = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let held = Arc::clone(&release);
        let run = move || {
            held.wait();
        };
        let _ = scheduler.schedule_once(Duration::ZERO, run).unwrap();
    }
    eventually("both threads are busy", || scheduler.metrics().pool.running == 2);
    for _ in 0..5 {
        let _ = scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    }
    eventually("five wait", || scheduler.metrics().pool.queued == 5);
    release.wait();
    eventually("the end", || {
        let pool = scheduler.metrics().pool;
        (pool.running, pool.queued, pool.run_time.count) == (0, 0, 7)
    });
}

#[test]
fn a_task_on_another_executor_is_late_until_it_is_run_there() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    time.advance(ms(1));
    assert_eq!(time.metrics().lateness.count, 0, "it has not begun");
    time.advance(ms(7));
    assert!(by_hand.run_next());
    let metrics = time.metrics();
    assert_eq!((metrics.lateness.count, metrics.lateness.max), (1, ms(7)));
    assert_eq!((metrics.pool.queue_time.max, metrics.pool.run_time.count), (ms(7), 1));
}

#[test]
fn a_task_with_an_executor_of_its_own_counts_once() {
    let by_hand = ByHand::default();
    let time = virtual_time();
    let task = Task::new(|| ()).executor(Arc::new(by_hand.clone()));
    let _ = time.schedule_once(ms(1), task).unwrap();
    time.advance(ms(4));
    assert_eq!((time.metrics().fired, time.metrics().lateness.count), (1, 0));
    assert!(by_hand.run_next());
    let lateness = time.metrics().lateness;
    assert_eq!((lateness.count, lateness.max), (1, ms(3)));
}

#[test]
fn schedulers_that_share_a_pool_count_only_their_own_tasks() {
    let pool = Pool::new("shared", 2).unwrap();
    let build = || LightArrayRevolverScheduler::builder().executor(pool.clone()).build().unwrap();
    let (first, second) = (build(), build());
    for number in 0..30 {
        let on = if number % 3 == 0 { &first } else { &second };
        let _ = on.schedule_once(Duration::ZERO, || ()).unwrap();
    }
    // A third has a pool of its own, and sends its tasks here.
    let third = LightArrayRevolverScheduler::new().unwrap();
    let task = Task::new(|| ()).executor(Arc::new(pool.clone()));
    let _ = third.schedule_once(Duration::ZERO, task).unwrap();
    for (scheduler, tasks) in [(&first, 10), (&second, 20), (&third, 1)] {
        eventually("all have run", || scheduler.metrics().pool.run_time.count == tasks);
        let metrics = scheduler.metrics();
        assert_eq!((metrics.lateness.count, metrics.pool.queue_time.count), (tasks, tasks));
    }
}

#[test]
fn what_the_threads_of_a_pool_record_adds_up() {
    let tasks = scaled(20_000, 100) as u64;
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(4)).build().unwrap();
    for number in 0..tasks {
        let _ = scheduler.schedule_once(ms(number % 7), || ()).unwrap();
    }
    eventually("all have run", || scheduler.metrics().pool.run_time.count == tasks);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.fired, metrics.lateness.count), (tasks, tasks));
    assert_eq!(metrics.pool.queue_time.count, tasks);
    assert!(metrics.pool.queue_time.sum <= metrics.lateness.sum, "{metrics:?}");
}

#[test]
fn counts_are_exact_when_many_threads_schedule_and_cancel() {
    const THREADS: usize = 4;
    let per_thread = scaled(5_000, 40);
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let timers = scheduler.handle();
            scope.spawn(move || {
                for number in 0..per_thread {
                    let delay = if number % 4 == 1 { Duration::ZERO } else { secs(3_600) };
                    let timer = timers.schedule_once(delay, || ()).unwrap();
                    if number % 4 == 0 {
                        assert!(timer.cancel());
                    }
                }
            });
        }
    });
    let quarter = (THREADS * per_thread / 4) as u64;
    eventually("the zero delays", || scheduler.metrics().fired == quarter);
    let metrics = scheduler.metrics();
    assert_eq!((metrics.scheduled, metrics.cancelled), (4 * quarter, quarter));
    assert_eq!(metrics.pending, 2 * quarter);
    assert_eq!(scheduler.stop().wait().len() as u64, 2 * quarter);
    assert_adds_up(&scheduler.metrics());
}

#[test]
fn beyond_max_pending_a_call_is_refused_and_the_task_is_given_back() {
    let time = limited(3);
    for _ in 0..3 {
        let _ = time.schedule_once(ms(1), || ()).unwrap();
    }
    let ran = Notes::new();
    let note = ran.clone();
    let error = time.schedule_once(ms(1), move || note.add(())).unwrap_err();
    assert_eq!(*error.refusal(), Refusal::Full { limit: 3 });
    assert_eq!(error.to_string(), "max_pending is 3, and this call would exceed it");
    error.into_task()();
    assert_eq!(ran.len(), 1, "by the test itself");
    let series = time.schedule_at_fixed_rate(ms(1), ms(1), || ());
    assert_eq!(*series.unwrap_err().refusal(), Refusal::Full { limit: 3 });
    let metrics = time.metrics();
    assert_eq!((metrics.pending, metrics.scheduled, metrics.refused), (3, 3, 2));
    assert_eq!(time.advance(ms(1)), 3, "what was refused does not run");
    assert_eq!(ran.len(), 1);
}

#[test]
fn a_scheduler_that_is_full_and_has_stopped_says_that_it_has_stopped() {
    let time = limited(1);
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    let pending = time.stop();
    let refused = time.schedule_once(ms(1), || ()).unwrap_err();
    assert_eq!(*refused.refusal(), Refusal::Stopped);
    assert_eq!(pending.wait().len(), 1);
}

#[test]
fn a_cancel_gives_the_place_back_at_once() {
    let time = limited(1);
    for round in 0..100 {
        let timer = time.schedule_once(secs(30), || ()).unwrap();
        assert!(time.schedule_once(secs(30), || ()).is_err());
        if round % 2 == 0 {
            time.advance(ms(1)); // cancelled in the wheel, and in the intake
        }
        assert!(timer.cancel());
        assert!(!timer.cancel(), "and gives it back once");
    }
    let _ = time.schedule_once(ms(1), || ()).unwrap();
    assert!(time.schedule_once(ms(1), || ()).is_err());
}

#[test]
fn a_run_gives_the_place_back_before_it_begins() {
    let time = limited(1);
    let timers = time.handle();
    let run = move || {
        // So that a task can be the one that schedules the next.
        let _ = timers.schedule_once(ms(1), || ()).unwrap();
        assert!(timers.schedule_once(ms(1), || ()).is_err());
    };
    let _ = time.schedule_once(ms(1), run).unwrap();
    assert_eq!(time.advance(ms(2)), 2);
    assert_eq!((time.metrics().panicked, time.pending()), (0, 0));
    let _ = time.schedule_once(ms(1), || ()).unwrap();
}

#[test]
fn a_repeat_takes_one_place_and_gives_it_back_when_it_ends() {
    let time = limited(2);
    let series = time.schedule_with_fixed_delay(ms(1), ms(1), || ()).unwrap();
    assert_eq!(time.advance(ms(10)), 10);
    let _other = time.schedule_once(secs(1), || ()).unwrap();
    assert!(time.schedule_once(secs(1), || ()).is_err());
    assert!(series.cancel());
    let _ = time.schedule_once(secs(1), || ()).unwrap();
    assert!(time.schedule_once(secs(1), || ()).is_err());
}

#[test]
fn what_a_system_runs_in_the_next_turn_is_not_refused_and_takes_no_place() {
    let (time, runs) = (limited(1), Notes::new());
    let _only = time.schedule_once(ms(1), || ()).unwrap();
    let (first, last) = (runs.clone(), runs.clone());
    assert!(time.run_next_turn(move || first.add("first")));
    assert_eq!(runs.len(), 0, "not in the call");
    time.advance(Duration::ZERO);
    assert_eq!(runs.take(), ["first"]);
    assert!(time.schedule_once(ms(1), || ()).is_err(), "it has given no place back");
    time.advance(ms(1));
    assert!(time.schedule_once(ms(1), || ()).is_ok());
    time.stop().wait();
    assert!(!time.run_next_turn(move || last.add("last")));
    assert_eq!(runs.len(), 0);
}

#[test]
fn max_pending_is_exact_when_many_threads_schedule_at_once() {
    const THREADS: usize = 4;
    const LIMIT: usize = 100;
    for _ in 0..scaled(20, 2) {
        let scheduler = LightArrayRevolverScheduler::builder().max_pending(LIMIT).build().unwrap();
        let (barrier, accepted) = (Barrier::new(THREADS), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..LIMIT {
                        match scheduler.schedule_once(secs(3_600), || ()) {
                            Ok(_) => accepted.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert_eq!(*error.refusal(), Refusal::Full { limit: LIMIT });
                                0
                            }
                        };
                    }
                });
            }
        });
        assert_eq!(accepted.load(Ordering::Relaxed), LIMIT);
        let metrics = scheduler.metrics();
        assert_eq!(metrics.pending, LIMIT as u64);
        assert_eq!(metrics.refused, ((THREADS - 1) * LIMIT) as u64);
    }
}

#[test]
fn places_are_neither_lost_nor_won_when_many_threads_schedule_cancel_and_fire() {
    const THREADS: usize = 4;
    const LIMIT: usize = 8;
    let scheduler = LightArrayRevolverScheduler::builder()
        .max_pending(LIMIT)
        .tick_duration(Duration::from_micros(20))
        .inline()
        .build()
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let timers = scheduler.handle();
            scope.spawn(move || {
                for number in 0..scaled(5_000, 40) as u64 {
                    let delay = Duration::from_micros(number % 50);
                    if let Ok(timer) = timers.schedule_once(delay, || ())
                        && number % 3 == 0
                    {
                        timer.cancel();
                    }
                }
            });
        }
    });
    eventually("all fire", || scheduler.pending() == 0);
    settle(&scheduler);
    let timers: Vec<Cancellable> =
        (0..LIMIT).map(|_| scheduler.schedule_once(secs(3_600), || ()).unwrap()).collect();
    assert!(scheduler.schedule_once(secs(3_600), || ()).is_err(), "exactly as many as at first");
    assert!(timers.iter().all(Cancellable::cancel));
    assert_adds_up(&scheduler.metrics());
}

#[test]
fn memory_for_timers_is_used_again_instead_of_growing() {
    let time = virtual_time();
    let batch = scaled(3_000, 50);
    let mut memory = Vec::new();
    for _ in 0..10 {
        for _ in 0..batch {
            let _ = time.schedule_once(ms(1), || ()).unwrap();
        }
        assert_eq!(time.advance(ms(1)), batch);
        memory.push(time.metrics().timer_memory);
    }
    assert!(memory[0] >= batch * 32, "at least the deadlines and tasks");
    assert_eq!(memory[1], memory[9], "{memory:?}");
}

#[test]
fn a_kept_cancellable_of_a_fired_timer_keeps_that_timer_s_memory_and_no_other() {
    let time = virtual_time();
    let batch = scaled(10_000, 100);
    let schedule = || time.schedule_once(ms(1), || ()).unwrap();
    let mut kept: Vec<_> = (0..batch).map(|_| schedule()).collect();
    assert_eq!(time.advance(ms(1)), batch);
    assert!(kept.iter().all(|timer| !timer.is_pending() && !timer.is_cancelled()));
    let memory = time.metrics().timer_memory;
    for round in 0..10 {
        // Others are dropped each time, before their timer fires or after.
        let mut number = round;
        kept.retain(|_| {
            number += 1;
            number % 3 != 0
        });
        kept.extend((kept.len()..batch).map(|_| schedule()));
        if round % 2 == 0 {
            kept.truncate(batch / 2);
        }
        time.advance(ms(1));
    }
    assert_eq!(time.metrics().timer_memory, memory);
    assert!(kept.iter().all(|timer| !timer.cancel()), "those it kept are still their own");
}
