//! Faults: what foreign code, the machine and the operating system can do to a scheduler. (Panics
//! have a file of their own, `tests/it/panics.rs`.)
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[cfg(all(target_os = "linux", not(miri)))]
mod linux;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Notes, PATIENCE, Xorshift, assert_same, eventually, in_lead, ms, ns, occupy, scaled, secs,
    settle, ticked,
};
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{
    Cancellable, Executor, Handle, LightArrayRevolverScheduler, MissedTickBehavior, Periodic, Task,
};

/// Uses the scheduler while it is dropped: schedules, cancels and moves, and says that it could.
struct Reentrant {
    timers: Handle,
    victim: Arc<Cancellable>,
    done: mpsc::Sender<bool>,
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        self.victim.reset(secs(7_200));
        let accepted = self.timers.schedule_once(ms(1), || ()).is_ok();
        let batch = (0..3).map(|number| (ms(number), || ()));
        assert_eq!(self.timers.schedule_batch(batch).is_ok(), accepted);
        self.victim.cancel();
        let _ = (self.timers.metrics(), self.timers.pending());
        self.done.send(accepted).unwrap();
    }
}

fn reentrant(timers: &Handle) -> (Reentrant, mpsc::Receiver<bool>) {
    let (done, wait) = mpsc::channel();
    let victim = Arc::new(timers.schedule_once(secs(3_600), || ()).unwrap());
    (Reentrant { timers: timers.clone(), victim, done }, wait)
}

/// Runs `f` on a thread of its own, so that a deadlock fails the test and does not hang it.
fn in_time(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        f();
        done.send(()).unwrap();
    });
    match wait.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn a_destructor_may_use_the_scheduler_wherever_a_task_can_be_dropped() {
    in_time(|| {
        let scheduler =
            LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
        // After its run, on the timer thread and on the pool.
        for inline in [true, false] {
            let (value, dropped) = reentrant(&scheduler);
            let task = Task::new(move || drop(value));
            let task = if inline { task.inline() } else { task };
            let _ = scheduler.schedule_once(Duration::ZERO, task).unwrap();
            assert!(dropped.recv_timeout(PATIENCE).unwrap());
        }
        // In a cancel, as the captures of the task and of its hook, armed or not.
        for held_up in [true, false] {
            let busy = held_up.then(|| occupy(&scheduler));
            let (value, dropped) = reentrant(&scheduler);
            let (hooks, hooks_dropped) = reentrant(&scheduler);
            let task = Task::new(move || drop(value)).on_cancel(move || drop(hooks));
            let timer = scheduler.schedule_once(secs(10), task).unwrap();
            drop(busy);
            if !held_up {
                settle(&scheduler);
            }
            assert!(timer.cancel());
            assert!(dropped.recv().unwrap() && hooks_dropped.recv().unwrap());
        }
        // As a series, cancelled from outside.
        let (value, dropped) = reentrant(&scheduler);
        let run = move || assert!(!value.timers.is_stopped());
        assert!(scheduler.schedule_at_fixed_rate(secs(1), secs(1), run).unwrap().cancel());
        assert!(dropped.recv().unwrap());
        // Handed back and dropped, by us.
        let (value, dropped) = reentrant(&scheduler);
        let timer = scheduler.schedule_once(secs(10), move || drop(value)).unwrap();
        drop(scheduler.stop().wait());
        assert!(!dropped.recv().unwrap(), "refused, and no more");
        assert!(!timer.cancel());
        // Refused.
        let other = LightArrayRevolverScheduler::new().unwrap();
        let (value, dropped) = reentrant(&other);
        drop(scheduler.schedule_once(secs(10), move || drop(value)));
        assert!(dropped.recv().unwrap());
        // Dropped with the owner, and with the future of a stop that nobody waits for, on the timer
        // thread.
        let (value, dropped) = reentrant(&other);
        let _ = other.schedule_once(secs(10), move || drop(value)).unwrap();
        drop(other);
        assert!(!dropped.recv().unwrap());
        let other = LightArrayRevolverScheduler::new().unwrap();
        let (value, dropped) = reentrant(&other);
        let _ = other.schedule_once(secs(10), move || drop(value)).unwrap();
        drop(other.stop());
        assert!(!dropped.recv_timeout(PATIENCE).unwrap());
    });
}

/// Panics when it is woken.
struct PanickingWaker(AtomicBool);

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("expected by this test");
    }
}

#[test]
fn a_waker_that_panics_when_the_stop_resolves_keeps_no_task_from_being_handed_back() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let _ = scheduler.schedule_once(secs(10), || ()).unwrap();
    let busy = occupy(&scheduler);
    let mut stop = pin!(scheduler.stop());
    let panicking = Arc::new(PanickingWaker(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&panicking));
    assert!(stop.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(busy);
    eventually("the waker to be woken", || panicking.0.load(Ordering::SeqCst));
    // The tasks were there before it was woken.
    let mut context = Context::from_waker(Waker::noop());
    let mut pending = None;
    eventually("the tasks", || match stop.as_mut().poll(&mut context) {
        std::task::Poll::Ready(tasks) => pending.replace(tasks).is_none(),
        std::task::Poll::Pending => false,
    });
    assert_eq!(pending.map(|tasks| tasks.len()), Some(1));
    drop(scheduler); // and the thread ends
}

/// Uses the scheduler when it is woken.
struct BusyWaker(Mutex<Option<LightArrayRevolverScheduler>>, mpsc::Sender<bool>);

impl Wake for BusyWaker {
    fn wake(self: Arc<Self>) {
        let scheduler = self.0.lock().unwrap().take().unwrap();
        let refused = scheduler.schedule_once(Duration::ZERO, || ()).is_err();
        let nothing = scheduler.stop().wait().is_empty();
        // On the timer thread, which would wait for itself.
        let not_here = scheduler.close().is_err();
        drop(scheduler);
        self.1.send(refused && nothing && not_here).unwrap();
    }
}

#[test]
fn a_waker_may_use_the_scheduler_whose_stop_wakes_it_and_drop_it() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let handle = scheduler.handle();
    let busy = occupy(&handle);
    let mut stop = pin!(scheduler.stop());
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::from(Arc::new(BusyWaker(Mutex::new(Some(scheduler)), sender)));
    assert!(stop.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(busy);
    assert!(receiver.recv_timeout(PATIENCE).unwrap());
}

/// Blocks the timer thread until it is let go, once, and then runs tasks where it is, using the
/// scheduler.
struct Blocking {
    entered: mpsc::Sender<()>,
    gate: Mutex<mpsc::Receiver<()>>,
    own: Mutex<Option<Handle>>,
}

impl Executor for Blocking {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        if self.entered.send(()).is_ok() {
            let _ = self.gate.lock().unwrap().recv();
        }
        if let Some(timers) = self.own.lock().unwrap().take() {
            let timer = timers.schedule_once(secs(5), || ()).unwrap();
            assert!(timer.reset(secs(6)) && timer.cancel());
        }
        task.run();
        Ok(())
    }
}

#[test]
fn an_executor_that_blocks_or_uses_the_scheduler_holds_up_what_it_is_given_and_loses_nothing() {
    in_lead(|lead| {
        let ((entered, inside), (release, gate)) = (mpsc::channel(), mpsc::channel());
        let executor =
            Arc::new(Blocking { entered, gate: Mutex::new(gate), own: Mutex::default() });
        let scheduler =
            LightArrayRevolverScheduler::builder().executor(Arc::clone(&executor)).build().unwrap();
        *executor.own.lock().unwrap() = Some(scheduler.handle());
        let notes = Notes::new();
        let first = scheduler.now() + lead;
        for number in 0..50_u64 {
            let note = notes.clone();
            let due = first + ms(number % 7);
            let run = move || note.add((number % 7, Instant::now() >= due));
            let _ = scheduler.schedule_at(due, run).unwrap();
        }
        let in_time = scheduler.now() < first;
        inside.recv_timeout(PATIENCE).unwrap();
        // Held up, it accepts and cancels as before.
        let timer = scheduler.schedule_once(secs(10), || ()).unwrap();
        assert!(timer.cancel());
        drop((inside, release));
        eventually("all tasks", || notes.len() == 50);
        let ran = notes.take();
        assert!(ran.iter().all(|(_, late)| *late), "none early");
        let in_order = ran.is_sorted_by_key(|(millis, _)| *millis);
        in_time.then(|| assert!(in_order, "in the order of their ticks: {ran:?}"))
    });
}

#[test]
fn a_clock_that_jumps_by_centuries_fires_everything_once_and_in_order() {
    let mut random = Xorshift(7);
    for (tick, wheel) in [(ns(1), 2), (ms(1), 512), (secs(3_600), 8)] {
        let time = ticked(tick, wheel);
        let ran = Notes::new();
        let timers = scaled(10_000, 100);
        let mut due: Vec<_> = (0..timers)
            .map(|number| {
                let (note, delay) = (ran.clone(), ns(random.magnitude(63)));
                let _ = time.schedule_once(delay, move || note.add((delay, number))).unwrap();
                (delay, number)
            })
            .collect();
        due.sort_unstable();
        let centuries = secs(292 * 365 * 24 * 3_600);
        assert_eq!(time.advance(centuries), timers);
        assert_same(ran.take(), due);
    }
}

#[test]
fn a_rate_whose_runs_were_held_up_over_a_jump_of_centuries_goes_by_its_rule() {
    let hand = common::ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(hand.clone()).build_virtual().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    for missed in [MissedTickBehavior::Skip, MissedTickBehavior::Delay] {
        let runs = Arc::clone(&count);
        let run = Periodic::new(move || {
            runs.fetch_add(1, Ordering::SeqCst);
        });
        let rate = time.schedule_at_fixed_rate(ms(1), ms(1), run.missed_ticks(missed)).unwrap();
        time.advance(ms(1));
        // It waits for its thread for 300 years.
        time.advance(secs(300 * 365 * 24 * 3_600));
        assert!(hand.run_next() && !hand.run_next());
        time.advance(ms(10));
        assert_eq!(hand.waiting(), 1, "one run, not ten billion");
        assert!(rate.cancel());
        assert!(hand.run_next());
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn many_schedulers_live_in_one_process_and_do_not_mix_up_their_timers() {
    const EACH: u64 = 20;
    let schedulers: Vec<_> = (0..scaled(256, 4))
        .map(|_| {
            let builder = LightArrayRevolverScheduler::builder().inline().thread_name("of many");
            (builder.build().unwrap(), Arc::new(AtomicU64::new(0)))
        })
        .collect();
    let mut held = Vec::new();
    for number in 0..EACH {
        for (scheduler, count) in &schedulers {
            let count = Arc::clone(count);
            let run = move || {
                count.fetch_add(1, Ordering::SeqCst);
            };
            let delay = if number % 4 == 0 { secs(3_600) } else { ms(number) };
            held.push(scheduler.schedule_once(delay, run).unwrap());
        }
    }
    for (_, count) in &schedulers {
        eventually("the runs", || count.load(Ordering::SeqCst) == EACH - EACH / 4);
    }
    for (scheduler, count) in schedulers {
        assert_eq!(scheduler.pending(), EACH / 4);
        assert_eq!(scheduler.close().unwrap().ran as u64, EACH / 4);
        assert_eq!(count.load(Ordering::SeqCst), EACH);
    }
    assert!(held.iter().all(|timer| !timer.cancel()));
}

/// `cargo test --release -p lars-scheduler --test faults -- --ignored ten_million`
#[test]
#[ignore = "takes a gigabyte of memory"]
fn ten_million_pending_timers_take_64_bytes_each_and_are_all_accounted_for() {
    const TIMERS: usize = 10_000_000;
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    let mut random = Xorshift(3);
    let begin = Instant::now();
    let mut held: Vec<_> = (0..TIMERS)
        .map(|_| {
            let ran = Arc::clone(&ran);
            let delay = secs(3_600) + ns(random.magnitude(50));
            let run = move || {
                ran.fetch_add(1, Ordering::Relaxed);
            };
            scheduler.schedule_once(delay, run).unwrap()
        })
        .collect();
    let scheduled = begin.elapsed();
    settle(&scheduler);
    assert_eq!(scheduler.pending(), TIMERS as u64);
    let memory = scheduler.metrics().timer_memory;
    // (Some entries more: the newest block has a rest, and a few are on their way back.)
    assert!(memory < 64 * (TIMERS + 100_000), "{memory} bytes");
    // All are moved nearer; a third runs, a third is cancelled, the rest is handed back.
    for (number, timer) in held.iter().enumerate() {
        assert!(timer.reset(if number % 3 == 0 { ms(1) } else { secs(1_800) }));
    }
    eventually("the runs", || ran.load(Ordering::Relaxed) == TIMERS.div_ceil(3) as u64);
    let third = held.iter().skip(1).step_by(3).filter(|timer| timer.cancel()).count();
    let rest = scheduler.stop().wait();
    assert_eq!(rest.len() + third + TIMERS.div_ceil(3), TIMERS);
    drop(rest);
    assert_eq!(Arc::strong_count(&ran), 1, "every capture was dropped");
    held.clear();
    println!("{TIMERS} timers scheduled in {scheduled:.1?}, {memory} bytes");
}
