//! A pool whose queue has a limit: what is due beyond it waits in the scheduler, and is not lost.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, assert_same, eventually, in_lead, ms, scaled, secs};
use lars_scheduler::executor::Runnable;
use lars_scheduler::hooks::ThreadKind;
use lars_scheduler::{
    Builder, CloseError, ConfigError, Executor, Handle, LightArrayRevolverScheduler, Pool, Refusal,
    Task, TimerDriver,
};

fn builder(threads: usize, queue: usize) -> Builder {
    LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(threads).queue(queue))
}

/// Occupies one thread of the pool until the sender is dropped.
fn occupy(timers: &Handle) -> Sender<()> {
    let (release, hold) = mpsc::channel::<()>();
    let (begun, wait) = mpsc::channel();
    let task = move || {
        begun.send(()).unwrap();
        let _ = hold.recv();
    };
    timers.schedule_once(Duration::ZERO, task).unwrap();
    wait.recv_timeout(PATIENCE).unwrap();
    release
}

/// Schedules this many tasks, all due at once, that send their numbers.
fn schedule_numbers(timers: &Handle, tasks: usize) -> Receiver<usize> {
    let (sender, numbers) = mpsc::channel();
    for number in 0..tasks {
        let sender = sender.clone();
        timers.schedule_once(Duration::ZERO, move || sender.send(number).unwrap()).unwrap();
    }
    numbers
}

fn wait_held(timers: &Handle, count: u64) {
    eventually("tasks wait for the pool", || timers.metrics().held_for_pool >= count);
}

#[test]
fn what_is_due_beyond_the_queue_of_the_pool_stays_pending_and_runs_in_its_order() {
    for queue in [1, 2, 5, 40] {
        let scheduler = builder(1, queue).build().unwrap();
        let release = occupy(&scheduler);
        let numbers = schedule_numbers(&scheduler, 100);
        wait_held(&scheduler, 100 - queue as u64);
        let metrics = scheduler.metrics();
        assert_eq!(metrics.pending, 100 - queue as u64);
        assert_eq!(metrics.held_for_pool, 100 - queue as u64);
        drop(release);
        let ran = (0..100).map(|_| numbers.recv_timeout(PATIENCE).unwrap());
        assert_same(ran, 0..100);
    }
}

#[test]
fn inline_tasks_run_while_others_wait_for_the_pool() {
    let scheduler = builder(1, 1).build().unwrap();
    let release = occupy(&scheduler);
    let numbers = schedule_numbers(&scheduler, 3);
    wait_held(&scheduler, 2);
    let (sender, ran) = mpsc::channel();
    let inline = Task::new(move || sender.send(()).unwrap()).inline();
    scheduler.schedule_once(ms(1), inline).unwrap();
    ran.recv_timeout(PATIENCE).unwrap();
    assert!(numbers.try_recv().is_err());
    drop(release);
    assert_eq!(numbers.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn what_waits_for_the_pool_can_be_cancelled_and_moved_is_listed_and_handed_back() {
    let scheduler = builder(1, 1).build().unwrap();
    let release = occupy(&scheduler);
    let _queued = schedule_numbers(&scheduler, 1);
    eventually("nothing is pending", || scheduler.pending() == 0);
    let ran = Arc::new(AtomicUsize::new(0));
    let held: Vec<_> = (0..4)
        .map(|_| {
            let ran = Arc::clone(&ran);
            let task = move || {
                ran.fetch_add(1, Ordering::SeqCst);
            };
            scheduler.schedule_once(Duration::ZERO, task).unwrap()
        })
        .collect();
    wait_held(&scheduler, 4);
    assert!(held[0].cancel() && !held[0].cancel());
    assert!(held[1].reset(secs(3_600)));
    let query = lars_scheduler::listing::TimerQuery::new();
    assert_eq!(scheduler.list(query).wait().matched, 3);
    let handed_back = scheduler.stop().wait();
    assert_eq!(handed_back.len(), 3);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    for task in handed_back {
        task.run();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    drop(release);
}

#[test]
fn close_runs_what_waits_for_the_pool() {
    in_lead(|limit| {
        let scheduler = builder(1, 1).shutdown_timeout(limit).build().unwrap();
        let release = occupy(&scheduler);
        let numbers = schedule_numbers(&scheduler, 4);
        wait_held(&scheduler, 3);
        // The limit is for the timer thread's end as well, which may take longer.
        let report = match scheduler.close() {
            Err(CloseError::Timeout { .. }) => return None,
            closed => closed.unwrap(),
        };
        assert_eq!((report.ran, report.unfinished), (3, 2));
        drop(release);
        let mut ran: Vec<_> = numbers.iter().take(4).collect();
        ran.sort_unstable();
        assert_eq!(ran, [0, 1, 2, 3]);
        Some(())
    });
}

#[test]
fn both_limits_together_refuse_in_the_end() {
    let scheduler = builder(1, 2).max_pending(3).build().unwrap();
    let release = occupy(&scheduler);
    let mut accepted = 0;
    let mut refused = false;
    let begin = Instant::now();
    while !refused && begin.elapsed() < PATIENCE {
        match scheduler.schedule_once(Duration::ZERO, || ()) {
            Ok(_) => accepted += 1,
            Err(error) => {
                assert_eq!(error.refusal(), &Refusal::Full { limit: 3 });
                // Perhaps the timer thread has not come to the last ones.
                refused = accepted == 5;
                thread::yield_now();
            }
        }
    }
    assert_eq!(accepted, 5); // two in the queue, three pending
    drop(release);
    eventually("nothing is pending", || scheduler.pending() == 0);
}

#[test]
fn repeats_wait_for_the_pool_as_one_shots_do_and_go_on() {
    let scheduler = builder(1, 1).build().unwrap();
    let release = occupy(&scheduler);
    let _queued = schedule_numbers(&scheduler, 1);
    eventually("nothing is pending", || scheduler.pending() == 0);
    let (sender, ran) = mpsc::channel();
    let tick = move || sender.send(()).unwrap_or_default();
    let repeat = scheduler.schedule_with_fixed_delay(Duration::ZERO, ms(1), tick).unwrap();
    wait_held(&scheduler, 1);
    assert!(ran.try_recv().is_err());
    drop(release);
    (0..5).for_each(|_| ran.recv_timeout(PATIENCE).unwrap());
    assert!(repeat.cancel());
}

#[test]
fn nothing_is_lost_and_nothing_runs_twice_when_threads_schedule_cancel_and_move_at_a_full_pool() {
    let tasks = scaled(20_000, 40);
    let scheduler = builder(2, 3).build().unwrap();
    let counts: Arc<Vec<AtomicUsize>> =
        Arc::new((0..4 * tasks).map(|_| AtomicUsize::new(0)).collect());
    let cancelled: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (timers, counts) = (scheduler.handle(), Arc::clone(&counts));
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread as u64);
                    let mut kept = Vec::new();
                    let mut cancelled = 0;
                    for number in 0..tasks {
                        let counts = Arc::clone(&counts);
                        let index = thread * tasks + number;
                        let task = move || {
                            counts[index].fetch_add(1, Ordering::SeqCst);
                        };
                        let delay = Duration::from_micros(random.u64(0..3_000));
                        kept.push((index, timers.schedule_once(delay, task).unwrap()));
                        if random.u8(0..4) == 0 {
                            let (index, timer) = kept.swap_remove(random.usize(0..kept.len()));
                            if timer.cancel() {
                                cancelled += 1;
                                assert!(!timer.cancel(), "timer {index} was cancelled twice");
                            }
                        } else if random.u8(0..4) == 0 {
                            let (_, timer) = &kept[random.usize(0..kept.len())];
                            timer.reset(Duration::from_micros(random.u64(0..5_000)));
                        }
                    }
                    cancelled
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    eventually("nothing is pending", || scheduler.pending() == 0);
    assert_eq!(scheduler.close().unwrap().unfinished, 0);
    let ran: usize = counts.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    assert!(counts.iter().all(|count| count.load(Ordering::SeqCst) <= 1));
    assert_eq!(ran + cancelled, 4 * tasks);
}

#[test]
fn an_event_loop_is_woken_when_the_pool_has_room_again() {
    let pool = Pool::builder("bounded").threads(1).queue(1).build().unwrap();
    let (wake, woken) = mpsc::channel();
    let mut driver = LightArrayRevolverScheduler::builder()
        .executor(pool.clone())
        .build_driver(move || wake.send(()).unwrap_or_default())
        .unwrap();
    let (release, hold) = mpsc::channel::<()>();
    pool.execute(Runnable::new(move || hold.recv().unwrap_or_default())).unwrap();
    let numbers = schedule_numbers(&driver, 3);
    while woken.try_recv().is_ok() {}
    while driver.turn(Instant::now()).is_some() {}
    assert_eq!((driver.pending(), driver.metrics().held_for_pool), (2, 2));
    assert!(woken.try_recv().is_err());
    drop(release);
    let mut ran = Vec::new();
    while ran.len() < 3 {
        if let Ok(number) = numbers.recv_timeout(ms(1)) {
            ran.push(number);
        } else if woken.recv_timeout(ms(1)).is_ok() {
            while driver.turn(Instant::now()).is_some() {}
        }
    }
    assert_eq!(ran, [0, 1, 2]);
}

/// An event loop on a pool that others use as well.
struct Shared {
    pool: Pool,
    driver: TimerDriver,
    woken: Receiver<()>,
}

impl Shared {
    fn new(queue: usize) -> Self {
        let pool = Pool::builder("shared").threads(1).queue(queue).build().unwrap();
        let (wake, woken) = mpsc::channel();
        let driver = LightArrayRevolverScheduler::builder()
            .executor(pool.clone())
            .build_driver(move || wake.send(()).unwrap_or_default())
            .unwrap();
        Self { pool, driver, woken }
    }

    fn turn(&mut self) {
        while self.woken.try_recv().is_ok() {}
        while self.driver.turn(Instant::now()).is_some_and(|next| next <= Instant::now()) {}
    }
}

/// A task that runs until the sender is dropped, or as often as something is sent.
fn gated(gate: &Arc<Mutex<Receiver<()>>>) -> impl FnOnce() + Send + 'static {
    let gate = Arc::clone(gate);
    move || gate.lock().unwrap().recv().unwrap_or_default()
}

#[test]
fn who_submits_again_and_again_does_not_keep_a_scheduler_that_waits_out_of_the_pool() {
    let mut shared = Shared::new(4);
    let (open, gate) = mpsc::channel();
    let gate = Arc::new(Mutex::new(gate));
    let submit = |pool: &Pool| pool.execute(Runnable::new(gated(&gate)));
    (0..5).for_each(|_| submit(&shared.pool).unwrap());
    let numbers = schedule_numbers(&shared.driver, 1);
    shared.turn();
    assert_eq!(shared.driver.pending(), 1);
    // One place is free, and then two. At half of the limit the scheduler is told.
    for unfinished in [4, 3] {
        open.send(()).unwrap();
        eventually("a task ends", || shared.pool.unfinished() == unfinished);
        let rejected = submit(&shared.pool).unwrap_err();
        assert!(rejected.reason().contains("tasks of a scheduler come first"), "{rejected}");
    }
    shared.woken.recv_timeout(PATIENCE).unwrap();
    // Not before it has come.
    submit(&shared.pool).unwrap_err();
    shared.turn();
    assert_eq!((shared.driver.pending(), shared.pool.unfinished()), (0, 4));
    submit(&shared.pool).unwrap();
    drop(open);
    assert_eq!(numbers.recv_timeout(PATIENCE).unwrap(), 0);
}

#[test]
fn a_scheduler_that_is_dropped_while_it_waits_for_room_leaves_it_to_others() {
    let mut shared = Shared::new(4);
    let (open, gate) = mpsc::channel();
    let gate = Arc::new(Mutex::new(gate));
    let submit = |pool: &Pool| pool.execute(Runnable::new(gated(&gate)));
    (0..5).for_each(|_| submit(&shared.pool).unwrap());
    let _numbers = schedule_numbers(&shared.driver, 1);
    shared.turn();
    let Shared { pool, driver, .. } = shared;
    drop(driver);
    open.send(()).unwrap();
    eventually("a task ends", || pool.unfinished() == 4);
    submit(&pool).unwrap();
    drop(open);
}

#[test]
fn a_scheduler_is_told_of_room_while_tasks_that_were_due_together_still_run() {
    let mut shared = Shared::new(4);
    let (open, gate) = mpsc::channel();
    let gate = Arc::new(Mutex::new(gate));
    for _ in 0..8 {
        shared.driver.schedule_once(Duration::ZERO, gated(&gate)).unwrap();
    }
    shared.turn();
    assert_eq!((shared.driver.pending(), shared.pool.unfinished()), (3, 5));
    (0..2).for_each(|_| open.send(()).unwrap());
    shared.woken.recv_timeout(PATIENCE).unwrap();
    assert!(shared.pool.unfinished() <= 3);
    shared.turn();
    assert_eq!(shared.driver.pending(), 1);
    drop(open);
}

#[test]
fn two_schedulers_that_share_a_full_pool_both_get_on() {
    let pool = Pool::builder("shared").threads(1).queue(2).build().unwrap();
    let build = || LightArrayRevolverScheduler::builder().executor(pool.clone()).build().unwrap();
    let (one, two) = (build(), build());
    let release = occupy(&one);
    let (first, second) = (schedule_numbers(&one, 100), schedule_numbers(&two, 100));
    wait_held(&one, 90);
    wait_held(&two, 90);
    drop(release);
    assert_same(first.iter().take(100), 0..100);
    assert_same(second.iter().take(100), 0..100);
}

#[test]
fn a_pool_that_is_full_gives_the_task_back_and_its_limit_is_exact() {
    let (threads, queue) = (2, 5);
    let pool = Pool::builder("exact").threads(threads).queue(queue).build().unwrap();
    assert_eq!(pool.queue_limit(), Some(queue));
    let (release, hold) = mpsc::channel::<()>();
    let hold = Arc::new(Mutex::new(hold));
    let accepted: usize = thread::scope(|scope| {
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let submit = |_: &usize| {
                        let hold = Arc::clone(&hold);
                        let wait = move || hold.lock().unwrap().recv().unwrap_or_default();
                        match pool.execute(Runnable::new(wait)) {
                            Ok(()) => true,
                            Err(rejected) => {
                                assert!(rejected.reason().contains("5 tasks wait"), "{rejected}");
                                drop(rejected.into_task());
                                false
                            }
                        }
                    };
                    (0..20).filter(submit).count()
                })
            })
            .collect();
        submitters.into_iter().map(|submitter| submitter.join().unwrap()).sum()
    });
    assert_eq!(accepted, threads + queue);
    drop(release);
    pool.wait();
    pool.execute(Runnable::new(|| ())).unwrap();
}

#[test]
fn a_task_that_names_a_full_pool_itself_runs_on_the_schedulers_own() {
    let pool = Pool::builder("named").threads(1).queue(1).build().unwrap();
    let scheduler = builder(1, 1).build().unwrap();
    let (release, hold) = mpsc::channel::<()>();
    pool.execute(Runnable::new(move || hold.recv().unwrap_or_default())).unwrap();
    let (sender, ran) = mpsc::channel();
    for _ in 0..5 {
        let sender = sender.clone();
        let (own, executor) = (pool.clone(), Arc::new(pool.clone()));
        let task = Task::new(move || sender.send(own.is_current()).unwrap()).executor(executor);
        scheduler.schedule_once(Duration::ZERO, task).unwrap();
    }
    // One waits in the queue. The others are not lost, although the scheduler's pool has a limit.
    (0..4).for_each(|_| assert!(!ran.recv_timeout(PATIENCE).unwrap()));
    assert_eq!(scheduler.metrics().rejected_by_executor, 4);
    drop(release);
    assert!(ran.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn settings_of_a_pool_out_of_their_range_are_refused() {
    let refused = |error: ConfigError, text: &str| assert_eq!(error.to_string(), text);
    let own = || LightArrayRevolverScheduler::builder();
    let text = "pool_queue is 0, but it must be at least 1 (leave it unset for no limit)";
    refused(own().pool(|pool| pool.queue(0)).build_virtual().unwrap_err(), text);
    refused(Pool::builder("p").queue(0).build().unwrap_err(), text);
    for bytes in [0, (64 << 10) - 1, (1 << 30) + 1] {
        let text = format!(
            "pool_stack_size is {bytes} bytes, but it must be between 65536 and 1073741824"
        );
        refused(own().pool(|pool| pool.stack_size(bytes)).build_virtual().unwrap_err(), &text);
        refused(Pool::builder("p").stack_size(bytes).build().unwrap_err(), &text);
        let text = text.trim_start_matches("pool_");
        refused(own().stack_size(bytes).build_virtual().unwrap_err(), text);
    }
    let text = "pool_threads is 1025, but it must be between 1 and 1024";
    refused(Pool::builder("p").threads(1025).build().unwrap_err(), text);
    let text = "thread_name is \"a\\0b\", but a thread's name must not contain a NUL byte";
    refused(Pool::builder("a\0b").build().unwrap_err(), text);
}

/// Uses a mebibyte of stack for each step.
#[inline(never)]
fn deep(steps: usize) -> usize {
    let memory = std::hint::black_box([1_u8; 1 << 20]);
    if steps == 0 { 0 } else { deep(steps - 1) + usize::from(memory[steps]) }
}

#[cfg_attr(miri, ignore = "an interpreter's stack is not the machine's")]
#[test]
fn the_threads_of_a_pool_and_the_timer_thread_have_the_stack_that_was_asked_for() {
    let large = 64 << 20;
    let own = || LightArrayRevolverScheduler::builder();
    for builder in [own().pool(|pool| pool.stack_size(large)), own().stack_size(large).inline()] {
        let scheduler = builder.build().unwrap();
        let (sender, result) = mpsc::channel();
        scheduler.schedule_once(Duration::ZERO, move || sender.send(deep(16)).unwrap()).unwrap();
        assert_eq!(result.recv_timeout(PATIENCE).unwrap(), 16);
    }
}

#[test]
fn the_hook_of_a_pool_runs_on_each_of_its_threads() {
    let (sender, started) = mpsc::channel();
    let pool = Pool::builder("hooked")
        .threads(2)
        .on_thread_start(move |thread| {
            sender.send((thread.kind, thread.name.to_owned())).unwrap();
        })
        .build()
        .unwrap();
    pool.execute(Runnable::new(|| ())).unwrap();
    let mut names: Vec<_> = (0..2).map(|_| started.recv_timeout(PATIENCE).unwrap()).collect();
    names.sort_by(|one, two| one.1.cmp(&two.1));
    assert!(names.iter().all(|(kind, _)| matches!(kind, ThreadKind::Pool { .. })));
    assert_eq!((&*names[0].1, &*names[1].1), ("hooked-0", "hooked-1"));
}
