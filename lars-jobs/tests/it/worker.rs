//! Workers: serial, in order, disposed without a trace. (RxJava's lists are X1 to X88.)
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Captive, Notes, PATIENCE, Xorshift, eventually, in_lead, ms, ns, scaled, secs,
    virtual_time,
};
use lars_jobs::worker::{Worker, WorkerBuilder, WorkerTask};
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{
    Executor, Handle, LightArrayRevolverScheduler, MissedTickBehavior, Periodic, Refusal, Task,
    VirtualTime,
};

/// Adds a note.
fn note<T: Send + 'static>(notes: &Notes<T>, what: T) -> impl FnOnce() + Send + use<T> {
    let notes = notes.clone();
    move || notes.add(what)
}

/// Time whose executor runs what the test lets it run.
fn time_by_hand() -> (Arc<VirtualTime>, ByHand) {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    (Arc::new(builder.build_virtual().unwrap()), by_hand)
}

/// Moves time by one millisecond at a time, and runs what came due. A task that moves the time
/// itself takes that long.
fn run_for(time: &VirtualTime, by_hand: &ByHand, until: u64) {
    loop {
        time.advance(Duration::ZERO);
        if by_hand.run_next() {
            continue;
        }
        if time.elapsed() >= ms(until) {
            return;
        }
        time.advance(ms(1));
    }
}

/// The kinds of worker that hand their tasks over.
fn kinds(handle: &Handle) -> [(&'static str, Worker); 3] {
    [
        ("eager", Worker::new(handle)),
        ("fair", Worker::builder(handle).fair().build()),
        ("inline", Worker::builder(handle).inline().build()),
    ]
}

/// A slot for a handle that a task needs of itself.
type Own = Arc<Mutex<Option<WorkerTask>>>;

// Order

#[test]
fn tasks_of_one_thread_run_in_the_order_of_the_calls() {
    let time = virtual_time();
    for (kind, worker) in kinds(&time) {
        let notes = Notes::new();
        for number in 0..100 {
            worker.schedule(note(&notes, number)).unwrap();
        }
        assert_eq!(notes.len(), 0, "{kind}: nothing runs on the caller's stack");
        time.advance(Duration::ZERO);
        assert_eq!(notes.take(), (0..100).collect::<Vec<_>>(), "{kind}");
    }
}

/// X4, X5
#[test]
fn delayed_tasks_come_in_when_they_are_due() {
    let time = virtual_time();
    for (kind, worker) in kinds(&time) {
        let notes = Notes::new();
        for delay in [30, 10, 40] {
            worker.schedule_after(ms(delay), note(&notes, delay)).unwrap();
        }
        time.advance(ms(35));
        assert_eq!(notes.take(), [10, 30], "{kind}");
        time.advance(ms(5));
        assert_eq!(notes.take(), [40], "{kind}");

        let notes = Notes::new();
        for (name, delay) in [("1st", 0), ("2nd", 300), ("3rd", 100), ("4th", 0), ("5th", 400)] {
            worker.schedule_after(ms(delay), note(&notes, name)).unwrap();
        }
        time.advance(ms(399));
        assert_eq!(notes.take(), ["1st", "4th", "3rd", "2nd"], "{kind}");
        time.advance(ms(1));
        assert_eq!(notes.take(), ["5th"], "{kind}");
        assert_eq!(worker.outstanding(), 0);
    }
}

/// The scheduler itself fires what is due in one tick in the order of the calls.
#[test]
fn inside_a_tick_too_tasks_run_by_due_time() {
    let time = common::ticked(ms(10), 512);
    let worker = Worker::new(&time);
    let notes = Notes::new();
    for delay in [9, 3, 7, 1] {
        worker.schedule_after(ms(delay), note(&notes, delay)).unwrap();
    }
    time.advance(ms(9));
    assert_eq!(notes.len(), 0);
    time.advance(ms(1));
    assert_eq!(notes.take(), [1, 3, 7, 9]);
}

#[test]
fn equal_due_times_run_in_the_order_of_the_calls() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    worker.schedule_after(ms(10), note(&notes, 1)).unwrap();
    time.advance(ms(4));
    worker.schedule_after(ms(6), note(&notes, 2)).unwrap();
    worker.schedule_after(ms(6), note(&notes, 3)).unwrap();
    time.advance(ms(6));
    assert_eq!(notes.take(), [1, 2, 3]);
}

/// A busy worker keeps nothing that is due waiting behind what was scheduled later.
#[test]
fn a_delayed_task_does_not_wait_for_an_endless_chain_of_others() {
    let (time, by_hand) = time_by_hand();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    fn chain(worker: &Worker, time: &Arc<VirtualTime>, notes: &Notes<u32>, left: u32) {
        if left > 0 {
            let (again, clock, log) = (worker.clone(), Arc::clone(time), notes.clone());
            let link = move || {
                log.add(left);
                clock.advance(ms(1)); // the task takes that long
                chain(&again, &clock, &log, left - 1);
            };
            worker.schedule(link).unwrap();
        }
    }
    chain(&worker, &time, &notes, 5);
    worker.schedule_after(ms(2), note(&notes, 100)).unwrap();
    time.advance(Duration::ZERO);
    assert!(by_hand.run_next()); // a single drain, in which its timer has no thread to fire on
    assert_eq!(notes.take(), [5, 4, 100, 3, 2, 1]);
    while by_hand.run_next() {}
    assert_eq!(notes.len(), 0);
}

#[test]
fn no_delayed_task_is_early_in_real_time() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let worker = Worker::new(&scheduler);
    let (sender, receiver) = mpsc::channel();
    let mut random = Xorshift(3);
    let tasks = scaled(200, 5);
    for _ in 0..tasks {
        let delay = Duration::from_micros(random.below(20_000));
        let (sender, due) = (sender.clone(), Instant::now() + delay);
        worker.schedule_after(delay, move || sender.send((due, Instant::now())).unwrap()).unwrap();
    }
    for _ in 0..tasks {
        let (due, ran) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(ran >= due);
    }
}

#[test]
fn a_delay_that_no_clock_reaches_never_comes_due_and_can_be_cancelled() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let never = worker.schedule_after(Duration::MAX, || panic!("never")).unwrap();
    let run = || -> () { panic!("never") };
    let series = worker.schedule_with_fixed_delay(Duration::MAX, Duration::MAX, run).unwrap();
    let rate = worker.clone().missed_ticks(MissedTickBehavior::Skip).schedule_at_fixed_rate(
        Duration::ZERO,
        Duration::MAX,
        || (),
    );
    time.advance(Duration::from_secs(1_000_000));
    assert_eq!(worker.outstanding(), 3);
    assert!(never.cancel() && series.cancel() && rate.unwrap().cancel());
    assert_eq!((time.pending(), time.metrics().panicked), (0, 0));
}

// Serial

/// X9, X10
#[test]
fn tasks_never_overlap_whatever_threads_schedule_them() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(4)).build().unwrap();
    let threads = 4;
    let each = scaled(2_000, 20);
    let mut workers = kinds(&scheduler).to_vec();
    workers.push(("trampoline", Worker::trampoline(&scheduler)));
    for (kind, worker) in workers {
        let busy = Arc::new(AtomicBool::new(false));
        let notes = Notes::new();
        thread::scope(|scope| {
            for thread in 0..threads {
                let (worker, busy, notes) = (&worker, &busy, &notes);
                scope.spawn(move || {
                    for number in 0..each {
                        let (busy, notes) = (Arc::clone(busy), notes.clone());
                        let task = move || {
                            assert!(!busy.swap(true, Ordering::SeqCst), "two tasks at once");
                            notes.add((thread, number));
                            busy.store(false, Ordering::SeqCst);
                        };
                        worker.schedule(task).unwrap();
                    }
                });
            }
        });
        eventually("all tasks have run", || notes.len() == threads * each);
        let notes = notes.take();
        for thread in 0..threads {
            let own = notes.iter().filter(|note| note.0 == thread).map(|note| note.1);
            assert!(own.eq(0..each), "{kind}: out of order");
        }
    }
    assert_eq!(scheduler.metrics().panicked, 0);
}

#[test]
fn delayed_and_periodic_tasks_overlap_with_nothing_either() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(4))
        .tick_duration(Duration::from_micros(100))
        .build()
        .unwrap();
    for (_, worker) in kinds(&scheduler) {
        let (busy, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let task = || {
            let (busy, count) = (Arc::clone(&busy), Arc::clone(&count));
            move || {
                assert!(!busy.swap(true, Ordering::SeqCst), "two tasks at once");
                thread::yield_now();
                busy.store(false, Ordering::SeqCst);
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        let period = Duration::from_micros(300);
        worker.schedule_with_fixed_delay(period, period, task()).unwrap();
        worker
            .clone()
            .missed_ticks(MissedTickBehavior::Burst)
            .schedule_at_fixed_rate(period, period, task())
            .unwrap();
        let one_shots = scaled(300, 5) as u64;
        for number in 0..one_shots {
            worker.schedule_after(Duration::from_micros(number * 10), task()).unwrap();
            worker.schedule(task()).unwrap();
        }
        eventually("all have run", || {
            worker.outstanding() == 2 && count.load(Ordering::SeqCst) as u64 > one_shots * 2 + 10
        });
        assert_eq!(worker.dispose(), 2);
    }
    assert_eq!(scheduler.metrics().panicked, 0);
}

#[test]
fn workers_run_side_by_side() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(2)).build().unwrap();
    let (one, other) = (Worker::new(&scheduler), Worker::new(&scheduler));
    let (there, here) = mpsc::channel::<()>();
    let (done, wait) = mpsc::channel();
    one.schedule(move || done.send(here.recv_timeout(PATIENCE).is_ok()).unwrap()).unwrap();
    other.schedule(move || there.send(()).unwrap()).unwrap();
    assert!(wait.recv_timeout(PATIENCE).unwrap());
}

/// X1
#[test]
fn a_task_scheduled_by_a_task_runs_after_it_and_not_inside_of_it() {
    let time = virtual_time();
    let mut workers = kinds(&time).to_vec();
    workers.push(("trampoline", Worker::trampoline(&time)));
    for (kind, worker) in workers {
        let notes = Notes::new();
        fn nest(worker: &Worker, notes: &Notes<(u32, &'static str)>, depth: u32) {
            if depth < 3 {
                let (inner, log) = (worker.clone(), notes.clone());
                let task = move || {
                    log.add((depth, "begin"));
                    nest(&inner, &log, depth + 1);
                    log.add((depth, "end"));
                };
                worker.schedule(task).unwrap();
            }
        }
        nest(&worker, &notes, 0);
        time.advance(Duration::ZERO);
        let expected: Vec<_> = (0..3).flat_map(|n| [(n, "begin"), (n, "end")]).collect();
        assert_eq!(notes.take(), expected, "{kind}");
    }
}

/// X6, X31, X32
#[test]
fn a_task_that_schedules_itself_does_so_any_number_of_times_without_a_deeper_stack() {
    let rounds = scaled(20_000, 50) as u32;
    let time = virtual_time();
    let mut workers = kinds(&time).to_vec();
    workers.push(("trampoline", Worker::trampoline(&time)));
    for (kind, worker) in workers {
        let count = Arc::new(AtomicU32::new(0));
        fn again(worker: &Worker, count: &Arc<AtomicU32>, rounds: u32) {
            let (inner, counter) = (worker.clone(), Arc::clone(count));
            let task = move || {
                if counter.fetch_add(1, Ordering::Relaxed) + 1 < rounds {
                    again(&inner, &counter, rounds);
                }
            };
            worker.schedule(task).unwrap();
        }
        for _ in 0..2 {
            count.store(0, Ordering::Relaxed);
            again(&worker, &count, rounds);
            time.advance(Duration::ZERO);
            assert_eq!(count.load(Ordering::Relaxed), rounds, "{kind}");
        }
    }
}

/// X7, X30, X72
#[test]
fn a_task_that_schedules_itself_with_a_delay_runs_once_for_each_delay() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    fn again(worker: &Worker, notes: &Notes<Instant>) {
        let (inner, log) = (worker.clone(), notes.clone());
        let task = move || {
            log.add(inner.now());
            let _ = inner.schedule_after(ms(5), || ());
            again(&inner, &log);
        };
        drop(worker.schedule_after(ms(5), task));
    }
    again(&worker, &notes);
    let start = time.now();
    time.advance(ms(500));
    let expected: Vec<_> = (1..=100).map(|n| start + ms(5) * n).collect();
    assert_eq!(notes.take(), expected);
    worker.dispose();
    time.advance(ms(500));
    assert_eq!((notes.len(), time.pending()), (0, 0));
}

// Fairness

/// X54, X55
#[test]
fn fair_workers_take_turns_on_one_thread_and_others_run_to_the_end() {
    for delayed in [false, true] {
        let (time, by_hand) = time_by_hand();
        let notes = Notes::new();
        let fill = |worker: &Worker, name: char| {
            for number in 1..=3 {
                let task = note(&notes, (name, number));
                if delayed {
                    worker.schedule_after(Duration::ZERO, task).unwrap();
                } else {
                    worker.schedule(task).unwrap();
                }
            }
        };
        fill(&Worker::builder(&time).fair().build(), 'a');
        fill(&Worker::builder(&time).fair().build(), 'b');
        run_for(&time, &by_hand, 0);
        assert_eq!(notes.take(), [('a', 1), ('b', 1), ('a', 2), ('b', 2), ('a', 3), ('b', 3)]);
        fill(&Worker::new(&time), 'a');
        fill(&Worker::new(&time), 'b');
        run_for(&time, &by_hand, 0);
        assert_eq!(notes.take(), [('a', 1), ('a', 2), ('a', 3), ('b', 1), ('b', 2), ('b', 3)]);
    }
}

#[test]
fn a_fair_worker_that_finds_no_place_for_its_next_turn_goes_on_where_it_is() {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone()).max_pending(1);
    let time = builder.build_virtual().unwrap();
    let worker = Worker::builder(&time).fair().build();
    let notes = Notes::new();
    for number in 0..5 {
        worker.schedule(note(&notes, number)).unwrap();
    }
    time.advance(Duration::ZERO);
    let _full = time.schedule_once(Duration::MAX, || ()).unwrap();
    while by_hand.run_next() {}
    assert_eq!(notes.take(), [0, 1, 2, 3, 4]);
}

// Periodic tasks

/// X14, X68
#[test]
fn periodic_tasks_run_at_their_times() {
    let time = virtual_time();
    for (kind, worker) in kinds(&time) {
        let begin = time.elapsed();
        let (rate, delay) = (Notes::new(), Notes::new());
        let clock = |notes: &Notes<u128>| {
            let (notes, clock, start) = (notes.clone(), time.handle(), time.now());
            move || notes.add((clock.now() - start).as_millis())
        };
        worker
            .clone()
            .missed_ticks(MissedTickBehavior::Burst)
            .schedule_at_fixed_rate(ms(1_000), ms(2_000), clock(&rate))
            .unwrap();
        worker.schedule_with_fixed_delay(ms(500), ms(1_500), clock(&delay)).unwrap();
        time.advance(ms(999));
        assert_eq!(rate.len(), 0, "{kind}");
        time.advance(ms(7_000) - (time.elapsed() - begin));
        assert_eq!(rate.take(), [1_000, 3_000, 5_000, 7_000], "{kind}");
        assert_eq!(delay.take(), [500, 2_000, 3_500, 5_000, 6_500], "{kind}");
        assert_eq!(worker.dispose(), 2);
        time.advance(ms(11_000));
        assert_eq!((rate.len(), delay.len(), time.pending()), (0, 0, 0), "{kind}");
    }
}

/// When the runs of a periodic task start although one long task keeps the worker busy from `begin`
/// to `end`. `others_run`: whether there is a second thread on which the timers look in vain while
/// the long task runs.
fn starts_around(
    others_run: bool,
    schedule: impl Fn(&Worker, Box<dyn FnMut() + Send>) -> WorkerTask,
    (begin, end): (u64, u64),
    until: u64,
) -> Vec<u128> {
    let (time, by_hand) = time_by_hand();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let (clock, start, log) = (time.handle(), time.now(), notes.clone());
    let task = move || log.add((clock.now() - start).as_millis());
    let periodic = schedule(&worker, Box::new(task));
    let (clock, hand) = (Arc::clone(&time), by_hand.clone());
    let long = move || {
        for _ in begin..end {
            clock.advance(ms(1));
            while others_run && hand.run_next() {}
        }
    };
    worker.schedule_after(ms(begin), long).unwrap();
    run_for(&time, &by_hand, until);
    periodic.cancel();
    assert_eq!(worker.outstanding(), 0);
    notes.take()
}

/// The same, with a second thread and without, which makes no difference.
fn starts_around_a_long_task(
    schedule: impl Fn(&Worker, Box<dyn FnMut() + Send>) -> WorkerTask,
    busy: (u64, u64),
    until: u64,
) -> Vec<u128> {
    let [alone, beside] =
        [false, true].map(|others_run| starts_around(others_run, &schedule, busy, until));
    assert_eq!(alone, beside);
    alone
}

#[test]
fn missed_runs_of_a_fixed_rate_are_made_up_for_left_out_or_put_off_by_name() {
    let rate = |missed, busy, until| {
        let schedule = |worker: &Worker, task| {
            worker.clone().missed_ticks(missed).schedule_at_fixed_rate(ms(5), ms(10), task).unwrap()
        };
        starts_around_a_long_task(schedule, busy, until)
    };
    use MissedTickBehavior::{Burst, Delay, Skip};
    assert_eq!(rate(Burst, (10, 45), 85), [5, 45, 45, 45, 45, 55, 65, 75, 85]);
    assert_eq!(rate(Skip, (10, 45), 85), [5, 45, 45, 55, 65, 75, 85]);
    assert_eq!(rate(Delay, (10, 45), 85), [5, 45, 45, 55, 65, 75, 85]);
    // The long task ends off the beat: who skips keeps it, who delays begins a new one.
    assert_eq!(rate(Burst, (10, 28), 60), [5, 28, 28, 35, 45, 55]);
    assert_eq!(rate(Skip, (10, 28), 60), [5, 28, 35, 45, 55]);
    assert_eq!(rate(Delay, (10, 28), 60), [5, 28, 28, 38, 48, 58]);
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_run_also_of_a_late_one() {
    let schedule =
        |worker: &Worker, task| worker.schedule_with_fixed_delay(ms(5), ms(10), task).unwrap();
    let starts = starts_around_a_long_task(schedule, (10, 42), 85);
    assert_eq!(starts, [5, 42, 52, 62, 72, 82]);
}

#[test]
fn a_period_of_zero_is_refused_and_the_task_given_back() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let refused = worker.schedule_with_fixed_delay(ms(1), Duration::ZERO, || ()).unwrap_err();
    assert_eq!(refused.to_string(), "the period is 0ns, but it must be at least 1ns");
    let missed = MissedTickBehavior::Burst;
    let refused = worker
        .clone()
        .missed_ticks(missed)
        .schedule_at_fixed_rate(ms(1), Duration::ZERO, || ())
        .unwrap_err();
    assert_eq!(refused.refusal(), &Refusal::Period { given: Duration::ZERO, min: ns(1) });
    assert_eq!((worker.outstanding(), time.pending()), (0, 0));
}

#[test]
fn a_series_of_a_worker_ends_by_its_count_or_at_its_end() {
    let time = virtual_time();
    for (kind, worker) in kinds(&time) {
        let notes = Notes::new();
        let (start, clock) = (time.now(), time.handle());
        let note = |name| {
            let (notes, clock) = (notes.clone(), clock.clone());
            move || notes.add((name, (clock.now() - start).as_secs()))
        };
        let twice = worker.clone().times(2);
        let until = worker.clone().until(start + secs(5));
        let series = [
            twice.schedule_at_fixed_rate(secs(1), secs(1), note("rate")).unwrap(),
            twice.schedule_with_fixed_delay(secs(1), secs(2), note("delay")).unwrap(),
            until.schedule_at_fixed_rate(secs(3), secs(1), note("until")).unwrap(),
            until.schedule_with_fixed_delay(secs(5), secs(1), note("last")).unwrap(),
        ];
        time.advance(secs(60));
        let mut ran = notes.take();
        ran.sort_unstable();
        let expected =
            [("delay", 1), ("delay", 3), ("last", 5), ("rate", 1), ("rate", 2), ("until", 3)];
        assert_eq!(ran, [&expected[..], &[("until", 4), ("until", 5)]].concat(), "{kind}");
        assert!(series.iter().all(|it| it.is_done() && !it.is_cancelled() && !it.cancel()));
        assert_eq!((worker.outstanding(), time.pending()), (0, 0), "{kind}");
    }
}

#[test]
fn a_series_of_a_worker_without_a_run_is_refused_with_the_value_and_given_back() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let never = worker.clone().times(0).schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap_err();
    assert_eq!(never.refusal(), &Refusal::Times { given: 0 });
    let ends = worker.clone().until(time.now());
    let late = ends.schedule_with_fixed_delay(ms(2), ms(1), || ()).unwrap_err();
    assert_eq!(late.refusal(), &Refusal::EndsBefore { by: ms(2) });
    assert_eq!((worker.outstanding(), time.pending()), (0, 0));
    // The worker itself has no end.
    let series = worker.schedule_with_fixed_delay(ms(2), ms(1), late.into_task()).unwrap();
    time.advance(secs(1));
    assert!(series.cancel());
}

/// When 200 runs of a series start that has these options: of a worker, or of the scheduler itself.
fn spread_runs(worker: Option<Worker>, time: &VirtualTime, over: Duration) -> Vec<Duration> {
    let notes = Notes::new();
    let (clock, start, log) = (time.handle(), time.now(), notes.clone());
    let task = move || log.add(clock.now() - start);
    match worker {
        Some(worker) => {
            let spread = worker.spread(over).spread_seed(42).times(200);
            spread.schedule_at_fixed_rate(secs(1), secs(1), task).map(drop).unwrap();
        }
        None => {
            let spread = Periodic::new(task).spread(over).spread_seed(42).times(200);
            time.schedule_at_fixed_rate(secs(1), secs(1), spread).map(drop).unwrap();
        }
    }
    time.advance(secs(1_000));
    notes.take()
}

#[test]
fn a_worker_spreads_its_runs_as_a_periodic_task_does() {
    for over in [Duration::ZERO, ms(10), secs(1)] {
        let time = virtual_time();
        let plain = spread_runs(None, &time, over);
        let added = |(number, at): (u32, &Duration)| *at - secs(1) * (number + 1);
        assert!((0..).zip(&plain).map(added).all(|added| added <= over), "{over:?}: {plain:?}");
        for (kind, worker) in kinds(&time) {
            assert_eq!(spread_runs(Some(worker), &time, over), plain, "{kind}, {over:?}");
        }
    }
}

#[test]
fn a_spread_longer_than_the_period_is_refused_with_both_and_the_task_given_back() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let wide = worker.clone().spread(ms(11));
    let refused = wide.schedule_at_fixed_rate(ms(1), ms(10), || ()).unwrap_err();
    assert_eq!(refused.refusal(), &Refusal::Period { given: ms(10), min: ms(11) });
    assert_eq!((worker.outstanding(), time.pending()), (0, 0));
    // As wide as the period it may be, and a delay that never comes may be spread over any time.
    let refused = worker.clone().spread(ms(10)).schedule_at_fixed_rate(ms(1), ms(10), || ());
    assert!(refused.unwrap().cancel());
    let never = worker.spread(Duration::MAX);
    let never = never.schedule_with_fixed_delay(secs(1), Duration::MAX, || ()).unwrap();
    time.advance(secs(1_000_000));
    assert!(never.cancel());
}

/// Whether a thread looks at the timers in vain meanwhile makes no difference but a sixteenth of
/// the spread, or a millisecond.
#[test]
fn spread_runs_of_a_worker_that_is_behind_start_when_they_are_due() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for (seed, missed) in
        (0..scaled(20, 2) as u64).flat_map(|seed| [Burst, Skip, Delay].map(|it| (seed, it)))
    {
        let schedule = |worker: &Worker, task| {
            let spread = worker.clone().missed_ticks(missed).spread(ms(10)).spread_seed(seed);
            spread.schedule_at_fixed_rate(ms(5), ms(10), task).unwrap()
        };
        for busy in [(10, 45), (10, 28)] {
            let [alone, beside] = [false, true].map(|it| starts_around(it, schedule, busy, 120));
            let close = |(one, other): (&u128, &u128)| (*one..=*one + 1).contains(other);
            assert!(
                alone.len().abs_diff(beside.len()) <= 1 && alone.iter().zip(&beside).all(close),
                "{missed:?}, seed {seed}: {alone:?}, with a second thread {beside:?}"
            );
        }
    }
}

/// X15, X16, X83, X84
#[test]
fn a_periodic_task_ends_by_its_own_handle_by_its_answer_and_by_a_panic() {
    let time = virtual_time();
    for (kind, worker) in kinds(&time) {
        let count = Arc::new(AtomicU32::new(0));
        let own = Own::default();
        let (counter, slot) = (Arc::clone(&count), Arc::clone(&own));
        let task = move || {
            if counter.fetch_add(1, Ordering::SeqCst) == 9 {
                assert!(slot.lock().unwrap().as_ref().unwrap().cancel());
            }
        };
        let handle = worker.schedule_with_fixed_delay(Duration::ZERO, ns(1), task).unwrap();
        *own.lock().unwrap() = Some(handle);
        time.advance(ms(400));
        assert_eq!(count.swap(0, Ordering::SeqCst), 10, "{kind}");
        assert!(own.lock().unwrap().as_ref().unwrap().is_cancelled());

        let counter = Arc::clone(&count);
        let answered = worker
            .clone()
            .missed_ticks(MissedTickBehavior::Burst)
            .schedule_at_fixed_rate(ms(1), ms(1), move || {
                match counter.fetch_add(1, Ordering::SeqCst) {
                    2 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
            .unwrap();
        time.advance(ms(400));
        assert_eq!(count.swap(0, Ordering::SeqCst), 3, "{kind}");
        assert!(answered.is_done() && !answered.is_cancelled() && !answered.cancel());

        let counter = Arc::clone(&count);
        let thrower = worker
            .schedule_with_fixed_delay(ns(1), ns(1), move || {
                let run = counter.fetch_add(1, Ordering::SeqCst);
                assert!(run != 0, "expected by this test");
            })
            .unwrap();
        time.advance(ms(400));
        assert_eq!(count.swap(0, Ordering::SeqCst), 1, "{kind}");
        assert!(thrower.is_done() && !thrower.is_cancelled());
        assert_eq!((worker.outstanding(), time.pending()), (0, 0), "{kind}");
    }
}

#[test]
fn a_series_goes_on_although_max_pending_is_reached() {
    let (by_hand, full) = (ByHand::default(), 2);
    let builder =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).max_pending(full);
    let time = builder.build_virtual().unwrap();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let log = notes.clone();
    worker.schedule_with_fixed_delay(ms(10), ms(10), move || log.add(())).unwrap();
    let _filler = time.schedule_once(Duration::MAX, || ()).unwrap();
    for refused in [
        worker.schedule(|| ()).map_err(|error| error.refusal().clone()),
        worker.schedule_after(ms(1), || ()).map_err(|error| error.refusal().clone()),
        worker
            .schedule_with_fixed_delay(ms(1), ms(1), || ())
            .map_err(|error| error.refusal().clone()),
    ] {
        assert_eq!(refused.unwrap_err(), Refusal::Full { limit: full });
    }
    run_for(&time, &by_hand, 100);
    assert_eq!((notes.len(), worker.outstanding()), (10, 1));
}

// Panics

/// The workers of RxJava's `ExecutorScheduler` are dead after one task has thrown: none of the next
/// five runs.
#[test]
fn a_task_that_panics_is_reported_and_the_next_ones_run() {
    let reports = Notes::new();
    let log = reports.clone();
    let time = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| log.add((report.place, report.message.to_owned())))
        .build_virtual()
        .unwrap();
    let mut workers = kinds(&time).to_vec();
    workers.push(("trampoline", Worker::trampoline(&time)));
    for (kind, worker) in workers {
        let notes = Notes::new();
        let thrower = worker.schedule(|| panic!("expected by this test")).unwrap();
        for number in 0..5 {
            worker.schedule(note(&notes, number)).unwrap();
        }
        time.advance(Duration::ZERO);
        assert_eq!(notes.take(), [0, 1, 2, 3, 4], "{kind}");
        assert!(thrower.is_done() && !worker.is_disposed());
        assert_eq!(reports.take(), [(PanicIn::Task, "expected by this test".to_owned())]);
        worker.schedule(note(&notes, 5)).unwrap();
        time.advance(Duration::ZERO);
        assert_eq!(notes.take(), [5], "{kind}");
    }
}

#[test]
fn a_destructor_that_panics_harms_neither_a_dispose_nor_a_cancel_nor_the_next_task() {
    struct Mine;
    impl Drop for Mine {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }
    let time = virtual_time();
    let worker = Worker::new(&time);
    let with_mine = || {
        let mine = Mine;
        move || drop(mine)
    };
    let cancelled = worker.schedule_after(ms(10), with_mine()).unwrap();
    assert!(cancelled.cancel());
    worker.schedule(with_mine()).unwrap();
    let (sender, receiver) = mpsc::channel();
    worker.schedule(move || sender.send(()).unwrap()).unwrap();
    time.advance(Duration::ZERO);
    receiver.try_recv().unwrap();
    for _ in 0..3 {
        worker.schedule_after(ms(10), with_mine()).unwrap();
    }
    assert_eq!(worker.dispose(), 3);
    assert_eq!(time.metrics().panicked, 5);
}

// Dispose and cancel

/// X37, X38, X70, X71, X78
#[test]
fn a_worker_that_was_disposed_runs_nothing_more() {
    let time = virtual_time();
    for (kind, worker) in kinds(&time) {
        let notes = Notes::new();
        let log = notes.clone();
        let tasks = [
            worker.schedule(note(&notes, 1)).unwrap(),
            worker.schedule_after(ms(1), note(&notes, 2)).unwrap(),
            worker.schedule_with_fixed_delay(ms(1), ms(1), move || log.add(3)).unwrap(),
        ];
        assert!(!worker.is_disposed());
        assert_eq!(worker.dispose(), 3, "{kind}");
        assert_eq!(worker.dispose(), 0, "{kind}");
        assert!(worker.is_disposed());
        assert!(tasks.iter().all(|task| task.is_cancelled() && task.is_done() && !task.cancel()));
        assert_eq!(time.pending(), 0, "{kind}");
        time.advance(ms(100));
        assert_eq!(notes.len(), 0, "{kind}");
    }
}

#[test]
fn what_is_scheduled_on_a_disposed_worker_is_refused_and_given_back() {
    let time = virtual_time();
    let mut workers = kinds(&time).to_vec();
    workers.push(("trampoline", Worker::trampoline(&time)));
    for (_, worker) in workers {
        worker.dispose();
        let notes = Notes::new();
        let refused = worker.schedule(note(&notes, "back")).unwrap_err();
        assert_eq!(refused.refusal(), &Refusal::Disposed);
        assert_eq!(
            refused.to_string(),
            "the worker has been disposed; nothing can be scheduled on it any more"
        );
        refused.into_task()();
        assert_eq!(notes.take(), ["back"]);
        let refused = worker.schedule_after(ms(1), note(&notes, "back")).unwrap_err();
        refused.into_task()();
        let log = notes.clone();
        let refused = worker.schedule_with_fixed_delay(ms(1), ms(1), move || log.add("back"));
        refused.unwrap_err().into_task()();
        assert_eq!(notes.take(), ["back", "back"]);
        assert_eq!(time.pending(), 0);
    }
}

/// X42, X43
#[test]
fn disposing_a_worker_leaves_the_others_and_the_scheduler_alone() {
    let time = virtual_time();
    let (one, other) = (Worker::new(&time), Worker::new(&time));
    let notes = Notes::new();
    one.schedule_after(ms(1), note(&notes, "one")).unwrap();
    other.schedule_after(ms(1), note(&notes, "other")).unwrap();
    let log = notes.clone();
    let _ = time.schedule_once(ms(2), move || log.add("scheduler")).unwrap();
    one.dispose();
    time.advance(ms(5));
    assert_eq!(notes.take(), ["other", "scheduler"]);
    assert!(!other.is_disposed());
}

#[test]
fn a_task_that_disposes_its_worker_ends_and_is_the_last() {
    let time = virtual_time();
    let mut workers = kinds(&time).to_vec();
    workers.push(("trampoline", Worker::trampoline(&time)));
    for (kind, worker) in workers {
        let notes = Notes::new();
        let (own, log) = (worker.clone(), notes.clone());
        let outer = move || {
            own.schedule(note(&log, "inner")).unwrap(); // X88
            assert_eq!(own.dispose(), 1);
            assert!(own.schedule(note(&log, "too late")).is_err());
            log.add("end of the outer");
        };
        worker.schedule(outer).unwrap();
        time.advance(ms(1));
        assert_eq!(notes.take(), ["end of the outer"], "{kind}");
    }
    assert_eq!((time.pending(), time.metrics().panicked), (0, 0));
}

#[test]
fn a_guard_disposes_its_worker_when_it_is_dropped() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    {
        let guard = worker.clone().dispose_on_drop();
        guard.schedule_after(ms(1), || panic!("disposed")).unwrap();
    }
    assert!(worker.is_disposed());
    assert_eq!(time.pending(), 0);
}

#[test]
fn dropping_a_worker_does_not_dispose_it() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    worker.schedule_after(ms(1), note(&notes, 1)).unwrap();
    worker.schedule(note(&notes, 0)).unwrap();
    drop(worker);
    time.advance(ms(1));
    assert_eq!(notes.take(), [0, 1]);
}

/// X36
#[test]
fn a_disposed_worker_keeps_nothing_alive() {
    let tasks = scaled(20_000, 50);
    let time = virtual_time();
    let worker = Worker::new(&time);
    let payload = Arc::new(());
    for _ in 0..tasks {
        let payload = Arc::clone(&payload);
        let day = Duration::from_secs(24 * 3600);
        worker.schedule_after(day, move || drop(payload)).unwrap();
    }
    let held = Arc::clone(&payload);
    worker
        .clone()
        .missed_ticks(MissedTickBehavior::Burst)
        .schedule_at_fixed_rate(ms(1), ms(1), move || {
            let _ = &held;
        })
        .unwrap();
    time.advance(ms(10));
    let context: Weak<()> = Arc::downgrade(&payload);
    assert_eq!(time.pending(), tasks as u64 + 1);
    assert_eq!(worker.dispose(), tasks + 1);
    assert_eq!((Arc::strong_count(&payload), time.pending()), (1, 0));
    drop(payload);
    assert!(context.upgrade().is_none());
}

/// X45 to X51
#[test]
fn a_handle_tells_what_has_become_of_its_task() {
    let (time, by_hand) = time_by_hand();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let own = Own::default();
    let (slot, log) = (Arc::clone(&own), notes.clone());
    let task = worker.schedule_after(ms(1), move || {
        let own = slot.lock().unwrap();
        let own = own.as_ref().unwrap();
        // X25, X26: it can be looked at while it runs; and it is too late to cancel.
        log.add((format!("{own:?}"), own.cancel()));
    });
    *own.lock().unwrap() = Some(task.unwrap());
    let state = |expected: (bool, bool)| {
        let own = own.lock().unwrap();
        let own = own.as_ref().unwrap();
        assert_eq!((own.is_done(), own.is_cancelled()), expected);
    };
    state((false, false));
    time.advance(ms(1));
    state((false, false)); // it waits in its executor
    by_hand.run_next();
    state((true, false));
    assert!(!own.lock().unwrap().as_ref().unwrap().cancel());
    let text = "WorkerTask { done: false, cancelled: false, .. }".to_owned();
    assert_eq!(notes.take(), [(text, false)]);
    worker.dispose();
    state((true, false)); // X51
    assert_eq!(format!("{worker:?}"), "Worker { outstanding: 0, disposed: true, .. }");
}

#[test]
fn cancelling_a_task_drops_its_captures_at_once_and_leaves_the_others() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let mut tasks = Vec::new();
    for delay in [0, 0, 10, 10] {
        let captive = Captive::new(&notes, "dropped");
        let log = notes.clone();
        let task = move || {
            let _ = &captive;
            log.add("ran");
        };
        tasks.push(worker.schedule_after(ms(delay), task).unwrap());
    }
    assert!(tasks[1].cancel() && tasks[2].cancel());
    assert_eq!(notes.take(), ["dropped", "dropped"]);
    assert_eq!(worker.outstanding(), 2);
    time.advance(ms(10));
    assert_eq!(notes.take(), ["ran", "dropped", "ran", "dropped"]);
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_task_that_waits_in_its_executor_can_still_be_cancelled() {
    let (time, by_hand) = time_by_hand();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let tasks: Vec<_> = [0, 5]
        .map(|delay| worker.schedule_after(ms(delay), note(&notes, delay)).unwrap())
        .into_iter()
        .collect();
    time.advance(ms(5));
    assert_eq!(by_hand.waiting(), 2);
    assert!(tasks.iter().all(WorkerTask::cancel));
    while by_hand.run_next() {}
    assert_eq!(notes.len(), 0);
}

#[test]
fn a_periodic_task_cancelled_during_a_run_finishes_it_and_runs_no_more() {
    let (time, by_hand) = time_by_hand();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let own = Own::default();
    let (slot, log, captive) = (Arc::clone(&own), notes.clone(), Captive::new(&notes, "dropped"));
    let series = worker
        .schedule_with_fixed_delay(ms(1), ms(1), move || {
            let _ = &captive;
            assert!(thread::scope(|scope| {
                scope.spawn(|| slot.lock().unwrap().as_ref().unwrap().cancel()).join().unwrap()
            }));
            log.add("end of the run");
        })
        .unwrap();
    *own.lock().unwrap() = Some(series);
    run_for(&time, &by_hand, 10);
    assert_eq!(notes.take(), ["end of the run", "dropped"]);
    assert_eq!((worker.outstanding(), time.pending()), (0, 0));
}

/// Loses the first task that it is given, and takes the place that this had for something else.
#[derive(Clone, Default)]
struct Loses(Arc<(OnceLock<Handle>, AtomicUsize)>);

impl Executor for Loses {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        let (handle, calls) = &*self.0;
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            handle.get().unwrap().schedule_once(secs(60), || ()).unwrap();
            drop(task);
        } else {
            task.run();
        }
        Ok(())
    }
}

#[test]
fn a_worker_whose_executor_has_lost_a_task_runs_the_others_also_when_the_scheduler_is_full() {
    let executor = Loses::default();
    let time = LightArrayRevolverScheduler::builder()
        .max_pending(1)
        .executor(executor.clone())
        .build_virtual()
        .unwrap();
    assert!(executor.0.0.set(time.handle()).is_ok());
    let worker = Worker::new(&time);
    let notes = Notes::new();
    for number in 0..3 {
        let notes = notes.clone();
        worker.schedule(move || notes.add(number)).unwrap();
    }
    time.advance(secs(3600));
    // They run on the pool, which knows no virtual time.
    eventually("the others to run", || notes.len() == 2);
    assert_eq!((notes.take(), worker.outstanding()), (vec![1, 2], 0));
}

/// Of each task one of three is true: it has run, it was cancelled by the dispose, it was refused
/// and given back.
#[test]
fn in_a_race_of_schedule_and_dispose_no_task_is_lost_and_none_runs_after_it() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(2))
        .tick_duration(Duration::from_micros(50))
        .build()
        .unwrap();
    for round in 0..scaled(60, 4) {
        let worker = match round % 3 {
            0 => Worker::new(&scheduler),
            1 => Worker::builder(&scheduler).fair().build(),
            _ => Worker::trampoline(&scheduler),
        };
        let (ran, disposed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let alive = Arc::new(());
        let (mut accepted, mut cancelled) = (0, 0);
        thread::scope(|scope| {
            let schedulers: Vec<_> = (0..2_u64)
                .map(|seed| {
                    let (worker, ran, alive) = (&worker, &ran, &alive);
                    scope.spawn(move || {
                        let mut random = Xorshift(seed + 1);
                        let mut accepted = 0;
                        loop {
                            let (counter, life) = (Arc::clone(ran), Arc::clone(alive));
                            let task = move || {
                                let _ = &life;
                                counter.fetch_add(1, Ordering::SeqCst);
                            };
                            let delay = Duration::from_micros(random.below(3) * 20);
                            match worker.schedule_after(delay, task) {
                                Ok(_) => accepted += 1,
                                Err(refused) => {
                                    assert_eq!(refused.refusal(), &Refusal::Disposed);
                                    return accepted;
                                }
                            }
                        }
                    })
                })
                .collect();
            let pause = Duration::from_micros(Xorshift(round as u64 + 1).below(300));
            let begin = Instant::now();
            while begin.elapsed() < pause {
                thread::yield_now();
            }
            cancelled = worker.dispose();
            disposed.store(true, Ordering::SeqCst);
            accepted = schedulers.into_iter().map(|thread| thread.join().unwrap()).sum();
        });
        // One task may have been running when it was disposed.
        eventually("nothing holds the tasks any more", || Arc::strong_count(&alive) == 1);
        assert_eq!(ran.load(Ordering::SeqCst) + cancelled, accepted, "round {round}");
    }
    eventually("nothing is pending", || scheduler.pending() == 0);
    assert_eq!(scheduler.metrics().panicked, 0);
}

/// Of each task one of two is true: it has run, or a cancel has said that it prevented the run.
#[test]
fn a_cancel_that_races_the_run_prevents_it_exactly_when_it_says_so() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(2))
        .tick_duration(Duration::from_micros(20))
        .build()
        .unwrap();
    for (kind, worker) in kinds(&scheduler) {
        let tasks = scaled(3_000, 30);
        let ran: Arc<Vec<AtomicU32>> = Arc::new((0..tasks).map(|_| AtomicU32::new(0)).collect());
        let handles: Vec<_> = (0..tasks)
            .map(|number| {
                let ran = Arc::clone(&ran);
                let task = move || {
                    ran[number].fetch_add(1, Ordering::SeqCst);
                };
                let delay = Duration::from_micros(number as u64 % 1_000);
                worker.schedule_after(delay, task).unwrap()
            })
            .collect();
        let cancelled: Vec<_> = handles.iter().map(WorkerTask::cancel).collect();
        eventually("all are over", || handles.iter().all(WorkerTask::is_done));
        for (number, &cancelled) in cancelled.iter().enumerate() {
            let runs = ran[number].load(Ordering::SeqCst);
            assert_eq!(runs + u32::from(cancelled), 1, "{kind}: task {number}");
            assert_eq!(handles[number].is_cancelled(), cancelled);
        }
        assert_eq!(worker.outstanding(), 0);
    }
}

#[test]
fn a_worker_and_its_tasks_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Worker>();
    shared::<WorkerTask>();
}

/// X85
#[test]
fn a_periodic_task_cancelled_while_time_moves_runs_no_more_and_leaves_nothing() {
    let time = virtual_time();
    for (_, worker) in kinds(&time) {
        for _ in 0..scaled(500, 5) {
            let count = Arc::new(AtomicU32::new(0));
            let counter = Arc::clone(&count);
            let series = worker
                .schedule_with_fixed_delay(ns(1), ns(1), move || {
                    counter.fetch_add(1, Ordering::SeqCst);
                })
                .unwrap();
            thread::scope(|scope| {
                scope.spawn(|| time.advance(ns(50)));
                scope.spawn(|| assert!(series.cancel()));
            });
            let seen = count.load(Ordering::SeqCst);
            time.advance(ns(50));
            assert_eq!(count.load(Ordering::SeqCst), seen);
            assert_eq!((worker.outstanding(), time.pending()), (0, 0));
        }
    }
}

// Executors

/// X34
#[test]
fn tasks_wait_for_an_executor_that_is_busy() {
    let by_hand = ByHand::default();
    let time = virtual_time();
    let worker = Worker::builder(&time).executor(Arc::new(by_hand.clone())).build();
    let notes = Notes::new();
    for number in 0..5 {
        worker.schedule(note(&notes, number)).unwrap();
    }
    time.advance(ms(1));
    // One task on the executor stands for all of them.
    assert_eq!((notes.len(), by_hand.waiting()), (0, 1));
    by_hand.run_next();
    assert_eq!(notes.take(), [0, 1, 2, 3, 4]);
}

/// X40, X41
#[test]
fn tasks_that_the_executor_rejects_run_all_the_same_one_after_the_other() {
    struct Rejecting;
    impl Executor for Rejecting {
        fn execute(&self, task: Runnable) -> Result<(), Rejected> {
            Err(Rejected::new(task, "expected by this test"))
        }
    }
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let worker = Worker::builder(&scheduler).executor(Arc::new(Rejecting)).build();
    let (sender, receiver) = mpsc::channel();
    for number in 0..3 {
        let sender = sender.clone();
        worker.schedule(move || sender.send(number).unwrap()).unwrap();
    }
    for number in 0..3 {
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(number));
    }
    assert!(scheduler.metrics().rejected_by_executor >= 1);
}

/// The scheduler counts what an executor drops; a worker must not be dead after that.
#[test]
fn an_executor_that_loses_a_hand_over_costs_one_task_and_not_the_worker() {
    let (time, by_hand) = time_by_hand();
    for worker in [Worker::new(&time), Worker::builder(&time).fair().build()] {
        let notes = Notes::new();
        let lost = worker.schedule(note(&notes, 0)).unwrap();
        worker.schedule(note(&notes, 1)).unwrap();
        let delayed = worker.schedule_after(ms(1), note(&notes, 2)).unwrap();
        time.advance(Duration::ZERO);
        assert_eq!(by_hand.abandon(), 1);
        assert!(lost.is_done() && !lost.is_cancelled());
        let now = time.elapsed().as_millis() as u64;
        run_for(&time, &by_hand, now);
        assert_eq!(notes.take(), [1]);
        time.advance(ms(1));
        assert_eq!(by_hand.abandon(), 1); // the delayed one
        assert!(delayed.is_done());
        let log = notes.clone();
        let series = worker.schedule_with_fixed_delay(ms(1), ms(1), move || log.add(9)).unwrap();
        time.advance(ms(1));
        assert_eq!(by_hand.abandon(), 1);
        assert!(series.is_done());
        assert_eq!(worker.outstanding(), 0);
        worker.schedule(note(&notes, 3)).unwrap();
        let now = time.elapsed().as_millis() as u64;
        run_for(&time, &by_hand, now);
        assert_eq!(notes.take(), [3]);
    }
}

/// X39
#[test]
fn on_the_pool_immediate_delayed_and_periodic_tasks_all_run() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let worker = Worker::new(&scheduler);
    let (sender, receiver) = mpsc::channel();
    let (one, two) = (sender.clone(), sender.clone());
    worker.schedule(move || one.send(1).unwrap()).unwrap();
    worker.schedule_after(ms(5), move || two.send(2).unwrap()).unwrap();
    let missed = MissedTickBehavior::Burst;
    let periodic = move || {
        let _ = sender.send(3);
    };
    worker.clone().missed_ticks(missed).schedule_at_fixed_rate(ms(1), ms(1), periodic).unwrap();
    let first: Vec<_> = receiver.iter().take(20).collect();
    assert_eq!(first.iter().filter(|&&n| n == 1).count(), 1);
    assert!(first.contains(&3));
    eventually("the delayed one has run", || {
        first.contains(&2) || receiver.try_iter().any(|n| n == 2)
    });
    worker.dispose();
}

// The scheduler's end

#[test]
fn when_the_scheduler_closes_delayed_tasks_run_one_after_the_other_and_repeats_end() {
    let time = virtual_time();
    for (_, worker) in kinds(&time) {
        assert_eq!(worker.outstanding(), 0);
    }
    let worker = Worker::builder(&time).fair().build();
    let notes = Notes::new();
    worker.schedule_after(ms(20), note(&notes, 20)).unwrap();
    let last = worker.schedule_after(ms(10), note(&notes, 10)).unwrap();
    worker.schedule(note(&notes, 0)).unwrap();
    worker.schedule(note(&notes, 1)).unwrap();
    let log = notes.clone();
    let series = worker.schedule_with_fixed_delay(ms(1), ms(1), move || log.add(99)).unwrap();
    let report = time.close().unwrap();
    assert_eq!(notes.take(), [0, 1, 10, 20]);
    assert_eq!((report.ran, report.repeats_ended), (3, 1));
    assert!(last.is_done() && series.is_done() && !series.is_cancelled());
    assert_eq!(worker.outstanding(), 0);
    let refused = worker.schedule(|| ()).unwrap_err();
    assert_eq!(refused.refusal(), &Refusal::Stopped);
}

#[test]
fn tasks_handed_back_by_stop_are_run_or_dropped_by_who_holds_them() {
    let time = virtual_time();
    let worker = Worker::new(&time);
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let log = notes.clone();
    let run = worker.schedule_after(ms(1), move || log.add("ran")).unwrap();
    let dropped = worker
        .schedule_after(ms(2), move || {
            let _ = &captive;
        })
        .unwrap();
    let mut pending = time.stop().wait();
    assert_eq!(pending.len(), 2);
    drop(pending.pop());
    assert_eq!(notes.take(), ["dropped"]);
    assert!(dropped.is_done() && !dropped.is_cancelled());
    assert!(pending.pop().unwrap().run());
    assert_eq!(notes.take(), ["ran"]);
    assert!(run.is_done());
}

#[test]
fn a_delayed_task_that_was_handed_back_runs_whatever_becomes_of_the_tasks_that_were_ready() {
    for builder in [WorkerBuilder::fair, WorkerBuilder::inline] {
        for keep in [false, true] {
            let time = virtual_time();
            let (worker, notes) = (builder(Worker::builder(&time)).build(), Notes::new());
            let ready = worker.schedule(note(&notes, "ready")).unwrap();
            let delayed = worker.schedule_after(ms(1), note(&notes, "delayed")).unwrap();
            let later = worker.schedule_after(ms(2), note(&notes, "later")).unwrap();
            let mut pending = time.stop().wait();
            assert_eq!(pending.len(), 3);
            let drain = pending.remove(0);
            assert!(pending.remove(0).run());
            assert_eq!(notes.take(), ["delayed"]);
            assert!(delayed.is_done() && !ready.is_done());
            if keep {
                assert!(drain.run());
                assert_eq!(notes.take(), ["ready"]);
            } else {
                drop(drain);
            }
            assert!(ready.is_done() && !ready.is_cancelled());
            assert!(pending.remove(0).run());
            assert_eq!(notes.take(), ["later"]);
            assert!(later.is_done());
            assert_eq!(worker.outstanding(), 0);
        }
    }
}

#[test]
fn what_was_ready_when_it_was_handed_back_can_be_cancelled_and_disposed() {
    let time = virtual_time();
    let (worker, notes) = (Worker::new(&time), Notes::new());
    let unwanted = worker.schedule(note(&notes, "unwanted")).unwrap();
    worker.schedule(note(&notes, "wanted")).unwrap();
    let disposed = Worker::new(&time);
    disposed.schedule(note(&notes, "disposed")).unwrap();
    let pending = time.stop().wait();
    assert!(unwanted.cancel());
    assert_eq!(disposed.dispose(), 1);
    for task in pending {
        task.run();
    }
    assert_eq!(notes.take(), ["wanted"]);
}

#[test]
fn dropping_the_scheduler_drops_what_its_workers_have_and_no_more_is_accepted() {
    let time = virtual_time();
    let (worker, notes) = (Worker::new(&time), Notes::new());
    let tasks: Vec<_> = (0..3)
        .map(|delay| {
            let captive = Captive::new(&notes, "dropped");
            let task = move || {
                let _ = &captive;
            };
            worker.schedule_after(ms(delay), task).unwrap()
        })
        .collect();
    let captive = Captive::new(&notes, "dropped");
    let series = worker.schedule_with_fixed_delay(ms(1), ms(1), move || {
        let _ = &captive;
    });
    drop(time.stop().wait());
    assert_eq!(notes.take(), ["dropped"; 4]);
    assert!(tasks.iter().all(WorkerTask::is_done) && series.unwrap().is_done());
    assert_eq!(worker.outstanding(), 0);
    assert!(worker.schedule(|| ()).is_err());
}

// Trampolines

/// X1, X87
#[test]
fn a_trampoline_runs_its_tasks_on_the_threads_that_schedule_them() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let worker = Worker::trampoline(&scheduler);
    let notes = Notes::new();
    let log = notes.clone();
    let task = worker.schedule(move || log.add(thread::current().id())).unwrap();
    assert!(task.is_done());
    assert_eq!(notes.take(), [thread::current().id()]);

    let count = Arc::new(AtomicUsize::new(0));
    let (threads, each) = (scaled(20, 3), scaled(100, 10));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..each {
                    let counter = Arc::clone(&count);
                    let task = move || {
                        counter.fetch_add(1, Ordering::SeqCst);
                    };
                    worker.schedule(task).unwrap();
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), threads * each);
    assert_eq!(worker.outstanding(), 0);
}

#[test]
fn a_trampoline_waits_for_its_delayed_tasks_and_runs_them_by_due_time() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let worker = Worker::trampoline(&scheduler);
    let notes = Notes::new();
    in_lead(|lead| {
        // The delays are further apart than the calls, which they count from.
        let step = lead / 4;
        let (inner, log) = (worker.clone(), notes.clone());
        let (sender, took) = mpsc::channel();
        let begin = Instant::now();
        let outer = move || {
            let begin = Instant::now();
            let mut left = 3;
            for steps in [3, 1, 2] {
                inner.schedule_after(steps * step, note(&log, steps)).unwrap();
            }
            let log = log.clone();
            let series = move || {
                log.add(100);
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            inner.schedule_with_fixed_delay(4 * step, ms(1), series).unwrap();
            sender.send(begin.elapsed()).unwrap();
        };
        worker.schedule(outer).unwrap();
        assert!(begin.elapsed() >= 4 * step + ms(2));
        let order = notes.take();
        assert_eq!(order.len(), 6);
        let in_time = took.recv().unwrap() < step;
        in_time.then(|| assert_eq!(order, [1, 2, 3, 100, 100, 100]))
    });
}

#[test]
fn a_trampoline_that_waits_in_virtual_time_goes_on_when_that_is_moved() {
    let time = virtual_time();
    let worker = Worker::trampoline(&time);
    let notes = Notes::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.schedule_after(ms(10), note(&notes, "due")));
        eventually("it was accepted", || worker.outstanding() == 1);
        time.advance(ms(9));
        // Another thread's task is run by the one that waits.
        worker.schedule(note(&notes, "in between")).unwrap();
        eventually("it has run", || notes.len() == 1);
        time.advance(ms(1));
        assert!(waiting.join().unwrap().unwrap().is_done());
    });
    assert_eq!(notes.take(), ["in between", "due"]);
}

#[test]
fn a_trampoline_that_waits_returns_when_it_is_disposed_and_when_its_task_is_cancelled() {
    let time = virtual_time();
    let worker = Worker::trampoline(&time);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.schedule_after(ms(10), || panic!("disposed")));
        eventually("it was accepted", || worker.outstanding() == 1);
        assert_eq!(worker.dispose(), 1);
        assert!(waiting.join().unwrap().unwrap().is_cancelled());
    });
    let worker = Worker::trampoline(&time);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let inner = worker.clone();
        scope.spawn(|| {
            let outer = move || {
                sender.send(inner.schedule_after(ms(10), || panic!("cancelled")).unwrap()).unwrap();
            };
            worker.schedule(outer).unwrap();
        });
        assert!(receiver.recv_timeout(PATIENCE).unwrap().cancel());
    });
    drop(time.stop().wait());
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn a_trampoline_that_waits_returns_when_its_scheduler_is_gone() {
    let time = virtual_time();
    let worker = Worker::trampoline(&time);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.schedule_after(ms(10), || panic!("dropped")));
        eventually("it was accepted", || worker.outstanding() == 1);
        drop(time.stop().wait());
        assert!(waiting.join().unwrap().unwrap().is_done());
    });
}

#[test]
fn a_trampoline_on_the_timer_thread_is_refused_what_would_make_it_wait_for_itself() {
    let time = virtual_time();
    let worker = Worker::trampoline(&time);
    let notes = Notes::new();
    let (inner, log) = (worker.clone(), notes.clone());
    let task = Task::new(move || {
        let refused = inner.schedule_after(ms(1), || ()).unwrap_err();
        log.add(refused.refusal().clone());
        let refused = inner.schedule_with_fixed_delay(ms(1), ms(1), || ()).unwrap_err();
        log.add(refused.refusal().clone());
        inner.schedule(|| ()).unwrap(); // this does not wait
    });
    let _ = time.schedule_once(ms(1), task.inline()).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), [Refusal::OnTimerThread, Refusal::OnTimerThread]);
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn what_others_schedule_with_a_delay_while_the_timer_thread_uses_a_trampoline_still_runs() {
    let time = virtual_time();
    let worker = Worker::trampoline(&time);
    let notes = Notes::new();
    let (inner, log) = (worker.clone(), notes.clone());
    let task = Task::new(move || {
        let (other, log) = (inner.clone(), log.clone());
        let outer = move || {
            thread::scope(|scope| {
                scope.spawn(|| other.schedule_after(ms(5), note(&log, "delayed")).unwrap());
            });
        };
        inner.schedule(outer).unwrap();
    });
    let _ = time.schedule_once(ms(1), task.inline()).unwrap();
    time.advance(ms(1));
    assert_eq!((notes.len(), worker.outstanding()), (0, 1));
    time.advance(ms(5));
    assert_eq!((notes.take(), worker.outstanding()), (vec!["delayed"], 0));
}

// Context

thread_local! {
    static TENANT: Cell<u32> = const { Cell::new(0) };
}

struct Restore(u32);

impl Drop for Restore {
    fn drop(&mut self) {
        TENANT.set(self.0);
    }
}

fn with_tenant(builder: WorkerBuilder) -> Worker {
    builder.context(|| TENANT.get(), |&tenant| Restore(TENANT.replace(tenant))).build()
}

/// X17 to X19
#[test]
fn a_task_runs_in_the_context_of_its_scheduling_and_what_was_there_is_restored() {
    let time = virtual_time();
    for builder in
        [Worker::builder(&time), Worker::builder(&time).fair(), Worker::builder(&time).trampoline()]
    {
        let trampoline = format!("{builder:?}").contains("Trampoline");
        let worker = with_tenant(builder);
        let notes = Notes::new();
        let note_tenant = || {
            let notes = notes.clone();
            move || notes.add(TENANT.get())
        };
        TENANT.set(1);
        worker.schedule(note_tenant()).unwrap();
        TENANT.set(2);
        worker.schedule(|| panic!("expected by this test")).unwrap();
        if !trampoline {
            worker.schedule_after(ms(5), note_tenant()).unwrap();
            TENANT.set(3);
            worker.schedule_with_fixed_delay(ms(10), ms(10), note_tenant()).unwrap();
        }
        TENANT.set(4);
        time.advance(ms(20));
        let expected: &[u32] = if trampoline { &[1] } else { &[1, 2, 3, 3] };
        assert_eq!(notes.take(), expected);
        assert_eq!(TENANT.get(), 4);
        worker.dispose();
    }
}

/// A worker on the same thread that knows nothing of contexts must not see what the others have
/// left.
#[test]
fn a_context_does_not_leak_into_the_thread_it_ran_on() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let (with, without) = (with_tenant(Worker::builder(&scheduler)), Worker::new(&scheduler));
    let (sender, receiver) = mpsc::channel();
    TENANT.set(7);
    for worker in [&with, &without, &with, &without] {
        let sender = sender.clone();
        worker.schedule(move || sender.send(TENANT.get()).unwrap()).unwrap();
        receiver
            .recv_timeout(PATIENCE)
            .map(|seen| {
                let expected = if std::ptr::eq(worker, &with) { 7 } else { 0 };
                assert_eq!(seen, expected);
            })
            .unwrap();
    }
}

/// X20, X21, X76, X77
#[test]
fn a_context_is_captured_once_for_a_task_and_entered_for_each_run() {
    let time = virtual_time();
    let notes = Notes::new();
    let (captured, entered, left) = (notes.clone(), notes.clone(), notes.clone());
    struct Leave(Notes<&'static str>);
    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.add("left");
        }
    }
    let worker = Worker::builder(&time)
        .fair()
        .context(
            move || captured.add("captured"),
            move |()| {
                entered.add("entered");
                Leave(left.clone())
            },
        )
        .build();
    worker.schedule(note(&notes, "run")).unwrap();
    assert_eq!(notes.take(), ["captured"]);
    time.advance(ms(1));
    assert_eq!(notes.take(), ["entered", "run", "left"]);
    let log = notes.clone();
    worker.schedule_with_fixed_delay(ms(1), ms(1), move || log.add("run")).unwrap();
    time.advance(ms(2));
    let runs = ["entered", "run", "left", "entered", "run", "left"];
    assert_eq!(notes.take(), [&["captured"][..], &runs].concat());
    worker.dispose();

    // Without the hook there is none.
    let plain = Worker::new(&time);
    plain.schedule(note(&notes, "run")).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["run"]);
}

#[test]
fn contexts_are_entered_in_their_order_and_left_in_the_opposite_one() {
    struct Leave(Notes<&'static str>, &'static str);
    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.add(self.1);
        }
    }
    let time = virtual_time();
    let notes = Notes::new();
    let (outer, inner) = (notes.clone(), notes.clone());
    let worker = Worker::builder(&time)
        .context(|| (), move |()| Leave(outer.clone(), "outer left"))
        .context(|| (), move |()| Leave(inner.clone(), "inner left"))
        .build();
    worker.schedule(note(&notes, "run")).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), ["run", "inner left", "outer left"]);
}

#[test]
fn hooks_that_panic_are_reported_and_the_task_runs_without_that_context() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }
    let time = virtual_time();
    let worker = with_tenant(
        Worker::builder(&time)
            .context(|| panic!("expected by this test"), |()| ())
            .context(|| (), |()| panic!("expected by this test"))
            .context(|| (), |()| Bad),
    );
    let notes = Notes::new();
    TENANT.set(5);
    let log = notes.clone();
    worker.schedule(move || log.add(TENANT.get())).unwrap();
    TENANT.set(6);
    time.advance(ms(1));
    assert_eq!((notes.take(), TENANT.get()), (vec![5], 6));
    assert_eq!(time.metrics().panicked, 3);
}

/// A subscriber that counts how often the spans of each number were entered and left, on one
/// thread.
struct Spans(Notes<(&'static str, u64)>, AtomicUsize);

impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(self.1.fetch_add(1, Ordering::SeqCst) as u64 + 1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.add(("event", 0));
    }
    fn enter(&self, span: &tracing::span::Id) {
        self.0.add(("enter", span.into_u64()));
    }
    fn exit(&self, span: &tracing::span::Id) {
        self.0.add(("exit", span.into_u64()));
    }
}

#[test]
fn a_tracing_span_goes_with_a_task_and_is_left_after_it() {
    let notes = Notes::new();
    tracing::subscriber::with_default(Spans(notes.clone(), AtomicUsize::new(0)), || {
        let time = virtual_time();
        let current = Arc::new(Mutex::new(tracing::Span::none()));
        let captured = Arc::clone(&current);
        let worker = Worker::builder(&time)
            .context(move || captured.lock().unwrap().clone(), |span| span.clone().entered())
            .build();
        for _ in 0..2 {
            *current.lock().unwrap() = tracing::info_span!("request");
            worker.schedule(|| tracing::info!("handled")).unwrap();
        }
        time.advance(ms(1));
    });
    let expected =
        [("enter", 1), ("event", 0), ("exit", 1), ("enter", 2), ("event", 0), ("exit", 2)];
    assert_eq!(notes.take(), expected);
}
