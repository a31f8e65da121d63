//! Tasks that run once: when, in which order, where, and with what they captured.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ByHand, Notes, PATIENCE, Xorshift, assert_same, in_lead, ms, ns, occupy, scaled, secs, settle,
    ticked, virtual_time,
};
use lars_scheduler::executor::{SpawnExecutor, TaskBody};
use lars_scheduler::{Inline, LightArrayRevolverScheduler, Pool, Task, VirtualTime};

#[test]
fn a_task_runs_at_its_deadline_and_not_a_nanosecond_before() {
    let time = virtual_time();
    let runs = Notes::new();
    let (first, second) = (runs.clone(), runs.clone());
    let _ = time.schedule_once(ms(300), move || first.add("message")).unwrap();
    let _ = time.schedule_once(ms(300), move || second.add("closure")).unwrap();
    assert_eq!(time.advance(ms(300) - ns(1)), 0);
    assert_eq!(runs.len(), 0);
    assert_eq!(time.advance(ns(1)), 2);
    assert_eq!(runs.take(), ["message", "closure"]);
    assert_eq!(time.advance(secs(3600)), 0);
    assert_eq!(runs.len(), 0, "a one-shot runs once");
}

/// Runs one task and returns the instant of its run, which the test also finds to be the first at
/// which anything ran.
fn instant_of_run(time: &VirtualTime, delay: Duration) -> Duration {
    let start = time.now();
    let before = time.elapsed();
    let (sender, receiver) = mpsc::channel();
    let clock = time.handle();
    let _ = time.schedule_once(delay, move || sender.send(clock.now()).unwrap()).unwrap();
    time.advance_to_next().expect("it is pending");
    before + (receiver.try_recv().expect("it has run") - start)
}

#[test]
fn a_deadline_is_rounded_up_to_the_tick_once_whatever_the_phase_of_the_call() {
    // Akka rounds the delay and then waits for the next drain: one to two ticks. Here the deadline
    // alone is rounded, so a call in the middle of a tick costs nothing on top.
    let tick = 10_000;
    let time = ticked(ns(tick), 32);
    let mut random = Xorshift(7);
    for _ in 0..scaled(2_000, 50) {
        time.advance(ns(random.below(3 * tick)));
        let delay = 1 + random.below(20 * tick);
        let deadline = time.elapsed() + ns(delay);
        let run = instant_of_run(&time, ns(delay));
        let rounded = deadline.as_nanos().div_ceil(u128::from(tick)) * u128::from(tick);
        assert_eq!(run.as_nanos(), rounded, "due at {deadline:?}");
    }
    assert!(time.metrics().lateness.max < ns(tick));
}

/// Kafka and `java.util.Timer` fire up to a millisecond early, because they cut the fraction of a
/// millisecond off their clock.
#[test]
fn in_real_time_no_task_starts_before_its_deadline() {
    let tasks = scaled(3_000, 30);
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut random = Xorshift(11);
    for number in 0..tasks {
        // Fractions of a tick and of a millisecond.
        let delay = ns(random.below(20_000_000));
        let sender = sender.clone();
        let earliest = Instant::now() + delay;
        let task = Task::new(move || sender.send((earliest, Instant::now())).unwrap());
        let task = if number % 2 == 0 { task.inline() } else { task };
        let _ = scheduler.schedule_once(delay, task).unwrap();
        if number % 64 == 0 {
            thread::yield_now();
        }
    }
    for _ in 0..tasks {
        let (earliest, start) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(start >= earliest, "{:?} early", earliest - start);
    }
}

#[test]
fn what_is_scheduled_while_the_timer_thread_is_held_up_is_not_early_either() {
    // A time stamp taken before a long drain and used for what arrived during it would be.
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let tasks = scaled(2_000, 20);
    let held = occupy(&scheduler);
    for number in 0..tasks as u64 {
        let delay = ns(number * 10_000);
        let sender = sender.clone();
        let earliest = Instant::now() + delay;
        let run = move || sender.send((earliest, Instant::now())).unwrap();
        let _ = scheduler.schedule_once(delay, run).unwrap();
    }
    drop(held);
    for _ in 0..tasks {
        let (earliest, start) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(start >= earliest);
    }
}

#[test]
fn a_delay_of_zero_does_not_wait_for_a_tick() {
    let time = ticked(secs(1), 8);
    time.advance(ms(300));
    let runs = Notes::new();
    let note = runs.clone();
    let _ = time.schedule_once(Duration::ZERO, move || note.add(())).unwrap();
    assert_eq!(runs.len(), 0, "nothing runs on the caller's stack");
    assert_eq!(time.advance(Duration::ZERO), 1);
    assert_eq!(runs.len(), 1);
    assert_eq!(time.elapsed(), ms(300));
}

#[test]
fn user_code_never_runs_on_the_callers_stack() {
    let scheduler = LightArrayRevolverScheduler::builder().executor(Inline).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler
        .schedule_once(Duration::ZERO, move || sender.send(thread::current().id()).unwrap())
        .unwrap();
    assert_ne!(receiver.recv_timeout(PATIENCE).unwrap(), thread::current().id());
}

#[test]
fn a_zero_delay_scheduled_inside_a_task_runs_after_that_task_and_not_inside_it() {
    let time = virtual_time();
    let notes = Notes::new();
    let (timers, outer) = (time.handle(), notes.clone());
    let run = move || {
        outer.add("outer begins");
        let inner = outer.clone();
        let _ = timers.schedule_once(Duration::ZERO, move || inner.add("inner")).unwrap();
        outer.add("outer ends");
    };
    let _ = time.schedule_once(ms(1), run).unwrap();
    assert_eq!(time.advance(ms(1)), 2);
    assert_eq!(notes.take(), ["outer begins", "outer ends", "inner"]);
}

#[test]
fn equal_deadlines_run_in_the_order_of_the_calls_through_all_levels_of_the_wheel() {
    for wheel in [2, 8, 512] {
        let time = ticked(ms(1), wheel);
        let notes = Notes::new();
        let deadline = time.now() + secs(90_000);
        let tasks = scaled(600, 40);
        for number in 0..tasks {
            let note = notes.clone();
            let _ = time.schedule_at(deadline, move || note.add(number)).unwrap();
            // The later a call, the nearer its deadline: they enter on different levels.
            time.advance(secs(90_000) / (2 * tasks as u32));
        }
        assert_eq!(time.advance(secs(90_000)), tasks, "wheel of {wheel}");
        assert_same(notes.take(), 0..tasks);
    }
}

#[test]
fn in_real_time_too_equal_deadlines_run_in_the_order_of_the_calls() {
    let tasks = scaled(10_000, 50);
    in_lead(|lead| {
        let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let deadline = scheduler.now() + lead;
        for number in 0..tasks {
            let sender = sender.clone();
            let _ = scheduler.schedule_at(deadline, move || sender.send(number).unwrap()).unwrap();
        }
        // A call after the deadline has a deadline of its own, which is now.
        let in_time = scheduler.now() < deadline;
        drop(sender);
        let order: Vec<_> = receiver.iter().collect();
        assert_eq!(order.len(), tasks);
        in_time.then(|| assert_same(order, 0..tasks))
    });
}

/// Schedules two groups while the timer thread is occupied, the later deadlines first, lets all of
/// them pass, and returns the order in which they then run.
fn order_after_a_hold_up(tasks: usize) -> Vec<(Instant, usize)> {
    in_lead(|lead| {
        let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
        let held = occupy(&scheduler);
        let (sender, receiver) = mpsc::channel();
        let first = scheduler.now() + lead;
        let last = first + ms(10);
        for number in 0..tasks {
            let sender = sender.clone();
            let deadline = if number < tasks * 3 / 4 { last } else { first };
            let run = move || sender.send((deadline, number)).unwrap();
            let _ = scheduler.schedule_at(deadline, run).unwrap();
        }
        // A call after its deadline would have another one, which is now.
        let in_time = scheduler.now() < first;
        while scheduler.now() < last + ms(2) {
            thread::sleep(ms(1));
        }
        drop((sender, held));
        let order: Vec<_> = receiver.iter().collect();
        assert_eq!(order.len(), tasks);
        in_time.then_some(order)
    })
}

#[test]
fn tasks_run_in_the_order_of_their_ticks_when_the_timer_thread_was_held_up() {
    let order = order_after_a_hold_up(scaled(400, 20));
    assert!(order.is_sorted(), "by deadline, and then by call");
}

/// As many timers as a thread has to schedule before it gets a wheel of its own.
fn get_a_wheel(scheduler: &LightArrayRevolverScheduler) {
    for _ in 0..100 {
        assert!(scheduler.schedule_once(ms(60_000), || ()).unwrap().cancel());
    }
}

#[test]
fn a_timer_moved_further_out_runs_behind_earlier_ticks_when_the_timer_thread_was_held_up() {
    in_lead(|lead| {
        let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
        get_a_wheel(&scheduler);
        let held = occupy(&scheduler);
        let (sender, receiver) = mpsc::channel();
        let first = scheduler.now() + lead;
        let send = |what| {
            let sender = sender.clone();
            move || sender.send(what).unwrap()
        };
        // It lies in the wheel by its first deadline, and is due by its second.
        let moved = scheduler.schedule_at(first, send("moved")).unwrap();
        let _ = scheduler.schedule_at(first + ms(30), send("earlier")).unwrap();
        assert!(moved.reset_at(first + ms(40)));
        let in_time = scheduler.now() < first;
        while scheduler.now() < first + ms(50) {
            thread::sleep(ms(1));
        }
        drop((sender, held));
        let order: Vec<_> = receiver.iter().collect();
        in_time.then(|| assert_eq!(order, ["earlier", "moved"]))
    });
}

#[test]
fn what_several_threads_with_wheels_scheduled_runs_in_the_order_of_the_ticks_after_a_hold_up() {
    in_lead(|lead| {
        let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
        let held = occupy(&scheduler);
        let (sender, receiver) = mpsc::channel();
        let first = scheduler.now() + lead;
        thread::scope(|scope| {
            for _ in 0..3 {
                let sender = sender.clone();
                scope.spawn(|| {
                    let sender = sender;
                    get_a_wheel(&scheduler);
                    // The later ones first.
                    for tick in (0..10_u32).rev() {
                        let sender = sender.clone();
                        let run = move || sender.send(tick).unwrap();
                        let _ = scheduler.schedule_at(first + tick * ms(1), run).unwrap();
                    }
                });
            }
        });
        let in_time = scheduler.now() < first;
        while scheduler.now() < first + ms(20) {
            thread::sleep(ms(1));
        }
        drop((sender, held));
        let order: Vec<_> = receiver.iter().collect();
        assert_eq!(order.len(), 30);
        in_time.then(|| assert!(order.is_sorted(), "{order:?}"))
    });
}

#[test]
fn a_hundred_thousand_tasks_with_random_delays_all_run_in_the_order_of_their_deadlines() {
    let tasks = scaled(100_000, 300);
    let time = ticked(ms(10), 32);
    let notes = Notes::new();
    let mut random = Xorshift(3);
    for number in 0..tasks {
        let delay = random.below(3_000);
        let note = notes.clone();
        let _ = time.schedule_once(ms(delay), move || note.add((delay, number))).unwrap();
    }
    assert_eq!(time.advance(secs(3)), tasks);
    let order = notes.take();
    assert_eq!(order.len(), tasks);
    assert!(order.is_sorted());
}

/// Kafka adds `Long.MAX_VALUE` to its clock without looking, and runs such a task at once.
#[test]
fn the_longest_delay_never_comes_due_and_does_not_run_at_once() {
    let time = virtual_time();
    let notes = Notes::new();
    let note = notes.clone();
    let longest = time.schedule_once(Duration::MAX, move || note.add(())).unwrap();
    assert_eq!(time.advance(secs(1)), 0);
    assert_eq!(time.advance(Duration::MAX), 0);
    assert_eq!(time.advance(Duration::MAX), 0);
    assert!(longest.is_pending());
    assert_eq!((time.pending(), notes.len()), (1, 0));
    assert!(longest.cancel());
}

#[test]
fn in_real_time_too_the_longest_delay_is_accepted_and_never_runs() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let longest = sender.clone();
    let _ = scheduler.schedule_once(Duration::MAX, move || longest.send("never").unwrap()).unwrap();
    let _ = scheduler.schedule_once(ms(5), move || sender.send("soon").unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), "soon");
    settle(&scheduler);
    assert_eq!(scheduler.pending(), 1);
    assert!(receiver.try_recv().is_err());
}

#[test]
fn delays_beyond_what_other_wheels_take_run_at_their_exact_tick() {
    // Akka ends at `tick * i32::MAX`, 248 days; 49 days is where its tick once wrapped.
    let tick = ms(10);
    let akka = tick * i32::MAX as u32;
    for wheel in [2, 32, 512] {
        for delay in [akka, akka + tick, secs(4_294_080), 2 * akka, secs(580 * 31_557_600)] {
            let time = ticked(tick, wheel);
            let notes = Notes::new();
            let note = notes.clone();
            let _ = time.schedule_once(delay, move || note.add(())).unwrap();
            assert_eq!(time.advance(delay - ns(1)), 0, "{delay:?} on a wheel of {wheel}");
            assert_eq!(time.advance(ns(1)), 1, "{delay:?} on a wheel of {wheel}");
            assert_eq!(notes.len(), 1);
        }
    }
}

/// The timer wheel of the Linux kernel is late by up to an eighth of the delay: four minutes for
/// an hour.
#[test]
fn a_long_delay_is_as_punctual_as_a_short_one() {
    for delay in [ms(1), secs(1), secs(3_600), secs(86_400 * 365)] {
        let time = ticked(ms(1), 8);
        time.advance(ns(400_000));
        let run = instant_of_run(&time, delay);
        assert_eq!(run, delay + ms(1), "{delay:?}, called in the middle of a tick");
    }
}

#[test]
fn a_deadline_given_as_an_instant_is_kept_to_the_nanosecond() {
    let time = virtual_time();
    time.advance(secs(5));
    let notes = Notes::new();
    for offset in [30, 10, 20_u64] {
        let note = notes.clone();
        let _ = time.schedule_at(time.now() + ns(offset), move || note.add(offset)).unwrap();
    }
    assert_eq!(time.advance(ns(9)), 0);
    assert_eq!(time.advance(ns(1)), 1);
    assert_eq!(time.advance(ns(20)), 2);
    assert_eq!(notes.take(), [10, 20, 30]);
}

#[test]
fn a_deadline_that_has_passed_is_now() {
    let before_everything = Instant::now();
    let time = virtual_time();
    time.advance(secs(5));
    let notes = Notes::new();
    for deadline in [before_everything, time.now() - secs(1), time.now()] {
        let note = notes.clone();
        let _ = time.schedule_at(deadline, move || note.add(())).unwrap();
    }
    assert_eq!(notes.len(), 0);
    assert_eq!(time.advance(Duration::ZERO), 3);
    assert_eq!(notes.len(), 3);
    assert_eq!(time.metrics().lateness.max, Duration::ZERO, "its deadline is the call");
}

#[test]
fn a_task_runs_on_the_pool_unless_it_says_otherwise() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .thread_name("wheel")
        .pool(|pool| pool.threads(1))
        .build()
        .unwrap();
    let own = Pool::new("own", 1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let name_to = |sender: &mpsc::Sender<(u8, String)>, number| {
        let sender = sender.clone();
        move || {
            let name = thread::current().name().unwrap_or_default().to_owned();
            sender.send((number, name)).unwrap();
        }
    };
    let zero = Duration::ZERO;
    let _ = scheduler.schedule_once(zero, name_to(&sender, 0)).unwrap();
    let _ = scheduler.schedule_once(zero, Task::new(name_to(&sender, 1))).unwrap();
    let _ = scheduler.schedule_once(zero, Task::new(name_to(&sender, 2)).inline()).unwrap();
    let task = Task::new(name_to(&sender, 3)).executor(Arc::new(own));
    let _ = scheduler.schedule_once(zero, task).unwrap();
    let task = Task::new(name_to(&sender, 4)).executor(Arc::new(Inline));
    let _ = scheduler.schedule_once(zero, task).unwrap();
    drop(sender);
    let mut names: Vec<_> = (0..5).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
    names.sort();
    let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["wheel-worker-0", "wheel-worker-0", "wheel", "own-0", "wheel"]);
}

#[test]
fn the_executor_that_the_scheduler_was_built_with_gets_the_tasks() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    let notes = Notes::new();
    let (first, second) = (notes.clone(), notes.clone());
    let _ = time.schedule_once(ms(1), move || first.add("executor")).unwrap();
    let _ = time.schedule_once(ms(1), Task::new(move || second.add("inline")).inline()).unwrap();
    assert_eq!(time.advance(ms(1)), 2);
    assert_eq!(notes.take(), ["inline"]);
    assert!(by_hand.run_next());
    assert_eq!(notes.take(), ["executor"]);
    assert!(!by_hand.run_next());
}

#[test]
fn a_slow_task_delays_no_other_timer() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(2)).build().unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let slow = sender.clone();
    let _ = scheduler
        .schedule_once(Duration::ZERO, move || {
            slow.send("slow begins").unwrap();
            let _ = hold.recv();
        })
        .unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), "slow begins");
    // It occupies its thread until the others have run.
    let pooled = sender.clone();
    let _ = scheduler.schedule_once(ms(1), move || pooled.send("pooled").unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), "pooled");
    let inline = Task::new(move || sender.send("inline").unwrap()).inline();
    let _ = scheduler.schedule_once(ms(1), inline).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), "inline");
    drop(release);
}

/// Spawns each future on a thread of its own.
#[derive(Debug, Clone)]
struct Threads {
    open: Arc<Mutex<bool>>,
}

impl futures::task::Spawn for Threads {
    fn spawn_obj(
        &self,
        future: futures::task::FutureObj<'static, ()>,
    ) -> Result<(), futures::task::SpawnError> {
        thread::spawn(|| futures::executor::block_on(future));
        Ok(())
    }

    fn status(&self) -> Result<(), futures::task::SpawnError> {
        match *self.open.lock().unwrap() {
            true => Ok(()),
            false => Err(futures::task::SpawnError::shutdown()),
        }
    }
}

#[test]
fn anything_that_spawns_futures_runs_tasks_and_what_it_refuses_runs_on_the_pool() {
    let open = Arc::new(Mutex::new(true));
    let scheduler = LightArrayRevolverScheduler::builder()
        .executor(SpawnExecutor::new(Threads { open: Arc::clone(&open) }))
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    for (spawner_open, rejected) in [(true, 0), (false, 1)] {
        *open.lock().unwrap() = spawner_open;
        let sender = sender.clone();
        let _ = scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(scheduler.metrics().rejected_by_executor, rejected);
    }
}

/// Schedules a closure that captures `N` bytes beside the counted value.
fn capture<const N: usize>(time: &VirtualTime, share: &Arc<AtomicUsize>, run: bool) {
    let bytes: [u8; N] = std::array::from_fn(|index| (index * 7) as u8);
    let share = Arc::clone(share);
    let task = move || {
        assert!(bytes.iter().enumerate().all(|(index, &byte)| byte == (index * 7) as u8));
        share.fetch_add(1, Ordering::Relaxed);
    };
    let timer = time.schedule_once(ms(1), task).unwrap();
    if !run {
        assert!(timer.cancel());
    }
}

#[test]
fn captures_of_any_size_arrive_unharmed_and_are_dropped_once() {
    #[repr(align(128))]
    struct Aligned(u64);

    let time = virtual_time();
    let share = Arc::new(AtomicUsize::new(0));
    for run in [true, false] {
        capture::<0>(&time, &share, run);
        capture::<1>(&time, &share, run);
        capture::<15>(&time, &share, run);
        capture::<16>(&time, &share, run);
        capture::<17>(&time, &share, run);
        capture::<64>(&time, &share, run);
        capture::<4096>(&time, &share, run);
        let (aligned, count) = (Aligned(5), Arc::clone(&share));
        let task = move || {
            let aligned = &aligned;
            assert_eq!(std::ptr::from_ref(aligned).addr() % 128, 0);
            assert_eq!(aligned.0, 5);
            count.fetch_add(1, Ordering::Relaxed);
        };
        let timer = time.schedule_once(ms(1), task).unwrap();
        if !run {
            assert!(timer.cancel());
        }
    }
    assert_eq!(time.advance(ms(1)), 8);
    assert_eq!(share.load(Ordering::Relaxed), 8);
    assert_eq!(Arc::strong_count(&share), 1, "all captures have been dropped");
}

#[test]
fn a_body_of_ones_own_runs_like_a_closure() {
    struct Letter(Notes<&'static str>);
    impl TaskBody for Letter {
        fn run(self) {
            self.0.add("delivered");
        }
        fn cancelled(self) {
            self.0.add("returned to sender");
        }
    }
    let time = virtual_time();
    let notes = Notes::new();
    let _ = time.schedule_once(ms(1), Task::new(Letter(notes.clone()))).unwrap();
    let cancelled = time.schedule_once(ms(1), Task::new(Letter(notes.clone()))).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(notes.take(), ["returned to sender"]);
    time.advance(ms(1));
    assert_eq!(notes.take(), ["delivered"]);
}

#[test]
fn every_thread_may_schedule_and_everything_runs_once_in_the_order_of_its_thread() {
    const THREADS: usize = 4;
    let per_thread = scaled(2_000, 20);
    in_lead(|lead| {
        let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let deadline = scheduler.now() + lead;
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (timers, sender) = (scheduler.handle(), sender.clone());
                scope.spawn(move || {
                    for number in 0..per_thread {
                        let sender = sender.clone();
                        let run = move || sender.send((thread, number)).unwrap();
                        let _ = timers.schedule_at(deadline, run).unwrap();
                    }
                });
            }
        });
        // A call made after its deadline may overtake. Once each they run in any case.
        let in_time = scheduler.now() < deadline;
        drop(sender);
        let mut seen: [Vec<usize>; THREADS] = Default::default();
        receiver.iter().for_each(|(thread, number)| seen[thread].push(number));
        for mut numbers in seen {
            if !in_time {
                numbers.sort_unstable();
            }
            assert_same(numbers, 0..per_thread);
        }
        in_time.then_some(())
    });
}

/// More than the timer thread takes in at a time.
#[test]
#[cfg_attr(miri, ignore = "too many entries")]
fn tasks_run_in_the_order_of_their_ticks_however_many_the_hold_up_gathered() {
    let order = order_after_a_hold_up(8_000);
    assert!(order.is_sorted(), "by deadline, and then by call");
}

#[test]
fn on_a_pool_of_one_thread_equal_deadlines_run_in_the_order_of_the_calls() {
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    in_lead(|lead| {
        let due = scheduler.now() + lead;
        let (sender, receiver) = mpsc::channel();
        for number in 0..1_000 {
            let sender = sender.clone();
            let _ = scheduler.schedule_at(due, move || sender.send(number).unwrap()).unwrap();
        }
        drop(sender);
        let in_time = scheduler.now() < due;
        let order: Vec<i32> = receiver.iter().collect();
        // A call after the deadline runs at once, and so may overtake.
        in_time.then(|| assert_same(order, 0..1_000))
    });
}

#[test]
fn inline_tasks_that_schedule_each_other_at_once_keep_no_timer_out() {
    // Many more than are fired in one turn, so that there is always something due.
    fn again(timers: lars_scheduler::Handle) {
        let next = timers.clone();
        let _ = timers.schedule_once(Duration::ZERO, move || again(next));
    }
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ = scheduler.schedule_once(ms(20), move || sender.send(()).unwrap()).unwrap();
    for _ in 0..2_000 {
        again(scheduler.handle());
    }
    receiver.recv_timeout(common::PATIENCE).unwrap();
}

#[test]
fn a_zero_delay_overtakes_what_waits_for_the_tick() {
    let time = common::ticked(ms(10), 512);
    let notes = common::Notes::new();
    let (waits, at_once) = (notes.clone(), notes.clone());
    let _ = time.schedule_once(ms(5), move || waits.add("rounded up")).unwrap();
    time.advance(ms(5));
    let _ = time.schedule_once(Duration::ZERO, move || at_once.add("at once")).unwrap();
    time.advance(ms(5));
    assert_eq!(notes.take(), ["at once", "rounded up"]);
}
